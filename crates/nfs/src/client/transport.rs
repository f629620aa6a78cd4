//! A client over a byte stream, and over queue pairs.

use core::time::Duration;

use buf::Account;
use protocol::Instant;
use rpc::rdma::{self, RdmaConnection};
use rpc::tcp::TcpConnection;
use rpc::{Channel, UpperLayer};
use verbs::{ManagedQueuePair, PrivateData, QueueLimits};

use super::config::Config;
use super::connection::{Action, Input, NfsClient};
use super::limits::{DEPTH, PAYLOAD};
use super::names::{NamesClient, NamesConfig};
use super::version3::{MountClient, MountConfig, Nfs3Client, Nfs3Config};

/// A client over TCP.
pub type TcpClient = TcpConnection<NfsClient>;

/// A client of version 3 over TCP.
pub type TcpNfs3 = TcpConnection<Nfs3Client>;

/// A client of names over TCP.
pub type TcpNames = TcpConnection<NamesClient>;

/// A client of MOUNT over TCP.
pub type TcpMount = TcpConnection<MountClient>;

/// What a client is told when it connects, which decides what it speaks.
pub trait ClientConfig: Sized {
    /// The client.
    type Client: UpperLayer;

    /// How long a call may take.
    fn call_time(&self) -> Duration;

    /// A client whose connection has just been made.
    fn into_client(self) -> Self::Client;

    /// Sends its first call.
    fn start(
        client: &mut Self::Client,
        now: Instant,
        channel: &mut Channel<<Self::Client as UpperLayer>::Results>,
    );
}

/// A file as a volume, in version 4 or in version 3.
pub trait FileConfig: ClientConfig<Client: UpperLayer<Input = Input, Action = Action>> {}

/// Every configuration has its client's call time, and `new` and `start` of its client.
macro_rules! client_of {
    ($($config:ty => $client:ty;)*) => {
        $(impl ClientConfig for $config {
            type Client = $client;

            fn call_time(&self) -> Duration {
                self.command_time
            }

            fn into_client(self) -> $client {
                <$client>::new(self)
            }

            fn start(
                client: &mut $client,
                now: Instant,
                channel: &mut Channel<<$client as UpperLayer>::Results>,
            ) {
                client.start(now, channel);
            }
        })*
    };
}

client_of! {
    Config => NfsClient;
    Nfs3Config => Nfs3Client;
    NamesConfig => NamesClient;
    MountConfig => MountClient;
}

impl FileConfig for Config {}
impl FileConfig for Nfs3Config {}

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
pub fn connect<C: ClientConfig>(now: Instant, config: C, first_xid: u32) -> TcpConnection<C::Client> {
    let rpc = rpc_config(config.call_time(), first_xid);
    let mut connection = TcpConnection::new(config.into_client(), rpc);
    let parts = connection.parts();
    C::start(parts.upper, now, parts.channel);
    connection
}

/// What the queue pair of a client says while it connects (RFC 8797): the same for every client.
pub fn private_data<Q: ManagedQueuePair>() -> PrivateData {
    RdmaConnection::<NfsClient, Q>::private_data()
}

/// What the queue pair of a client must hold: the same for every client.
pub fn needs<Q: ManagedQueuePair>(call_time: Duration) -> QueueLimits {
    RdmaConnection::<NfsClient, Q>::needs(&rpc_config(call_time, 0), rdma::Role::Client)
}

/// A client whose queue pair is being set up, and has said [`private_data`]. Its receives are charged to `account`.
pub fn connect_over<C: FileConfig, Q: ManagedQueuePair>(
    now: Instant,
    pair: Q,
    config: C,
    first_xid: u32,
    account: Account,
) -> RdmaConnection<C::Client, Q> {
    let rpc = rpc_config(config.call_time(), first_xid);
    let mut connection = RdmaConnection::new(config.into_client(), pair, rpc, rdma::Role::Client, account);
    let parts = connection.parts();
    C::start(parts.upper, now, parts.channel);
    connection
}
