//! What drivers ask of a connection, whatever carries it: all but how bytes or packets come and go.

use protocol::{CloseReason, Connection, Ended, Instant};

/// A connection as its driver sees it between what comes and what goes.
pub(crate) trait Carried {
    /// What comes from inside.
    type Input;
    /// What goes inside.
    type Action;

    fn take_input(&mut self, now: Instant, input: Self::Input);
    fn pass_deadline(&mut self, now: Instant);
    fn end(&mut self, now: Instant, how: Ended);
    fn next_action(&mut self) -> Option<Self::Action>;
    fn next_deadline(&self) -> Option<Instant>;
    fn is_in(&self) -> bool;

    /// Goes on with what waits for memory, as some may have come back.
    fn retry_memory(&mut self, now: Instant);

    /// True while it takes nothing, or something inside waits for a buffer.
    fn waits_for_memory(&mut self) -> bool;

    /// Why it is to end, once everything is sent.
    fn close_reason(&self) -> Option<CloseReason>;
}

impl<C: Connection> Carried for C {
    type Input = C::Input;
    type Action = C::Action;

    #[inline]
    fn take_input(&mut self, now: Instant, input: C::Input) {
        self.handle_input(now, input);
    }

    fn pass_deadline(&mut self, now: Instant) {
        self.handle_timeout(now);
    }

    fn end(&mut self, now: Instant, how: Ended) {
        self.handle_ended(now, how);
    }

    #[inline]
    fn next_action(&mut self) -> Option<C::Action> {
        self.poll_action()
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.poll_timeout()
    }

    fn is_in(&self) -> bool {
        self.is_established()
    }

    #[inline]
    fn retry_memory(&mut self, now: Instant) {
        if self.awaits_memory() {
            self.handle_memory(now);
        }
    }

    fn waits_for_memory(&mut self) -> bool {
        !self.wants_bytes() || self.awaits_memory()
    }

    fn close_reason(&self) -> Option<CloseReason> {
        self.poll_close()
    }
}
