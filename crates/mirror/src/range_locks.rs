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

/// Blocks of one granule, and buckets in which granules are counted: requests of the usual sizes touch one granule or two.
const GRANULE: u64 = 64;
const BUCKETS: u64 = 1024;
/// Granules of one lock beyond which it is looked at by everybody.
const WIDE: u64 = 8;

/// How many hold something, by how they do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Holders {
    shared: u32,
    exclusive: u32,
}

impl Holders {
    fn count(&mut self, mode: LockMode, holds: bool) {
        let count = match mode {
            LockMode::Shared => &mut self.shared,
            LockMode::Exclusive => &mut self.exclusive,
        };
        *count = if holds { count.saturating_add(1) } else { count.saturating_sub(1) };
    }

    /// True if one of them may exclude a lock of this mode.
    fn may_exclude(self, mode: LockMode) -> bool {
        self.exclusive > 0 || (mode == LockMode::Exclusive && self.shared > 0)
    }
}

/// How many hold something in each bucket. Where that says that nobody is in the way no lock is looked at.
#[derive(Debug)]
struct Buckets {
    narrow: Vec<Holders>,
    wide: Holders,
}

impl Buckets {
    fn granules(extent: Extent) -> std::ops::RangeInclusive<u64> {
        let last = extent.start.saturating_add(extent.blocks.saturating_sub(1));
        extent.start / GRANULE..=last / GRANULE
    }

    fn is_wide(extent: Extent) -> bool {
        extent.blocks > GRANULE * (WIDE - 1)
    }

    fn may_exclude(&self, lock: &Lock) -> bool {
        let in_bucket = |granule: u64| {
            let holders = self.narrow.get(wire::index(granule % BUCKETS));
            holders.is_some_and(|holders| holders.may_exclude(lock.mode))
        };
        self.wide.may_exclude(lock.mode)
            || Self::is_wide(lock.extent)
            || Self::granules(lock.extent).any(in_bucket)
    }

    fn count(&mut self, lock: &Lock, holds: bool) {
        if Self::is_wide(lock.extent) {
            return self.wide.count(lock.mode, holds);
        }
        for granule in Self::granules(lock.extent) {
            if let Some(holders) = self.narrow.get_mut(wire::index(granule % BUCKETS)) {
                holders.count(lock.mode, holds);
            }
        }
    }
}

/// The locks of one mirror: no more than its requests under way.
#[derive(Debug)]
pub(crate) struct RangeLocks {
    /// Each stays in its place, by which it is unlocked.
    held: Vec<Option<Lock>>,
    free: Vec<usize>,
    buckets: Buckets,
    waiting: VecDeque<Lock>,
}

/// The place of a lock that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held(usize);

impl Default for RangeLocks {
    fn default() -> Self {
        let narrow = vec![Holders::default(); wire::index(BUCKETS)];
        let buckets = Buckets { narrow, wide: Holders::default() };
        Self { held: Vec::new(), free: Vec::new(), buckets, waiting: VecDeque::new() }
    }
}

impl RangeLocks {
    /// Locks the blocks if nobody is in the way; otherwise the holder waits in line.
    pub(crate) fn lock(&mut self, holder: Holder, extent: Extent, mode: LockMode) -> Option<Held> {
        let lock = Lock { holder, extent, mode };
        let waits = !self.waiting.is_empty() || self.buckets.may_exclude(&lock);
        if waits && self.held.iter().flatten().chain(&self.waiting).any(|other| other.excludes(&lock)) {
            self.waiting.push_back(lock);
            return None;
        }
        Some(self.hold(lock))
    }

    fn hold(&mut self, lock: Lock) -> Held {
        self.buckets.count(&lock, true);
        let place = self.free.pop().unwrap_or(self.held.len());
        match self.held.get_mut(place) {
            Some(free) => *free = Some(lock),
            None => self.held.push(Some(lock)),
        }
        Held(place)
    }

    fn drop_held(&mut self, place: usize) {
        if let Some(lock) = self.held.get_mut(place).and_then(Option::take) {
            self.buckets.count(&lock, false);
            self.free.push(place);
        }
    }

    /// Unlocks what the holder has locked, or takes it out of the line. Adds those who have their locks by that. `held` is where its lock is, if the holder knows.
    pub(crate) fn unlock(&mut self, holder: Holder, held: Option<Held>, granted: &mut Vec<Holder>) {
        match held {
            Some(Held(place)) if self.is_held_by(place, holder) => {
                self.drop_held(place);
                self.grant(granted);
            }
            _ => self.release(|lock| lock.holder == holder, granted),
        }
    }

    fn is_held_by(&self, place: usize, holder: Holder) -> bool {
        self.held.get(place).and_then(Option::as_ref).is_some_and(|lock| lock.holder == holder)
    }

    /// Unlocks everything of a queue that is gone.
    pub(crate) fn forget_queue(&mut self, queue: u64, granted: &mut Vec<Holder>) {
        self.release(|lock| lock.holder.queue == queue, granted);
    }

    fn release(&mut self, is_over: impl Fn(&Lock) -> bool, granted: &mut Vec<Holder>) {
        for place in 0..self.held.len() {
            if self.held.get(place).and_then(Option::as_ref).is_some_and(&is_over) {
                self.drop_held(place);
            }
        }
        self.waiting.retain(|lock| !is_over(lock));
        self.grant(granted);
    }

    /// Lets those go on who wait for nobody any more.
    fn grant(&mut self, granted: &mut Vec<Holder>) {
        if self.waiting.is_empty() {
            return;
        }
        let mut still = VecDeque::with_capacity(self.waiting.len());
        for lock in std::mem::take(&mut self.waiting) {
            if self.held.iter().flatten().chain(&still).any(|other| other.excludes(&lock)) {
                still.push_back(lock);
            } else {
                granted.push(lock.holder);
                self.hold(lock);
            }
        }
        self.waiting = still;
    }
}

#[cfg(test)]
mod tests {
    use protocol::{Entropy, SeededEntropy};

    use super::*;

    const fn holder(queue: u64, number: u64) -> Holder {
        Holder { queue, number }
    }

    const ONE: Holder = holder(1, 1);
    const TWO: Holder = holder(2, 1);
    const THREE: Holder = holder(2, 2);

    fn unlock(locks: &mut RangeLocks, holder: Holder) -> Vec<Holder> {
        let mut granted = Vec::new();
        locks.unlock(holder, None, &mut granted);
        granted
    }

    /// True if the lock is granted at once.
    fn lock(locks: &mut RangeLocks, holder: Holder, extent: Extent, mode: LockMode) -> bool {
        locks.lock(holder, extent, mode).is_some()
    }

    #[test]
    fn readers_share_and_a_writer_is_alone() {
        let mut locks = RangeLocks::default();
        assert!(lock(&mut locks, ONE, Extent::new(0, 8), LockMode::Shared));
        assert!(lock(&mut locks, TWO, Extent::new(4, 8), LockMode::Shared));
        assert!(!lock(&mut locks, THREE, Extent::new(7, 1), LockMode::Exclusive));
        assert_eq!(unlock(&mut locks, ONE), []);
        assert_eq!(unlock(&mut locks, TWO), [THREE]);
    }

    #[test]
    fn nobody_passes_those_who_wait() {
        let mut locks = RangeLocks::default();
        assert!(lock(&mut locks, ONE, Extent::new(0, 8), LockMode::Shared));
        assert!(!lock(&mut locks, TWO, Extent::new(0, 8), LockMode::Exclusive));
        assert!(!lock(&mut locks, THREE, Extent::new(0, 8), LockMode::Shared), "it came later");
        assert!(
            lock(&mut locks, holder(9, 9), Extent::new(8, 1), LockMode::Exclusive),
            "it does not overlap"
        );
        assert_eq!(unlock(&mut locks, ONE), [TWO]);
        assert_eq!(unlock(&mut locks, TWO), [THREE]);
    }

    #[test]
    fn whoever_gives_up_or_is_gone_lets_others_pass() {
        let mut locks = RangeLocks::default();
        assert!(lock(&mut locks, ONE, Extent::new(0, 8), LockMode::Shared));
        assert!(!lock(&mut locks, TWO, Extent::new(0, 8), LockMode::Exclusive));
        assert!(!lock(&mut locks, holder(3, 3), Extent::new(0, 8), LockMode::Shared));
        assert_eq!(unlock(&mut locks, TWO), [holder(3, 3)]);
        assert!(!lock(&mut locks, TWO, Extent::new(3, 1), LockMode::Exclusive));
        let mut granted = Vec::new();
        locks.forget_queue(1, &mut granted);
        assert_eq!(granted, []);
        locks.forget_queue(3, &mut granted);
        assert_eq!(granted, [TWO]);
    }

    #[test]
    fn what_buckets_count_agrees_with_the_locks_themselves() {
        let (mut entropy, mut locks) = (SeededEntropy::new(7), RangeLocks::default());
        let mut held: Vec<(Lock, Held)> = Vec::new();
        for number in 0..3000 {
            let mut draw = |most: u64| entropy.number() % most;
            // Wide ones, such that meet in a bucket, and such that overlap.
            let start = draw(4) * GRANULE * BUCKETS + draw(3) * GRANULE + draw(8);
            let extent = Extent::new(start, 1 + draw(2) * draw(GRANULE * WIDE));
            let mode = if draw(2) == 0 { LockMode::Shared } else { LockMode::Exclusive };
            let lock = Lock { holder: holder(1, number), extent, mode };
            let free = !held.iter().any(|(other, _)| other.excludes(&lock));
            let got = locks.lock(lock.holder, extent, mode);
            assert_eq!(got.is_some(), free, "{lock:?}");
            match got {
                Some(place) => held.push((lock, place)),
                None => assert_eq!(unlock(&mut locks, lock.holder), []),
            }
            if held.len() > 12 {
                let (gone, place) = held.swap_remove(wire::index(draw(12)));
                locks.unlock(gone.holder, Some(place), &mut Vec::new());
            }
        }
        for (lock, place) in held {
            locks.unlock(lock.holder, Some(place), &mut Vec::new());
        }
        let nobody = Holders::default();
        assert!(
            locks.buckets.wide == nobody && locks.buckets.narrow.iter().all(|holders| *holders == nobody)
        );
    }
}
