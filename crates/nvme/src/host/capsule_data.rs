//! Whether data for the controller goes in a command's capsule. `capsule_data.table` has every transition.

use protocol::Instant;

use crate::limits::ASKED_TIME;

/// The in-capsule data of one queue.
#[derive(Debug)]
pub(super) struct CapsuleData {
    /// Bytes that the controller takes with a command (IOCCSZ).
    offered: usize,
    state: State,
}

/// Whether the offer is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is.
    Used,
    /// Commands send their data when they are asked for it, so that they wait at the controller, in their order.
    Paused { until: Instant },
}

impl CapsuleData {
    /// A controller takes so many bytes with a command.
    pub(super) const fn new(offered: usize) -> Self {
        Self { offered, state: State::Used }
    }

    /// True when data of this length goes in its command's capsule.
    #[inline]
    pub(super) fn takes(&self, length: usize) -> bool {
        self.state == State::Used && length <= self.offered
    }

    /// The controller had no memory for a command's data, and cannot let that wait where other data comes behind it.
    pub(super) fn on_interrupted(&mut self, now: Instant) {
        self.state = State::Paused { until: now + ASKED_TIME };
    }

    /// A command goes out without its data.
    #[inline]
    pub(super) fn on_data_apart(&mut self, now: Instant) {
        if matches!(self.state, State::Paused { until } if until <= now) {
            self.state = State::Used;
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use core::fmt::Write as _;

    use super::*;

    #[test]
    fn table_of_all_transitions() {
        type Event = fn(&mut CapsuleData);
        let now = Instant::ZERO + ASKED_TIME;
        let states = [
            ("Used", State::Used),
            ("Paused", State::Paused { until: now + ASKED_TIME }),
            ("Paused for long enough", State::Paused { until: now }),
        ];
        let events: [(&str, Event); 2] = [
            ("interrupted", |data| data.on_interrupted(Instant::ZERO + ASKED_TIME)),
            ("data apart", |data| data.on_data_apart(Instant::ZERO + ASKED_TIME)),
        ];
        let mut table = String::new();
        for (from, state) in states {
            for (name, event) in events {
                let mut data = CapsuleData { offered: 4096, state };
                event(&mut data);
                let (to, _) = states.iter().find(|(_, state)| *state == data.state).unwrap();
                writeln!(table, "{from} --{name}--> {to}").unwrap();
            }
        }
        assert_eq!(table, include_str!("capsule_data.table"));
    }

    #[test]
    fn what_is_longer_than_the_offer_goes_apart() {
        let mut data = CapsuleData::new(4096);
        assert_eq!([4096, 4097].map(|length| data.takes(length)), [true, false]);
        data.on_interrupted(Instant::ZERO);
        assert!(!data.takes(1));
    }
}
