//! What a process serves: volumes and listeners, whole and numbered.
//!
//! A catalogue never changes. A running process comes to serve something else by the next catalogue in place of the one before: first every core opens the
//! queues of new volumes, and only when all of them could is the catalogue shown to anybody ([`coordinator`]).

pub(crate) mod coordinator;
mod portals;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use filesystem::FileSystem;
use host::ListenerId;
use volume::{Geometry, OpenError, Volume, VolumeId};

pub(crate) use self::portals::Portals;
use crate::limits::ConnectionLimits;
use crate::nfs_portal::{NfsPortal, NfsStart};
use crate::served_id::ServedId;

/// Volumes' sizes.
type Sizes = HashMap<VolumeId, Geometry>;

/// What is spoken on a listening socket.
#[derive(Debug, Clone)]
pub enum ListenerRole {
    /// iSCSI, as a target.
    Iscsi(Arc<iscsi::target::Portal>),
    /// NVMe over Fabrics, as a controller.
    Nvme(Arc<nvme::controller::Portal>),
    /// NFS 4.1 and 4.2, as a server.
    Nfs(Arc<NfsPortal>),
}

impl ListenerRole {
    /// The volumes have these sizes from now on, for connections that come later. Nothing is copied where they have them already.
    fn resize(&mut self, sizes: &Sizes) {
        let outdated = self.outdated(sizes);
        for (volume, geometry) in outdated {
            match self {
                Self::Iscsi(portal) => Arc::make_mut(portal).resize(volume, geometry),
                Self::Nvme(portal) => Arc::make_mut(portal).resize(volume, geometry),
                Self::Nfs(_) => {}
            }
        }
    }

    /// The volumes that are shown with another size.
    fn outdated(&self, sizes: &Sizes) -> Vec<(VolumeId, Geometry)> {
        let differs = |(volume, shown): (VolumeId, Geometry)| {
            let size = sizes.get(&volume).filter(|size| **size != shown);
            size.map(|size| (volume, *size))
        };
        match self {
            Self::Iscsi(portal) => {
                let units = portal.nodes.iter().flat_map(|node| &node.device.units);
                units.filter_map(|unit| differs((unit.volume, unit.geometry))).collect()
            }
            Self::Nvme(portal) => {
                let shown = portal.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
                shown.filter_map(|each| differs((each.volume, each.geometry))).collect()
            }
            Self::Nfs(_) => Vec::new(),
        }
    }

    /// True when it is the very same.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Iscsi(one), Self::Iscsi(two)) => Arc::ptr_eq(one, two),
            (Self::Nvme(one), Self::Nvme(two)) => Arc::ptr_eq(one, two),
            (Self::Nfs(one), Self::Nfs(two)) => Arc::ptr_eq(one, two),
            _ => false,
        }
    }

    /// The same protocol with nothing behind it: what the connections of a listener find that is gone.
    pub(crate) fn emptied(&self) -> Self {
        match self {
            Self::Iscsi(portal) => {
                Self::Iscsi(Arc::new(iscsi::target::Portal { nodes: Vec::new(), ..(**portal).clone() }))
            }
            Self::Nvme(portal) => {
                let none = nvme::controller::Portal { subsystems: Vec::new(), ..(**portal).clone() };
                Self::Nvme(Arc::new(none.with_log()))
            }
            Self::Nfs(portal) => {
                let exports = Arc::new(portal.exports.emptied());
                Self::Nfs(Arc::new(NfsPortal { exports, ..(**portal).clone() }))
            }
        }
    }
}

/// The number of a catalogue. Later ones have higher numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Generation(pub u64);

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "generation {}", self.0)
    }
}

/// A volume that is served.
#[derive(Debug, Clone)]
pub struct ServedVolume {
    /// What cores and connections call it. No other volume has it while a core still has a queue of this one.
    pub id: VolumeId,
    /// What its operator calls it.
    pub name: Arc<str>,
    /// The volume itself.
    pub volume: Arc<dyn Volume>,
}

/// A file system that is served.
#[derive(Debug, Clone)]
pub struct ServedFiles {
    /// What cores and connections call it, as [`ServedVolume::id`]: volumes and file systems share the slots.
    pub id: ServedId,
    /// What its operator calls it.
    pub name: Arc<str>,
    /// The file system itself.
    pub filesystem: Arc<dyn FileSystem>,
}

/// What carries the protocol of a listening socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// The TCP stream itself.
    #[default]
    Tcp,
    /// RDMA, by software iWARP on the TCP stream: the protocol is iSER or NVMe/RDMA.
    Iwarp {
        /// Checksums of everything, whatever the peer asks for.
        crc: bool,
    },
    /// RDMA, by software RoCEv2 on datagrams: the protocol is iSER or NVMe/RDMA. Several listeners share a socket.
    Roce {
        /// The address and port of UDP that the socket is bound to.
        socket: SocketAddr,
        /// The port whose service peers ask for.
        service: u16,
    },
    /// RDMA, by an adapter: the protocol is iSER or NVMe/RDMA. The listener's port is one of [`host::Adapters`].
    Adapter,
}

/// A listening socket, and what is behind it.
#[derive(Debug, Clone)]
pub struct Listening {
    /// Its name in the reactor.
    pub id: ListenerId,
    /// What carries the protocol. It stays for the listener's life, but for checksums, which count for new connections.
    pub transport: Transport,
    /// What is spoken there, and what is found.
    pub role: ListenerRole,
}

/// Everything that a process serves at a time.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    /// Its number.
    pub generation: Generation,
    /// The volumes.
    pub volumes: Vec<ServedVolume>,
    /// The file systems.
    pub files: Vec<ServedFiles>,
    /// What the owner of NFS clients' state begins with; there where any listener speaks NFS.
    pub nfs: Option<Arc<NfsStart>>,
    /// The listeners.
    pub listeners: Vec<Listening>,
    /// How many connections are served.
    pub limits: ConnectionLimits,
}

/// A volume, and the name by which exports know it.
#[derive(Debug, Clone)]
pub struct NamedVolume {
    /// The name.
    pub name: Arc<str>,
    /// The volume.
    pub volume: Arc<dyn Volume>,
}

impl Catalogue {
    /// The volumes in their first uses of the slots, and the listeners, each in the order given: what a process begins with.
    pub fn first(volumes: impl IntoIterator<Item = NamedVolume>, roles: Vec<ListenerRole>) -> Self {
        let served =
            |(slot, NamedVolume { name, volume })| ServedVolume { id: VolumeId::new(slot, 0), name, volume };
        let listening =
            |(number, role)| Listening { id: ListenerId(number), transport: Transport::Tcp, role };
        Self {
            generation: Generation(1),
            volumes: (0..).zip(volumes).map(served).collect(),
            files: Vec::new(),
            nfs: None,
            listeners: (0..).zip(roles).map(listening).collect(),
            limits: ConnectionLimits::default(),
        }
    }

    /// The volume of that name.
    pub fn volume(&self, id: VolumeId) -> Option<&ServedVolume> {
        self.volumes.iter().find(|served| served.id == id)
    }

    /// A listener.
    pub(crate) fn listening(&self, id: ListenerId) -> Option<&Listening> {
        self.listeners.iter().find(|listening| listening.id == id)
    }

    /// The listener of a service at a socket for datagrams.
    pub(crate) fn service(&self, socket: SocketAddr, service: u16) -> Option<&Listening> {
        let wanted = Transport::Roce { socket, service };
        self.listeners.iter().find(|listening| listening.transport == wanted)
    }

    /// What is behind a listener.
    pub(crate) fn role(&self, id: ListenerId) -> Option<&ListenerRole> {
        self.listening(id).map(|listening| &listening.role)
    }

    /// A volume has this size from now on, for connections that come later.
    pub(crate) fn resize(&mut self, volume: VolumeId, geometry: Geometry) {
        let sizes = Sizes::from([(volume, geometry)]);
        self.listeners.iter_mut().for_each(|listening| listening.role.resize(&sizes));
    }

    /// The ids of its volumes and file systems.
    pub(crate) fn ids(&self) -> HashSet<ServedId> {
        let volumes = self.volumes.iter().map(|served| served.id);
        volumes.chain(self.files.iter().map(|served| served.id)).collect()
    }

    /// Brings the sizes up to date: a volume may have changed its size while the catalogue was made.
    pub(crate) fn refresh(&mut self) {
        let sizes = self.volumes.iter().map(|served| (served.id, served.volume.geometry())).collect();
        self.listeners.iter_mut().for_each(|listening| listening.role.resize(&sizes));
    }
}

/// Why a catalogue was not put in place of the one before, which stays as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposalError {
    /// Another one is on its way.
    #[error("another change of what is served is under way; try again when it is over")]
    Busy,
    /// It is not newer than what is served.
    #[error("{0} is not newer than what is served")]
    Outdated(Generation),
    /// The process stops.
    #[error("the server is stopping")]
    Stopping,
    /// A volume cannot be served on a core.
    #[error("the volume {volume:?} cannot be served: {error}")]
    Volume {
        /// Its name.
        volume: Arc<str>,
        /// Why.
        error: OpenError,
    },
    /// A file system cannot be served on a core.
    #[error("the share {share:?} cannot be served: {error}")]
    Files {
        /// Its name.
        share: Arc<str>,
        /// Why.
        error: OpenError,
    },
}

/// What becomes of catalogues and volumes, for whoever proposes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlEvent {
    /// All cores serve a catalogue.
    Applied(Generation),
    /// A catalogue is not served.
    Rejected(Generation, ProposalError),
    /// No core has a queue of a volume any more: nothing reaches it from here on. Its name may be used again.
    Retired {
        /// Which volume.
        id: VolumeId,
        /// Every core has flushed it after its last request.
        secured: bool,
        /// Requests that were cancelled, as they were still under way when its connections had had their time to leave.
        forced: u32,
    },
}

/// What becomes of a connection that a change of what is served concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// Its host is asked to leave, or can only be told that nothing is left for it.
    Asked,
    /// Its host has left in time.
    Ended,
    /// The server has closed it, as the time for that was over.
    Forced,
}

/// Hears what becomes of catalogues and volumes. It must not block.
pub trait ControlObserver: Send + Sync {
    /// Something has come to its end. On core 0.
    fn observe(&self, event: ControlEvent);

    /// A connection has to leave, or has left. On its core, soon after the catalogue is announced that is the reason.
    fn observe_departure(&self, _departure: Departure) {}
}

impl ControlObserver for host::Silent {
    fn observe(&self, _event: ControlEvent) {}
}
