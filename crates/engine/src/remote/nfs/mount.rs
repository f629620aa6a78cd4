//! MOUNT, which a volume of NFS 3 begins with: one connection that asks for the export's handle, and ends (RFC 1813 appendix I).
//!
//! It goes over TCP, whatever carries NFS, to the port that `mountport=` names. If none is named it is that of NFS, where servers like ours have it. A port mapper is not asked.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ::nfs::client::version3::{Export, MountAction, MountConfig, MountInput};
use ::nfs::client::{self, TcpMount};
use ::rpc::message::AuthSysToSend;
use ::volume::OpenError;
use names::{NFS_PORT, NfsOptions};

use super::super::client::{Client, ClientRole, Dial, Hooks, Owner, Report};
use super::super::client_context::ClientContext;
use super::super::link::{Link, LinkInput, Stage};
use super::super::waiting::{Place, Waiting};

/// A client's side of MOUNT.
struct MountRole;

impl ClientRole for MountRole {
    type Connection = TcpMount;
    type Info = Arc<Export>;

    /// Nobody submits anything: whatever comes ends the connection.
    fn input(_input: LinkInput) -> MountInput {
        MountInput
    }

    fn report(action: MountAction) -> Report<Arc<Export>> {
        match action {
            MountAction::Mounted(export) => Report::Ready(export),
            MountAction::Failed { reason } => Report::Failed(reason),
        }
    }
}

/// Where a server has MOUNT that has NFS at an address.
pub(super) fn address(nfs: SocketAddr, options: &NfsOptions) -> SocketAddr {
    // Over RDMA the port is one of another transport.
    let port = if options.rdma.is_some() { NFS_PORT } else { nfs.port() };
    SocketAddr::new(nfs.ip(), options.mount_port.unwrap_or(port))
}

/// What is asked of MOUNT, and where.
pub(super) struct Question {
    pub(super) address: SocketAddr,
    /// The names from the server's root to the file.
    pub(super) path: Vec<Vec<u8>>,
    pub(super) user: Arc<AuthSysToSend>,
    pub(super) command_time: Duration,
    /// A random number for the first call.
    pub(super) xid: u32,
}

/// Asks for the export of a file.
pub(super) fn begin(question: Question, context: &ClientContext) -> Waiting<Arc<Export>> {
    let Question { address, path, user, command_time, xid } = question;
    let answer: Place<Arc<Export>> = Rc::new(RefCell::new(None));
    let place = Rc::clone(&answer);
    let tell = Box::new(move |export, link: &Link| {
        link.push(LinkInput::Disconnect);
        *place.borrow_mut() = Some(export);
    });
    let owner = Owner { waker: context.waker.clone(), purpose: Arc::new(()) };
    let keep = owner.clone();
    let dial = Dial { address, command_time, owner, hooks: Hooks { tell, turn: None } };
    let make = move |now| client::connect(now, MountConfig { path, user, command_time }, xid);
    let link = Client::<MountRole>::dial(&context.dialer, Box::new(make), dial);
    Waiting::new(move || {
        let _purpose = &keep;
        if let Some(export) = answer.borrow_mut().take() {
            return Some(Ok(export));
        }
        match link.stage() {
            Stage::Failed(why) => Some(Err(OpenError::new(format!("MOUNT at {address}: {why}")))),
            Stage::Opening | Stage::Ready => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use names::RdmaOptions;

    use super::*;

    #[test]
    fn mount_is_at_the_port_of_nfs_unless_the_url_names_another() {
        let nfs: SocketAddr = "192.0.2.1:2050".parse().unwrap();
        let port = |rdma: bool, mount_port| {
            let rdma = rdma.then(RdmaOptions::default);
            address(nfs, &NfsOptions { rdma, mount_port, ..NfsOptions::default() }).port()
        };
        assert_eq!((port(false, None), port(false, Some(20048))), (2050, 20048));
        assert_eq!((port(true, None), port(true, Some(20048))), (2049, 20048));
    }
}
