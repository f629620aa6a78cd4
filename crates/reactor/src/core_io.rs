//! What the streams and the sockets of a core share in a turn: the way to the kernel, deadlines, what was moved, and the time.

use protocol::Instant;

use crate::driver::{Driver, Send};
use crate::timers::Timers;

/// A core's driver and what its turns keep beside it.
pub(crate) struct CoreIo {
    pub(crate) driver: Box<dyn Driver>,
    pub(crate) timers: Timers,
    pub(crate) traffic: Traffic,
    /// Something is left to do without waiting.
    pub(crate) again: bool,
    /// When this turn began: the turn's one look at the clock.
    pub(crate) now: Instant,
}

impl CoreIo {
    /// Before the first turn, which begins without waiting.
    pub(crate) fn new(driver: Box<dyn Driver>) -> Self {
        let (timers, traffic) = (Timers::default(), Traffic::default());
        Self { driver, timers, traffic, again: true, now: Instant::ZERO }
    }

    /// A turn begins.
    pub(crate) fn begin_turn(&mut self, now: Instant) {
        self.now = now;
        self.again = false;
        self.traffic.begin_turn();
    }

    /// Starts a connection's send.
    pub(crate) fn send(&mut self, slot: u32, send: Box<Send>) {
        self.traffic.sent += send.part();
        self.driver.send(slot, send);
    }
}

/// What a turn has moved.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// Bytes that connections send in it, counted anew for each turn once that comes to its sends.
    pub(crate) sent: usize,
    /// Bytes that it has taken in.
    pub(crate) received: usize,
    /// Connections with something to receive in it, as far as its events show.
    pub(crate) arrivals: usize,
}

impl Traffic {
    /// What came is counted anew. What was sent stays until the new turn sends, as it does when no turn comes to that.
    fn begin_turn(&mut self) {
        (self.received, self.arrivals) = (0, 0);
    }

    /// The most bytes that it has moved in one direction.
    pub(crate) fn moved(&self) -> usize {
        self.sent.max(self.received)
    }
}
