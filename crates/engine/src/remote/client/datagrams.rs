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

    /// Ends a connection that is to end. A client awaits the answer to its last words before, so that it has none left. What it has given up must not go out: how long that may
    /// take effect counts from now (docs/decisions/0003).
    fn leave(&mut self, now: Instant) {
        if let Some(connection) = &mut self.client.connection {
            connection.leave_at_once(now);
        }
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
        self.leave(now);
        self.follow_end(now);
    }

    fn fill(&mut self, now: Instant, train: &mut Train) {
        self.leave(now);
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

#[cfg(test)]
mod tests {
    use std::task::Waker;
    use std::time::Duration;

    use buf::{Account, Buf, BufList};
    use protocol::{CloseReason, SeededEntropy};
    use roce::endpoint::{Arrival, Incoming};
    use roce::management::QUEUE_PAIR;
    use roce::mtu::Mtu;
    use roce::{Config, Endpoint};
    use verbs::{ManagedQueuePair as _, QueuePair as _, SetupAnswer, WorkId, WorkRequest};

    use super::super::super::link::LinkInput;
    use super::super::{Hooks, Report};
    use super::*;

    /// Sends something once it is open, and ends when it is told to.
    struct Sender {
        pair: roce::Connection,
        is_abandoned: bool,
    }

    impl Consumer for Sender {
        type QueuePair = roce::Connection;
        type Input = LinkInput;
        type Action = Report<()>;

        fn queue_pair(&mut self) -> &mut roce::Connection {
            &mut self.pair
        }
        fn queue_pair_ref(&self) -> &roce::Connection {
            &self.pair
        }
        fn handle_progress(&mut self, _: Instant) {}
        fn handle_input(&mut self, _: Instant, input: LinkInput) {
            self.is_abandoned |= matches!(input, LinkInput::Abandon);
        }
        fn handle_deadline(&mut self, now: Instant) {
            self.pair.handle_deadline(now);
        }
        fn handle_ended(&mut self, _: Instant) {}
        fn poll_action(&mut self) -> Option<Report<()>> {
            None
        }
        fn next_deadline(&self) -> Option<Instant> {
            self.pair.next_deadline()
        }
        fn is_established(&self) -> bool {
            self.pair.is_connected()
        }
        fn awaits_memory(&self) -> bool {
            false
        }
        fn close_reason(&self) -> Option<CloseReason> {
            self.is_abandoned.then_some(CloseReason::Finished)
        }
    }

    struct Role;

    impl ClientRole for Role {
        type Connection = OverQueuePair<Sender>;
        type Info = ();

        fn input(input: LinkInput) -> LinkInput {
            input
        }
        fn report(action: Report<()>) -> Report<()> {
            action
        }
    }

    const CONFIG: Config = Config {
        queues: QueueLimits { sends: 4, receives: 4, regions: 4, longest: 1 << 16 },
        mtu: Mtu::Bytes1024,
        reads_served: 1,
        reads_sent: 1,
    };

    fn endpoint(address: &str, seed: u64) -> Endpoint {
        let account = Account::new(&Pool::new(1 << 20));
        Endpoint::new(address.parse().unwrap(), account, Box::new(SeededEntropy::new(seed)))
    }

    const NEAR: &str = "10.0.0.1:4791";
    const FAR: &str = "10.0.0.2:4791";

    /// A client whose queue pair is open.
    fn client(now: Instant) -> Waiting<Role> {
        let account = || Account::new(&Pool::new(1 << 20));
        let (mut near, mut far) = (endpoint(NEAR, 1), endpoint(FAR, 2));
        let (address, private_data) = (FAR.parse().unwrap(), PrivateData::NONE);
        let target = Target { address, port: 4420, config: CONFIG, private_data };
        let mut pair = near.connect(now, target, account()).unwrap();
        let mut train = Train::default();
        pair.poll_transmit(now, &mut train);
        let Arrival::Request(request) = far.handle_datagram(NEAR.parse().unwrap(), train.bytes()) else {
            panic!("it is a request");
        };
        let mut granted = far.accept(now, Incoming { request, config: CONFIG }, account()).unwrap();
        granted.handle_answer(now, SetupAnswer::Accept(PrivateData::NONE));
        train.clear();
        granted.poll_transmit(now, &mut train);
        let Arrival::Packet(_, reply) = near.handle_datagram(FAR.parse().unwrap(), train.bytes()) else {
            panic!("it is the reply");
        };
        pair.handle_packet(now, reply);
        let (waker, purpose) = (Waker::noop().clone(), Arc::new(()));
        let link = Link::new(waker.clone());
        let dial = Dial {
            address,
            command_time: Duration::from_secs(30),
            owner: super::super::Owner { waker, purpose },
            hooks: Hooks { tell: Box::new(|(), _| {}), turn: None },
        };
        let mut client = Client::<Role>::unconnected(link, dial);
        client.connection = Some(OverQueuePair::new(now, Sender { pair, is_abandoned: false }));
        Waiting::new(now, client)
    }

    /// Lets the client send for ten seconds: the number of the queue pair that each datagram was for.
    fn sends(client: &mut Waiting<Role>, mut now: Instant) -> Vec<u32> {
        let (end, mut sent) = (now + Duration::from_secs(10), Vec::new());
        while now < end {
            client.turn(now);
            let mut train = Train::default();
            client.fill(now, &mut train);
            let datagrams = train.bytes().chunks(train.segment().max(1));
            sent.extend(datagrams.map(|bytes| u32::from_be_bytes([0, bytes[5], bytes[6], bytes[7]])));
            now = now + Duration::from_millis(50);
            if client.poll_timeout().is_some_and(|due| due <= now) {
                client.handle_timeout(now);
            }
        }
        sent
    }

    #[test]
    fn a_connection_that_is_given_up_sends_nothing_again_but_its_disconnect() {
        for is_abandoned in [false, true] {
            let now = Instant::ZERO;
            let mut client = client(now);
            let pair = &mut client.client.connection.as_mut().unwrap().consumer.pair;
            let request =
                WorkRequest::Send { data: BufList::from(Buf::zeroed(64).freeze()), invalidate: None };
            pair.post(WorkId(1), request).unwrap();
            let mut train = Train::default();
            for _ in 0..2 {
                train.clear();
                client.fill(now, &mut train);
            }
            assert_ne!(train.bytes()[7], 1, "it is sent once");
            if is_abandoned {
                client.client.link.push(LinkInput::Abandon);
            }
            let sent = sends(&mut client, now);
            let data = sent.iter().filter(|number| **number != QUEUE_PAIR).count();
            assert_eq!(data == 0, is_abandoned, "{sent:?}");
            assert!(sent.contains(&QUEUE_PAIR), "a disconnect, in either case");
        }
    }
}
