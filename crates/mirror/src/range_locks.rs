//! Range locks: they keep requests apart that overlap, across all queues.
//!
//! Two legs could carry out two writes to one block in different orders, and would differ from then on. So every request locks its blocks: shared to
//! read, exclusive to change. Whoever does not get its lock waits in line: nobody who comes later and overlaps passes it by, so that each gets its turn. A lock
//! is granted to a queue's request by number; that queue is to be told.

use std::collections::VecDeque;

use volume::Extent;

/// How a request locks its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockMode {
    /// With others that read.
    Shared,
    /// Alone.
    Exclusive,
}

/// Who locks: a queue, and a number that means something to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) queue: u64,
    pub(crate) number: u64,
}

#[derive(Debug, Clone, Copy)]
struct Lock {
    holder: Holder,
    extent: Extent,
    mode: LockMode,
}

impl Lock {
    fn excludes(&self, other: &Self) -> bool {
        let both_read = self.mode == LockMode::Shared && other.mode == LockMode::Shared;
        !both_read && self.extent.overlaps(other.extent)
    }
}

/// The locks of one mirror: no more than its requests under way.
#[derive(Debug, Default)]
pub(crate) struct RangeLocks {
    held: Vec<Lock>,
    waiting: VecDeque<Lock>,
}

impl RangeLocks {
    /// Locks the blocks if nobody is in the way; otherwise the holder waits in line.
    pub(crate) fn lock(&mut self, holder: Holder, extent: Extent, mode: LockMode) -> bool {
        let lock = Lock { holder, extent, mode };
        let free = !self.held.iter().chain(&self.waiting).any(|other| other.excludes(&lock));
        if free {
            self.held.push(lock);
        } else {
            self.waiting.push_back(lock);
        }
        free
    }

    /// Unlocks what the holder has locked, or takes it out of the line. Adds those who have their locks by that.
    pub(crate) fn unlock(&mut self, holder: Holder, granted: &mut Vec<Holder>) {
        self.release(|lock| lock.holder == holder, granted);
    }

    /// Unlocks everything of a queue that is gone.
    pub(crate) fn forget_queue(&mut self, queue: u64, granted: &mut Vec<Holder>) {
        self.release(|lock| lock.holder.queue == queue, granted);
    }

    fn release(&mut self, is_over: impl Fn(&Lock) -> bool, granted: &mut Vec<Holder>) {
        self.held.retain(|lock| !is_over(lock));
        self.waiting.retain(|lock| !is_over(lock));
        let mut still = VecDeque::with_capacity(self.waiting.len());
        for lock in self.waiting.drain(..) {
            if self.held.iter().chain(&still).any(|other| other.excludes(&lock)) {
                still.push_back(lock);
            } else {
                granted.push(lock.holder);
                self.held.push(lock);
            }
        }
        self.waiting = still;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn holder(queue: u64, number: u64) -> Holder {
        Holder { queue, number }
    }

    const ONE: Holder = holder(1, 1);
    const TWO: Holder = holder(2, 1);
    const THREE: Holder = holder(2, 2);

    fn unlock(locks: &mut RangeLocks, holder: Holder) -> Vec<Holder> {
        let mut granted = Vec::new();
        locks.unlock(holder, &mut granted);
        granted
    }

    #[test]
    fn readers_share_and_a_writer_is_alone() {
        let mut locks = RangeLocks::default();
        assert!(locks.lock(ONE, Extent::new(0, 8), LockMode::Shared));
        assert!(locks.lock(TWO, Extent::new(4, 8), LockMode::Shared));
        assert!(!locks.lock(THREE, Extent::new(7, 1), LockMode::Exclusive));
        assert_eq!(unlock(&mut locks, ONE), []);
        assert_eq!(unlock(&mut locks, TWO), [THREE]);
    }

    #[test]
    fn nobody_passes_those_who_wait() {
        let mut locks = RangeLocks::default();
        assert!(locks.lock(ONE, Extent::new(0, 8), LockMode::Shared));
        assert!(!locks.lock(TWO, Extent::new(0, 8), LockMode::Exclusive));
        assert!(!locks.lock(THREE, Extent::new(0, 8), LockMode::Shared), "it came later");
        assert!(locks.lock(holder(9, 9), Extent::new(8, 1), LockMode::Exclusive), "it does not overlap");
        assert_eq!(unlock(&mut locks, ONE), [TWO]);
        assert_eq!(unlock(&mut locks, TWO), [THREE]);
    }

    #[test]
    fn whoever_gives_up_or_is_gone_lets_others_pass() {
        let mut locks = RangeLocks::default();
        assert!(locks.lock(ONE, Extent::new(0, 8), LockMode::Shared));
        assert!(!locks.lock(TWO, Extent::new(0, 8), LockMode::Exclusive));
        assert!(!locks.lock(holder(3, 3), Extent::new(0, 8), LockMode::Shared));
        assert_eq!(unlock(&mut locks, TWO), [holder(3, 3)]);
        assert!(!locks.lock(TWO, Extent::new(3, 1), LockMode::Exclusive));
        let mut granted = Vec::new();
        locks.forget_queue(1, &mut granted);
        assert_eq!(granted, []);
        locks.forget_queue(3, &mut granted);
        assert_eq!(granted, [TWO]);
    }
}
