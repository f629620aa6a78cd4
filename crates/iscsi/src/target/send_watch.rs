//! Whether the initiator reads what is sent to it. Who reads nothing loses the connection, and sooner while others wait for the memory that it holds.

use core::time::Duration;

use protocol::Instant;

use crate::limits::{SCARCE_SEND_TIME, SEND_TIME, WATCH};

/// The send that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendWatch {
    /// None is.
    Idle,
    /// One is.
    Sending {
        since: Instant,
        /// When it is looked at.
        due: Instant,
    },
}

/// What a look at the send came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// It may go on.
    Sufficient,
    /// It has taken too long.
    Stalled,
}

impl SendWatch {
    /// A send begins.
    #[inline]
    pub(super) fn begin(&mut self, now: Instant) {
        *self = Self::Sending { since: now, due: now + SCARCE_SEND_TIME };
    }

    /// It has gone out whole, or nothing is sent any more.
    #[inline]
    pub(super) fn end(&mut self) {
        *self = Self::Idle;
    }

    /// The next time to look.
    #[inline]
    pub(super) fn due(self) -> Option<Instant> {
        match self {
            Self::Idle => None,
            Self::Sending { due, .. } => Some(due),
        }
    }

    /// How long a send may take.
    pub(super) fn limit(memory: Memory) -> Duration {
        match memory {
            Memory::Free => SEND_TIME,
            Memory::Wanted => SCARCE_SEND_TIME,
        }
    }

    /// The time is `now`. What has stalled is not looked at again.
    pub(super) fn handle_timeout(&mut self, now: Instant, memory: Memory) -> Progress {
        let Self::Sending { since, due } = *self else { return Progress::Sufficient };
        if since + Self::limit(memory) <= now {
            *self = Self::Idle;
            return Progress::Stalled;
        }
        if due <= now {
            *self = Self::Sending { since, due: now + WATCH };
        }
        Progress::Sufficient
    }
}

/// Whether others wait for memory that this connection may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// Nobody waits.
    Free,
    /// Somebody does.
    Wanted,
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::ZERO;

    #[test]
    fn a_send_stalls_after_its_time_which_is_shorter_while_others_wait() {
        for (memory, limit) in [(Memory::Free, SEND_TIME), (Memory::Wanted, SCARCE_SEND_TIME)] {
            let mut watch = SendWatch::Idle;
            assert_eq!((watch.due(), watch.handle_timeout(START, memory)), (None, Progress::Sufficient));
            watch.begin(START);
            let mut stalled = None;
            while let Some(due) = watch.due() {
                if watch.handle_timeout(due, memory) == Progress::Stalled {
                    stalled = Some(due);
                }
            }
            let stalled = stalled.unwrap();
            assert!(stalled >= START + limit && stalled < START + limit + WATCH, "{memory:?}: {stalled:?}");
        }
    }

    #[test]
    fn a_send_that_has_gone_out_is_not_looked_at() {
        let mut watch = SendWatch::Idle;
        watch.begin(START);
        watch.end();
        assert_eq!(watch.due(), None);
        assert_eq!(watch.handle_timeout(START + SEND_TIME, Memory::Wanted), Progress::Sufficient);
    }
}
