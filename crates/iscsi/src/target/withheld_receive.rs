//! Receiving that waits for memory: the data of what comes next has no buffer, and stays where it is.
//!
//! It waits only for a moment, as pings and their answers may come behind it: a command whose data has waited for too long is answered BUSY.

use protocol::Instant;

use crate::limits::MEMORY_WAIT_TIME;

/// What is withheld.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing.
    Open,
    /// A request that has not been begun, until the pool's count of returns moves.
    Request { returns: u64 },
    /// The data of a command that has been begun, and has this slot.
    Command { slot: u16, returns: u64 },
    /// Receiving goes on with the PDU of that command, whether there is memory or not.
    Resumed { slot: u16 },
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// There is no memory for a request.
    RequestRefused { returns: u64 },
    /// There is no memory for the data of the command in this slot.
    CommandRefused { slot: u16, returns: u64 },
    /// A PDU has come: the one that was withheld, if one was.
    Received,
    /// The command is looked at again.
    CommandTaken,
    /// It has waited for too long, or was aborted.
    Released,
    /// Nothing is received any more.
    Ended,
}

impl State {
    fn after(self, event: Event) -> Self {
        match (self, event) {
            (_, Event::RequestRefused { returns }) => Self::Request { returns },
            (_, Event::CommandRefused { slot, returns }) => Self::Command { slot, returns },
            (Self::Command { slot, .. } | Self::Resumed { slot }, Event::Received | Event::Released) => {
                Self::Resumed { slot }
            }
            (Self::Open | Self::Request { .. }, Event::Received | Event::Released)
            | (_, Event::CommandTaken | Event::Ended) => Self::Open,
        }
    }
}

/// Whether receiving waits for memory, and since when.
#[derive(Debug)]
pub(super) struct WithheldReceive {
    state: State,
    /// Since when commands' data has found no memory.
    since: Option<Instant>,
}

impl WithheldReceive {
    /// Nothing is withheld.
    pub(super) fn new() -> Self {
        Self { state: State::Open, since: None }
    }

    /// Withholds a request until the pool's count of returns moves.
    pub(super) fn withhold_request(&mut self, returns: u64) {
        self.state = self.state.after(Event::RequestRefused { returns });
    }

    /// Withholds the data of a command.
    pub(super) fn withhold_command(&mut self, slot: u16, returns: u64) {
        self.state = self.state.after(Event::CommandRefused { slot, returns });
    }

    /// A PDU has come.
    #[inline]
    pub(super) fn received(&mut self) {
        if self.state != State::Open {
            self.state = self.state.after(Event::Received);
        }
    }

    /// The command whose PDU comes again, if that is so.
    #[inline]
    pub(super) fn take_command(&mut self) -> Option<u16> {
        let State::Resumed { slot } = self.state else { return None };
        self.state = self.state.after(Event::CommandTaken);
        Some(slot)
    }

    /// A command that may be withheld was aborted: its data is passed over.
    pub(super) fn release(&mut self) {
        self.state = self.state.after(Event::Released);
    }

    /// Nothing is received any more.
    pub(super) fn end(&mut self) {
        self.state = self.state.after(Event::Ended);
    }

    /// True while something waits for memory.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Request { .. } | State::Command { .. })
    }

    /// True while something waits for memory, and none has come back to the pool: this is its count of returns.
    #[inline]
    pub(super) fn is_withheld(&self, now_returned: u64) -> bool {
        match self.state {
            State::Request { returns } | State::Command { returns, .. } => returns == now_returned,
            State::Open | State::Resumed { .. } => false,
        }
    }

    /// Whether a command's data may wait for memory a while longer.
    pub(super) fn may_wait(&mut self, now: Instant) -> bool {
        now < *self.since.get_or_insert(now) + MEMORY_WAIT_TIME
    }

    /// A command's data has found memory.
    #[inline]
    pub(super) fn satisfied(&mut self) {
        self.since = None;
    }

    /// When a command's data has waited long enough.
    #[inline]
    pub(super) fn due(&self) -> Option<Instant> {
        let State::Command { .. } = self.state else { return None };
        self.since.map(|since| since + MEMORY_WAIT_TIME)
    }

    /// Lets receiving go on without memory once that is so.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.due().is_some_and(|due| due <= now) {
            self.state = self.state.after(Event::Released);
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
        let states = [
            State::Open,
            State::Request { returns: 1 },
            State::Command { slot: 3, returns: 1 },
            State::Resumed { slot: 3 },
        ];
        let events = [
            Event::RequestRefused { returns: 2 },
            Event::CommandRefused { slot: 4, returns: 2 },
            Event::Received,
            Event::CommandTaken,
            Event::Released,
            Event::Ended,
        ];
        let mut table = String::new();
        for (state, event) in states.iter().flat_map(|state| events.map(|event| (*state, event))) {
            writeln!(table, "{state:?} --{event:?}--> {:?}", state.after(event)).unwrap();
        }
        assert_eq!(table, include_str!("withheld_receive.table"), "the new table:\n{table}");
    }

    #[test]
    fn a_command_waits_for_a_moment_and_until_memory_comes_back() {
        let mut withheld = WithheldReceive::new();
        let start = Instant::ZERO;
        assert!(withheld.may_wait(start));
        withheld.withhold_command(7, 20);
        assert!(withheld.is_withheld(20) && !withheld.is_withheld(21));
        assert_eq!(withheld.due(), Some(start + MEMORY_WAIT_TIME));
        withheld.handle_timeout(start);
        assert!(withheld.is_withheld(20), "called early");
        withheld.handle_timeout(start + MEMORY_WAIT_TIME);
        assert!(!withheld.is_withheld(20) && !withheld.may_wait(start + MEMORY_WAIT_TIME));
        withheld.received();
        assert_eq!((withheld.take_command(), withheld.take_command()), (Some(7), None));
        withheld.satisfied();
        assert!(withheld.may_wait(start + MEMORY_WAIT_TIME));
    }

    #[test]
    fn a_request_waits_without_a_deadline() {
        let mut withheld = WithheldReceive::new();
        withheld.withhold_request(20);
        assert!(withheld.is_waiting() && withheld.is_withheld(20));
        assert_eq!(withheld.due(), None);
        withheld.received();
        assert!(!withheld.is_waiting());
        assert_eq!(withheld.take_command(), None);
    }
}
