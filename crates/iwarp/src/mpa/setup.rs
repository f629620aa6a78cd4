//! How far a connection's set-up is, both roles (RFC 5044 §7.1, RFC 6581 §4). `setup.table` has every transition.

use core::time::Duration;

use super::frame::Rtr;
use crate::limits::{REPLY_TIME, REQUEST_TIME, RTR_TIME};

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setup {
    /// Initiator: its request is to be sent.
    RequestDue,
    /// Initiator: the reply is to come.
    AwaitReply,
    /// Responder: the request is to come.
    AwaitRequest,
    /// Responder: its consumer is to accept or to reject.
    Deciding,
    /// Responder: its reply is to be sent. Peer to peer, the initiator shows by itself that it is ready.
    ReplyDue { peer_to_peer: bool },
    /// Responder: the rejection is to be sent.
    RejectDue,
    /// Responder: it may receive, and not send before the initiator did.
    AwaitFirstFpdu { peer_to_peer: bool },
    /// Both ends may send.
    Open,
    /// There is no connection, or no longer.
    Over,
}

impl Setup {
    /// The frame that was due has been put into a send.
    pub(crate) fn frame_sent(&mut self) {
        *self = match *self {
            Self::RequestDue => Self::AwaitReply,
            Self::ReplyDue { peer_to_peer } => Self::AwaitFirstFpdu { peer_to_peer },
            Self::RejectDue => Self::Over,
            other => other,
        };
    }

    /// A request has come that this side can answer.
    pub(crate) fn requested(&mut self) {
        if *self == Self::AwaitRequest {
            *self = Self::Deciding;
        }
    }

    /// The consumer accepts; false if it is too late, or nobody asked.
    pub(crate) fn accept(&mut self, rtr: Option<Rtr>) -> bool {
        let decides = *self == Self::Deciding;
        let peer_to_peer = rtr.is_some();
        if decides {
            *self = Self::ReplyDue { peer_to_peer };
        }
        decides
    }

    /// The consumer rejects; false likewise.
    pub(crate) fn reject(&mut self) -> bool {
        let decides = *self == Self::Deciding;
        if decides {
            *self = Self::RejectDue;
        }
        decides
    }

    /// A reply has come that this side agrees to.
    pub(crate) fn replied(&mut self) {
        if *self == Self::AwaitReply {
            *self = Self::Open;
        }
    }

    /// An FPDU has come; true if it is the first, so that the responder may send from now on.
    pub(crate) fn fpdu_received(&mut self) -> bool {
        let is_first = matches!(self, Self::AwaitFirstFpdu { .. });
        if is_first {
            *self = Self::Open;
        }
        is_first
    }

    /// The time of [`patience`](Self::patience) has passed: what was waited for, if anything.
    pub(crate) fn time_out(&mut self) -> Option<&'static str> {
        let awaited = match *self {
            Self::AwaitReply => "no MPA reply came",
            Self::AwaitRequest => "no MPA request came",
            Self::AwaitFirstFpdu { peer_to_peer: true } => "the initiator did not show that it is ready",
            _ => return None,
        };
        *self = Self::Over;
        Some(awaited)
    }

    /// It comes to nothing, or has come to its end.
    pub(crate) fn end(&mut self) {
        *self = Self::Over;
    }

    /// How long it may stay as it is. A consumer decides how long it thinks, and whether a peer that may send first has to.
    pub(crate) fn patience(self) -> Option<Duration> {
        match self {
            Self::AwaitReply => Some(REPLY_TIME),
            Self::AwaitRequest => Some(REQUEST_TIME),
            Self::AwaitFirstFpdu { peer_to_peer: true } => Some(RTR_TIME),
            _ => None,
        }
    }

    /// A frame is to be sent.
    pub(crate) fn has_frame(self) -> bool {
        matches!(self, Self::RequestDue | Self::ReplyDue { .. } | Self::RejectDue)
    }

    /// FPDUs may be sent.
    pub(crate) fn may_send(self) -> bool {
        self == Self::Open
    }

    /// True while what comes are FPDUs.
    pub(crate) fn receives_fpdus(self) -> bool {
        matches!(self, Self::AwaitFirstFpdu { .. } | Self::Open)
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;
    use core::fmt::Write;

    use super::*;

    #[test]
    fn table_of_all_transitions() {
        type Event = fn(&mut Setup) -> Option<String>;
        let events: [(&str, Event); 9] = [
            ("frame sent", |state| {
                state.frame_sent();
                None
            }),
            ("requested", |state| {
                state.requested();
                None
            }),
            ("accept", |state| state.accept(None).then(|| String::from("taken"))),
            ("accept peer to peer", |state| {
                state.accept(Some(Rtr::ZeroLength)).then(|| String::from("taken"))
            }),
            ("reject", |state| state.reject().then(|| String::from("taken"))),
            ("replied", |state| {
                state.replied();
                None
            }),
            ("FPDU", |state| state.fpdu_received().then(|| String::from("the first"))),
            ("time out", |state| state.time_out().map(String::from)),
            ("end", |state| {
                state.end();
                None
            }),
        ];
        let states = [
            Setup::RequestDue,
            Setup::AwaitReply,
            Setup::AwaitRequest,
            Setup::Deciding,
            Setup::ReplyDue { peer_to_peer: false },
            Setup::ReplyDue { peer_to_peer: true },
            Setup::RejectDue,
            Setup::AwaitFirstFpdu { peer_to_peer: false },
            Setup::AwaitFirstFpdu { peer_to_peer: true },
            Setup::Open,
            Setup::Over,
        ];
        let mut table = String::new();
        for state in states {
            for (name, event) in &events {
                let mut next = state;
                let result = event(&mut next).map_or_else(String::new, |result| format!(", {result}"));
                if next != state || !result.is_empty() {
                    writeln!(table, "{state:?} --{name}--> {next:?}{result}").unwrap();
                }
            }
        }
        assert_eq!(table, include_str!("setup.table"));
    }

    #[test]
    fn who_waits_has_a_deadline() {
        for state in [Setup::AwaitReply, Setup::AwaitRequest, Setup::AwaitFirstFpdu { peer_to_peer: true }] {
            let mut after = state;
            assert!(state.patience().is_some() && after.time_out().is_some());
        }
        let mut waiting = Setup::AwaitFirstFpdu { peer_to_peer: false };
        assert!(waiting.patience().is_none() && waiting.time_out().is_none() && waiting.receives_fpdus());
    }
}
