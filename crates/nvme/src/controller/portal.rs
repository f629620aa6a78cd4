//! What is served on one listener, and how much of it a host sees.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;

use volume::{Geometry, VolumeId};

use super::discovery_log::{Discovery, DiscoveryLog};
use super::subsystem::{Hosts, Namespace, Subsystem};

/// Everything that is served on one listener.
#[derive(Debug, Clone)]
pub struct Portal {
    /// The subsystems, of different names.
    pub subsystems: Vec<Subsystem>,
    /// Where hosts reach this portal, for the discovery log page.
    pub advertised: Vec<SocketAddr>,
    /// Discovery services elsewhere that the discovery log page refers to.
    pub referrals: Vec<SocketAddr>,
    /// Moves whenever the discovery log page changes.
    pub generation: u64,
    /// The discovery log page of who may see everything; [`Portal::with_log`] makes it.
    pub log: DiscoveryLog,
    /// Header and data digests are required: a host that does not ask for both is sent away.
    pub require_digests: bool,
}

impl Portal {
    /// The same, with the image of its discovery log page, for all that the portal names now.
    #[must_use]
    pub fn with_log(mut self) -> Self {
        self.log = DiscoveryLog::of(self.discovery());
        self
    }

    /// What the discovery log page says of the portal.
    pub(super) fn discovery(&self) -> Discovery<'_> {
        Discovery {
            subsystems: &self.subsystems,
            advertised: &self.advertised,
            referrals: &self.referrals,
            generation: self.generation,
        }
    }

    /// The portal as a host sees it: subsystems and namespaces that it may not use are not there.
    pub(super) fn masked(self: &Arc<Self>, hostnqn: &str) -> Arc<Self> {
        let whole = |subsystem: &Subsystem| subsystem.allows(hostnqn) && subsystem.shows_all(hostnqn);
        if self.subsystems.iter().all(whole) {
            return Arc::clone(self);
        }
        let allowed = self.subsystems.iter().filter(|subsystem| subsystem.allows(hostnqn));
        let subsystems = allowed.map(|subsystem| {
            let shown = |namespace: &&Namespace| subsystem.shows(hostnqn, namespace.nsid);
            Subsystem {
                nqn: Arc::clone(&subsystem.nqn),
                serial: subsystem.serial.clone(),
                model: subsystem.model.clone(),
                firmware: subsystem.firmware.clone(),
                hosts: Hosts::Any,
                namespaces: subsystem.namespaces.iter().filter(shown).cloned().collect(),
                limits: subsystem.limits,
            }
        });
        Arc::new(Self {
            subsystems: subsystems.collect(),
            advertised: self.advertised.clone(),
            referrals: self.referrals.clone(),
            log: DiscoveryLog::default(),
            ..**self
        })
    }

    /// The volume has this size from now on, for queues that connect later.
    pub fn resize(&mut self, volume: VolumeId, geometry: Geometry) {
        let namespaces = self.subsystems.iter_mut().flat_map(|subsystem| &mut subsystem.namespaces);
        namespaces.filter(|namespace| namespace.volume == volume).for_each(|namespace| {
            namespace.geometry = geometry;
        });
    }
}
