//! One queue pair of a controller: submission queue entries in, requests out, completions in, completion queue entries out
//! (NVMe Base §3.3 for queues over fabrics). How capsules and data travel is its transport's business ([`FabricTransport`]).
//!
//! This file joins the components, each of which has its own file and states: what leaves the queue (`outgoing`), its commands (`command_table`), their data and
//! the memory for it (`command_data`), what it is to its host (`served`), and who waits for its end (`quiesce`). How commands go on is in `commands`. Silence before the
//! queue is connected closes, and so does an expired keep alive timer.

use alloc::sync::Arc;
use alloc::vec::Vec;

use buf::{Buf, Pool};
use protocol::{CloseReason, Instant, Notice, NoticeKind, Parties};
use volume::VolumeId;

use super::abort_table::{Ending, ImmediateAbort};
use super::command::{CommandResult, Plan, ReceivedCommand, VolumeRef};
use super::command_data::{Admission, ArrivedPiece, CommandData, Transfer};
use super::command_table::CommandTable;
use super::fabric_transport::FabricTransport;
use super::io::Namespaces;
use super::outgoing::Outgoing;
use super::portal::Portal;
use super::portal_change::{Reaction, Stage};
use super::queue_state::{Joining, QueueState};
use super::quiesce::Quiesce;
use super::reservation::Reservations;
use super::served::Served;
use super::slots::{Slots, Step};
use super::submission_gate::Patience;
use super::subsystem::NamespaceKey;
use super::{Action, Input};
use crate::lifetime::Lifetime;
use crate::limits::CONNECT_TIME;
use crate::opcode::nvm;
use crate::sgl::Capsule;
use crate::sqe::{ALL_NAMESPACES, SubmissionQueueEntry};
use crate::status::Status;
use crate::subsystem::{ConnectError, Reply};

mod commands;

/// Why a controller ended whose host was not heard of.
const KEEP_ALIVE_EXPIRED: &str = "the keep alive timer expired";

/// A controller's end of one queue pair, over the transport `T`.
#[derive(Debug)]
pub struct ControllerQueue<T> {
    out: Outgoing<T>,
    table: CommandTable,
    data: CommandData,
    served: Served,
    quiesce: Quiesce,
    /// The time as it was told last.
    now: Instant,
    deadline: Option<Instant>,
    /// The controller's, once this belongs to one.
    lifetime: Lifetime,
}

impl<T: FabricTransport> ControllerQueue<T> {
    /// A queue that nobody has connected yet, of a host that has reached `portal` over `transport`.
    #[expect(clippy::needless_pass_by_value, reason = "the queue keeps the pool, by its account")]
    pub fn new(transport: T, portal: Arc<Portal>, pool: Pool, now: Instant) -> Self {
        Self {
            out: Outgoing::new(transport),
            table: CommandTable::new(),
            data: CommandData::new(&pool, now),
            served: Served::new(portal),
            quiesce: Quiesce::default(),
            now,
            deadline: Some(now + CONNECT_TIME),
            lifetime: Lifetime::new(),
        }
    }

    /// The transport below.
    #[inline]
    pub fn transport(&mut self) -> &mut T {
        &mut self.out.transport
    }

    /// The transport below, to look at.
    #[inline]
    pub(crate) fn transport_ref(&self) -> &T {
        &self.out.transport
    }

    /// What is served where the host has come in.
    pub fn portal(&self) -> &Portal {
        self.served.portal()
    }

    /// What the operator is to be told, the oldest first.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.out.poll_notice()
    }

    /// The host, and the subsystem that it asked for, as far as they are known.
    pub fn parties(&self) -> Parties {
        self.served.parties()
    }

    /// Closes once everything is sent. That may take seconds, in which others are to have the memory that commands here wait for.
    pub fn end(&mut self, reason: CloseReason) {
        self.out.close(reason);
        self.data.end();
        self.deadline = None;
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
        match (&self.served.state, self.served.withdrawal()) {
            (QueueState::Admin(_), _) if self.lifetime.is_over(now) => {
                self.end(CloseReason::TimedOut(KEEP_ALIVE_EXPIRED));
            }
            (QueueState::Admin(_) | QueueState::Io(_), Some(reason)) => self.end(reason),
            (QueueState::Admin(_) | QueueState::Io(_), None) => self.show_again(now),
            _ => self.end(CloseReason::TimedOut("the host did not connect in time")),
        }
    }

    /// Takes a command that came with `data` bytes in its capsule. None may come while the group decides about the queue
    /// ([`ControllerQueue::is_connecting`]).
    #[inline]
    pub fn handle_submission(
        &mut self,
        now: Instant,
        entry: &SubmissionQueueEntry,
        data: usize,
    ) -> Admission {
        let command = ReceivedCommand::new(*entry);
        let capsule = command.capsule(data, T::SGLS);
        let cid = entry.cid.get();
        let abort = self.table.take_unread(cid);
        let plan = if self.table.slots.is_outstanding(cid) {
            Plan::fail(Status::COMMAND_ID_CONFLICT.dnr())
        } else if abort.is_some() {
            Plan::fail(Status::ABORT_REQUESTED)
        } else if (self.table.slots.is_spent() && !self.data.has_more_slots::<T>(&mut self.table, cid))
            || (self.served.state.answers_with_data(entry) && !self.data.has_room_for_answer(entry, capsule))
        {
            if self.data.withholds(self.now, self.served.state.patience()) {
                return Admission::Withheld;
            }
            Plan::fail(Status::COMMAND_INTERRUPTED)
        } else {
            self.decide(now, entry, capsule)
        };
        // A completion says where the head is once its own command is consumed (NVMe Base §3.3.1.2.1, SQHD).
        let before = self.out.head;
        self.out.head.advance();
        let admission = self.carry_out(now, &command, plan);
        match self.served.state {
            _ if admission == Admission::Withheld => self.out.head = before,
            QueueState::Admin(_) => self.after_admin(),
            _ => {}
        }
        if let Some(tag) = abort {
            self.table.answer_abort(&mut self.out, tag, ImmediateAbort::Performed);
        }
        admission
    }

    fn decide(&mut self, now: Instant, entry: &SubmissionQueueEntry, capsule: Capsule) -> Plan {
        if self.quiesce.is_under_way() && matches!(self.served.state, QueueState::Io(_)) {
            return Plan::fail(Status::COMMAND_SEQUENCE.dnr());
        }
        let planned = self.served.plan(entry, capsule);
        if let QueueState::Admin(admin) = &self.served.state {
            // A Set Features of the Keep Alive Timer applies from this command on.
            let end = admin.next_deadline(now);
            self.lifetime.set_end(end);
            self.deadline = end.into_iter().chain(self.served.withdrawal_due()).min();
        }
        planned.unwrap_or_else(Plan::fail)
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
        self.settle_memory();
    }

    /// True while the group decides about the queue: no command may come.
    #[inline]
    pub fn is_connecting(&self) -> bool {
        matches!(self.served.state, QueueState::Connecting { .. })
    }

    /// Whether there is room for what the next command asks. If not, it waits.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        self.data.has_room(&self.table, &self.out)
    }

    /// Whether the next command may come, or what waited may come again.
    #[inline]
    pub fn takes_submissions(&self) -> bool {
        self.data.takes_submissions(&self.table, &self.out)
    }

    /// Something has happened inside.
    #[inline]
    pub fn handle_input(&mut self, now: Instant, input: Input) {
        self.now = now;
        match input {
            Input::Completion(completion) => {
                self.handle_completion(completion);
                self.offer_memory(now);
                self.check_quiesced();
            }
            Input::StaleEpoch(request) => {
                self.handle_refused(*request);
                self.offer_memory(now);
                self.check_quiesced();
            }
            Input::Fence { volume, epoch, reservations } => {
                self.handle_fence(now, VolumeRef { volume, epoch }, reservations);
            }
            Input::Reserved { tag, result } => self.handle_reserved(tag, result),
            Input::Group(reply) => self.handle_reply(now, &reply),
            Input::NamespaceChanged { volume, geometry } => {
                self.served.resize(volume, geometry);
                self.after_admin();
            }
            Input::PortalChanged(portal) => self.handle_portal_change(now, portal),
            Input::Shutdown => self.end(CloseReason::ShuttingDown),
        }
        self.settle_memory();
    }

    /// Something that waited was sent, and its memory may have come back.
    #[inline]
    pub fn handle_sent(&mut self, now: Instant) {
        self.now = now;
        self.offer_memory(now);
        self.settle_memory();
    }

    /// Memory may have come back to the pool.
    #[inline]
    pub fn handle_memory(&mut self, now: Instant) {
        self.now = now;
        if self.data.has_returns() {
            self.offer_memory(now);
            self.settle_memory();
        }
    }

    /// The time that [`ControllerQueue::poll_timeout`] named has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        if let Some(reason) = self.data.watch(&mut self.table, &mut self.out, now) {
            self.end(reason);
        }
        if self.data.is_retry_due(now) {
            self.offer_memory(now);
        }
        if self.quiesce.due().is_some_and(|due| due <= now) {
            self.answer_quiesce();
        }
        if self.submission_due().is_some_and(|due| due <= now) {
            self.data.open_gate();
        }
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.deadline_passed(now);
        }
        self.settle_memory();
    }

    /// When the next command comes in any case, although there is no memory for it.
    fn submission_due(&self) -> Option<Instant> {
        if self.served.state.patience() == Patience::Short { self.data.submission_due() } else { None }
    }

    /// The transport has ended: nothing is sent any more.
    pub fn handle_ended(&mut self, now: Instant) {
        self.end(CloseReason::Finished);
        self.end_all(now);
        self.settle_memory();
    }

    /// The next thing that is asked of the inside.
    #[inline]
    pub fn poll_action(&mut self) -> Option<Action> {
        self.out.poll_action()
    }

    /// When there is something to do although nothing comes.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let due = [self.deadline, self.data.due(), self.quiesce.due(), self.submission_due()];
        due.into_iter().flatten().min()
    }

    /// True for a queue of a subsystem's controller.
    pub fn is_established(&self) -> bool {
        self.served.state.is_established()
    }

    /// True while commands wait for memory.
    #[inline]
    pub fn awaits_memory(&self) -> bool {
        !self.data.has_no_waiters()
    }

    /// Why the queue is over, once it is: what waits to be sent goes first.
    #[inline]
    pub fn poll_close(&self) -> Option<CloseReason> {
        self.out.close_reason()
    }

    /// True while a namespace that it shows, or a request that it has made, is on the volume. Looks at everything: not to be asked often.
    pub fn uses(&self, volume: VolumeId) -> bool {
        // Nothing is begun any more once it closes.
        let shows = !self.out.is_closing() && self.served.state.uses(volume);
        shows || self.table.slots.submitted().any(|submitted| submitted == volume)
    }

    /// True when its subsystem is withdrawn from the host: the queue ends soon.
    pub fn is_withdrawn(&self) -> bool {
        self.served.withdrawal().is_some()
    }

    /// True when the host hears over this connection what has changed, and may ask for it over another at once.
    pub fn reports_changes(&self) -> bool {
        matches!(self.served.state, QueueState::Admin(_))
    }

    /// Counts what is held outside of buffers.
    #[inline]
    fn settle_memory(&mut self) {
        self.data.settle(&self.table, &self.out, self.served.state.size());
    }

    /// Counts so many bytes for receives that the transport posts for as long as the connection is there, if they are free.
    #[must_use]
    pub fn charge_receives(&mut self, bytes: usize) -> bool {
        self.data.charge_receives(bytes)
    }

    /// True while other connections wait for memory that this one may hold.
    pub fn is_memory_wanted(&self) -> bool {
        self.data.is_wanted()
    }

    /// True for a slot that a command has had.
    #[inline]
    pub fn has_slot(&mut self, index: u16) -> bool {
        self.table.slots.get(index).is_some()
    }

    /// How far the data of a slot's command is; `None` when no data is expected.
    #[inline]
    pub fn transfer(&mut self, index: u16) -> Option<Transfer> {
        let slot = self.table.slots.get(index)?;
        let (received, length, abandoned) = match slot.step {
            Step::Data { received, length, .. } => (received, length, false),
            Step::Abandoned { received, length } => (received, length, true),
            _ => return None,
        };
        Some(Transfer { cid: slot.command.entry.cid.get(), received, length, abandoned })
    }

    /// Lends the memory for the data of a slot's command to the transport.
    #[inline]
    pub fn take_buffer(&mut self, index: u16) -> Option<Buf> {
        let Step::Data { buf, .. } = &mut self.table.slots.get(index)?.step else { return None };
        buf.take()
    }

    /// Takes that memory back. It has the data up to `end`, of which [`ControllerQueue::handle_data`] is told once it is known whether it is whole.
    #[inline]
    pub fn return_buffer(&mut self, index: u16, buffer: Buf, end: usize) {
        self.data.return_buffer(&mut self.table, ArrivedPiece { slot: index, buffer, end }, self.now);
    }

    /// Data of a command that has ended was passed over, up to `end`. Its slot is free once that is all.
    pub fn pass_over(&mut self, index: u16, end: usize) {
        self.table.slots.pass_over(index, end);
    }

    /// What is served is this from now on.
    fn handle_portal_change(&mut self, now: Instant, portal: Arc<Portal>) {
        let stage = self.stage();
        match self.served.take_portal(portal, stage) {
            Reaction::Keep => {}
            Reaction::ShowLog => {
                self.served.show_log();
                self.after_admin();
            }
            Reaction::Replace => self.replace_subsystem(now),
            Reaction::Refuse(error) => {
                if let QueueState::Connecting { slot, .. } = self.served.state {
                    // The group may still agree: there is nobody any more to hear of that.
                    self.served.state = QueueState::ExpectConnect;
                    self.refuse_connect(slot, error);
                }
            }
            Reaction::Withdraw(reason) => {
                self.served.withdraw_subsystem(now, reason);
                self.after_admin();
                self.renew_deadline();
            }
        }
    }

    fn stage(&self) -> Stage {
        if self.out.is_closing() || self.is_withdrawn() { Stage::Ending } else { self.served.state.stage() }
    }

    /// Shows the subsystem of the portal, and ends the commands to what is gone.
    fn replace_subsystem(&mut self, now: Instant) {
        let Some(gone) = self.served.replace_subsystem(now) else { return };
        if let QueueState::Io(namespaces) = &self.served.state {
            renumber(&mut self.table.slots, namespaces);
            self.served.apply_reservations();
        }
        self.end_withdrawn(now, &gone);
        self.after_admin();
        self.renew_deadline();
    }

    /// Shows what has the identifiers of namespaces that have been gone for long enough.
    fn show_again(&mut self, now: Instant) {
        if self.served.release_withdrawn(now) {
            self.replace_subsystem(now);
        } else {
            self.renew_deadline();
        }
    }

    /// A connected queue is looked at when something that was withdrawn asks for it; an admin queue also when its controller is not kept alive.
    fn renew_deadline(&mut self) {
        let end = match &self.served.state {
            QueueState::Admin(_) => self.lifetime.end(),
            QueueState::Io(_) => None,
            _ => return,
        };
        self.deadline = end.into_iter().chain(self.served.withdrawal_due()).min();
    }

    /// Lets the commands to namespaces that are gone end. A flush of all namespaces that is just at one of them ends too, and may be tried again.
    fn end_withdrawn(&mut self, now: Instant, gone: &[NamespaceKey]) {
        let mut concerned = Vec::new();
        for index in self.table.slots.under_way() {
            let Some(slot) = self.table.slots.get(index) else { continue };
            let (nsid, volume) = (slot.command.entry.nsid.get(), slot.step.volume());
            let ending = if gone.iter().any(|key| key.nsid == nsid) {
                Ending::Withdrawn
            } else if nsid == ALL_NAMESPACES && gone.iter().any(|key| Some(key.volume) == volume) {
                Ending::Dropped
            } else {
                continue;
            };
            // What waits for memory ends before any comes free: it would begin on the namespace that has the identifier now.
            if self.data.stop_waiting(index) {
                self.table.end_waiting(&mut self.out, index, ending);
            } else {
                concerned.push((index, ending));
            }
        }
        for (index, ending) in concerned {
            self.end_command(now, index, ending);
        }
    }

    /// A volume's epoch has moved, perhaps because it has other reservations from now on.
    fn handle_fence(&mut self, now: Instant, fenced: VolumeRef, change: Option<Reservations>) {
        self.served.record(fenced, change.as_ref());
        let Some((host, change)) = self.served.association.registrant().zip(change) else { return };
        if change.aborted.contains(&host) {
            self.abort_requests(now, fenced.volume);
        }
        if let QueueState::Admin(admin) = &mut self.served.state {
            for (_, notice) in change.notices.iter().filter(|(registrant, _)| *registrant == host) {
                admin.log_reservation(fenced.volume, *notice);
            }
        }
        self.after_admin();
    }

    /// A preemption that aborts has named this host: what it has under way on the volume is to end soon, and nothing of it goes on.
    fn abort_requests(&mut self, now: Instant, volume: VolumeId) {
        let QueueState::Io(namespaces) = &self.served.state else { return };
        let concerned: Vec<u32> = namespaces.of_volume(volume).collect();
        self.end_commands(now, |entry| {
            concerned.contains(&entry.nsid.get()) || entry.nsid.get() == ALL_NAMESPACES
        });
    }

    /// Answers a Connect that cannot be, and closes.
    fn refuse_connect(&mut self, slot: u16, error: ConnectError) {
        let result = CommandResult { status: error.status, value: error.result.into() };
        self.table.finish(&mut self.out, slot, result, None);
        self.end(CloseReason::Refused(error.describe()));
    }

    /// The group answers.
    fn handle_reply(&mut self, now: Instant, reply: &Reply) {
        match *reply {
            Reply::Close => self.handle_close(now),
            Reply::Quiesced => self.handle_quiesced(),
            Reply::Refused(error) => match self.served.state {
                QueueState::Connecting { slot, .. } => self.refuse_connect(slot, error),
                _ => self.end(CloseReason::Refused(error.describe())),
            },
            Reply::Abort { cid, tag } => self.abort(now, cid, tag),
            Reply::Aborted { tag, aborted } => {
                let outcome = if aborted { ImmediateAbort::Performed } else { ImmediateAbort::NotPerformed };
                self.table.finish_abort(&mut self.out, tag, outcome);
            }
            Reply::Joined { cntlid, hostid, ref lifetime } => {
                self.lifetime = lifetime.clone();
                if let Some(host) = &mut self.served.association.host {
                    host.identifier = hostid;
                }
                self.join(now, cntlid);
            }
        }
    }

    /// The queue belongs to this controller from now on.
    fn join(&mut self, now: Instant, cntlid: u16) {
        match core::mem::replace(&mut self.served.state, QueueState::ExpectConnect) {
            QueueState::Connecting { slot, joining } => {
                match *joining {
                    Joining::Admin(mut admin) => {
                        self.out.tell(NoticeKind::Login, "connected");
                        admin.cntlid = cntlid;
                        self.deadline = admin.next_deadline(now);
                        self.lifetime.set_end(self.deadline);
                        self.served.state = QueueState::Admin(admin);
                        self.table.take_aborts();
                    }
                    Joining::Io(subsystem) => {
                        self.out.tell(NoticeKind::Queue, "an I/O queue connected");
                        self.served.state = QueueState::Io(Namespaces::new(&subsystem));
                        self.deadline = None;
                        self.served.apply_reservations();
                    }
                }
                let result = CommandResult::success(u64::from(cntlid));
                self.table.finish(&mut self.out, slot, result, None);
            }
            state => self.served.state = state,
        }
    }
}

/// What commands know by a namespace's position they know by its new one.
fn renumber(slots: &mut Slots, namespaces: &Namespaces) {
    for index in slots.indices() {
        let Some(slot) = slots.get(index) else { continue };
        let nsid = slot.command.entry.nsid.get();
        match &mut slot.step {
            Step::Data { transfer: Some(transfer), .. } => transfer.namespace = namespaces.position(nsid),
            Step::Submitted { volume, position, .. }
                if slot.command.entry.opcode == nvm::FLUSH && nsid == ALL_NAMESPACES =>
            {
                position.next = namespaces.flushed_with(*volume);
            }
            _ => {}
        }
    }
}
