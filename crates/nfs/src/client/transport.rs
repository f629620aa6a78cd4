//! A client over a byte stream, and over queue pairs.

use core::time::Duration;

use buf::Account;
use protocol::Instant;
use rpc::rdma::{self, RdmaConnection};
use rpc::tcp::TcpConnection;
use verbs::{ManagedQueuePair, PrivateData, QueueLimits};

use super::config::Config;
use super::connection::NfsClient;
use super::limits::{DEPTH, PAYLOAD};
use super::names::{NamesClient, NamesConfig};

/// A client over TCP.
pub type TcpClient = TcpConnection<NfsClient>;

/// A client of names over TCP.
pub type TcpNames = TcpConnection<NamesClient>;

/// A client over RDMA.
pub type RdmaClient<Q> = RdmaConnection<NfsClient, Q>;

/// Calls under way beside those of requests: a step, a sign of life.
const OWN_CALLS: u32 = 2;
/// Bytes of the longest reply beside its payload.
const BESIDE: usize = 64 << 10;

/// What a connection may hold.
fn rpc_config(call_time: Duration, first_xid: u32) -> rpc::Config {
    rpc::Config {
        longest_record: wire::index(PAYLOAD.into()).saturating_add(BESIDE),
        calls_received: 1,
        calls_sent: wire::index(DEPTH.saturating_add(OWN_CALLS).into()),
        call_time,
        ..rpc::Config::new(first_xid)
    }
}

/// A client whose connection has just been made. `first_xid` is a random number.
pub fn connect(now: Instant, config: Config, first_xid: u32) -> TcpClient {
    let rpc = rpc_config(config.command_time, first_xid);
    let mut connection = TcpConnection::new(NfsClient::new(config), rpc);
    let parts = connection.parts();
    parts.upper.start(now, parts.channel);
    connection
}

/// A client of names whose connection has just been made. `first_xid` is a random number.
pub fn connect_names(now: Instant, config: NamesConfig, first_xid: u32) -> TcpNames {
    let rpc = rpc_config(config.command_time, first_xid);
    let mut connection = TcpConnection::new(NamesClient::new(config), rpc);
    let parts = connection.parts();
    parts.upper.start(now, parts.channel);
    connection
}

/// What the queue pair of a client says while it connects (RFC 8797).
pub fn private_data<Q: ManagedQueuePair>() -> PrivateData {
    RdmaClient::<Q>::private_data()
}

/// What the queue pair of a client must hold.
pub fn needs<Q: ManagedQueuePair>(config: &Config) -> QueueLimits {
    RdmaClient::<Q>::needs(&rpc_config(config.command_time, 0), rdma::Role::Client)
}

/// A client whose queue pair is being set up, and has said [`private_data`]. Its receives are charged to `account`.
pub fn connect_over<Q: ManagedQueuePair>(
    now: Instant,
    pair: Q,
    config: Config,
    first_xid: u32,
    account: Account,
) -> RdmaClient<Q> {
    let rpc = rpc_config(config.command_time, first_xid);
    let mut connection = RdmaClient::new(NfsClient::new(config), pair, rpc, rdma::Role::Client, account);
    let parts = connection.parts();
    parts.upper.start(now, parts.channel);
    connection
}
