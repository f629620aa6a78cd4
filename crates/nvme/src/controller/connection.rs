//! One queue's connection at the controller: PDUs in, requests out, completions in, PDUs out
//! (NVMe TCP Transport §3.4 to §3.6; NVMe Base §3.3 for queues over fabrics).
//!
//! States: `ExpectIcReq` → `ExpectConnect` → `Connecting` (the group of controllers decides) → `Admin` or
//! `Io`. A violation in any state queues a termination request and closes; so does silence before `Admin` or
//! `Io`, or an expired keep alive timer.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;

use buf::{Account, BufList, Outside, Pool};
use protocol::{CloseReason, Ended, Instant, NoticeKind, Notices, Placement, Transmit, Unsent};
use volume::{Completion, Operation, Outcome, Request, Tag, VolumeId};
use zerocopy::FromBytes;

use super::abort_table::AbortTable;
use super::admin::Admin;
use super::command::{CommandResult, Plan, Planned, Position, VolumeRef};
use super::io::Namespaces;
use super::portal::Portal;
use super::quiesce::Quiesce;
use super::slots::{Slots, Step};
use super::submission_head::SubmissionHead;
use super::subsystem::Subsystem;
use super::transmit::Outgoing;
use super::volume_states::VolumeStates;
use super::withdrawn::Withdrawn;
use super::{Action, Input, admin_command, fabrics_command};
use crate::cqe::CompletionQueueEntry;
use crate::fabrics::HostIdentity;
use crate::lifetime::Lifetime;
use crate::limits::{CONNECT_TIME, MAX_H2C_DATA, MEMORY_RETRY, SCARCE_SEND_TIME, STAGING};
use crate::opcode::{CommandGroup, FABRICS, admin::GET_LBA_STATUS, nvm};
use crate::pdu::{CapsuleCmd, H2cData, H2cTermReq, PduType, flags};
use crate::receiver::{DataRange, DigestCheck, Receiver};
use crate::sgl::DataPointer;
use crate::sqe::SubmissionQueueEntry;
use crate::status::Status;
use crate::subsystem::{self, ControllerState};
use crate::transport::{Agreement, DIGEST, Framed, Role, Termination, data_digest, frame};
use crate::violation::Violation;
use crate::width::from_field;

mod abort;
mod allocation;
mod connect;
mod memory;
#[cfg(test)]
mod notice_tests;
mod portal_change;
mod quiesce;
mod reserve;
mod resize;

/// Why a controller ended whose host was not heard of.
const KEEP_ALIVE_EXPIRED: &str = "the keep alive timer expired";

/// What the connection is doing.
#[derive(Debug)]
enum State {
    ExpectIcReq,
    ExpectConnect,
    Connecting(u16, Box<Joining>),
    Admin(Box<Admin>),
    Io(Namespaces),
}

/// What becomes of the connection if its group agrees.
#[derive(Debug)]
enum Joining {
    Admin(Box<Admin>),
    Io(Arc<Subsystem>),
}

/// What the stream waits for: no further command is taken before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitReason {
    /// Memory for a command's data, since the pool's returns were at this number.
    Memory { returns: u64, cid: u16 },
    /// The end of a command, whose slot this one takes.
    Slot { cid: u16 },
    /// Room for an answer: one that was not sent yet leaves.
    Room,
}

/// The controller's end of one transport connection, which is one queue.
#[derive(Debug)]
pub struct Connection {
    portal: Arc<Portal>,
    /// What this connection holds of the pool; what of that is counted for answers, and for tables; and what its tables were granted before they grew.
    account: Account,
    counted: Outside,
    granted: usize,
    state: State,
    agreed: Agreement,
    /// What comes next in the stream; data belongs to a slot.
    receiver: Receiver<u16>,
    stream_waits_for: Option<WaitReason>,
    slots: Slots,
    /// Commands that wait for memory, in order.
    waiting: VecDeque<u16>,
    retry: Option<Instant>,
    /// The pool's count of returns when they were last tried.
    tried_at: u64,
    /// Transfers that an R2T has begun: they hold memory until later bytes of the stream come.
    transfers: usize,
    aborts: AbortTable,
    quiesce: Quiesce,
    head: SubmissionHead,
    host: Option<HostIdentity>,
    volume_states: VolumeStates,
    /// The subsystem that the host asked for.
    asked: Option<Arc<str>>,
    /// What is not served any more, or no longer to the host.
    withdrawn: Withdrawn,
    notices: Notices,
    outgoing: VecDeque<Outgoing>,
    /// Data in memory of no pool among what is to be sent.
    unsent: Unsent,
    /// Since when a send has been under way, and when it is looked at.
    sending: Option<(Instant, Instant)>,
    /// When commands that wait for data are looked at, and when any data came last.
    watch_at: Option<Instant>,
    data_heard: Instant,
    /// The time as it was told last.
    now: Instant,
    /// Since when the stream has been waiting for memory.
    waiting_for_memory_since: Option<Instant>,
    actions: VecDeque<Action>,
    deadline: Option<Instant>,
    /// The controller's, once this belongs to one.
    lifetime: Lifetime,
    termination: Option<Termination>,
    close: Option<CloseReason>,
}

impl Connection {
    /// The end of a connection that was accepted on `portal`'s address.
    #[expect(clippy::needless_pass_by_value, reason = "the connection keeps the pool, by its account")]
    pub fn new(portal: Arc<Portal>, pool: Pool, now: Instant) -> Self {
        Self {
            portal,
            account: Account::new(&pool),
            counted: Outside::default(),
            granted: 0,
            state: State::ExpectIcReq,
            agreed: Agreement::default(),
            receiver: Receiver::Header,
            stream_waits_for: None,
            slots: Slots::new(1),
            waiting: VecDeque::new(),
            retry: None,
            tried_at: pool.returns(),
            transfers: 0,
            aborts: AbortTable::default(),
            quiesce: Quiesce::default(),
            head: SubmissionHead::default(),
            host: None,
            volume_states: VolumeStates::default(),
            asked: None,
            withdrawn: Withdrawn::default(),
            notices: Notices::default(),
            outgoing: VecDeque::new(),
            unsent: Unsent::default(),
            sending: None,
            watch_at: None,
            data_heard: now,
            now,
            waiting_for_memory_since: None,
            actions: VecDeque::new(),
            deadline: Some(now + CONNECT_TIME),
            lifetime: Lifetime::new(),
            termination: None,
            close: None,
        }
    }

    fn violate(&mut self, violation: Violation, bytes: &[u8]) {
        self.termination = Some(Termination::new(violation, bytes));
        self.drop_outgoing();
        self.end(CloseReason::Violation(violation.describe()));
    }

    /// Closes once everything is sent. That may take seconds, in which others are to have the memory that commands here wait for.
    fn end(&mut self, reason: CloseReason) {
        self.close.get_or_insert(reason);
        self.waiting.clear();
        (self.deadline, self.retry, self.stream_waits_for) = (None, None, None);
    }

    /// Ends a connection whose controller was not kept alive; true if so.
    fn expire(&mut self, now: Instant) -> bool {
        let over = self.lifetime.is_over(now);
        if over {
            self.end(CloseReason::TimedOut(KEEP_ALIVE_EXPIRED));
        }
        over
    }

    /// The host has not done in time what was waited for, or something was withdrawn from it for long enough.
    fn deadline_passed(&mut self, now: Instant) {
        match (&self.state, self.withdrawn.reason()) {
            (State::Admin(_), _) if self.lifetime.is_over(now) => {
                self.end(CloseReason::TimedOut(KEEP_ALIVE_EXPIRED));
            }
            (State::Admin(_) | State::Io(_), Some(reason)) => self.end(reason),
            (State::Admin(_) | State::Io(_), None) => self.show_again(now),
            _ => self.end(CloseReason::TimedOut("the host did not connect in time")),
        }
    }

    /// Takes a PDU's header off the front of `bytes`, if it is there whole and there is room for what it asks.
    fn handle_header(&mut self, now: Instant, bytes: &[u8]) -> usize {
        if self.is_congested() {
            self.stream_waits_for = Some(WaitReason::Room);
            return 0;
        }
        let framed = match frame(Role::Controller, self.agreed, bytes) {
            Ok(Some(framed)) => framed,
            Ok(None) => return 0,
            Err(violation) => {
                self.violate(violation, bytes);
                return 0;
            }
        };
        match self.handle_pdu(now, &framed) {
            Ok(true) => framed.before_data,
            Ok(false) => 0,
            Err(violation) => {
                self.violate(violation, bytes);
                0
            }
        }
    }

    /// Acts on a PDU; false when it must wait for memory.
    fn handle_pdu(&mut self, now: Instant, framed: &Framed<'_>) -> Result<bool, Violation> {
        let kind = framed.common.kind;
        match (kind, &self.state) {
            (PduType::H2C_TERM_REQ, _) => {
                self.handle_termination(framed);
                Ok(true)
            }
            (PduType::IC_REQ, State::ExpectIcReq) => self.handle_ic_req(framed).map(|()| true),
            (PduType::CAPSULE_CMD, State::ExpectConnect | State::Admin(_) | State::Io(_)) => {
                let Ok((capsule, _)) = CapsuleCmd::read_from_prefix(framed.header) else { return Ok(false) };
                Ok(self.handle_command(now, capsule.entry, framed.data))
            }
            (PduType::H2C_DATA, State::ExpectConnect | State::Admin(_) | State::Io(_)) => {
                self.handle_h2c_data(framed).map(|()| true)
            }
            _ => Err(Violation::OutOfSequence(kind)),
        }
    }

    fn handle_termination(&mut self, framed: &Framed<'_>) {
        let named =
            H2cTermReq::read_from_prefix(framed.header).is_ok_and(|(request, _)| request.fes.get() != 0);
        let text =
            if named { "the host reported a fatal error" } else { "the host terminated the connection" };
        self.receiver.discard(framed.data);
        self.end(CloseReason::Violation(text));
    }

    /// Passes over the data of a command that was refused.
    fn discard(&mut self, data: usize) {
        if data != 0 {
            let digest = if self.agreed.data_digest { DIGEST } else { 0 };
            self.receiver.discard(data.saturating_add(digest));
        }
    }

    /// Takes a command that came with `data` bytes; false when it must wait for memory.
    fn handle_command(&mut self, now: Instant, entry: SubmissionQueueEntry, data: usize) -> bool {
        let cid = entry.cid.get();
        let abort = self.aborts.take_unread(cid);
        let plan = if self.slots.is_outstanding(cid) {
            Plan::fail(Status::COMMAND_ID_CONFLICT.dnr())
        } else if abort.is_some() {
            Plan::fail(Status::ABORT_REQUESTED)
        } else if (self.slots.is_spent() && !self.has_more_slots(cid))
            || !self.has_room_for_answer(&entry, data)
        {
            if self.may_wait() {
                return false;
            }
            self.stream_waits_for = None;
            Plan::fail(Status::COMMAND_INTERRUPTED)
        } else {
            self.decide(now, &entry, data)
        };
        // A completion says where the head is once its own command is consumed (NVMe Base §3.3.1.2.1, SQHD).
        let before = self.head;
        self.head.advance();
        let taken = self.carry_out(now, entry, Planned { plan, data });
        match self.state {
            _ if !taken => self.head = before,
            State::Admin(_) => self.after_admin(),
            _ => {}
        }
        if let Some(tag) = abort {
            self.answer_abort(tag, true);
        }
        taken
    }

    fn decide(&mut self, now: Instant, entry: &SubmissionQueueEntry, data: usize) -> Plan {
        let planned = match &mut self.state {
            State::Io(_) if self.quiesce.is_under_way() => Err(Status::COMMAND_SEQUENCE.dnr()),
            State::Admin(admin) => {
                // A Set Features of the Keep Alive Timer applies from this command on.
                let plan = admin_command::plan(admin, entry, data);
                let end = admin.next_deadline(now);
                self.lifetime.set_end(end);
                self.deadline = end.into_iter().chain(self.withdrawn.due()).min();
                plan
            }
            State::Io(namespaces) if entry.opcode != FABRICS => namespaces.plan(entry, data),
            State::Io(_) => fabrics_command::plan_io(entry),
            _ => fabrics_command::plan_first(entry, data),
        };
        planned.unwrap_or_else(Plan::fail)
    }

    /// Does what was decided about a command; false when the stream must wait.
    fn carry_out(&mut self, now: Instant, entry: SubmissionQueueEntry, planned: Planned) -> bool {
        let Planned { plan, data } = planned;
        match plan {
            Plan::Finish(result) => {
                self.discard(data);
                self.complete(&entry, result, None);
            }
            Plan::Respond(bytes) => {
                self.discard(data);
                self.complete(&entry, CommandResult::SUCCESS, Some(bytes.into()));
            }
            Plan::Receive { pointer: DataPointer::InCapsule { length }, transfer } => {
                return self.receive_capsule(entry, length, transfer);
            }
            Plan::Read(read) if self.waiting.is_empty() && self.begin_read(&entry, &read) => {}
            plan @ (Plan::Read(_) | Plan::Receive { .. }) => {
                let Some(slot) = self.slots.begin(entry, Step::Waiting) else { return true };
                if !self.serve_new(slot, &plan) {
                    self.waiting.push_back(slot);
                    self.retry = Some(now + MEMORY_RETRY);
                }
            }
            Plan::Submit { volume_ref, operation } => {
                let step = Step::Submitted {
                    volume: volume_ref.volume,
                    ranges: None,
                    position: Position::AFTER_FIRST,
                };
                let slot = self.slots.begin(entry, step);
                self.submit(slot, volume_ref, operation);
            }
            Plan::Hold => {
                let slot = self.slots.begin(entry, Step::Held);
                if let (State::Admin(admin), Some(slot)) = (&mut self.state, slot) {
                    admin.hold(slot);
                }
            }
            Plan::Query(query) => self.begin_query(entry, &query),
            Plan::Abort => self.begin_abort(now, entry),
            Plan::Disconnect => self.begin_disconnect(now, entry),
            Plan::Quiesce => self.begin_quiesce(now, entry),
        }
        true
    }

    /// A piece of data that an R2T asked for.
    fn handle_h2c_data(&mut self, framed: &Framed<'_>) -> Result<(), Violation> {
        let Ok((pdu, _)) = H2cData::read_from_prefix(framed.header) else {
            return Err(Violation::HeaderLength);
        };
        let index = pdu.ttag.get();
        let slot = self.slots.get(index).ok_or(Violation::TransferTag)?;
        let (Step::Data { received, length, .. } | Step::Abandoned { received, length }) = &slot.step else {
            return Err(Violation::UnknownCommand);
        };
        if slot.entry.cid.get() != pdu.cccid.get() {
            return Err(Violation::UnknownCommand);
        }
        let offset = from_field(pdu.datao.get());
        let count = from_field(pdu.datal.get());
        let end = offset.saturating_add(count);
        if offset != *received || end > *length {
            return Err(Violation::DataRange);
        }
        if count != framed.data {
            return Err(Violation::PduLength);
        }
        if pdu.datal.get() > MAX_H2C_DATA {
            return Err(Violation::DataLimit);
        }
        if framed.common.has(flags::LAST) != (end == *length) {
            return Err(Violation::LastFlag);
        }
        if matches!(slot.step, Step::Abandoned { .. }) {
            self.slots.pass_over(index, end);
            self.discard(count);
        } else {
            self.receiver.expect_data(index, DataRange { start: offset, length: count });
        }
        Ok(())
    }

    /// Data has come, and its digest was right or there is none.
    fn data_arrived(&mut self, now: Instant, index: u16) {
        if self.aborts.is_pending_for(index) {
            self.stop_transfer(index, self.aborts.status(index));
            return;
        }
        let Some(slot) = self.slots.get(index) else { return };
        let Step::Data { buf, received, length, damaged, transfer, .. } = &mut slot.step else { return };
        if *received < *length {
            return;
        }
        let (damaged, transfer) = (*damaged, *transfer);
        let Some(data) = buf.take() else { return };
        let entry = slot.entry;
        if !entry.dptr.is_in_capsule() {
            self.transfers = self.transfers.saturating_sub(1);
        }
        self.watch_at = self.watch_at.filter(|_| self.transfers > 0);
        if damaged {
            self.notices.push(NoticeKind::Reject, "a data digest that does not match");
            return self.finish(index, CommandResult::of(Status::TRANSIENT_TRANSPORT), None);
        }
        let next = match (&self.state, transfer) {
            (State::Io(namespaces), Some(transfer)) => namespaces.with_data(transfer, data),
            (State::Io(_), None) if entry.opcode == nvm::DATASET_MANAGEMENT => {
                let volume = VolumeId::new(0, 0);
                slot.step = Step::Submitted { volume, ranges: Some(data), position: Position::START };
                return self.next_step(index);
            }
            (State::Io(_), None) => return self.reserve(index, &data),
            (State::Admin(_), _) => Err(Status::SUCCESS),
            _ => return self.handle_connect(now, index, &data),
        };
        match next {
            Ok((volume_ref, operation)) => {
                slot.step = Step::Submitted {
                    volume: volume_ref.volume,
                    ranges: None,
                    position: Position::AFTER_FIRST,
                };
                self.submit(Some(index), volume_ref, operation);
            }
            Err(status) => self.finish(index, CommandResult::of(status), None),
        }
    }

    /// The next request of a command that needs several, or its end.
    fn next_step(&mut self, index: u16) {
        let (Some(slot), State::Io(namespaces)) = (self.slots.get(index), &self.state) else { return };
        let entry = slot.entry;
        let Step::Submitted { volume, ranges, position } = &mut slot.step else { return };
        let step = if let Some(ranges) = ranges {
            namespaces.next_discard(&entry, ranges, *position).map(|found| {
                found.map(|discard| {
                    *position = discard.position;
                    (discard.volume_ref, Operation::Discard { extent: discard.extent })
                })
            })
        } else {
            let flushed = position.next;
            position.next = flushed.saturating_add(1);
            namespaces.next_flush(&entry, flushed)
        };
        match step {
            Ok(Some(_)) if self.aborts.is_pending_for(index) => self.finish_aborted(index),
            Ok(Some((volume_ref, operation))) => {
                *volume = volume_ref.volume;
                self.submit(Some(index), volume_ref, operation);
            }
            Ok(None) => self.finish(index, CommandResult::SUCCESS, None),
            Err(status) => self.finish(index, CommandResult::of(status), None),
        }
    }

    fn submit(&mut self, slot: Option<u16>, volume_ref: VolumeRef, operation: Operation) {
        if let Some(slot) = slot {
            let request = Request { tag: Tag(u64::from(slot)), operation };
            let VolumeRef { volume, epoch } = volume_ref;
            self.actions.push_back(Action::Submit { volume, epoch, request });
        }
    }

    /// Ends a slot's command.
    fn finish(&mut self, slot: u16, result: CommandResult, data: Option<BufList>) {
        if let Some(entry) = self.slots.end(slot) {
            self.complete(&entry, result, data);
            self.settle(slot, result.status);
        }
    }

    fn complete(&mut self, entry: &SubmissionQueueEntry, result: CommandResult, data: Option<BufList>) {
        let CommandResult { status, value } = result;
        if status.code() == Status::RESERVATION_CONFLICT.code() {
            self.notices.push(NoticeKind::Conflict, "Reservation Conflict");
        }
        let entry = CompletionQueueEntry::new(entry.cid.get(), self.head.report(), status).with_result(value);
        if self.close.is_none() {
            self.unsent.add(data.as_ref().map_or(0, BufList::unpooled));
            self.outgoing.push_back(Outgoing::Complete { entry, data, may_omit: self.head.is_flow_off() });
        }
    }

    fn handle_completion(&mut self, completion: Completion) {
        let Ok(index) = u16::try_from(completion.tag.0) else { return };
        let Some(slot) = self.slots.get(index) else { return };
        match completion.result {
            Ok(Outcome::Data(data)) => self.finish(index, CommandResult::SUCCESS, Some(data)),
            Ok(Outcome::Allocation(run)) => self.handle_allocation(index, run),
            Err(volume::Failure { kind, .. }) => {
                let group = match slot.entry.opcode {
                    nvm::READ | GET_LBA_STATUS => CommandGroup::Read,
                    _ => CommandGroup::Write,
                };
                let status = self.aborts.judge(index, Status::from_volume(kind, group));
                self.finish(index, CommandResult::of(status), None);
            }
            Ok(_) if matches!(slot.entry.opcode, nvm::FLUSH | nvm::DATASET_MANAGEMENT) => {
                self.next_step(index);
            }
            Ok(_) => self.finish(index, CommandResult::SUCCESS, None),
        }
    }

    /// Tells the group what the admin queue decided, and reports events.
    fn after_admin(&mut self) {
        loop {
            let State::Admin(admin) = &mut self.state else { return };
            if let Some(request) = admin.news.pop_front() {
                if request == subsystem::Request::Ready(ControllerState::Disabled) {
                    self.notices.push(NoticeKind::Management, "controller reset or shutdown");
                }
                self.actions.push_back(Action::Group(request));
            } else if let Some((slot, result)) = admin.poll_event() {
                self.finish(slot, CommandResult::success(result), None);
            } else {
                return;
            }
        }
    }

    fn handle_staged(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let mut used = 0_usize;
        loop {
            let rest = bytes.get(used..).unwrap_or_default();
            if self.close.is_some() {
                return bytes.len();
            }
            let step = match self.receiver {
                Receiver::Header => self.handle_header(now, rest),
                Receiver::Digest { .. } => self.handle_digest(now, rest),
                Receiver::Discard { .. } => self.receiver.skip(rest.len()),
                Receiver::Data { .. } | Receiver::Placing { .. } => 0,
            };
            if step == 0 && self.close.is_none() {
                return used;
            }
            used = used.saturating_add(step);
        }
    }

    fn handle_digest(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let Some(DigestCheck { owner: index, matches }) = self.receiver.take_digest(bytes) else { return 0 };
        if !matches
            && let Some(slot) = self.slots.get(index)
            && let Step::Data { damaged, .. } = &mut slot.step
        {
            *damaged = true;
        }
        self.data_arrived(now, index);
        DIGEST
    }
}

impl protocol::Connection for Connection {
    type Input = Input;
    type Action = Action;

    const STAGING: usize = STAGING;

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        self.now = now;
        if self.expire(now) {
            return bytes.len();
        }
        self.stream_waits_for = None;
        let used = self.handle_staged(now, bytes);
        self.settle_account();
        used
    }

    fn take_placement(&mut self) -> Option<Placement> {
        let Receiver::Data { owner: index, range } = self.receiver else { return None };
        let Step::Data { buf, .. } = &mut self.slots.get(index)?.step else { return None };
        let buf = buf.take()?;
        self.receiver.lend();
        Some(Placement { buf, start: range.start, len: range.length, token: u64::from(index) })
    }

    fn handle_placed(&mut self, now: Instant, placement: Placement) {
        self.now = now;
        let Receiver::Placing { owner: index } = self.receiver else { return };
        if self.expire(now) {
            return;
        }
        let end = placement.start.saturating_add(placement.len);
        let sum = self.agreed.data_digest.then(|| data_digest(&placement));
        self.note_placed(index, placement.buf, end);
        self.receiver.place(sum);
        if sum.is_none() {
            self.data_arrived(now, index);
        }
        self.settle_account();
    }

    fn handle_input(&mut self, now: Instant, input: Input) {
        self.now = now;
        match input {
            Input::Completion(completion) => {
                self.handle_completion(completion);
                self.serve_waiting(now);
                self.check_quiesced();
            }
            Input::Refused(request) => {
                self.handle_refused(*request);
                self.serve_waiting(now);
                self.check_quiesced();
            }
            Input::Fence { volume, epoch, reservations } => {
                self.handle_fence(now, VolumeRef { volume, epoch }, reservations);
            }
            Input::Reserved { tag, result } => self.handle_reserved(tag, result),
            Input::Group(reply) => self.handle_reply(now, &reply),
            Input::NamespaceChanged { volume, geometry } => self.handle_resize(volume, geometry),
            Input::PortalChanged(portal) => self.handle_portal_change(now, portal),
            Input::Shutdown => self.end(CloseReason::ShuttingDown),
        }
        self.settle_account();
    }

    fn handle_transmitted(&mut self, now: Instant, _bytes: usize) {
        self.now = now;
        self.sending = None;
        self.unsent.sent();
        self.serve_waiting(now);
        self.settle_account();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        self.watch_sending(now);
        self.watch_data(now);
        if self.retry.is_some_and(|retry| retry <= now) {
            self.serve_waiting(now);
        }
        if self.quiesce.due().is_some_and(|due| due <= now) {
            self.answer_quiesce();
        }
        self.watch_stream(now);
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.deadline_passed(now);
        }
        self.settle_account();
    }

    fn handle_ended(&mut self, now: Instant, _how: Ended) {
        self.end(CloseReason::Finished);
        self.drop_outgoing();
        self.unsent.sent();
        (self.sending, self.stream_waits_for) = (None, None);
        self.end_all(now);
        self.settle_account();
    }

    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
        while !send.is_full() {
            let Some(outgoing) = self.outgoing.pop_front() else { break };
            self.unsent.leave(outgoing.unpooled());
            outgoing.put(self.agreed, send);
        }
        if self.outgoing.is_empty()
            && let Some(termination) = self.termination.take()
        {
            termination.put(Role::Controller, send);
        }
        if !send.is_empty() {
            self.sending = Some((now, now + SCARCE_SEND_TIME));
        }
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        if self.actions.is_empty() && !self.waiting.is_empty() {
            self.retry_line();
        }
        self.actions.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let sending = self.sending.map(|(_, due)| due);
        let stream = self.stream_due();
        [self.deadline, self.retry, self.quiesce.due(), self.watch_at, sending, stream]
            .into_iter()
            .flatten()
            .min()
    }

    fn wants_bytes(&mut self) -> bool {
        match self.stream_waits_for {
            None => true,
            Some(WaitReason::Memory { returns, .. }) => self.account.returns() != returns,
            Some(WaitReason::Slot { .. }) => !self.slots.is_spent(),
            Some(WaitReason::Room) => !self.is_congested(),
        }
    }

    fn is_established(&self) -> bool {
        match &self.state {
            State::Io(_) => true,
            State::Admin(admin) => admin.subsystem().is_some(),
            _ => false,
        }
    }

    fn awaits_memory(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.close
    }
}
