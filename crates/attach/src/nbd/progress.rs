//! Whether a client goes on with what it has begun: with the data of a write, and with reading what is sent to it.
//!
//! A client without either may be silent for as long as it likes, as NBD knows no sign of life.

use std::time::Duration;

use protocol::Instant;

use super::limits::{SCARCE_SEND_TIME, WATCH};

/// What keeps the data of a write from coming.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DataWait {
    /// Nothing: no data is expected.
    None,
    /// This side has no memory for it, and does not read.
    Memory,
    /// The client sends none.
    Client,
}

/// A send under way.
#[derive(Debug, Clone, Copy)]
struct Sending {
    since: Instant,
    check_at: Instant,
}

/// One client's progress.
#[derive(Debug)]
pub(super) struct Progress {
    /// When data was last received.
    received_at: Instant,
    check_at: Option<Instant>,
    sending: Option<Sending>,
}

impl Progress {
    /// Nothing is under way.
    pub(super) fn new(now: Instant) -> Self {
        Self { received_at: now, check_at: None, sending: None }
    }

    /// Data of a write is expected from now on.
    pub(super) fn expect_data(&mut self, now: Instant) {
        self.received_at = now;
        self.check_at.get_or_insert(now + WATCH);
    }

    /// Some of it has come.
    pub(super) fn handle_data(&mut self, now: Instant) {
        self.received_at = now;
    }

    /// Expects no further data.
    pub(super) fn stop_expecting(&mut self) {
        self.check_at = None;
    }

    /// True when data is overdue: none has come for `limit`. Time in which this side does not read does not count.
    pub(super) fn is_data_overdue(&mut self, now: Instant, wait: DataWait, limit: Duration) -> bool {
        if self.check_at.is_none_or(|at| at > now) {
            return false;
        }
        self.check_at = None;
        match wait {
            DataWait::None => return false,
            DataWait::Memory => self.received_at = now,
            DataWait::Client => {}
        }
        let is_overdue = self.received_at + limit <= now;
        if !is_overdue {
            self.check_at = Some(now + WATCH);
        }
        is_overdue
    }

    /// A send has begun.
    pub(super) fn begin_send(&mut self, now: Instant) {
        self.sending = Some(Sending { since: now, check_at: now + SCARCE_SEND_TIME });
    }

    /// The send has gone out, or is given up.
    pub(super) fn end_send(&mut self) {
        self.sending = None;
    }

    /// True when a send is overdue: the client has read nothing of it for `limit`.
    pub(super) fn is_send_overdue(&mut self, now: Instant, limit: Duration) -> bool {
        let Some(sending) = &mut self.sending else { return false };
        if sending.since + limit <= now {
            self.sending = None;
            return true;
        }
        if sending.check_at <= now {
            sending.check_at = now + WATCH;
        }
        false
    }

    /// When to check again.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let sending = self.sending.map(|sending| sending.check_at);
        [self.check_at, sending].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn data_is_overdue_only_while_the_client_is_to_send_it() {
        let mut progress = Progress::new(at(0));
        progress.expect_data(at(10));
        assert!(!progress.is_data_overdue(at(14), DataWait::Client, LIMIT));
        assert!(!progress.is_data_overdue(at(15), DataWait::Memory, LIMIT), "this side does not read");
        assert!(!progress.is_data_overdue(at(19), DataWait::Client, LIMIT), "counted from then on");
        progress.handle_data(at(19));
        assert!(!progress.is_data_overdue(at(23), DataWait::Client, LIMIT));
        assert!(progress.is_data_overdue(at(24), DataWait::Client, LIMIT));
        progress.expect_data(at(30));
        assert!(!progress.is_data_overdue(at(40), DataWait::None, LIMIT));
        assert_eq!(progress.poll_timeout(), None);
    }

    #[test]
    fn a_send_is_overdue_when_nothing_of_it_is_read() {
        let mut progress = Progress::new(at(0));
        progress.begin_send(at(1));
        assert_eq!(progress.poll_timeout(), Some(at(1) + SCARCE_SEND_TIME));
        assert!(!progress.is_send_overdue(at(5), LIMIT));
        progress.end_send();
        assert!(!progress.is_send_overdue(at(50), LIMIT));
        progress.begin_send(at(50));
        assert!(progress.is_send_overdue(at(55), LIMIT));
        assert_eq!(progress.poll_timeout(), None);
    }
}
