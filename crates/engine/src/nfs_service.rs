//! The driver's words for an NFS server's connection.

use std::net::SocketAddr;
use std::sync::Arc;

use buf::Pool;
use filesystem::FileErrorKind;
use nfs::server::{Action, Input, NfsServer, ServerConfig};
use protocol::{Notice, Parties};
use rpc::Config;
use rpc::tcp::TcpConnection;
use volume::{Epoch, Submission};

use crate::catalogue::ListenerRole;
use crate::driver::{DriverContext, Role};
use crate::file_kind::{self, FileKind};
use crate::message::{Inbound, Message};
use crate::nfs_portal::NfsPortal;
use crate::served_id::ServedId;
use crate::serving_connection::ServingConnection;

/// NFS over TCP, at a server.
pub(crate) type NfsConnection = TcpConnection<NfsServer>;

/// A server's side of an NFS connection.
pub(crate) struct NfsService;

impl NfsService {
    /// A connection for a stream that was just accepted.
    pub(crate) fn connect(portal: &NfsPortal, peer: SocketAddr, pool: &Pool) -> NfsConnection {
        let config = ServerConfig {
            exports: Arc::clone(&portal.exports),
            client: peer.ip(),
            identity: portal.identity.clone(),
        };
        // It calls nobody.
        TcpConnection::new(NfsServer::new(config, pool), Config { calls_sent: 0, ..Config::new(0) })
    }
}

impl ServingConnection for NfsConnection {
    const CARRIER: Option<&'static str> = None;

    fn poll_notice(&mut self) -> Option<Notice> {
        self.parts().upper.poll_notice()
    }

    /// A client's name is any bytes, and there may be several behind one connection: its address tells more.
    fn parties(&self) -> Parties {
        Parties::default()
    }

    fn uses(&self, served: ServedId) -> bool {
        self.upper().uses(file_kind::named(served))
    }

    /// A client is not told to leave: what it finds at its next call is another tree.
    fn is_withdrawn(&self) -> bool {
        false
    }

    fn reports_changes(&self) -> bool {
        false
    }

    /// The group may not hear that a connection has left while a call of it is under way, wherever that is.
    fn is_busy(&self) -> bool {
        self.upper().under_way() > 0
    }
}

impl Role for NfsService {
    type Kind = FileKind;
    type Connection = NfsConnection;

    #[inline]
    fn input(inbound: Inbound<FileKind>) -> Option<Input> {
        Some(match inbound {
            Inbound::Completion(completion) => Input::File(completion),
            // No fence concerns files: the file system has gone.
            Inbound::StaleEpoch(request) => Input::File(file_kind::failed(*request, FileErrorKind::Stale)),
            Inbound::Nfs(reply) => Input::Group(*reply),
            Inbound::PortalCommitted(ListenerRole::Nfs(portal))
            | Inbound::PortalChanged(ListenerRole::Nfs(portal)) => {
                Input::Exports(Arc::clone(&portal.exports))
            }
            Inbound::Shutdown => Input::Shutdown,
            Inbound::Event(..)
            | Inbound::Fence(_)
            | Inbound::Resized(..)
            | Inbound::Reserved(..)
            | Inbound::Reset(..)
            | Inbound::Session(_)
            | Inbound::Subsystem(_)
            | Inbound::PortalCommitted(_)
            | Inbound::PortalChanged(_)
            | Inbound::AskUse(_)
            | Inbound::Overdue(_) => return None,
        })
    }

    #[inline]
    fn act(action: Action, context: &mut DriverContext<FileKind>) {
        match action {
            Action::Submit(filesystem, request) => context.submit(Submission {
                volume: file_kind::served(filesystem),
                epoch: Epoch::default(),
                request,
            }),
            Action::Group(request) => {
                context.hub.post_owner(Message::Nfs(context.member, Box::new(request)));
            }
        }
    }
}
