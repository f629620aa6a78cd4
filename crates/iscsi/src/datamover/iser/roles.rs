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
use crate::datamover::forward::{forward_connection, forward_target};
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

    forward_target!();
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

/// A connection of `$role` that is a [`Consumer`] because what it has in it is one.
macro_rules! forward_consumer {
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
    };
}

forward_consumer!(TargetConnection, target);
forward_consumer!(InitiatorConnection, initiator);

forward_connection!([<Q: ConnectedQueuePair>] TargetConnection<Q>, target, Q::STAGING);
forward_connection!([<Q: ConnectedQueuePair>] InitiatorConnection<Q>, initiator, Q::STAGING);
