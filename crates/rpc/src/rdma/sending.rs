//! What a connection sends: messages and other work, by what both sides can do.

use verbs::WorkRequest;

use super::send_memory::SendMemory;
use super::work_queue::{Work, WorkQueue};

/// What both sides can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Terms {
    /// Bytes of the longest message that this side may send.
    pub(super) send: usize,
    /// Bytes of the longest message that the peer may send.
    pub(super) receive: usize,
    /// Calls of this side may name memory; those of the side that was connected to may not (RFC 8167).
    pub(super) may_name_memory: bool,
    /// Regions at a time.
    pub(super) regions: usize,
    /// Credits that calls ask for.
    pub(super) asked: u32,
    /// Calls of the peer at a time: credits that replies grant, at most.
    pub(super) granted: u32,
}

/// What is sent.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) terms: Terms,
    pub(super) work: WorkQueue,
    pub(super) memory: SendMemory,
}

impl Sending {
    /// Sends a message, no longer than the peer receives.
    pub(super) fn message(&mut self, bytes: &[u8]) {
        self.message_of(bytes.len(), core::iter::once(bytes));
    }

    /// Sends a message of these parts, `length` bytes in all, which are copied once: to where they are sent from.
    pub(super) fn message_of<'a>(&mut self, length: usize, parts: impl Iterator<Item = &'a [u8]>) {
        debug_assert!(length <= self.terms.send, "a message fits into its receive");
        let data = self.memory.fill(length, parts);
        self.work.push(Work::Send, WorkRequest::Send { data, invalidate: None });
    }

    /// Bytes of memory of no pool.
    pub(super) fn held(&self) -> usize {
        self.work.held().saturating_add(self.memory.held())
    }
}
