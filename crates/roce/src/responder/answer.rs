//! What a responder has to say, and what it has said (IBTA §9.7.5). `answer.table` has every transition.
//!
//! One answer speaks for all packets that came before it, so that a burst is acknowledged once. A packet that is missing, or that found no receive, is told once: what
//! comes behind it says nothing new.

use crate::syndrome::{Credits, Nak, Syndrome, Timer};

/// The state of a responder's answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// Nothing is to be said.
    Silent,
    /// What has come is to be acknowledged.
    Acknowledge,
    /// A packet is missing, and that is to be said.
    Missing,
    /// A message found no receive, and that is to be said.
    NotReady,
    /// The peer knows which packet is awaited.
    Awaiting,
    /// A packet is refused, and that is to be said.
    Refuse(Nak),
    /// The peer was told so.
    Refused(Nak),
}

impl Answer {
    /// The packet that was due has come, and asks for an acknowledgement, or not.
    pub(super) fn received(&mut self, asks: bool) {
        *self = match *self {
            // What was not said may have stood for an acknowledgement.
            Self::Acknowledge | Self::Missing | Self::NotReady => Self::Acknowledge,
            Self::Silent | Self::Awaiting if asks => Self::Acknowledge,
            Self::Silent | Self::Awaiting => Self::Silent,
            refused => refused,
        };
    }

    /// A packet has come again.
    pub(super) fn duplicate(&mut self) {
        if matches!(self, Self::Silent | Self::Awaiting) {
            *self = Self::Acknowledge;
        }
    }

    /// A packet has come before the one that is due.
    pub(super) fn gap(&mut self) {
        if matches!(self, Self::Silent | Self::Acknowledge) {
            *self = Self::Missing;
        }
    }

    /// The packet that is due finds no receive.
    pub(super) fn not_ready(&mut self) {
        if !self.is_refused() {
            *self = Self::NotReady;
        }
    }

    /// The packet that is due is refused, and with it all that follow.
    pub(super) fn refuse(&mut self, nak: Nak) {
        if !self.is_refused() {
            *self = Self::Refuse(nak);
        }
    }

    /// A packet has come after one was refused: the peer may not know yet.
    pub(super) fn repeat(&mut self) {
        if let Self::Refused(nak) = *self {
            *self = Self::Refuse(nak);
        }
    }

    pub(super) const fn is_refused(self) -> bool {
        matches!(self, Self::Refuse(_) | Self::Refused(_))
    }

    /// What is to be said.
    pub(super) const fn due(self) -> Option<Syndrome> {
        match self {
            Self::Acknowledge => Some(Syndrome::Ack(Credits::UNLIMITED)),
            Self::Missing => Some(Syndrome::Nak(Nak::Sequence)),
            Self::NotReady => Some(Syndrome::ReceiverNotReady(Timer::TURN)),
            Self::Refuse(nak) => Some(Syndrome::Nak(nak)),
            Self::Silent | Self::Awaiting | Self::Refused(_) => None,
        }
    }

    /// It is said.
    pub(super) fn sent(&mut self) {
        *self = match *self {
            Self::Acknowledge => Self::Silent,
            Self::Missing | Self::NotReady => Self::Awaiting,
            Self::Refuse(nak) => Self::Refused(nak),
            other => other,
        };
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use core::fmt::Write;

    use super::*;

    #[test]
    fn table_of_all_transitions() {
        type Event = fn(&mut Answer);
        let events: [(&str, Event); 8] = [
            ("the next packet", |state| state.received(false)),
            ("the next packet, which asks", |state| state.received(true)),
            ("a packet again", Answer::duplicate),
            ("a later packet", Answer::gap),
            ("no receive", Answer::not_ready),
            ("a violation", |state| state.refuse(Nak::InvalidRequest)),
            ("a packet after a violation", Answer::repeat),
            ("sent", Answer::sent),
        ];
        let states = [
            Answer::Silent,
            Answer::Acknowledge,
            Answer::Missing,
            Answer::NotReady,
            Answer::Awaiting,
            Answer::Refuse(Nak::RemoteAccess),
            Answer::Refused(Nak::RemoteAccess),
        ];
        let mut table = String::new();
        for state in states {
            for (name, event) in &events {
                let mut next = state;
                event(&mut next);
                if next != state {
                    writeln!(table, "{state:?} --{name}--> {next:?}").unwrap();
                }
            }
        }
        assert_eq!(table, include_str!("answer.table"));
    }
}
