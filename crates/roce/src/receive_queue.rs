//! Receives that are posted, in the order of posting: each takes one message.

use alloc::collections::VecDeque;

use buf::Buf;
use verbs::{WorkCompletion, WorkDone, WorkError, WorkId, WorkMemory};

/// A receive.
#[derive(Debug)]
struct Receive {
    id: WorkId,
    into: Buf,
}

/// The receives of a queue pair.
#[derive(Debug)]
pub(crate) struct ReceiveQueue {
    receives: VecDeque<Receive>,
    limit: usize,
}

impl ReceiveQueue {
    pub(crate) fn new(limit: usize) -> Self {
        Self { receives: VecDeque::new(), limit }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.receives.len() >= self.limit
    }

    pub(crate) fn post(&mut self, id: WorkId, into: Buf) {
        self.receives.push_back(Receive { id, into });
    }

    /// The place for `length` bytes of the next message, behind those that have come.
    pub(crate) fn place(&mut self, offset: usize, length: usize) -> Place<'_> {
        let Some(receive) = self.receives.front_mut() else { return Place::NotReady };
        let end = offset.saturating_add(length);
        receive.into.get_mut(offset..end).map_or(Place::TooLong, Place::Here)
    }

    /// The next message has come, or does not fit.
    pub(crate) fn complete(&mut self, result: Result<WorkDone, WorkError>) -> Option<WorkCompletion> {
        let Receive { id, into } = self.receives.pop_front()?;
        Some(WorkCompletion { id, result, memory: WorkMemory::Buf(into) })
    }
}

/// Where the bytes of a message go.
#[derive(Debug)]
pub(crate) enum Place<'a> {
    /// Here.
    Here(&'a mut [u8]),
    /// No receive is posted.
    NotReady,
    /// They do not fit.
    TooLong,
}
