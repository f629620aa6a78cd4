//! Receives that are posted, in the order of posting: each takes one message. Every software provider needs such a queue.
//!
//! A provider puts a message where it belongs in one of two ways: it copies each packet to [its place](ReceiveQueue::place), or, where the transport itself
//! puts bytes into memory, it [lends](ReceiveQueue::lend) the memory of the next message.

use alloc::collections::VecDeque;

use buf::Buf;

use crate::{WorkCompletion, WorkDone, WorkError, WorkId, WorkMemory};

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
pub struct ReceiveQueue {
    receives: VecDeque<Receive>,
    limit: usize,
}

/// Where the bytes of a message go.
#[derive(Debug)]
pub enum ReceivePlace<'a> {
    /// Here.
    Here(&'a mut [u8]),
    /// No receive is posted.
    NotReady,
    /// They do not fit.
    TooLong,
}

impl ReceiveQueue {
    /// A queue of at most so many receives.
    pub fn new(limit: usize) -> Self {
        Self { receives: VecDeque::new(), limit }
    }

    /// True when it takes no more.
    pub fn is_full(&self) -> bool {
        self.receives.len() >= self.limit
    }

    /// Adds a receive.
    pub fn post(&mut self, id: WorkId, into: Buf) {
        let length = into.len();
        self.receives.push_back(Receive { id, into: Some(into), length });
    }

    /// Bytes that the next message may have; nothing without a receive.
    pub fn room(&self) -> Option<usize> {
        self.receives.front().map(|receive| receive.length)
    }

    /// The place for `length` bytes of the next message, behind the `offset` bytes that have come.
    pub fn place(&mut self, offset: usize, length: usize) -> ReceivePlace<'_> {
        let Some(memory) = self.receives.front_mut().and_then(|receive| receive.into.as_mut()) else {
            return ReceivePlace::NotReady;
        };
        let end = offset.saturating_add(length);
        memory.get_mut(offset..end).map_or(ReceivePlace::TooLong, ReceivePlace::Here)
    }

    /// The memory of the next message, for the transport.
    pub fn lend(&mut self) -> Option<Buf> {
        self.receives.front_mut()?.into.take()
    }

    /// Takes the memory back.
    pub fn give_back(&mut self, into: Buf) {
        if let Some(receive) = self.receives.front_mut() {
            receive.into = Some(into);
        }
    }

    /// The next message has come, or does not fit.
    pub fn complete(&mut self, result: Result<WorkDone, WorkError>) -> Option<WorkCompletion> {
        let Receive { id, into, .. } = self.receives.pop_front()?;
        Some(WorkCompletion { id, result, memory: into.map_or(WorkMemory::None, WorkMemory::Buf) })
    }

    /// The queue pair has ended: the next receive that has its memory, flushed. Nothing while the transport still has that memory.
    pub fn flush(&mut self) -> Option<WorkCompletion> {
        self.receives.front()?.into.as_ref()?;
        self.flush_lost()
    }

    /// The same where the transport does not give memory back any more: a receive whose memory it has ends without.
    pub fn flush_lost(&mut self) -> Option<WorkCompletion> {
        self.complete(Err(WorkError::Flushed))
    }
}
