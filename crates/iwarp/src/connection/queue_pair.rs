//! The connection as its consumer sees it (docs/verbs-contract.md).

use alloc::vec::Vec;

use protocol::{CloseReason, Instant};
use verbs::{
    EndReason, PostError, QueuePair, QueuePairLimits, QueuePairState, Refusal, WorkCompletion, WorkId,
    WorkRequest,
};

use super::Connection;
use crate::send_queue::{Read, Work};

impl Connection {
    /// Why a request is not taken, if it is not.
    fn refusal(&self, request: &WorkRequest) -> Option<Refusal> {
        let limits = &self.limits;
        let is_too_long = |bytes: usize, place: u32| {
            bytes > limits.longest || usize::try_from(place).is_ok_and(|place| bytes > place)
        };
        match request {
            WorkRequest::Invalidate { stag } if !self.regions.holds(*stag) => Some(Refusal::UnknownRegion),
            WorkRequest::Invalidate { .. } if !self.is_open() => None,
            _ if !self.is_open() => Some(Refusal::Ended),
            WorkRequest::Receive { .. } => self.receives.is_full().then_some(Refusal::ReceiveQueueFull),
            _ if self.sends.is_full() => Some(Refusal::SendQueueFull),
            WorkRequest::Send { data, .. } => is_too_long(data.len(), u32::MAX).then_some(Refusal::TooLong),
            WorkRequest::Write { data, to } => is_too_long(data.len(), to.length).then_some(Refusal::TooLong),
            WorkRequest::Read { into, from } => {
                let length = from.length as usize;
                (length > into.len() || length > limits.longest).then_some(Refusal::TooLong)
            }
            WorkRequest::Register { memory } if memory.len() > limits.longest => Some(Refusal::TooLong),
            WorkRequest::Register { .. } => {
                (self.regions.len() >= limits.regions).then_some(Refusal::RegionsFull)
            }
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
                self.receives.post(id, into);
                return Ok(());
            }
            WorkRequest::Send { data, invalidate } => Work::Send { data, invalidate },
            WorkRequest::Write { data, to } => Work::Write { data, to },
            WorkRequest::Read { into, from } => Work::Read(Read { into: Some(into), from, placed: 0 }),
            WorkRequest::Register { memory } => match self.regions.register(memory) {
                Ok(region) => Work::Register(region),
                Err(verbs::TableFull(memory)) => {
                    let request = WorkRequest::Register { memory };
                    return Err(PostError { reason: Refusal::RegionsFull, request });
                }
            },
            WorkRequest::Invalidate { stag } => Work::Invalidate { stag, memory: None },
        };
        // A message has to be sent before anything becomes of it.
        let is_message = matches!(work, Work::Send { .. } | Work::Write { .. });
        self.sends.post(id, work);
        if !self.is_open() {
            self.flush();
        } else if !is_message {
            self.advance();
        }
        Ok(())
    }

    fn poll(&mut self, _now: Instant, done: &mut Vec<WorkCompletion>) {
        done.append(&mut self.done);
    }

    /// What has been put into a send goes out; what has not does not, not even the rest of a message.
    fn disconnect(&mut self) {
        self.end(EndReason::ByUs, CloseReason::Finished);
    }

    fn state(&self) -> QueuePairState {
        self.state
    }
}
