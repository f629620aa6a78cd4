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
