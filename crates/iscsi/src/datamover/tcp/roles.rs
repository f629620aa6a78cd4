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
use crate::datamover::forward::{forward_connection, forward_target};
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

    forward_target!();
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

forward_connection!([] TargetConnection, target, STAGING);
forward_connection!([] InitiatorConnection, initiator, STAGING);
