//! A subsystem as it is served: its namespaces, its hosts, and what its controllers offer (NVMe Base §3.1, §4.7).

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use volume::{Features, Geometry, Limits, VolumeId};

use crate::limits::LEAST_TRANSFER;

/// One namespace of a subsystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// Its identifier, 1 or above.
    pub nsid: u32,
    /// The volume behind it.
    pub volume: VolumeId,
    /// The volume's shape.
    pub geometry: Geometry,
    /// The volume's limits.
    pub limits: Limits,
    /// The volume's features.
    pub features: Features,
    /// Globally unique identifier.
    pub nguid: [u8; 16],
    /// IEEE extended unique identifier, if there is one.
    pub eui64: Option<[u8; 8]>,
    /// UUID.
    pub uuid: [u8; 16],
    /// What changes whenever writes that were acknowledged and not flushed may be lost; `None` shows no such mark.
    pub incarnation: Option<[u8; 16]>,
}

/// What makes a namespace itself: with another volume behind it it is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NamespaceKey {
    pub(crate) nsid: u32,
    pub(crate) volume: VolumeId,
}

impl Namespace {
    pub(crate) fn key(&self) -> NamespaceKey {
        NamespaceKey { nsid: self.nsid, volume: self.volume }
    }
}

/// Which hosts may use a subsystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hosts {
    /// Every host, all of it.
    Any,
    /// These hosts.
    Listed(Vec<AllowedHost>),
}

/// A host that may use a subsystem, or some of its namespaces. Several entries of one name add up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedHost {
    /// Its name, byte for byte (NVMe Base §4.7).
    pub nqn: String,
    /// The identifiers of the namespaces that it may use; `None` is all of them.
    pub namespaces: Option<Vec<u32>>,
}

impl From<&str> for AllowedHost {
    /// The host of this name, for the whole subsystem.
    fn from(nqn: &str) -> Self {
        Self { nqn: nqn.to_owned(), namespaces: None }
    }
}

impl AllowedHost {
    /// True when it is the host that calls itself so. A host without a name, an empty one, is in no list.
    fn names(&self, hostnqn: &str) -> bool {
        !hostnqn.is_empty() && self.nqn == hostnqn
    }
}

/// What a controller offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLimits {
    /// I/O queues of one controller.
    pub queues: u16,
    /// Entries of one queue, 2 or above.
    pub depth: u16,
    /// The longest transfer of one command, in bytes; rounded down to a power of two, 8 KiB or above.
    pub max_transfer: u32,
    /// In-capsule data, in bytes, a multiple of 16: writes up to here save a round trip.
    pub in_capsule: u32,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self { queues: 64, depth: 128, max_transfer: 1 << 20, in_capsule: 16 << 10 }
    }
}

/// One subsystem.
#[derive(Debug, Clone)]
pub struct Subsystem {
    /// Its qualified name.
    pub nqn: Arc<str>,
    /// Serial number, up to 20 ASCII characters.
    pub serial: String,
    /// Model number, up to 40.
    pub model: String,
    /// Firmware revision, up to 8.
    pub firmware: String,
    /// Who may use it.
    pub hosts: Hosts,
    /// Its namespaces, in ascending order of their identifiers.
    pub namespaces: Vec<Namespace>,
    /// What its controllers offer.
    pub limits: QueueLimits,
}

impl Subsystem {
    /// True when the host of this name may use it, or a part of it.
    pub fn allows(&self, hostnqn: &str) -> bool {
        match &self.hosts {
            Hosts::Any => true,
            Hosts::Listed(hosts) => hosts.iter().any(|host| host.names(hostnqn)),
        }
    }

    /// True when the host of this name may use the namespace.
    pub(super) fn shows(&self, hostnqn: &str, nsid: u32) -> bool {
        let opens = |host: &AllowedHost| {
            host.names(hostnqn) && host.namespaces.as_ref().is_none_or(|opened| opened.contains(&nsid))
        };
        match &self.hosts {
            Hosts::Any => true,
            Hosts::Listed(hosts) => hosts.iter().any(opens),
        }
    }

    /// True when it can be asked how some namespace is allocated.
    pub(super) fn tells_allocation(&self) -> bool {
        self.namespaces.iter().any(|namespace| namespace.features.contains(Features::ALLOCATION))
    }

    /// The subsystem as a host sees it: namespaces that it may not use are not there.
    pub(super) fn masked(self: &Arc<Self>, hostnqn: &str) -> Arc<Self> {
        let shown = |namespace: &&Namespace| self.shows(hostnqn, namespace.nsid);
        if self.namespaces.iter().all(|namespace| shown(&namespace)) {
            return Arc::clone(self);
        }
        let namespaces = self.namespaces.iter().filter(shown).cloned().collect();
        Arc::new(self.with_namespaces(namespaces))
    }

    /// The same with other namespaces, for one host.
    pub(super) fn with_namespaces(&self, namespaces: Vec<Namespace>) -> Self {
        Self {
            nqn: Arc::clone(&self.nqn),
            serial: self.serial.clone(),
            model: self.model.clone(),
            firmware: self.firmware.clone(),
            hosts: Hosts::Any,
            namespaces,
            limits: self.limits,
        }
    }

    /// The namespace of that identifier.
    pub(super) fn find(&self, nsid: u32) -> Option<&Namespace> {
        self.namespaces.iter().find(|namespace| namespace.nsid == nsid)
    }

    /// True when the namespace is there, with its volume.
    pub(super) fn has(&self, key: NamespaceKey) -> bool {
        self.find(key.nsid).is_some_and(|namespace| namespace.key() == key)
    }

    /// True when one of its namespaces is on the volume.
    pub(super) fn uses(&self, volume: VolumeId) -> bool {
        self.namespaces.iter().any(|namespace| namespace.volume == volume)
    }

    /// The volume has this size from now on.
    pub(super) fn resize(&mut self, volume: VolumeId, geometry: Geometry) {
        let of_volume = self.namespaces.iter_mut().filter(|namespace| namespace.volume == volume);
        of_volume.for_each(|namespace| namespace.geometry = geometry);
    }

    /// The longest transfer in bytes that every namespace takes, as a power of two.
    pub fn max_transfer(&self) -> u32 {
        let least = self.namespaces.iter().map(|namespace| namespace.limits.max_transfer).min();
        let own = self.limits.max_transfer;
        let bytes = least.map_or(own, |least| own.min(least)).max(LEAST_TRANSFER);
        1_u32.checked_shl(bytes.ilog2()).unwrap_or(LEAST_TRANSFER)
    }
}
