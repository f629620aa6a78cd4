//! What the connections of one core share: the volume's queue, and the table of the connections.

use std::cell::{Cell, RefCell};

use buf::Pool;
use host::EndpointId;
use protocol::Instant;
use volume::{Completion, Operation, QueueFull, Request, Tag, VolumeErrorKind, VolumeQueue};

use super::connection::Input;
use super::connection_table::{ConnectionSlot, ConnectionTable};
use crate::convert::index;

/// Tags of one connection: its own are below this.
const SPAN: u64 = 1 << 32;
/// The slot of the hub itself, which no connection gets.
const OWN: u64 = u32::MAX as u64;

/// Shared by the connections of a core; nothing in it waits.
pub(crate) struct Hub {
    pub(crate) pool: Pool,
    queue: RefCell<Box<dyn VolumeQueue>>,
    connections: RefCell<ConnectionTable>,
    /// The pool's count of chances to get memory, when it was last looked at.
    chances: Cell<u64>,
    done: RefCell<Vec<Completion>>,
    outstanding: Cell<usize>,
    flushed: Cell<Option<Result<(), VolumeErrorKind>>>,
}

impl Hub {
    /// A hub without connections.
    pub(crate) fn new(pool: Pool, queue: Box<dyn VolumeQueue>) -> Self {
        Self {
            pool,
            queue: RefCell::new(queue),
            connections: RefCell::default(),
            chances: Cell::new(0),
            done: RefCell::default(),
            outstanding: Cell::new(0),
            flushed: Cell::new(None),
        }
    }

    /// Adds a connection, which negotiates.
    pub(crate) fn join(&self, endpoint: EndpointId) -> ConnectionSlot {
        self.connections.borrow_mut().add(endpoint)
    }

    /// A connection has chosen its export.
    pub(crate) fn end_negotiation(&self, slot: ConnectionSlot) {
        self.connections.borrow_mut().end_negotiation(slot);
    }

    /// Closes the oldest of those that negotiate if there are `limit` of them or more.
    pub(crate) fn evict_oldest_pending(&self, limit: usize) {
        let mut connections = self.connections.borrow_mut();
        if let Some(oldest) = connections.take_oldest_negotiating(limit) {
            connections.deliver(oldest, Input::Shutdown);
        }
    }

    /// Removes a connection, once it has no request under way.
    pub(crate) fn leave(&self, endpoint: EndpointId) {
        self.connections.borrow_mut().remove(endpoint);
    }

    /// How many connections there are.
    pub(crate) fn members(&self) -> usize {
        self.connections.borrow().len()
    }

    /// The next of a connection's inbox.
    pub(crate) fn take(&self, slot: ConnectionSlot) -> Option<Input> {
        self.connections.borrow_mut().take_input(slot)
    }

    /// Notifies every connection that the process is about to stop.
    pub(crate) fn notify_shutdown(&self) {
        self.connections.borrow_mut().deliver_all(|| Input::Shutdown);
    }

    /// Lets a connection take a turn once some request has ended.
    pub(crate) fn wait_for_room(&self, slot: ConnectionSlot) {
        self.connections.borrow_mut().await_room(slot);
    }

    /// Lets a connection take a turn once a buffer has come back to the pool.
    pub(crate) fn wait_for_memory(&self, slot: ConnectionSlot) {
        self.connections.borrow_mut().await_memory(slot);
    }

    /// Submits a connection's request; a full queue gives it back as it was.
    pub(crate) fn submit(
        &self,
        now: Instant,
        slot: ConnectionSlot,
        mut request: Request,
    ) -> Result<(), QueueFull> {
        let own = request.tag;
        request.tag = Tag(slot.0 as u64 * SPAN + own.0);
        match self.queue.borrow_mut().submit(now, request) {
            Ok(()) => {
                self.outstanding.set(self.outstanding.get() + 1);
                Ok(())
            }
            Err(QueueFull(request)) => Err(QueueFull(Request { tag: own, ..request })),
        }
    }

    /// Asks for the last flush, unless the queue is full just now.
    pub(crate) fn flush(&self, now: Instant) -> bool {
        let request = Request { tag: Tag(OWN * SPAN), operation: Operation::Flush };
        let taken = self.queue.borrow_mut().submit(now, request).is_ok();
        self.outstanding.set(self.outstanding.get() + usize::from(taken));
        taken
    }

    /// What came of the last flush, once it is over.
    pub(crate) fn flushed(&self) -> Option<Result<(), VolumeErrorKind>> {
        self.flushed.get()
    }

    /// Takes what has completed, and lists the connections that have something to do.
    pub(crate) fn poll(&self, now: Instant, ready: &mut Vec<EndpointId>) {
        let mut connections = self.connections.borrow_mut();
        let mut done = self.done.borrow_mut();
        self.queue.borrow_mut().poll(now, &mut done);
        self.outstanding.set(self.outstanding.get().saturating_sub(done.len()));
        let has_room = !done.is_empty();
        for mut completion in done.drain(..) {
            let slot = completion.tag.0 / SPAN;
            completion.tag = Tag(completion.tag.0 % SPAN);
            if slot == OWN {
                self.flushed.set(Some(completion.outcome().map(drop)));
            } else {
                connections.deliver(ConnectionSlot(index(slot)), Input::Completion(completion));
            }
        }
        if has_room {
            connections.wake_for_room();
        }
        let chances = self.pool.chances();
        if self.chances.replace(chances) != chances {
            connections.wake_for_memory();
        }
        connections.take_ready(ready);
    }

    /// When to poll even if nothing wakes the core.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.queue.borrow().poll_timeout()
    }

    /// True while requests are with the volume.
    pub(crate) fn is_busy(&self) -> bool {
        self.outstanding.get() > 0
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("members", &self.members()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use volume::{CoreId, QueueContext, Ram, Volume};

    use super::*;

    fn hub() -> Hub {
        let ram = Ram::new(1 << 20, 512).unwrap();
        Hub::new(
            Pool::new(1 << 20),
            ram.open_queue(&QueueContext::without_pool(CoreId(0), Waker::noop().clone())).unwrap(),
        )
    }

    #[test]
    fn the_oldest_that_negotiates_makes_room_and_no_other() {
        let hub = hub();
        let slots: Vec<ConnectionSlot> = (0..4).map(|number| hub.join(EndpointId(number))).collect();
        hub.end_negotiation(slots[0]);
        hub.evict_oldest_pending(4);
        assert!(slots.iter().all(|slot| hub.take(*slot).is_none()), "there was room");
        hub.evict_oldest_pending(3);
        assert!(matches!(hub.take(slots[1]), Some(Input::Shutdown)));
        assert!([0, 2, 3].iter().all(|index| hub.take(slots[*index]).is_none()));
        hub.leave(EndpointId(2));
        hub.evict_oldest_pending(1);
        assert!(matches!(hub.take(slots[3]), Some(Input::Shutdown)), "who has left makes no room");
    }
}
