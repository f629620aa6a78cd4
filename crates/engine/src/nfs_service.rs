//! The driver's words for an NFS server's connection.

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;

use buf::{Account, Pool};
use filesystem::FileErrorKind;
use host::AdapterPair;
use nfs::server::{Action, Input, NfsServer, ServerConfig};
use protocol::{Instant, Notice, Parties};
use rpc::Config;
use rpc::rdma::{self, RdmaConnection};
use rpc::tcp::TcpConnection;
use verbs::{ManagedQueuePair, QueueLimits};
use volume::{Epoch, Submission};

use crate::catalogue::ListenerRole;
use crate::driver::{DriverContext, Role};
use crate::file_kind::{self, FileKind};
use crate::iwarp_link::IwarpLink;
use crate::message::{Inbound, Message};
use crate::nfs_portal::NfsPortal;
use crate::queue_pairs::OverQueuePair;
use crate::served_id::ServedId;
use crate::serving_connection::ServingConnection;

/// NFS over TCP, at a server.
pub(crate) type NfsConnection = TcpConnection<NfsServer>;

/// NFS over software iWARP, at a server.
pub(crate) type RdmaNfs = RdmaConnection<NfsServer, iwarp::Connection>;

/// NFS over software RoCEv2, at a server.
pub(crate) type RoceNfs = OverQueuePair<RdmaConnection<NfsServer, roce::Connection>>;

/// NFS over an RDMA adapter, at a server.
pub(crate) type AdapterNfs = OverQueuePair<RdmaConnection<NfsServer, AdapterPair>>;

/// What every connection may hold. It calls nobody.
const CONFIG: Config = Config { calls_sent: 0, ..Config::new(0) };

/// A server's side of an NFS connection.
pub(crate) struct NfsService<C = NfsConnection>(PhantomData<C>);

/// Who has connected to a portal, and whose memory is used.
#[derive(Clone, Copy)]
pub(crate) struct NfsPeer<'a> {
    pub(crate) portal: &'a NfsPortal,
    pub(crate) address: SocketAddr,
    pub(crate) pool: &'a Pool,
}

impl NfsPeer<'_> {
    fn server(self) -> NfsServer {
        let config = ServerConfig {
            exports: Arc::clone(&self.portal.exports),
            client: self.address.ip(),
            identity: self.portal.identity.clone(),
        };
        NfsServer::new(config, self.pool)
    }

    fn over<Q: ManagedQueuePair>(self, pair: Q) -> RdmaConnection<NfsServer, Q> {
        RdmaConnection::new(self.server(), pair, CONFIG, rdma::Role::Server, Account::apart(self.pool))
    }
}

impl NfsService {
    /// A connection for a stream that was just accepted.
    pub(crate) fn connect(peer: NfsPeer<'_>) -> NfsConnection {
        TcpConnection::new(peer.server(), CONFIG)
    }
}

impl NfsService<RdmaNfs> {
    /// What a queue pair must hold for any client.
    pub(crate) fn needs() -> QueueLimits {
        RdmaNfs::needs(&CONFIG, rdma::Role::Server)
    }

    /// A connection for a stream that was just accepted, on which software iWARP is spoken.
    pub(crate) fn connect(peer: NfsPeer<'_>, link: IwarpLink, now: Instant) -> RdmaNfs {
        peer.over(link.responder(now, Self::needs(), peer.pool))
    }
}

impl NfsService<RoceNfs> {
    /// A connection for a queue pair that a peer has just asked for.
    pub(crate) fn connect(peer: NfsPeer<'_>, pair: roce::Connection, now: Instant) -> RoceNfs {
        OverQueuePair::new(now, peer.over(pair))
    }
}

impl NfsService<AdapterNfs> {
    /// A connection for a queue pair that a peer has just asked for.
    pub(crate) fn connect(peer: NfsPeer<'_>, pair: AdapterPair, now: Instant) -> AdapterNfs {
        OverQueuePair::new(now, peer.over(pair))
    }
}

/// Has a connection's upper layer asked.
macro_rules! serving_files {
    ($connection:ty, $carrier:expr, |$this:ident| $end:expr) => {
        impl ServingConnection for $connection {
            const CARRIER: Option<&'static str> = $carrier;

            fn poll_notice(&mut self) -> Option<Notice> {
                let $this = self;
                $end.parts().upper.poll_notice()
            }

            /// A client's name is any bytes, and there may be several behind one connection: its address tells more.
            fn parties(&self) -> Parties {
                Parties::default()
            }

            fn uses(&self, served: ServedId) -> bool {
                let $this = self;
                $end.upper().uses(file_kind::named(served))
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
                let $this = self;
                $end.upper().under_way() > 0
            }
        }
    };
}

serving_files!(NfsConnection, None, |connection| connection);
serving_files!(RdmaNfs, Some("NFS/RDMA"), |connection| connection);
serving_files!(RoceNfs, Some("NFS/RDMA on RoCE"), |connection| connection.consumer);
serving_files!(AdapterNfs, Some("NFS/RDMA on an adapter"), |connection| connection.consumer);

impl<C: ServingConnection<Input = Input, Action = Action>> Role for NfsService<C> {
    type Kind = FileKind;
    type Connection = C;

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
