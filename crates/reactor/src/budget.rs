//! How many bytes a turn may move: as many as the core has lately moved in half of what counts as a stall.
//!
//! What a byte takes differs between machines, and on one by whether it lies in the cache and whether the memory for it is there yet. So no number of bytes is right everywhere; the time that turns take is what is to be bounded, and what this learns from.

use std::time::Duration;

use crate::limits::{GOAL, LEAST_TURN, SPACING};

/// A core's budget, which its turns change.
#[derive(Debug)]
pub(crate) struct Budget {
    most: usize,
    least: usize,
    bytes: usize,
}

impl Budget {
    /// A budget of `most` bytes at the beginning, and never more.
    pub(crate) fn new(most: usize) -> Self {
        let most = most.max(1);
        Self { most, least: most.min(LEAST_TURN), bytes: most }
    }

    /// Bytes that a turn moves in each direction, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A turn that moved so many bytes in one direction has taken so long; nothing is known of short ones.
    ///
    /// One that moved little says nothing of what bytes take.
    pub(crate) fn learn(&mut self, moved: usize, took: Option<Duration>) {
        if moved < self.bytes / 2 {
            return;
        }
        let next = match took {
            Some(took) if took > GOAL => self.bytes / 2,
            Some(took) if took > SPACING => self.bytes,
            _ => self.bytes + self.bytes / 8,
        };
        self.bytes = next.clamp(self.least, self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns that have as much to move as they may, on a core that takes so many nanoseconds for a KiB: the budget afterwards.
    fn settle(budget: &mut Budget, turns: usize, nanos: u64) -> usize {
        for _ in 0..turns {
            let took = Duration::from_nanos(budget.bytes() as u64 / 1024 * nanos);
            budget.learn(budget.bytes(), (took >= SPACING).then_some(took));
        }
        budget.bytes()
    }

    #[test]
    fn it_follows_what_the_core_can_do_in_half_a_stall() {
        let mut budget = Budget::new(1 << 20);
        assert_eq!(settle(&mut budget, 10, 100), 1 << 20, "fast enough as it is");
        let slow = settle(&mut budget, 10, 1000);
        assert!((LEAST_TURN..=512 << 10).contains(&slow), "{slow} bytes take half a millisecond at most");
        assert_eq!(settle(&mut budget, 50, 100), 1 << 20, "and back");
    }

    #[test]
    fn between_too_long_and_long_it_stays_as_it_is() {
        // Room to fall and to rise: at one of the bounds every answer would be the same.
        let slow = 512 << 10;
        for (took, next) in [
            (Some(GOAL), slow),
            (Some(SPACING + Duration::from_nanos(1)), slow),
            (Some(SPACING), slow + slow / 8),
            (None, slow + slow / 8),
            (Some(GOAL + Duration::from_nanos(1)), slow / 2),
        ] {
            let mut budget = Budget { bytes: slow, ..Budget::new(1 << 20) };
            budget.learn(slow, took);
            assert_eq!(budget.bytes(), next, "after a turn of {took:?}, of {slow} bytes");
        }
    }

    #[test]
    fn it_stays_within_its_bounds() {
        let mut budget = Budget::new(1 << 20);
        assert_eq!(settle(&mut budget, 50, 1_000_000), LEAST_TURN);
        let mut small = Budget::new(8192);
        assert_eq!(settle(&mut small, 50, 1_000_000), 8192, "never more than it was set to");
        assert_eq!(Budget::new(0).bytes(), 1, "something always moves");
    }

    #[test]
    fn turns_that_moved_little_teach_nothing() {
        let mut budget = Budget::new(1 << 20);
        budget.learn(4096, Some(Duration::from_millis(5)));
        assert_eq!(budget.bytes(), 1 << 20);
    }
}
