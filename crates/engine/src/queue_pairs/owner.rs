//! Whoever has a queue pair of a socket's: a driver of this process's, or a client.

use protocol::{Ended, Instant};
use roce::endpoint::Inbound;
use roce::train::Train;

/// The owner of a queue pair, driven by whoever has the socket.
pub(crate) trait Owner {
    /// A packet has come for its queue pair.
    fn handle_packet(&mut self, now: Instant, packet: Inbound<'_>);

    /// The deadline has passed.
    fn handle_timeout(&mut self, now: Instant);

    /// The socket is gone.
    fn handle_ended(&mut self, now: Instant, how: Ended);

    /// Does what has come from inside, and what has followed.
    fn turn(&mut self, now: Instant);

    /// Fills a train, which is empty, if there is anything to send.
    fn fill(&mut self, now: Instant, train: &mut Train);

    /// The next deadline.
    fn poll_timeout(&self) -> Option<Instant>;

    /// True when its queue pair has ended and said so, and nothing is under way for it.
    fn is_gone(&self) -> bool;

    /// True while an answer is expected within microseconds.
    fn expects_work(&self) -> bool;
}
