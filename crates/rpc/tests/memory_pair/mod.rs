//! Two queue pairs in one memory: each request is carried out as one step, so that regions are named late; a message without a receive ends both.
#![allow(dead_code, unreachable_pub, missing_debug_implementations, reason = "each test uses a part of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use buf::Buf;
use protocol::{CloseReason, Instant};
use verbs::{
    EndReason, ManagedQueuePair, PostError, PrivateData, QueuePair, QueuePairLimits, QueuePairState, Refusal,
    RegionMemory, RegionTable, RemoteRegion, SetupAnswer, SetupEvent, TableFull, WorkCompletion, WorkDone,
    WorkError, WorkId, WorkMemory, WorkRequest,
};

pub const LIMITS: QueuePairLimits = QueuePairLimits {
    sends: 6,
    receives: 32,
    reads: 2,
    regions: 40,
    longest: 4 << 20,
    remote_invalidation: false,
};

/// What was carried out, and for whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    Sent(Vec<u8>),
    Written(usize),
    Read(usize),
}

struct End {
    state: QueuePairState,
    sends: VecDeque<(WorkId, WorkRequest)>,
    receives: VecDeque<(WorkId, Buf)>,
    regions: RegionTable,
    done: Vec<WorkCompletion>,
    events: VecDeque<SetupEvent>,
    log: Vec<Done>,
    is_connected: bool,
}

impl End {
    fn new() -> Self {
        Self {
            state: QueuePairState::Open,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            regions: RegionTable::new(LIMITS.regions),
            done: Vec::new(),
            events: VecDeque::new(),
            log: Vec::new(),
            is_connected: false,
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
        for (id, request) in std::mem::take(&mut self.sends) {
            self.complete(id, Err(WorkError::Flushed), request.into_memory());
        }
        for (id, buf) in std::mem::take(&mut self.receives) {
            self.complete(id, Err(WorkError::Flushed), WorkMemory::Buf(buf));
        }
    }

    fn invalidate(&mut self, id: WorkId, stag: verbs::STag) {
        let memory = self.regions.release(stag).map_or(WorkMemory::None, WorkMemory::Region);
        self.complete(id, Ok(WorkDone::Invalidated), memory);
    }
}

/// One end of a pair.
#[derive(Clone)]
pub struct MemoryPair {
    ends: Rc<RefCell<[End; 2]>>,
    side: usize,
}

/// A client's end and a server's, of a client that says this.
pub fn join(said: PrivateData) -> [MemoryPair; 2] {
    let ends = Rc::new(RefCell::new([End::new(), End::new()]));
    ends.borrow_mut()[1].events.push_back(SetupEvent::Requested(said));
    [0, 1].map(|side| MemoryPair { ends: Rc::clone(&ends), side })
}

impl MemoryPair {
    /// Carries out the next request of each side; false if there was none.
    pub fn step(&self) -> bool {
        let mut ends = self.ends.borrow_mut();
        let [near, far] = &mut *ends;
        carry_out(near, far) | carry_out(far, near)
    }

    /// What this side has had carried out.
    pub fn log(&self) -> Vec<Done> {
        std::mem::take(&mut self.ends.borrow_mut()[self.side].log)
    }

    /// Regions of this side.
    pub fn regions(&self) -> usize {
        self.ends.borrow()[self.side].regions.len()
    }

    /// Registers memory at once.
    pub fn register(&self, memory: RegionMemory) -> RemoteRegion {
        self.ends.borrow_mut()[self.side].regions.register(memory).unwrap()
    }

    /// Takes memory back at once.
    pub fn release(&self, region: RemoteRegion) -> RegionMemory {
        self.ends.borrow_mut()[self.side].regions.release(region.stag).unwrap()
    }

    pub fn send(&mut self, bytes: &[u8]) {
        let data = buf::SharedBuf::from(bytes.to_vec()).into();
        self.post(WorkId(9), WorkRequest::Send { data, invalidate: None }).unwrap();
    }

    /// The messages that have come, and as many receives again.
    pub fn received(&mut self) -> Vec<Vec<u8>> {
        let mut done = Vec::new();
        self.poll(Instant::ZERO, &mut done);
        let mut messages = Vec::new();
        for completion in done {
            if let (Ok(WorkDone::Received { length, .. }), WorkMemory::Buf(into)) =
                (completion.result, completion.memory)
            {
                messages.push(into[..length].to_vec());
                self.post(WorkId(0), WorkRequest::Receive { into }).unwrap();
            }
        }
        messages
    }

    fn with<T>(&self, act: impl FnOnce(&mut End) -> T) -> T {
        act(&mut self.ends.borrow_mut()[self.side])
    }
}

fn carry_out(own: &mut End, peer: &mut End) -> bool {
    if own.state != QueuePairState::Open {
        let was_open = peer.state == QueuePairState::Open;
        peer.end(EndReason::ByPeer);
        return was_open;
    }
    let Some((id, request)) = own.sends.pop_front() else { return false };
    match request {
        WorkRequest::Send { data, .. } => {
            own.log.push(Done::Sent(data.clone().into_one().to_vec()));
            match peer.receives.pop_front() {
                None => peer.end(EndReason::Violation("a message without a receive")),
                Some((receive, into)) if into.len() < data.len() => {
                    peer.complete(receive, Err(WorkError::MessageTooLong), WorkMemory::Buf(into));
                    peer.end(EndReason::Violation("a message longer than its receive"));
                }
                Some((receive, mut into)) => {
                    let length = data.copy_to(&mut into);
                    let done = WorkDone::Received { length, invalidated: None };
                    peer.complete(receive, Ok(done), WorkMemory::Buf(into));
                }
            }
            own.complete(id, Ok(WorkDone::Sent), WorkMemory::List(data));
        }
        WorkRequest::Write { data, to } => {
            own.log.push(Done::Written(data.len()));
            match peer.regions.lend(to) {
                Ok(mut memory) => {
                    let start = usize::try_from(to.offset).unwrap();
                    data.copy_to(&mut memory[start..start + to.length as usize]);
                    peer.regions.give_back(to.stag, memory);
                }
                Err(_) => peer.end(EndReason::Violation("a write where it may not")),
            }
            own.complete(id, Ok(WorkDone::Written), WorkMemory::List(data));
        }
        WorkRequest::Read { mut into, from } => {
            own.log.push(Done::Read(from.length as usize));
            let result = if let Ok(data) = peer.regions.read(from) {
                data.copy_to(&mut into);
                Ok(WorkDone::Read)
            } else {
                peer.end(EndReason::Violation("a read where it may not"));
                Err(WorkError::RemoteAccess)
            };
            own.complete(id, result, WorkMemory::Buf(into));
        }
        WorkRequest::Register { memory } => match own.regions.register(memory) {
            Ok(region) => own.complete(id, Ok(WorkDone::Registered(region)), WorkMemory::None),
            Err(TableFull(_)) => panic!("more regions than there may be"),
        },
        WorkRequest::Invalidate { stag } => own.invalidate(id, stag),
        WorkRequest::Receive { .. } => unreachable!("receives have a queue of their own"),
    }
    true
}

impl QueuePair for MemoryPair {
    fn limits(&self) -> QueuePairLimits {
        LIMITS
    }

    fn post(&mut self, id: WorkId, request: WorkRequest) -> Result<(), PostError> {
        self.with(|end| {
            let ended = end.state != QueuePairState::Open;
            let reason = match &request {
                WorkRequest::Invalidate { .. } => None,
                _ if ended => Some(Refusal::Ended),
                WorkRequest::Receive { .. } if end.receives.len() >= LIMITS.receives => {
                    Some(Refusal::ReceiveQueueFull)
                }
                WorkRequest::Receive { .. } => None,
                _ if end.sends.len() >= LIMITS.sends => Some(Refusal::SendQueueFull),
                WorkRequest::Read { into, from } if into.len() < from.length as usize => {
                    Some(Refusal::TooLong)
                }
                _ => None,
            };
            if let Some(reason) = reason {
                return Err(PostError { reason, request });
            }
            match request {
                WorkRequest::Receive { into } => end.receives.push_back((id, into)),
                WorkRequest::Invalidate { stag } if ended => end.invalidate(id, stag),
                request => end.sends.push_back((id, request)),
            }
            Ok(())
        })
    }

    fn poll(&mut self, _: Instant, done: &mut Vec<WorkCompletion>) {
        self.with(|end| done.append(&mut end.done));
    }

    fn disconnect(&mut self) {
        self.with(|end| end.end(EndReason::ByUs));
    }

    fn state(&self) -> QueuePairState {
        self.with(|end| end.state)
    }
}

impl ManagedQueuePair for MemoryPair {
    fn handle_answer(&mut self, _: Instant, answer: SetupAnswer) {
        let mut ends = self.ends.borrow_mut();
        match answer {
            SetupAnswer::Accept(said) => {
                ends[0].events.push_back(SetupEvent::Established(said));
                ends[1].events.push_back(SetupEvent::Established(PrivateData::NONE));
                for end in ends.iter_mut() {
                    end.is_connected = true;
                }
            }
            SetupAnswer::Reject(said) => {
                ends[0].events.push_back(SetupEvent::Rejected(said));
                for end in ends.iter_mut() {
                    end.end(EndReason::ByUs);
                }
            }
        }
    }

    fn poll_event(&mut self) -> Option<SetupEvent> {
        self.with(|end| end.events.pop_front())
    }

    fn handle_deadline(&mut self, _: Instant) {}

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn is_connected(&self) -> bool {
        self.with(|end| end.is_connected)
    }

    fn close_reason(&self) -> Option<CloseReason> {
        match self.state() {
            QueuePairState::Open => None,
            QueuePairState::Ended(EndReason::Violation(text)) => Some(CloseReason::Violation(text)),
            QueuePairState::Ended(_) => Some(CloseReason::Finished),
        }
    }
}
