//! What runs on each core of a serving process.
//!
//! Every core owns its volume queues and connections. Core 0 also owns what all share: groups and
//! reservations.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use buf::Pool;
use host::{Accepted, Endpoint, EndpointId, Event, Kind, Refusal, Service, World};
use protocol::Instant;
use volume::{CoreId, OpenError, QueueContext, VolumeId};

use crate::driver::Driver;
use crate::fence::{self, Outcome, Owner};
use crate::groups::Groups;
use crate::hub::Hub;
use crate::iscsi_target::IscsiTarget;
use crate::limits::NEWCOMERS;
use crate::message::{Cause, Fence, Inbound, Member, Message};
use crate::nvme_controller::NvmeController;
use crate::queues::Queues;
use crate::setup::{ListenerRole, Setup};
use crate::sizes::Sizes;

/// What only core 0 has.
struct Shared {
    groups: Groups,
    owner: Owner,
    sizes: Sizes,
    /// Cores that have flushed their queues for the last time.
    closed: u16,
}

/// One core's service.
pub struct Core {
    setup: Arc<Setup>,
    hub: Rc<Hub>,
    /// What new connections find behind each listener; sizes change.
    listeners: Vec<ListenerRole>,
    shared: Option<Shared>,
    /// The newest state of every volume that ever had a fence, for connections that come later.
    fences: HashMap<VolumeId, Fence>,
    stopping: bool,
    /// Its queues are ending, as no connection is left.
    retiring: bool,
    /// The owner knows that this core is closed.
    told: bool,
    failure: Option<OpenError>,
}

impl Core {
    /// Why this core cannot serve, if so.
    pub fn failure(&self) -> Option<&OpenError> {
        self.failure.as_ref()
    }

    /// The memory of this core's connections.
    pub fn pool(&self) -> &Pool {
        &self.hub.pool
    }

    /// Opens this core's queues of all volumes. If one cannot be opened the core is finished before it begins, and
    /// [`Core::failure`] says why.
    pub fn new(setup: Arc<Setup>, world: World<Message>) -> Self {
        let pool = Pool::new(setup.pool_limit);
        let context = QueueContext::new(CoreId(world.core), world.waker.clone(), pool.clone());
        let (queues, failure) = match Queues::open(&setup.volumes, &context) {
            Ok(queues) => (queues, None),
            Err(error) => (Queues::none(&context), Some(error)),
        };
        let shared = (world.core == Groups::CORE).then(|| Shared {
            groups: Groups::new(),
            owner: Owner::default(),
            sizes: Sizes::new(&setup.volumes, world.waker.clone()),
            closed: 0,
        });
        let listeners = current(&setup);
        let hub = Hub::new(world.core, (pool, Arc::clone(&setup.journal)), world.postbox, queues);
        Self {
            setup,
            hub,
            listeners,
            shared,
            fences: HashMap::new(),
            stopping: failure.is_some(),
            retiring: false,
            told: false,
            failure,
        }
    }

    /// Which volumes this core has secured, once it is stopping, its connections are gone and a flush after their last request has ended.
    pub fn secured(&self) -> Option<Vec<bool>> {
        self.retiring.then(|| self.hub.secured()).flatten()
    }

    /// True once it is stopping and has no connection left.
    pub fn is_closing(&self) -> bool {
        self.stopping && self.hub.members() == 0
    }

    /// Flushes once nobody is left who could ask for anything. Core 0 has what queues of other cores may need, so it goes last.
    fn close(&mut self, now: Instant) {
        if !self.is_closing() {
            return;
        }
        if !std::mem::replace(&mut self.retiring, true) {
            self.hub.retire_queues(now);
        }
        if !self.told && self.hub.secured().is_some() {
            self.told = true;
            self.hub.post_owner(Message::Closed);
        }
    }

    /// Tells all connections, and moves the queue's epoch. What a connection has judged before it looks into its inbox is refused from
    /// here on, and comes back into that inbox behind the fence.
    fn handle_fence(&mut self, fence: &Fence) {
        let asker = match &fence.cause {
            Cause::Reset(by, _) if by.core == self.hub.core => Some(by.endpoint),
            _ => None,
        };
        self.hub.deliver_all(asker, || Inbound::Fence(Box::new(fence.clone())));
        if let Some(asker) = asker {
            self.hub.deliver(
                asker,
                Inbound::Fence(Box::new(Fence { cause: Cause::Unconcerned, ..fence.clone() })),
            );
        }
        self.hub.queues().fence(fence.volume, fence.number);
        let lasting = fence::for_newcomers(self.fences.get(&fence.volume), fence);
        self.fences.insert(fence.volume, lasting);
    }

    /// What is behind the listener of a stream, unless it cannot be served.
    fn role(&self, accepted: Accepted) -> Result<&ListenerRole, Refusal> {
        if self.stopping {
            return Err(Refusal("the server is stopping"));
        }
        self.hub.crowd_out(self.setup.limits.per_core / NEWCOMERS);
        if self.hub.members() >= self.setup.limits.per_core {
            return Err(Refusal("the limit of connections is reached"));
        }
        let role = self.listeners.get(accepted.listener.0 as usize);
        role.ok_or(Refusal("the listener is not in the export table"))
    }

    fn run_shared(&mut self) {
        let Some(shared) = &mut self.shared else { return };
        let hub = &self.hub;
        shared.sizes.look(&self.setup.volumes, |volume, geometry| {
            hub.post_all(|| Message::Resized(volume, geometry));
        });
        while let Some((to, inbound)) = shared.groups.poll() {
            self.hub.post_member(to, inbound);
        }
        while let Some(outcome) = shared.owner.poll() {
            match outcome {
                Outcome::Broadcast(fence) => self.hub.post_all(|| Message::Fence(fence.clone())),
                Outcome::Answer(to, inbound) => self.hub.post_member(to, inbound),
            }
        }
    }

    fn handle_owned(&mut self, now: Instant, message: Message) {
        let Some(shared) = &mut self.shared else { return };
        match message {
            Message::Session(from, request) => shared.groups.handle_session(now, from, request),
            Message::Subsystem(from, request) => shared.groups.handle_subsystem(now, from, request),
            Message::Left(member) => shared.groups.handle_leave(now, member),
            Message::Reserve(call) => shared.owner.apply(&call, self.hub.cores()),
            Message::Reset(call) => shared.owner.reset(call, self.hub.cores()),
            Message::Fenced(number) => shared.owner.acknowledge(number),
            Message::Closed => shared.closed += 1,
            Message::Deliver(..)
            | Message::Event(..)
            | Message::Fence(_)
            | Message::Resized(..)
            | Message::Shutdown => {}
        }
    }
}

/// What is behind each listener, with the sizes of now: whatever changed before this core began was told to others.
fn current(setup: &Setup) -> Vec<ListenerRole> {
    let mut listeners = setup.listeners.clone();
    for (slot, volume) in (0_u16..).zip(&setup.volumes) {
        for role in &mut listeners {
            role.resize(VolumeId::new(slot, 0), volume.geometry());
        }
    }
    listeners
}

impl Service for Core {
    type Message = Message;

    fn accept(&mut self, now: Instant, accepted: Accepted) -> Result<Box<dyn Endpoint>, Refusal> {
        let role = match self.role(accepted) {
            Ok(role) => role,
            Err(refusal) => {
                let event = Event::new(Kind::Rejected, refusal.0);
                self.setup.journal.record(event.from_peer(accepted.peer));
                return Err(refusal);
            }
        };
        if self.setup.journal.wants(Kind::Accepted, Kind::Accepted.level()) {
            let event = Event::new(Kind::Accepted, "a connection begins");
            self.setup.journal.record(event.from_peer(accepted.peer));
        }
        let member = Member { core: self.hub.core, endpoint: accepted.endpoint };
        let hub = Rc::clone(&self.hub);
        let endpoint: Box<dyn Endpoint> = match role {
            ListenerRole::Iscsi(portal) => {
                let entropy = (self.setup.entropy)();
                let connection = IscsiTarget::connect(portal, &hub.pool, entropy, (now, accepted));
                Box::new(Driver::<IscsiTarget>::new(hub, (member, accepted.peer), connection))
            }
            ListenerRole::Nvme(portal) => {
                let connection = NvmeController::connect(portal, &hub.pool, now);
                Box::new(Driver::<NvmeController>::new(hub, (member, accepted.peer), connection))
            }
        };
        for fence in self.fences.values() {
            self.hub.deliver(accepted.endpoint, Inbound::Fence(Box::new(fence.clone())));
        }
        Ok(endpoint)
    }

    fn handle_shortage(&mut self, code: i32) {
        let error = std::io::Error::from_raw_os_error(code);
        let event = Event::new(Kind::Rejected, format!("no connection can be accepted for a while: {error}"));
        self.setup.journal.record(event);
    }

    fn handle_message(&mut self, now: Instant, message: Message) {
        match message {
            Message::Deliver(endpoint, inbound) => self.hub.deliver(endpoint, inbound),
            Message::Event(from, volume, event) => {
                let except = (from.core == self.hub.core).then_some(from.endpoint);
                self.hub.deliver_all(except, || Inbound::Event(volume, event.clone()));
            }
            Message::Fence(fence) => self.handle_fence(&fence),
            Message::Resized(volume, geometry) => {
                self.listeners.iter_mut().for_each(|role| role.resize(volume, geometry));
                self.hub.deliver_all(None, || Inbound::Resized(volume, geometry));
            }
            Message::Shutdown => {
                self.stopping = true;
                self.hub.deliver_all(None, || Inbound::Shutdown);
                self.close(now);
            }
            owned => self.handle_owned(now, owned),
        }
    }

    fn turn(&mut self, now: Instant, ready: &mut Vec<EndpointId>) {
        if let Some(shared) = &mut self.shared
            && shared.groups.poll_timeout().is_some_and(|due| due <= now)
        {
            shared.groups.handle_timeout(now);
        }
        self.run_shared();
        let completed = self.hub.poll_queues(now);
        let hub = &self.hub;
        hub.queues().take_drained(|number| hub.post_owner(Message::Fenced(number)));
        hub.list_waiters(completed);
        hub.take_ready(ready);
        self.close(now);
    }

    fn handle_gone(&mut self, now: Instant, endpoint: EndpointId) {
        self.hub.leave(endpoint);
        let member = Member { core: self.hub.core, endpoint };
        self.hub.post_owner(Message::Left(member));
        self.close(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let shared = self.shared.as_ref().and_then(|shared| shared.groups.poll_timeout());
        [shared, self.hub.queues().poll_timeout()].into_iter().flatten().min()
    }

    fn is_finished(&self) -> bool {
        let others = self.shared.as_ref().is_none_or(|shared| shared.closed >= self.hub.cores());
        self.failure.is_some() || self.is_closing() && self.told && others
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core")
            .field("hub", &self.hub)
            .field("stopping", &self.stopping)
            .finish_non_exhaustive()
    }
}
