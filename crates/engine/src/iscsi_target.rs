//! The driver's words for an iSCSI target's connection.

use std::sync::Arc;

use buf::Pool;
use host::Accepted;
use iscsi::target::{Action, Connection, Input, Portal, Resources};
use protocol::{Entropy, Instant};
use scsi::NexusEvent;

use crate::driver::{Desk, Role};
use crate::message::{Inbound, Message, ReserveCall};

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
    type Connection = Connection;

    fn input(inbound: Inbound) -> Option<Input> {
        Some(match inbound {
            Inbound::Completion(completion) => Input::Completion(completion),
            Inbound::Event(volume, event) => Input::Event { volume, event },
            Inbound::Reservations(fence) => Input::Event {
                volume: fence.volume,
                event: NexusEvent::Reservations {
                    view: fence.view,
                    notices: fence.notices,
                    aborted: fence.aborted,
                },
            },
            Inbound::Resized(volume, geometry) => {
                Input::Event { volume, event: NexusEvent::CapacityChanged(geometry) }
            }
            Inbound::Reserved(tag, result) => Input::Reserved { tag, result },
            Inbound::Session(reply) => Input::Group(reply),
            Inbound::Shutdown => Input::Shutdown,
            Inbound::Subsystem(_) => return None,
        })
    }

    fn act(action: Action, desk: &mut Desk) {
        match action {
            Action::Submit { volume, request } => desk.submit(volume, request),
            Action::Cancel { volume, tag } => desk.cancel(volume, tag),
            Action::Event { volume, event } => {
                let member = desk.member;
                desk.hub.post_all(|| Message::Event(member, volume, event.clone()));
            }
            Action::Reserve { tag, volume, registrant, command } => {
                let call = ReserveCall { from: desk.member, tag, volume, registrant, command };
                desk.hub.post_owner(Message::Reserve(call));
            }
            Action::Group(request) => desk.hub.post_owner(Message::Session(desk.member, request)),
        }
    }
}
