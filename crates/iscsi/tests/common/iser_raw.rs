//! Ends that say what they like over a queue pair: a peer for either role of iSER.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    dead_code,
    unreachable_pub,
    missing_debug_implementations,
    missing_docs,
    reason = "each test file uses its own part"
)]

use std::marker::PhantomData;

use buf::{Buf, BufList, Pool, SharedBuf};
use iscsi::datamover::iser::{Invalidation, IserHeader, initiator_needs, private_data};
use iscsi::pdu::{
    BasicHeaderSegment, Bhs, LoginIdentity, LoginRequest, LoginResponse, Opcode, Reject, ScsiCommand,
    ScsiResponse, Stage,
};
use iscsi::text::Text;
use iscsi::{initiator, target};
use iwarp::Role;
use protocol::{CloseReason, Connection, Ended, Instant, Placement, Transmit};
use verbs::{
    Consumer, ManagedQueuePair, RegionMemory, RemoteRegion, STag, SetupAnswer, SetupEvent, WorkDone,
    WorkError, WorkId, WorkMemory, WorkRequest,
};

use super::iser::{Far, Near, OFFER, queue_pair};
use super::{Bench, INITIATOR, ISID, TARGET, blocks};

/// An end without a role. What its queue pair completes is kept.
pub struct RawEnd<I, A, Q = iwarp::Connection> {
    pub queue_pair: Q,
    pub messages: Vec<Message>,
    pub registered: Vec<RemoteRegion>,
    pub returned: Vec<RegionMemory>,
    pub errors: Vec<WorkError>,
    pub read: Vec<Buf>,
    role: PhantomData<(I, A)>,
}

/// A message that has come.
#[derive(Debug, Clone)]
pub struct Message {
    pub iser: IserHeader,
    pub header: Bhs,
    pub data: Vec<u8>,
    pub invalidated: Option<STag>,
}

impl Message {
    pub fn opcode(&self) -> Opcode {
        BasicHeaderSegment::from_bytes(&self.header).opcode()
    }
}

/// A message with this header, whose data is as long as the header says.
pub fn message(iser: IserHeader, mut header: Bhs, data: &[u8]) -> Vec<u8> {
    let [_, high, middle, low] = u32::try_from(data.len()).unwrap().to_be_bytes();
    header[5..8].copy_from_slice(&[high, middle, low]);
    [&iser.to_bytes(), &header[..], data].concat()
}

impl<I, A> RawEnd<I, A> {
    /// Over software iWARP.
    pub fn new(role: Role) -> Self {
        Self::over(queue_pair(role, initiator_needs(), OFFER))
    }
}

impl<I, A, Q: ManagedQueuePair> RawEnd<I, A, Q> {
    pub fn over(queue_pair: Q) -> Self {
        let mut end = Self {
            queue_pair,
            messages: Vec::new(),
            registered: Vec::new(),
            returned: Vec::new(),
            errors: Vec::new(),
            read: Vec::new(),
            role: PhantomData,
        };
        for _ in 0..64 {
            end.post(WorkRequest::Receive { into: Buf::zeroed(8300) });
        }
        end
    }

    /// Accepts whoever asks.
    fn accept(&mut self, now: Instant) {
        while let Some(event) = self.queue_pair.poll_event() {
            if matches!(event, SetupEvent::Requested(_)) {
                self.queue_pair.handle_answer(now, SetupAnswer::Accept(private_data(Invalidation::Used)));
            }
        }
    }

    pub fn post(&mut self, request: WorkRequest) {
        self.queue_pair.post(WorkId(0), request).map_err(|refused| refused.reason).unwrap();
    }

    pub fn send(&mut self, bytes: &[u8], invalidate: Option<STag>) {
        self.post(WorkRequest::Send { data: list(bytes), invalidate });
    }

    pub fn collect(&mut self) {
        let mut done = Vec::new();
        self.queue_pair.poll(Instant::ZERO, &mut done);
        for done in done {
            match (done.result, done.memory) {
                (Ok(WorkDone::Received { length, invalidated }), WorkMemory::Buf(buf)) => {
                    let iser = IserHeader::from_bytes(buf[..28].try_into().unwrap());
                    let header: Bhs = buf[28..76].try_into().unwrap();
                    let data = buf[76..length].to_vec();
                    self.messages.push(Message { iser, header, data, invalidated });
                }
                (Ok(WorkDone::Read), WorkMemory::Buf(buf)) => self.read.push(buf),
                (Ok(WorkDone::Registered(region)), _) => self.registered.push(region),
                (Ok(WorkDone::Invalidated), WorkMemory::Region(memory)) => self.returned.push(memory),
                (Err(error), _) => self.errors.push(error),
                _ => {}
            }
        }
    }

    /// Registers memory.
    pub fn register(&mut self, memory: RegionMemory) -> RemoteRegion {
        self.post(WorkRequest::Register { memory });
        self.collect();
        self.registered.pop().expect("nothing stands before it")
    }
}

pub fn list(bytes: &[u8]) -> BufList {
    BufList::from(SharedBuf::from(bytes.to_vec()))
}

impl<I, A> Connection for RawEnd<I, A> {
    type Input = I;
    type Action = A;
    const STAGING: usize = iwarp::Connection::STAGING;

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let used = self.queue_pair.handle_bytes(now, bytes);
        self.accept(now);
        used
    }

    fn take_placement(&mut self) -> Option<Placement> {
        self.queue_pair.take_placement()
    }

    fn handle_placed(&mut self, now: Instant, placement: Placement) {
        self.queue_pair.handle_placed(now, placement);
    }

    fn handle_input(&mut self, _now: Instant, _input: I) {}

    fn handle_transmitted(&mut self, now: Instant, bytes: usize) {
        self.queue_pair.handle_transmitted(now, bytes);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.queue_pair.handle_timeout(now);
    }

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        self.queue_pair.handle_ended(now, how);
    }

    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
        self.queue_pair.poll_transmit(now, send);
    }

    fn poll_action(&mut self) -> Option<A> {
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.queue_pair.poll_timeout()
    }

    fn wants_bytes(&mut self) -> bool {
        self.queue_pair.wants_bytes()
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.queue_pair.poll_close()
    }
}

impl<I, A, Q: ManagedQueuePair> Consumer for RawEnd<I, A, Q> {
    type QueuePair = Q;
    type Input = I;
    type Action = A;

    fn queue_pair(&mut self) -> &mut Q {
        &mut self.queue_pair
    }

    fn queue_pair_ref(&self) -> &Q {
        &self.queue_pair
    }

    fn handle_progress(&mut self, now: Instant) {
        self.accept(now);
    }

    fn handle_input(&mut self, _now: Instant, _input: I) {}

    fn handle_deadline(&mut self, now: Instant) {
        self.queue_pair.handle_deadline(now);
    }

    fn handle_ended(&mut self, _now: Instant) {}

    fn poll_action(&mut self) -> Option<A> {
        None
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.queue_pair.next_deadline()
    }

    fn is_established(&self) -> bool {
        true
    }

    fn awaits_memory(&self) -> bool {
        false
    }

    fn close_reason(&self) -> Option<CloseReason> {
        self.queue_pair.close_reason()
    }
}

pub type RawInitiator = RawEnd<initiator::Input, initiator::Action>;
pub type RawTarget = RawEnd<target::Input, target::Action>;

/// A target whose initiator says what it likes.
pub struct AgainstTarget {
    pub bench: Bench<RawInitiator, Far>,
    pub cmd_sn: u32,
}

/// What a well-behaved initiator says of RDMA.
pub const RDMA: [(&str, &str); 3] = [
    ("RDMAExtensions", "Yes"),
    ("InitiatorRecvDataSegmentLength", "8192"),
    ("TargetRecvDataSegmentLength", "8192"),
];

impl AgainstTarget {
    pub fn new(far: Far, portal_blocks: u64) -> Self {
        let near = RawInitiator::new(Role::Initiator(private_data(Invalidation::Used)));
        Self { bench: Bench::of(near, far, portal_blocks), cmd_sn: 1 }
    }

    /// Logged in, with the power-on attention taken.
    pub fn ready(keys: &[(&str, &str)], pool: &Pool) -> Self {
        let portal = super::portal(2048);
        let blocks = blocks(&portal);
        let mut peer = Self::new(super::iser::far(portal, pool), blocks);
        assert_eq!(peer.log_in(keys), 0);
        let answers =
            peer.command(scsi::builder::test_unit_ready(), IserHeader::new(), |command| command, &[]);
        assert_eq!(ScsiResponse::from_bytes(&answers[0].header).status(), Some(2), "a unit attention");
        peer
    }

    pub fn login_message(&self, keys: &[(&str, &str)]) -> Vec<u8> {
        let mut text = Text::new();
        text.put("InitiatorName", INITIATOR);
        text.put("TargetName", TARGET);
        text.put("SessionType", "Normal");
        for (key, value) in keys {
            text.put(key, value);
        }
        let request = LoginRequest::new(Stage::Operational, LoginIdentity::new_session(ISID), 0, self.cmd_sn)
            .transit(Stage::FullFeature);
        message(IserHeader::new(), request.to_bytes(), text.bytes())
    }

    /// The status of a login with these keys.
    pub fn log_in(&mut self, keys: &[(&str, &str)]) -> u16 {
        let bytes = self.login_message(keys);
        let answers = self.send(&bytes);
        LoginResponse::from_bytes(&answers[0].header).status().0
    }

    pub fn near(&mut self) -> &mut RawInitiator {
        &mut self.bench.pair.near.connection
    }

    /// What the target answers to a message.
    pub fn send(&mut self, bytes: &[u8]) -> Vec<Message> {
        self.near().send(bytes, None);
        self.answers()
    }

    pub fn answers(&mut self) -> Vec<Message> {
        loop {
            let before = self.bench.moved;
            self.bench.run();
            self.near().collect();
            if self.bench.moved == before {
                return std::mem::take(&mut self.near().messages);
            }
        }
    }

    /// The next command.
    pub fn command_message(
        &mut self,
        cdb: [u8; 16],
        iser: IserHeader,
        shape: impl Fn(ScsiCommand) -> ScsiCommand,
        data: &[u8],
    ) -> Vec<u8> {
        let command = shape(ScsiCommand::new([0; 8], 100 + self.cmd_sn, self.cmd_sn, cdb));
        self.cmd_sn += 1;
        message(iser, command.to_bytes(), data)
    }

    pub fn command(
        &mut self,
        cdb: [u8; 16],
        iser: IserHeader,
        shape: impl Fn(ScsiCommand) -> ScsiCommand,
        data: &[u8],
    ) -> Vec<Message> {
        let bytes = self.command_message(cdb, iser, shape, data);
        self.send(&bytes)
    }

    /// Why the target's connection ends, if it does.
    pub fn close(&self) -> Option<CloseReason> {
        self.bench.pair.far.connection.poll_close()
    }

    /// The reason of a Reject.
    pub fn rejected(answers: &[Message]) -> Option<u8> {
        let reject = answers.iter().find(|answer| answer.opcode() == Opcode::REJECT)?;
        Some(Reject::from_bytes(&reject.header).reason().0)
    }
}

/// An initiator whose target says what it likes.
pub struct AgainstInitiator {
    pub bench: Bench<Near, RawTarget>,
    pub stat_sn: u32,
}

impl AgainstInitiator {
    pub fn new() -> Self {
        let near = super::iser::near(super::config(), Invalidation::Used);
        Self { bench: Bench::of(near, RawTarget::new(Role::Responder), 64), stat_sn: 1 }
    }

    pub fn far(&mut self) -> &mut RawTarget {
        &mut self.bench.pair.far.connection
    }

    /// What the initiator has sent.
    pub fn requests(&mut self) -> Vec<Message> {
        loop {
            let before = self.bench.moved;
            self.bench.run();
            self.far().collect();
            if self.bench.moved == before {
                return std::mem::take(&mut self.far().messages);
            }
        }
    }

    /// A message with the right numbers.
    pub fn numbered(&mut self, mut header: Bhs, data: &[u8]) -> Vec<u8> {
        header[24..28].copy_from_slice(&self.stat_sn.to_be_bytes());
        header[28..32].copy_from_slice(&1_u32.to_be_bytes());
        header[32..36].copy_from_slice(&1000_u32.to_be_bytes());
        self.stat_sn += 1;
        message(IserHeader::new(), header, data)
    }

    pub fn send(&mut self, header: Bhs, data: &[u8], invalidate: Option<STag>) {
        let bytes = self.numbered(header, data);
        self.far().send(&bytes, invalidate);
    }

    /// Lets the initiator log in, with these answers to its keys.
    pub fn log_in(&mut self, keys: &[(&str, &str)]) {
        for stage in [Stage::Security, Stage::Operational] {
            let requests = self.requests();
            let request = LoginRequest::from_bytes(&requests[0].header);
            assert_eq!(request.current(), Some(stage));
            let next = if stage == Stage::Security { Stage::Operational } else { Stage::FullFeature };
            let mut text = Text::new();
            if stage == Stage::Security {
                text.put("AuthMethod", "None");
                text.put("TargetPortalGroupTag", "1");
            } else {
                for (key, value) in keys {
                    text.put(key, value);
                }
            }
            let response =
                LoginResponse::new(&request, iscsi::pdu::Status::SUCCESS).transit(next).with_tsih(1);
            self.send(response.to_bytes(), text.bytes(), None);
        }
    }

    /// Logged in; its first command, and the memory that it reads into.
    pub fn asked() -> (Self, ScsiCommand, Option<RemoteRegion>) {
        let mut peer = Self::new();
        peer.log_in(&[("RDMAExtensions", "Yes"), ("InitiatorRecvDataSegmentLength", "512")]);
        let requests = peer.requests();
        let command = ScsiCommand::from_bytes(&requests[0].header);
        let base = requests[0].iser.read();
        let region = base.and_then(|base| base.region(0, command.expected_length()));
        (peer, command, region)
    }

    pub fn failed(&mut self) -> Option<String> {
        self.requests();
        self.bench.failed.clone()
    }
}
