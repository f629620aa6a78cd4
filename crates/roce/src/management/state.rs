//! How far a connection is in its life, as its two managers see it (IBTA §12.9.6, §12.9.7). `state.table` has every transition.

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The request is to be sent (REQ).
    RequestDue,
    /// The request is sent.
    AwaitReply,
    /// The peer's request waits for the consumer.
    Deciding,
    /// The reply is to be sent (REP).
    ReplyDue,
    /// The reply is sent.
    AwaitReady,
    /// The reply has come, and that is to be said (RTU).
    ReadyDue,
    /// Both know that it is established.
    Open,
    /// A rejection is to be sent (REJ).
    RejectDue,
    /// The wish to disconnect is to be sent (DREQ).
    DisconnectDue,
    /// The wish to disconnect is sent.
    AwaitDisconnected,
    /// The peer's wish is to be answered (DREP).
    DisconnectedDue,
    /// It is over.
    Closed,
}

/// What a step changes for a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing.
    None,
    /// It is established.
    Established,
    /// The peer ends it.
    ByPeer,
    /// The peer has not answered.
    TimedOut,
}

impl State {
    /// Messages may go both ways.
    pub(crate) const fn is_established(self) -> bool {
        matches!(self, Self::ReadyDue | Self::Open)
    }

    /// The message that was due is sent.
    pub(crate) fn sent(&mut self) {
        *self = match *self {
            Self::RequestDue => Self::AwaitReply,
            Self::ReplyDue => Self::AwaitReady,
            Self::ReadyDue => Self::Open,
            Self::DisconnectDue => Self::AwaitDisconnected,
            Self::RejectDue | Self::DisconnectedDue => Self::Closed,
            other => other,
        };
    }

    /// The peer's request has come again: the reply was lost.
    pub(crate) fn requested_again(&mut self) {
        if *self == Self::AwaitReady {
            *self = Self::ReplyDue;
        }
    }

    /// The consumer accepts; false if it has nothing to decide.
    pub(crate) fn accept(&mut self) -> bool {
        let decides = *self == Self::Deciding;
        if decides {
            *self = Self::ReplyDue;
        }
        decides
    }

    /// The consumer rejects; false if it has nothing to decide.
    pub(crate) fn reject(&mut self) -> bool {
        let decides = *self == Self::Deciding;
        if decides {
            *self = Self::RejectDue;
        }
        decides
    }

    /// The peer grants the connection, or says so again because it did not hear that we know.
    pub(crate) fn replied(&mut self) -> Change {
        match *self {
            Self::RequestDue | Self::AwaitReply => {
                *self = Self::ReadyDue;
                Change::Established
            }
            Self::Open => {
                *self = Self::ReadyDue;
                Change::None
            }
            _ => Change::None,
        }
    }

    /// The peer has the reply: it says so, or sends a packet.
    pub(crate) fn ready(&mut self) -> Change {
        if matches!(self, Self::AwaitReady | Self::ReplyDue) {
            *self = Self::Open;
            return Change::Established;
        }
        Change::None
    }

    /// The peer refuses.
    pub(crate) fn rejected(&mut self) -> Change {
        match *self {
            Self::Closed | Self::RejectDue => Change::None,
            Self::DisconnectDue | Self::AwaitDisconnected | Self::DisconnectedDue => {
                *self = Self::Closed;
                Change::None
            }
            _ => {
                *self = Self::Closed;
                Change::ByPeer
            }
        }
    }

    /// Nothing has come in time. `again` says that it is worth another attempt.
    pub(crate) fn time_out(&mut self, again: bool) -> Change {
        let (next, change) = match (*self, again) {
            (Self::AwaitReply, true) => (Self::RequestDue, Change::None),
            (Self::AwaitReady, true) => (Self::ReplyDue, Change::None),
            (Self::AwaitDisconnected, true) => (Self::DisconnectDue, Change::None),
            (Self::AwaitReply | Self::AwaitReady, false) | (Self::Deciding, _) => {
                (Self::RejectDue, Change::TimedOut)
            }
            (Self::AwaitDisconnected, false) => (Self::Closed, Change::None),
            (other, _) => (other, Change::None),
        };
        *self = next;
        change
    }

    /// This side ends it.
    pub(crate) fn disconnect(&mut self) {
        *self = match *self {
            Self::RequestDue => Self::Closed,
            Self::AwaitReply | Self::Deciding | Self::ReplyDue => Self::RejectDue,
            Self::AwaitReady | Self::ReadyDue | Self::Open => Self::DisconnectDue,
            other => other,
        };
    }

    /// The peer ends it.
    pub(crate) fn disconnected_by_peer(&mut self) -> Change {
        let change = match *self {
            Self::AwaitReady | Self::ReplyDue | Self::ReadyDue | Self::Open => Change::ByPeer,
            Self::DisconnectDue | Self::AwaitDisconnected | Self::DisconnectedDue => Change::None,
            _ => return Change::None,
        };
        *self = Self::DisconnectedDue;
        change
    }

    /// The peer knows that it is over.
    pub(crate) fn disconnected(&mut self) {
        if matches!(self, Self::DisconnectDue | Self::AwaitDisconnected) {
            *self = Self::Closed;
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use core::fmt::Write;

    use super::*;

    type Event = fn(&mut State) -> Change;

    const fn quiet(_: bool) -> Change {
        Change::None
    }

    const EVENTS: [(&str, Event); 13] = [
        ("sent", |state| {
            state.sent();
            Change::None
        }),
        ("REQ again", |state| {
            state.requested_again();
            Change::None
        }),
        ("accept", |state| quiet(state.accept())),
        ("reject", |state| quiet(state.reject())),
        ("REP", State::replied),
        ("RTU or a packet", State::ready),
        ("REJ", State::rejected),
        ("time, and once more", |state| state.time_out(true)),
        ("time at last", |state| state.time_out(false)),
        ("disconnect", |state| {
            state.disconnect();
            Change::None
        }),
        ("DREQ", State::disconnected_by_peer),
        ("DREP", |state| {
            state.disconnected();
            Change::None
        }),
        ("nothing", |_| Change::None),
    ];

    const STATES: [State; 12] = [
        State::RequestDue,
        State::AwaitReply,
        State::Deciding,
        State::ReplyDue,
        State::AwaitReady,
        State::ReadyDue,
        State::Open,
        State::RejectDue,
        State::DisconnectDue,
        State::AwaitDisconnected,
        State::DisconnectedDue,
        State::Closed,
    ];

    #[test]
    fn table_of_all_transitions() {
        let mut table = String::new();
        for state in STATES {
            for (name, event) in &EVENTS {
                let mut next = state;
                let change = event(&mut next);
                if next != state || change != Change::None {
                    write!(table, "{state:?} --{name}--> {next:?}").unwrap();
                    match change {
                        Change::None => writeln!(table).unwrap(),
                        change => writeln!(table, ", {change:?}").unwrap(),
                    }
                }
            }
        }
        assert_eq!(table, include_str!("state.table"));
    }
}
