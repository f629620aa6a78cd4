//! Change attributes: the time of the last change in nanoseconds, made to grow.
//!
//! Linux tells user space no counter of changes. From 6.13 on the time of change is finer than the clock's tick once somebody has looked at it; before that, two changes within a
//! tick have one time, and a clock that is set back brings times back. For what this server changes itself, and can compare, the attribute is then one more than before.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use host::NodeTime;

use super::limits::CHANGES;

#[derive(Debug, Clone, Copy)]
struct Ahead {
    time: u64,
    change: u64,
}

/// Objects whose change attribute is not their time of change, by their number.
#[derive(Debug, Default)]
pub(super) struct Changes(Mutex<BTreeMap<u64, Ahead>>);

fn number(time: NodeTime) -> u64 {
    let seconds = u64::try_from(time.seconds).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(time.nanos.into())
}

impl Changes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Ahead>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The change attribute of an object that was last changed then.
    pub(super) fn of(&self, inode: u64, changed: NodeTime) -> u64 {
        let (time, mut ahead) = (number(changed), self.lock());
        let Some(known) = ahead.get_mut(&inode) else { return time };
        if known.time == time {
            return known.change;
        }
        if time > known.change {
            ahead.remove(&inode);
            return time;
        }
        *known = Ahead { time, change: known.change + 1 };
        known.change
    }

    /// The change attribute of an object that has changed since it had `before`, for the last time then.
    pub(super) fn after(&self, inode: u64, before: u64, changed: NodeTime) -> u64 {
        let now = self.of(inode, changed);
        if now > before {
            return now;
        }
        let mut ahead = self.lock();
        if ahead.len() >= CHANGES {
            // What is forgotten goes back to its time: it differs, which is what clients look at.
            ahead.pop_first();
        }
        let change = before + 1;
        ahead.insert(inode, Ahead { time: number(changed), change });
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_within_a_tick_and_of_a_clock_that_goes_back_are_told() {
        let changes = Changes::default();
        let at = |nanos| NodeTime { seconds: 1, nanos };
        let first = changes.of(7, at(100));
        let second = changes.after(7, first, at(100));
        assert_eq!((second, changes.of(7, at(100))), (first + 1, second));
        let third = changes.after(7, second, at(100));
        let back = changes.of(7, at(50));
        assert!(third > second && back > third);
        assert_eq!(changes.of(7, at(50)), back);
        let later = changes.of(7, at(5000));
        assert!(later > back);
        assert_eq!(changes.of(8, at(100)), first, "others are not concerned");
    }
}
