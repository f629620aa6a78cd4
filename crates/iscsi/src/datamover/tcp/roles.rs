//! Both roles over a byte stream, as their drivers know them.
//!
//! They are types of their own, not names for [`TcpConnection`] of a role: so the whole path of an I/O is compiled here, in one piece, and not again with
//! each driver.

use alloc::boxed::Box;
use alloc::sync::Arc;

use buf::Pool;
use protocol::{CloseReason, Connection, Ended, Entropy, Instant, Notice, Parties, Placement, Transmit};
use volume::VolumeId;

use super::connection::TcpConnection;
use super::initiator::TcpInitiator;
use super::target::TcpTarget;
use crate::connection::State;
use crate::initiator::{self, Config, Initiator};
use crate::limits::STAGING;
use crate::target::{self, Portal, Resources, Target};

/// One connection of an initiator to a portal.
#[derive(Debug)]
pub struct TargetConnection(TcpConnection<Target<TcpTarget>>);

/// A connection to one target's logical unit, or to a discovery service.
#[derive(Debug)]
pub struct InitiatorConnection(TcpConnection<Initiator<TcpInitiator>>);

impl TargetConnection {
    /// A connection that was just accepted.
    pub fn new(now: Instant, portal: Arc<Portal>, resources: Resources) -> Self {
        Self(TcpConnection::over(Target::new(now, portal, resources, TcpTarget::new())))
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

impl InitiatorConnection {
    /// A connection whose transport was just established; it begins to log in.
    pub fn new(now: Instant, config: Config, pool: Pool, entropy: Box<dyn Entropy>) -> Self {
        Self(TcpConnection::over(Initiator::new(now, config, pool, entropy, TcpInitiator::new())))
    }

    /// See [`Initiator::state`].
    pub fn state(&self) -> State {
        self.0.upper().state()
    }
}

/// Passes each call on.
macro_rules! connection {
    ($name:ident, $role:ident) => {
        impl Connection for $name {
            type Input = $role::Input;
            type Action = $role::Action;
            const STAGING: usize = STAGING;

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
                self.0.handle_input(now, input);
            }

            fn handle_transmitted(&mut self, now: Instant, bytes: usize) {
                self.0.handle_transmitted(now, bytes);
            }

            fn handle_timeout(&mut self, now: Instant) {
                self.0.handle_timeout(now);
            }

            fn handle_memory(&mut self, now: Instant) {
                self.0.handle_memory(now);
            }

            fn handle_ended(&mut self, now: Instant, how: Ended) {
                self.0.handle_ended(now, how);
            }

            fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
                self.0.poll_transmit(now, send);
            }

            fn poll_action(&mut self) -> Option<Self::Action> {
                self.0.poll_action()
            }

            fn poll_timeout(&self) -> Option<Instant> {
                self.0.poll_timeout()
            }

            fn wants_bytes(&mut self) -> bool {
                self.0.wants_bytes()
            }

            fn is_established(&self) -> bool {
                self.0.is_established()
            }

            fn awaits_memory(&self) -> bool {
                self.0.awaits_memory()
            }

            fn poll_close(&self) -> Option<CloseReason> {
                self.0.poll_close()
            }
        }
    };
}

connection!(TargetConnection, target);
connection!(InitiatorConnection, initiator);
