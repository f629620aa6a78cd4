//! What runs on each core of a serving process.
//!
//! Every core owns its queues and connections: for each kind of what is served, volumes and files, a [`KindCore`]. Core 0 also
//! owns what all share: groups and reservations.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use buf::{Account, Pool};
use filesystem::{Credentials, Operation, Request};
use host::{
    Accepted, AdapterError, AdapterPair, DatagramEndpoint, Dialer, Endpoint, EndpointId, Event, Kind, Level,
    OpenSocket, Refusal, Service, World,
};
use iscsi::datamover::iser::target_needs;
use nfs::server::exports::FileKey;
use nfs::state::holdings::Release;
use protocol::Instant;
use roce::endpoint::Incoming;
use verbs::QueueLimits;
use volume::{CoreId, Epoch, QueueContext, Submission, VolumeId};

use crate::adapters::{AdapterOwner, AskedPair, NewOwner, Ports, Side};
use crate::catalogue::coordinator::{self, Coordinator};
use crate::catalogue::{Catalogue, Generation, ListenerRole, Listening, Portals, ProposalError, Transport};
use crate::config::EngineConfig;
use crate::driver::Driver;
use crate::fence::{Outcome, Owner};
use crate::file_kind::{self, FileKind};
use crate::groups::Groups;
use crate::iscsi_target::{AdapterTarget, IscsiTarget, IserTarget, Newcomer, RoceTarget};
use crate::iwarp_link::{self, IwarpLink};
use crate::kind_core::KindCore;
use crate::leaving_volumes::LeavingVolumes;
use crate::limits::NEWCOMERS;
use crate::message::{Answer, Inbound, Member, Message};
use crate::nfs_portal::NfsPortal;
use crate::nfs_service::{AdapterNfs, NfsPeer, NfsService, RdmaNfs, RoceNfs};
use crate::nvme_controller::{AdapterController, NvmeController, RdmaController, RoceController};
use crate::queue_pairs::{self, Asked, Joining, OwnerName, RoceLink, Seed, Sockets};
use crate::queues::{RELEASE, SubmitError};
use crate::volume_kind::VolumeKind;
use crate::volume_watch::{self, VolumeNews, VolumeWatch};

/// What only core 0 has.
struct Shared {
    groups: Groups,
    owner: Owner,
    watch: VolumeWatch,
    coordinator: Coordinator,
    /// What is to be closed at file systems.
    releases: Releases,
    /// Cores that have neither connections nor queues any more.
    closed: u16,
    leaving: LeavingVolumes,
}

/// Files that NFS clients have open no more, on their way to the file systems.
#[derive(Debug, Default)]
struct Releases {
    waiting: VecDeque<Submission<Request>>,
    /// The last request's own tag.
    last: u32,
}

impl Releases {
    fn push(&mut self, Release { file, open }: Release<FileKey>) {
        self.last = self.last.wrapping_add(1);
        let request = Request {
            tag: filesystem::Tag(self.last.into()),
            // What was opened is closed by whoever says so.
            credentials: Arc::new(Credentials::of(0, 0)),
            operation: Operation::Close { open },
        };
        let volume = file_kind::served(file.filesystem);
        self.waiting.push_back(Submission { volume, epoch: Epoch::default(), request });
    }

    /// Closes as many as the queue takes; of a file system that has gone nothing is open.
    fn submit(&mut self, now: Instant, files: &KindCore<FileKind>) {
        while let Some(submission) = self.waiting.pop_front() {
            if let Err(SubmitError::Full(submission)) = files.hub.submit(now, RELEASE, submission) {
                return self.waiting.push_front(submission);
            }
        }
    }
}

/// How far a core is on its way from serving to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Serving,
    /// Its connections are to end, and its queues after them.
    Stopping,
    /// It has neither any more, and core 0 knows.
    Closed,
    /// So have all.
    Finished,
}

/// What is told of a connection over RoCE that begins.
const ROCE_BEGINS: &str = "a connection begins, over RoCE";

/// What is told of a connection over an adapter that begins.
const ADAPTER_BEGINS: &str = "a connection begins, over an RDMA adapter";

/// Why a connection is refused to whose port nothing belongs.
const NOT_SERVED: Refusal = Refusal("nothing is served at this port any more");

/// One core's service.
pub struct Core {
    config: Arc<EngineConfig>,
    /// What it does for volumes.
    volumes: KindCore<VolumeKind>,
    /// What it does for file systems.
    files: KindCore<FileKind>,
    /// Where queue pairs come to.
    sockets: Sockets,
    /// Where those of adapters come to.
    ports: Ports,
    dialer: Arc<dyn Dialer>,
    /// What new connections find; sizes change.
    catalogue: Catalogue,
    /// The portals in it, as they were proposed.
    portals: Portals,
    /// Those of before, while connections that tell their hosts have not heard of any other.
    announced: Option<Portals>,
    /// The catalogue whose queues are open and that nobody knows of yet.
    prepared: Option<Arc<Catalogue>>,
    shared: Option<Shared>,
    stage: Stage,
}

impl Core {
    /// The memory of this core's connections.
    pub fn pool(&self) -> &Pool {
        &self.volumes.hub.pool
    }

    /// A core that serves `catalogue` from the beginning, as all others do.
    ///
    /// # Errors
    /// A queue of one of the volumes cannot be opened on this core.
    pub fn new(
        config: Arc<EngineConfig>,
        mut catalogue: Catalogue,
        world: World<Message>,
    ) -> Result<Self, ProposalError> {
        let pool = Pool::new(config.pool_limit);
        let World { core, dialer, postbox, waker, .. } = world;
        let context = QueueContext::new(CoreId(core), waker.clone(), pool);
        let volumes = KindCore::new(&config, context.clone(), Arc::clone(&postbox), &catalogue.volumes)?;
        let files = KindCore::new(&config, context, Arc::clone(&postbox), &catalogue.files)?;
        let portals = Portals::of(&catalogue);
        // What changed before this core began was told to others.
        catalogue.refresh();
        let shared = (core == Groups::CORE).then(|| {
            let mut watch = VolumeWatch::new(waker);
            watch.add(&catalogue.volumes);
            let coordinator = Coordinator::new(postbox.cores(), &catalogue);
            let mut groups = Groups::new();
            catalogue.nfs.iter().for_each(|start| groups.serve_nfs(start));
            let (owner, releases) = (Owner::default(), Releases::default());
            let mut leaving = LeavingVolumes::default();
            leaving.attend(&catalogue.volumes, volumes.context());
            Shared { groups, owner, watch, coordinator, releases, closed: 0, leaving }
        });
        let (announced, prepared, stage) = (None, None, Stage::Serving);
        let (sockets, ports) = (Sockets::default(), Ports::default());
        let mut core = Self {
            config,
            volumes,
            files,
            sockets,
            ports,
            dialer,
            catalogue,
            portals,
            announced,
            prepared,
            shared,
            stage,
        };
        core.open_ports();
        Ok(core)
    }

    /// True once it is stopping and has no connection left.
    pub fn is_closing(&self) -> bool {
        self.stage != Stage::Serving && self.members() == 0
    }

    /// How many connections it has.
    fn members(&self) -> usize {
        self.volumes.hub.members() + self.files.hub.members()
    }

    /// Ends the queues once nobody is left who could ask for anything, and the core after them. Core 0 has what queues of other cores may need, so all
    /// end together.
    fn close(&mut self, now: Instant) {
        if self.stage != Stage::Stopping || self.members() > 0 {
            return;
        }
        let is_empty = [self.volumes.retire(now), self.files.retire(now)] == [true; 2];
        let is_settled = self.prepared.is_none() && self.announced.is_none();
        if is_settled && is_empty {
            self.stage = Stage::Closed;
            self.volumes.hub.post_owner(Message::Closed);
        }
    }

    /// Opens queues of the volumes that are new in a catalogue.
    fn prepare(&mut self, catalogue: Arc<Catalogue>) -> Result<(), ProposalError> {
        if self.stage != Stage::Serving {
            return Err(ProposalError::Stopping);
        }
        self.volumes.prepare(&catalogue.volumes)?;
        if let Err(error) = self.files.prepare(&catalogue.files) {
            self.volumes.abandon();
            return Err(error);
        }
        if let Some(shared) = &mut self.shared {
            // Before any core lets a client in.
            catalogue.nfs.iter().for_each(|start| shared.groups.serve_nfs(start));
            // A core that shows the volumes before the others do finds their sizes of then.
            shared.watch.add(&catalogue.volumes);
        }
        self.prepared = Some(catalogue);
        Ok(())
    }

    /// Drops what was prepared.
    fn abandon(&mut self) {
        self.prepared = None;
        self.volumes.abandon();
        self.files.abandon();
        if let Some(shared) = &mut self.shared {
            shared.watch.retain(&self.catalogue.ids());
        }
    }

    /// Serves what was prepared to whoever asks. Connections that would tell their hosts do not hear of it: a host may ask for what is new on a core that does
    /// not serve it yet, and would be refused for good.
    fn commit(&mut self) {
        let Some(prepared) = self.prepared.take() else { return };
        let portals = Portals::of(&prepared);
        let before = std::mem::replace(&mut self.catalogue, Arc::unwrap_or_clone(prepared));
        for listening in &mut self.catalogue.listeners {
            if let Some(kept) =
                before.role(listening.id).filter(|_| self.portals.keeps(listening.id, &portals))
            {
                listening.role = kept.clone();
            }
        }
        self.catalogue.refresh();
        if let Some(shared) = &mut self.shared {
            let gone = before.volumes.into_iter().filter(|served| self.catalogue.volume(served.id).is_none());
            shared.leaving.withdraw(gone);
            shared.leaving.attend(&self.catalogue.volumes, self.volumes.context());
        }
        let before = std::mem::replace(&mut self.portals, portals);
        self.volumes.commit();
        self.files.commit();
        self.open_ports();
        self.show(&before, Inbound::PortalCommitted, Inbound::PortalCommitted);
        self.announced = Some(before);
    }

    /// Takes over the adapters' ports of new listeners, and lets nobody in any more at those that are gone. All of them are core 0's.
    fn open_ports(&mut self) {
        if self.shared.is_none() {
            return;
        }
        let listeners = &self.catalogue.listeners;
        for listening in listeners.iter().filter(|listening| listening.transport == Transport::Adapter) {
            self.ports.open(listening.id, &*self.config.adapters, &*self.dialer);
        }
        let stays = |id| listeners.iter().any(|listening| listening.id == id);
        self.ports.retain(stays, &*self.dialer);
    }

    /// Tells everybody what is served, now that all cores do. Every connection hears of it before a request of it can be refused for it.
    fn announce(&mut self, now: Instant) {
        let Some(before) = self.announced.take() else { return };
        self.show(&before, Inbound::PortalChanged, Inbound::PortalChanged);
        let ids = self.catalogue.ids();
        self.volumes.withdraw(now, &ids);
        self.files.withdraw(now, &ids);
        if let Some(shared) = &mut self.shared {
            shared.watch.retain(&ids);
        }
    }

    /// Tells the connections whose portals have changed, and what holds of the volumes behind them: some may be new to them.
    fn show(
        &self,
        before: &Portals,
        of_volumes: fn(ListenerRole) -> Inbound,
        of_files: fn(ListenerRole) -> Inbound<FileKind>,
    ) {
        let gone: Vec<_> = before.gone(&self.portals).collect();
        let changed = |id| match gone.iter().find(|listening| listening.id == id) {
            Some(listening) => Some(listening.role.clone()),
            None if before.keeps(id, &self.portals) => None,
            None => self.catalogue.role(id).cloned(),
        };
        self.volumes.show(|id| changed(id).map(of_volumes));
        self.files.show(|id| changed(id).map(of_files));
    }

    /// True for a volume that is served, or is about to be: other cores may serve it already.
    fn shows(&self, volume: VolumeId) -> bool {
        let prepared = self.prepared.as_ref().and_then(|prepared| prepared.volume(volume));
        prepared.or(self.catalogue.volume(volume)).is_some()
    }

    /// Tells core 0 that a round of putting a catalogue in place is over here.
    fn answer(&self, generation: Generation, result: Result<(), ProposalError>) {
        self.volumes.hub.post_owner(Message::Answered(generation, result));
    }

    /// The listener of a stream, unless that cannot be served.
    fn listening(&self, accepted: Accepted) -> Result<&Listening, Refusal> {
        self.admit()?;
        self.catalogue.listening(accepted.listener).ok_or(NOT_SERVED)
    }

    /// Whether another connection can be served.
    fn admit(&self) -> Result<(), Refusal> {
        if self.stage != Stage::Serving {
            return Err(Refusal("the server is stopping"));
        }
        let most = self.catalogue.limits.per_core;
        // Each protocol's newcomers make room among themselves.
        self.volumes.hub.evict_oldest_pending(most / NEWCOMERS);
        self.files.hub.evict_oldest_pending(most / NEWCOMERS);
        if self.members() >= most {
            return Err(Refusal("the limit of connections is reached"));
        }
        Ok(())
    }

    /// The driver of a stream that came to a listener.
    fn endpoint(
        &self,
        listening: &Listening,
        now: Instant,
        accepted: Accepted,
    ) -> Result<Box<dyn Endpoint>, Refusal> {
        let hub = Rc::clone(&self.volumes.hub);
        let pool = &self.volumes.hub.pool;
        let newcomer = || Newcomer { pool, entropy: (self.config.entropy)(), now, accepted };
        let mss = iwarp_link::segment_size(accepted.peer, Some(accepted.local));
        let link = |crc| IwarpLink { crc, mss };
        Ok(match (&listening.role, listening.transport) {
            (_, Transport::Roce { .. } | Transport::Adapter) => return Err(NOT_SERVED),
            (ListenerRole::Nfs(portal), Transport::Tcp) => {
                let connection = <NfsService>::connect(self.nfs_peer(portal, accepted.peer));
                Box::new(Driver::<NfsService>::new(Rc::clone(&self.files.hub), accepted, connection))
            }
            (ListenerRole::Nfs(portal), Transport::Iwarp { crc }) => {
                let peer = self.nfs_peer(portal, accepted.peer);
                let connection = NfsService::<RdmaNfs>::connect(peer, link(crc), now);
                Box::new(Driver::<NfsService<RdmaNfs>>::new(Rc::clone(&self.files.hub), accepted, connection))
            }
            (ListenerRole::Iscsi(portal), Transport::Tcp) => {
                let connection = <IscsiTarget>::connect(portal, newcomer());
                Box::new(Driver::<IscsiTarget>::new(hub, accepted, connection))
            }
            (ListenerRole::Iscsi(portal), Transport::Iwarp { crc }) => {
                let connection = IscsiTarget::<IserTarget>::connect(portal, link(crc), newcomer());
                Box::new(Driver::<IscsiTarget<IserTarget>>::new(hub, accepted, connection))
            }
            (ListenerRole::Nvme(portal), Transport::Tcp) => {
                let connection = <NvmeController>::connect(portal, pool, now);
                Box::new(Driver::<NvmeController>::new(hub, accepted, connection))
            }
            (ListenerRole::Nvme(portal), Transport::Iwarp { crc }) => {
                let connection = NvmeController::<RdmaController>::connect(portal, link(crc), pool, now);
                Box::new(Driver::<NvmeController<RdmaController>>::new(hub, accepted, connection))
            }
        })
    }

    /// Decides about those who want queue pairs, and lets go of owners that are gone.
    fn accept_queue_pairs(&mut self, now: Instant, ready: &mut Vec<EndpointId>) {
        let mut gone = Vec::new();
        self.sockets.take_gone(&mut gone);
        for owner in gone {
            self.handle_gone(now, owner);
        }
        while let Some(asked) = self.sockets.next_request() {
            let peer = asked.request.from();
            let (name, accepted) = (asked.name, self.accept_queue_pair(now, asked));
            let event = match accepted {
                Ok(()) => {
                    ready.push(name);
                    Event::new(Kind::Accepted, ROCE_BEGINS)
                }
                Err(refusal) => Event::new(Kind::Rejected, refusal.0),
            };
            self.config.journal.record(event.from_peer(peer));
        }
    }

    fn accept_queue_pair(&mut self, now: Instant, asked: Asked) -> Result<(), Refusal> {
        let Asked { local, socket, request, name } = asked;
        let (peer, service) = (request.from(), request.port());
        let found = self.admit().and_then(|()| self.catalogue.service(local, service).ok_or(NOT_SERVED));
        let listening = match found {
            Ok(found) => found,
            Err(refusal) => {
                socket.with(|socket| socket.refuse(&request));
                return Err(refusal);
            }
        };
        let config = RoceLink::RESPONDER.responder(needs(&listening.role));
        let incoming = Incoming { request, config };
        let pool = &self.volumes.hub.pool;
        let pair = socket.with(|socket| socket.accept(now, incoming, pool).ok()).flatten();
        let pair =
            pair.ok_or(Refusal("there is no memory for another queue pair, or its packets are too long"))?;
        let (listener, local) = (listening.id, SocketAddr::new(local.ip(), service));
        let accepted = Accepted { listener, endpoint: name, local, peer };
        let (id, owner) = (pair.id(), self.owner(&listening.role, now, accepted, pair));
        socket.with(|socket| socket.insert(Joining { id, name: OwnerName::Own(name), owner }));
        self.welcome(&listening.role, name);
        Ok(())
    }

    /// The driver of a queue pair that a peer wants of a listener.
    fn owner(
        &self,
        role: &ListenerRole,
        now: Instant,
        accepted: Accepted,
        pair: roce::Connection,
    ) -> Box<dyn queue_pairs::Owner> {
        let hub = Rc::clone(&self.volumes.hub);
        let pool = &self.volumes.hub.pool;
        match role {
            ListenerRole::Nfs(portal) => {
                let peer = self.nfs_peer(portal, accepted.peer);
                let connection = NfsService::<RoceNfs>::connect(peer, pair, now);
                Box::new(Driver::<NfsService<RoceNfs>>::new(Rc::clone(&self.files.hub), accepted, connection))
            }
            ListenerRole::Iscsi(portal) => {
                let newcomer = Newcomer { pool, entropy: (self.config.entropy)(), now, accepted };
                let connection = IscsiTarget::<RoceTarget>::connect(portal, pair, newcomer);
                Box::new(Driver::<IscsiTarget<RoceTarget>>::new(hub, accepted, connection))
            }
            ListenerRole::Nvme(portal) => {
                let connection = NvmeController::<RoceController>::connect(portal, pair, pool, now);
                Box::new(Driver::<NvmeController<RoceController>>::new(hub, accepted, connection))
            }
        }
    }

    /// Decides about those who want queue pairs of adapters, and lets go of owners that are gone.
    fn accept_adapter_pairs(&mut self, now: Instant, ready: &mut Vec<EndpointId>) {
        let mut gone = Vec::new();
        self.ports.take_gone(&mut gone, &*self.dialer);
        for owner in gone {
            self.handle_gone(now, owner);
        }
        while let Some(asked) = self.ports.next_request() {
            let (peer, name) = (asked.request.from, asked.name);
            let event = match self.accept_adapter_pair(now, asked) {
                Ok(()) => {
                    ready.push(name);
                    Event::new(Kind::Accepted, ADAPTER_BEGINS)
                }
                Err(why) => Event::new(Kind::Rejected, why.0),
            };
            self.config.journal.record(event.from_peer(peer));
        }
    }

    fn accept_adapter_pair(&mut self, now: Instant, asked: AskedPair) -> Result<(), AdapterError> {
        let AskedPair { listener, owners, request, name } = asked;
        let mut owners = owners.borrow_mut();
        let found = self.admit().and_then(|()| self.catalogue.listening(listener).ok_or(NOT_SERVED));
        let told = |refusal: Refusal| AdapterError(refusal.0.to_owned());
        let listening = match found {
            Ok(found) => found,
            Err(refusal) => {
                owners.refuse(request);
                return Err(told(refusal));
            }
        };
        let needs = Side::Target.needs(needs(&listening.role));
        let pair = owners.accept(request, needs, Account::apart(&self.volumes.hub.pool))?;
        let accepted =
            Accepted { listener: listening.id, endpoint: name, local: request.local, peer: request.from };
        let (id, owner) = (pair.id(), self.adapter_owner(&listening.role, now, accepted, pair));
        owners.insert(NewOwner { id, name, owner });
        self.welcome(&listening.role, name);
        Ok(())
    }

    /// The driver of a queue pair of an adapter's that a peer wants of a listener.
    fn adapter_owner(
        &self,
        role: &ListenerRole,
        now: Instant,
        accepted: Accepted,
        pair: AdapterPair,
    ) -> Box<dyn AdapterOwner> {
        let hub = Rc::clone(&self.volumes.hub);
        let pool = &self.volumes.hub.pool;
        match role {
            ListenerRole::Nfs(portal) => {
                let peer = self.nfs_peer(portal, accepted.peer);
                let connection = NfsService::<AdapterNfs>::connect(peer, pair, now);
                Box::new(Driver::<NfsService<AdapterNfs>>::new(
                    Rc::clone(&self.files.hub),
                    accepted,
                    connection,
                ))
            }
            ListenerRole::Iscsi(portal) => {
                let newcomer = Newcomer { pool, entropy: (self.config.entropy)(), now, accepted };
                let connection = IscsiTarget::<AdapterTarget>::connect(portal, pair, newcomer);
                Box::new(Driver::<IscsiTarget<AdapterTarget>>::new(hub, accepted, connection))
            }
            ListenerRole::Nvme(portal) => {
                let connection = NvmeController::<AdapterController>::connect(portal, pair, pool, now);
                Box::new(Driver::<NvmeController<AdapterController>>::new(hub, accepted, connection))
            }
        }
    }

    fn nfs_peer<'a>(&'a self, portal: &'a NfsPortal, address: SocketAddr) -> NfsPeer<'a> {
        NfsPeer { portal, address, pool: &self.volumes.hub.pool }
    }

    /// Tells a new connection what holds of what it may use.
    fn welcome(&self, role: &ListenerRole, endpoint: EndpointId) {
        match role {
            ListenerRole::Nfs(_) => self.files.welcome(endpoint),
            ListenerRole::Iscsi(_) | ListenerRole::Nvme(_) => self.volumes.welcome(endpoint),
        }
    }

    /// Sends to one connection, whatever it serves.
    fn post_member(&self, to: Member, answer: Answer) {
        match answer {
            Answer::Nfs(_) => self.files.hub.post_member(to, answer),
            _ => self.volumes.hub.post_member(to, answer),
        }
    }

    fn run_shared(&mut self, now: Instant) {
        let Some(shared) = &mut self.shared else { return };
        let hub = &self.volumes.hub;
        shared.watch.check(|news| match news {
            VolumeNews::Size(volume, geometry) => hub.post_all(|| Message::Resized(volume, geometry)),
            VolumeNews::Path { volume, state, why } => {
                volume_watch::tell_path(&*hub.journal, volume, state, why);
            }
        });
        while let Some(outcome) = shared.coordinator.poll() {
            match outcome {
                coordinator::Outcome::Begin(round) => hub.post_all(|| round.message()),
                coordinator::Outcome::Observe(event) => {
                    if let Some(event) = shared.leaving.hear(event, self.volumes.context()) {
                        self.config.observer.observe(event);
                    }
                }
            }
        }
        while let Some(outcome) = shared.owner.poll() {
            match outcome {
                Outcome::Broadcast(fence) => hub.post_all(|| Message::Fence(fence.clone())),
                Outcome::Answer(to, answer) => hub.post_member(to, answer),
            }
        }
        while let Some(release) = shared.groups.poll_release() {
            shared.releases.push(release);
        }
        shared.releases.submit(now, &self.files);
        while let Some((to, answer)) = self.shared.as_mut().and_then(|shared| shared.groups.poll()) {
            self.post_member(to, answer);
        }
    }

    /// No core has a queue any more: what needs it is left in order.
    fn begin_leaving(&mut self, now: Instant) {
        let Some(shared) = &mut self.shared else { return };
        let volumes = self.catalogue.volumes.iter().map(|served| Arc::clone(&served.volume));
        shared.leaving.begin_last(volumes, self.volumes.context());
        self.leave(now);
    }

    /// Goes on with that; all cores end when it is over.
    fn leave(&mut self, now: Instant) {
        let Some(shared) = &mut self.shared else { return };
        for error in shared.leaving.take_failed() {
            let event = Event::new(Kind::Io, format!("a volume cannot be left in order: {error}"));
            self.config.journal.record(event.at(Level::Warn));
        }
        if shared.leaving.poll(now, |event| self.config.observer.observe(event)) {
            self.volumes.hub.post_all(|| Message::Finish);
        }
    }

    fn handle_owned(&mut self, now: Instant, message: Message) {
        let is_gone = matches!(&message, Message::Reserve(call) if !self.shows(call.volume));
        let Some(shared) = &mut self.shared else { return };
        match message {
            Message::Session(from, request) => shared.groups.handle_session(now, from, request),
            Message::Subsystem(from, request) => shared.groups.handle_subsystem(now, from, request),
            Message::Nfs(from, request) => shared.groups.handle_nfs(now, from, *request),
            Message::NfsRecord(client, result) => shared.groups.handle_nfs_record(now, client, result),
            Message::Left(member) => shared.groups.handle_leave(now, member),
            Message::Reserve(call) if is_gone => shared.owner.refuse(&call),
            Message::Reserve(call) => shared.owner.apply(&call, self.volumes.hub.cores()),
            Message::Reset(call) => shared.owner.reset(call, self.volumes.hub.cores()),
            Message::Fenced(number) => shared.owner.acknowledge(number),
            Message::Propose(catalogue) => shared.coordinator.propose(catalogue),
            Message::Answered(generation, result) => shared.coordinator.handle_answer(generation, result),
            Message::Retired(retired) => {
                if shared.coordinator.handle_retired(retired) {
                    shared.owner.forget(retired.id);
                }
            }
            Message::Closed => {
                shared.closed += 1;
                if shared.closed == self.volumes.hub.cores() {
                    self.begin_leaving(now);
                }
            }
            Message::Deliver(..)
            | Message::Event(..)
            | Message::Fence(_)
            | Message::Resized(..)
            | Message::Prepare(_)
            | Message::Commit(_)
            | Message::Announce(_)
            | Message::Abandon(_)
            | Message::Shutdown
            | Message::Finish => {}
        }
    }
}

/// What a queue pair must hold for any peer of a listener.
fn needs(role: &ListenerRole) -> QueueLimits {
    match role {
        ListenerRole::Iscsi(portal) => target_needs(portal.queue_depth),
        ListenerRole::Nvme(portal) => NvmeController::<RoceController>::needs(portal),
        ListenerRole::Nfs(_) => NfsService::<RdmaNfs>::needs(),
    }
}

impl Service for Core {
    type Message = Message;

    fn accept(&mut self, now: Instant, accepted: Accepted) -> Result<Box<dyn Endpoint>, Refusal> {
        let listening = match self.listening(accepted) {
            Ok(listening) => listening,
            Err(refusal) => {
                let event = Event::new(Kind::Rejected, refusal.0);
                self.config.journal.record(event.from_peer(accepted.peer));
                return Err(refusal);
            }
        };
        if self.config.journal.wants(Kind::Accepted, Kind::Accepted.level()) {
            let text = match listening.transport {
                Transport::Tcp => "a connection begins",
                Transport::Iwarp { .. } => "a connection begins, over iWARP",
                Transport::Roce { .. } => ROCE_BEGINS,
                Transport::Adapter => ADAPTER_BEGINS,
            };
            let event = Event::new(Kind::Accepted, text);
            self.config.journal.record(event.from_peer(accepted.peer));
        }
        let endpoint = self.endpoint(listening, now, accepted)?;
        self.welcome(&listening.role, accepted.endpoint);
        Ok(endpoint)
    }

    fn open_socket(&mut self, _now: Instant, socket: OpenSocket) -> Option<Box<dyn DatagramEndpoint>> {
        let pool = &self.volumes.hub.pool;
        let seed = Seed { entropy: (self.config.entropy)(), counters: Arc::clone(&self.config.roce) };
        Some(self.sockets.open(socket, pool, seed))
    }

    fn handle_socket_gone(&mut self, _now: Instant, socket: EndpointId) {
        self.sockets.forget(socket);
    }

    fn handle_shortage(&mut self, code: i32) {
        let error = std::io::Error::from_raw_os_error(code);
        let event = Event::new(Kind::Rejected, format!("no connection can be accepted for a while: {error}"));
        self.config.journal.record(event);
    }

    fn handle_message(&mut self, now: Instant, message: Message) {
        match message {
            Message::Deliver(endpoint, answer @ Answer::Nfs(_)) => {
                self.files.hub.deliver(endpoint, answer.into());
            }
            Message::Deliver(endpoint, answer) => self.volumes.hub.deliver(endpoint, answer.into()),
            Message::Event(from, volume, event) => {
                let except = (from.core == self.volumes.hub.core).then_some(from.endpoint);
                self.volumes.hub.deliver_all(except, || Inbound::Event(volume, event.clone()));
            }
            Message::Fence(fence) => {
                self.volumes.handle_fence(&fence);
                if self.shows(fence.served) {
                    self.volumes.keep_for_newcomers(&fence);
                }
            }
            Message::Resized(volume, geometry) => {
                self.catalogue.resize(volume, geometry);
                self.volumes.hub.deliver_all(None, || Inbound::Resized(volume, geometry));
            }
            Message::Prepare(catalogue) => {
                let generation = catalogue.generation;
                let result = self.prepare(catalogue);
                self.answer(generation, result);
            }
            Message::Commit(generation) => {
                self.commit();
                self.answer(generation, Ok(()));
            }
            Message::Announce(generation) => {
                self.announce(now);
                self.answer(generation, Ok(()));
            }
            Message::Abandon(generation) => {
                self.abandon();
                self.answer(generation, Ok(()));
            }
            Message::Shutdown => {
                if self.stage == Stage::Serving {
                    self.stage = Stage::Stopping;
                }
                if let Some(shared) = &mut self.shared {
                    shared.coordinator.stop();
                }
                self.volumes.hub.deliver_all(None, || Inbound::Shutdown);
                self.files.hub.deliver_all(None, || Inbound::Shutdown);
                self.close(now);
            }
            Message::Finish => self.stage = Stage::Finished,
            owned => self.handle_owned(now, owned),
        }
    }

    fn turn(&mut self, now: Instant, ready: &mut Vec<EndpointId>) {
        if let Some(shared) = &mut self.shared
            && shared.groups.poll_timeout().is_some_and(|due| due <= now)
        {
            shared.groups.handle_timeout(now);
        }
        self.run_shared(now);
        self.accept_queue_pairs(now, ready);
        self.accept_adapter_pairs(now, ready);
        self.volumes.turn(now, ready);
        self.files.turn(now, ready);
        self.sockets.wake_owners(ready);
        self.ports.wake_owners(ready);
        self.close(now);
        self.leave(now);
    }

    fn handle_gone(&mut self, now: Instant, endpoint: EndpointId) {
        self.volumes.hub.leave(now, endpoint);
        self.files.hub.leave(now, endpoint);
        let member = Member { core: self.volumes.hub.core, endpoint };
        self.volumes.hub.post_owner(Message::Left(member));
        self.close(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let shared = self.shared.as_ref();
        let groups = shared.and_then(|shared| shared.groups.poll_timeout());
        let leaving = shared.and_then(|shared| shared.leaving.poll_timeout());
        let queues = [self.volumes.hub.queues().poll_timeout(), self.files.hub.queues().poll_timeout()];
        queues.into_iter().chain([groups, leaving]).flatten().min()
    }

    fn is_finished(&self) -> bool {
        self.stage == Stage::Finished
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core")
            .field("hub", &self.volumes.hub)
            .field("stage", &self.stage)
            .finish_non_exhaustive()
    }
}
