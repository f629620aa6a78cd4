//! The driver's words for an NVMe controller's connection.

use std::sync::Arc;

use buf::Pool;
use nvme::controller::{Action, Connection, Input, Portal, Reservations};
use protocol::Instant;

use crate::driver::{Desk, Role};
use crate::message::{Fence, Inbound, Message, ReserveCall};

/// A controller's side of an NVMe/TCP connection: one queue.
pub(crate) struct NvmeController;

impl NvmeController {
    /// A connection for a stream that was just accepted.
    pub(crate) fn connect(portal: &Arc<Portal>, pool: &Pool, now: Instant) -> Connection {
        Connection::new(Arc::clone(portal), pool.clone(), now)
    }
}

impl Role for NvmeController {
    type Connection = Connection;

    fn input(inbound: Inbound) -> Option<Input> {
        Some(match inbound {
            Inbound::Completion(completion) => Input::Completion(completion),
            Inbound::Reservations(Fence { volume, view, notices, aborted, .. }) => {
                Input::Reservations(Reservations { volume, view, notices, aborted })
            }
            Inbound::Reserved(tag, result) => Input::Reserved { tag, result },
            Inbound::Resized(volume, geometry) => Input::NamespaceChanged { volume, geometry },
            Inbound::Subsystem(reply) => Input::Group(reply),
            Inbound::Shutdown => Input::Shutdown,
            Inbound::Event(..) | Inbound::Session(_) => return None,
        })
    }

    fn act(action: Action, desk: &mut Desk) {
        match action {
            Action::Submit { volume, request } => desk.submit(volume, request),
            Action::Cancel { volume, tag } => desk.cancel(volume, tag),
            Action::Reserve { tag, volume, registrant, command } => {
                let call = ReserveCall { from: desk.member, tag, volume, registrant, command };
                desk.hub.post_owner(Message::Reserve(call));
            }
            Action::Group(request) => desk.hub.post_owner(Message::Subsystem(desk.member, request)),
        }
    }
}
