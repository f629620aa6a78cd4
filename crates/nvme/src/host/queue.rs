//! One queue pair of a host: requests in, submission queue entries out, completion queue entries in, completions out (NVMe Base §3.3 for queues
//! over fabrics). How capsules and data travel is its transport's business ([`FabricTransport`]).
//!
//! States: `ExpectTransport` → `Connecting` → `Setup` (admin queues: see `setup`) → `Ready`. Whatever ends the queue completes every request with
//! "unreachable" and reports one failure.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::time::Duration;

use buf::{Buf, BufList, SharedBuf};
use protocol::{CloseReason, Instant};
use volume::{Completion, Durability, Extent, Operation, Outcome, Request, Tag, VolumeErrorKind};
use wire::little_endian::{U32, U64};
use zerocopy::IntoBytes;

use super::command_table::{
    CommandTable, DataCommand, EndedCommand, HostCommand, NewCommand, NewData, PieceRead, Queries, QueryEnd,
    ReadTarget, SetupEnd, WriteSource, Zeroes, ZeroesEnd,
};
use super::entry::{block, fits, moving};
use super::fabric_transport::FabricTransport;
use super::setup::{Next, Setup};
use super::{Action, Config, Failure, Input, Queue, RemoteNamespace};
use crate::cqe::CompletionQueueEntry;
use crate::fabrics::{ANY_CONTROLLER, Connect, ConnectData, Property, disconnect};
use crate::limits::{ADMIN_TIME, ASKED_TIME, CONNECT_TIME, DISCONNECT_TIME, DISCOVERY_TIME, READY_POLL};
use crate::nvm::{Range, deallocate_one};
use crate::opcode::{admin, nvm};
use crate::properties::offset;
use crate::sgl::SglDescriptor;
use crate::sqe::SubmissionQueueEntry;
use crate::status::Status;

mod reserve;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    ExpectTransport,
    Connecting,
    Setup,
    Ready,
}

/// Why a completion cannot be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompletionError {
    /// No command of that identifier was sent.
    UnknownCommand,
    /// The command has succeeded before the controller had the data that it asked for, or has ended twice.
    DataOwed,
}

/// A host's end of one queue pair, over the transport `T`.
#[derive(Debug)]
pub struct HostQueue<T> {
    pub(crate) transport: T,
    pub(super) config: Config,
    state: State,
    pub(super) commands: CommandTable,
    setup: Option<Setup>,
    /// The controller has refused to write zeroes.
    pub(super) writes_zeros: bool,
    /// Bytes that a command's capsule takes: what the controller offers, or none for a time after it had no memory for them.
    pub(super) in_capsule: usize,
    /// When data may go in capsules again.
    in_capsule_from: Instant,
    /// A change that was reported while the chain was busy.
    refresh: bool,
    pending: VecDeque<Request>,
    pub(super) queries: Queries,
    pub(super) actions: VecDeque<Action>,
    /// When the transport must be there, or the controller must have told all of its discovery log page.
    answer_by: Option<Instant>,
    /// When to look for overdue commands; never later than the first of them is.
    check: Option<Instant>,
    keep_alive: Option<Instant>,
    look_again: Option<Instant>,
    ready_by: Option<Instant>,
    close: Option<CloseReason>,
    failed: bool,
}

impl<T: FabricTransport> HostQueue<T> {
    /// A queue over a transport that has just been made. It waits for [`HostQueue::handle_ready`].
    pub fn new(transport: T, config: Config, now: Instant) -> Self {
        let entries = config.entries();
        let setup = match &config.queue {
            Queue::Discovery => Some(Setup::new(None).over(T::TRANSPORT)),
            Queue::Admin { nsid, queues, .. } => Some(Setup::new(Some((*nsid, *queues)))),
            Queue::Io { .. } => None,
        };
        let in_capsule = config.in_capsule();
        let command_time = config.command_time;
        Self {
            transport,
            config,
            state: State::ExpectTransport,
            commands: CommandTable::new(entries.saturating_sub(1)),
            setup,
            writes_zeros: false,
            in_capsule,
            in_capsule_from: now,
            refresh: false,
            pending: VecDeque::new(),
            queries: Queries::default(),
            actions: VecDeque::new(),
            answer_by: Some(now + CONNECT_TIME.min(command_time)),
            check: None,
            keep_alive: None,
            look_again: None,
            ready_by: None,
            close: None,
            failed: false,
        }
    }

    pub(super) fn remote(&self) -> Option<&RemoteNamespace> {
        match &self.config.queue {
            Queue::Io { remote, .. } => Some(remote),
            _ => None,
        }
    }

    /// The transport below.
    #[inline]
    pub fn transport(&mut self) -> &mut T {
        &mut self.transport
    }

    /// What the queue was made for.
    #[inline]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where data of a command goes that was sent; `None` when it has none for the host.
    #[inline]
    pub fn target(&mut self, cid: u16) -> Option<&mut ReadTarget> {
        self.commands.get(cid)?.target()
    }

    /// Where data of a command comes from that was sent, unless its capsule has it; `None` when it has none for the controller.
    #[inline]
    pub fn source(&mut self, cid: u16) -> Option<&mut WriteSource> {
        self.commands.get(cid)?.source()
    }

    /// True for a command that was sent and has not ended.
    #[inline]
    pub fn is_known(&mut self, cid: u16) -> bool {
        self.commands.get(cid).is_some()
    }

    /// The command is being sent. Before that nothing that comes can be meant for it.
    #[inline]
    pub fn mark_sent(&mut self, cid: u16) {
        self.commands.mark_sent(cid);
    }

    /// Ends the queue: every request is answered, and the failure is reported once.
    pub fn fail(&mut self, failure: Failure, reason: CloseReason) {
        self.close.get_or_insert(reason);
        (self.answer_by, self.keep_alive, self.look_again) = (None, None, None);
        let checked = self.check.take();
        for EndedCommand { tag, due, memory } in self.commands.end_all() {
            let overdue =
                matches!(failure, Failure::TimedOut(_)) && due.is_some_and(|due| Some(due) <= checked);
            let kind = if overdue { VolumeErrorKind::TimedOut } else { VolumeErrorKind::Unreachable };
            self.give_back(tag, kind, memory);
        }
        while let Some(request) = self.pending.pop_front() {
            self.refuse(request, VolumeErrorKind::Unreachable);
        }
        for (tag, _) in self.queries.end() {
            self.answer(tag, Err(VolumeErrorKind::Unreachable));
        }
        if !core::mem::replace(&mut self.failed, true) {
            self.actions.push_back(Action::Failed(failure));
        }
    }

    /// Ends the connection as it was wanted.
    fn finish(&mut self) {
        self.failed = true;
        self.fail(Failure::Lost("the connection was ended"), CloseReason::Finished);
    }

    pub(super) fn answer(&mut self, tag: Tag, result: Result<Outcome, VolumeErrorKind>) {
        let result = result.map_err(volume::Failure::from);
        self.actions.push_back(Action::Complete(Completion { tag, result }));
    }

    /// Sends a command with what is in its capsule.
    pub(super) fn send(&mut self, now: Instant, mut entry: SubmissionQueueEntry, new: NewCommand) {
        let NewCommand { command, in_capsule } = new;
        let due = self.time_limit(&command).map(|time| now + time);
        let Some(cid) = self.commands.begin(command, due) else { return };
        entry.cid.set(cid);
        if let Some(due) = due
            && self.check.is_none_or(|check| due < check)
        {
            self.check = Some(due);
        }
        self.transport.send_command(entry, in_capsule);
    }

    /// How long a command may take.
    fn time_limit(&self, command: &HostCommand) -> Option<Duration> {
        match command {
            HostCommand::Free | HostCommand::AsyncEvent => None,
            HostCommand::Setup(_) => Some(self.setup_time()),
            HostCommand::KeepAlive => match self.config.queue {
                Queue::Admin { kato, .. } => Some(Duration::from_millis(kato.into())),
                Queue::Discovery | Queue::Io { .. } => Some(ADMIN_TIME),
            },
            HostCommand::Disconnect => Some(DISCONNECT_TIME),
            HostCommand::Read(..)
            | HostCommand::Report(..)
            | HostCommand::Write(..)
            | HostCommand::Plain(_)
            | HostCommand::Verify(..)
            | HostCommand::Query(..)
            | HostCommand::Zeroes(..)
            | HostCommand::Zeros(..) => Some(self.config.command_time),
        }
    }

    /// How long a command of the set-up may take: no longer than any other.
    fn setup_time(&self) -> Duration {
        let most = if self.state == State::Connecting { CONNECT_TIME } else { ADMIN_TIME };
        most.min(self.config.command_time)
    }

    /// Ends the connection if a command is overdue: nothing is certain about its others then.
    fn check_commands(&mut self, now: Instant) {
        self.check = self.commands.first_due();
        if self.check.is_some_and(|due| due <= now) {
            let text = "the controller did not answer in time";
            self.check = Some(now);
            self.fail(Failure::TimedOut(text), CloseReason::TimedOut(text));
        }
    }

    /// The transport is there: the queue connects.
    pub fn handle_ready(&mut self, now: Instant) {
        self.answer_by = matches!(self.config.queue, Queue::Discovery).then(|| now + DISCOVERY_TIME);
        self.state = State::Connecting;
        self.connect(now);
    }

    fn connect(&mut self, now: Instant) {
        let entries = self.config.entries();
        let (qid, kato, cntlid) = match &self.config.queue {
            Queue::Discovery => (0, 0, ANY_CONTROLLER),
            Queue::Admin { kato, .. } => (0, *kato, ANY_CONTROLLER),
            Queue::Io { qid, remote } => (*qid, 0, remote.cntlid),
        };
        let data = ConnectData::new(&self.config.host, cntlid, &self.config.subnqn);
        let data = BufList::from(SharedBuf::from(data.as_bytes().to_vec()));
        self.send(
            now,
            Connect::entry(qid, entries.saturating_sub(1), kato),
            NewCommand::with_data(HostCommand::Setup(None), data),
        );
    }

    /// A command has ended.
    #[inline]
    pub fn handle_completion(
        &mut self,
        now: Instant,
        entry: CompletionQueueEntry,
    ) -> Result<(), CompletionError> {
        let (cid, status) = (entry.cid.get(), entry.status());
        let command = self.commands.get(cid).ok_or(CompletionError::UnknownCommand)?;
        if command.source().is_some_and(|source| source.is_open()) {
            // Success without the data that was asked for is a lie; any other end waits until the controller has it.
            let kept = !status.is_success() && self.commands.keep_early(cid, status);
            return if kept { Ok(()) } else { Err(CompletionError::DataOwed) };
        }
        let command = self.commands.end(cid).ok_or(CompletionError::UnknownCommand)?;
        match command {
            HostCommand::Free => {}
            HostCommand::Setup(target) => {
                self.handle_setup(now, SetupEnd { status, result: entry.result(), target });
            }
            HostCommand::AsyncEvent => self.handle_event(now, status),
            HostCommand::KeepAlive if status.is_success() => {}
            HostCommand::KeepAlive => {
                let text = "the controller refused to be kept alive";
                self.fail(Failure::Refused(status), CloseReason::TimedOut(text));
            }
            HostCommand::Disconnect => self.finish(),
            HostCommand::Read(tag, target) => self.complete_read(tag, status, target),
            HostCommand::Report(tag, target) => self.complete_report(tag, status, &target),
            HostCommand::Query(tag, target, asked) => {
                self.complete_query(now, tag, QueryEnd { status, target: &target, asked });
            }
            HostCommand::Verify(tag, target, rest) => {
                self.verified(now, tag, PieceRead { status, target: &target, rest });
            }
            HostCommand::Zeroes(tag, zeroes, blocks) => {
                self.zeroed(now, tag, ZeroesEnd { status, zeroes, blocks });
            }
            // A success without all of the data is none.
            HostCommand::Write(tag, source) | HostCommand::Zeros(tag, source, _)
                if status.is_success() && !source.is_whole() =>
            {
                self.answer(tag, Err(VolumeErrorKind::Media));
            }
            HostCommand::Plain(tag) | HostCommand::Zeros(tag, ..) if !status.is_success() => {
                self.ask_first(now, status);
                self.complete(tag, status);
            }
            HostCommand::Zeros(tag, _, zeroes) if status.is_success() => self.send_zeroes(now, tag, *zeroes),
            HostCommand::Write(tag, _) | HostCommand::Plain(tag) | HostCommand::Zeros(tag, ..) => {
                self.complete(tag, status);
            }
        }
        self.start_pending(now);
        Ok(())
    }

    /// A command is to be made again: if it came with data, the controller may have had no memory for that, and cannot let it wait where other data
    /// comes behind it. For a time commands send their data when they are asked for it, so that they wait at the controller, in their order.
    fn ask_first(&mut self, now: Instant, status: Status) {
        if !status.is_final() && status.code() == Status::COMMAND_INTERRUPTED.code() {
            (self.in_capsule, self.in_capsule_from) = (0, now + ASKED_TIME);
        }
    }

    /// Something was sent: ends the commands whose end waited for the data that the controller had asked for.
    pub fn handle_sent(&mut self, now: Instant) {
        while let Some((command, status)) = self.commands.take_early() {
            if let Some(tag) = command.tag() {
                self.complete(tag, status);
            }
            self.start_pending(now);
        }
    }

    pub(super) fn complete(&mut self, tag: Tag, status: Status) {
        let result = if status.is_success() { Ok(Outcome::Done) } else { Err(status.to_volume()) };
        self.answer(tag, result);
    }

    fn complete_read(&mut self, tag: Tag, status: Status, target: ReadTarget) {
        let whole = target.received == target.length;
        match target.buf {
            memory if status.is_success() && target.damaged => {
                self.give_back(tag, Status::TRANSIENT_TRANSPORT.to_volume(), memory);
            }
            Some(buf) if status.is_success() && whole => {
                self.answer(tag, Ok(Outcome::Data(buf.freeze().into())));
            }
            memory if status.is_success() => self.give_back(tag, VolumeErrorKind::Media, memory),
            memory => self.give_back(tag, status.to_volume(), memory),
        }
    }

    /// A step of the set-up has ended.
    fn handle_setup(&mut self, now: Instant, ended: SetupEnd) {
        let SetupEnd { status, result, target } = ended;
        if self.state == State::Connecting {
            return self.handle_connected(now, status, result);
        }
        // Data that is damaged, or not whole, says nothing. A command that failed has moved none, and its status says why.
        let damaged =
            target.as_ref().is_some_and(|target| target.damaged || target.received != target.length);
        let buf = target.and_then(|target| target.buf);
        let data = buf.as_deref().unwrap_or_default();
        let status = if status.is_success() && damaged { Status::TRANSIENT_TRANSPORT } else { status };
        let Some(setup) = &mut self.setup else { return };
        let next = setup.advance(status, result, data);
        self.follow(now, next);
    }

    fn handle_connected(&mut self, now: Instant, status: Status, result: u64) {
        if !status.is_success() {
            let text = "the controller refused to connect the queue";
            return self.fail(Failure::Refused(status), CloseReason::Refused(text));
        }
        let cntlid = u16::try_from(result & u64::from(u16::MAX)).unwrap_or(0);
        match &mut self.setup {
            None => {
                self.state = State::Ready;
                self.actions.push_back(Action::QueueReady);
            }
            Some(setup) => {
                self.state = State::Setup;
                let next = setup.begin(cntlid);
                self.schedule_keep_alive(now);
                self.follow(now, next);
            }
        }
    }

    /// Does what the set-up says comes next.
    fn follow(&mut self, now: Instant, next: Next) {
        match next {
            Next::Command(mut entry, data) => {
                let target = (data != 0).then(|| ReadTarget::new(Buf::zeroed(data), data));
                if data != 0 {
                    entry.dptr = SglDescriptor::transport(u32::try_from(data).unwrap_or(0));
                }
                self.send(now, entry, NewCommand::new(HostCommand::Setup(target)));
            }
            Next::Wait => {
                let time = self.setup.as_ref().map_or(ADMIN_TIME, Setup::ready_time);
                let by = *self.ready_by.get_or_insert(now + time);
                if by <= now {
                    let text = "the controller did not become ready";
                    return self.fail(Failure::TimedOut(text), CloseReason::TimedOut(text));
                }
                self.look_again = Some(now + READY_POLL);
            }
            Next::Ready(remote) if self.state == State::Ready => {
                self.actions.push_back(Action::NamespaceChanged(Box::new(remote)));
                self.refresh_if_due(now);
            }
            Next::Ready(remote) => {
                self.state = State::Ready;
                self.actions.push_back(Action::Ready(Box::new(remote)));
                let entry = SubmissionQueueEntry::new(admin::ASYNC_EVENT_REQUEST, 0);
                self.send(now, entry, NewCommand::new(HostCommand::AsyncEvent));
            }
            Next::Discovered(entries) => {
                self.actions.push_back(Action::Discovered(entries));
                self.finish();
            }
            Next::Fail(failure) => self.fail(failure, CloseReason::Refused("the controller cannot be used")),
        }
    }

    /// The only event that was asked for is a change of a namespace.
    fn handle_event(&mut self, now: Instant, status: Status) {
        if !status.is_success() {
            return;
        }
        let entry = SubmissionQueueEntry::new(admin::ASYNC_EVENT_REQUEST, 0);
        self.send(now, entry, NewCommand::new(HostCommand::AsyncEvent));
        self.refresh = true;
        self.refresh_if_due(now);
    }

    fn refresh_if_due(&mut self, now: Instant) {
        if let Some(setup) = &mut self.setup
            && setup.is_done()
            && core::mem::take(&mut self.refresh)
        {
            let next = setup.refresh();
            self.follow(now, next);
        }
    }

    fn schedule_keep_alive(&mut self, now: Instant) {
        if let Queue::Admin { kato, .. } = self.config.queue {
            self.keep_alive = (kato != 0).then(|| now + Duration::from_millis(u64::from(kato / 2)));
        }
    }

    fn takes_commands(&self) -> bool {
        self.state == State::Ready && !self.commands.is_full()
    }

    pub(super) fn start_pending(&mut self, now: Instant) {
        while !self.pending.is_empty() && self.takes_commands() {
            let Some(request) = self.pending.pop_front() else { return };
            self.start(now, request);
        }
    }

    /// Turns a request into its command.
    fn start(&mut self, now: Instant, request: Request) {
        let tag = request.tag;
        let Some((nsid, block_size)) = self.remote().map(|remote| (remote.nsid, remote.geometry.block_size))
        else {
            return self.start_query(now, request);
        };
        match request.operation {
            Operation::Read { extent, into } => {
                let length = into.len();
                if !fits(extent, block_size, length) {
                    return self.refuse_length(tag, extent, Some(into));
                }
                let entry = moving(block(extent, false).encode(nvm::READ, nsid), length);
                let command = HostCommand::Read(tag, ReadTarget::new(into, length));
                self.send(now, entry, NewCommand::new(command));
            }
            Operation::Write { extent, data, durability } => {
                let entry = block(extent, durability == Durability::Durable).encode(nvm::WRITE, nsid);
                self.start_data(now, tag, DataCommand { entry, extent, data });
            }
            Operation::Compare { extent, data } => {
                let entry = block(extent, false).encode(nvm::COMPARE, nsid);
                self.start_data(now, tag, DataCommand { entry, extent, data });
            }
            Operation::Flush => {
                let entry = SubmissionQueueEntry::new(nvm::FLUSH, nsid);
                self.send(now, entry, NewCommand::new(HostCommand::Plain(tag)));
            }
            Operation::Discard { extent } => self.start_discard(now, tag, extent),
            Operation::WriteZeroes { extent, durability, may_unmap } => {
                let fua = durability == Durability::Durable;
                self.send_zeroes(now, tag, Zeroes { left: extent, fua, deallocate: may_unmap });
            }
            Operation::Verify { extent } => self.start_verify(now, tag, extent),
            Operation::Reserve(command) => self.start_reserve(now, tag, &command),
            Operation::ReadReservations => self.start_report(now, tag, nsid),
            _ => self.answer(tag, Err(VolumeErrorKind::Unsupported)),
        }
    }

    /// Begins a command whose data must be as long as its extent.
    fn start_data(&mut self, now: Instant, tag: Tag, command: DataCommand) {
        let DataCommand { entry, extent, data } = command;
        let block_size = self.remote().map_or(512, |remote| remote.geometry.block_size);
        if !fits(extent, block_size, data.len()) {
            return self.refuse_length(tag, extent, None);
        }
        self.send_with_data(now, entry, NewData { tag, data });
    }

    /// Sends a command that has data for the controller: in the capsule if it fits, else when it is asked for.
    fn send_with_data(&mut self, now: Instant, mut entry: SubmissionQueueEntry, new: NewData) {
        let NewData { tag, data } = new;
        let length = data.len();
        if length <= self.in_capsule {
            entry.dptr = SglDescriptor::in_capsule(u32::try_from(length).unwrap_or(0));
            return self.send(now, entry, NewCommand::with_data(HostCommand::Plain(tag), data));
        }
        if self.in_capsule == 0 && self.in_capsule_from <= now {
            self.in_capsule = self.config.in_capsule();
        }
        let command = HostCommand::Write(tag, WriteSource::new(data));
        self.send(now, moving(entry, length), NewCommand::new(command));
    }

    fn start_discard(&mut self, now: Instant, tag: Tag, extent: Extent) {
        let Some(nsid) = self.remote().map(|remote| remote.nsid) else { return };
        let Ok(blocks) = u32::try_from(extent.blocks) else {
            return self.answer(tag, Err(VolumeErrorKind::Misaligned));
        };
        if blocks == 0 {
            return self.answer(tag, Ok(Outcome::Done));
        }
        let range = Range { attributes: U32::ZERO, blocks: U32::new(blocks), start: U64::new(extent.start) };
        let data = BufList::from(SharedBuf::from(range.as_bytes().to_vec()));
        self.send_with_data(now, deallocate_one(nsid), NewData { tag, data });
    }

    fn cancel(&mut self, tag: Tag) {
        let index = self.pending.iter().position(|request| request.tag == tag);
        if let Some(request) = index.and_then(|index| self.pending.remove(index)) {
            self.refuse(request, VolumeErrorKind::Cancelled);
        }
    }

    fn disconnect(&mut self, now: Instant) {
        if matches!(self.state, State::ExpectTransport | State::Connecting) || self.commands.is_full() {
            return self.finish();
        }
        let entry = if matches!(self.config.queue, Queue::Io { .. }) {
            disconnect()
        } else {
            let configuration = self.setup.as_ref().map(Setup::configuration).unwrap_or_default();
            Property::set(offset::CC, configuration.with_shutdown().0)
        };
        self.send(now, entry, NewCommand::new(HostCommand::Disconnect));
    }

    /// What is asked of the queue from inside.
    #[inline]
    pub fn handle_input(&mut self, now: Instant, input: Input) {
        match input {
            Input::Submit(request) if self.close.is_some() => {
                self.refuse(request, VolumeErrorKind::Unreachable);
            }
            Input::Submit(request) if self.takes_commands() && self.pending.is_empty() => {
                self.start(now, request);
            }
            Input::Submit(request) => self.pending.push_back(request),
            Input::Cancel(tag) => self.cancel(tag),
            Input::Disconnect => self.disconnect(now),
            Input::Abandon => {
                self.transport.clear();
                self.finish();
            }
        }
    }

    /// True when [`HostQueue::handle_timeout`] ends the queue, as the controller has not answered in time: whoever has memory of reads may give it back before.
    pub fn is_overdue(&self, now: Instant) -> bool {
        let due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        due(self.answer_by) || due(self.check) && due(self.commands.first_due())
    }

    /// The time that [`HostQueue::poll_timeout`] named has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        let due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        if due(self.answer_by) {
            let text = "the controller did not answer in time";
            return self.fail(Failure::TimedOut(text), CloseReason::TimedOut(text));
        }
        if due(self.check) {
            self.check_commands(now);
        }
        if due(self.look_again) {
            self.look_again = None;
            if let Some(next) = self.setup.as_mut().map(Setup::look_again) {
                self.follow(now, next);
            }
        }
        if due(self.keep_alive) {
            self.schedule_keep_alive(now);
            let entry = SubmissionQueueEntry::new(admin::KEEP_ALIVE, 0);
            self.send(now, entry, NewCommand::new(HostCommand::KeepAlive));
        }
    }

    /// The transport has ended: nothing is sent any more.
    pub fn handle_ended(&mut self) {
        self.transport.clear();
        self.fail(Failure::Lost("the connection to the controller was lost"), CloseReason::Finished);
    }

    /// The next thing that is reported.
    #[inline]
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When there is something to do although nothing comes.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.answer_by, self.check, self.look_again, self.keep_alive].into_iter().flatten().min()
    }

    /// Why the queue is over, once it is.
    #[inline]
    pub fn poll_close(&self) -> Option<CloseReason> {
        self.close
    }
}
