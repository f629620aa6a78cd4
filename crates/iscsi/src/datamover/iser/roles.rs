//! Both roles over a queue pair, as their drivers know them: consumers of any queue pair and, over one that is a byte stream of its own, connections.

use alloc::boxed::Box;
use alloc::sync::Arc;

use buf::Pool;
use protocol::{CloseReason, Connection, Ended, Entropy, Instant, Notice, Parties, Placement, Transmit};
use verbs::{ConnectedQueuePair, Consumer, ManagedQueuePair};
use volume::VolumeId;

use super::connection::RdmaConnection;
use super::initiator::IserInitiator;
use super::target::IserTarget;
use crate::connection::State;
use crate::initiator::{self, Config, Initiator};
use crate::target::{self, Portal, Resources, Target};

/// One connection of an initiator to a portal.
#[derive(Debug)]
pub struct TargetConnection<Q: ManagedQueuePair>(RdmaConnection<Target<IserTarget<Q>>>);

/// A connection to one target's logical unit, or to a discovery service.
#[derive(Debug)]
pub struct InitiatorConnection<Q: ManagedQueuePair>(RdmaConnection<Initiator<IserInitiator<Q>>>);

impl<Q: ManagedQueuePair> TargetConnection<Q> {
    /// A connection whose queue pair waits for an initiator; [`super::target_needs`] says what it must hold.
    pub fn new(now: Instant, portal: Arc<Portal>, resources: Resources, queue_pair: Q) -> Self {
        Self(RdmaConnection::over(Target::new(now, portal, resources, IserTarget::new(queue_pair))))
    }

    /// See [`Target::state`].
    pub fn state(&self) -> State {
        self.0.upper().state()
    }

    /// See [`Target::poll_notice`].
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.0.upper_mut().poll_notice()
    }

    /// See [`Target::parties`].
    pub fn parties(&self) -> Parties {
        self.0.upper().parties()
    }

    /// See [`Target::uses`].
    pub fn uses(&self, volume: VolumeId) -> bool {
        self.0.upper().uses(volume)
    }

    /// See [`Target::is_withdrawn`].
    pub fn is_withdrawn(&self) -> bool {
        self.0.upper().is_withdrawn()
    }

    /// See [`Target::reports_changes`].
    pub fn reports_changes(&self) -> bool {
        self.0.upper().reports_changes()
    }

    /// See [`Target::outstanding`].
    pub fn outstanding(&self) -> usize {
        self.0.upper().outstanding()
    }
}

impl<Q: ManagedQueuePair> InitiatorConnection<Q> {
    /// A connection whose queue pair is being set up, with [`super::private_data`] for its target; [`super::initiator_needs`] says what it must hold. It begins to log in.
    pub fn new(now: Instant, config: Config, pool: Pool, entropy: Box<dyn Entropy>, queue_pair: Q) -> Self {
        let mover = IserInitiator::new(queue_pair);
        Self(RdmaConnection::over(Initiator::new(now, config, pool, entropy, mover)))
    }

    /// See [`Initiator::state`].
    pub fn state(&self) -> State {
        self.0.upper().state()
    }
}

/// Passes each call on.
macro_rules! connection {
    ($name:ident, $role:ident) => {
        impl<Q: ManagedQueuePair> Consumer for $name<Q> {
            type QueuePair = Q;
            type Input = $role::Input;
            type Action = $role::Action;

            fn queue_pair(&mut self) -> &mut Q {
                self.0.queue_pair()
            }

            fn queue_pair_ref(&self) -> &Q {
                self.0.queue_pair_ref()
            }

            fn handle_progress(&mut self, now: Instant) {
                self.0.handle_progress(now);
            }

            fn handle_input(&mut self, now: Instant, input: Self::Input) {
                Consumer::handle_input(&mut self.0, now, input);
            }

            fn handle_memory(&mut self, now: Instant) {
                Consumer::handle_memory(&mut self.0, now);
            }

            fn handle_deadline(&mut self, now: Instant) {
                self.0.handle_deadline(now);
            }

            fn handle_ended(&mut self, now: Instant) {
                Consumer::handle_ended(&mut self.0, now);
            }

            fn poll_action(&mut self) -> Option<Self::Action> {
                Consumer::poll_action(&mut self.0)
            }

            fn next_deadline(&self) -> Option<Instant> {
                self.0.next_deadline()
            }

            fn is_established(&self) -> bool {
                Consumer::is_established(&self.0)
            }

            fn awaits_memory(&self) -> bool {
                Consumer::awaits_memory(&self.0)
            }

            fn close_reason(&self) -> Option<CloseReason> {
                self.0.close_reason()
            }
        }

        impl<Q: ConnectedQueuePair> Connection for $name<Q> {
            type Input = $role::Input;
            type Action = $role::Action;
            const STAGING: usize = Q::STAGING;

            fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
                self.0.handle_bytes(now, bytes)
            }

            fn take_placement(&mut self) -> Option<Placement> {
                self.0.take_placement()
            }

            fn handle_placed(&mut self, now: Instant, placement: Placement) {
                self.0.handle_placed(now, placement);
            }

            fn handle_input(&mut self, now: Instant, input: Self::Input) {
                Connection::handle_input(&mut self.0, now, input);
            }

            fn handle_transmitted(&mut self, now: Instant, bytes: usize) {
                self.0.handle_transmitted(now, bytes);
            }

            fn handle_timeout(&mut self, now: Instant) {
                self.0.handle_timeout(now);
            }

            fn handle_memory(&mut self, now: Instant) {
                Connection::handle_memory(&mut self.0, now);
            }

            fn handle_ended(&mut self, now: Instant, how: Ended) {
                Connection::handle_ended(&mut self.0, now, how);
            }

            fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
                self.0.poll_transmit(now, send);
            }

            fn poll_action(&mut self) -> Option<Self::Action> {
                Connection::poll_action(&mut self.0)
            }

            fn poll_timeout(&self) -> Option<Instant> {
                self.0.poll_timeout()
            }

            fn wants_bytes(&mut self) -> bool {
                self.0.wants_bytes()
            }

            fn is_established(&self) -> bool {
                Connection::is_established(&self.0)
            }

            fn awaits_memory(&self) -> bool {
                Connection::awaits_memory(&self.0)
            }

            fn poll_close(&self) -> Option<CloseReason> {
                self.0.poll_close()
            }
        }
    };
}

connection!(TargetConnection, target);
connection!(InitiatorConnection, initiator);
