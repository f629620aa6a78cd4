//! The controller's side: what is served, and the connection of one queue.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;

use buf::SharedBuf;
use volume::reservation::{Command, Refused, Registrant};
use volume::{Completion, Epoch, Features, Geometry, Limits, Request, Tag, VolumeId};

use crate::subsystem;

mod admin;
mod allocation;
mod command;
mod connection;
mod features;
mod identify;
mod io;
mod logs;
mod reservation;
mod slots;
mod transmit;

pub use connection::Connection;
pub use reservation::Reservations;

/// One namespace of a subsystem.
#[derive(Debug, Clone)]
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
    fn shows(&self, hostnqn: &str, nsid: u32) -> bool {
        let opens = |host: &AllowedHost| {
            host.names(hostnqn) && host.namespaces.as_ref().is_none_or(|opened| opened.contains(&nsid))
        };
        match &self.hosts {
            Hosts::Any => true,
            Hosts::Listed(hosts) => hosts.iter().any(opens),
        }
    }

    /// True when it can be asked how some namespace is allocated.
    fn tells_allocation(&self) -> bool {
        self.namespaces.iter().any(|namespace| namespace.features.contains(Features::ALLOCATION))
    }

    fn shows_all(&self, hostnqn: &str) -> bool {
        self.namespaces.iter().all(|namespace| self.shows(hostnqn, namespace.nsid))
    }

    /// The longest transfer in bytes that every namespace takes, as a power of two.
    pub fn max_transfer(&self) -> u32 {
        let least = self.namespaces.iter().map(|namespace| namespace.limits.max_transfer).min();
        let bytes = self.limits.max_transfer.min(least.unwrap_or(u32::MAX)).max(8192);
        1_u32.checked_shl(bytes.ilog2()).unwrap_or(8192)
    }
}

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

/// One image of a discovery log page, for all connections; empty until it is made.
#[derive(Debug, Clone, Default)]
pub struct DiscoveryLog(Option<SharedBuf>);

impl Portal {
    /// The same, with the image of its discovery log page, for all that the portal names now.
    #[must_use]
    pub fn with_log(mut self) -> Self {
        self.log = DiscoveryLog(Some(logs::discovery(&self)));
        self
    }

    /// The portal as a host sees it: subsystems and namespaces that it may not use are not there.
    fn masked(self: &Arc<Self>, hostnqn: &str) -> Arc<Self> {
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

/// What a controller's connection asks of the inside.
#[derive(Debug)]
pub enum Action {
    /// Submit a request; its completion comes back as [`Input::Completion`].
    Submit {
        /// To which volume.
        volume: VolumeId,
        /// What it was judged by: if the volume's epoch is another one by then it comes back as [`Input::Refused`].
        epoch: Epoch,
        /// What.
        request: Request,
    },
    /// Ask that a request end soon.
    Cancel {
        /// Of which volume.
        volume: VolumeId,
        /// Which.
        tag: Tag,
    },
    /// Ask the owner of a volume's reservations for a change; the answer comes back as [`Input::Reserved`].
    Reserve {
        /// The asker's mark.
        tag: u32,
        /// Of which volume.
        volume: VolumeId,
        /// In whose name.
        registrant: Registrant,
        /// What.
        command: Command,
    },
    /// Speak to the group of controllers.
    Group(subsystem::Request),
}

/// What the inside tells a controller's connection.
#[derive(Debug)]
pub enum Input {
    /// A request has ended.
    Completion(Completion),
    /// A request was judged by an older state of its volume than holds now. Nothing has happened to it.
    Refused(Box<Request>),
    /// A volume's epoch has moved.
    Fence {
        /// Which volume.
        volume: VolumeId,
        /// Its epoch from now on.
        epoch: Epoch,
        /// Its reservations from now on, if they have changed.
        reservations: Option<Reservations>,
    },
    /// The owner of the reservations answers an [`Action::Reserve`].
    Reserved {
        /// The asker's mark.
        tag: u32,
        /// Done, or why nothing changed. The new state has come before.
        result: Result<(), Refused>,
    },
    /// The group of controllers answers.
    Group(subsystem::Reply),
    /// A volume has another size from now on.
    NamespaceChanged {
        /// Which volume.
        volume: VolumeId,
        /// Its shape.
        geometry: Geometry,
    },
    /// The discovery log page changed.
    DiscoveryChanged,
    /// The process is about to stop.
    Shutdown,
}
