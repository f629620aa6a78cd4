//! Connections whose hosts have to leave because of a reload, as the cores count them for the controller.

use std::sync::atomic::{AtomicU64, Ordering};

use engine::Departure;

/// Connections whose hosts were asked to leave since the start, counted by the cores.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    asked: AtomicU64,
    ended: AtomicU64,
    forced: AtomicU64,
}

/// The same at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DepartureCounts {
    pub(crate) asked: u64,
    pub(crate) ended: u64,
    pub(crate) forced: u64,
}

impl Departures {
    /// Counts one.
    pub(crate) fn count(&self, departure: Departure) {
        let counter = match departure {
            Departure::Asked => &self.asked,
            Departure::Ended => &self.ended,
            Departure::Forced => &self.forced,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> DepartureCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DepartureCounts { asked: read(&self.asked), ended: read(&self.ended), forced: read(&self.forced) }
    }
}

impl DepartureCounts {
    /// What has come since an earlier moment.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            asked: self.asked.saturating_sub(earlier.asked),
            ended: self.ended.saturating_sub(earlier.ended),
            forced: self.forced.saturating_sub(earlier.forced),
        }
    }
}
