//! Both roles over a byte stream, as their drivers know them.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;

use buf::Pool;
use protocol::{Entropy, Instant, Notice};
use volume::VolumeId;

use super::connection::TcpConnection;
use super::initiator::TcpInitiator;
use super::target::TcpTarget;
use crate::connection::State;
use crate::initiator::{Config, Initiator};
use crate::target::{Portal, Resources, Target};

/// One connection of an initiator to a portal.
pub type TargetConnection = TcpConnection<Target<TcpTarget>>;

/// A connection to one target's logical unit, or to a discovery service.
pub type InitiatorConnection = TcpConnection<Initiator<TcpInitiator>>;

impl TargetConnection {
    /// A connection that was just accepted.
    pub fn new(now: Instant, portal: Arc<Portal>, resources: Resources) -> Self {
        Self::over(Target::new(now, portal, resources, TcpTarget::new()))
    }

    /// See [`Target::state`].
    pub fn state(&self) -> State {
        self.upper().state()
    }

    /// See [`Target::poll_notice`].
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.upper_mut().poll_notice()
    }

    /// See [`Target::parties`].
    pub fn parties(&self) -> (Option<String>, Option<String>) {
        self.upper().parties()
    }

    /// See [`Target::uses`].
    pub fn uses(&self, volume: VolumeId) -> bool {
        self.upper().uses(volume)
    }

    /// See [`Target::outstanding`].
    pub fn outstanding(&self) -> usize {
        self.upper().outstanding()
    }
}

impl InitiatorConnection {
    /// A connection whose transport was just established; it begins to log in.
    pub fn new(now: Instant, config: Config, pool: Pool, entropy: Box<dyn Entropy>) -> Self {
        Self::over(Initiator::new(now, config, pool, entropy, TcpInitiator::new()))
    }

    /// See [`Initiator::state`].
    pub fn state(&self) -> State {
        self.upper().state()
    }
}
