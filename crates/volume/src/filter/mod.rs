//! Filters: volumes that hold a volume and change one thing about it.
//!
//! Each passes on what it does not change, never takes more requests than the volume's depth, and keeps every promise
//! of the contract: that is how they can be stacked in any order.

mod apart;
mod delay;
mod fail;
mod from_url;
mod front;
mod limit;
mod read_only;
mod stats;

pub use apart::Apart;
pub use delay::Delay;
pub use fail::Fail;
pub use from_url::apply_filters;
pub use limit::Limit;
pub use names::FailRate;
pub use read_only::ReadOnly;
pub use stats::Stats;

pub use crate::operation_set::OperationSet;
pub use crate::statistics::{OperationStats, StatsSnapshot};

/// The control side of a filter that changes nothing there: everything is asked of `self.inner`.
macro_rules! same_control {
    () => {
        same_control!(but statistics);

        fn statistics(&self) -> Option<crate::statistics::StatsSnapshot> {
            self.inner.statistics()
        }
    };
    (but statistics) => {
        fn geometry(&self) -> crate::Geometry {
            self.inner.geometry()
        }

        fn limits(&self) -> crate::Limits {
            self.inner.limits()
        }

        fn features(&self) -> crate::Features {
            self.inner.features()
        }

        fn identity(&self) -> Option<crate::Identity> {
            self.inner.identity()
        }

        fn changes(&self) -> crate::Changes {
            self.inner.changes()
        }

        fn listen(&self, waker: std::task::Waker) {
            self.inner.listen(waker);
        }

        fn rescan(&self) -> Result<(), crate::OpenError> {
            self.inner.rescan()
        }

        fn keep_losses(&self, record: std::sync::Arc<dyn crate::LossRecord>, known: Option<String>) {
            self.inner.keep_losses(record, known);
        }

        fn path(&self) -> crate::PathState {
            self.inner.path()
        }

        fn last_error(&self) -> Option<String> {
            self.inner.last_error()
        }

        fn memory(&self) -> Option<std::sync::Arc<dyn buf::MemorySource>> {
            self.inner.memory()
        }

        fn copied(&self) -> Option<u64> {
            self.inner.copied()
        }

        fn cache(&self) -> Option<&dyn crate::CacheControl> {
            self.inner.cache()
        }

        fn leave_control(&self) -> Option<&dyn crate::LeaveControl> {
            self.inner.leave_control()
        }
    };
}
use same_control;
