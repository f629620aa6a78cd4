//! Whether the initiator is still there: after silence the target pings it by a NOP-In, and ends the connection if nothing comes
//! (RFC 7143 §11.19). Anything that comes counts as an answer.

use protocol::Instant;

use crate::limits::{IDLE_TIME, PING_TIME};

/// What is known of the initiator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeepAlive {
    /// It was heard.
    Heard {
        /// When last.
        at: Instant,
    },
    /// A ping was sent to it.
    Pinged {
        /// When its answer is overdue.
        due: Instant,
    },
}

/// What is to be done about silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Silence {
    /// Nothing yet.
    Bearable,
    /// Send a ping.
    Ping,
    /// End the connection: the ping was not answered.
    Unanswered,
}

impl KeepAlive {
    /// The next time to look, by [`Self::handle_timeout`].
    #[inline]
    pub(super) fn due(self) -> Instant {
        match self {
            Self::Heard { at } => at + IDLE_TIME,
            Self::Pinged { due } => due,
        }
    }

    /// The time is `now`. The ping that this asks for counts as sent.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Silence {
        if self.due() > now {
            return Silence::Bearable;
        }
        match self {
            Self::Heard { .. } => {
                *self = Self::Pinged { due: now + PING_TIME };
                Silence::Ping
            }
            Self::Pinged { .. } => Silence::Unanswered,
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    const TICK: Duration = Duration::from_millis(1);

    #[test]
    fn silence_is_answered_by_one_ping_and_then_by_the_end() {
        let start = Instant::ZERO;
        let mut peer = KeepAlive::Heard { at: start };
        let idle = start + IDLE_TIME;
        let before = |time: Duration| time.saturating_sub(TICK);
        assert_eq!(peer.due(), idle);
        assert_eq!(peer.handle_timeout(start + before(IDLE_TIME)), Silence::Bearable);
        assert_eq!(peer.handle_timeout(idle), Silence::Ping);
        assert_eq!(peer, KeepAlive::Pinged { due: idle + PING_TIME });
        assert_eq!(peer.handle_timeout(idle + before(PING_TIME)), Silence::Bearable);
        assert_eq!(peer.handle_timeout(idle + PING_TIME), Silence::Unanswered);
    }
}
