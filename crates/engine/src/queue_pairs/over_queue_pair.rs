//! A consumer over a queue pair that is no stream, as drivers see it.

use protocol::{CloseReason, Ended, Instant};
use roce::endpoint::Inbound;
use roce::train::Train;
use verbs::{Consumer, ManagedQueuePair as _, QueuePair as _, QueuePairState};

use super::finishing::Finishing;
use crate::carried::Carried;
use crate::limits::{FILLS, LAST_PACKETS};

/// A consumer with its queue pair, which shares its socket or its adapter with others.
pub(crate) struct OverQueuePair<C> {
    pub(crate) consumer: C,
    /// When a connection that is to end is cut off: what it has to say is sent until then.
    leave_at: Option<Instant>,
}

impl<C: Consumer<QueuePair: Finishing>> OverQueuePair<C> {
    /// A consumer whose queue pair has just begun: its set-up is answered, and its receives are posted.
    pub(crate) fn new(now: Instant, mut consumer: C) -> Self {
        consumer.handle_progress(now);
        Self { consumer, leave_at: None }
    }

    /// Ends the queue pair of a connection that is to end and does not come to it by itself.
    pub(crate) fn leave(&mut self, now: Instant, reason: Option<CloseReason>) {
        let Some(reason) = reason.filter(|_| self.is_open()) else { return };
        let leave_at = *self.leave_at.get_or_insert(now + LAST_PACKETS);
        if leave_at <= now || matches!(reason, CloseReason::Withdrawn(_)) {
            self.cut(now);
        }
    }

    /// Ends the queue pair of a connection that is to end and has nothing to say any more: nothing that was given up is sent, not even again.
    pub(crate) fn leave_at_once(&mut self, now: Instant) {
        if self.consumer.close_reason().is_some() && self.is_open() {
            self.cut(now);
        }
    }

    fn cut(&mut self, now: Instant) {
        self.consumer.queue_pair().disconnect();
        self.consumer.handle_progress(now);
    }

    fn is_open(&self) -> bool {
        self.consumer.queue_pair_ref().state() == QueuePairState::Open
    }

    /// True once the queue pair has ended, and has said so.
    pub(crate) fn is_finished(&self) -> bool {
        self.consumer.queue_pair_ref().is_finished()
    }

    /// True once both sides can send.
    pub(crate) fn is_connected(&self) -> bool {
        self.consumer.queue_pair_ref().is_connected()
    }
}

impl<C: Consumer<QueuePair = roce::Connection>> OverQueuePair<C> {
    /// A packet has come.
    pub(crate) fn handle_packet(&mut self, now: Instant, packet: Inbound<'_>) {
        self.consumer.queue_pair().handle_packet(now, packet);
        self.consumer.handle_progress(now);
    }

    /// Fills a train, which is empty. What needs no sending may complete, and more may be posted for it.
    pub(crate) fn fill(&mut self, now: Instant, train: &mut Train) {
        for _ in 0..FILLS {
            self.consumer.queue_pair().poll_transmit(now, train);
            self.consumer.handle_progress(now);
            if !train.is_empty() {
                return;
            }
        }
    }
}

impl<C: Consumer<QueuePair: Finishing>> Carried for OverQueuePair<C> {
    type Input = C::Input;
    type Action = C::Action;

    #[inline]
    fn take_input(&mut self, now: Instant, input: C::Input) {
        self.consumer.handle_input(now, input);
    }

    fn pass_deadline(&mut self, now: Instant) {
        self.consumer.handle_deadline(now);
    }

    fn end(&mut self, now: Instant, _how: Ended) {
        self.consumer.queue_pair().disconnect();
        self.consumer.handle_ended(now);
    }

    #[inline]
    fn next_action(&mut self) -> Option<C::Action> {
        self.consumer.poll_action()
    }

    fn next_deadline(&self) -> Option<Instant> {
        let leave_at = self.leave_at.filter(|_| self.is_open());
        [self.consumer.next_deadline(), leave_at].into_iter().flatten().min()
    }

    fn is_in(&self) -> bool {
        self.consumer.is_established()
    }

    fn retry_memory(&mut self, now: Instant) {
        if self.consumer.awaits_memory() {
            self.consumer.handle_memory(now);
        }
    }

    fn waits_for_memory(&mut self) -> bool {
        self.consumer.awaits_memory()
    }

    fn close_reason(&self) -> Option<CloseReason> {
        self.consumer.close_reason()
    }
}
