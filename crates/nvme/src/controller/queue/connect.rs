//! Connect at the controller (NVMe Base §6.3): checks, the group's decision, and what the queue becomes.

use alloc::boxed::Box;
use alloc::sync::Arc;

use protocol::{CloseReason, Instant, NoticeKind};
use zerocopy::FromBytes;

use super::{ControllerQueue, Joining, State};
use crate::DISCOVERY_NQN;
use crate::controller::admin::Admin;
use crate::controller::command::CommandResult;
use crate::controller::fabric_transport::FabricTransport;
use crate::controller::io::Namespaces;
use crate::controller::service::{DiscoveryService, Service};
use crate::controller::slots::Step;
use crate::controller::submission_head::SubmissionHead;
use crate::controller::{Action, Subsystem};
use crate::fabrics::{ANY_CONTROLLER, Connect, ConnectData, HostIdentity, field, host_name, text};
use crate::limits::{ADMIN_QUEUE, CONNECT_TIME, SLOT_SLACK};
use crate::status::Status;
use crate::subsystem::{self, ConnectError, Reply};

/// No subsystem has the name that the host asked for.
pub(super) const NO_SUBSYSTEM: ConnectError = ConnectError::data(field::SUBNQN);
/// The host may not use the subsystem.
pub(super) const HOST_NOT_ALLOWED: ConnectError = ConnectError::plain(Status::CONNECT_HOST);

impl<T: FabricTransport> ControllerQueue<T> {
    /// A Connect with its data.
    pub(super) fn handle_connect(&mut self, now: Instant, slot: u16, data: &[u8]) {
        let Some(entry) = self.slots.get(slot).map(|slot| slot.entry) else { return };
        match self.check_connect(&Connect::view(&entry), data) {
            Ok((joining, request)) => {
                if let Some(slot) = self.slots.get(slot) {
                    slot.step = Step::Held;
                }
                self.state = State::Connecting(slot, Box::new(joining));
                self.deadline = Some(now + CONNECT_TIME);
                self.actions.push_back(Action::Group(request));
            }
            Err(error) => self.refuse_connect(slot, error),
        }
    }

    /// Answers a Connect that cannot be, and closes.
    pub(super) fn refuse_connect(&mut self, slot: u16, error: ConnectError) {
        self.finish(slot, CommandResult { status: error.status, value: error.result.into() }, None);
        self.end(CloseReason::Refused(error.describe()));
    }

    fn check_connect(
        &mut self,
        command: &Connect,
        data: &[u8],
    ) -> Result<(Joining, subsystem::Request), ConnectError> {
        let short = ConnectError::plain(Status::DATA_SGL_LENGTH_INVALID);
        let (data, _) = ConnectData::read_from_prefix(data).map_err(|_| short)?;
        if command.recfmt.get() != 0 {
            return Err(ConnectError::plain(Status::CONNECT_FORMAT));
        }
        let subnqn = text(&data.subnqn).ok_or(ConnectError::data(field::SUBNQN))?;
        let hostnqn = host_name(&data.hostnqn).ok_or(ConnectError::data(field::HOSTNQN))?;
        let host = HostIdentity { identifier: data.hostid, nqn: Arc::from(hostnqn) };
        let asked: Arc<str> = Arc::from(subnqn);
        (self.host, self.asked) = (Some(host.clone()), Some(Arc::clone(&asked)));
        let found = self.portal.find(subnqn);
        if found.is_none() && subnqn != DISCOVERY_NQN {
            return Err(NO_SUBSYSTEM);
        }
        if found.is_some_and(|subsystem| !subsystem.allows(hostnqn)) {
            return Err(HOST_NOT_ALLOWED);
        }
        let subsystem = found.map(|subsystem| subsystem.masked(hostnqn));
        let (qid, sqsize) = (command.qid.get(), command.sqsize.get());
        let depth = subsystem.as_ref().map_or(0, |subsystem| subsystem.limits.depth);
        let most = if qid == 0 { ADMIN_QUEUE } else { depth };
        if qid != 0 && subsystem.is_none() {
            return Err(ConnectError::command(field::QID));
        }
        if sqsize == 0 || sqsize >= most.max(2) {
            return Err(ConnectError::command(field::SQSIZE));
        }
        let entries = u32::from(sqsize).saturating_add(1);
        self.head = SubmissionHead::after_connect(entries, command.disables_sq_flow());
        self.slots.grow(sqsize.saturating_add(1).saturating_add(SLOT_SLACK));
        let subnqn = asked;
        let service = match subsystem {
            Some(subsystem) if qid != 0 => {
                let cntlid = data.cntlid.get();
                return Ok((Joining::Io(subsystem), subsystem::Request::Io { subnqn, host, cntlid, qid }));
            }
            Some(subsystem) => Service::Subsystem(subsystem),
            None => Service::Discovery(DiscoveryService::new(&self.portal, hostnqn, T::TRANSPORT)),
        };
        if data.cntlid.get() != ANY_CONTROLLER {
            return Err(ConnectError::data(field::CNTLID));
        }
        let admin = Admin::new(service, host.clone(), command.kato.get(), T::SGLS);
        let max_queues = admin.max_queues();
        let lifetime = self.lifetime.clone();
        Ok((Joining::Admin(admin), subsystem::Request::Admin { subnqn, host, max_queues, lifetime }))
    }

    pub(super) fn handle_reply(&mut self, now: Instant, reply: &Reply) {
        let cntlid = match reply {
            Reply::Close => return self.handle_close(now),
            Reply::Quiesced => return self.handle_quiesced(),
            &Reply::Refused(error) => {
                return match self.state {
                    State::Connecting(slot, _) => self.refuse_connect(slot, error),
                    _ => self.end(CloseReason::Refused(error.describe())),
                };
            }
            &Reply::Abort { cid, tag } => return self.abort(now, cid, tag),
            &Reply::Aborted { tag, aborted } => return self.finish_abort(tag, aborted),
            Reply::Joined { cntlid, hostid, lifetime } => {
                self.lifetime = lifetime.clone();
                if let Some(host) = &mut self.host {
                    host.identifier = *hostid;
                }
                *cntlid
            }
        };
        match core::mem::replace(&mut self.state, State::ExpectConnect) {
            State::Connecting(slot, joining) => {
                match *joining {
                    Joining::Admin(mut admin) => {
                        self.notices.push(NoticeKind::Login, "connected");
                        admin.cntlid = cntlid;
                        self.deadline = admin.next_deadline(now);
                        self.lifetime.set_end(self.deadline);
                        self.state = State::Admin(admin);
                    }
                    Joining::Io(subsystem) => {
                        self.notices.push(NoticeKind::Queue, "an I/O queue connected");
                        self.attach(&subsystem);
                    }
                }
                self.finish(slot, CommandResult::success(u64::from(cntlid)), None);
            }
            state => self.state = state,
        }
    }

    /// Becomes an I/O queue of a subsystem.
    fn attach(&mut self, subsystem: &Subsystem) {
        self.state = State::Io(Namespaces::new(subsystem));
        self.deadline = None;
        self.apply_reservations();
    }
}
