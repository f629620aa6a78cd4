//! The queue pairs of one port of an adapter, and who has each: news in, deadlines by owner. What goes out needs nobody: an adapter takes it when it is posted.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use buf::Account;
use host::{AdapterError, AdapterPair, AdapterPort, EndpointId, PairId, PairNeeds, PairRequest};
use protocol::{Ended, Instant};

use super::owner::AdapterOwner;

/// An owner as the port knows it.
struct Entry {
    owner: Box<dyn AdapterOwner>,
    name: EndpointId,
    /// It is to have a turn.
    is_listed: bool,
    /// The earliest entry among the deadlines.
    scheduled: Option<Instant>,
}

/// An owner that begins.
pub(crate) struct NewOwner {
    pub(crate) id: PairId,
    /// What it is called on its core.
    pub(crate) name: EndpointId,
    pub(crate) owner: Box<dyn AdapterOwner>,
}

/// A port's queue pairs with their owners.
pub(crate) struct PortOwners {
    port: Box<dyn AdapterPort>,
    owners: BTreeMap<PairId, Entry>,
    names: BTreeMap<EndpointId, PairId>,
    listed: Vec<PairId>,
    deadlines: BinaryHeap<Reverse<(Instant, PairId)>>,
    /// Queue pairs that have news; empty between calls.
    ready: Vec<PairId>,
    /// Owners that are gone.
    gone: Vec<EndpointId>,
}

impl PortOwners {
    pub(crate) fn new(port: Box<dyn AdapterPort>) -> Self {
        Self {
            port,
            owners: BTreeMap::new(),
            names: BTreeMap::new(),
            listed: Vec::new(),
            deadlines: BinaryHeap::new(),
            ready: Vec::new(),
            gone: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// The next request that nobody has decided about.
    pub(crate) fn next_request(&mut self) -> Option<PairRequest> {
        self.port.next_request()
    }

    /// Makes the queue pair of a request.
    pub(crate) fn accept(
        &mut self,
        request: PairRequest,
        needs: PairNeeds,
        account: Account,
    ) -> Result<AdapterPair, AdapterError> {
        self.port.accept(request, needs, account)
    }

    /// Refuses a request.
    pub(crate) fn refuse(&mut self, request: PairRequest) {
        self.port.refuse(request);
    }

    /// Lets nobody in any more.
    pub(crate) fn retire(&mut self) {
        self.port.retire();
    }

    /// Moves the names of owners that are gone.
    pub(crate) fn take_gone(&mut self, gone: &mut Vec<EndpointId>) {
        gone.append(&mut self.gone);
    }

    /// Takes an owner in.
    pub(crate) fn insert(&mut self, new: NewOwner) {
        let NewOwner { id, name, owner } = new;
        self.owners.insert(id, Entry { owner, name, is_listed: true, scheduled: None });
        self.names.insert(name, id);
        self.listed.push(id);
    }

    /// Lets an owner have a turn soon: false if it has none of this name.
    pub(crate) fn wake(&mut self, name: EndpointId) -> bool {
        let id = self.names.get(&name).copied();
        id.inspect(|id| self.touch(*id)).is_some()
    }

    /// Lets all owners have a turn soon.
    pub(crate) fn wake_all(&mut self) {
        for (id, entry) in &mut self.owners {
            list(*id, entry, &mut self.listed);
        }
    }

    fn touch(&mut self, id: PairId) {
        if let Some(entry) = self.owners.get_mut(&id) {
            list(id, entry, &mut self.listed);
        }
    }

    /// Takes what has come at the adapter, and lets those know whom it concerns.
    pub(crate) fn handle_ready(&mut self, now: Instant) {
        let mut ready = std::mem::take(&mut self.ready);
        self.port.poll(&mut ready);
        ready.sort_unstable();
        ready.dedup();
        for id in ready.drain(..) {
            if let Some(entry) = self.owners.get_mut(&id) {
                entry.owner.handle_progress(now);
                list(id, entry, &mut self.listed);
            }
        }
        self.ready = ready;
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
                list(id, entry, &mut self.listed);
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

    /// The port is gone.
    pub(crate) fn handle_ended(&mut self, now: Instant, how: Ended) {
        for (id, entry) in &mut self.owners {
            entry.owner.handle_ended(now, how);
            list(*id, entry, &mut self.listed);
        }
        self.turn(now);
    }

    pub(crate) fn expects_work(&self) -> bool {
        self.owners.values().any(|entry| entry.owner.expects_work())
    }

    /// Lets go of an owner that is gone; sees to the deadline of one that is not.
    fn follow(&mut self, id: PairId) {
        let Some(entry) = self.owners.get_mut(&id) else { return };
        if !entry.owner.is_gone() {
            return schedule(id, entry, &mut self.deadlines);
        }
        let name = entry.name;
        self.owners.remove(&id);
        self.names.remove(&name);
        self.gone.push(name);
    }
}

/// An owner is to have a turn.
fn list(id: PairId, entry: &mut Entry, listed: &mut Vec<PairId>) {
    if !std::mem::replace(&mut entry.is_listed, true) {
        listed.push(id);
    }
}

/// Makes sure that an owner hears of its deadline.
fn schedule(id: PairId, entry: &mut Entry, deadlines: &mut BinaryHeap<Reverse<(Instant, PairId)>>) {
    let Some(due) = entry.owner.poll_timeout() else { return };
    if entry.scheduled.is_none_or(|earliest| due < earliest) {
        entry.scheduled = Some(due);
        deadlines.push(Reverse((due, id)));
    }
}
