//! What the drivers of one core and kind share: its queues, their inboxes, and the way to other cores.
//!
//! A connection speaks one protocol, and a protocol serves one kind: a core that serves several has a hub for each, and none knows of another.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use buf::Pool;
use host::{CoreIndex, EndpointId, Event, Journal, ListenerId, Postbox};
use protocol::Instant;
use volume::{QueueContext, Submission, Tag};

use crate::catalogue::ControlObserver;
use crate::config::EngineConfig;
use crate::kind::{ServedKind, Tagged, Telling};
use crate::message::{Answer, Inbound, Member, Message};
use crate::queues::{LAST, LastEnded, Queues, Slot, SubmitError, UseReport};
use crate::served_id::ServedId;

/// What the hub knows of one driver.
struct ConnectionSlot<K: ServedKind> {
    endpoint: EndpointId,
    peer: SocketAddr,
    /// Which it came to.
    listener: ListenerId,
    inbox: VecDeque<Inbound<K>>,
    listed: bool,
    /// It is among those that wait for a buffer.
    wants_memory: bool,
}

/// Shared by all drivers of a core; nothing in it ever waits.
pub(crate) struct Hub<K: ServedKind> {
    pub(crate) core: CoreIndex,
    pub(crate) pool: Pool,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) observer: Arc<dyn ControlObserver>,
    postbox: Arc<dyn Postbox<Message>>,
    queues: RefCell<Queues<K>>,
    table: RefCell<ConnectionTable<K>>,
}

struct ConnectionTable<K: ServedKind> {
    slots: Vec<Option<ConnectionSlot<K>>>,
    free: Vec<u32>,
    by_endpoint: HashMap<EndpointId, Slot>,
    ready: Vec<EndpointId>,
    /// Drivers whose peers may not use what is served, or not yet: the oldest first.
    newcomers: VecDeque<Slot>,
    /// Drivers whose requests a full queue gave back.
    want_room: Vec<Slot>,
    /// Drivers whose connections wait for a buffer.
    want_memory: Vec<Slot>,
    /// Queues' last requests that have ended.
    last_ended: Vec<LastEnded>,
    /// The pool's count of chances when it was last looked at.
    chances: u64,
}

impl<K: ServedKind> ConnectionTable<K> {
    fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_endpoint: HashMap::new(),
            ready: Vec::new(),
            newcomers: VecDeque::new(),
            want_room: Vec::new(),
            want_memory: Vec::new(),
            last_ended: Vec::new(),
            chances: 0,
        }
    }

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
    fn deliver(&mut self, slot: Slot, inbound: Inbound<K>) {
        let Some(Some(entry)) = self.slots.get_mut(slot.0 as usize) else {
            if let (LAST, Inbound::Completion(completion)) = (slot, &inbound) {
                let secured = K::error(completion).is_none();
                self.last_ended.push(LastEnded { slot: completion.tag(), secured });
            }
            return;
        };
        entry.inbox.push_back(inbound);
        if !std::mem::replace(&mut entry.listed, true) {
            self.ready.push(entry.endpoint);
        }
    }
}

impl<K: ServedKind> Hub<K> {
    pub(crate) fn new(
        config: &EngineConfig,
        context: &QueueContext,
        postbox: Arc<dyn Postbox<Message>>,
        queues: Queues<K>,
    ) -> Rc<Self> {
        let (core, pool) = (context.core.0, context.pool.clone());
        let (queues, table) = (RefCell::new(queues), RefCell::new(ConnectionTable::new()));
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
            Slot::at(table.slots.len() - 1)
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
                if let Inbound::AskUse(served) = inbound {
                    self.queues.borrow_mut().handle_use(now, served, UseReport::Unused);
                }
            }
        }
    }

    /// Tells the drivers of each listener for which `inbound` has something that, and what `more` gives.
    pub(crate) fn deliver_portals<I: Iterator<Item = Inbound<K>>>(
        &self,
        inbound: impl Fn(ListenerId) -> Option<Inbound<K>>,
        more: impl Fn() -> I,
    ) {
        let mut table = self.table.borrow_mut();
        for index in 0..table.slots.len() {
            let Some(Some(entry)) = table.slots.get(index) else { continue };
            if let Some(inbound) = inbound(entry.listener) {
                let slot = Slot::at(index);
                table.deliver(slot, inbound);
                more().for_each(|inbound| table.deliver(slot, inbound));
            }
        }
    }

    /// A driver's peer may use what is served from now on.
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

    /// True when there is neither a driver nor a queue, and never was a queue.
    pub(crate) fn is_unused(&self) -> bool {
        self.members() == 0 && self.queues.borrow().is_unused()
    }

    /// The next thing in a driver's inbox.
    pub(crate) fn take(&self, slot: Slot) -> Option<Inbound<K>> {
        let mut table = self.table.borrow_mut();
        let entry = table.slots.get_mut(slot.0 as usize)?.as_mut()?;
        let inbound = entry.inbox.pop_front();
        if inbound.is_none() {
            entry.listed = false;
        }
        inbound
    }

    /// Puts something into one driver's inbox.
    pub(crate) fn deliver(&self, endpoint: EndpointId, inbound: Inbound<K>) {
        let mut table = self.table.borrow_mut();
        if let Some(&slot) = table.by_endpoint.get(&endpoint) {
            table.deliver(slot, inbound);
        }
    }

    /// Puts something into every driver's inbox but one's.
    pub(crate) fn deliver_all(&self, except: Option<EndpointId>, make: impl Fn() -> Inbound<K>) {
        let mut table = self.table.borrow_mut();
        for index in 0..table.slots.len() {
            let Some(Some(entry)) = table.slots.get(index) else { continue };
            if Some(entry.endpoint) != except {
                table.deliver(Slot::at(index), make());
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

    /// Lists the drivers that wait for room in a queue: some request has completed.
    pub(crate) fn list_room_waiters(&self) {
        let mut table = self.table.borrow_mut();
        let mut waiters = std::mem::take(&mut table.want_room);
        waiters.drain(..).for_each(|slot| table.list(slot));
        table.want_room = waiters;
    }

    /// Lists the drivers that wait for a buffer, if one may have come back since this was last asked.
    pub(crate) fn list_memory_waiters(&self) {
        let mut table = self.table.borrow_mut();
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
    pub(crate) fn submit(
        &self,
        now: Instant,
        slot: Slot,
        submission: Submission<K::Request>,
    ) -> Result<(), SubmitError<K>> {
        self.queues.borrow_mut().submit(now, slot, submission)
    }

    /// Asks that a connection's request end soon.
    pub(crate) fn cancel(&self, slot: Slot, served: ServedId, own: Tag) {
        self.queues.borrow_mut().cancel(slot, served, own);
    }

    /// Takes all completions and puts them into their askers' inboxes. Answers whether there was any.
    pub(crate) fn poll_queues(&self, now: Instant) -> bool {
        let mut table = self.table.borrow_mut();
        let mut queues = self.queues.borrow_mut();
        let any = queues.poll(now, |slot, name, done| {
            if let Some(error) = K::error(&done) {
                self.tell_failure(table.peer(slot), name, error);
            }
            table.deliver(slot, Inbound::Completion(done));
        });
        while let Some(ended) = table.last_ended.pop() {
            queues.handle_last_ended(ended);
        }
        any
    }

    /// Tells that what is served could not do what a connection asked of it.
    #[cold]
    fn tell_failure(&self, peer: Option<SocketAddr>, name: Option<&Arc<str>>, error: K::Error) {
        let Some(Telling { kind, level }) = K::telling(error) else { return };
        if self.journal.wants(kind, level) {
            let event = Event { peer, volume: name.cloned(), ..Event::new(kind, error.to_string()) };
            self.journal.record(event.at(level));
        }
    }

    /// The queues themselves, for fences and deadlines.
    pub(crate) fn queues(&self) -> std::cell::RefMut<'_, Queues<K>> {
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
    pub(crate) fn post_member(&self, to: Member, answer: Answer) {
        if to.core == self.core {
            self.deliver(to.endpoint, answer.into());
        } else {
            self.postbox.post(to.core, Message::Deliver(to.endpoint, answer));
        }
    }

    /// How many cores there are.
    pub(crate) fn cores(&self) -> CoreIndex {
        self.postbox.cores()
    }
}

impl<K: ServedKind> std::fmt::Debug for Hub<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub")
            .field("core", &self.core)
            .field("members", &self.members())
            .finish_non_exhaustive()
    }
}
