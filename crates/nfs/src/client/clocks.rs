//! When a client's connection does something by itself, in any version: signs of life, another look at the file's size, a step that is made again, and what has taken too long.

use alloc::format;
use alloc::string::String;
use core::time::Duration;

use protocol::Instant;

use super::limits::{LEAVE_TIME, PAUSE_FIRST, PAUSE_MOST, PING_INTERVAL, PING_TIME};

/// What has taken too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overdue {
    /// Opening, or leaving.
    Passage,
    /// The answer to a sign of life.
    Answer,
}

/// The clocks of one connection.
#[derive(Debug)]
pub(super) struct Clocks {
    /// The file is open, and the connection is to stay.
    open: bool,
    /// When the server was last heard of.
    heard: Instant,
    /// When the answer to a sign of life is due.
    answer_due: Option<Instant>,
    /// When the file's size is asked for again.
    look_at: Option<Instant>,
    /// When a step is made again.
    again: Option<Instant>,
    /// How long that is put off the next time.
    pause: Duration,
    /// When opening, or leaving, has taken too long.
    deadline: Option<Instant>,
}

impl Clocks {
    /// Clocks that stand still.
    pub(super) fn new() -> Self {
        Self {
            open: false,
            heard: Instant::ZERO,
            answer_due: None,
            look_at: None,
            again: None,
            pause: PAUSE_FIRST,
            deadline: None,
        }
    }

    /// The connection is made; opening may take a little less than `command_time`, which whoever waits for it has: so what it is told is why.
    pub(super) fn start(&mut self, now: Instant, command_time: Duration) {
        self.heard = now;
        self.deadline = Some(now + command_time.saturating_sub(command_time / 16));
    }

    /// Something has come from the server, or must come.
    pub(super) fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// A step is to be made again a little later, and each time later than before.
    pub(super) fn put_off(&mut self, now: Instant) {
        self.again = Some(now + self.pause);
        self.pause = self.pause.saturating_mul(2).min(PAUSE_MOST);
    }

    /// A step was taken.
    pub(super) fn went_on(&mut self) {
        self.pause = PAUSE_FIRST;
    }

    /// The file is open.
    pub(super) fn open(&mut self, now: Instant) {
        self.open = true;
        (self.deadline, self.again) = (None, None);
        self.look_at = Some(now + PING_INTERVAL);
    }

    /// The connection is to end in order.
    pub(super) fn leave(&mut self, now: Instant) {
        self.open = false;
        self.look_at = None;
        self.deadline = Some(now + LEAVE_TIME);
    }

    /// The connection is over.
    pub(super) fn stop(&mut self) {
        self.open = false;
        (self.deadline, self.again, self.answer_due, self.look_at) = (None, None, None, None);
    }

    /// A sign of life was asked for.
    pub(super) fn ping(&mut self, now: Instant) {
        self.answer_due = Some(now + PING_TIME);
    }

    /// It was given.
    pub(super) fn pinged(&mut self) {
        self.answer_due = None;
    }

    /// What has taken too long.
    pub(super) fn overdue(&self, now: Instant) -> Option<Overdue> {
        let is_over = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        if is_over(self.deadline) {
            return Some(Overdue::Passage);
        }
        is_over(self.answer_due).then_some(Overdue::Answer)
    }

    /// True if a step is to be made again now; once.
    pub(super) fn take_again(&mut self, now: Instant) -> bool {
        self.again.take_if(|again| *again <= now).is_some()
    }

    /// True if a sign of life is to be asked for now.
    pub(super) fn wants_ping(&self, now: Instant) -> bool {
        self.next_ping().is_some_and(|ping| ping <= now)
    }

    /// True if the file's size is to be asked for now; once.
    pub(super) fn take_look(&mut self, now: Instant) -> bool {
        let is_due = self.look_at.take_if(|look_at| *look_at <= now).is_some();
        if is_due {
            self.look_at = Some(now + PING_INTERVAL);
        }
        is_due
    }

    fn next_ping(&self) -> Option<Instant> {
        (self.open && self.answer_due.is_none()).then(|| self.heard + PING_INTERVAL)
    }

    /// When they are to be looked at next.
    pub(super) fn next(&self) -> Option<Instant> {
        let all = [self.deadline, self.again, self.answer_due, self.next_ping(), self.look_at];
        all.into_iter().flatten().min()
    }
}

/// What users read where a sign of life was not given.
pub(super) fn silent() -> String {
    format!("the server has not answered for {} s", PING_TIME.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_open_file_is_asked_for_after_silence_and_a_missing_answer_is_noticed() {
        let mut clocks = Clocks::new();
        clocks.start(Instant::ZERO, 16 * SECOND);
        assert_eq!(clocks.next(), Some(Instant::ZERO + 15 * SECOND));
        assert_eq!(clocks.overdue(Instant::ZERO + 15 * SECOND), Some(Overdue::Passage));
        clocks.open(Instant::ZERO + SECOND);
        assert_eq!(clocks.next(), Some(Instant::ZERO + PING_INTERVAL), "of silence, since it began");
        let now = Instant::ZERO + PING_INTERVAL;
        assert!(clocks.wants_ping(now) && !clocks.take_look(now) && clocks.overdue(now).is_none());
        clocks.ping(now);
        assert!(!clocks.wants_ping(now + PING_INTERVAL) && clocks.take_look(now + PING_INTERVAL));
        assert_eq!(clocks.overdue(now + PING_TIME), Some(Overdue::Answer));
        clocks.pinged();
        assert!(clocks.overdue(now + PING_TIME).is_none());
    }

    #[test]
    fn what_is_put_off_comes_once_and_later_each_time() {
        let mut clocks = Clocks::new();
        let mut now = Instant::ZERO;
        let pauses = [20, 40, 80, 160, 320, 640, 1000, 1000];
        for pause in pauses.map(Duration::from_millis) {
            clocks.put_off(now);
            assert_eq!(clocks.next(), Some(now + pause));
            assert!(!clocks.take_again(now));
            now = now + pause;
            assert!(clocks.take_again(now) && !clocks.take_again(now));
        }
        clocks.went_on();
        clocks.put_off(now);
        assert_eq!(clocks.next(), Some(now + PAUSE_FIRST));
    }

    #[test]
    fn who_leaves_asks_for_nothing_and_who_has_left_looks_at_no_clock() {
        let mut clocks = Clocks::new();
        clocks.start(Instant::ZERO, SECOND);
        clocks.open(Instant::ZERO);
        clocks.put_off(Instant::ZERO);
        clocks.ping(Instant::ZERO);
        clocks.pinged();
        clocks.leave(Instant::ZERO);
        let late = Instant::ZERO + PING_INTERVAL;
        assert!(!clocks.wants_ping(late) && !clocks.take_look(late));
        assert_eq!(clocks.overdue(Instant::ZERO + LEAVE_TIME), Some(Overdue::Passage));
        clocks.stop();
        assert_eq!(clocks.next(), None);
    }
}
