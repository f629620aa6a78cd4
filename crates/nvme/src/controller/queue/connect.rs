//! Connect at the controller (NVMe Base §6.3): checks, the group's decision, and what the queue becomes.

use alloc::sync::Arc;

use protocol::{CloseReason, Instant, NoticeKind};
use zerocopy::FromBytes;

use super::{ControllerQueue, QueueState};
use crate::controller::Action;
use crate::controller::abort_table::ImmediateAbort;
use crate::controller::command::CommandResult;
use crate::controller::connect::{ConnectNames, ControllerEnd, Membership, RequestedQueue};
use crate::controller::fabric_transport::FabricTransport;
use crate::controller::io::Namespaces;
use crate::controller::queue_state::Joining;
use crate::controller::slots::Step;
use crate::controller::submission_head::{SqFlowControl, SubmissionHead};
use crate::fabrics::{Connect, ConnectData};
use crate::limits::{CONNECT_TIME, SLOT_SLACK};
use crate::status::Status;
use crate::subsystem::{ConnectError, Reply};

impl<T: FabricTransport> ControllerQueue<T> {
    /// A Connect with its data.
    pub(super) fn handle_connect(&mut self, now: Instant, slot: u16, data: &[u8]) {
        let Some(entry) = self.slots.get(slot).map(|slot| slot.command.entry) else { return };
        match self.check_connect(&Connect::view(&entry), data) {
            Ok(Membership { joining, request }) => {
                if let Some(slot) = self.slots.get(slot) {
                    slot.step = Step::Held;
                }
                self.state = QueueState::Connecting { slot, joining };
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

    fn check_connect(&mut self, command: &Connect, data: &[u8]) -> Result<Membership, ConnectError> {
        let short = ConnectError::plain(Status::DATA_SGL_LENGTH_INVALID);
        let (data, _) = ConnectData::read_from_prefix(data).map_err(|_| short)?;
        let names = ConnectNames::read(command, &data)?;
        self.association.host = Some(names.host.clone());
        self.association.subnqn = Some(Arc::clone(&names.subnqn));
        let queue = RequestedQueue::find(&self.portal, command, names)?;
        self.head = SubmissionHead::after_connect(queue.entries.into(), SqFlowControl::of(command));
        self.slots.grow(queue.entries.saturating_add(SLOT_SLACK));
        let (transport, sgls) = (T::TRANSPORT, T::SGLS);
        let end = ControllerEnd { portal: &self.portal, transport, sgls, lifetime: &self.lifetime };
        queue.join(command, &data, &end)
    }

    /// The group answers.
    pub(super) fn handle_reply(&mut self, now: Instant, reply: &Reply) {
        match *reply {
            Reply::Close => self.handle_close(now),
            Reply::Quiesced => self.handle_quiesced(),
            Reply::Refused(error) => match self.state {
                QueueState::Connecting { slot, .. } => self.refuse_connect(slot, error),
                _ => self.end(CloseReason::Refused(error.describe())),
            },
            Reply::Abort { cid, tag } => self.abort(now, cid, tag),
            Reply::Aborted { tag, aborted: true } => self.finish_abort(tag, ImmediateAbort::Performed),
            Reply::Aborted { tag, aborted: false } => self.finish_abort(tag, ImmediateAbort::NotPerformed),
            Reply::Joined { cntlid, hostid, ref lifetime } => {
                self.lifetime = lifetime.clone();
                if let Some(host) = &mut self.association.host {
                    host.identifier = hostid;
                }
                self.join(now, cntlid);
            }
        }
    }

    /// The queue belongs to this controller from now on.
    fn join(&mut self, now: Instant, cntlid: u16) {
        match core::mem::replace(&mut self.state, QueueState::ExpectConnect) {
            QueueState::Connecting { slot, joining } => {
                match *joining {
                    Joining::Admin(mut admin) => {
                        self.notices.push(NoticeKind::Login, "connected");
                        admin.cntlid = cntlid;
                        self.deadline = admin.next_deadline(now);
                        self.lifetime.set_end(self.deadline);
                        self.state = QueueState::Admin(admin);
                    }
                    Joining::Io(subsystem) => {
                        self.notices.push(NoticeKind::Queue, "an I/O queue connected");
                        self.state = QueueState::Io(Namespaces::new(&subsystem));
                        self.deadline = None;
                        self.apply_reservations();
                    }
                }
                self.finish(slot, CommandResult::success(u64::from(cntlid)), None);
            }
            state => self.state = state,
        }
    }
}
