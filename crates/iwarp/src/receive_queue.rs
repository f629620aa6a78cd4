//! Receives that are posted, in the order of posting: each takes one message.

use alloc::collections::VecDeque;

use buf::Buf;
use verbs::{WorkCompletion, WorkDone, WorkError, WorkId, WorkMemory};

/// A receive.
#[derive(Debug)]
struct Receive {
    id: WorkId,
    /// Its memory, unless the transport has it.
    into: Option<Buf>,
    /// Bytes of that memory.
    length: usize,
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
        let length = into.len();
        self.receives.push_back(Receive { id, into: Some(into), length });
    }

    /// Bytes that the next message may have; nothing without a receive.
    pub(crate) fn room(&self) -> Option<usize> {
        self.receives.front().map(|receive| receive.length)
    }

    /// The memory of the next message, for the transport.
    pub(crate) fn lend(&mut self) -> Option<Buf> {
        self.receives.front_mut()?.into.take()
    }

    /// Takes the memory back.
    pub(crate) fn give_back(&mut self, into: Buf) {
        if let Some(receive) = self.receives.front_mut() {
            receive.into = Some(into);
        }
    }

    /// The next message has come, or does not fit.
    pub(crate) fn complete(&mut self, result: Result<WorkDone, WorkError>) -> Option<WorkCompletion> {
        let Receive { id, into, .. } = self.receives.pop_front()?;
        Some(WorkCompletion { id, result, memory: into.map_or(WorkMemory::None, WorkMemory::Buf) })
    }

    /// The queue pair has ended: the next receive that has its memory, or, where `lost` says that the transport does not give memory back any more, any.
    pub(crate) fn flush(&mut self, lost: bool) -> Option<WorkCompletion> {
        let has_memory = self.receives.front()?.into.is_some();
        if has_memory || lost { self.complete(Err(WorkError::Flushed)) } else { None }
    }
}
