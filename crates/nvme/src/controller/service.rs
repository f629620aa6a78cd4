//! What a controller is for: a subsystem, or discovery (NVMe Base §3.1.3). Each as its host sees it.

use alloc::sync::Arc;

use buf::SharedBuf;
use volume::{Geometry, VolumeId};

use super::portal::Portal;
use super::subsystem::Subsystem;
use crate::log::TransportType;

/// What a controller is for.
#[derive(Debug)]
pub(super) enum Service {
    /// I/O to a subsystem's namespaces, without those that the host may not use.
    Subsystem(Arc<Subsystem>),
    /// Discovery of subsystems.
    Discovery(DiscoveryService),
}

impl Service {
    /// The subsystem, if that is what the controller is for.
    pub(super) fn subsystem(&self) -> Option<&Subsystem> {
        match self {
            Self::Subsystem(subsystem) => Some(subsystem),
            Self::Discovery(_) => None,
        }
    }

    /// A volume has another size: the subsystem, if that has a namespace on it.
    pub(super) fn resize(&mut self, volume: VolumeId, geometry: Geometry) -> Option<&Subsystem> {
        let Self::Subsystem(subsystem) = self else { return None };
        if !subsystem.uses(volume) {
            return None;
        }
        Arc::make_mut(subsystem).resize(volume, geometry);
        Some(subsystem)
    }
}

/// Discovery on a portal.
#[derive(Debug)]
pub(super) struct DiscoveryService {
    /// The portal without the subsystems that the host may not use.
    portal: Arc<Portal>,
    /// How the host has come.
    transport: TransportType,
    /// The discovery log page, where this host sees another one than everybody, and has asked for it.
    own_log: Option<SharedBuf>,
}

impl DiscoveryService {
    /// What a host finds on a portal that has come over this transport.
    pub(super) fn new(portal: &Arc<Portal>, hostnqn: &str, transport: TransportType) -> Self {
        Self { portal: portal.masked(hostnqn), transport, own_log: None }
    }

    /// The discovery log page: the portal's image, or one of its own, which is made once.
    pub(super) fn log(&mut self) -> SharedBuf {
        let (portal, transport) = (&self.portal, self.transport);
        let shared = portal.log.page().filter(|_| transport == TransportType::Tcp);
        shared
            .unwrap_or_else(|| self.own_log.get_or_insert_with(|| portal.discovery(transport).page()).clone())
    }

    /// Bytes that it keeps.
    pub(super) fn size(&self) -> usize {
        self.own_log.as_ref().map_or(0, |log| log.len())
    }

    /// Another portal is in the place of this one. True if the page has other entries from now on.
    pub(super) fn replace(&mut self, portal: &Arc<Portal>, hostnqn: &str) -> bool {
        let transport = self.transport;
        let before = core::mem::replace(self, Self::new(portal, hostnqn, transport));
        !before.portal.discovery(transport).has_entries_of(self.portal.discovery(transport))
    }
}
