//! The connections of one core: a slot for each, what has come for it, and what it waits for.

use std::collections::{HashMap, VecDeque};

use host::EndpointId;

use super::connection::Input;

/// Stands for a connection while it lives; used again after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionSlot(pub(super) usize);

/// What is kept of a connection.
struct Entry {
    endpoint: EndpointId,
    inbox: VecDeque<Input>,
    /// It is among those that are ready.
    is_ready: bool,
    /// It is among those that wait for memory.
    awaits_memory: bool,
}

/// A core's connections.
#[derive(Default)]
pub(super) struct ConnectionTable {
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    by_endpoint: HashMap<EndpointId, usize>,
    ready: Vec<EndpointId>,
    awaiting_room: Vec<ConnectionSlot>,
    awaiting_memory: Vec<ConnectionSlot>,
    /// Those that negotiate, the oldest first.
    negotiating: VecDeque<ConnectionSlot>,
}

impl ConnectionTable {
    fn entry(&mut self, slot: ConnectionSlot) -> Option<&mut Entry> {
        self.entries.get_mut(slot.0)?.as_mut()
    }

    /// Adds a connection that negotiates.
    pub(super) fn add(&mut self, endpoint: EndpointId) -> ConnectionSlot {
        let entry = Some(Entry { endpoint, inbox: VecDeque::new(), is_ready: false, awaits_memory: false });
        let index = if let Some(free) = self.free.pop() {
            self.entries[free] = entry;
            free
        } else {
            self.entries.push(entry);
            self.entries.len() - 1
        };
        self.by_endpoint.insert(endpoint, index);
        self.negotiating.push_back(ConnectionSlot(index));
        ConnectionSlot(index)
    }

    /// Removes a connection.
    pub(super) fn remove(&mut self, endpoint: EndpointId) {
        if let Some(index) = self.by_endpoint.remove(&endpoint) {
            let other = |slot: &ConnectionSlot| slot.0 != index;
            self.entries[index] = None;
            self.free.push(index);
            self.negotiating.retain(other);
            self.awaiting_room.retain(other);
            self.awaiting_memory.retain(other);
        }
    }

    /// How many connections there are.
    pub(super) fn len(&self) -> usize {
        self.by_endpoint.len()
    }

    /// A connection has ended its negotiation.
    pub(super) fn end_negotiation(&mut self, slot: ConnectionSlot) {
        self.negotiating.retain(|other| *other != slot);
    }

    /// Takes the oldest of those that negotiate, if there are `limit` of them or more.
    pub(super) fn take_oldest_negotiating(&mut self, limit: usize) -> Option<ConnectionSlot> {
        if self.negotiating.len() < limit { None } else { self.negotiating.pop_front() }
    }

    /// Lets a connection take a turn.
    fn make_ready(&mut self, slot: ConnectionSlot) {
        let Some(Some(entry)) = self.entries.get_mut(slot.0) else { return };
        if !std::mem::replace(&mut entry.is_ready, true) {
            self.ready.push(entry.endpoint);
        }
    }

    /// Puts something into a connection's inbox.
    pub(super) fn deliver(&mut self, slot: ConnectionSlot, input: Input) {
        if let Some(entry) = self.entry(slot) {
            entry.inbox.push_back(input);
        }
        self.make_ready(slot);
    }

    /// Puts something into every connection's inbox.
    pub(super) fn deliver_all(&mut self, input: impl Fn() -> Input) {
        for index in 0..self.entries.len() {
            self.deliver(ConnectionSlot(index), input());
        }
    }

    /// The next of a connection's inbox.
    pub(super) fn take_input(&mut self, slot: ConnectionSlot) -> Option<Input> {
        let entry = self.entry(slot)?;
        let input = entry.inbox.pop_front();
        entry.is_ready &= input.is_some();
        input
    }

    /// The connection takes a turn with the next [`ConnectionTable::wake_for_room`].
    pub(super) fn await_room(&mut self, slot: ConnectionSlot) {
        if !self.awaiting_room.contains(&slot) {
            self.awaiting_room.push(slot);
        }
    }

    /// The volume's queue has room again.
    pub(super) fn wake_for_room(&mut self) {
        while let Some(slot) = self.awaiting_room.pop() {
            self.make_ready(slot);
        }
    }

    /// The connection takes a turn with the next [`ConnectionTable::wake_for_memory`].
    pub(super) fn await_memory(&mut self, slot: ConnectionSlot) {
        let Some(entry) = self.entry(slot) else { return };
        if !std::mem::replace(&mut entry.awaits_memory, true) {
            self.awaiting_memory.push(slot);
        }
    }

    /// The pool has memory again: the connection that has waited longest comes first.
    pub(super) fn wake_for_memory(&mut self) {
        let mut waiting = std::mem::take(&mut self.awaiting_memory);
        for slot in waiting.drain(..) {
            if let Some(entry) = self.entry(slot) {
                entry.awaits_memory = false;
            }
            self.make_ready(slot);
        }
        self.awaiting_memory = waiting;
    }

    /// Moves the connections that are ready to the caller's list.
    pub(super) fn take_ready(&mut self, ready: &mut Vec<EndpointId>) {
        ready.append(&mut self.ready);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_waits_is_listed_once_however_often_it_asks() {
        let mut table = ConnectionTable::default();
        let slot = table.add(EndpointId(7));
        for _ in 0..1000 {
            table.await_room(slot);
            table.await_memory(slot);
        }
        assert_eq!((table.awaiting_room.len(), table.awaiting_memory.len()), (1, 1));
        table.wake_for_room();
        table.wake_for_memory();
        let mut ready = Vec::new();
        table.take_ready(&mut ready);
        assert_eq!(ready, [EndpointId(7)]);
    }
}
