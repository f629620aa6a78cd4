//! Deadlines of endpoints: a heap that is cleaned as it is read.
//!
//! An endpoint's deadline mostly moves later (each received PDU pushes a keep-alive's away), which costs nothing here: its
//! entry stays, and when it comes due the endpoint is asked again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use protocol::Instant;

/// Deadlines by slot.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, u32)>>,
}

impl Timers {
    /// Makes sure that `slot` comes due at `wanted`; `scheduled` is the earliest entry it already has.
    pub(crate) fn schedule(&mut self, slot: u32, wanted: Option<Instant>, scheduled: &mut Option<Instant>) {
        let Some(wanted) = wanted else { return };
        if scheduled.is_none_or(|earliest| wanted < earliest) {
            *scheduled = Some(wanted);
            self.heap.push(Reverse((wanted, slot)));
        }
    }

    /// The next entry, due or not.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((when, _))| *when)
    }

    /// Takes an entry that is due.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(Instant, u32)> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_in_order_and_later_deadlines_cost_no_entry() {
        let mut timers = Timers::default();
        let at = Instant::from_nanos;
        let (mut one, mut two) = (None, None);
        timers.schedule(1, Some(at(30)), &mut one);
        timers.schedule(2, Some(at(20)), &mut two);
        timers.schedule(1, Some(at(40)), &mut one);
        timers.schedule(1, Some(at(10)), &mut one);
        timers.schedule(2, None, &mut two);
        assert_eq!(timers.next(), Some(at(10)));
        assert_eq!(timers.pop_due(at(9)), None);
        let due: Vec<_> = std::iter::from_fn(|| timers.pop_due(at(100))).collect();
        assert_eq!(due, [(at(10), 1), (at(20), 2), (at(30), 1)]);
    }
}
