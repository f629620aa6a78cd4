//! Whether a flush after a reconnect may still promise what it is asked for.
//!
//! A flush makes durable what was written before it. If the far end lost power in between, and with it a volatile cache, the
//! writes are gone and its next flush succeeds with nothing to do. So whoever reconnects, and cannot tell that the far end
//! has run all the while, must let one flush fail: that is how the writers learn that something may be lost. It fails once
//! on each queue, as each may have a user of its own.
//!
//! Flushes have numbers in the order in which they begin, over all queues of the volume. A write that is acknowledged is
//! covered by the next flush to begin.

use std::sync::atomic::{AtomicU64, Ordering};

/// What all queues of a volume know of its flushes.
#[derive(Debug, Default)]
pub(crate) struct Durability {
    /// Flushes begun.
    begun: AtomicU64,
    /// The number that a flush must have to cover every acknowledged write.
    wanted: AtomicU64,
    /// The highest number among flushes that succeeded.
    secured: AtomicU64,
    /// How often acknowledged writes may have been lost.
    losses: AtomicU64,
}

impl Durability {
    /// A write that needs a flush has been acknowledged.
    pub(crate) fn wrote(&self) {
        let next = self.begun.load(Ordering::Acquire) + 1;
        // Usually so already: then the line stays shared between the cores.
        if self.wanted.load(Ordering::Relaxed) < next {
            self.wanted.fetch_max(next, Ordering::AcqRel);
        }
    }

    /// A flush begins; its number.
    pub(crate) fn begin_flush(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The flush of that number has succeeded.
    pub(crate) fn flushed(&self, number: u64) {
        self.secured.fetch_max(number, Ordering::AcqRel);
    }

    /// The far end may have lost what was not flushed.
    pub(crate) fn suspect(&self) {
        if self.secured.load(Ordering::Acquire) < self.wanted.load(Ordering::Acquire) {
            // Counts like a flush: what is written from now on is another's to cover.
            self.flushed(self.begin_flush());
            self.losses.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// How often acknowledged writes may have been lost so far.
    pub(crate) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_flush_covers_can_be_lost() {
        let durability = Durability::default();
        durability.suspect();
        assert_eq!(durability.losses(), 0, "nothing was written");
        durability.wrote();
        let covering = durability.begin_flush();
        durability.wrote();
        durability.flushed(covering);
        durability.suspect();
        assert_eq!(durability.losses(), 1, "the second write came after the flush began");
        durability.suspect();
        assert_eq!(durability.losses(), 1, "a loss is counted once");
        durability.wrote();
        durability.suspect();
        assert_eq!(durability.losses(), 2, "what was written after a loss can be lost again");
        durability.wrote();
        durability.flushed(durability.begin_flush());
        durability.suspect();
        assert_eq!(durability.losses(), 2);
    }
}
