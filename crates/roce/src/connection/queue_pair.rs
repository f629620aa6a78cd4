//! The connection as its consumer sees it (docs/verbs-contract.md).

use alloc::vec::Vec;

use protocol::{CloseReason, Instant};
use verbs::{
    EndReason, ManagedQueuePair, PostError, QueuePair, QueuePairLimits, QueuePairState, Refusal, SetupAnswer,
    SetupEvent, TableFull, WorkCompletion, WorkId, WorkRequest,
};

use super::Connection;
use crate::requester::{Verdict, Work};

impl Connection {
    /// Why a request is not taken, if it is not.
    fn refusal(&self, request: &WorkRequest) -> Option<Refusal> {
        let limits = &self.limits;
        let is_too_long = |bytes: usize, place: u32| {
            bytes > limits.longest || usize::try_from(place).is_ok_and(|place| bytes > place)
        };
        let regions = &self.consumer.regions;
        match request {
            WorkRequest::Invalidate { stag } if !regions.holds(*stag) => Some(Refusal::UnknownRegion),
            WorkRequest::Invalidate { .. } if !self.is_open() => None,
            _ if !self.is_open() => Some(Refusal::Ended),
            WorkRequest::Receive { .. } => {
                self.consumer.receives.is_full().then_some(Refusal::ReceiveQueueFull)
            }
            _ if self.requester.is_full() => Some(Refusal::SendQueueFull),
            WorkRequest::Send { data, .. } => is_too_long(data.len(), u32::MAX).then_some(Refusal::TooLong),
            WorkRequest::Write { data, to } => is_too_long(data.len(), to.length).then_some(Refusal::TooLong),
            WorkRequest::Read { into, from } => {
                let length = usize::try_from(from.length).unwrap_or(usize::MAX);
                (length > into.len() || length > limits.longest).then_some(Refusal::TooLong)
            }
            WorkRequest::Register { memory } if memory.len() > limits.longest => Some(Refusal::TooLong),
            WorkRequest::Register { .. } => (regions.len() >= limits.regions).then_some(Refusal::RegionsFull),
            WorkRequest::Invalidate { .. } => None,
        }
    }
}

impl QueuePair for Connection {
    fn limits(&self) -> QueuePairLimits {
        self.limits
    }

    fn post(&mut self, id: WorkId, request: WorkRequest) -> Result<(), PostError> {
        if let Some(reason) = self.refusal(&request) {
            return Err(PostError { reason, request });
        }
        let work = match request {
            WorkRequest::Receive { into } => {
                self.consumer.receives.post(id, into);
                return Ok(());
            }
            WorkRequest::Send { data, invalidate } => Work::Send { data, invalidate },
            WorkRequest::Write { data, to } => Work::Write { data, to },
            WorkRequest::Read { into, from } => Work::Read { into, from },
            WorkRequest::Register { memory } => match self.consumer.regions.register(memory) {
                Ok(region) => Work::Register(region),
                Err(TableFull(memory)) => {
                    let request = WorkRequest::Register { memory };
                    return Err(PostError { reason: Refusal::RegionsFull, request });
                }
            },
            WorkRequest::Invalidate { stag } => Work::Invalidate { stag, memory: None },
        };
        self.requester.post(id, work);
        if self.is_open() {
            self.advance();
        } else {
            self.flush();
        }
        Ok(())
    }

    fn poll(&mut self, _now: Instant, done: &mut Vec<WorkCompletion>) {
        done.extend(self.consumer.done.drain(..));
    }

    /// What was sent may arrive; what was not does not.
    fn disconnect(&mut self) {
        self.end(EndReason::ByUs, CloseReason::Finished);
    }

    fn state(&self) -> QueuePairState {
        self.state
    }
}

impl ManagedQueuePair for Connection {
    fn handle_answer(&mut self, _now: Instant, answer: SetupAnswer) {
        match answer {
            SetupAnswer::Accept(private_data) => self.accept(private_data),
            SetupAnswer::Reject(private_data) => self.reject(private_data),
        }
    }

    fn poll_event(&mut self) -> Option<SetupEvent> {
        let event = self.events.pop_front()?;
        self.account.uncount(event.private_data().len());
        Some(event)
    }

    fn handle_deadline(&mut self, now: Instant) {
        let change = self.manager.handle_timeout(now);
        self.changed(change);
        let verdict = if self.is_open() { self.requester.handle_timeout(now) } else { Verdict::GoOn };
        if verdict == Verdict::Lost {
            let words = "acknowledgement of a packet";
            self.end(EndReason::Lost, CloseReason::TimedOut(words));
        }
        self.advance();
    }

    fn next_deadline(&self) -> Option<Instant> {
        let deadlines = [self.manager.deadline(), self.requester.deadline()];
        deadlines.into_iter().flatten().min()
    }

    fn is_connected(&self) -> bool {
        self.is_open() && self.manager.state().is_established()
    }

    fn close_reason(&self) -> Option<CloseReason> {
        self.close
    }
}
