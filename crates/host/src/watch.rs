//! A descriptor that somebody else reads: a [`WatchEndpoint`] is told when it is readable.

use protocol::{Ended, Instant};

/// What hears of one descriptor's readiness, driven by whoever watches it.
///
/// 1. [`handle_ready`](Self::handle_ready) comes when the descriptor is readable, and takes all that there is: what is left is told of only once more has come.
/// 2. [`turn`](Self::turn) comes after it, and whenever the endpoint is woken.
/// 3. The descriptor is closed when [`is_finished`](Self::is_finished), and after [`handle_ended`](Self::handle_ended).
pub trait WatchEndpoint {
    /// The descriptor is readable, or was a moment ago.
    fn handle_ready(&mut self, now: Instant);
    /// The deadline has passed.
    fn handle_timeout(&mut self, now: Instant);
    /// The descriptor cannot be watched, or the core ends.
    fn handle_ended(&mut self, now: Instant, how: Ended);
    /// Does what has come from inside since the last turn.
    fn turn(&mut self, now: Instant);
    /// The next deadline.
    fn poll_timeout(&self) -> Option<Instant>;
    /// True when nothing is left that needs the descriptor.
    fn is_finished(&self) -> bool;
    /// True while an answer is expected within microseconds: the core may spin instead of sleeping.
    fn expects_work(&self) -> bool;
}
