//! The queue pairs of one socket, and who has each: packets in, trains of them out, deadlines by owner.
//!
//! Owners send in turn, a train each, so that none waits for more than one train of every other. Nothing is allocated for a packet: an owner is listed once, however much comes for
//! it, and a deadline that moves later costs no entry.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use buf::Account;
use host::{Datagrams, EndpointId};
use protocol::{Ended, Instant};
use roce::endpoint::{Arrival, ConnectionRequest, Incoming, NoConnection, Target};
use roce::train::Train;
use roce::{Connection, ConnectionId, Endpoint};

use super::owner::Owner;
use crate::limits::CONNECTION_REQUESTS;

/// An owner as the socket knows it.
struct Entry {
    owner: Box<dyn Owner>,
    name: EndpointId,
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
    /// What it is called on its core.
    pub(crate) name: EndpointId,
    pub(crate) owner: Box<dyn Owner>,
}

/// A socket's queue pairs with their owners.
pub(crate) struct Socket {
    endpoint: Endpoint,
    owners: BTreeMap<ConnectionId, Entry>,
    names: BTreeMap<EndpointId, ConnectionId>,
    listed: Vec<ConnectionId>,
    senders: VecDeque<ConnectionId>,
    deadlines: BinaryHeap<Reverse<(Instant, ConnectionId)>>,
    requests: VecDeque<ConnectionRequest>,
    /// Owners that are gone.
    gone: Vec<EndpointId>,
}

impl Socket {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            owners: BTreeMap::new(),
            names: BTreeMap::new(),
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

    /// Begins a connection.
    pub(crate) fn connect(
        &mut self,
        now: Instant,
        target: Target,
        account: Account,
    ) -> Result<Connection, NoConnection> {
        self.endpoint.connect(now, target, account)
    }

    /// Grants a request.
    pub(crate) fn accept(
        &mut self,
        now: Instant,
        incoming: Incoming,
        account: Account,
    ) -> Result<Connection, NoConnection> {
        self.endpoint.accept(now, incoming, account)
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
        self.names.insert(name, id);
        self.touch(id);
    }

    /// Lets an owner have a turn soon: false if it has none of this name.
    pub(crate) fn wake(&mut self, name: EndpointId) -> bool {
        let id = self.names.get(&name).copied();
        id.inspect(|id| self.touch(*id)).is_some()
    }

    /// Lets all owners have a turn soon.
    pub(crate) fn wake_all(&mut self) {
        for (id, entry) in &mut self.owners {
            list(*id, entry, (&mut self.listed, &mut self.senders));
        }
    }

    fn touch(&mut self, id: ConnectionId) {
        if let Some(entry) = self.owners.get_mut(&id) {
            list(id, entry, (&mut self.listed, &mut self.senders));
        }
    }

    /// Gives each datagram to whom it is for. Requests beyond the limit are left out: who asks, asks again.
    pub(crate) fn handle_datagrams(&mut self, now: Instant, datagrams: &Datagrams<'_>) {
        for datagram in datagrams.each() {
            match self.endpoint.handle_datagram(datagrams.peer, datagram) {
                Arrival::Nothing => {}
                Arrival::Packet(id, packet) => {
                    if let Some(entry) = self.owners.get_mut(&id) {
                        entry.owner.handle_packet(now, packet);
                        list(id, entry, (&mut self.listed, &mut self.senders));
                    }
                }
                Arrival::Request(request) => {
                    if self.requests.len() < CONNECTION_REQUESTS {
                        self.requests.push_back(request);
                    }
                }
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

    /// Lets the owners to whom something has come have their turns.
    pub(crate) fn turn(&mut self, now: Instant) {
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

    /// The socket is gone.
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
        self.names.remove(&name);
        self.endpoint.forget(id);
        self.gone.push(name);
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
    use std::time::Duration;

    use buf::Pool;
    use protocol::SeededEntropy;
    use roce::Config;
    use roce::endpoint::Inbound;
    use roce::mtu::Mtu;
    use verbs::{PrivateData, QueueLimits};

    use super::*;

    const CONFIG: Config = Config {
        queues: QueueLimits { sends: 4, receives: 4, regions: 4, longest: 1 << 16 },
        mtu: Mtu::Bytes1024,
        reads_served: 1,
        reads_sent: 1,
    };

    fn account() -> Account {
        Account::new(&Pool::new(64 << 20))
    }

    fn socket(address: &str, seed: u64) -> Socket {
        let entropy = Box::new(SeededEntropy::new(seed));
        Socket::new(Endpoint::new(address.parse().unwrap(), account(), entropy))
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
            Endpoint::new("10.0.0.2:4791".parse().unwrap(), account(), Box::new(SeededEntropy::new(2)));
        let request = || {
            let (address, private_data) = ("10.0.0.1:4791".parse().unwrap(), PrivateData::NONE);
            let target = Target { address, port: 4420, config: CONFIG, private_data };
            let mut pair = far.connect(Instant::ZERO, target, account()).unwrap();
            let mut train = Train::default();
            pair.poll_transmit(Instant::ZERO, &mut train);
            train.bytes().to_vec()
        };
        std::iter::repeat_with(request).take(count).collect()
    }

    fn arrive(socket: &mut Socket, bytes: &[u8]) {
        let datagrams = Datagrams { peer: "10.0.0.2:4791".parse().unwrap(), bytes, segment: bytes.len() };
        socket.handle_datagrams(Instant::ZERO, &datagrams);
    }

    #[test]
    fn requests_beyond_the_limit_are_left_out() {
        let mut near = socket("10.0.0.1:4791", 1);
        for request in requests(CONNECTION_REQUESTS + 5) {
            arrive(&mut near, &request);
        }
        let waiting = std::iter::from_fn(|| near.take_request()).count();
        assert_eq!(waiting, CONNECTION_REQUESTS);
        assert!(near.is_empty(), "nobody has decided about them");
    }

    #[test]
    fn an_owner_has_a_turn_for_what_concerns_it_and_goes_when_it_is_gone() {
        let mut near = socket("10.0.0.1:4791", 1);
        let (turns, due, is_gone) = (Rc::default(), Rc::default(), Rc::default());
        for request in requests(2) {
            arrive(&mut near, &request);
        }
        let mut names = Vec::new();
        while let Some(request) = near.take_request() {
            let pair = near.accept(Instant::ZERO, Incoming { request, config: CONFIG }, account()).unwrap();
            let (id, name) = (pair.id(), EndpointId(100 + names.len() as u64));
            let own = (Rc::clone(&turns), Rc::clone(&due), Rc::clone(&is_gone));
            let owner = if names.is_empty() {
                Counting { turns: own.0, due: own.1, is_gone: own.2 }
            } else {
                Counting { turns: Rc::default(), due: Rc::default(), is_gone: Rc::default() }
            };
            names.push(name);
            near.insert(Joining { id, name, owner: Box::new(owner) });
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
