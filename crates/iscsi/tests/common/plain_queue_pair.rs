//! A second provider of queue pairs, the smallest that is a connection: each request crosses as a frame of its own, in order, and none begins before something is to be sent. Regions
//! are named and ended late, where software iWARP does both at once.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    dead_code,
    unreachable_pub,
    missing_debug_implementations,
    missing_docs,
    reason = "each test file uses its own part"
)]

use std::collections::VecDeque;

use buf::Buf;
use protocol::{CloseReason, Connection, Ended, Instant, Placement, Transmit};
use verbs::{
    EndReason, PostError, PrivateData, QueuePair, QueuePairLimits, QueuePairState, Refusal, RegionTable,
    RemoteRegion, STag, SetupAnswer, SetupEvent, WorkCompletion, WorkDone, WorkError, WorkId, WorkMemory,
    WorkRequest,
};

const REQUEST: u8 = 1;
const REPLY: u8 = 2;
const SEND: u8 = 3;
const WRITE: u8 = 4;
const READ: u8 = 5;
const RESPONSE: u8 = 6;

pub struct PlainQueuePair {
    pub limits: QueuePairLimits,
    state: QueuePairState,
    close: Option<CloseReason>,
    /// Frames that go before any request: of the set-up, and answers to reads.
    frames: VecDeque<(u8, Vec<u8>)>,
    is_open: bool,
    events: VecDeque<SetupEvent>,
    sends: VecDeque<(WorkId, WorkRequest)>,
    /// The first of them is a read that is asked for.
    reading: bool,
    receives: VecDeque<(WorkId, Buf)>,
    regions: RegionTable,
    done: Vec<WorkCompletion>,
}

fn region(bytes: &[u8]) -> (RemoteRegion, &[u8]) {
    let (stag, rest) = bytes.split_first_chunk().unwrap();
    let (offset, rest) = rest.split_first_chunk().unwrap();
    let (length, rest) = rest.split_first_chunk().unwrap();
    let stag = STag(u32::from_be_bytes(*stag));
    let region =
        RemoteRegion { stag, offset: u64::from_be_bytes(*offset), length: u32::from_be_bytes(*length) };
    (region, rest)
}

fn named(region: RemoteRegion) -> Vec<u8> {
    let RemoteRegion { stag, offset, length } = region;
    [&stag.0.to_be_bytes()[..], &offset.to_be_bytes(), &length.to_be_bytes()].concat()
}

impl PlainQueuePair {
    pub fn initiator(limits: QueuePairLimits, said: &PrivateData) -> Self {
        let mut end = Self::responder(limits);
        end.frames.push_back((REQUEST, said.bytes().to_vec()));
        end
    }

    pub fn responder(limits: QueuePairLimits) -> Self {
        Self {
            limits,
            state: QueuePairState::Open,
            close: None,
            frames: VecDeque::new(),
            is_open: false,
            events: VecDeque::new(),
            sends: VecDeque::new(),
            reading: false,
            receives: VecDeque::new(),
            regions: RegionTable::new(limits.regions),
            done: Vec::new(),
        }
    }

    fn complete(&mut self, id: WorkId, result: Result<WorkDone, WorkError>, memory: WorkMemory) {
        self.done.push(WorkCompletion { id, result, memory });
    }

    fn end(&mut self, reason: EndReason) {
        if self.state != QueuePairState::Open {
            return;
        }
        self.state = QueuePairState::Ended(reason);
        self.close = Some(match reason {
            EndReason::Violation(what) => CloseReason::Violation(what),
            _ => CloseReason::Finished,
        });
        for (id, request) in std::mem::take(&mut self.sends) {
            match request {
                WorkRequest::Invalidate { stag } => self.invalidate(id, stag),
                request => self.complete(id, Err(WorkError::Flushed), request.into_memory()),
            }
        }
        for (id, buf) in std::mem::take(&mut self.receives) {
            self.complete(id, Err(WorkError::Flushed), WorkMemory::Buf(buf));
        }
    }

    fn violate(&mut self) {
        self.end(EndReason::Violation("the peer broke a rule"));
    }

    fn invalidate(&mut self, id: WorkId, stag: STag) {
        let memory = self.regions.release(stag).map_or(WorkMemory::None, WorkMemory::Region);
        self.complete(id, Ok(WorkDone::Invalidated), memory);
    }

    fn take(&mut self, kind: u8, content: &[u8]) {
        match kind {
            REQUEST => self.events.push_back(SetupEvent::Requested(PrivateData::received(content))),
            REPLY => {
                self.is_open = true;
                self.events.push_back(SetupEvent::Established(PrivateData::received(content)));
            }
            SEND => self.take_message(content),
            WRITE => {
                let (to, bytes) = region(content);
                let Ok(mut buf) = self.regions.lend(to) else { return self.violate() };
                let start = usize::try_from(to.offset).unwrap();
                buf[start..start + bytes.len()].copy_from_slice(bytes);
                self.regions.give_back(to.stag, buf);
            }
            READ => match self.regions.read(region(content).0) {
                Ok(data) => self.frames.push_back((RESPONSE, data.into_one().to_vec())),
                Err(_) => self.violate(),
            },
            _ => {
                let Some((id, WorkRequest::Read { mut into, .. })) = self.sends.pop_front() else {
                    panic!("nothing is read")
                };
                into[..content.len()].copy_from_slice(content);
                self.reading = false;
                self.complete(id, Ok(WorkDone::Read), WorkMemory::Buf(into));
            }
        }
    }

    fn take_message(&mut self, content: &[u8]) {
        let (stag, bytes) = content.split_first_chunk().unwrap();
        let stag = u32::from_be_bytes(*stag);
        let Some((id, mut into)) = self.receives.pop_front() else { return self.violate() };
        if bytes.len() > into.len() {
            self.complete(id, Err(WorkError::MessageTooLong), WorkMemory::Buf(into));
            return self.violate();
        }
        let invalidated = (stag != 0).then_some(STag(stag));
        let is_wrong = invalidated.is_some_and(|stag| self.regions.invalidate(stag).is_err());
        into[..bytes.len()].copy_from_slice(bytes);
        let done = WorkDone::Received { length: bytes.len(), invalidated };
        self.complete(id, Ok(done), WorkMemory::Buf(into));
        if is_wrong {
            self.violate();
        }
    }

    /// The frame of the next request that has one. What needs none is carried out.
    fn next_frame(&mut self) -> Option<(u8, Vec<u8>)> {
        if let Some(frame) = self.frames.pop_front() {
            return Some(frame);
        }
        while self.is_open && !self.reading {
            let (id, request) = self.sends.pop_front()?;
            match request {
                WorkRequest::Send { data, invalidate } => {
                    let stag = invalidate.map_or(0, |stag| stag.0);
                    let frame = [&stag.to_be_bytes()[..], &data.clone().into_one()].concat();
                    self.complete(id, Ok(WorkDone::Sent), WorkMemory::List(data));
                    return Some((SEND, frame));
                }
                WorkRequest::Write { data, to } => {
                    let to = RemoteRegion { length: u32::try_from(data.len()).unwrap(), ..to };
                    let frame = [&named(to)[..], &data.clone().into_one()].concat();
                    self.complete(id, Ok(WorkDone::Written), WorkMemory::List(data));
                    return Some((WRITE, frame));
                }
                WorkRequest::Read { into, from } => {
                    self.sends.push_front((id, WorkRequest::Read { into, from }));
                    self.reading = true;
                    return Some((READ, named(from)));
                }
                WorkRequest::Register { memory } => {
                    let region = self.regions.register(memory).expect("there was room");
                    self.complete(id, Ok(WorkDone::Registered(region)), WorkMemory::None);
                }
                WorkRequest::Invalidate { stag } => self.invalidate(id, stag),
                WorkRequest::Receive { .. } => panic!("receives have a queue of their own"),
            }
        }
        None
    }

    fn refusal(&self, request: &WorkRequest) -> Option<Refusal> {
        let ended = self.state != QueuePairState::Open;
        let registering =
            |request: &&(WorkId, WorkRequest)| matches!(request.1, WorkRequest::Register { .. });
        let regions = self.regions.len() + self.sends.iter().filter(registering).count();
        match request {
            WorkRequest::Invalidate { stag } if !self.regions.holds(*stag) => Some(Refusal::UnknownRegion),
            WorkRequest::Invalidate { .. } if ended => None,
            _ if ended => Some(Refusal::Ended),
            WorkRequest::Receive { .. } => {
                (self.receives.len() >= self.limits.receives).then_some(Refusal::ReceiveQueueFull)
            }
            _ if self.sends.len() >= self.limits.sends => Some(Refusal::SendQueueFull),
            WorkRequest::Write { data, to } if data.len() > to.length as usize => Some(Refusal::TooLong),
            WorkRequest::Read { into, from } if into.len() < from.length as usize => Some(Refusal::TooLong),
            WorkRequest::Register { .. } if regions >= self.limits.regions => Some(Refusal::RegionsFull),
            _ => None,
        }
    }
}

impl QueuePair for PlainQueuePair {
    fn limits(&self) -> QueuePairLimits {
        self.limits
    }

    fn post(&mut self, id: WorkId, request: WorkRequest) -> Result<(), PostError> {
        if let Some(reason) = self.refusal(&request) {
            return Err(PostError { reason, request });
        }
        match request {
            WorkRequest::Receive { into } => self.receives.push_back((id, into)),
            WorkRequest::Invalidate { stag } if self.state != QueuePairState::Open => {
                self.invalidate(id, stag);
            }
            request => self.sends.push_back((id, request)),
        }
        Ok(())
    }

    fn poll(&mut self, _now: Instant, done: &mut Vec<WorkCompletion>) {
        done.append(&mut self.done);
    }

    fn disconnect(&mut self) {
        self.end(EndReason::ByUs);
    }

    fn state(&self) -> QueuePairState {
        self.state
    }
}

/// Bytes before a frame's content: what it is, and how long the content is.
const FRAME: usize = 5;

impl Connection for PlainQueuePair {
    type Input = SetupAnswer;
    type Action = SetupEvent;
    const STAGING: usize = 4 << 20;

    fn handle_bytes(&mut self, _now: Instant, bytes: &[u8]) -> usize {
        let mut used = 0;
        while self.state == QueuePairState::Open
            && let Some((head, rest)) = bytes[used..].split_first_chunk::<FRAME>()
        {
            let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
            let Some(content) = rest.get(..length) else { break };
            self.take(head[0], content);
            used += FRAME + length;
        }
        if self.state == QueuePairState::Open { used } else { bytes.len() }
    }

    fn take_placement(&mut self) -> Option<Placement> {
        None
    }

    fn handle_placed(&mut self, _now: Instant, _placement: Placement) {
        panic!("nothing is placed");
    }

    fn handle_input(&mut self, _now: Instant, input: SetupAnswer) {
        let SetupAnswer::Accept(said) = input else { panic!("nobody is refused") };
        self.is_open = true;
        self.frames.push_back((REPLY, said.bytes().to_vec()));
        self.events.push_back(SetupEvent::Established(PrivateData::NONE));
    }

    fn handle_transmitted(&mut self, _now: Instant, _bytes: usize) {}

    fn handle_timeout(&mut self, _now: Instant) {}

    fn handle_ended(&mut self, _now: Instant, _how: Ended) {
        self.end(EndReason::ByPeer);
    }

    fn poll_transmit(&mut self, _now: Instant, send: &mut Transmit) {
        while !send.is_full()
            && let Some((kind, content)) = self.next_frame()
        {
            send.put(&[kind]);
            send.put(&u32::try_from(content.len()).unwrap().to_be_bytes());
            send.put(&content);
        }
    }

    fn poll_action(&mut self) -> Option<SetupEvent> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.close
    }
}

/// Two queue pairs in one memory, for the contract of queue pairs.
pub struct Joined {
    ends: [PlainQueuePair; 2],
    now: Instant,
}

impl Joined {
    pub fn new(limits: QueuePairLimits) -> Self {
        let mut joined = Self {
            ends: [PlainQueuePair::initiator(limits, &PrivateData::NONE), PlainQueuePair::responder(limits)],
            now: Instant::ZERO,
        };
        joined.carry(0);
        joined.ends[1].handle_input(Instant::ZERO, SetupAnswer::Accept(PrivateData::NONE));
        joined.carry(1);
        joined
    }

    fn carry(&mut self, from: usize) {
        let mut send = Transmit::new(1 << 20, 64);
        self.ends[from].poll_transmit(self.now, &mut send);
        let bytes: Vec<u8> =
            send.segments().iter().flat_map(|segment| send.bytes(segment).to_vec()).collect();
        self.ends[1 - from].handle_bytes(self.now, &bytes);
        for (ended, other) in [(0, 1), (1, 0)] {
            if let QueuePairState::Ended(reason) = self.ends[ended].state {
                let said = if let EndReason::Violation(what) = reason {
                    EndReason::Terminated(what)
                } else {
                    EndReason::ByPeer
                };
                self.ends[other].end(said);
            }
        }
    }
}

impl verbs::contract::Link for Joined {
    fn end(&mut self, side: verbs::contract::Side) -> &mut dyn QueuePair {
        &mut self.ends[side as usize]
    }

    fn step(&mut self) -> Instant {
        self.carry(0);
        self.carry(1);
        self.now = self.now + std::time::Duration::from_micros(1);
        self.now
    }
}
