//! The link: what one side posts is carried out on the other, one request a step.

use std::collections::VecDeque;

use buf::BufList;
use protocol::Instant;
use verbs::contract::Side;
use verbs::{
    EndReason, PostError, QueuePair, QueuePairLimits, QueuePairState, Refusal, RegionError, RegionMemory,
    RegionTable, RemoteRegion, WorkCompletion, WorkDone, WorkError, WorkId, WorkMemory, WorkRequest,
};

const LIMITS: QueuePairLimits = QueuePairLimits {
    sends: 16,
    receives: 16,
    reads: 1,
    regions: 8,
    longest: 1 << 20,
    remote_invalidation: true,
};

/// Idle steps after which late writes are carried out.
const LATE: u32 = 8;

/// A promise that is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plant {
    None,
    /// What is written arrives behind the next message.
    WriteAfterMessage,
    /// Reads complete behind what was posted after them.
    ReadsCompleteLate,
    OffsetIgnored,
    /// An access beyond a region is cut to it instead of being refused.
    NoBounds,
    /// What may be written may be read.
    NoRights,
    /// An old tag names the next region of its slot.
    KeyIgnored,
    /// Who receives does not hear of an invalidated region.
    InvalidationUntold,
    /// Receives do not complete at the end.
    FlushForgets,
    CompletesTwice,
}

/// One end: what was posted and is not carried out, and what the peer may use.
pub(crate) struct End {
    plant: Plant,
    state: QueuePairState,
    sends: VecDeque<(WorkId, WorkRequest)>,
    receives: VecDeque<(WorkId, buf::Buf)>,
    regions: RegionTable,
    /// Regions by the order of registration, for the plants.
    tags: Vec<RemoteRegion>,
    done: Vec<WorkCompletion>,
    /// What is still to be written, and for how many steps nothing else was to be done: for a plant.
    late: Vec<(BufList, RemoteRegion)>,
    idle: u32,
}

impl End {
    fn new(plant: Plant) -> Self {
        Self {
            plant,
            state: QueuePairState::Open,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            regions: RegionTable::new(LIMITS.regions),
            tags: Vec::new(),
            done: Vec::new(),
            late: Vec::new(),
            idle: 0,
        }
    }

    fn complete(&mut self, id: WorkId, result: Result<WorkDone, WorkError>, memory: WorkMemory) {
        self.done.push(WorkCompletion { id, result, memory });
        if self.plant == Plant::CompletesTwice {
            self.done.push(WorkCompletion { id, result, memory: WorkMemory::None });
        }
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
            if self.plant != Plant::FlushForgets {
                self.complete(id, Err(WorkError::Flushed), WorkMemory::Buf(buf));
            }
        }
    }

    /// The region that an access means, with what a plant makes of it.
    fn meant(&self, mut region: RemoteRegion) -> RemoteRegion {
        if self.plant == Plant::OffsetIgnored {
            region.offset = 0;
        }
        if self.plant == Plant::NoBounds
            && let Some(own) = self.tags.iter().rfind(|own| own.stag == region.stag)
        {
            let rest = u64::from(own.length).saturating_sub(region.offset);
            region.length = region.length.min(u32::try_from(rest).unwrap_or(u32::MAX));
        }
        if self.plant == Plant::KeyIgnored
            && let Some(last) = self.tags.iter().rfind(|own| own.stag.0 >> 8 == region.stag.0 >> 8)
        {
            region.stag = last.stag;
        }
        region
    }

    fn write(&mut self, data: &BufList, to: RemoteRegion) -> Result<(), RegionError> {
        let to = self.meant(to);
        let mut buf = self.regions.lend(to)?;
        let start = usize::try_from(to.offset).map_err(|_| RegionError::Bounds)?;
        data.copy_to(&mut buf[start..start + to.length as usize]);
        self.regions.give_back(to.stag, buf);
        Ok(())
    }

    fn read(&mut self, from: RemoteRegion) -> Result<BufList, RegionError> {
        let from = self.meant(from);
        match self.regions.read(from) {
            Err(RegionError::AccessRights) if self.plant == Plant::NoRights => {
                Ok(vec![0; from.length as usize]).map(buf::SharedBuf::from).map(BufList::from)
            }
            other => other,
        }
    }
}

impl QueuePair for End {
    fn limits(&self) -> QueuePairLimits {
        LIMITS
    }

    fn post(&mut self, id: WorkId, request: WorkRequest) -> Result<(), PostError> {
        let ended = self.state != QueuePairState::Open;
        let reason = match &request {
            WorkRequest::Invalidate { stag } if !self.regions.holds(*stag) => Some(Refusal::UnknownRegion),
            WorkRequest::Invalidate { .. } => None,
            _ if ended => Some(Refusal::Ended),
            WorkRequest::Receive { .. } if self.receives.len() >= LIMITS.receives => {
                Some(Refusal::ReceiveQueueFull)
            }
            WorkRequest::Receive { .. } => None,
            _ if self.sends.len() >= LIMITS.sends => Some(Refusal::SendQueueFull),
            WorkRequest::Write { data, to } if data.len() > to.length as usize => Some(Refusal::TooLong),
            WorkRequest::Read { into, from } if into.len() < from.length as usize => Some(Refusal::TooLong),
            WorkRequest::Register { .. } if self.regions.len() >= LIMITS.regions => {
                Some(Refusal::RegionsFull)
            }
            _ => None,
        };
        if let Some(reason) = reason {
            return Err(PostError { reason, request });
        }
        match request {
            WorkRequest::Receive { into } => self.receives.push_back((id, into)),
            WorkRequest::Invalidate { stag } if ended => self.invalidate(id, stag),
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

impl End {
    fn invalidate(&mut self, id: WorkId, stag: verbs::STag) {
        if let Some(memory) = self.regions.release(stag) {
            self.complete(id, Ok(WorkDone::Invalidated), WorkMemory::Region(memory));
        }
    }

    fn register(&mut self, id: WorkId, memory: RegionMemory) {
        match self.regions.register(memory) {
            Ok(region) => {
                self.tags.push(region);
                self.complete(id, Ok(WorkDone::Registered(region)), WorkMemory::None);
            }
            Err(verbs::TableFull(memory)) => {
                self.complete(id, Err(WorkError::Flushed), WorkMemory::Region(memory));
            }
        }
    }
}

/// Both ends.
pub(crate) struct Link {
    ends: [End; 2],
    now: Instant,
}

impl Link {
    pub(crate) fn new(plant: Plant) -> Self {
        Self { ends: [End::new(plant), End::new(plant)], now: Instant::ZERO }
    }

    /// Carries out the next request of one end.
    fn carry_out(&mut self, from: usize) {
        let [near, far] = &mut self.ends;
        let (own, peer) = if from == 0 { (near, far) } else { (far, near) };
        if let (QueuePairState::Ended(reason), QueuePairState::Open) = (own.state, peer.state) {
            let terminated = if let EndReason::Violation(what) = reason { Some(what) } else { None };
            return peer.end(terminated.map_or(EndReason::ByPeer, EndReason::Terminated));
        }
        let is_read = matches!(own.sends.front(), Some((_, WorkRequest::Read { .. })));
        if is_read && own.plant == Plant::ReadsCompleteLate && own.sends.len() > 1 {
            own.sends.swap(0, 1);
        }
        let Some((id, request)) = own.sends.pop_front() else {
            own.idle += 1;
            if own.idle > LATE {
                for (data, to) in own.late.drain(..) {
                    // A region that is gone by now takes nothing.
                    let _ = peer.write(&data, to);
                }
            }
            return;
        };
        own.idle = 0;
        match request {
            WorkRequest::Send { data, invalidate } => {
                // Without a receive it waits.
                let Some((receive, mut into)) = peer.receives.pop_front() else {
                    return own.sends.push_front((id, WorkRequest::Send { data, invalidate }));
                };
                let length = data.len();
                if length > into.len() {
                    peer.complete(receive, Err(WorkError::MessageTooLong), WorkMemory::Buf(into));
                    peer.end(EndReason::Violation("a message longer than its receive buffer"));
                } else {
                    data.copy_to(&mut into);
                    let gone = invalidate.filter(|stag| peer.regions.invalidate(*stag).is_ok());
                    let invalidated = gone.filter(|_| peer.plant != Plant::InvalidationUntold);
                    let done = WorkDone::Received { length, invalidated };
                    peer.complete(receive, Ok(done), WorkMemory::Buf(into));
                }
                own.complete(id, Ok(WorkDone::Sent), WorkMemory::List(data));
            }
            WorkRequest::Write { data, to } if own.plant == Plant::WriteAfterMessage => {
                own.late.push((data.clone(), to));
                own.complete(id, Ok(WorkDone::Written), WorkMemory::List(data));
            }
            WorkRequest::Write { data, to } => {
                if peer.write(&data, to).is_err() {
                    peer.end(EndReason::Violation("an access to memory that it may not have"));
                }
                own.complete(id, Ok(WorkDone::Written), WorkMemory::List(data));
            }
            WorkRequest::Read { mut into, from } => {
                if let Ok(data) = peer.read(from) {
                    data.copy_to(&mut into);
                    own.complete(id, Ok(WorkDone::Read), WorkMemory::Buf(into));
                } else {
                    peer.end(EndReason::Violation("an access to memory that it may not have"));
                    own.complete(id, Err(WorkError::RemoteAccess), WorkMemory::Buf(into));
                }
            }
            WorkRequest::Register { memory } => own.register(id, memory),
            WorkRequest::Invalidate { stag } => own.invalidate(id, stag),
            WorkRequest::Receive { .. } => unreachable!("receives have a queue of their own"),
        }
    }
}

impl verbs::contract::Link for Link {
    fn end(&mut self, side: Side) -> &mut dyn QueuePair {
        &mut self.ends[side as usize]
    }

    fn step(&mut self) -> Instant {
        for from in [0, 1] {
            self.carry_out(from);
        }
        self.now
    }
}
