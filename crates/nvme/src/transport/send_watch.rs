//! Whether a peer reads what is sent to it. `send_watch.table` has every transition.

use protocol::Instant;

use crate::limits::{SCARCE_SEND_TIME, SEND_TIME, WATCH};

/// The send of one connection that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum SendWatch {
    /// There is none.
    #[default]
    Idle,
    /// It has not gone out since then, and is looked at again.
    Sending { since: Instant, look_at: Instant },
}

/// How long a peer may leave what is sent to it unread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allowance {
    /// As long as a network may be interrupted.
    Usual,
    /// Others wait for the memory that the send holds.
    Scarce,
}

/// What a look at the send finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// Nothing, or that it may take longer.
    Pending,
    /// The peer does not read.
    Stalled,
}

impl SendWatch {
    /// A send has begun.
    #[inline]
    pub(crate) fn on_send(&mut self, now: Instant) {
        *self = Self::Sending { since: now, look_at: now + SCARCE_SEND_TIME };
    }

    /// It has gone out, as far as it was told, or the transport has ended.
    #[inline]
    pub(crate) fn on_sent(&mut self) {
        *self = Self::Idle;
    }

    /// When the send is looked at.
    #[inline]
    pub(crate) fn due(self) -> Option<Instant> {
        match self {
            Self::Idle => None,
            Self::Sending { look_at, .. } => Some(look_at),
        }
    }

    /// The time is this: how the send is. A stalled one is not looked at any more.
    pub(crate) fn on_time(&mut self, now: Instant, allowance: Allowance) -> Delivery {
        let Self::Sending { since, look_at } = *self else { return Delivery::Pending };
        let limit = match allowance {
            Allowance::Usual => SEND_TIME,
            Allowance::Scarce => SCARCE_SEND_TIME,
        };
        if since + limit <= now {
            *self = Self::Idle;
            return Delivery::Stalled;
        }
        if look_at <= now {
            *self = Self::Sending { since, look_at: now + WATCH };
        }
        Delivery::Pending
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use core::fmt::Write as _;

    use super::*;

    type Event = fn(&mut SendWatch, Instant) -> Option<Delivery>;

    #[test]
    fn table_of_all_transitions() {
        let (scarce, usual) = (Instant::ZERO + SCARCE_SEND_TIME, Instant::ZERO + SEND_TIME);
        let mut sending = SendWatch::Idle;
        sending.on_send(Instant::ZERO);
        let name = |watch: SendWatch| match watch {
            SendWatch::Idle => "Idle",
            watch if watch == sending => "Sending",
            SendWatch::Sending { .. } => "Sending, looked at again",
        };
        let time: [(&str, Event); 2] = [
            ("enough memory", |watch, now| Some(watch.on_time(now, Allowance::Usual))),
            ("scarce memory", |watch, now| Some(watch.on_time(now, Allowance::Scarce))),
        ];
        let mut table = String::new();
        for state in [SendWatch::Idle, sending] {
            for (when, now) in [("at once", Instant::ZERO), ("later", scarce), ("late", usual)] {
                for (memory, event) in time {
                    let mut watch = state;
                    let delivery = event(&mut watch, now).unwrap();
                    writeln!(table, "{} --{when}, {memory}--> {}: {delivery:?}", name(state), name(watch))
                        .unwrap();
                }
            }
            let mut watch = state;
            watch.on_sent();
            writeln!(table, "{} --sent--> {}", name(state), name(watch)).unwrap();
        }
        assert_eq!(table, include_str!("send_watch.table"));
    }
}
