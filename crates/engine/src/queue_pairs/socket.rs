//! The queue pairs of one socket, and who has each: packets in, trains of them out, deadlines by owner.
//!
//! Owners send in turn, a train each, so that none waits for more than one train of every other. Nothing is allocated for a packet: an owner is listed once, however much comes for
//! it, and a deadline that moves later costs no entry.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use buf::{Account, Pool};
use host::{Datagrams, EndpointId, Membership, SocketSlot};
use protocol::{Ended, Instant};
use roce::endpoint::{Arrival, ConnectionRequest, Incoming, NoConnection, Target};
use roce::train::Train;
use roce::{Connection, ConnectionId, Endpoint};

use super::owner::Owner;
use crate::limits::CONNECTION_REQUESTS;

/// How whoever has something for an owner lets it have a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnerName {
    /// By this name on its core.
    Own(EndpointId),
    /// By that of the socket, of which all such owners have turns together.
    Socket,
}

/// An owner as the socket knows it.
struct Entry {
    owner: Box<dyn Owner>,
    name: OwnerName,
    /// It is to have a turn.
    is_listed: bool,
    /// It may have something to send.
    is_sender: bool,
    /// The earliest entry among the deadlines.
    scheduled: Option<Instant>,
}

/// An owner that begins.
pub(crate) struct Joining {
    pub(crate) id: ConnectionId,
    pub(crate) name: OwnerName,
    pub(crate) owner: Box<dyn Owner>,
}

/// A socket's queue pairs with their owners.
pub(crate) struct Socket {
    endpoint: Endpoint,
    membership: Membership,
    owners: BTreeMap<ConnectionId, Entry>,
    names: BTreeMap<EndpointId, ConnectionId>,
    /// Those without a name of their own.
    nameless: Vec<ConnectionId>,
    listed: Vec<ConnectionId>,
    senders: VecDeque<ConnectionId>,
    deadlines: BinaryHeap<Reverse<(Instant, ConnectionId)>>,
    requests: VecDeque<ConnectionRequest>,
    /// Owners with names that are gone.
    gone: Vec<EndpointId>,
}

impl Socket {
    pub(crate) fn new(endpoint: Endpoint, membership: Membership) -> Self {
        Self {
            endpoint,
            membership,
            owners: BTreeMap::new(),
            names: BTreeMap::new(),
            nameless: Vec::new(),
            listed: Vec::new(),
            senders: VecDeque::new(),
            deadlines: BinaryHeap::new(),
            requests: VecDeque::with_capacity(CONNECTION_REQUESTS),
            gone: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// Begins a connection. Its queue pair takes no share of the pool: its consumer has one.
    pub(crate) fn connect(
        &mut self,
        now: Instant,
        target: Target,
        pool: &Pool,
    ) -> Result<Connection, NoConnection> {
        self.endpoint.connect(now, target, Account::apart(pool))
    }

    /// Grants a request, likewise.
    pub(crate) fn accept(
        &mut self,
        now: Instant,
        incoming: Incoming,
        pool: &Pool,
    ) -> Result<Connection, NoConnection> {
        self.endpoint.accept(now, incoming, Account::apart(pool))
    }

    /// Refuses a request.
    pub(crate) fn refuse(&mut self, request: &ConnectionRequest) {
        self.endpoint.refuse(request);
    }

    /// The next request that nobody has decided about.
    pub(crate) fn take_request(&mut self) -> Option<ConnectionRequest> {
        self.requests.pop_front()
    }

    /// Moves the names of owners that are gone.
    pub(crate) fn take_gone(&mut self, gone: &mut Vec<EndpointId>) {
        gone.append(&mut self.gone);
    }

    /// Takes an owner in.
    pub(crate) fn insert(&mut self, joining: Joining) {
        let Joining { id, name, owner } = joining;
        let entry = Entry { owner, name, is_listed: false, is_sender: false, scheduled: None };
        self.owners.insert(id, entry);
        match name {
            OwnerName::Own(name) => drop(self.names.insert(name, id)),
            OwnerName::Socket => self.nameless.push(id),
        }
        self.touch(id);
    }

    /// Lets an owner have a turn soon: false if it has none of this name.
    pub(crate) fn wake(&mut self, name: EndpointId) -> bool {
        let id = self.names.get(&name).copied();
        id.inspect(|id| self.touch(*id)).is_some()
    }

    fn touch(&mut self, id: ConnectionId) {
        if let Some(entry) = self.owners.get_mut(&id) {
            list(id, entry, (&mut self.listed, &mut self.senders));
        }
    }

    /// Notes a request, unless it has come before. Those beyond the limit are left out: who asks, asks again.
    fn ask(&mut self, request: ConnectionRequest) {
        let is_known = self.requests.iter().any(|known| known.origin() == request.origin());
        if !is_known && self.requests.len() < CONNECTION_REQUESTS {
            self.requests.push_back(request);
        }
    }

    /// Gives each datagram to whom it is for.
    pub(crate) fn handle_datagrams(&mut self, now: Instant, datagrams: &Datagrams<'_>) {
        for datagram in datagrams.each() {
            match self.endpoint.handle_datagram(datagrams.peer, datagram) {
                Arrival::Nothing => {}
                Arrival::Elsewhere(slot) => {
                    let forwarded = Datagrams { bytes: datagram, segment: datagram.len(), ..*datagrams };
                    self.membership.group.forward(SocketSlot(slot), &forwarded);
                }
                Arrival::Packet(id, packet) => {
                    if let Some(entry) = self.owners.get_mut(&id) {
                        entry.owner.handle_packet(now, packet);
                        list(id, entry, (&mut self.listed, &mut self.senders));
                    }
                }
                Arrival::Request(request) => self.ask(request),
                Arrival::Withdrawn(origin) => self.requests.retain(|request| request.origin() != origin),
            }
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.deadlines.peek().map(|Reverse((when, _))| *when)
    }

    /// Lets those whose deadlines have passed know.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some(Reverse((when, id))) = self.deadlines.peek().copied()
            && when <= now
        {
            self.deadlines.pop();
            let Some(entry) = self.owners.get_mut(&id).filter(|entry| entry.scheduled == Some(when)) else {
                continue;
            };
            entry.scheduled = None;
            if entry.owner.poll_timeout().is_some_and(|due| due <= now) {
                entry.owner.handle_timeout(now);
                list(id, entry, (&mut self.listed, &mut self.senders));
            } else {
                schedule(id, entry, &mut self.deadlines);
            }
        }
    }

    /// Lets the owners to whom something has come have their turns, and those without names: it may be theirs that the socket was woken for.
    pub(crate) fn turn(&mut self, now: Instant) {
        for id in &self.nameless {
            if let Some(entry) = self.owners.get_mut(id) {
                list(*id, entry, (&mut self.listed, &mut self.senders));
            }
        }
        let mut listed = std::mem::take(&mut self.listed);
        for id in listed.drain(..) {
            let Some(entry) = self.owners.get_mut(&id) else { continue };
            entry.is_listed = false;
            entry.owner.turn(now);
            self.follow(id);
        }
        listed.append(&mut self.listed);
        self.listed = listed;
    }

    /// Fills a train, which is empty, with what is to be sent next.
    pub(crate) fn fill(&mut self, now: Instant, train: &mut Train) {
        self.endpoint.poll_transmit(train);
        while train.is_empty()
            && let Some(id) = self.senders.pop_front()
        {
            let Some(entry) = self.owners.get_mut(&id) else { continue };
            entry.is_sender = false;
            entry.owner.fill(now, train);
            if !train.is_empty() {
                entry.is_sender = true;
                self.senders.push_back(id);
            }
            self.follow(id);
        }
    }

    /// The socket is gone, or is to go once owners have said so to their peers.
    pub(crate) fn handle_ended(&mut self, now: Instant, how: Ended) {
        for (id, entry) in &mut self.owners {
            entry.owner.handle_ended(now, how);
            list(*id, entry, (&mut self.listed, &mut self.senders));
        }
        self.turn(now);
    }

    pub(crate) fn expects_work(&self) -> bool {
        self.owners.values().any(|entry| entry.owner.expects_work())
    }

    /// Lets go of an owner that is gone; sees to the deadline of one that is not.
    fn follow(&mut self, id: ConnectionId) {
        let Some(entry) = self.owners.get_mut(&id) else { return };
        if !entry.owner.is_gone() {
            return schedule(id, entry, &mut self.deadlines);
        }
        let name = entry.name;
        self.owners.remove(&id);
        self.endpoint.forget(id);
        match name {
            OwnerName::Own(name) => {
                self.names.remove(&name);
                self.gone.push(name);
            }
            OwnerName::Socket => self.nameless.retain(|nameless| *nameless != id),
        }
    }
}

/// An owner is to have a turn, and may have something to send then.
fn list(
    id: ConnectionId,
    entry: &mut Entry,
    (listed, senders): (&mut Vec<ConnectionId>, &mut VecDeque<ConnectionId>),
) {
    if !std::mem::replace(&mut entry.is_listed, true) {
        listed.push(id);
    }
    if !std::mem::replace(&mut entry.is_sender, true) {
        senders.push_back(id);
    }
}

/// Makes sure that an owner hears of its deadline.
fn schedule(
    id: ConnectionId,
    entry: &mut Entry,
    deadlines: &mut BinaryHeap<Reverse<(Instant, ConnectionId)>>,
) {
    let Some(due) = entry.owner.poll_timeout() else { return };
    if entry.scheduled.is_none_or(|earliest| due < earliest) {
        entry.scheduled = Some(due);
        deadlines.push(Reverse((due, id)));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use host::{OpenSocket, SocketGroup};
    use protocol::SeededEntropy;
    use roce::Config;
    use roce::endpoint::Inbound;
    use roce::mtu::Mtu;
    use verbs::{PrivateData, QueueLimits, QueuePair as _};

    use super::super::socket_endpoint::{Seed, queue_pairs};
    use super::*;

    const CONFIG: Config = Config {
        queues: QueueLimits { sends: 4, receives: 4, regions: 4, longest: 1 << 16 },
        mtu: Mtu::Bytes1024,
        reads_served: 1,
        reads_sent: 1,
    };

    fn pool() -> Pool {
        Pool::new(64 << 20)
    }

    /// A group of three, of which the second decides.
    #[derive(Debug, Default)]
    struct Group(Mutex<Vec<(SocketSlot, Vec<u8>)>>);

    impl SocketGroup for Group {
        fn acceptor(&self, _: u32) -> Option<SocketSlot> {
            Some(SocketSlot(1))
        }
        fn forward(&self, to: SocketSlot, datagrams: &Datagrams<'_>) {
            assert_eq!((datagrams.bytes.len(), datagrams.peer), (datagrams.segment, FAR.parse().unwrap()));
            self.0.lock().unwrap().push((to, datagrams.bytes.to_vec()));
        }
    }

    const NEAR: &str = "10.0.0.1:4791";
    const FAR: &str = "10.0.0.2:4791";

    fn socket_of(group: &Arc<Group>, slot: u8) -> Socket {
        let (group, slot) = (Arc::clone(group), SocketSlot(slot));
        let (endpoint, local) = (EndpointId(1), NEAR.parse().unwrap());
        let opened = OpenSocket { endpoint, local, membership: Membership { slot, group } };
        let entropy = Box::new(SeededEntropy::new(1));
        queue_pairs(opened, &pool(), Seed { entropy, counters: Arc::default() })
    }

    fn socket() -> Socket {
        socket_of(&Arc::default(), 1)
    }

    /// Has a turn when it is told to, and counts them.
    struct Counting {
        turns: Rc<Cell<u32>>,
        due: Rc<Cell<Option<Instant>>>,
        is_gone: Rc<Cell<bool>>,
    }

    impl Owner for Counting {
        fn handle_packet(&mut self, _: Instant, _: Inbound<'_>) {}
        fn handle_timeout(&mut self, _: Instant) {
            self.due.set(None);
        }
        fn handle_ended(&mut self, _: Instant, _: Ended) {
            self.is_gone.set(true);
        }
        fn turn(&mut self, _: Instant) {
            self.turns.set(self.turns.get() + 1);
        }
        fn fill(&mut self, _: Instant, _: &mut Train) {}
        fn poll_timeout(&self) -> Option<Instant> {
            self.due.get()
        }
        fn is_gone(&self) -> bool {
            self.is_gone.get()
        }
        fn expects_work(&self) -> bool {
            false
        }
    }

    /// Requests of so many queue pairs, as they come to the socket of the other side.
    fn requests(count: usize) -> Vec<Vec<u8>> {
        let mut far =
            Endpoint::new(FAR.parse().unwrap(), Account::new(&pool()), Box::new(SeededEntropy::new(2)));
        let request = || {
            let (address, private_data) = ("10.0.0.1:4791".parse().unwrap(), PrivateData::NONE);
            let target = Target { address, port: 4420, config: CONFIG, private_data };
            let mut pair = far.connect(Instant::ZERO, target, Account::new(&pool())).unwrap();
            let mut train = Train::default();
            pair.poll_transmit(Instant::ZERO, &mut train);
            train.bytes().to_vec()
        };
        std::iter::repeat_with(request).take(count).collect()
    }

    fn arrive(socket: &mut Socket, bytes: &[u8]) {
        let datagrams = Datagrams { peer: FAR.parse().unwrap(), bytes, segment: bytes.len() };
        socket.handle_datagrams(Instant::ZERO, &datagrams);
    }

    #[test]
    fn requests_beyond_the_limit_are_left_out() {
        let mut near = socket();
        for request in requests(CONNECTION_REQUESTS + 5) {
            arrive(&mut near, &request);
        }
        let waiting = std::iter::from_fn(|| near.take_request()).count();
        assert_eq!(waiting, CONNECTION_REQUESTS);
        assert!(near.is_empty(), "nobody has decided about them");
    }

    /// A server that has stood still finds what its peers have sent meanwhile, all at once.
    #[test]
    fn a_request_that_came_again_or_is_taken_back_before_it_was_decided_makes_no_connection_of_its_own() {
        let mut far =
            Endpoint::new(FAR.parse().unwrap(), Account::new(&pool()), Box::new(SeededEntropy::new(3)));
        let (address, private_data) = (NEAR.parse().unwrap(), PrivateData::NONE);
        let target = Target { address, port: 4420, config: CONFIG, private_data };
        let mut pair = far.connect(Instant::ZERO, target, Account::new(&pool())).unwrap();
        let said = |pair: &mut Connection| {
            let mut train = Train::default();
            pair.poll_transmit(Instant::ZERO, &mut train);
            train.bytes().to_vec()
        };
        let mut near = socket();
        let request = said(&mut pair);
        for _ in 0..3 {
            arrive(&mut near, &request);
        }
        arrive(&mut near, &requests(1)[0]);
        assert_eq!(near.requests.len(), 2, "one of each peer's");
        pair.disconnect();
        arrive(&mut near, &said(&mut pair));
        assert_eq!(near.requests.len(), 1);
        arrive(&mut near, &request);
        assert_eq!(near.requests.len(), 2, "the one that was taken back had gone, and not the other");
    }

    /// What a connection may hold does not depend on what carries it.
    #[test]
    fn queue_pairs_and_their_socket_take_no_share_of_the_pool() {
        let pool = pool();
        let connection = Account::new(&pool);
        let floor = connection.floor_left();
        let membership = Membership { slot: SocketSlot(1), group: Arc::new(Group::default()) };
        let opened = OpenSocket { endpoint: EndpointId(1), local: NEAR.parse().unwrap(), membership };
        let entropy = Box::new(SeededEntropy::new(1));
        let mut near = queue_pairs(opened, &pool, Seed { entropy, counters: Arc::default() });
        let target = Target {
            address: FAR.parse().unwrap(),
            port: 4420,
            config: CONFIG,
            private_data: PrivateData::NONE,
        };
        let initiator = near.connect(Instant::ZERO, target, &pool).unwrap();
        arrive(&mut near, &requests(1)[0]);
        let incoming = Incoming { request: near.take_request().unwrap(), config: CONFIG };
        let responder = near.accept(Instant::ZERO, incoming, &pool).unwrap();
        assert_eq!(connection.floor_left(), floor);
        assert!(pool.used() > 0, "tables count");
        drop((initiator, responder, near));
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn what_is_another_sockets_is_forwarded_as_it_came() {
        let group = Arc::default();
        let (mut first, mut second) = (socket_of(&group, 0), socket_of(&group, 1));
        for request in requests(3) {
            arrive(&mut first, &request);
        }
        assert!(first.take_request().is_none());
        let forwarded = std::mem::take(&mut *group.0.lock().unwrap());
        assert_eq!(forwarded.len(), 3);
        for (slot, bytes) in forwarded {
            assert_eq!(slot, SocketSlot(1));
            arrive(&mut second, &bytes);
        }
        assert_eq!(std::iter::from_fn(|| second.take_request()).count(), 3);
        assert!(group.0.lock().unwrap().is_empty());
    }

    #[test]
    fn an_owner_has_a_turn_for_what_concerns_it_and_goes_when_it_is_gone() {
        let mut near = socket();
        let (turns, due, is_gone) = (Rc::default(), Rc::default(), Rc::default());
        for request in requests(2) {
            arrive(&mut near, &request);
        }
        let mut names = Vec::new();
        while let Some(request) = near.take_request() {
            let pair = near.accept(Instant::ZERO, Incoming { request, config: CONFIG }, &pool()).unwrap();
            let (id, name) = (pair.id(), EndpointId(100 + names.len() as u64));
            let own = (Rc::clone(&turns), Rc::clone(&due), Rc::clone(&is_gone));
            let owner = if names.is_empty() {
                Counting { turns: own.0, due: own.1, is_gone: own.2 }
            } else {
                Counting { turns: Rc::default(), due: Rc::default(), is_gone: Rc::default() }
            };
            names.push(name);
            near.insert(Joining { id, name: OwnerName::Own(name), owner: Box::new(owner) });
        }
        near.turn(Instant::ZERO);
        assert_eq!(turns.get(), 1, "it begins");
        near.turn(Instant::ZERO);
        assert!(near.wake(names[1]) && !near.wake(EndpointId(1)));
        near.turn(Instant::ZERO);
        assert_eq!(turns.get(), 1, "that was the other one's");

        let later = Instant::ZERO + Duration::from_millis(5);
        due.set(Some(later));
        near.wake(names[0]);
        near.turn(Instant::ZERO);
        assert_eq!(near.poll_timeout(), Some(later));
        near.handle_timeout(Instant::ZERO);
        assert_eq!(due.get(), Some(later), "not yet");
        near.handle_timeout(later);
        assert_eq!((due.get(), near.poll_timeout()), (None, None));

        is_gone.set(true);
        near.turn(later);
        let mut gone = Vec::new();
        near.take_gone(&mut gone);
        assert_eq!((gone, near.wake(names[0]), near.wake(names[1])), (vec![names[0]], false, true));
    }
}
