//! One queue pair of a controller: submission queue entries in, requests out, completions in, completion queue entries out
//! (NVMe Base §3.3 for queues over fabrics). How capsules and data travel is its transport's business ([`FabricTransport`]).
//!
//! States: `ExpectConnect` → `Connecting` (the group of controllers decides) → `Admin` or `Io`. Silence before `Admin` or `Io` closes, and so does
//! an expired keep alive timer.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::ToString;
use alloc::sync::Arc;

use buf::{Account, BufList, Outside, Pool};
use protocol::{CloseReason, Instant, Notice, NoticeKind, Notices, Parties};
use volume::{Completion, Operation, Outcome, Request, Submission, Tag, VolumeId};

use super::abort_table::AbortTable;
use super::admin::Admin;
use super::command::{CommandResult, Plan, Position, VolumeRef};
use super::fabric_transport::{FabricTransport, Response};
use super::io::Namespaces;
use super::portal::Portal;
use super::quiesce::Quiesce;
use super::slots::{Slots, Step};
use super::submission_head::SubmissionHead;
use super::subsystem::Subsystem;
use super::volume_states::VolumeStates;
use super::withdrawn::Withdrawn;
use super::{Action, Input, admin_command, fabrics_command};
use crate::cqe::CompletionQueueEntry;
use crate::fabrics::HostIdentity;
use crate::lifetime::Lifetime;
use crate::limits::{CONNECT_TIME, MEMORY_RETRY};
use crate::opcode::{CommandGroup, FABRICS, admin::GET_LBA_STATUS, nvm};
use crate::sgl::Capsule;
use crate::sqe::SubmissionQueueEntry;
use crate::status::Status;
use crate::subsystem::{self, ControllerState};

mod abort;
mod allocation;
mod connect;
mod memory;
mod portal_change;
mod quiesce;
mod reserve;
mod resize;

/// Why a controller ended whose host was not heard of.
const KEEP_ALIVE_EXPIRED: &str = "the keep alive timer expired";

/// What the queue is doing.
#[derive(Debug)]
enum State {
    ExpectConnect,
    Connecting(u16, Box<Joining>),
    Admin(Box<Admin>),
    Io(Namespaces),
}

/// What becomes of the queue if its group agrees.
#[derive(Debug)]
enum Joining {
    Admin(Box<Admin>),
    Io(Arc<Subsystem>),
}

/// What the next command waits for: none is taken before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitReason {
    /// Memory for its data, since the pool's returns were at this number.
    Memory { returns: u64, cid: u16 },
    /// The end of a command, whose slot this one takes.
    Slot { cid: u16 },
    /// Room for an answer: one that was not sent yet leaves.
    Room,
}

/// What has become of a command that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It was taken. What data its capsule has is of no use.
    Taken,
    /// It was taken, and the capsule's data is to be put into the memory of this slot.
    Receives {
        /// The command's slot.
        slot: u16,
    },
    /// It waits where it is: it is to come again when [`ControllerQueue::takes_submissions`] says so.
    Withheld,
}

/// A command's data as far as it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// The command's identifier.
    pub cid: u16,
    /// Bytes that have come.
    pub received: usize,
    /// Bytes in all.
    pub length: usize,
    /// The command has ended: what still comes is passed over.
    pub abandoned: bool,
}

/// Whether data came as it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integrity {
    /// As far as the transport can tell.
    Intact,
    /// The transport has found it damaged.
    Damaged,
}

/// A controller's end of one queue pair, over the transport `T`.
#[derive(Debug)]
pub struct ControllerQueue<T> {
    pub(crate) transport: T,
    portal: Arc<Portal>,
    /// What this queue holds of the pool; what of that is counted for answers, and for tables; and what its tables were granted before they grew.
    account: Account,
    counted: Outside,
    granted: usize,
    state: State,
    submission_waits_for: Option<WaitReason>,
    slots: Slots,
    /// Commands that wait for memory, in order.
    waiting: VecDeque<u16>,
    retry: Option<Instant>,
    /// The pool's count of returns when they were last tried.
    tried_at: u64,
    /// Transfers that the host was asked for: they hold memory until their data comes.
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
    /// When commands that wait for data are looked at, and when any data came last.
    watch_at: Option<Instant>,
    data_heard: Instant,
    /// The time as it was told last.
    now: Instant,
    /// Since when the next command has been waiting for memory.
    waiting_for_memory_since: Option<Instant>,
    actions: VecDeque<Action>,
    deadline: Option<Instant>,
    /// The controller's, once this belongs to one.
    lifetime: Lifetime,
    close: Option<CloseReason>,
}

impl<T: FabricTransport> ControllerQueue<T> {
    /// A queue that nobody has connected yet, of a host that has reached `portal` over `transport`.
    #[expect(clippy::needless_pass_by_value, reason = "the queue keeps the pool, by its account")]
    pub fn new(transport: T, portal: Arc<Portal>, pool: Pool, now: Instant) -> Self {
        Self {
            transport,
            portal,
            account: Account::new(&pool),
            counted: Outside::default(),
            granted: 0,
            state: State::ExpectConnect,
            submission_waits_for: None,
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
            watch_at: None,
            data_heard: now,
            now,
            waiting_for_memory_since: None,
            actions: VecDeque::new(),
            deadline: Some(now + CONNECT_TIME),
            lifetime: Lifetime::new(),
            close: None,
        }
    }

    /// The transport below.
    pub fn transport(&mut self) -> &mut T {
        &mut self.transport
    }

    /// What is served where the host has come in.
    pub fn portal(&self) -> &Portal {
        &self.portal
    }

    /// What the operator is to be told, the oldest first.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop()
    }

    /// The host, and the subsystem that it asked for, as far as they are known.
    pub fn parties(&self) -> Parties {
        let initiator = self.host.as_ref().map(|host| host.nqn.to_string());
        Parties { initiator, target: self.asked.as_ref().map(ToString::to_string) }
    }

    /// Closes once everything is sent. That may take seconds, in which others are to have the memory that commands here wait for.
    pub fn end(&mut self, reason: CloseReason) {
        self.close.get_or_insert(reason);
        self.waiting.clear();
        (self.deadline, self.retry, self.submission_waits_for) = (None, None, None);
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

    /// Takes a command that came with `data` bytes in its capsule. None may come while the group decides about the queue
    /// ([`ControllerQueue::is_connecting`]).
    #[inline]
    pub fn handle_submission(&mut self, now: Instant, entry: SubmissionQueueEntry, data: usize) -> Admission {
        let capsule = Capsule { data, sgls: T::SGLS };
        let cid = entry.cid.get();
        let abort = self.aborts.take_unread(cid);
        let plan = if self.slots.is_outstanding(cid) {
            Plan::fail(Status::COMMAND_ID_CONFLICT.dnr())
        } else if abort.is_some() {
            Plan::fail(Status::ABORT_REQUESTED)
        } else if (self.slots.is_spent() && !self.has_more_slots(cid))
            || !self.has_room_for_answer(&entry, capsule)
        {
            if self.may_wait() {
                return Admission::Withheld;
            }
            self.submission_waits_for = None;
            Plan::fail(Status::COMMAND_INTERRUPTED)
        } else {
            self.decide(now, &entry, capsule)
        };
        // A completion says where the head is once its own command is consumed (NVMe Base §3.3.1.2.1, SQHD).
        let before = self.head;
        self.head.advance();
        let admission = self.carry_out(now, entry, plan);
        match self.state {
            _ if admission == Admission::Withheld => self.head = before,
            State::Admin(_) => self.after_admin(),
            _ => {}
        }
        if let Some(tag) = abort {
            self.answer_abort(tag, true);
        }
        admission
    }

    fn decide(&mut self, now: Instant, entry: &SubmissionQueueEntry, capsule: Capsule) -> Plan {
        let planned = match &mut self.state {
            State::Io(_) if self.quiesce.is_under_way() => Err(Status::COMMAND_SEQUENCE.dnr()),
            State::Admin(admin) => {
                // A Set Features of the Keep Alive Timer applies from this command on.
                let plan = admin_command::plan(admin, entry, capsule);
                let end = admin.next_deadline(now);
                self.lifetime.set_end(end);
                self.deadline = end.into_iter().chain(self.withdrawn.due()).min();
                plan
            }
            State::Io(namespaces) if entry.opcode != FABRICS => namespaces.plan(entry, capsule),
            State::Io(_) => fabrics_command::plan_io(entry),
            _ => fabrics_command::plan_first(entry, capsule),
        };
        planned.unwrap_or_else(Plan::fail)
    }

    /// Does what was decided about a command.
    #[inline]
    fn carry_out(&mut self, now: Instant, entry: SubmissionQueueEntry, plan: Plan) -> Admission {
        match plan {
            Plan::Finish(result) => self.complete(&entry, result, None),
            Plan::Respond(bytes) => self.complete(&entry, CommandResult::SUCCESS, Some(bytes.into())),
            Plan::Receive { length, in_capsule: true, transfer } => {
                return self.receive_capsule(entry, length, transfer);
            }
            Plan::Read(read) if self.waiting.is_empty() && self.begin_read(&entry, &read) => {}
            plan @ (Plan::Read(_) | Plan::Receive { .. }) => {
                let Some(slot) = self.slots.begin(entry, Step::Waiting) else { return Admission::Taken };
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
        Admission::Taken
    }

    /// A piece of a command's data has come whole. The command goes on when it was the last one.
    #[inline]
    pub fn handle_data(&mut self, now: Instant, index: u16, integrity: Integrity) {
        if integrity == Integrity::Damaged
            && let Some(slot) = self.slots.get(index)
            && let Step::Data { damaged, .. } = &mut slot.step
        {
            *damaged = true;
        }
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
            self.notices.push(NoticeKind::Reject, T::DAMAGED);
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
            self.actions.push_back(Action::Submit(Submission { volume, epoch, request }));
        }
    }

    /// Ends a slot's command.
    fn finish(&mut self, slot: u16, result: CommandResult, data: Option<BufList>) {
        if let Some(entry) = self.slots.end(slot) {
            self.complete(&entry, result, data);
            self.settle(slot, result.status);
        }
    }

    fn complete(&mut self, command: &SubmissionQueueEntry, result: CommandResult, data: Option<BufList>) {
        let CommandResult { status, value } = result;
        if status.code() == Status::RESERVATION_CONFLICT.code() {
            self.notices.push(NoticeKind::Conflict, "Reservation Conflict");
        }
        let completion =
            CompletionQueueEntry::new(command.cid.get(), self.head.report(), status).with_result(value);
        if self.close.is_none() {
            let sq_flow_off = self.head.is_flow_off();
            self.transport.send_response(Response { command, completion, data, sq_flow_off });
        }
    }

    #[inline]
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

    /// The time is this, and something has come of the transport. False when nothing of it is looked at, as the controller was not kept alive.
    #[inline]
    pub fn begin_turn(&mut self, now: Instant) -> bool {
        self.now = now;
        !self.expire(now)
    }

    /// What came together was handled, for now.
    #[inline]
    pub fn end_turn(&mut self) {
        self.settle_account();
    }

    /// True while the group decides about the queue: no command may come.
    #[inline]
    pub fn is_connecting(&self) -> bool {
        matches!(self.state, State::Connecting(..))
    }

    /// Whether there is room for what the next command asks. If not, it waits.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        let congested = self.is_congested();
        self.submission_waits_for = congested.then_some(WaitReason::Room);
        !congested
    }

    /// Whether the next command may come, or what waited may come again.
    #[inline]
    pub fn takes_submissions(&mut self) -> bool {
        match self.submission_waits_for {
            None => true,
            Some(WaitReason::Memory { returns, .. }) => self.account.returns() != returns,
            Some(WaitReason::Slot { .. }) => !self.slots.is_spent(),
            Some(WaitReason::Room) => !self.is_congested(),
        }
    }

    /// Something has happened inside.
    #[inline]
    pub fn handle_input(&mut self, now: Instant, input: Input) {
        self.now = now;
        match input {
            Input::Completion(completion) => {
                self.handle_completion(completion);
                self.serve_waiting(now);
                self.check_quiesced();
            }
            Input::StaleEpoch(request) => {
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

    /// Something that waited was sent, and its memory may have come back.
    #[inline]
    pub fn handle_sent(&mut self, now: Instant) {
        self.now = now;
        self.serve_waiting(now);
        self.settle_account();
    }

    /// Memory may have come back to the pool.
    #[inline]
    pub fn handle_memory(&mut self, now: Instant) {
        self.now = now;
        if !self.waiting.is_empty() {
            self.retry_line();
            self.settle_account();
        }
    }

    /// The time that [`ControllerQueue::poll_timeout`] named has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        self.watch_data(now);
        if self.retry.is_some_and(|retry| retry <= now) {
            self.serve_waiting(now);
        }
        if self.quiesce.due().is_some_and(|due| due <= now) {
            self.answer_quiesce();
        }
        self.watch_submission(now);
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.deadline_passed(now);
        }
        self.settle_account();
    }

    /// The transport has ended: nothing is sent any more.
    pub fn handle_ended(&mut self, now: Instant) {
        self.end(CloseReason::Finished);
        self.end_all(now);
        self.settle_account();
    }

    /// The next thing that is asked of the inside.
    #[inline]
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When there is something to do although nothing comes.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let submission = self.submission_due();
        [self.deadline, self.retry, self.quiesce.due(), self.watch_at, submission].into_iter().flatten().min()
    }

    /// True for a queue of a subsystem's controller.
    pub fn is_established(&self) -> bool {
        match &self.state {
            State::Io(_) => true,
            State::Admin(admin) => admin.subsystem().is_some(),
            _ => false,
        }
    }

    /// True while commands wait for memory.
    #[inline]
    pub fn awaits_memory(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Why the queue is over, once it is: what waits to be sent goes first.
    #[inline]
    pub fn poll_close(&self) -> Option<CloseReason> {
        self.close
    }
}
