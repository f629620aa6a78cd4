//! An upper layer over a queue pair: a [`Consumer`] of any queue pair and, over one that is a byte stream of its own, one connection for whoever moves the bytes.

use protocol::{CloseReason, Connection, Ended, Instant, Placement, Transmit};
use verbs::{
    ConnectedQueuePair, Consumer, EndReason, ManagedQueuePair, QueuePair as _, QueuePairState, SetupEvent,
};

use super::channel::{Channel, Delivery};
use super::message::Message;
use crate::datamover::UpperLayer;

/// Why a connection ends whose queue pair does.
const LOST: &str = "the connection to the peer was lost";

/// A role's datamover over a queue pair, for an upper layer that owns it.
pub(crate) trait RdmaMover<U> {
    /// What it stands on.
    type QueuePair: ManagedQueuePair;

    /// The queue pair, and what is posted to it.
    fn channel(&mut self) -> &mut Channel<Self::QueuePair>;

    /// The same, to be asked.
    fn channel_ref(&self) -> &Channel<Self::QueuePair>;

    /// True when the peer had better take what waits first.
    fn is_full(&self) -> bool;

    /// True when everything that was to be sent has gone out.
    fn is_idle(&self) -> bool;

    /// The connection is being set up.
    fn handle_setup(upper: &mut U, now: Instant, event: SetupEvent);

    /// Takes what has completed; false if there was nothing.
    fn handle_completions(upper: &mut U, now: Instant) -> bool;

    /// Handles a message; gives it back if it is to stay where it is.
    fn handle_message(upper: &mut U, message: Message) -> Option<Message>;

    /// Posts what can be posted of what waits; false if there was nothing.
    fn send(upper: &mut U) -> bool;

    /// The transport is gone: nothing is sent or received any more.
    fn end(&mut self);
}

/// One connection over a queue pair.
#[derive(Debug)]
pub(super) struct RdmaConnection<U> {
    upper: U,
}

impl<U: UpperLayer> RdmaConnection<U>
where
    U::Mover: RdmaMover<U>,
{
    /// Drives this upper layer.
    pub(super) fn over(upper: U) -> Self {
        Self { upper }
    }

    pub(super) fn upper(&self) -> &U {
        &self.upper
    }

    pub(super) fn upper_mut(&mut self) -> &mut U {
        &mut self.upper
    }

    /// One call of the driver: something happens, and what follows from it is carried on as far as it goes.
    fn turn<T>(&mut self, now: Instant, happen: impl FnOnce(&mut U) -> T) -> T {
        self.upper.begin_turn(now);
        let result = happen(&mut self.upper);
        advance(&mut self.upper, now);
        self.upper.end_turn();
        result
    }
}

/// Carries on what can go on; false if there was nothing.
fn advance<U: UpperLayer>(upper: &mut U, now: Instant) -> bool
where
    U::Mover: RdmaMover<U>,
{
    let mut any = false;
    loop {
        while let Some(event) = upper.mover().channel().queue_pair.poll_event() {
            U::Mover::handle_setup(upper, now, event);
        }
        let moved = U::Mover::handle_completions(upper, now) | receive(upper) | U::Mover::send(upper);
        if !moved {
            return any;
        }
        any = true;
    }
}

/// Takes messages while they are wanted.
fn receive<U: UpperLayer>(upper: &mut U) -> bool
where
    U::Mover: RdmaMover<U>,
{
    let mut any = false;
    while !upper.is_over() && !upper.mover().is_full() && !upper.is_withheld() {
        let Some(message) = upper.mover().channel().inbox.pop_front() else { break };
        if let Some(message) = U::Mover::handle_message(upper, message) {
            upper.mover().channel().inbox.push_front(message);
            break;
        }
        any = true;
    }
    any
}

impl<U: UpperLayer> RdmaConnection<U>
where
    U::Mover: RdmaMover<U>,
{
    /// Nothing is received or sent any more.
    fn end(&mut self, now: Instant, how: Ended) {
        self.turn(now, |upper| {
            U::Mover::handle_completions(upper, now);
            upper.mover().end();
            upper.handle_ended(how);
        });
    }

    /// Follows the end of the upper layer in the queue pair, and the other way round.
    fn settle(&mut self, now: Instant) {
        match self.queue_pair_ref().state() {
            QueuePairState::Open => {
                if self.upper.poll_close().is_some() && self.upper.mover_ref().is_idle() {
                    self.queue_pair().disconnect();
                }
            }
            QueuePairState::Ended(_) if self.upper.is_over() => {}
            QueuePairState::Ended(why) => {
                let why = match why {
                    EndReason::Terminated(text) | EndReason::Violation(text) => text,
                    EndReason::ByUs | EndReason::ByPeer | EndReason::Lost => LOST,
                };
                self.turn(now, |upper| {
                    upper.mover().end();
                    upper.terminate_notify(why);
                });
            }
        }
    }

    /// Begins to watch what is under way once something is: over datagrams only an acknowledgement says that the peer has taken it.
    fn watch_acknowledgements(&mut self) {
        match self.upper.mover().channel().take_delivery() {
            Delivery::Pending => {}
            Delivery::GoesOn => self.upper.send_begun_notify(),
            Delivery::Done => self.upper.send_done_notify(),
        }
    }
}

impl<U: UpperLayer> Consumer for RdmaConnection<U>
where
    U::Mover: RdmaMover<U>,
{
    type QueuePair = <U::Mover as RdmaMover<U>>::QueuePair;
    type Input = U::Input;
    type Action = U::Action;

    fn queue_pair(&mut self) -> &mut Self::QueuePair {
        &mut self.upper.mover().channel().queue_pair
    }

    fn queue_pair_ref(&self) -> &Self::QueuePair {
        &self.upper.mover_ref().channel_ref().queue_pair
    }

    fn handle_progress(&mut self, now: Instant) {
        self.turn(now, |_| ());
        if self.upper.mover().channel().take_heard() {
            self.upper.hear();
        }
        self.settle(now);
        self.watch_acknowledgements();
    }

    fn handle_input(&mut self, now: Instant, input: Self::Input) {
        self.turn(now, |upper| upper.handle_input(input));
    }

    fn handle_memory(&mut self, now: Instant) {
        self.turn(now, UpperLayer::handle_memory);
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.turn(now, |upper| {
            upper.mover().channel().queue_pair.handle_deadline(now);
            upper.handle_timeout();
        });
    }

    fn handle_ended(&mut self, now: Instant) {
        self.end(now, Ended::ByUs);
    }

    fn poll_action(&mut self) -> Option<Self::Action> {
        self.upper.poll_action()
    }

    fn next_deadline(&self) -> Option<Instant> {
        [self.queue_pair_ref().next_deadline(), self.upper.poll_timeout()].into_iter().flatten().min()
    }

    fn is_established(&self) -> bool {
        self.upper.is_established()
    }

    fn awaits_memory(&self) -> bool {
        self.upper.awaits_memory() || !self.upper.mover_ref().channel_ref().inbox.is_empty()
    }

    fn close_reason(&self) -> Option<CloseReason> {
        self.upper.poll_close().or_else(|| self.queue_pair_ref().close_reason())
    }
}

impl<U: UpperLayer> Connection for RdmaConnection<U>
where
    U::Mover: RdmaMover<U>,
    <U::Mover as RdmaMover<U>>::QueuePair: ConnectedQueuePair,
{
    type Input = U::Input;
    type Action = U::Action;
    const STAGING: usize = <<U::Mover as RdmaMover<U>>::QueuePair as Connection>::STAGING;

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        self.turn(now, |upper| {
            let used = upper.mover().channel().queue_pair.handle_bytes(now, bytes);
            if used > 0 {
                upper.hear();
            }
            used
        })
    }

    fn take_placement(&mut self) -> Option<Placement> {
        self.queue_pair().take_placement()
    }

    fn handle_placed(&mut self, now: Instant, placement: Placement) {
        self.turn(now, |upper| {
            upper.hear();
            upper.mover().channel().queue_pair.handle_placed(now, placement);
        });
    }

    fn handle_input(&mut self, now: Instant, input: Self::Input) {
        Consumer::handle_input(self, now, input);
    }

    fn handle_transmitted(&mut self, now: Instant, bytes: usize) {
        self.turn(now, |upper| {
            upper.mover().channel().queue_pair.handle_transmitted(now, bytes);
            upper.send_done_notify();
        });
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.handle_deadline(now);
    }

    fn handle_memory(&mut self, now: Instant) {
        Consumer::handle_memory(self, now);
    }

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        self.queue_pair().handle_ended(now, how);
        self.end(now, how);
    }

    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
        self.turn(now, |_| ());
        self.queue_pair().poll_transmit(now, send);
        // What needs no sending may have completed: without a send nobody would come back for it.
        while send.is_empty() && advance(&mut self.upper, now) {
            self.upper.end_turn();
            self.queue_pair().poll_transmit(now, send);
        }
        if !send.is_empty() {
            self.upper.send_begun_notify();
        }
    }

    fn poll_action(&mut self) -> Option<Self::Action> {
        Consumer::poll_action(self)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next_deadline()
    }

    fn wants_bytes(&mut self) -> bool {
        self.upper.is_over() || self.queue_pair().wants_bytes()
    }

    fn is_established(&self) -> bool {
        Consumer::is_established(self)
    }

    fn awaits_memory(&self) -> bool {
        Consumer::awaits_memory(self)
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.close_reason()
    }
}
