//! Keeps requests apart that overlap, across cores: the system does not.
//!
//! A read of the page cache that meets a write of the same block may see half of it (seen with ext4), which the
//! contract forbids; and a compare-and-write must be alone on its blocks from its read to its write. So every request
//! holds the units of 4 KiB that it touches: shared to read, exclusive to change. The table is small, units that are
//! far apart share a slot, and neighbours are neighbours: a 4 KiB request costs two operations on one slot.
//!
//! Nobody waits in here. A request that does not get in stays in its queue, which is woken whenever somebody leaves.
//! A queue that has failed too often closes the door to all others until it is in.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use super::limits::{LOCK_PATIENCE, LOCK_SLOTS};

/// A slot that somebody changes; other values count those who read.
const EXCLUSIVE: u32 = u32::MAX;

/// How a request holds its units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// Not at all.
    Nothing,
    /// With others who read.
    Shared,
    /// Alone.
    Exclusive,
}

/// A run of units.
#[derive(Debug, Clone, Copy)]
pub(super) struct Units {
    pub(super) first: u64,
    pub(super) count: u64,
}

/// The locks of one volume.
#[derive(Debug)]
pub(super) struct Locks {
    slots: Box<[AtomicU32]>,
    /// Queues whose first request waits.
    waiting: AtomicU32,
    /// The queue that alone may enter; zero for all.
    closed_by: AtomicU64,
    members: Mutex<Members>,
}

#[derive(Debug, Default)]
struct Members {
    list: Vec<(u64, Waker)>,
    last: u64,
}

/// A queue's place at the locks. What it still holds when it is dropped stays held: drop the queue's requests first.
#[derive(Debug)]
pub(super) struct Pass {
    locks: Arc<Locks>,
    name: u64,
    waiting: bool,
    failures: u32,
}

impl Locks {
    pub(super) fn new() -> Arc<Self> {
        let slots = (0..LOCK_SLOTS).map(|_| AtomicU32::new(0)).collect();
        let (waiting, closed_by, members) = (AtomicU32::new(0), AtomicU64::new(0), Mutex::default());
        Arc::new(Self { slots, waiting, closed_by, members })
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slots of a run, each once.
    fn slots(&self, units: Units) -> impl Iterator<Item = &AtomicU32> {
        let all = self.slots.len();
        let start = usize::try_from(units.first % all as u64).unwrap_or_default();
        let count = usize::try_from(units.count).unwrap_or(usize::MAX).min(all);
        let (before, from) = self.slots.split_at(start);
        from.iter().chain(before).take(count)
    }

    /// Takes all slots of a run or none. It looks before it takes: two that wait for a third would otherwise wake each
    /// other by taking and giving back.
    fn take(&self, units: Units, hold: Hold) -> bool {
        if !self.slots(units).all(|slot| after(slot.load(Ordering::SeqCst), hold).is_some()) {
            return false;
        }
        for (taken, slot) in (0..).zip(self.slots(units)) {
            if !take_one(slot, hold) {
                if taken > 0 {
                    self.give_back(Units { count: taken, ..units }, hold);
                    self.wake_others(0);
                }
                return false;
            }
        }
        true
    }

    fn give_back(&self, units: Units, hold: Hold) {
        for slot in self.slots(units) {
            match hold {
                Hold::Nothing => {}
                Hold::Shared => drop(slot.fetch_sub(1, Ordering::SeqCst)),
                Hold::Exclusive => slot.store(0, Ordering::SeqCst),
            }
        }
    }

    /// Lets all queues but one try again, if one waits.
    fn wake_others(&self, but: u64) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.members()
                .list
                .iter()
                .filter(|(name, _)| *name != but)
                .for_each(|(_, waker)| waker.wake_by_ref());
        }
    }
}

/// What a slot becomes when it is taken, if it can be.
fn after(now: u32, hold: Hold) -> Option<u32> {
    match hold {
        Hold::Nothing => Some(now),
        Hold::Shared => now.checked_add(1).filter(|next| *next != EXCLUSIVE),
        Hold::Exclusive => (now == 0).then_some(EXCLUSIVE),
    }
}

fn take_one(slot: &AtomicU32, hold: Hold) -> bool {
    slot.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| after(now, hold)).is_ok()
}

impl Pass {
    /// Joins; `waker` is woken when it may be worth trying again.
    pub(super) fn new(locks: &Arc<Locks>, waker: Waker) -> Self {
        let mut members = locks.members();
        members.last += 1;
        let name = members.last;
        members.list.push((name, waker));
        drop(members);
        Self { locks: Arc::clone(locks), name, waiting: false, failures: 0 }
    }

    /// Holds the units if that is possible now. After a failure the queue counts as waiting until it gets in or gives up.
    pub(super) fn enter(&mut self, units: Units, hold: Hold) -> bool {
        if hold == Hold::Nothing || self.attempt(units, hold) {
            self.give_up();
            return true;
        }
        if !self.waiting {
            self.waiting = true;
            self.locks.waiting.fetch_add(1, Ordering::SeqCst);
            // Somebody may have left before this queue was seen to wait.
            if self.attempt(units, hold) {
                self.give_up();
                return true;
            }
        }
        self.failures += 1;
        if self.failures >= LOCK_PATIENCE {
            let closed_by = &self.locks.closed_by;
            // If another queue was first, this one is next.
            let _ = closed_by.compare_exchange(0, self.name, Ordering::SeqCst, Ordering::Relaxed);
        }
        false
    }

    fn attempt(&self, units: Units, hold: Hold) -> bool {
        let closed_by = self.locks.closed_by.load(Ordering::SeqCst);
        (closed_by == 0 || closed_by == self.name) && self.locks.take(units, hold)
    }

    /// Stops waiting.
    pub(super) fn give_up(&mut self) {
        self.failures = 0;
        if std::mem::take(&mut self.waiting) {
            self.locks.waiting.fetch_sub(1, Ordering::SeqCst);
            let closed_by = &self.locks.closed_by;
            if closed_by.compare_exchange(self.name, 0, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                self.locks.wake_others(self.name);
            }
        }
    }

    /// Lets the units go, and others try.
    pub(super) fn leave(&self, units: Units, hold: Hold) {
        if hold != Hold::Nothing {
            self.locks.give_back(units, hold);
            self.locks.wake_others(self.name);
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.locks.members().list.retain(|(name, _)| *name != self.name);
        self.give_up();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(locks: &Arc<Locks>) -> Pass {
        Pass::new(locks, Waker::noop().clone())
    }

    fn units(first: u64, count: u64) -> Units {
        Units { first, count }
    }

    #[test]
    fn readers_share_and_a_writer_is_alone() {
        let locks = Locks::new();
        let (mut one, mut two) = (pass(&locks), pass(&locks));
        assert!(one.enter(units(0, 8), Hold::Shared) && two.enter(units(4, 8), Hold::Shared));
        assert!(!one.enter(units(7, 1), Hold::Exclusive));
        assert!(one.enter(units(12, 4), Hold::Exclusive) && !two.enter(units(0, 13), Hold::Shared));
        one.leave(units(12, 4), Hold::Exclusive);
        assert!(two.enter(units(0, 13), Hold::Shared));
    }

    #[test]
    fn a_failed_attempt_holds_nothing() {
        let locks = Locks::new();
        let (mut one, mut two) = (pass(&locks), pass(&locks));
        assert!(one.enter(units(5, 1), Hold::Exclusive));
        assert!(!two.enter(units(0, 10), Hold::Exclusive));
        assert!(one.enter(units(0, 5), Hold::Exclusive));
        one.leave(units(0, 6), Hold::Exclusive);
        assert!(
            two.enter(units(0, u64::MAX), Hold::Exclusive),
            "more units than slots are all slots, once each"
        );
        two.leave(units(0, u64::MAX), Hold::Exclusive);
        assert!(locks.slots.iter().all(|slot| slot.load(Ordering::SeqCst) == 0));
    }

    #[test]
    fn who_waits_too_long_closes_the_door_until_it_is_in_or_gone() {
        let locks = Locks::new();
        let (mut one, mut two) = (pass(&locks), pass(&locks));
        assert!(one.enter(units(0, 1), Hold::Shared));
        while two.enter(units(0, 1), Hold::Exclusive) || two.failures < LOCK_PATIENCE {}
        assert!(!one.enter(units(0, 1), Hold::Shared) && !one.enter(units(9, 1), Hold::Shared));
        one.leave(units(0, 1), Hold::Shared);
        assert!(two.enter(units(0, 1), Hold::Exclusive) && one.enter(units(9, 1), Hold::Shared));
        while !two.waiting || two.failures < LOCK_PATIENCE {
            assert!(!two.enter(units(9, 1), Hold::Exclusive));
        }
        drop(two);
        assert!(one.enter(units(10, 1), Hold::Shared));
    }

    #[test]
    fn nobody_is_inside_with_a_writer() {
        let locks = Locks::new();
        let inside = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for number in 0..4_u32 {
                let (mut pass, inside) = (pass(&locks), &inside);
                scope.spawn(move || {
                    for round in 0..20_000_u32 {
                        let exclusive = (round + number).is_multiple_of(7);
                        let hold = if exclusive { Hold::Exclusive } else { Hold::Shared };
                        let run = units(u64::from(round % 3), 4);
                        if !pass.enter(run, hold) {
                            std::thread::yield_now();
                            continue;
                        }
                        let others = inside.fetch_add(1, Ordering::SeqCst);
                        assert!(!exclusive || others == 0);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        pass.leave(run, hold);
                    }
                });
            }
        });
    }
}
