//! A driver whose queue pair shares a socket with others: an [`Owner`] for whoever has the socket.

use protocol::{Ended, Instant};
use roce::endpoint::Inbound;
use roce::train::Train;
use verbs::Consumer;

use super::{Driver, Role};
use crate::carried::Carried;
use crate::queue_pairs::{OverQueuePair, Owner};

impl<C, R> Driver<R>
where
    C: Consumer<QueuePair = roce::Connection>,
    R: Role<Connection = OverQueuePair<C>>,
{
    /// Lets the inside know of a queue pair that has ended and said so.
    fn follow_end(&mut self, now: Instant) {
        if self.connection.is_finished() {
            self.end(now, Ended::ByUs);
            self.act();
        }
    }
}

impl<C, R> Owner for Driver<R>
where
    C: Consumer<QueuePair = roce::Connection>,
    R: Role<Connection = OverQueuePair<C>>,
{
    fn handle_packet(&mut self, now: Instant, packet: Inbound<'_>) {
        self.active = true;
        self.connection.handle_packet(now, packet);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.connection.pass_deadline(now);
    }

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        self.end(now, how);
    }

    fn turn(&mut self, now: Instant) {
        self.take_turn(now);
        let reason = self.close_reason();
        self.connection.leave(now, reason);
        self.follow_end(now);
    }

    fn fill(&mut self, now: Instant, train: &mut Train) {
        self.context.now = now;
        self.connection.fill(now, train);
        self.act();
        if train.is_empty() {
            self.follow_end(now);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        // The peer is to hear of the end.
        if self.ended && self.connection.is_finished() { None } else { self.connection.next_deadline() }
    }

    fn is_gone(&self) -> bool {
        self.ended && self.has_nothing_under_way() && self.connection.is_finished()
    }

    fn expects_work(&self) -> bool {
        self.active && !self.ended
    }
}
