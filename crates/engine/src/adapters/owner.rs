//! Whoever has a queue pair of an adapter's: a driver of this process's, or a client.

use protocol::{Ended, Instant};

/// The owner of a queue pair, driven by whoever has the port.
pub(crate) trait AdapterOwner {
    /// Something has come for its queue pair.
    fn handle_progress(&mut self, now: Instant);

    /// The deadline has passed.
    fn handle_timeout(&mut self, now: Instant);

    /// The port is gone.
    fn handle_ended(&mut self, now: Instant, how: Ended);

    /// Does what has come from inside, and what has followed.
    fn turn(&mut self, now: Instant);

    /// The next deadline.
    fn poll_timeout(&self) -> Option<Instant>;

    /// True when its queue pair has ended and said so, and nothing is under way for it.
    fn is_gone(&self) -> bool;

    /// True while an answer is expected within microseconds.
    fn expects_work(&self) -> bool;
}
