//! Whether a peer reads what is sent to it.

use protocol::Instant;

use crate::limits::SEND_TIME;

/// The send of one connection that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum SendWatch {
    /// There is none.
    #[default]
    Idle,
    /// It is to have gone out by then.
    Sending { due: Instant },
}

/// How a send is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    /// There is none, or it may take longer.
    Pending,
    /// The peer does not read.
    Stalled,
}

impl SendWatch {
    /// A send has begun.
    pub(super) fn on_send(&mut self, now: Instant) {
        *self = Self::Sending { due: now + SEND_TIME };
    }

    /// It has gone out, as far as it was told, or the transport has ended.
    pub(super) fn on_sent(&mut self) {
        *self = Self::Idle;
    }

    /// When it is to be looked at.
    pub(super) fn due(self) -> Option<Instant> {
        if let Self::Sending { due } = self { Some(due) } else { None }
    }

    /// The time is this. A stalled send is not looked at any more.
    pub(super) fn on_time(&mut self, now: Instant) -> Delivery {
        match *self {
            Self::Sending { due } if due <= now => {
                *self = Self::Idle;
                Delivery::Stalled
            }
            _ => Delivery::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_in_every_state() {
        let (begin, due) = (Instant::ZERO, Instant::ZERO + SEND_TIME);
        let early = Instant::from_nanos(due.as_nanos() - 1);
        for start in [SendWatch::Idle, SendWatch::Sending { due }] {
            let mut watch = start;
            assert_eq!((watch.on_time(early), watch), (Delivery::Pending, start));
            let mut watch = start;
            watch.on_send(begin);
            assert_eq!((watch, watch.due()), (SendWatch::Sending { due }, Some(due)));
            let mut watch = start;
            watch.on_sent();
            assert_eq!((watch, watch.due()), (SendWatch::Idle, None));
            let mut watch = start;
            let stalled = start != SendWatch::Idle;
            assert_eq!(watch.on_time(due) == Delivery::Stalled, stalled);
            assert_eq!(watch, SendWatch::Idle);
        }
    }
}
