//! Range locks: they keep requests apart that overlap, across cores, as the system does not.
//!
//! A read of the page cache that meets a write of the same block may see half of it (seen with ext4), which the
//! contract forbids; and a compare-and-write must be alone on its blocks from its read to its write. So every request
//! locks the blocks of 4 KiB that it touches: shared to read, exclusive to change. The table is small, blocks that are
//! far apart share a slot, and neighbours are neighbours: a 4 KiB request costs two operations on one slot.
//!
//! Locking never blocks a thread. A request that does not get its lock stays in its queue, which is woken whenever another unlocks.
//! A queue that has failed too often reserves the table: the others lock nothing more until it has its lock.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::Operation;
use crate::limits::{LOCK_ATTEMPTS, LOCK_SLOTS, LOCK_UNIT};

/// A slot that is locked exclusively; other values count shared locks.
const EXCLUSIVE: u32 = u32::MAX;

/// How a request locks its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// Not at all.
    None,
    /// With others that read.
    Shared,
    /// Alone.
    Exclusive,
}

impl LockMode {
    /// How a request locks its extent: reads may overlap reads, and nothing may overlap a change.
    pub fn of(operation: &Operation) -> Self {
        match operation {
            Operation::Read { .. } | Operation::Compare { .. } => Self::Shared,
            operation if operation.writes() => Self::Exclusive,
            _ => Self::None,
        }
    }
}

/// A run of the blocks of 4 KiB that locks cover.
#[derive(Debug, Clone, Copy)]
pub struct BlockRange {
    /// Its first block.
    pub first: u64,
    /// How many blocks it has.
    pub count: u64,
}

impl BlockRange {
    /// The blocks that `length` bytes from `offset` on lie in.
    pub fn of_bytes(offset: u64, length: u64) -> Self {
        let first = offset / LOCK_UNIT;
        Self { first, count: offset.saturating_add(length).div_ceil(LOCK_UNIT).saturating_sub(first) }
    }
}

/// The locks of one volume.
#[derive(Debug)]
pub struct RangeLocks {
    slots: Box<[AtomicU32]>,
    /// Queues whose first request waits for its lock.
    waiting: AtomicU32,
    /// The queue that alone may lock; zero for all.
    reserved_for: AtomicU64,
    queues: Mutex<Queues>,
}

#[derive(Debug)]
struct QueueWaker {
    queue: u64,
    waker: Waker,
}

#[derive(Debug, Default)]
struct Queues {
    wakers: Vec<QueueWaker>,
    last: u64,
}

/// One queue's handle to the locks. What it still has locked when it is dropped stays locked: end the queue's requests first.
#[derive(Debug)]
pub struct RangeLock {
    locks: Arc<RangeLocks>,
    number: u64,
    waiting: bool,
    failures: u32,
}

impl RangeLocks {
    /// Nothing is locked.
    pub fn new() -> Arc<Self> {
        let slots = (0..LOCK_SLOTS).map(|_| AtomicU32::new(0)).collect();
        let (waiting, reserved_for, queues) = (AtomicU32::new(0), AtomicU64::new(0), Mutex::default());
        Arc::new(Self { slots, waiting, reserved_for, queues })
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slots of a run, each once.
    fn slots(&self, range: BlockRange) -> impl Iterator<Item = &AtomicU32> {
        let all = self.slots.len();
        let start = wire::index(range.first % all as u64);
        let count = wire::index(range.count).min(all);
        let (before, from) = self.slots.split_at(start);
        from.iter().chain(before).take(count)
    }

    /// Locks all slots of a run or none. It checks before it locks: two that wait for a third would otherwise wake each
    /// other by locking and unlocking.
    fn lock_slots(&self, range: BlockRange, mode: LockMode) -> bool {
        if !self.slots(range).all(|slot| after(slot.load(Ordering::SeqCst), mode).is_some()) {
            return false;
        }
        for (taken, slot) in (0..).zip(self.slots(range)) {
            if !lock_slot(slot, mode) {
                if taken > 0 {
                    self.unlock_slots(BlockRange { count: taken, ..range }, mode);
                    self.wake_others(0);
                }
                return false;
            }
        }
        true
    }

    fn unlock_slots(&self, range: BlockRange, mode: LockMode) {
        for slot in self.slots(range) {
            match mode {
                LockMode::None => {}
                LockMode::Shared => drop(slot.fetch_sub(1, Ordering::SeqCst)),
                LockMode::Exclusive => slot.store(0, Ordering::SeqCst),
            }
        }
    }

    /// Lets all queues but one try again, if one waits.
    fn wake_others(&self, but: u64) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            let queues = self.queues();
            let others = queues.wakers.iter().filter(|other| other.queue != but);
            others.for_each(|other| other.waker.wake_by_ref());
        }
    }
}

/// What a slot becomes when it is taken, if it can be.
fn after(now: u32, mode: LockMode) -> Option<u32> {
    match mode {
        LockMode::None => Some(now),
        LockMode::Shared => now.checked_add(1).filter(|next| *next != EXCLUSIVE),
        LockMode::Exclusive => (now == 0).then_some(EXCLUSIVE),
    }
}

fn lock_slot(slot: &AtomicU32, mode: LockMode) -> bool {
    slot.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| after(now, mode)).is_ok()
}

impl RangeLock {
    /// A queue's handle; `waker` is woken when trying again may succeed.
    pub fn new(locks: &Arc<RangeLocks>, waker: Waker) -> Self {
        let mut queues = locks.queues();
        queues.last += 1;
        let number = queues.last;
        queues.wakers.push(QueueWaker { queue: number, waker });
        drop(queues);
        Self { locks: Arc::clone(locks), number, waiting: false, failures: 0 }
    }

    /// Locks the range if that is possible now. After a failure the queue counts as waiting until it succeeds or stops waiting.
    pub fn try_lock(&mut self, range: BlockRange, mode: LockMode) -> bool {
        if mode == LockMode::None || self.attempt(range, mode) {
            self.stop_waiting();
            return true;
        }
        if !self.waiting {
            self.waiting = true;
            self.locks.waiting.fetch_add(1, Ordering::SeqCst);
            // Another queue may have unlocked before this one counted as waiting.
            if self.attempt(range, mode) {
                self.stop_waiting();
                return true;
            }
        }
        self.failures += 1;
        if self.failures >= LOCK_ATTEMPTS {
            let reserved_for = &self.locks.reserved_for;
            // If another queue was first, this one is next.
            let _ = reserved_for.compare_exchange(0, self.number, Ordering::SeqCst, Ordering::Relaxed);
        }
        false
    }

    fn attempt(&self, range: BlockRange, mode: LockMode) -> bool {
        let reserved_for = self.locks.reserved_for.load(Ordering::SeqCst);
        (reserved_for == 0 || reserved_for == self.number) && self.locks.lock_slots(range, mode)
    }

    /// Stops waiting.
    pub fn stop_waiting(&mut self) {
        self.failures = 0;
        if std::mem::take(&mut self.waiting) {
            self.locks.waiting.fetch_sub(1, Ordering::SeqCst);
            let reserved_for = &self.locks.reserved_for;
            if reserved_for.compare_exchange(self.number, 0, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                self.locks.wake_others(self.number);
            }
        }
    }

    /// Unlocks the range, and lets others try.
    pub fn unlock(&self, range: BlockRange, mode: LockMode) {
        if mode != LockMode::None {
            self.locks.unlock_slots(range, mode);
            self.locks.wake_others(self.number);
        }
    }
}

impl Drop for RangeLock {
    fn drop(&mut self) {
        self.locks.queues().wakers.retain(|other| other.queue != self.number);
        self.stop_waiting();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock_of(locks: &Arc<RangeLocks>) -> RangeLock {
        RangeLock::new(locks, Waker::noop().clone())
    }

    fn range(first: u64, count: u64) -> BlockRange {
        BlockRange { first, count }
    }

    #[test]
    fn readers_share_and_a_writer_is_alone() {
        let locks = RangeLocks::new();
        let (mut one, mut two) = (lock_of(&locks), lock_of(&locks));
        assert!(one.try_lock(range(0, 8), LockMode::Shared) && two.try_lock(range(4, 8), LockMode::Shared));
        assert!(!one.try_lock(range(7, 1), LockMode::Exclusive));
        assert!(
            one.try_lock(range(12, 4), LockMode::Exclusive) && !two.try_lock(range(0, 13), LockMode::Shared)
        );
        one.unlock(range(12, 4), LockMode::Exclusive);
        assert!(two.try_lock(range(0, 13), LockMode::Shared));
    }

    #[test]
    fn a_failed_attempt_locks_nothing() {
        let locks = RangeLocks::new();
        let (mut one, mut two) = (lock_of(&locks), lock_of(&locks));
        assert!(one.try_lock(range(5, 1), LockMode::Exclusive));
        assert!(!two.try_lock(range(0, 10), LockMode::Exclusive));
        assert!(one.try_lock(range(0, 5), LockMode::Exclusive));
        one.unlock(range(0, 6), LockMode::Exclusive);
        assert!(
            two.try_lock(range(0, u64::MAX), LockMode::Exclusive),
            "more blocks than slots are all slots, once each"
        );
        two.unlock(range(0, u64::MAX), LockMode::Exclusive);
        assert!(locks.slots.iter().all(|slot| slot.load(Ordering::SeqCst) == 0));
    }

    #[test]
    fn a_queue_that_waits_too_long_reserves_the_table_until_it_succeeds_or_is_gone() {
        let locks = RangeLocks::new();
        let (mut one, mut two) = (lock_of(&locks), lock_of(&locks));
        assert!(one.try_lock(range(0, 1), LockMode::Shared));
        while two.try_lock(range(0, 1), LockMode::Exclusive) || two.failures < LOCK_ATTEMPTS {}
        assert!(!one.try_lock(range(0, 1), LockMode::Shared) && !one.try_lock(range(9, 1), LockMode::Shared));
        one.unlock(range(0, 1), LockMode::Shared);
        assert!(
            two.try_lock(range(0, 1), LockMode::Exclusive) && one.try_lock(range(9, 1), LockMode::Shared)
        );
        while !two.waiting || two.failures < LOCK_ATTEMPTS {
            assert!(!two.try_lock(range(9, 1), LockMode::Exclusive));
        }
        drop(two);
        assert!(one.try_lock(range(10, 1), LockMode::Shared));
    }

    #[test]
    fn a_writer_is_alone() {
        let locks = RangeLocks::new();
        let inside = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for number in 0..4_u32 {
                let (mut lock, inside) = (lock_of(&locks), &inside);
                scope.spawn(move || {
                    for round in 0..20_000_u32 {
                        let exclusive = (round + number).is_multiple_of(7);
                        let mode = if exclusive { LockMode::Exclusive } else { LockMode::Shared };
                        let run = range(u64::from(round % 3), 4);
                        if !lock.try_lock(run, mode) {
                            std::thread::yield_now();
                            continue;
                        }
                        let others = inside.fetch_add(1, Ordering::SeqCst);
                        assert!(!exclusive || others == 0);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        lock.unlock(run, mode);
                    }
                });
            }
        });
    }
}
