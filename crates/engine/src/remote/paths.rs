//! The state of the path to a remote volume, counted over its queues' connections.
//!
//! It moves when a connection is lost, made again or given up: never with requests, and not with each message about the same loss.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use ::volume::PathState;

/// A queue's path to the far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum QueuePath {
    /// Its first connection is being made.
    #[default]
    Unknown,
    /// There is a connection.
    Open,
    /// There is none.
    Lost,
}

/// How many queues have a connection, and how many have lost theirs.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    open: u16,
    lost: u16,
}

impl Count {
    fn of(&mut self, path: QueuePath) -> Option<&mut u16> {
        match path {
            QueuePath::Unknown => None,
            QueuePath::Open => Some(&mut self.open),
            QueuePath::Lost => Some(&mut self.lost),
        }
    }

    fn state(self) -> PathState {
        match self {
            Self { lost: 0, .. } => PathState::Optimized,
            Self { open: 0, .. } => PathState::Inaccessible,
            Self { lost: missing, .. } => PathState::Degraded { missing },
        }
    }
}

/// The paths of all queues of a volume.
#[derive(Debug, Default)]
pub(super) struct Paths {
    count: Mutex<Count>,
    changes: AtomicU64,
}

impl Paths {
    /// A queue's path has changed from one to the other: true if the state of the whole has.
    pub(super) fn change(&self, from: QueuePath, to: QueuePath) -> bool {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let before = count.state();
        if let Some(number) = count.of(from) {
            *number = number.saturating_sub(1);
        }
        if let Some(number) = count.of(to) {
            *number = number.saturating_add(1);
        }
        let changed = count.state() != before;
        if changed {
            self.changes.fetch_add(1, Ordering::Release);
        }
        changed
    }

    /// How the volume is reached now.
    pub(super) fn state(&self) -> PathState {
        self.count.lock().unwrap_or_else(PoisonError::into_inner).state()
    }

    /// How often that has changed.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_that_of_all_queues_and_moves_only_when_it_does() {
        let paths = Paths::default();
        let degraded = |missing| PathState::Degraded { missing };
        for (from, to, expected, moved) in [
            (QueuePath::Unknown, QueuePath::Open, PathState::Optimized, false),
            (QueuePath::Unknown, QueuePath::Open, PathState::Optimized, false),
            (QueuePath::Open, QueuePath::Lost, degraded(1), true),
            (QueuePath::Lost, QueuePath::Lost, degraded(1), false),
            (QueuePath::Open, QueuePath::Lost, PathState::Inaccessible, true),
            (QueuePath::Unknown, QueuePath::Lost, PathState::Inaccessible, false),
            (QueuePath::Lost, QueuePath::Open, degraded(2), true),
            (QueuePath::Lost, QueuePath::Unknown, degraded(1), true),
            (QueuePath::Lost, QueuePath::Open, PathState::Optimized, true),
        ] {
            let before = paths.changes();
            assert_eq!(paths.change(from, to), moved, "{from:?} to {to:?}");
            assert_eq!(
                (paths.state(), paths.changes() - before),
                (expected, moved.into()),
                "{from:?} to {to:?}"
            );
        }
    }
}
