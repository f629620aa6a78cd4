//! The keep alive timer of an admin queue (NVMe Base §3.9): twice in each timeout the controller hears that its host is there.

use core::time::Duration;

use protocol::Instant;

/// When the next Keep Alive is sent.
#[derive(Debug, Default)]
pub(super) struct KeepAlive {
    /// Half of the timeout; none without one.
    interval: Option<Duration>,
    due: Option<Instant>,
}

impl KeepAlive {
    /// Of a controller with this timeout in milliseconds; 0 for none. It has not begun.
    pub(super) fn new(kato: u32) -> Self {
        let interval = (kato != 0).then(|| Duration::from_millis(u64::from(kato / 2)));
        Self { interval, due: None }
    }

    /// The controller's timer has begun, anew if it had before.
    pub(super) fn start(&mut self, now: Instant) {
        self.due = self.interval.map(|interval| now + interval);
    }

    /// Nothing more is sent.
    pub(super) fn stop(&mut self) {
        self.due = None;
    }

    /// When the next one is to be sent.
    #[inline]
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// True when the next one is to be sent now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }
}
