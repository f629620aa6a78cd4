//! What a consumer has given to its queue pair and the peer can reach, and what has completed of it.

use alloc::collections::VecDeque;

use verbs::{ReceiveQueue, RegionTable, WorkCompletion, WorkDone, WorkError};

/// Receives, regions and completions of a queue pair.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) receives: ReceiveQueue,
    pub(crate) regions: RegionTable,
    pub(crate) done: VecDeque<WorkCompletion>,
}

impl Consumer {
    /// The oldest receive has come to its end.
    pub(crate) fn received(&mut self, result: Result<WorkDone, WorkError>) {
        self.done.extend(self.receives.complete(result));
    }
}
