//! The driver's words for an iSCSI target's connection.

use std::sync::Arc;

use buf::Pool;
use host::Accepted;
use iscsi::target::{Action, Connection, Input, Portal, Resources};
use protocol::{Entropy, Instant, Notice};
use scsi::NexusEvent;
use volume::VolumeId;

use crate::catalogue::ListenerRole;
use crate::driver::{DriverContext, Role};
use crate::message::{Cause, Fence, Inbound, Message, ReserveCall, ResetCall};
use crate::queues::Submission;
use crate::volume_kind::VolumeKind;

/// A target's side of an iSCSI connection.
pub(crate) struct IscsiTarget;

impl IscsiTarget {
    /// A connection for a stream that was just accepted.
    pub(crate) fn connect(
        portal: &Arc<Portal>,
        pool: &Pool,
        entropy: Box<dyn Entropy>,
        (now, accepted): (Instant, Accepted),
    ) -> Connection {
        let Accepted { local, peer, .. } = accepted;
        Connection::new(now, Arc::clone(portal), Resources { pool: pool.clone(), entropy, local, peer })
    }
}

impl Role for IscsiTarget {
    type Kind = VolumeKind;
    type Connection = Connection;

    #[inline]
    fn input(inbound: Inbound) -> Option<Input> {
        Some(match inbound {
            Inbound::Completion(completion) => Input::Completion(completion),
            Inbound::Event(volume, event) => Input::Event { volume, event },
            Inbound::Refused(request) => Input::Refused(request),
            Inbound::Fence(fence) => {
                let (volume, epoch) = (fence.served, fence.epoch());
                Input::Fence { volume, epoch, event: event(*fence) }
            }
            Inbound::Resized(volume, geometry) => {
                Input::Event { volume, event: NexusEvent::CapacityChanged(geometry) }
            }
            Inbound::Reserved(tag, result) => Input::Reserved { tag, result },
            Inbound::Reset(tag, done) => Input::Reset { tag, done },
            Inbound::Session(reply) => Input::Group(reply),
            Inbound::PortalCommitted(ListenerRole::Iscsi(portal))
            | Inbound::PortalChanged(ListenerRole::Iscsi(portal)) => Input::PortalChanged(portal),
            Inbound::Shutdown => Input::Shutdown,
            Inbound::Subsystem(_)
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
            Action::Event { volume, event } => {
                let member = context.member;
                context.hub.post_all(|| Message::Event(member, volume, event.clone()));
            }
            Action::Reserve { tag, volume, registrant, command } => {
                let call = ReserveCall { from: context.member, tag, volume, registrant, command };
                context.hub.post_owner(Message::Reserve(call));
            }
            Action::Reset { tag, volumes, event } => {
                let call = ResetCall {
                    from: context.member,
                    tag,
                    served: volumes,
                    cause: Cause::Reset(context.member, event),
                };
                context.hub.post_owner(Message::Reset(call));
            }
            Action::Group(request) => context.hub.post_owner(Message::Session(context.member, request)),
        }
    }
}

/// What a fence means to a nexus.
fn event(fence: Fence) -> Option<NexusEvent> {
    match fence.cause {
        Cause::Reservations { view, notices, aborted } => {
            Some(NexusEvent::Reservations { view, notices, aborted })
        }
        Cause::Reset(_, event) => Some(event),
        Cause::Unconcerned => None,
    }
}
