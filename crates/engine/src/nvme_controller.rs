//! The driver's words for an NVMe controller's connection.

use std::sync::Arc;

use buf::Pool;
use nvme::controller::{Action, Connection, Input, Portal, Reservations};
use protocol::{Instant, Notice};
use volume::VolumeId;

use crate::catalogue::ListenerRole;
use crate::driver::{DriverContext, Role};
use crate::message::{Cause, Fence, Inbound, Message, ReserveCall};
use crate::queues::Submission;
use crate::volume_kind::VolumeKind;

/// A controller's side of an NVMe/TCP connection: one queue.
pub(crate) struct NvmeController;

impl NvmeController {
    /// A connection for a stream that was just accepted.
    pub(crate) fn connect(portal: &Arc<Portal>, pool: &Pool, now: Instant) -> Connection {
        Connection::new(Arc::clone(portal), pool.clone(), now)
    }
}

impl Role for NvmeController {
    type Kind = VolumeKind;
    type Connection = Connection;

    #[inline]
    fn input(inbound: Inbound) -> Option<Input> {
        Some(match inbound {
            Inbound::Completion(completion) => Input::Completion(completion),
            Inbound::Refused(request) => Input::Refused(request),
            Inbound::Fence(fence) => {
                let (volume, epoch) = (fence.served, fence.epoch());
                Input::Fence { volume, epoch, reservations: reservations(*fence) }
            }
            Inbound::Reserved(tag, result) => Input::Reserved { tag, result },
            Inbound::Resized(volume, geometry) => Input::NamespaceChanged { volume, geometry },
            Inbound::Subsystem(reply) => Input::Group(reply),
            Inbound::PortalCommitted(ListenerRole::Nvme(portal))
            | Inbound::PortalChanged(ListenerRole::Nvme(portal)) => Input::PortalChanged(portal),
            Inbound::Shutdown => Input::Shutdown,
            Inbound::Event(..)
            | Inbound::Reset(..)
            | Inbound::Session(_)
            | Inbound::PortalCommitted(_)
            | Inbound::PortalChanged(_)
            | Inbound::AskUse(_)
            | Inbound::Overdue(_) => return None,
        })
    }

    fn notice(connection: &mut Connection) -> Option<Notice> {
        connection.poll_notice()
    }

    fn parties(connection: &Connection) -> (Option<String>, Option<String>) {
        connection.parties()
    }

    fn uses(connection: &Connection, volume: VolumeId) -> bool {
        connection.uses(volume)
    }

    fn is_withdrawn(connection: &Connection) -> bool {
        connection.is_withdrawn()
    }

    fn reports_changes(connection: &Connection) -> bool {
        connection.reports_changes()
    }

    #[inline]
    fn act(action: Action, context: &mut DriverContext) {
        match action {
            Action::Submit { volume, epoch, request } => {
                context.submit(Submission { served: volume, epoch, request });
            }
            Action::Cancel { volume, tag } => context.cancel(volume, tag),
            Action::Reserve { tag, volume, registrant, command } => {
                let call = ReserveCall { from: context.member, tag, volume, registrant, command };
                context.hub.post_owner(Message::Reserve(call));
            }
            Action::Group(request) => context.hub.post_owner(Message::Subsystem(context.member, request)),
        }
    }
}

/// What a fence means to a controller. A reset of a SCSI logical unit is none of a namespace.
fn reservations(fence: Fence) -> Option<Reservations> {
    match fence.cause {
        Cause::Reservations { view, notices, aborted } => Some(Reservations { view, notices, aborted }),
        Cause::Reset(..) | Cause::Unconcerned => None,
    }
}
