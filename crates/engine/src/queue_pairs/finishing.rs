//! When a queue pair that is no stream needs its carrier no more.

use host::AdapterPair;
use verbs::ManagedQueuePair;

/// A queue pair whose end takes its time.
pub(crate) trait Finishing: ManagedQueuePair {
    /// True once it has ended, and has said so to its peer or has had its time to.
    fn is_finished(&self) -> bool;
}

impl Finishing for roce::Connection {
    fn is_finished(&self) -> bool {
        self.is_finished()
    }
}

impl Finishing for AdapterPair {
    fn is_finished(&self) -> bool {
        self.is_finished()
    }
}
