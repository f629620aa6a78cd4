//! A client's connection over datagrams: the [`Owner`] of a queue pair which shares its socket with others of its core.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use buf::Pool;
use host::{Dialer, IoError, Path};
use names::ROCE_PORT;
use protocol::{Ended, Instant};
use roce::endpoint::{Inbound, Target};
use roce::train::Train;
use verbs::{Consumer, PrivateData, QueueLimits};

use super::super::link::Link;
use super::{Client, ClientRole, Dial, NO_ANSWER, NO_ROUTE};
use crate::carried::Carried;
use crate::config::EntropySource;
use crate::limits::CLIENT_POOL;
use crate::queue_pairs::{Begin, Joining, OverQueuePair, Owner, OwnerName, RoceLink, Socket, begin_at};

/// What a client asks its peer for.
pub(crate) struct Wish {
    /// The peer's socket.
    pub(crate) peer: SocketAddr,
    /// The port whose service is wanted.
    pub(crate) service: u16,
    pub(crate) queues: QueueLimits,
    pub(crate) private_data: PrivateData,
    /// For the numbers of a socket that is opened for it.
    pub(crate) entropy: EntropySource,
}

/// Makes the consumer of a queue pair.
pub(crate) type Join<C> = Box<dyn FnOnce(Instant, roce::Connection) -> C>;

impl<C, R> Client<R>
where
    C: Consumer<QueuePair = roce::Connection> + 'static,
    R: ClientRole<Connection = OverQueuePair<C>> + 'static,
{
    /// Asks for a queue pair, at the calling core's socket.
    pub(crate) fn ask(dialer: &Arc<dyn Dialer>, wish: Wish, join: Join<C>, dial: Dial<R::Info>) -> Rc<Link> {
        let link = Link::new(dial.owner.waker.clone());
        let mut client = Self::unconnected(Rc::clone(&link), dial);
        match dialer.path_to(wish.peer) {
            Ok(path) => {
                let local = SocketAddr::new(path.local, local_port(wish.peer.port()));
                let entropy = (wish.entropy)();
                let opening = Box::new(Opening { client, wish, join, path });
                link.set_endpoint(begin_at(local, dialer, opening, entropy));
            }
            Err(IoError(code)) => client.end(Instant::ZERO, Ended::Failed(code)),
        }
        link
    }
}

/// The port that a peer answers to: RoCEv2's own, or, where that is not the peer's, any.
fn local_port(udp_port: u16) -> u16 {
    if udp_port == ROCE_PORT { ROCE_PORT } else { 0 }
}

/// A client whose connection begins with the next turn of its socket.
struct Opening<R: ClientRole, C> {
    client: Client<R>,
    wish: Wish,
    join: Join<C>,
    path: Path,
}

impl<C, R> Begin for Opening<R, C>
where
    C: Consumer<QueuePair = roce::Connection> + 'static,
    R: ClientRole<Connection = OverQueuePair<C>> + 'static,
{
    fn begin(self: Box<Self>, now: Instant, socket: &mut Socket) {
        let Self { mut client, wish: Wish { peer, service, queues, private_data, .. }, join, path } = *self;
        let config = RoceLink::over(path.mtu).initiator(queues);
        let target = Target { address: peer, port: service, config, private_data };
        match socket.connect(now, target, &Pool::new(CLIENT_POOL)) {
            Ok(pair) => {
                let id = pair.id();
                client.connection = Some(OverQueuePair::new(now, join(now, pair)));
                let owner = Box::new(Waiting::new(now, client));
                socket.insert(Joining { id, name: OwnerName::Socket, owner });
            }
            Err(_) => client.end(now, Ended::Failed(NO_ROUTE[1])),
        }
    }

    fn fail(mut self: Box<Self>, now: Instant, how: Ended) {
        self.client.end(now, how);
    }
}

/// A client that waits for its peer until then.
struct Waiting<R: ClientRole> {
    client: Client<R>,
    /// None once it is connected.
    until: Option<Instant>,
}

impl<C, R> Waiting<R>
where
    C: Consumer<QueuePair = roce::Connection>,
    R: ClientRole<Connection = OverQueuePair<C>>,
{
    /// The client of a queue pair that was just asked for.
    fn new(now: Instant, client: Client<R>) -> Self {
        let until = Some(now + client.patience);
        Self { client, until }
    }

    /// Lets the inside know of a queue pair that has ended and said so.
    fn follow_end(&mut self, now: Instant) {
        let Some(connection) = &self.client.connection else { return };
        if connection.is_connected() {
            self.until = None;
        }
        if connection.is_finished() {
            self.client.end(now, Ended::ByPeer);
        }
    }
}

impl<C, R> Owner for Waiting<R>
where
    C: Consumer<QueuePair = roce::Connection>,
    R: ClientRole<Connection = OverQueuePair<C>>,
{
    fn handle_packet(&mut self, now: Instant, packet: Inbound<'_>) {
        if let Some(connection) = &mut self.client.connection {
            connection.handle_packet(now, packet);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.until.is_some_and(|until| until <= now) {
            self.until = None;
            return self.client.end(now, Ended::Failed(NO_ANSWER));
        }
        self.client.leave_if_unused();
        if let Some(connection) = &mut self.client.connection {
            connection.pass_deadline(now);
        }
    }

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        self.client.end(now, how);
    }

    fn turn(&mut self, now: Instant) {
        self.client.take_turn(now);
        if let Some(connection) = &mut self.client.connection {
            let reason = connection.close_reason();
            connection.leave(now, reason);
        }
        self.follow_end(now);
    }

    fn fill(&mut self, now: Instant, train: &mut Train) {
        if let Some(connection) = &mut self.client.connection {
            connection.fill(now, train);
        }
        self.client.act();
        if train.is_empty() {
            self.follow_end(now);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let deadline = self.client.connection.as_ref().and_then(Carried::next_deadline);
        [deadline, self.until].into_iter().flatten().min()
    }

    fn is_gone(&self) -> bool {
        self.client.connection.as_ref().is_none_or(OverQueuePair::is_finished)
    }

    fn expects_work(&self) -> bool {
        self.client.is_awaiting()
    }
}
