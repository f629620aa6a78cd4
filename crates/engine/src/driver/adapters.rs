//! A driver whose queue pair an adapter has: an [`AdapterOwner`] for whoever has the port.

use host::AdapterPair;
use protocol::{Ended, Instant};
use verbs::Consumer;

use super::{Driver, Role};
use crate::adapters::AdapterOwner;
use crate::carried::Carried;
use crate::queue_pairs::OverQueuePair;

impl<C, R> AdapterOwner for Driver<R>
where
    C: Consumer<QueuePair = AdapterPair>,
    R: Role<Connection = OverQueuePair<C>>,
{
    fn handle_progress(&mut self, now: Instant) {
        self.active = true;
        self.connection.consumer.handle_progress(now);
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
        self.act();
        if self.connection.is_finished() {
            self.end(now, Ended::ByUs);
            self.act();
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.ended { None } else { self.connection.next_deadline() }
    }

    fn is_gone(&self) -> bool {
        self.ended && self.has_nothing_under_way()
    }

    fn expects_work(&self) -> bool {
        self.active && !self.ended
    }
}
