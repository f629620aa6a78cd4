//! Which ranges are being written: a write of a part of a block reads the block, changes it and writes it back, and no other write may
//! touch that block meanwhile, or one of both updates is lost.
//!
//! Writes of whole blocks do not keep each other out: what overlapping ones leave behind is any of them, as on a disk.

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How a range is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// With others of this kind.
    Shared,
    /// Alone.
    Exclusive,
}

/// A range that is held, or is to be.
#[derive(Debug, Clone)]
struct Holding {
    range: Range<u64>,
    hold: Hold,
}

#[derive(Debug, Default)]
struct State {
    held: Vec<(u64, Holding)>,
    next: u64,
}

/// The ranges, in bytes, that are being written.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    state: Mutex<State>,
    freed: Condvar,
}

fn clash(one: &Holding, other: &Holding) -> bool {
    let overlap = one.range.start < other.range.end && other.range.start < one.range.end;
    overlap && (one.hold == Hold::Exclusive || other.hold == Hold::Exclusive)
}

impl Ranges {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds `range` until the guard is dropped, by whatever thread; waits while another hold forbids it.
    pub(crate) fn hold(self: &Arc<Self>, range: Range<u64>, hold: Hold) -> Held {
        let wanted = Holding { range, hold };
        let mut state = self.lock();
        while state.held.iter().any(|(_, other)| clash(&wanted, other)) {
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let number = state.next;
        state.next += 1;
        state.held.push((number, wanted));
        Held { ranges: Arc::clone(self), number }
    }
}

/// A held range.
#[derive(Debug)]
pub(crate) struct Held {
    ranges: Arc<Ranges>,
    number: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.ranges.lock().held.retain(|(number, _)| *number != self.number);
        self.ranges.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_overlaps_with_an_exclusive_hold_clash() {
        for (one, other, clashes) in [
            ((0..512, Hold::Shared), (0..512, Hold::Shared), false),
            ((0..512, Hold::Exclusive), (512..1024, Hold::Exclusive), false),
            ((0..513, Hold::Exclusive), (512..1024, Hold::Shared), true),
            ((0..4096, Hold::Shared), (512..1024, Hold::Exclusive), true),
        ] {
            let [one, other] = [one, other].map(|(range, hold)| Holding { range, hold });
            assert_eq!(clash(&one, &other), clashes, "{one:?} {other:?}");
        }
    }

    #[test]
    fn additions_to_one_number_are_never_lost() {
        let ranges = Arc::new(Ranges::default());
        let number = Mutex::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let held = ranges.hold(8..16, Hold::Exclusive);
                        let before = *number.lock().unwrap();
                        std::thread::yield_now();
                        *number.lock().unwrap() = before + 1;
                        drop(held);
                    }
                });
            }
        });
        assert_eq!(*number.lock().unwrap(), 2000);
        assert!(ranges.lock().held.is_empty());
    }
}
