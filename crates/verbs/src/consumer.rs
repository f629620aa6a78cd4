//! A protocol over a queue pair that is no stream.

use protocol::{CloseReason, Instant};

use crate::ManagedQueuePair;

/// A consumer whose queue pair stands on an endpoint that it shares with others: iSER and NVMe/RDMA over datagrams.
///
/// Over a stream of its own a consumer is a [`protocol::Connection`] and passes the stream's calls on. Here whoever has the consumer has the endpoint too: it gives the
/// queue pair its packets and takes packets from it ([`queue_pair`](Self::queue_pair)), and calls [`handle_progress`](Self::handle_progress) after either. Actions are drained after each
/// call.
pub trait Consumer {
    /// What it stands on.
    type QueuePair: ManagedQueuePair;
    /// What comes from inside.
    type Input;
    /// What goes inside.
    type Action;

    /// The queue pair, to be given packets or to send some.
    fn queue_pair(&mut self) -> &mut Self::QueuePair;

    /// The queue pair, to be asked.
    fn queue_pair_ref(&self) -> &Self::QueuePair;

    /// Takes what has completed at the queue pair, and what its set-up says.
    fn handle_progress(&mut self, now: Instant);

    /// Takes what comes from inside.
    fn handle_input(&mut self, now: Instant, input: Self::Input);

    /// Memory may have come back: goes on with what waits for it. To be told in vain does no harm.
    fn handle_memory(&mut self, _now: Instant) {}

    /// The deadline has passed, here or in the queue pair.
    fn handle_deadline(&mut self, now: Instant);

    /// The queue pair has ended and said so to its peer, or is cut off: nothing is received or sent any more. Every request that is under way still completes.
    fn handle_ended(&mut self, now: Instant);

    /// The next action, in order.
    fn poll_action(&mut self) -> Option<Self::Action>;

    /// When [`handle_deadline`](Self::handle_deadline) wants to be called.
    fn next_deadline(&self) -> Option<Instant>;

    /// True once the peer may use volumes.
    fn is_established(&self) -> bool;

    /// True while something inside waits for a buffer.
    fn awaits_memory(&self) -> bool;

    /// Why the queue pair is to end, once what waits is sent.
    fn close_reason(&self) -> Option<CloseReason>;
}
