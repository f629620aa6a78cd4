//! Which packet continues the message that is coming (IBTA §9.7.4.1). `incoming.table` has every transition.

use verbs::RemoteRegion;

use crate::opcode::Opcode;
use crate::violation::Violation;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Send,
    Write,
    Read,
}

/// A packet's place in its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) kind: Kind,
    /// It begins a message.
    pub(super) first: bool,
    /// It ends a message.
    pub(super) last: bool,
}

impl Step {
    /// What a request's opcode says; none for a response, and for what no requester of a reliable connection sends.
    pub(super) fn of(opcode: Opcode) -> Option<Result<Self, Violation>> {
        let step = |kind, first, last| Some(Ok(Self { kind, first, last }));
        match opcode {
            Opcode::SEND_FIRST => step(Kind::Send, true, false),
            Opcode::SEND_MIDDLE => step(Kind::Send, false, false),
            Opcode::SEND_LAST | Opcode::SEND_LAST_INVALIDATE => step(Kind::Send, false, true),
            Opcode::SEND_ONLY | Opcode::SEND_ONLY_INVALIDATE => step(Kind::Send, true, true),
            Opcode::WRITE_FIRST => step(Kind::Write, true, false),
            Opcode::WRITE_MIDDLE => step(Kind::Write, false, false),
            Opcode::WRITE_LAST => step(Kind::Write, false, true),
            Opcode::WRITE_ONLY => step(Kind::Write, true, true),
            Opcode::READ_REQUEST => step(Kind::Read, true, true),
            Opcode::SEND_LAST_IMMEDIATE
            | Opcode::SEND_ONLY_IMMEDIATE
            | Opcode::WRITE_LAST_IMMEDIATE
            | Opcode::WRITE_ONLY_IMMEDIATE => Some(Err(Violation::Immediate)),
            _ if opcode.is_refused() => Some(Err(Violation::Operation)),
            _ => None,
        }
    }

    /// Whether a payload may be so long: whole packets but for the last, which has something unless it is all there is (IBTA §9.7.4.1.6).
    pub(super) const fn takes(self, payload: usize, mtu: usize) -> bool {
        match (self.kind, self.first, self.last) {
            (Kind::Read, ..) => payload == 0,
            (_, _, false) => payload == mtu,
            (_, true, true) => payload <= mtu,
            (_, false, true) => payload > 0 && payload <= mtu,
        }
    }
}

/// The message that is coming.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Incoming {
    /// None.
    Between,
    /// One for a receive, of which so many bytes have come.
    Send { length: usize },
    /// One for a region: what of it has not come.
    Write { rest: RemoteRegion },
}

impl Incoming {
    /// Checks whether a packet continues it.
    ///
    /// # Errors
    /// It does not.
    pub(super) const fn check(self, step: Step) -> Result<(), Violation> {
        let fits = match self {
            Self::Between => step.first,
            Self::Send { .. } => !step.first && matches!(step.kind, Kind::Send),
            Self::Write { .. } => !step.first && matches!(step.kind, Kind::Write),
        };
        if fits { Ok(()) } else { Err(Violation::MessageOrder) }
    }

    /// So many bytes of a message for a receive have come.
    pub(super) fn send(&mut self, step: Step, bytes: usize) {
        let before = self.length();
        *self = if step.last { Self::Between } else { Self::Send { length: before.saturating_add(bytes) } };
    }

    /// A part of a message for a region has come; this is missing.
    pub(super) const fn write(&mut self, step: Step, rest: RemoteRegion) {
        *self = if step.last { Self::Between } else { Self::Write { rest } };
    }

    /// Bytes of a message for a receive that have come.
    pub(super) const fn length(self) -> usize {
        match self {
            Self::Send { length } => length,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use core::fmt::Write;

    use verbs::STag;

    use super::*;

    #[test]
    fn table_of_all_transitions() {
        let region = |length| RemoteRegion { stag: STag(1), offset: 0, length };
        let steps: [(&str, Opcode); 9] = [
            ("send first", Opcode::SEND_FIRST),
            ("send middle", Opcode::SEND_MIDDLE),
            ("send last", Opcode::SEND_LAST),
            ("send only", Opcode::SEND_ONLY),
            ("write first", Opcode::WRITE_FIRST),
            ("write middle", Opcode::WRITE_MIDDLE),
            ("write last", Opcode::WRITE_LAST),
            ("write only", Opcode::WRITE_ONLY),
            ("read request", Opcode::READ_REQUEST),
        ];
        let states = [
            ("between", Incoming::Between),
            ("send of 256", Incoming::Send { length: 256 }),
            ("write, 300 missing", Incoming::Write { rest: region(300) }),
        ];
        let mut table = String::new();
        for (name, state) in states {
            for (event, opcode) in steps {
                let step = Step::of(opcode).unwrap().unwrap();
                let mut next = state;
                let told = match (state.check(step), step.kind) {
                    (Err(violation), _) => alloc::format!("{violation:?}"),
                    (Ok(()), Kind::Read) => String::from("a response"),
                    (Ok(()), Kind::Send) => {
                        next.send(step, 256);
                        alloc::format!("{next:?}")
                    }
                    (Ok(()), Kind::Write) => {
                        next.write(step, region(44));
                        alloc::format!("{next:?}")
                    }
                };
                writeln!(table, "{name} --{event}--> {told}").unwrap();
            }
        }
        assert_eq!(table, include_str!("incoming.table"));
    }
}
