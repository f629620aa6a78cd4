//! Completions of a volume that answers at once: kept in the queue until the next poll.

use crate::Completion;
use alloc::vec::Vec;

/// Completions that wait for a poll, at most as many as the queue is deep.
#[derive(Debug)]
pub(crate) struct WaitingCompletions {
    list: Vec<Completion>,
    depth: usize,
}

impl WaitingCompletions {
    /// Room for `depth` completions, allocated as it is first used.
    pub(crate) const fn new(depth: usize) -> Self {
        Self { list: Vec::new(), depth }
    }

    /// True when no further request may be taken.
    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= self.depth
    }

    /// Completions that wait.
    #[cfg(feature = "std")]
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn push(&mut self, completion: Completion) {
        self.list.push(completion);
    }

    /// Hands everything on.
    pub(crate) fn drain(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.list);
    }
}
