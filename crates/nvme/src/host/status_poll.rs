//! Looking at CSTS again and again until the controller is ready, for as long as it says that this may take (NVMe Base §3.5).

use core::time::Duration;

use protocol::Instant;

use crate::limits::READY_POLL;

/// The wait for a controller to become ready.
#[derive(Debug, Default)]
pub(crate) struct StatusPoll {
    /// When it must be ready.
    ready_by: Option<Instant>,
    /// When its status is looked at again.
    due: Option<Instant>,
}

/// Whether a controller that is not ready may still become so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// It may: its status is looked at again.
    Expected,
    /// Its time is over.
    Overdue,
}

impl StatusPoll {
    /// The controller is not ready, which may take so long from the first time on.
    pub(crate) fn on_not_ready(&mut self, now: Instant, time: Duration) -> Readiness {
        if *self.ready_by.get_or_insert(now + time) <= now {
            return Readiness::Overdue;
        }
        self.due = Some(now + READY_POLL);
        Readiness::Expected
    }

    /// When the status is looked at again.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// True once, when that time has come.
    pub(crate) fn take_due(&mut self, now: Instant) -> bool {
        self.due.take_if(|due| *due <= now).is_some()
    }

    /// Nothing is looked at any more.
    pub(crate) fn stop(&mut self) {
        self.due = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_to_become_ready_counts_from_the_first_look() {
        let (mut poll, now, time) = (StatusPoll::default(), Instant::ZERO, Duration::from_secs(1));
        assert_eq!(poll.on_not_ready(now, time), Readiness::Expected);
        assert_eq!((poll.due(), poll.take_due(now)), (Some(now + READY_POLL), false));
        assert!(poll.take_due(now + READY_POLL) && !poll.take_due(now + READY_POLL), "once");
        assert_eq!(poll.on_not_ready(now + READY_POLL, Duration::from_secs(9)), Readiness::Expected);
        assert_eq!(poll.on_not_ready(now + time, time), Readiness::Overdue);
    }
}
