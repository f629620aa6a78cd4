//! A client over a byte stream.

use protocol::Instant;
use rpc::tcp::TcpConnection;

use super::config::Config;
use super::connection::NfsClient;
use super::limits::{DEPTH, PAYLOAD};

/// A client over TCP.
pub type TcpClient = TcpConnection<NfsClient>;

/// Calls under way beside those of requests: a step, a sign of life.
const OWN_CALLS: u32 = 2;
/// Bytes of the longest reply beside its payload.
const BESIDE: usize = 64 << 10;

/// A client whose connection has just been made. `first_xid` is a random number.
pub fn connect(now: Instant, config: Config, first_xid: u32) -> TcpClient {
    let rpc = rpc::Config {
        longest_record: wire::index(PAYLOAD.into()).saturating_add(BESIDE),
        calls_received: 1,
        calls_sent: wire::index(DEPTH.saturating_add(OWN_CALLS).into()),
        call_time: config.command_time,
        ..rpc::Config::new(first_xid)
    };
    let mut connection = TcpConnection::new(NfsClient::new(config), rpc);
    let parts = connection.parts();
    parts.upper.start(now, parts.channel);
    connection
}
