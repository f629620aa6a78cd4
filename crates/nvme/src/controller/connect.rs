//! What a Connect asks for, checked against what is served (NVMe Base §6.3).

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::admin::Admin;
use super::portal::Portal;
use super::queue_state::Joining;
use super::service::{DiscoveryService, Service};
use super::subsystem::Subsystem;
use crate::DISCOVERY_NQN;
use crate::fabrics::{ANY_CONTROLLER, Connect, ConnectData, HostIdentity, field, host_name, text};
use crate::lifetime::Lifetime;
use crate::limits::ADMIN_QUEUE;
use crate::log::TransportType;
use crate::sgl::SglSupport;
use crate::status::Status;
use crate::subsystem::{ConnectError, Request};

/// The host and the subsystem that a Connect names.
#[derive(Debug, Clone)]
pub(super) struct ConnectNames {
    pub(super) host: HostIdentity,
    pub(super) subnqn: Arc<str>,
}

impl ConnectNames {
    /// Reads the names of a Connect.
    pub(super) fn read(command: &Connect, data: &ConnectData) -> Result<Self, ConnectError> {
        if command.recfmt.get() != 0 {
            return Err(ConnectError::plain(Status::CONNECT_FORMAT));
        }
        let subnqn = text(&data.subnqn).ok_or(ConnectError::data(field::SUBNQN))?;
        let hostnqn = host_name(&data.hostnqn).ok_or(ConnectError::data(field::HOSTNQN))?;
        let host = HostIdentity { identifier: data.hostid, nqn: Arc::from(hostnqn) };
        Ok(Self { host, subnqn: Arc::from(subnqn) })
    }
}

/// The queue that a Connect asks for, of a size that its controller has.
#[derive(Debug)]
pub(super) struct RequestedQueue {
    names: ConnectNames,
    qid: u16,
    /// `None` for discovery.
    subsystem: Option<Arc<Subsystem>>,
    /// Entries of its submission queue.
    pub(super) entries: u16,
}

impl RequestedQueue {
    /// Looks for the queue at a portal.
    pub(super) fn find(
        portal: &Portal,
        command: &Connect,
        names: ConnectNames,
    ) -> Result<Self, ConnectError> {
        let found = portal.find(&names.subnqn);
        if found.is_none() && *names.subnqn != *DISCOVERY_NQN {
            return Err(ConnectError::NO_SUBSYSTEM);
        }
        if found.is_some_and(|subsystem| !subsystem.allows(&names.host.nqn)) {
            return Err(ConnectError::HOST_NOT_ALLOWED);
        }
        let subsystem = found.map(|subsystem| subsystem.masked(&names.host.nqn));
        let (qid, sqsize) = (command.qid.get(), command.sqsize.get());
        let depth = subsystem.as_ref().map_or(0, |subsystem| subsystem.limits.depth);
        let most = if qid == 0 { ADMIN_QUEUE } else { depth };
        if qid != 0 && subsystem.is_none() {
            return Err(ConnectError::command(field::QID));
        }
        if sqsize == 0 || sqsize >= most.max(2) {
            return Err(ConnectError::command(field::SQSIZE));
        }
        Ok(Self { names, qid, subsystem, entries: sqsize.saturating_add(1) })
    }

    /// What the queue becomes if its group agrees to the request.
    pub(super) fn join(
        self,
        command: &Connect,
        data: &ConnectData,
        end: &ControllerEnd<'_>,
    ) -> Result<Membership, ConnectError> {
        let Self { names, qid, subsystem, .. } = self;
        let ConnectNames { host, subnqn } = names;
        let service = match subsystem {
            Some(subsystem) if qid != 0 => {
                let request = Request::Io { subnqn, host, cntlid: data.cntlid.get(), qid };
                return Ok(Membership { joining: Box::new(Joining::Io(subsystem)), request });
            }
            Some(subsystem) => Service::Subsystem(subsystem),
            None => Service::Discovery(DiscoveryService::new(end.portal, &host.nqn, end.transport)),
        };
        if data.cntlid.get() != ANY_CONTROLLER {
            return Err(ConnectError::data(field::CNTLID));
        }
        let admin = Admin::new(service, host.clone(), command.kato.get(), end.sgls);
        let (max_queues, lifetime) = (admin.max_queues(), end.lifetime.clone());
        let request = Request::Admin { subnqn, host, max_queues, lifetime };
        Ok(Membership { joining: Box::new(Joining::Admin(admin)), request })
    }
}

/// Where a host has connected.
#[derive(Debug, Clone, Copy)]
pub(super) struct ControllerEnd<'a> {
    pub(super) portal: &'a Arc<Portal>,
    pub(super) transport: TransportType,
    pub(super) sgls: SglSupport,
    pub(super) lifetime: &'a Lifetime,
}

/// What the group is asked, and what the queue becomes if it agrees.
#[derive(Debug)]
pub(super) struct Membership {
    pub(super) joining: Box<Joining>,
    pub(super) request: Request,
}
