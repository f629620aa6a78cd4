//! One queue pair of a controller: submission queue entries in, requests out, completions in, completion queue entries out
//! (NVMe Base §3.3 for queues over fabrics). How capsules and data travel is its transport's business ([`FabricTransport`]).
//!
//! This file joins the components, each of which has its own file and states: what the queue is to its controller (`queue_state`), its commands (`slots`),
//! those that wait for memory (`memory_waiters`) or are to end (`abort_table`), the command that is not taken yet (`submission_gate`), data on its way
//! (`data_progress`), and what is held (`queue_memory`). Silence before the queue is connected closes, and so does an expired keep alive timer.

use alloc::collections::VecDeque;
use alloc::string::ToString;
use alloc::sync::Arc;

use buf::{Outside, Pool};
use protocol::{CloseReason, Instant, Notice, Notices, Parties};
use volume::VolumeId;

use super::abort_table::{AbortTable, ImmediateAbort};
use super::association::Association;
use super::command::{Plan, ReceivedCommand, VolumeRef};
use super::data_progress::DataProgress;
use super::fabric_transport::FabricTransport;
use super::memory_waiters::MemoryWaiters;
use super::portal::Portal;
use super::queue_memory::QueueMemory;
use super::queue_state::QueueState;
use super::quiesce::Quiesce;
use super::slots::Slots;
use super::submission_gate::{Gate, Patience, SubmissionGate};
use super::submission_head::SubmissionHead;
use super::volume_states::VolumeStates;
use super::withdrawn::Withdrawn;
use super::{Action, Input};
use crate::lifetime::Lifetime;
use crate::limits::CONNECT_TIME;
use crate::sgl::Capsule;
use crate::sqe::SubmissionQueueEntry;
use crate::status::Status;

mod abort;
mod commands;
mod connect;
mod memory;
mod quiesce;
mod serving;

/// Why a controller ended whose host was not heard of.
const KEEP_ALIVE_EXPIRED: &str = "the keep alive timer expired";

/// What has become of a command that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It was taken. What data its capsule has is of no use.
    Taken,
    /// It was taken, and the capsule's data is to be put into the memory of this slot.
    Receives {
        /// The command's slot.
        slot: u16,
        /// Where the data begins behind the queue entry, in bytes.
        offset: usize,
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
    association: Association,
    state: QueueState,
    head: SubmissionHead,
    slots: Slots,
    gate: SubmissionGate,
    memory: QueueMemory,
    waiters: MemoryWaiters,
    data: DataProgress,
    aborts: AbortTable,
    quiesce: Quiesce,
    volume_states: VolumeStates,
    /// What is not served any more, or no longer to the host.
    withdrawn: Withdrawn,
    notices: Notices,
    actions: VecDeque<Action>,
    /// The time as it was told last.
    now: Instant,
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
            association: Association::default(),
            state: QueueState::ExpectConnect,
            head: SubmissionHead::default(),
            slots: Slots::new(1),
            gate: SubmissionGate::default(),
            memory: QueueMemory::new(&pool),
            waiters: MemoryWaiters::new(pool.returns()),
            data: DataProgress::new(now),
            aborts: AbortTable::default(),
            quiesce: Quiesce::default(),
            volume_states: VolumeStates::default(),
            withdrawn: Withdrawn::default(),
            notices: Notices::default(),
            actions: VecDeque::new(),
            now,
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
        let initiator = self.association.host.as_ref().map(|host| host.nqn.to_string());
        Parties { initiator, target: self.association.subnqn.as_ref().map(ToString::to_string) }
    }

    /// Closes once everything is sent. That may take seconds, in which others are to have the memory that commands here wait for.
    pub fn end(&mut self, reason: CloseReason) {
        self.close.get_or_insert(reason);
        self.waiters.clear();
        self.gate.open();
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
        match (&self.state, self.withdrawn.reason()) {
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
        let abort = self.aborts.take_unread(cid);
        let plan = if self.slots.is_outstanding(cid) {
            Plan::fail(Status::COMMAND_ID_CONFLICT.dnr())
        } else if abort.is_some() {
            Plan::fail(Status::ABORT_REQUESTED)
        } else if (self.slots.is_spent() && !self.has_more_slots(cid))
            || !self.has_room_for_answer(entry, capsule)
        {
            if self.gate.withholds(self.now, self.patience()) {
                return Admission::Withheld;
            }
            Plan::fail(Status::COMMAND_INTERRUPTED)
        } else {
            self.decide(now, entry, capsule)
        };
        // A completion says where the head is once its own command is consumed (NVMe Base §3.3.1.2.1, SQHD).
        let before = self.head;
        self.head.advance();
        let admission = self.carry_out(now, &command, plan);
        match self.state {
            _ if admission == Admission::Withheld => self.head = before,
            QueueState::Admin(_) => self.after_admin(),
            _ => {}
        }
        if let Some(tag) = abort {
            self.answer_abort(tag, ImmediateAbort::Performed);
        }
        admission
    }

    /// How long the next command may wait for memory. It may not while transfers are under way, as what they wait for may come behind it.
    fn patience(&self) -> Patience {
        if self.data.has_transfers() { Patience::None } else { self.state.patience() }
    }

    fn decide(&mut self, now: Instant, entry: &SubmissionQueueEntry, capsule: Capsule) -> Plan {
        if self.quiesce.is_under_way() && matches!(self.state, QueueState::Io(_)) {
            return Plan::fail(Status::COMMAND_SEQUENCE.dnr());
        }
        let planned = self.state.plan(entry, capsule);
        if let QueueState::Admin(admin) = &self.state {
            // A Set Features of the Keep Alive Timer applies from this command on.
            let end = admin.next_deadline(now);
            self.lifetime.set_end(end);
            self.deadline = end.into_iter().chain(self.withdrawn.due()).min();
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
        matches!(self.state, QueueState::Connecting { .. })
    }

    /// Whether there is room for what the next command asks. If not, it waits.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        let congested = self.is_congested();
        if congested {
            self.gate.on_congestion();
        } else {
            self.gate.open();
        }
        !congested
    }

    /// Whether the next command may come, or what waited may come again.
    #[inline]
    pub fn takes_submissions(&self) -> bool {
        match self.gate.state() {
            Gate::Open => true,
            Gate::AwaitsMemory { returns, .. } => self.memory.returns() != returns,
            Gate::AwaitsSlot { .. } => !self.slots.is_spent(),
            Gate::AwaitsRoom => !self.is_congested(),
        }
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
            Input::NamespaceChanged { volume, geometry } => self.handle_resize(volume, geometry),
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
        if self.waiters.on_returns(self.memory.returns()) {
            self.offer_memory(now);
            self.settle_memory();
        }
    }

    /// The time that [`ControllerQueue::poll_timeout`] named has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        self.watch_data(now);
        if self.waiters.is_due(now) {
            self.offer_memory(now);
        }
        if self.quiesce.due().is_some_and(|due| due <= now) {
            self.answer_quiesce();
        }
        if self.submission_due().is_some_and(|due| due <= now) {
            self.gate.open();
        }
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.deadline_passed(now);
        }
        self.settle_memory();
    }

    /// When the next command comes in any case, although there is no memory for it.
    fn submission_due(&self) -> Option<Instant> {
        if self.state.patience() == Patience::Short { self.gate.due() } else { None }
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
        self.actions.pop_front()
    }

    /// When there is something to do although nothing comes.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let due = [
            self.deadline,
            self.waiters.retry_at(),
            self.quiesce.due(),
            self.data.watch_at(),
            self.submission_due(),
        ];
        due.into_iter().flatten().min()
    }

    /// True for a queue of a subsystem's controller.
    pub fn is_established(&self) -> bool {
        self.state.is_established()
    }

    /// True while commands wait for memory.
    #[inline]
    pub fn awaits_memory(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// Why the queue is over, once it is: what waits to be sent goes first.
    #[inline]
    pub fn poll_close(&self) -> Option<CloseReason> {
        self.close
    }

    /// True while a namespace that it shows, or a request that it has made, is on the volume. Looks at everything: not to be asked often.
    pub fn uses(&self, volume: VolumeId) -> bool {
        // Nothing is begun any more once it closes.
        let shows = self.close.is_none() && self.state.uses(volume);
        shows || self.slots.submitted().any(|submitted| submitted == volume)
    }

    /// True when its subsystem is withdrawn from the host: the queue ends soon.
    pub fn is_withdrawn(&self) -> bool {
        self.withdrawn.reason().is_some()
    }

    /// True when the host hears over this connection what has changed, and may ask for it over another at once.
    pub fn reports_changes(&self) -> bool {
        matches!(self.state, QueueState::Admin(_))
    }

    /// Counts what is held outside of buffers.
    #[inline]
    fn settle_memory(&mut self) {
        let backlog = self.transport.backlog();
        // What is allocated cannot overflow.
        let tables = self.slots.size().wrapping_add(backlog.tables);
        let data = backlog.unpooled.saturating_add(self.state.size());
        self.memory.settle(Outside { data, tables });
        if self.waiters.is_empty() && !self.gate.awaits_memory() {
            self.memory.stop_waiting();
        }
    }
}
