//! What the next command of a queue waits for, where its transport has it: none is taken before. `submission_gate.table` has every transition.

use protocol::Instant;

use crate::limits::STARVED_TIME;

/// What the next command waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Gate {
    /// Nothing: it may come.
    #[default]
    Open,
    /// Memory for its data, since the pool's returns were at this number.
    AwaitsMemory { returns: u64, cid: u16 },
    /// The end of a command, whose slot this one takes.
    AwaitsSlot { cid: u16 },
    /// Room for an answer: one that was not sent yet goes out.
    AwaitsRoom,
}

/// Whether a queue may let a command wait for memory before it is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// It may not: what others wait for may come behind the command.
    None,
    /// For a moment: a Keep Alive may come behind the command.
    Short,
    /// As long as it takes.
    Long,
}

/// The gate before a queue, and how long it has been closed for want of memory.
#[derive(Debug, Default)]
pub(super) struct SubmissionGate {
    gate: Gate,
    starved_since: Option<Instant>,
}

impl SubmissionGate {
    /// What the next command waits for.
    #[inline]
    pub(super) fn state(&self) -> Gate {
        self.gate
    }

    /// True while the next command waits for memory for its data.
    #[inline]
    pub(super) fn awaits_memory(&self) -> bool {
        matches!(self.gate, Gate::AwaitsMemory { .. })
    }

    /// Too much waits to be sent for another command to be read.
    #[inline]
    pub(super) fn on_congestion(&mut self) {
        self.gate = Gate::AwaitsRoom;
    }

    /// There is no memory for a command's data.
    pub(super) fn on_no_memory(&mut self, cid: u16, returns: u64) {
        self.gate = Gate::AwaitsMemory { returns, cid };
    }

    /// There is no slot for a command.
    pub(super) fn on_no_slot(&mut self, cid: u16) {
        self.gate = Gate::AwaitsSlot { cid };
    }

    /// A command has found the memory that it needs.
    #[inline]
    pub(super) fn on_memory(&mut self) {
        self.starved_since = None;
    }

    /// Whether a command that found no memory, or no slot, is withheld; otherwise it is to be taken and to fail.
    pub(super) fn withholds(&mut self, now: Instant, patience: Patience) -> bool {
        let since = *self.starved_since.get_or_insert(now);
        let withholds = match patience {
            Patience::None => false,
            Patience::Short => now < since + STARVED_TIME,
            Patience::Long => true,
        };
        if !withholds {
            self.gate = Gate::Open;
        }
        withholds
    }

    /// When a queue with short patience lets its next command come in any case.
    pub(super) fn due(&self) -> Option<Instant> {
        let starved = matches!(self.gate, Gate::AwaitsMemory { .. } | Gate::AwaitsSlot { .. });
        self.starved_since.filter(|_| starved).map(|since| since + STARVED_TIME)
    }

    /// An Abort names the command with this identifier: true if it is the one that waits. It comes at once, and fails.
    pub(super) fn on_abort(&mut self, aborted: u16) -> bool {
        let waits =
            matches!(self.gate, Gate::AwaitsMemory { cid, .. } | Gate::AwaitsSlot { cid } if cid == aborted);
        if waits {
            self.gate = Gate::Open;
        }
        waits
    }

    /// The next command need not wait any more.
    #[inline]
    pub(super) fn open(&mut self) {
        self.gate = Gate::Open;
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use core::fmt::Write as _;

    use super::*;

    const NOW: Instant = Instant::ZERO;

    #[test]
    fn table_of_all_transitions() {
        type Event = fn(&mut SubmissionGate) -> Option<bool>;
        let events: [(&str, Event); 9] = [
            ("congestion", |gate| {
                gate.on_congestion();
                None
            }),
            ("no memory for 7", |gate| {
                gate.on_no_memory(7, 2);
                None
            }),
            ("no slot for 7", |gate| {
                gate.on_no_slot(7);
                None
            }),
            ("withheld without patience", |gate| Some(gate.withholds(NOW, Patience::None))),
            ("withheld for a moment", |gate| Some(gate.withholds(NOW, Patience::Short))),
            ("withheld beyond that", |gate| Some(gate.withholds(NOW + STARVED_TIME, Patience::Short))),
            ("abort of 5", |gate| Some(gate.on_abort(5))),
            ("abort of 6", |gate| Some(gate.on_abort(6))),
            ("open", |gate| {
                gate.open();
                None
            }),
        ];
        let mut table = String::new();
        let states = [
            Gate::Open,
            Gate::AwaitsMemory { returns: 1, cid: 5 },
            Gate::AwaitsSlot { cid: 5 },
            Gate::AwaitsRoom,
        ];
        for state in states {
            for (name, event) in events {
                let mut gate = SubmissionGate { gate: state, starved_since: Some(NOW) };
                let answer = event(&mut gate).map_or_else(String::new, |answer| alloc::format!(": {answer}"));
                if gate.gate != state || !answer.is_empty() {
                    writeln!(table, "{state:?} --{name}--> {:?}{answer}", gate.gate).unwrap();
                }
            }
        }
        assert_eq!(table, include_str!("submission_gate.table"));
    }

    #[test]
    fn patience_counts_from_the_first_command_that_found_no_memory() {
        let mut gate = SubmissionGate::default();
        let later = NOW + STARVED_TIME;
        gate.on_no_memory(1, 0);
        assert!(gate.withholds(NOW, Patience::Short) && gate.due() == Some(later));
        gate.on_no_memory(1, 1);
        assert!(!gate.withholds(later, Patience::Short), "news that was none does not begin the time anew");
        gate.on_memory();
        gate.on_no_slot(2);
        assert!(gate.withholds(later, Patience::Short) && gate.due() == Some(later + STARVED_TIME));
        gate.on_congestion();
        assert_eq!(gate.due(), None, "the host is to read");
    }
}
