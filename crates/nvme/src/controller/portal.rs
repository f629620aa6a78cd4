//! What is served on one listener, and how much of it a host sees.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;

use volume::{Geometry, VolumeId};

use super::discovery_log::{Discovery, DiscoveryLog};
use super::subsystem::Subsystem;
use crate::log::TransportType;

/// Everything that is served on one listener.
#[derive(Debug, Clone)]
pub struct Portal {
    /// The subsystems, of different names. One that is the same in the portal that takes the place of this one is unchanged to its hosts.
    pub subsystems: Vec<Arc<Subsystem>>,
    /// Where hosts reach this portal, for the discovery log page.
    pub advertised: Vec<SocketAddr>,
    /// Discovery services elsewhere that the discovery log page refers to.
    pub referrals: Vec<SocketAddr>,
    /// Moves whenever the discovery log page changes (GENCTR): whoever makes the portal counts.
    pub generation: u64,
    /// The discovery log page of who may see everything over TCP; [`Portal::with_log`] makes it.
    pub log: DiscoveryLog,
    /// Header and data digests are required: a host that does not ask for both is sent away.
    pub require_digests: bool,
}

impl Portal {
    /// The same, with the image of its discovery log page, for all that the portal names now.
    #[must_use]
    pub fn with_log(mut self) -> Self {
        self.log = DiscoveryLog::of(self.discovery(TransportType::Tcp));
        self
    }

    /// What the discovery log page says of the portal to a host that has come over this transport.
    pub(super) fn discovery(&self, transport: TransportType) -> Discovery<'_> {
        Discovery {
            transport,
            subsystems: &self.subsystems,
            advertised: &self.advertised,
            referrals: &self.referrals,
            generation: self.generation,
        }
    }

    /// The subsystem of that name.
    pub(super) fn find(&self, nqn: &str) -> Option<&Arc<Subsystem>> {
        self.subsystems.iter().find(|subsystem| *subsystem.nqn == *nqn)
    }

    /// The portal as the discovery service shows it to a host: subsystems that it may not use are not there.
    pub(super) fn masked(self: &Arc<Self>, hostnqn: &str) -> Arc<Self> {
        if self.subsystems.iter().all(|subsystem| subsystem.allows(hostnqn)) {
            return Arc::clone(self);
        }
        let allowed = self.subsystems.iter().filter(|subsystem| subsystem.allows(hostnqn));
        Arc::new(Self {
            subsystems: allowed.map(Arc::clone).collect(),
            advertised: self.advertised.clone(),
            referrals: self.referrals.clone(),
            log: DiscoveryLog::default(),
            ..**self
        })
    }

    /// The volume has this size from now on, for queues that connect later.
    pub fn resize(&mut self, volume: VolumeId, geometry: Geometry) {
        let concerned = self.subsystems.iter_mut().filter(|subsystem| subsystem.uses(volume));
        concerned.for_each(|subsystem| Arc::make_mut(subsystem).resize(volume, geometry));
    }
}
