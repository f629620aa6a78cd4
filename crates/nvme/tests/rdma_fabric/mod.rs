//! Both roles over software iWARP, as a fabric of the bench.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use buf::{Account, Buf, BufList, Pool, SharedBuf};
use iwarp::mpa::{Offer, Revision, RtrKinds};
use iwarp::{Connection, Role};
use nvme::controller::Portal;
use nvme::cqe::CompletionQueueEntry;
use nvme::host::Config;
use nvme::rdma::{ControllerConnection, HostConnection};
use nvme::sqe::SubmissionQueueEntry;
use protocol::{CloseReason, Ended, Instant, Placement, Transmit};
use verbs::{
    PostError, PrivateData, QueueLimits, QueuePair, QueuePairLimits, QueuePairState, RegionMemory,
    RemoteRegion, STag, SetupAnswer, SetupEvent, WorkCompletion, WorkDone, WorkId, WorkMemory, WorkRequest,
};
use zerocopy::{FromBytes, IntoBytes};

use super::common::Fabric;

pub type Controller = ControllerConnection<Connection>;
pub type Host = HostConnection<Connection>;

/// Software iWARP.
#[derive(Clone, Copy)]
pub struct Iwarp {
    pub crc: bool,
    /// RDMA Reads at a time.
    pub reads: u16,
}

impl Default for Iwarp {
    fn default() -> Self {
        Self { crc: false, reads: 4 }
    }
}

impl Iwarp {
    pub fn pair(self, role: Role, queues: QueueLimits, pool: &Pool) -> Connection {
        let offer = Offer {
            revision: Revision::Two,
            markers: false,
            crc: self.crc,
            rtr: RtrKinds::ALL,
            ird: self.reads,
            ord: self.reads,
        };
        let config = iwarp::Config { role, offer, queues, mss: 1448, solicited: false };
        Connection::new(Instant::ZERO, config, Account::new(pool))
    }
}

impl Fabric for Iwarp {
    type Host = Host;
    type Controller = Controller;

    fn host(&self, config: Config, now: Instant) -> Host {
        let role = Role::Initiator(Host::private_data(&config));
        let pair = self.pair(role, Host::needs(&config), &Pool::new(1 << 20));
        Host::new(pair, config, now)
    }

    fn controller(&self, portal: Arc<Portal>, pool: Pool, now: Instant) -> Controller {
        let pair = self.pair(Role::Responder, Controller::needs(&portal), &pool);
        Controller::new(pair, portal, pool, now)
    }
}

/// Software iWARP under a host that says what it likes.
#[derive(Default)]
pub struct Hostile {
    pub iwarp: Iwarp,
    /// What the next host says in its connection request, if not what it should.
    pub private_data: Option<PrivateData>,
}

impl Fabric for Hostile {
    type Host = RawHost;
    type Controller = Controller;

    fn host(&self, config: Config, _now: Instant) -> RawHost {
        let said = self.private_data.clone().unwrap_or_else(|| Host::private_data(&config));
        let needs = QueueLimits { sends: 512, receives: 256, regions: 64, longest: 1 << 20 };
        let mut pair = self.iwarp.pair(Role::Initiator(said), needs, &Pool::new(1 << 20));
        for _ in 0..256 {
            pair.post(WorkId(0), WorkRequest::Receive { into: Buf::zeroed(16) }).unwrap();
        }
        RawHost { pair, events: Vec::new(), done: Vec::new() }
    }

    fn controller(&self, portal: Arc<Portal>, pool: Pool, now: Instant) -> Controller {
        self.iwarp.controller(portal, pool, now)
    }
}

/// A host's queue pair without a host.
pub struct RawHost {
    pub pair: Connection,
    pub events: Vec<SetupEvent>,
    pub done: Vec<WorkCompletion>,
}

impl RawHost {
    /// Sends a message.
    pub fn send(&mut self, bytes: &[u8]) {
        let data = BufList::from(SharedBuf::from(bytes.to_vec()));
        self.pair.post(WorkId(1), WorkRequest::Send { data, invalidate: None }).unwrap();
    }

    /// Sends a command with data in its capsule.
    pub fn command(&mut self, entry: SubmissionQueueEntry, data: &[u8]) {
        self.send(&[entry.as_bytes(), data].concat());
    }

    /// Registers memory, while nothing that was posted before is still to be sent.
    pub fn register(&mut self, memory: RegionMemory) -> RemoteRegion {
        self.pair.post(WorkId(3), WorkRequest::Register { memory }).unwrap();
        self.pair.poll(Instant::ZERO, &mut self.done);
        let at = self.done.iter().position(|done| done.id == WorkId(3)).unwrap();
        match self.done.remove(at).result {
            Ok(WorkDone::Registered(region)) => region,
            other => panic!("{other:?}"),
        }
    }

    /// The responses that have come, with the keys that they have invalidated.
    pub fn responses(&mut self) -> Vec<(CompletionQueueEntry, Option<STag>)> {
        self.pair.poll(Instant::ZERO, &mut self.done);
        let mut responses = Vec::new();
        for WorkCompletion { result, memory, .. } in self.done.drain(..) {
            if let (Ok(WorkDone::Received { length, invalidated }), WorkMemory::Buf(buf)) = (result, memory) {
                let (response, _) = CompletionQueueEntry::read_from_prefix(&buf[..length]).unwrap();
                responses.push((response, invalidated));
            }
        }
        responses
    }

    /// Ends a region: its memory.
    pub fn invalidate(&mut self, stag: STag) -> WorkMemory {
        self.pair.post(WorkId(4), WorkRequest::Invalidate { stag }).unwrap();
        self.pair.poll(Instant::ZERO, &mut self.done);
        let at = self.done.iter().position(|done| done.id == WorkId(4)).unwrap();
        self.done.remove(at).memory
    }
}

impl protocol::Connection for RawHost {
    type Input = nvme::host::Input;
    type Action = nvme::host::Action;

    const STAGING: usize = Connection::STAGING;

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        self.pair.handle_bytes(now, bytes)
    }

    fn take_placement(&mut self) -> Option<Placement> {
        self.pair.take_placement()
    }

    fn handle_placed(&mut self, now: Instant, placement: Placement) {
        self.pair.handle_placed(now, placement);
    }

    fn handle_input(&mut self, _now: Instant, _input: nvme::host::Input) {}

    fn handle_transmitted(&mut self, now: Instant, bytes: usize) {
        self.pair.handle_transmitted(now, bytes);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.pair.handle_timeout(now);
    }

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        self.pair.handle_ended(now, how);
    }

    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
        self.pair.poll_transmit(now, send);
    }

    fn poll_action(&mut self) -> Option<nvme::host::Action> {
        self.events.extend(std::iter::from_fn(|| self.pair.poll_action()));
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.pair.poll_timeout()
    }

    fn wants_bytes(&mut self) -> bool {
        self.pair.wants_bytes()
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.pair.poll_close()
    }
}

/// Software iWARP as a provider that has little: no remote invalidation, and room for few requests and regions.
pub struct Narrow;

/// A queue pair that has little.
#[derive(Debug)]
pub struct NarrowPair(Connection);

impl Fabric for Narrow {
    type Host = HostConnection<NarrowPair>;
    type Controller = ControllerConnection<NarrowPair>;

    fn host(&self, config: Config, now: Instant) -> Self::Host {
        let role = Role::Initiator(Host::private_data(&config));
        let needs = QueueLimits { sends: 5, regions: 2, ..Host::needs(&config) };
        HostConnection::new(NarrowPair(Iwarp::default().pair(role, needs, &Pool::new(1 << 20))), config, now)
    }

    fn controller(&self, portal: Arc<Portal>, pool: Pool, now: Instant) -> Self::Controller {
        let needs = QueueLimits { sends: 2, ..Controller::needs(&portal) };
        let pair = NarrowPair(Iwarp::default().pair(Role::Responder, needs, &pool));
        ControllerConnection::new(pair, portal, pool, now)
    }
}

/// A controller that has little, of a host that has more.
pub struct NarrowController;

impl Fabric for NarrowController {
    type Host = Host;
    type Controller = ControllerConnection<NarrowPair>;

    fn host(&self, config: Config, now: Instant) -> Host {
        Iwarp::default().host(config, now)
    }

    fn controller(&self, portal: Arc<Portal>, pool: Pool, now: Instant) -> Self::Controller {
        Narrow.controller(portal, pool, now)
    }
}

/// A host that has little, of a controller that has more.
pub struct NarrowHost;

impl Fabric for NarrowHost {
    type Host = HostConnection<NarrowPair>;
    type Controller = Controller;

    fn host(&self, config: Config, now: Instant) -> Self::Host {
        Narrow.host(config, now)
    }

    fn controller(&self, portal: Arc<Portal>, pool: Pool, now: Instant) -> Controller {
        Iwarp::default().controller(portal, pool, now)
    }
}

impl QueuePair for NarrowPair {
    fn limits(&self) -> QueuePairLimits {
        QueuePairLimits { remote_invalidation: false, ..self.0.limits() }
    }

    fn post(&mut self, id: WorkId, request: WorkRequest) -> Result<(), PostError> {
        if let WorkRequest::Send { invalidate, .. } = &request {
            assert_eq!(*invalidate, None, "nobody asks for what is not there");
        }
        self.0.post(id, request)
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<WorkCompletion>) {
        self.0.poll(now, done);
        for completion in done {
            let told = matches!(completion.result, Ok(WorkDone::Received { invalidated: Some(_), .. }));
            assert!(!told, "nobody was asked to invalidate");
        }
    }

    fn disconnect(&mut self) {
        self.0.disconnect();
    }

    fn state(&self) -> QueuePairState {
        self.0.state()
    }
}

impl protocol::Connection for NarrowPair {
    type Input = SetupAnswer;
    type Action = SetupEvent;

    const STAGING: usize = Connection::STAGING;

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        self.0.handle_bytes(now, bytes)
    }

    fn take_placement(&mut self) -> Option<Placement> {
        self.0.take_placement()
    }

    fn handle_placed(&mut self, now: Instant, placement: Placement) {
        self.0.handle_placed(now, placement);
    }

    fn handle_input(&mut self, now: Instant, input: SetupAnswer) {
        self.0.handle_input(now, input);
    }

    fn handle_transmitted(&mut self, now: Instant, bytes: usize) {
        self.0.handle_transmitted(now, bytes);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.0.handle_timeout(now);
    }

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        self.0.handle_ended(now, how);
    }

    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
        self.0.poll_transmit(now, send);
    }

    fn poll_action(&mut self) -> Option<SetupEvent> {
        self.0.poll_action()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout()
    }

    fn wants_bytes(&mut self) -> bool {
        self.0.wants_bytes()
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.0.poll_close()
    }
}
