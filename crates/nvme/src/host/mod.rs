//! The host's side: one queue for discovery, for administration or for I/O, over whatever transport ([`HostQueue`]).
//!
//! An admin connection connects, enables the controller, identifies it and one namespace, and reports a
//! [`RemoteNamespace`]; I/O connections are then made with that, one for each queue, on any core.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use volume::{Completion, Designator, Features, Geometry, Identity, Limits, Request, Tag};

use crate::fabrics::HostIdentity;
use crate::identify::NamespaceIds;
use crate::limits::AT_ONCE;
use crate::log::DiscoveryEntry;
use crate::status::Status;
use crate::violation::Violation;
use crate::width::from_field;

mod allocation;
mod allocation_queries;
mod capsule_data;
mod command_table;
mod entry;
mod fabric_transport;
mod keep_alive;
mod queue;
mod refusal;
mod setup;
mod status_poll;
mod verify;
mod zeroes;

pub use command_table::{ReadTarget, WriteSource};
pub use fabric_transport::{CommandCapsule, FabricTransport};
pub use queue::{CompletionError, HostQueue};

pub use crate::transport::tcp::HostConnection as Connection;

/// Entries of the admin queue, as Linux has it.
const ADMIN_ENTRIES: u16 = 32;

/// What a connection is for.
#[derive(Debug, Clone)]
pub enum Queue {
    /// Read the discovery log page, report it, and disconnect.
    Discovery,
    /// The admin queue of a new controller.
    Admin {
        /// The namespace that is wanted.
        nsid: u32,
        /// I/O queues that are wanted, 1 or above.
        queues: u16,
        /// Keep alive timeout in milliseconds; 0 for none.
        kato: u32,
    },
    /// An I/O queue of a controller.
    Io {
        /// Which queue, 1 or above.
        qid: u16,
        /// What the admin connection reported.
        remote: RemoteNamespace,
    },
}

/// What a host's connection needs to know.
#[derive(Debug, Clone)]
pub struct Config {
    /// Who the host is.
    pub host: HostIdentity,
    /// The subsystem's name.
    pub subnqn: Arc<str>,
    /// Require header digests.
    pub header_digest: bool,
    /// Require data digests.
    pub data_digest: bool,
    /// Commands at a time, 1 or above; at most what the controller offers is used.
    pub depth: u16,
    /// How long a command on an I/O queue may take before the connection is given up. There is no Abort: it would have to go
    /// over another connection, whose fate is usually the same.
    pub command_time: Duration,
    /// What the connection is for.
    pub queue: Queue,
}

impl Config {
    /// Entries of the queue.
    pub(crate) fn entries(&self) -> u16 {
        match &self.queue {
            Queue::Discovery | Queue::Admin { .. } => ADMIN_ENTRIES,
            Queue::Io { remote, .. } => self.depth.saturating_add(1).min(remote.entries).max(2),
        }
    }

    /// Bytes of in-capsule data that the queue's controller offers.
    pub(crate) fn in_capsule(&self) -> usize {
        match &self.queue {
            Queue::Io { remote, .. } => from_field(remote.in_capsule),
            _ => 0,
        }
    }
}

/// A namespace of a controller, as identified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteNamespace {
    /// Its identifier.
    pub nsid: u32,
    /// The controller.
    pub cntlid: u16,
    /// Its shape.
    pub geometry: Geometry,
    /// What requests may look like.
    pub limits: Limits,
    /// What it can do.
    pub features: Features,
    /// The controller takes deallocations, even where it does not say what is read afterwards.
    pub discards: bool,
    /// The controller has the Verify command.
    pub verifies: bool,
    /// What identifies it everywhere.
    pub ids: NamespaceIds,
    /// The subsystem's serial number, model number and firmware revision.
    pub product: [String; 3],
    /// I/O queues that the controller granted.
    pub queues: u16,
    /// Bytes of in-capsule data on I/O queues.
    pub in_capsule: u32,
    /// Entries of an I/O queue at most.
    pub entries: u16,
    /// What changes whenever the controller's process begins anew and has lost what was in its memory, if it says.
    pub incarnation: Option<[u8; 16]>,
}

impl RemoteNamespace {
    /// How much of so many blocks one read or write covers that stands for another command, in blocks and in bytes.
    fn piece(&self, blocks: u64) -> (u64, usize) {
        let block_size = self.geometry.block_size.max(1);
        let most = (AT_ONCE.min(self.limits.max_transfer) / block_size).max(1);
        let blocks = wire::saturate::<u32>(blocks).min(most);
        (blocks.into(), usize::try_from(blocks.saturating_mul(block_size)).unwrap_or(0))
    }

    /// What it says of itself.
    pub fn identity(&self) -> Identity {
        let [serial, product, revision] = self.product.clone();
        let eui64 = self.ids.eui64.map(|bytes| Designator::Eui64(bytes.to_vec()));
        let nguid = self.ids.nguid.map(Designator::Nguid);
        let uuid = self.ids.uuid.map(Designator::Uuid);
        Identity {
            vendor: String::new(),
            product,
            revision,
            serial,
            controller: Some(self.cntlid),
            designators: [eui64, nguid, uuid].into_iter().flatten().collect(),
        }
    }
}

/// How the text of a refusal begins.
pub const REFUSED: &str = "the controller refused";

/// Why a connection is of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The controller refused a command of the set-up.
    Refused(Status),
    /// The controller broke the protocol.
    Violation(Violation),
    /// The transport ended.
    Lost(&'static str),
    /// The controller did not answer in time.
    TimedOut(&'static str),
    /// The controller or the namespace is none that this host can use.
    Unusable(&'static str),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(status) => {
                write!(f, "{REFUSED}: {status}")?;
                match Status::from_code(status.code()) {
                    Status::CONNECT_INVALID => f.write_str("; it may have no such subsystem"),
                    Status::CONNECT_HOST => f.write_str("; it does not know this host, which hostnqn= names"),
                    Status::INVALID_NAMESPACE => f.write_str("; it may have no such namespace"),
                    _ => Ok(()),
                }
            }
            Self::Violation(violation) => {
                write!(f, "the controller broke the protocol: {}", violation.describe())
            }
            Self::Lost(text) | Self::TimedOut(text) | Self::Unusable(text) => f.write_str(text),
        }
    }
}

/// What a host's connection is told.
#[derive(Debug)]
pub enum Input {
    /// Do this; ends in [`Action::Complete`]. Allocation queries are for an admin queue that is [`Action::Ready`], all other requests for I/O
    /// queues; whatever is submitted elsewhere is unsupported.
    Submit(Request),
    /// End this soon: a request that was not sent yet is cancelled, others run their course.
    Cancel(Tag),
    /// End the connection in good order.
    Disconnect,
    /// Send nothing more, and close.
    Abandon,
}

/// What a host's connection reports.
#[derive(Debug)]
pub enum Action {
    /// The admin queue is up, and the namespace is this.
    Ready(Box<RemoteNamespace>),
    /// The I/O queue is up and takes requests.
    QueueReady,
    /// A request has ended.
    Complete(Completion),
    /// The discovery log page has these entries.
    Discovered(Vec<DiscoveryEntry>),
    /// The namespace changed, and is this from now on.
    NamespaceChanged(Box<RemoteNamespace>),
    /// The connection is of no use (any more).
    Failed(Failure),
}
