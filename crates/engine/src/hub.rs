//! What the drivers of one core share: its queues, their inboxes, and the way to other cores.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use buf::Pool;
use host::{CoreIndex, EndpointId, Event, Journal, Kind, Level, ListenerId, Postbox};
use protocol::Instant;
use volume::{PathState, Tag, VolumeErrorKind, VolumeId};

use crate::catalogue::ControlObserver;
use crate::config::EngineConfig;
use crate::message::{Inbound, Member, Message};
use crate::queues::{FLUSH, Queues, Slot, Submission, SubmitError};

/// What the hub knows of one driver.
struct ConnectionSlot {
    endpoint: EndpointId,
    peer: SocketAddr,
    /// Which it came to.
    listener: ListenerId,
    inbox: VecDeque<Inbound>,
    listed: bool,
    /// It is among those that wait for a buffer.
    wants_memory: bool,
}

/// Shared by all drivers of a core; nothing in it ever waits.
pub(crate) struct Hub {
    pub(crate) core: CoreIndex,
    pub(crate) pool: Pool,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) observer: Arc<dyn ControlObserver>,
    postbox: Arc<dyn Postbox<Message>>,
    queues: RefCell<Queues>,
    table: RefCell<ConnectionTable>,
}

#[derive(Default)]
struct ConnectionTable {
    slots: Vec<Option<ConnectionSlot>>,
    free: Vec<u32>,
    by_endpoint: HashMap<EndpointId, Slot>,
    ready: Vec<EndpointId>,
    /// Drivers whose peers may not use volumes, or not yet: the oldest first.
    newcomers: VecDeque<Slot>,
    /// Drivers whose requests a full queue gave back.
    want_room: Vec<Slot>,
    /// Drivers whose connections wait for a buffer.
    want_memory: Vec<Slot>,
    /// Last flushes that have ended: the slot of the queue, and whether it is secured.
    flushed: Vec<(Tag, bool)>,
    /// The pool's count of chances when it was last looked at.
    chances: u64,
}

/// What a volume's error is to people; nothing where the asker expects it.
fn failure(error: VolumeErrorKind) -> Option<(Kind, Level)> {
    match error {
        VolumeErrorKind::NoSpace => Some((Kind::NoSpace, Level::Error)),
        // Of a conflict the connection tells, whoever has found it: it knows the names.
        VolumeErrorKind::Miscompare { .. }
        | VolumeErrorKind::Cancelled
        | VolumeErrorKind::ReservationConflict => None,
        // The initiator asked for what the volume cannot do, or too much at once.
        VolumeErrorKind::OutOfRange
        | VolumeErrorKind::ReadOnly
        | VolumeErrorKind::Misaligned
        | VolumeErrorKind::Unsupported
        | VolumeErrorKind::Busy
        | VolumeErrorKind::ShuttingDown => Some((Kind::Io, Level::Debug)),
        _ => Some((Kind::Io, Level::Error)),
    }
}

impl ConnectionTable {
    fn peer(&self, slot: Slot) -> Option<SocketAddr> {
        self.slots.get(slot.0 as usize)?.as_ref().map(|entry| entry.peer)
    }

    /// Lets a driver take a turn although nothing came for it.
    fn list(&mut self, slot: Slot) {
        let Some(Some(entry)) = self.slots.get_mut(slot.0 as usize) else { return };
        if !std::mem::replace(&mut entry.listed, true) {
            self.ready.push(entry.endpoint);
        }
    }

    #[inline]
    fn deliver(&mut self, slot: Slot, inbound: Inbound) {
        let Some(Some(entry)) = self.slots.get_mut(slot.0 as usize) else {
            if let (FLUSH, Inbound::Completion(completion)) = (slot, &inbound) {
                self.flushed.push((completion.tag, completion.result.is_ok()));
            }
            return;
        };
        entry.inbox.push_back(inbound);
        if !std::mem::replace(&mut entry.listed, true) {
            self.ready.push(entry.endpoint);
        }
    }
}

impl Hub {
    pub(crate) fn new(
        core: CoreIndex,
        (pool, config): (Pool, &EngineConfig),
        postbox: Arc<dyn Postbox<Message>>,
        queues: Queues,
    ) -> Rc<Self> {
        let (queues, table) = (RefCell::new(queues), RefCell::default());
        let (journal, observer) = (Arc::clone(&config.journal), Arc::clone(&config.observer));
        Rc::new(Self { core, pool, journal, observer, postbox, queues, table })
    }

    /// Makes a place for a driver.
    pub(crate) fn join(&self, endpoint: EndpointId, peer: SocketAddr, listener: ListenerId) -> Slot {
        let mut table = self.table.borrow_mut();
        let inbox = VecDeque::new();
        let entry = ConnectionSlot { endpoint, peer, listener, inbox, listed: false, wants_memory: false };
        let slot = if let Some(free) = table.free.pop() {
            table.slots[free as usize] = Some(entry);
            Slot(free)
        } else {
            table.slots.push(Some(entry));
            Slot(u32::try_from(table.slots.len() - 1).unwrap_or(u32::MAX))
        };
        table.by_endpoint.insert(endpoint, slot);
        table.newcomers.push_back(slot);
        slot
    }

    /// Takes a driver's place away, once it has no request under way.
    pub(crate) fn leave(&self, now: Instant, endpoint: EndpointId) {
        let mut table = self.table.borrow_mut();
        if let Some(slot) = table.by_endpoint.remove(&endpoint) {
            table.newcomers.retain(|newcomer| *newcomer != slot);
            let entry = table.slots[slot.0 as usize].take();
            table.free.push(slot.0);
            for inbound in entry.into_iter().flat_map(|entry| entry.inbox) {
                if let Inbound::AskUse(volume) = inbound {
                    self.queues.borrow_mut().handle_use(now, volume, false);
                }
            }
        }
    }

    /// Tells the drivers of each listener for which `inbound` has something that, and what `more` gives.
    pub(crate) fn deliver_portals<I: Iterator<Item = Inbound>>(
        &self,
        inbound: impl Fn(ListenerId) -> Option<Inbound>,
        more: impl Fn() -> I,
    ) {
        let mut table = self.table.borrow_mut();
        for index in 0..table.slots.len() {
            let Some(Some(entry)) = table.slots.get(index) else { continue };
            if let Some(inbound) = inbound(entry.listener) {
                let slot = Slot(u32::try_from(index).unwrap_or(u32::MAX));
                table.deliver(slot, inbound);
                more().for_each(|inbound| table.deliver(slot, inbound));
            }
        }
    }

    /// A driver's peer may use volumes from now on.
    pub(crate) fn establish(&self, slot: Slot) {
        self.table.borrow_mut().newcomers.retain(|newcomer| *newcomer != slot);
    }

    /// Makes room among those that have not logged in, or only to discover, if there are `most` of them: the oldest has to go.
    pub(crate) fn evict_oldest_pending(&self, most: usize) {
        let mut table = self.table.borrow_mut();
        if table.newcomers.len() >= most.max(1)
            && let Some(oldest) = table.newcomers.pop_front()
        {
            table.deliver(oldest, Inbound::Shutdown);
        }
    }

    /// How many drivers there are.
    pub(crate) fn members(&self) -> usize {
        self.table.borrow().by_endpoint.len()
    }

    /// The next thing in a driver's inbox.
    pub(crate) fn take(&self, slot: Slot) -> Option<Inbound> {
        let mut table = self.table.borrow_mut();
        let entry = table.slots.get_mut(slot.0 as usize)?.as_mut()?;
        let inbound = entry.inbox.pop_front();
        if inbound.is_none() {
            entry.listed = false;
        }
        inbound
    }

    /// Puts something into one driver's inbox.
    pub(crate) fn deliver(&self, endpoint: EndpointId, inbound: Inbound) {
        let mut table = self.table.borrow_mut();
        if let Some(&slot) = table.by_endpoint.get(&endpoint) {
            table.deliver(slot, inbound);
        }
    }

    /// Puts something into every driver's inbox but one's.
    pub(crate) fn deliver_all(&self, except: Option<EndpointId>, make: impl Fn() -> Inbound) {
        let mut table = self.table.borrow_mut();
        for index in 0..table.slots.len() {
            let Some(Some(entry)) = table.slots.get(index) else { continue };
            if Some(entry.endpoint) != except {
                table.deliver(Slot(u32::try_from(index).unwrap_or(u32::MAX)), make());
            }
        }
    }

    /// Lets a driver take a turn once some request of this core has completed.
    pub(crate) fn wait_for_room(&self, slot: Slot) {
        self.table.borrow_mut().want_room.push(slot);
    }

    /// Lets a driver take a turn once a buffer has come back to the pool.
    pub(crate) fn wait_for_memory(&self, slot: Slot) {
        let mut table = self.table.borrow_mut();
        let Some(Some(entry)) = table.slots.get_mut(slot.0 as usize) else { return };
        if !std::mem::replace(&mut entry.wants_memory, true) {
            table.want_memory.push(slot);
        }
    }

    /// Lists the drivers whose wait is over.
    pub(crate) fn list_waiters(&self, completed: bool) {
        let mut table = self.table.borrow_mut();
        if completed {
            let mut waiters = std::mem::take(&mut table.want_room);
            waiters.drain(..).for_each(|slot| table.list(slot));
            table.want_room = waiters;
        }
        let chances = self.pool.chances();
        if std::mem::replace(&mut table.chances, chances) != chances {
            // The oldest first.
            let mut waiters = std::mem::take(&mut table.want_memory);
            for slot in waiters.drain(..) {
                if let Some(Some(entry)) = table.slots.get_mut(slot.0 as usize) {
                    entry.wants_memory = false;
                }
                table.list(slot);
            }
            table.want_memory = waiters;
        }
    }

    /// Moves the names of all drivers that have something to do.
    pub(crate) fn take_ready(&self, ready: &mut Vec<EndpointId>) {
        ready.append(&mut self.table.borrow_mut().ready);
    }

    /// Submits a connection's request.
    #[inline]
    pub(crate) fn submit(&self, now: Instant, slot: Slot, submission: Submission) -> Result<(), SubmitError> {
        self.queues.borrow_mut().submit(now, slot, submission)
    }

    /// Asks that a connection's request end soon.
    pub(crate) fn cancel(&self, slot: Slot, volume: VolumeId, own: Tag) {
        self.queues.borrow_mut().cancel(slot, volume, own);
    }

    /// Takes all completions and puts them into their askers' inboxes. Answers whether there was any.
    pub(crate) fn poll_queues(&self, now: Instant) -> bool {
        let mut table = self.table.borrow_mut();
        let mut queues = self.queues.borrow_mut();
        let any = queues.poll(now, |slot, volume, done| {
            if let Some(kind) = done.error() {
                self.tell_failure(table.peer(slot), volume, kind);
            }
            table.deliver(slot, Inbound::Completion(done));
        });
        while let Some((slot, secured)) = table.flushed.pop() {
            queues.handle_flushed(slot, secured);
        }
        any
    }

    /// Tells that a volume could not do what a connection asked of it.
    #[cold]
    fn tell_failure(&self, peer: Option<SocketAddr>, volume: Option<&Arc<str>>, error: VolumeErrorKind) {
        let Some((kind, level)) = failure(error) else { return };
        if self.journal.wants(kind, level) {
            let event = Event { peer, volume: volume.cloned(), ..Event::new(kind, error.to_string()) };
            self.journal.record(event.at(level));
        }
    }

    /// Tells that a volume is reached in another way.
    pub(crate) fn tell_path(&self, volume: Arc<str>, state: PathState, why: Option<String>) {
        let level = if state == PathState::Optimized { Level::Info } else { Level::Warn };
        if self.journal.wants(Kind::Path, level) {
            let last = why.filter(|_| state != PathState::Optimized).map(|why| format!(": {why}"));
            let reason = format!("the path to the volume is {state}{}", last.unwrap_or_default());
            let event = Event { volume: Some(volume), ..Event::new(Kind::Path, reason) };
            self.journal.record(event.at(level));
        }
    }

    /// The queues themselves, for fences and deadlines.
    pub(crate) fn queues(&self) -> std::cell::RefMut<'_, Queues> {
        self.queues.borrow_mut()
    }

    /// Sends to the owner of the shared truths.
    pub(crate) fn post_owner(&self, message: Message) {
        self.postbox.post(0, message);
    }

    /// Sends to every core, this one included.
    pub(crate) fn post_all(&self, mut make: impl FnMut() -> Message) {
        for core in 0..self.postbox.cores() {
            self.postbox.post(core, make());
        }
    }

    /// Sends to one connection, wherever it lives.
    pub(crate) fn post_member(&self, to: Member, inbound: Inbound) {
        if to.core == self.core {
            self.deliver(to.endpoint, inbound);
        } else {
            self.postbox.post(to.core, Message::Deliver(to.endpoint, inbound));
        }
    }

    /// How many cores there are.
    pub(crate) fn cores(&self) -> CoreIndex {
        self.postbox.cores()
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub")
            .field("core", &self.core)
            .field("members", &self.members())
            .finish_non_exhaustive()
    }
}
