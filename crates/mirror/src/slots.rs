//! Which of the two places of a superblock, or of a part of the bitmap, is written next.
//!
//! A queue that is dropped may leave a write behind that takes effect later, over whatever was written after it. So a place with such a write is left alone
//! for a while, and the other one is used.

use protocol::Instant;

use crate::limits::{ABANDONED, SLOTS};

/// The places of one record, on all legs alike.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slots {
    /// The place that was written last.
    last: usize,
    /// When each may be written again.
    free_at: [Instant; SLOTS],
}

impl Slots {
    /// The place to write at `now`: in turn, as far as they may be written. Otherwise when one may be.
    pub(crate) fn next(&mut self, now: Instant) -> Result<usize, Instant> {
        let order = [(self.last + 1) % SLOTS, self.last];
        let free_at = |slot: usize| self.free_at.get(slot).copied().unwrap_or_default();
        let Some(slot) = order.into_iter().find(|slot| free_at(*slot) <= now) else {
            return Err(self.free_at.into_iter().min().unwrap_or_default());
        };
        self.last = slot;
        Ok(slot)
    }

    /// The write of the last place was left at `now`, and may still take effect.
    pub(crate) fn abandon(&mut self, now: Instant) {
        if let Some(free_at) = self.free_at.get_mut(self.last) {
            *free_at = now + ABANDONED;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_take_turns_and_one_that_was_left_rests() {
        let mut slots = Slots::default();
        let now = Instant::from_nanos(5);
        assert_eq!([slots.next(now), slots.next(now), slots.next(now)], [Ok(1), Ok(0), Ok(1)]);
        slots.abandon(now);
        assert_eq!([slots.next(now), slots.next(now)], [Ok(0), Ok(0)]);
        slots.abandon(now);
        assert_eq!(slots.next(now), Err(now + ABANDONED));
        assert_eq!(slots.next(now + ABANDONED), Ok(1));
    }
}
