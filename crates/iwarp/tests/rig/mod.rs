//! The bench of the tests: two connections joined by a byte stream in chunks of any size, and a peer that says what it likes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::indexing_slicing, reason = "likewise")]
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of the bench")]

use std::collections::VecDeque;

use buf::{Account, Buf, BufList, Pool, SharedBuf};
use iwarp::mpa::{Offer, Revision, RtrKinds};
use iwarp::{Config, Connection, Role};
use protocol::{Connection as _, Ended, Entropy, Instant, Placement, SeededEntropy, Transmit};
use verbs::contract::Side;
use verbs::{
    PrivateData, QueueLimits, QueuePair, RegionMemory, RemoteRegion, SetupAnswer, SetupEvent, WorkCompletion,
    WorkDone, WorkId, WorkRequest,
};

pub const OFFER: Offer =
    Offer { revision: Revision::Two, markers: false, crc: false, rtr: RtrKinds::ALL, ird: 4, ord: 4 };

pub fn config(role: Role, offer: Offer) -> Config {
    let queues = QueueLimits { sends: 16, receives: 16, regions: 8, longest: 1 << 20 };
    Config { role, offer, queues, mss: 1448, solicited: false }
}

pub fn connection(config: Config) -> Connection {
    Connection::new(Instant::ZERO, config, Account::new(&Pool::new(64 << 20)))
}

pub fn initiator(offer: Offer) -> Connection {
    connection(config(Role::Initiator(PrivateData::NONE), offer))
}

pub fn responder(offer: Offer) -> Connection {
    connection(config(Role::Responder, offer))
}

/// How bytes cross.
#[derive(Debug, Clone)]
pub enum Chunks {
    Of(usize),
    Random(SeededEntropy),
}

impl Chunks {
    pub fn random(seed: u64) -> Self {
        Self::Random(SeededEntropy::new(seed))
    }

    fn next(&mut self) -> usize {
        match self {
            Self::Of(bytes) => *bytes,
            Self::Random(entropy) => {
                let number = usize::try_from(entropy.number() % (1 << 20)).unwrap();
                match number % 4 {
                    0 => 1 + number % 7,
                    1 => 1 + number % 600,
                    _ => 1 + number % 9000,
                }
            }
        }
    }
}

/// A connection, driven as a reactor does it.
pub struct End {
    pub connection: Connection,
    staged: Vec<u8>,
    placement: Option<(Placement, usize)>,
    pub actions: Vec<SetupEvent>,
    ended: bool,
}

impl End {
    pub fn new(connection: Connection) -> Self {
        Self { connection, staged: Vec::new(), placement: None, actions: Vec::new(), ended: false }
    }

    pub fn receive(&mut self, now: Instant, bytes: &[u8]) {
        if self.ended {
            return;
        }
        self.staged.extend_from_slice(bytes);
        while self.advance(now) {}
        while let Some(action) = self.connection.poll_action() {
            self.actions.push(action);
        }
    }

    fn advance(&mut self, now: Instant) -> bool {
        if self.placement.is_none() {
            self.placement = self.connection.take_placement().map(|placement| (placement, 0));
        }
        if let Some((placement, filled)) = &mut self.placement {
            let count = self.staged.len().min(placement.len - *filled);
            let at = placement.start + *filled;
            placement.buf[at..at + count].copy_from_slice(&self.staged[..count]);
            self.staged.drain(..count);
            *filled += count;
            if *filled < placement.len {
                return false;
            }
            let (placement, _) = self.placement.take().unwrap();
            self.connection.handle_placed(now, placement);
            return true;
        }
        if self.staged.is_empty() || !self.connection.wants_bytes() {
            return false;
        }
        let consumed = self.connection.handle_bytes(now, &self.staged);
        assert!(
            consumed > 0
                || self.staged.len() < Connection::STAGING
                || self.connection.take_placement().is_none()
        );
        self.staged.drain(..consumed);
        consumed > 0
    }

    pub fn transmit(&mut self, now: Instant) -> Vec<u8> {
        let (mut send, mut bytes) = (Transmit::new(1 << 16, 64), Vec::new());
        while !self.ended {
            send.clear();
            self.connection.poll_transmit(now, &mut send);
            if send.is_empty() {
                break;
            }
            let before = bytes.len();
            for segment in send.segments() {
                bytes.extend_from_slice(send.bytes(segment));
            }
            self.connection.handle_transmitted(now, bytes.len() - before);
        }
        bytes
    }

    pub fn has_memory_lent(&self) -> bool {
        self.placement.is_some()
    }

    /// The transport is gone, and drops the memory that it had.
    pub fn end(&mut self, now: Instant, how: Ended) {
        if !std::mem::replace(&mut self.ended, true) {
            self.placement = None;
            self.connection.handle_ended(now, how);
        }
    }

    /// Takes memory back that is not filled, as a careful transport does.
    pub fn give_back(&mut self, now: Instant) {
        if let Some((placement, _)) = self.placement.take() {
            self.connection.handle_placed(now, placement);
        }
    }

    pub fn done(&mut self) -> Vec<WorkCompletion> {
        let mut done = Vec::new();
        self.connection.poll(Instant::ZERO, &mut done);
        done
    }

    pub fn post(&mut self, id: u64, request: WorkRequest) {
        self.connection.post(WorkId(id), request).map_err(|refused| refused.reason).unwrap();
    }

    pub fn post_receive(&mut self, id: u64, bytes: usize) {
        self.post(id, WorkRequest::Receive { into: Buf::zeroed(bytes) });
    }

    pub fn register(&mut self, memory: RegionMemory) -> RemoteRegion {
        self.post(u64::MAX, WorkRequest::Register { memory });
        let done = self.done();
        let registered = done.iter().find_map(|done| match done.result {
            Ok(WorkDone::Registered(region)) => Some(region),
            _ => None,
        });
        registered.unwrap()
    }
}

pub fn sink(bytes: usize) -> RegionMemory {
    RegionMemory::Sink(Buf::zeroed(bytes))
}

pub fn list(bytes: &[u8]) -> BufList {
    BufList::from(SharedBuf::from(bytes.to_vec()))
}

pub fn source(bytes: &[u8]) -> RegionMemory {
    RegionMemory::Source(list(bytes))
}

/// A bit that changes on its way, once.
#[derive(Debug, Clone, Copy)]
pub struct Flip {
    pub from: usize,
    /// Bytes that come before its byte, of those that are sent from now on.
    pub behind: usize,
    pub bit: u8,
}

/// Two connections, and the bytes between them.
pub struct Joined {
    pub ends: [End; 2],
    pub flip: Option<Flip>,
    wires: [VecDeque<u8>; 2],
    pub chunks: Chunks,
    pub now: Instant,
}

impl Joined {
    pub fn new(near: Connection, far: Connection) -> Self {
        let wires = [VecDeque::new(), VecDeque::new()];
        Self {
            ends: [End::new(near), End::new(far)],
            flip: None,
            wires,
            chunks: Chunks::Of(usize::MAX),
            now: Instant::ZERO,
        }
    }

    /// Set up, whatever the consumers' words.
    pub fn open(offers: [Offer; 2], chunks: Chunks) -> Self {
        let [near, far] = offers;
        let mut joined = Self::new(initiator(near), responder(far));
        joined.chunks = chunks;
        joined.run();
        assert_eq!(joined.ends[1].actions, [SetupEvent::Requested(PrivateData::NONE)]);
        joined.ends[1].connection.handle_input(Instant::ZERO, SetupAnswer::Accept(PrivateData::NONE));
        joined.run();
        joined
    }

    pub fn near(&mut self) -> &mut End {
        &mut self.ends[0]
    }

    pub fn far(&mut self) -> &mut End {
        &mut self.ends[1]
    }

    /// Moves what one end has to send; true if something moved.
    pub fn carry(&mut self, from: usize) -> bool {
        let mut sent = self.ends[from].transmit(self.now);
        if let Some(flip) = &mut self.flip
            && flip.from == from
        {
            match sent.get_mut(flip.behind) {
                Some(byte) => {
                    *byte ^= 1 << flip.bit;
                    self.flip = None;
                }
                None => flip.behind -= sent.len(),
            }
        }
        self.wires[from].extend(sent);
        let mut moved = false;
        while !self.wires[from].is_empty() {
            let count = self.chunks.next().min(self.wires[from].len());
            let chunk: Vec<u8> = self.wires[from].drain(..count).collect();
            self.ends[1 - from].receive(self.now, &chunk);
            moved = true;
        }
        if self.ends[from].connection.poll_close().is_some() {
            self.ends[from].end(self.now, Ended::ByUs);
            self.ends[1 - from].end(self.now, Ended::ByPeer);
        }
        moved
    }

    /// Until nothing moves.
    pub fn run(&mut self) {
        while self.carry(0) | self.carry(1) {}
    }
}

impl verbs::contract::Link for Joined {
    fn end(&mut self, side: Side) -> &mut dyn QueuePair {
        &mut self.ends[side as usize].connection
    }

    fn step(&mut self) -> Instant {
        self.carry(0);
        self.carry(1);
        self.now = self.now + std::time::Duration::from_micros(1);
        self.now
    }
}

/// An FPDU as RFC 5044 has it, made without the code under test; with or without a CRC.
pub fn fpdu(ulpdu: &[u8], crc: bool) -> Vec<u8> {
    let mut bytes = u16::try_from(ulpdu.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend_from_slice(ulpdu);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let sum = if crc { wire::crc32c(&bytes) } else { 0 };
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// An untagged segment.
#[derive(Debug, Clone)]
pub struct Message<'a> {
    pub control: [u8; 2],
    pub invalidate: u32,
    pub queue: u32,
    pub sequence: u32,
    pub offset: u32,
    pub payload: &'a [u8],
}

pub const SEND: Message<'static> =
    Message { control: [0x41, 0x43], invalidate: 0, queue: 0, sequence: 1, offset: 0, payload: &[7; 32] };

impl Message<'_> {
    pub fn ulpdu(&self) -> Vec<u8> {
        let mut bytes = self.control.to_vec();
        for field in [self.invalidate, self.queue, self.sequence, self.offset] {
            bytes.extend(field.to_be_bytes());
        }
        bytes.extend_from_slice(self.payload);
        bytes
    }
}

/// A tagged segment.
#[derive(Debug, Clone)]
pub struct Access<'a> {
    pub control: [u8; 2],
    pub stag: u32,
    pub offset: u64,
    pub payload: &'a [u8],
}

pub const WRITE: Access<'static> = Access { control: [0xc1, 0x40], stag: 0, offset: 0, payload: &[9; 16] };

impl Access<'_> {
    pub fn ulpdu(&self) -> Vec<u8> {
        let mut bytes = self.control.to_vec();
        bytes.extend(self.stag.to_be_bytes());
        bytes.extend(self.offset.to_be_bytes());
        bytes.extend_from_slice(self.payload);
        bytes
    }
}

/// What an RDMA Read Request asks for.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    pub stag: u32,
    pub offset: u64,
    pub length: u32,
}

/// The header of an RDMA Read Request, behind DDP's.
pub fn read_request(wanted: Wanted) -> Vec<u8> {
    let mut bytes = 0x0102_0304_u32.to_be_bytes().to_vec();
    bytes.extend(0x50_u64.to_be_bytes());
    bytes.extend(wanted.length.to_be_bytes());
    bytes.extend(wanted.stag.to_be_bytes());
    bytes.extend(wanted.offset.to_be_bytes());
    bytes
}

/// A request frame of Linux' siw that asks for nothing special, with the 32 bytes of NVMe/RDMA's admin queue.
pub fn siw_request() -> Vec<u8> {
    let mut bytes = b"MPA ID Req Frame".to_vec();
    bytes.extend([0x10, 0x02, 0x00, 0x24, 0x00, 0x80, 0x00, 0x80, 0, 0, 0, 0, 0x20, 0, 0x1f, 0]);
    bytes.extend([0; 24]);
    bytes
}

/// A responder that a hand-made peer talks to.
pub struct Victim {
    pub end: End,
}

impl Victim {
    /// Set up without markers, with CRCs if `crc` says so. `prepare` posts before anything comes.
    pub fn new(crc: bool, prepare: impl FnOnce(&mut End)) -> Self {
        let mut end = End::new(responder(Offer { crc, ..OFFER }));
        end.receive(Instant::ZERO, &siw_request());
        end.connection.handle_input(Instant::ZERO, SetupAnswer::Accept(PrivateData::NONE));
        let reply = end.transmit(Instant::ZERO);
        assert_eq!(reply[..16], *b"MPA ID Rep Frame");
        prepare(&mut end);
        Self { end }
    }

    /// What it answers to a ULPDU.
    pub fn tell(&mut self, ulpdu: &[u8]) -> Vec<u8> {
        self.tell_bytes(&fpdu(ulpdu, false))
    }

    pub fn tell_bytes(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.end.receive(Instant::ZERO, bytes);
        self.end.transmit(Instant::ZERO)
    }
}
