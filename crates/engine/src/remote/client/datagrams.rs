//! A client's connection over datagrams: the [`Owner`] of a queue pair whose socket was opened for it.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use buf::{Account, Pool};
use host::{Dialer, LocalPort, OpenSocket};
use names::ROCE_PORT;
use protocol::{Ended, Entropy, Instant};
use roce::Endpoint;
use roce::endpoint::{Inbound, Target};
use roce::train::Train;
use verbs::{Consumer, PrivateData, QueueLimits};

use super::super::link::Link;
use super::{Client, ClientRole, Dial, NO_ANSWER, NO_ROUTE};
use crate::carried::Carried;
use crate::limits::CLIENT_POOL;
use crate::queue_pairs::{Begin, ClientSocket, Joining, OverDatagrams, Owner, RoceLink, Socket};

/// What a client asks its peer for.
pub(crate) struct Wish {
    /// The peer's socket.
    pub(crate) peer: SocketAddr,
    /// The port whose service is wanted.
    pub(crate) service: u16,
    pub(crate) queues: QueueLimits,
    pub(crate) private_data: PrivateData,
    pub(crate) entropy: Box<dyn Entropy>,
}

/// Makes the consumer of a queue pair.
pub(crate) type Join<C> = Box<dyn FnOnce(Instant, roce::Connection) -> C>;

impl<C, R> Client<R>
where
    C: Consumer<QueuePair = roce::Connection> + 'static,
    R: ClientRole<Connection = OverDatagrams<C>> + 'static,
{
    /// Asks for a queue pair, at a socket of its own.
    pub(crate) fn ask(dialer: &Arc<dyn Dialer>, wish: Wish, join: Join<C>, dial: Dial<R::Info>) -> Rc<Link> {
        let (link, peer) = (Link::new(dial.owner.waker.clone()), wish.peer);
        let client = Self::unconnected(Rc::clone(&link), dial);
        let socket = Box::new(ClientSocket::new(Box::new(Opening { client, wish, join })));
        link.set_endpoint(dialer.open_socket(peer, local_port(peer.port()), socket));
        link
    }
}

/// The port that a peer answers to: RoCEv2's own, or, where that is not the peer's, any.
fn local_port(udp_port: u16) -> LocalPort {
    if udp_port == ROCE_PORT { LocalPort::Given(ROCE_PORT) } else { LocalPort::Any }
}

/// A client whose socket is being opened.
struct Opening<R: ClientRole, C> {
    client: Client<R>,
    wish: Wish,
    join: Join<C>,
}

impl<C, R> Begin for Opening<R, C>
where
    C: Consumer<QueuePair = roce::Connection> + 'static,
    R: ClientRole<Connection = OverDatagrams<C>> + 'static,
{
    fn begin(self: Box<Self>, now: Instant, opened: OpenSocket) -> Socket {
        let Self { mut client, wish: Wish { peer, service, queues, private_data, entropy }, join } = *self;
        let pool = Pool::new(CLIENT_POOL);
        let mut socket = Socket::new(Endpoint::new(opened.local, Account::new(&pool), entropy));
        let config = RoceLink::over(opened.path.unwrap_or_default()).initiator(queues);
        let target = Target { address: peer, port: service, config, private_data };
        match socket.connect(now, target, Account::new(&pool)) {
            Ok(pair) => {
                let id = pair.id();
                client.connection = Some(OverDatagrams::new(now, join(now, pair)));
                let owner = Box::new(Waiting::new(now, client));
                socket.insert(Joining { id, name: opened.endpoint, owner });
            }
            Err(_) => client.end(now, Ended::Failed(NO_ROUTE[1])),
        }
        socket
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
    R: ClientRole<Connection = OverDatagrams<C>>,
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
    R: ClientRole<Connection = OverDatagrams<C>>,
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
        self.client.connection.as_ref().is_none_or(OverDatagrams::is_finished)
    }

    fn expects_work(&self) -> bool {
        self.client.is_awaiting()
    }
}
