//! Commands that wait for memory for their data, the oldest first.
//!
//! Once memory may have come back, the commands are offered it one after the other: the oldest until one finds none, then, within what the connection may
//! hold whatever others do, each of those behind it. Whatever finds none keeps its place. `memory_waiters.table` has every transition.

use alloc::collections::VecDeque;

use protocol::Instant;

use crate::limits::MEMORY_RETRY;

/// What is done about the commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// They wait, if there are any.
    #[default]
    Waiting,
    /// The oldest is offered memory.
    OfferingOldest,
    /// The oldest has found none: the one at this position is offered what is left of the floor.
    OfferingBehind(usize),
}

/// Whose turn it is to be offered memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Candidate {
    /// The oldest: it may have whatever there is.
    Oldest {
        /// Its slot.
        slot: u16,
    },
    /// One behind a command that has found none: it may have what is left of the floor.
    Behind {
        /// Its slot.
        slot: u16,
    },
}

/// The commands of one queue that wait for memory.
#[derive(Debug, Default)]
pub(super) struct MemoryWaiters {
    state: State,
    slots: VecDeque<u16>,
    /// When memory is looked for although nobody says that there is some.
    retry_at: Option<Instant>,
    /// The pool's count of returns when memory was last looked for.
    returns: u64,
}

impl MemoryWaiters {
    /// No command waits, of a queue whose pool has had so many returns.
    pub(super) fn new(returns: u64) -> Self {
        Self { returns, ..Self::default() }
    }

    /// True when no command waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// When memory is to be looked for, whatever happens.
    #[inline]
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// True when that time has come.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.retry_at.is_some_and(|retry_at| retry_at <= now)
    }

    /// A command finds no memory when it comes: it waits behind all others.
    pub(super) fn on_starved(&mut self, now: Instant, slot: u16) {
        self.slots.push_back(slot);
        self.retry_at = Some(now + MEMORY_RETRY);
    }

    /// The pool has had so many returns: true if that is news to commands that wait.
    pub(super) fn on_returns(&mut self, returns: u64) -> bool {
        !self.slots.is_empty() && core::mem::replace(&mut self.returns, returns) != returns
    }

    /// Memory may have come back: it is offered until [`MemoryWaiters::candidate`] has no more.
    pub(super) fn on_memory(&mut self) {
        self.state = State::OfferingOldest;
    }

    /// The command that is offered memory now. With none left the others go on waiting.
    pub(super) fn candidate(&mut self) -> Option<Candidate> {
        let (position, behind) = match self.state {
            State::Waiting => return None,
            State::OfferingOldest => (0, false),
            State::OfferingBehind(position) => (position, true),
        };
        let Some(&slot) = self.slots.get(position) else {
            self.on_offered();
            return None;
        };
        Some(if behind { Candidate::Behind { slot } } else { Candidate::Oldest { slot } })
    }

    /// The candidate has memory, or has ended: it waits no longer.
    pub(super) fn on_candidate_gone(&mut self) {
        let position = match self.state {
            State::Waiting => return,
            State::OfferingOldest => 0,
            State::OfferingBehind(position) => position,
        };
        self.slots.remove(position);
    }

    /// There is no memory for the candidate: it keeps its place, and the next one is offered what the floor has.
    pub(super) fn on_candidate_starved(&mut self, now: Instant) {
        self.state = match self.state {
            State::Waiting => State::Waiting,
            State::OfferingOldest => {
                self.retry_at = Some(now + MEMORY_RETRY);
                State::OfferingBehind(1)
            }
            State::OfferingBehind(position) => State::OfferingBehind(position.saturating_add(1)),
        };
    }

    /// Nothing is offered any more for now.
    pub(super) fn on_offered(&mut self) {
        self.state = State::Waiting;
        if self.slots.is_empty() {
            self.retry_at = None;
        }
    }

    /// A command ends: false if it did not wait for memory.
    pub(super) fn on_end(&mut self, slot: u16) -> bool {
        let position = self.slots.iter().position(|waiting| *waiting == slot);
        let waited = position.and_then(|at| self.slots.remove(at)).is_some();
        if let (State::OfferingBehind(candidate), Some(at)) = (self.state, position)
            && at < candidate
        {
            self.state = State::OfferingBehind(candidate.saturating_sub(1));
        }
        if self.slots.is_empty() {
            self.retry_at = None;
        }
        waited
    }

    /// The queue ends: none of its commands begins any more.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.retry_at = None;
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use core::fmt::Write as _;

    use super::*;

    const NOW: Instant = Instant::ZERO;

    /// Commands in these slots, and what is done about them.
    fn waiters(state: State, slots: &[u16]) -> MemoryWaiters {
        let retry_at = (!slots.is_empty()).then_some(NOW);
        MemoryWaiters { state, slots: slots.iter().copied().collect(), retry_at, returns: 1 }
    }

    fn describe(waiters: &MemoryWaiters) -> String {
        let retry = match waiters.retry_at {
            None => "never",
            Some(NOW) => "now",
            Some(_) => "later",
        };
        alloc::format!("{:?} {:?}, retry {retry}", waiters.state, waiters.slots)
    }

    #[test]
    fn table_of_all_transitions() {
        type Event = fn(&mut MemoryWaiters) -> Option<String>;
        let events: [(&str, Event); 8] = [
            ("starved", |waiters| {
                waiters.on_starved(NOW, 9);
                None
            }),
            ("returns", |waiters| waiters.on_returns(2).then(|| "news".into())),
            ("memory", |waiters| {
                waiters.on_memory();
                None
            }),
            ("candidate?", |waiters| waiters.candidate().map(|candidate| alloc::format!("{candidate:?}"))),
            ("candidate gone", |waiters| {
                waiters.on_candidate_gone();
                None
            }),
            ("candidate starved", |waiters| {
                waiters.on_candidate_starved(NOW);
                None
            }),
            ("end of 1", |waiters| waiters.on_end(1).then(|| "waited".into())),
            ("clear", |waiters| {
                waiters.clear();
                None
            }),
        ];
        let mut table = String::new();
        for (state, slots) in [
            (State::Waiting, &[][..]),
            (State::Waiting, &[1, 2]),
            (State::OfferingOldest, &[]),
            (State::OfferingOldest, &[1, 2, 3]),
            (State::OfferingBehind(1), &[1]),
            (State::OfferingBehind(1), &[1, 2, 3]),
        ] {
            for (name, event) in events {
                let mut changed = waiters(state, slots);
                let before = describe(&changed);
                let answer =
                    event(&mut changed).map_or_else(String::new, |answer| alloc::format!(": {answer}"));
                if describe(&changed) != before || !answer.is_empty() {
                    writeln!(table, "{before} --{name}--> {}{answer}", describe(&changed)).unwrap();
                }
            }
        }
        assert_eq!(table, include_str!("memory_waiters.table"));
    }

    #[test]
    fn what_finds_none_keeps_its_place_and_those_behind_are_offered_the_floor() {
        let mut waiters = MemoryWaiters::new(0);
        (1..=4).for_each(|slot| waiters.on_starved(NOW, slot));
        waiters.on_memory();
        let mut offered = alloc::vec::Vec::new();
        // Only 1 and 3 find memory.
        while let Some(candidate) = waiters.candidate() {
            offered.push(candidate);
            match candidate {
                Candidate::Oldest { slot: 1 } | Candidate::Behind { slot: 3 } => waiters.on_candidate_gone(),
                _ => waiters.on_candidate_starved(NOW),
            }
        }
        let [oldest, behind] = [|slot| Candidate::Oldest { slot }, |slot| Candidate::Behind { slot }];
        assert_eq!(offered, [oldest(1), oldest(2), behind(3), behind(4)]);
        assert_eq!(waiters.slots, [2, 4]);
        assert!(waiters.is_due(NOW + MEMORY_RETRY) && !waiters.is_due(NOW));
    }
}
