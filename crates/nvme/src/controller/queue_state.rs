//! What a connection is to a controller: none of its queues yet, its admin queue, or one of its I/O queues (NVMe Base §3.3, §6.3).

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use volume::{Geometry, VolumeId};

use super::admin::Admin;
use super::command::Plan;
use super::io::Namespaces;
use super::portal::Portal;
use super::portal_change::Stage;
use super::service::Service;
use super::submission_gate::Patience;
use super::subsystem::{NamespaceKey, Subsystem};
use super::{admin_command, fabrics_command};
use crate::opcode::{FABRICS, admin, nvm};
use crate::sgl::Capsule;
use crate::sqe::SubmissionQueueEntry;
use crate::status::Status;

/// What a queue is. A Connect leads from the first state to the second, the group's answer from that to one of the last two.
#[derive(Debug)]
pub(super) enum QueueState {
    /// The first command must be a Connect.
    ExpectConnect,
    /// The group of controllers decides about the Connect in this slot.
    Connecting { slot: u16, joining: Box<Joining> },
    /// The admin queue of a controller.
    Admin(Box<Admin>),
    /// An I/O queue of a controller.
    Io(Namespaces),
}

/// What becomes of the queue if its group agrees.
#[derive(Debug)]
pub(super) enum Joining {
    Admin(Box<Admin>),
    Io(Arc<Subsystem>),
}

impl QueueState {
    /// True for a queue of a subsystem's controller.
    pub(super) fn is_established(&self) -> bool {
        match self {
            Self::Io(_) => true,
            Self::Admin(admin) => admin.subsystem().is_some(),
            Self::ExpectConnect | Self::Connecting { .. } => false,
        }
    }

    /// How far the connection is, as far as another portal matters to it.
    pub(super) fn stage(&self) -> Stage {
        let of = |service: &Service, stage| match service {
            Service::Subsystem(_) => stage,
            Service::Discovery(_) => Stage::Discovery,
        };
        match self {
            Self::ExpectConnect => Stage::Unconnected,
            Self::Connecting { joining, .. } => match &**joining {
                Joining::Admin(admin) => of(&admin.service, Stage::Connecting),
                Joining::Io(_) => Stage::Connecting,
            },
            Self::Admin(admin) => of(&admin.service, Stage::Connected),
            Self::Io(_) => Stage::Connected,
        }
    }

    /// True while a namespace that it shows is on the volume.
    pub(super) fn uses(&self, volume: VolumeId) -> bool {
        let shown = match self {
            Self::Io(namespaces) => return namespaces.uses(volume),
            Self::Admin(admin) => admin.subsystem(),
            Self::Connecting { joining, .. } => match &**joining {
                Joining::Admin(admin) => admin.subsystem(),
                Joining::Io(subsystem) => Some(&**subsystem),
            },
            Self::ExpectConnect => None,
        };
        shown.is_some_and(|shown| shown.uses(volume))
    }

    /// Bytes that it keeps and that grow with what is served.
    #[inline]
    pub(super) fn size(&self) -> usize {
        if let Self::Admin(admin) = self { admin.size() } else { 0 }
    }

    /// How long the next command may wait for memory while no data of others comes behind it.
    pub(super) fn patience(&self) -> Patience {
        if matches!(self, Self::Admin(_)) { Patience::Short } else { Patience::Long }
    }

    /// True when a command's answer has data that no volume reads.
    #[inline]
    pub(super) fn answers_with_data(&self, entry: &SubmissionQueueEntry) -> bool {
        match self {
            Self::Admin(_) => {
                matches!(entry.opcode, admin::IDENTIFY | admin::GET_LOG_PAGE | admin::GET_FEATURES)
            }
            Self::Io(_) => entry.opcode == nvm::RESERVATION_REPORT,
            Self::ExpectConnect | Self::Connecting { .. } => false,
        }
    }

    /// Decides about a command.
    #[inline]
    pub(super) fn plan(&mut self, entry: &SubmissionQueueEntry, capsule: Capsule) -> Result<Plan, Status> {
        match self {
            Self::Admin(admin) => admin_command::plan(admin, entry, capsule),
            Self::Io(namespaces) if entry.opcode != FABRICS => namespaces.plan(entry, capsule),
            Self::Io(_) => fabrics_command::plan_io(entry),
            Self::ExpectConnect | Self::Connecting { .. } => fabrics_command::plan_first(entry, capsule),
        }
    }

    /// A volume has another size.
    pub(super) fn resize(&mut self, volume: VolumeId, geometry: Geometry) {
        match self {
            Self::Io(namespaces) => namespaces.resize(volume, geometry),
            Self::Admin(admin) => admin.resize(volume, geometry),
            Self::Connecting { joining, .. } => match &mut **joining {
                Joining::Admin(admin) => {
                    admin.service.resize(volume, geometry);
                }
                Joining::Io(subsystem) => Arc::make_mut(subsystem).resize(volume, geometry),
            },
            Self::ExpectConnect => {}
        }
    }

    /// Shows the discovery log page of another portal, if it is of a discovery controller.
    pub(super) fn show_log(&mut self, portal: &Arc<Portal>) {
        match self {
            Self::Admin(admin) => admin.show_log(portal),
            Self::Connecting { joining, .. } => {
                if let Joining::Admin(admin) = &mut **joining {
                    admin.show_log(portal);
                }
            }
            Self::ExpectConnect | Self::Io(_) => {}
        }
    }

    /// The namespaces of a connected queue that are not in the subsystem.
    pub(super) fn gone_from(&self, subsystem: &Subsystem) -> Vec<NamespaceKey> {
        match self {
            Self::Admin(admin) => admin.gone_from(subsystem),
            Self::Io(namespaces) => namespaces.gone_from(subsystem),
            Self::ExpectConnect | Self::Connecting { .. } => Vec::new(),
        }
    }

    /// The subsystem is this from now on.
    pub(super) fn replace(&mut self, subsystem: Arc<Subsystem>) {
        match self {
            Self::Connecting { joining, .. } => match &mut **joining {
                Joining::Admin(admin) => admin.service = Service::Subsystem(subsystem),
                Joining::Io(joined) => *joined = subsystem,
            },
            Self::Admin(admin) => admin.replace(subsystem),
            Self::Io(namespaces) => namespaces.replace(&subsystem),
            Self::ExpectConnect => {}
        }
    }
}
