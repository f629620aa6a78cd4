//! Range locks: they keep requests apart that overlap, across all queues of a cache.
//!
//! Whoever wants a run of blocks enters, and has them once nobody who entered before has any of them in a way that excludes it: first come, first served, so that
//! nobody starves, and nobody waits for two at a time. Nothing waits in here: a queue is told which of its tickets were granted.

use core::ops::Range;

/// Names what was entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// How blocks are locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockMode {
    /// To read, with others that read.
    Shared,
    /// To write, and nobody reads.
    Exclusive,
    /// To write back: whoever reads or writes the fast volume meanwhile is let in.
    WriteBack,
    /// To write below what may be written back: alone.
    Alone,
}

impl LockMode {
    fn excludes(self, other: Self) -> bool {
        match (self, other) {
            (Self::Alone, _) | (_, Self::Alone) => true,
            (Self::WriteBack, _) | (_, Self::WriteBack) | (Self::Shared, Self::Shared) => false,
            (Self::Exclusive, _) | (_, Self::Exclusive) => true,
        }
    }
}

/// A ticket that is granted now, and the queue that waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) queue: u64,
    pub(crate) ticket: Ticket,
}

#[derive(Debug)]
struct Entered {
    ticket: Ticket,
    queue: u64,
    blocks: Range<u64>,
    mode: LockMode,
    granted: bool,
}

impl Entered {
    fn excludes(&self, blocks: &Range<u64>, mode: LockMode) -> bool {
        let overlaps = self.blocks.start < blocks.end && blocks.start < self.blocks.end;
        overlaps && self.mode.excludes(mode)
    }
}

/// The locks of a cache.
#[derive(Debug, Default)]
pub(crate) struct RangeLocks {
    /// In the order in which they came.
    entered: Vec<Entered>,
    /// Those of them that write: without any, all that read are granted at once.
    writers: usize,
    last: u64,
}

impl RangeLocks {
    /// Enters; true if the blocks are locked at once. Otherwise `queue` is told later.
    pub(crate) fn enter(&mut self, queue: u64, blocks: Range<u64>, mode: LockMode) -> (Ticket, bool) {
        self.last += 1;
        let ticket = Ticket(self.last);
        let free = mode == LockMode::Shared && self.writers == 0;
        let granted = free || !self.entered.iter().any(|before| before.excludes(&blocks, mode));
        self.writers += usize::from(mode != LockMode::Shared);
        self.entered.push(Entered { ticket, queue, blocks, mode, granted });
        (ticket, granted)
    }

    /// Leaves, locked or not, and adds what is granted by that.
    pub(crate) fn leave(&mut self, ticket: Ticket, grants: &mut Vec<Grant>) {
        let Ok(index) = self.entered.binary_search_by_key(&ticket, |entered| entered.ticket) else { return };
        let left = self.entered.remove(index);
        self.writers -= usize::from(left.mode != LockMode::Shared);
        for place in index..self.entered.len() {
            let (before, rest) = self.entered.split_at_mut(place);
            let Some(next) = rest.first_mut().filter(|next| !next.granted) else { continue };
            if left.excludes(&next.blocks, next.mode)
                && !before.iter().any(|earlier| earlier.excludes(&next.blocks, next.mode))
            {
                next.granted = true;
                grants.push(Grant { queue: next.queue, ticket: next.ticket });
            }
        }
    }

    /// Tickets that are there.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entered.len()
    }
}

#[cfg(test)]
mod tests {
    use protocol::{Entropy, SeededEntropy};

    use super::LockMode::{Alone, Exclusive, Shared, WriteBack};
    use super::*;

    #[test]
    fn readers_share_and_a_writer_waits_for_those_before_it_and_holds_up_those_behind() {
        let mut locks = RangeLocks::default();
        let mut grants = Vec::new();
        let (one, granted) = locks.enter(1, 0..8, Shared);
        assert!(granted && locks.enter(1, 4..9, Shared).1);
        let (writer, granted) = locks.enter(2, 7..8, Exclusive);
        assert!(!granted);
        assert!(!locks.enter(1, 8..20, Exclusive).1, "the second reader has block 8");
        let (late, granted) = locks.enter(3, 0..8, Shared);
        assert!(!granted, "a writer that waits is not passed by");
        locks.leave(one, &mut grants);
        assert_eq!(grants, []);
        locks.leave(Ticket(2), &mut grants);
        assert_eq!(grants.iter().map(|grant| grant.queue).collect::<Vec<_>>(), [2, 1]);
        grants.clear();
        locks.leave(writer, &mut grants);
        assert_eq!(grants, [Grant { queue: 3, ticket: late }]);
    }

    #[test]
    fn who_gives_up_lets_those_behind_it_go() {
        let mut locks = RangeLocks::default();
        let mut grants = Vec::new();
        locks.enter(1, 0..4, Shared);
        let (writer, _) = locks.enter(2, 0..4, Exclusive);
        let (late, _) = locks.enter(3, 0..4, Shared);
        locks.leave(writer, &mut grants);
        assert_eq!(grants, [Grant { queue: 3, ticket: late }]);
        locks.leave(writer, &mut grants);
        assert_eq!((grants.len(), locks.len()), (1, 2), "who has left is not there");
    }

    #[test]
    fn write_back_keeps_out_only_who_writes_below_it() {
        let mut locks = RangeLocks::default();
        let granted = |locks: &mut RangeLocks, mode| locks.enter(1, 0..4, mode).1;
        assert!(granted(&mut locks, WriteBack) && granted(&mut locks, Shared));
        assert!(!granted(&mut locks, Exclusive) && granted(&mut locks, WriteBack));
        assert!(!granted(&mut locks, Alone));
        assert!(!granted(&mut locks, WriteBack), "somebody waits to be alone");
    }

    #[test]
    fn nobody_is_together_with_a_writer_and_everybody_gets_a_turn() {
        for seed in 0..50 {
            let mut entropy = SeededEntropy::new(seed);
            let (mut locks, mut held, mut waiting, mut grants) =
                (RangeLocks::default(), Vec::new(), Vec::new(), Vec::new());
            for step in 0..400 {
                if step < 300 && entropy.number().is_multiple_of(2) {
                    let start = entropy.number() % 20;
                    let blocks = start..start + 1 + entropy.number() % 6;
                    let mode = if entropy.number().is_multiple_of(3) { Exclusive } else { Shared };
                    let (ticket, granted) = locks.enter(0, blocks.clone(), mode);
                    let list = if granted { &mut held } else { &mut waiting };
                    list.push((ticket, blocks, mode));
                } else if !held.is_empty() {
                    let at = usize::try_from(entropy.number()).unwrap() % held.len();
                    let (ticket, ..) = held.swap_remove(at);
                    locks.leave(ticket, &mut grants);
                }
                for grant in grants.drain(..) {
                    let at = waiting.iter().position(|(ticket, ..)| *ticket == grant.ticket).unwrap();
                    held.push(waiting.remove(at));
                }
                for (index, (_, one, mode)) in held.iter().enumerate() {
                    for (_, two, other) in &held[index + 1..] {
                        let overlap = one.start < two.end && two.start < one.end;
                        assert!(!overlap || (*mode, *other) == (Shared, Shared), "seed {seed}");
                    }
                }
                assert!(waiting.is_empty() || !held.is_empty(), "seed {seed}: nobody could go on");
            }
        }
    }
}
