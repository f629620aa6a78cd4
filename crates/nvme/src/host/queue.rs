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

use super::allocation_queries::AllocationQueries;
use super::capsule_data::CapsuleData;
use super::command_table::{
    CommandTable, EndedCommand, HostCommand, ReadTarget, WriteSource, ZeroMethod, Zeroes,
};
use super::entry::{block, fits, moving};
use super::fabric_transport::{CommandCapsule, FabricTransport};
use super::keep_alive::KeepAlive;
use super::setup::{Next, Setup, WantedNamespace};
use super::status_poll::Readiness;
use super::{Action, Config, Failure, Input, Queue, RemoteNamespace};
use crate::cqe::CompletionQueueEntry;
use crate::fabrics::{ANY_CONTROLLER, Connect, ConnectData, Property, disconnect};
use crate::limits::{ADMIN_TIME, CONNECT_TIME, DISCONNECT_TIME, DISCOVERY_TIME};
use crate::nvm::{Range, deallocate_one};
use crate::opcode::{admin, nvm};
use crate::properties::offset;
use crate::sgl::SglDescriptor;
use crate::sqe::SubmissionQueueEntry;
use crate::status::Status;
use crate::width::to_field;

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
    pub(super) zero_method: ZeroMethod,
    pub(super) capsule_data: CapsuleData,
    keep_alive: KeepAlive,
    /// Requests for which there was no command identifier, or that came before the queue was ready.
    pending: VecDeque<Request>,
    pub(super) queries: AllocationQueries,
    pub(super) actions: VecDeque<Action>,
    /// When the transport must be there, or the controller must have told all of its discovery log page.
    answer_by: Option<Instant>,
    close: Option<CloseReason>,
    failed: bool,
}

impl<T: FabricTransport> HostQueue<T> {
    /// A queue over a transport that has just been made. It waits for [`HostQueue::handle_ready`].
    pub fn new(transport: T, config: Config, now: Instant) -> Self {
        let entries = config.entries();
        let setup = match &config.queue {
            Queue::Discovery => Some(Setup::new(None).over(T::TRANSPORT)),
            Queue::Admin { nsid, queues, .. } => {
                Some(Setup::new(Some(WantedNamespace { nsid: *nsid, queues: *queues })))
            }
            Queue::Io { .. } => None,
        };
        let kato = if let Queue::Admin { kato, .. } = config.queue { kato } else { 0 };
        let (capsule_data, command_time) = (CapsuleData::new(config.in_capsule()), config.command_time);
        Self {
            transport,
            config,
            state: State::ExpectTransport,
            commands: CommandTable::new(entries.saturating_sub(1)),
            setup,
            zero_method: ZeroMethod::WriteZeroes,
            capsule_data,
            keep_alive: KeepAlive::new(kato),
            pending: VecDeque::new(),
            queries: AllocationQueries::default(),
            actions: VecDeque::new(),
            answer_by: Some(now + CONNECT_TIME.min(command_time)),
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
        self.answer_by = None;
        self.keep_alive.stop();
        if let Some(setup) = &mut self.setup {
            setup.stop();
        }
        for EndedCommand { tag, overdue, memory } in self.commands.end_all() {
            let timed_out = matches!(failure, Failure::TimedOut(_)) && overdue;
            let kind = if timed_out { VolumeErrorKind::TimedOut } else { VolumeErrorKind::Unreachable };
            self.give_back(tag, kind, memory);
        }
        while let Some(request) = self.pending.pop_front() {
            self.refuse(request, VolumeErrorKind::Unreachable);
        }
        for query in self.queries.end_all() {
            self.answer(query.tag, Err(VolumeErrorKind::Unreachable));
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

    /// Sends a command in its capsule.
    pub(super) fn send(&mut self, now: Instant, command: HostCommand, mut capsule: CommandCapsule) {
        let due = self.time_limit(&command).map(|time| now + time);
        let Some(cid) = self.commands.begin(command, due) else { return };
        capsule.entry.cid.set(cid);
        self.transport.send_command(capsule);
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
            HostCommand::Read { .. }
            | HostCommand::Report { .. }
            | HostCommand::Write { .. }
            | HostCommand::Plain { .. }
            | HostCommand::Verify(_)
            | HostCommand::Query(_)
            | HostCommand::WriteZeroes(_)
            | HostCommand::ZeroWrite { .. } => Some(self.config.command_time),
        }
    }

    /// How long a command of the set-up may take: no longer than any other.
    fn setup_time(&self) -> Duration {
        let most = if self.state == State::Connecting { CONNECT_TIME } else { ADMIN_TIME };
        most.min(self.config.command_time)
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
        let entry = Connect::entry(qid, entries.saturating_sub(1), kato);
        self.send(now, HostCommand::Setup(None), CommandCapsule { entry, data });
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
            HostCommand::Setup(target) => self.handle_setup(now, entry, target),
            HostCommand::AsyncEvent => self.handle_event(now, status),
            HostCommand::KeepAlive if status.is_success() => {}
            HostCommand::KeepAlive => {
                let text = "the controller refused to be kept alive";
                self.fail(Failure::Refused(status), CloseReason::TimedOut(text));
            }
            HostCommand::Disconnect => self.finish(),
            HostCommand::Read { tag, target } => self.complete_read(tag, status, target),
            HostCommand::Report { tag, target } => self.complete_report(tag, status, &target),
            HostCommand::Query(query) => self.complete_query(now, status, &query),
            HostCommand::Verify(read) => self.verified(now, status, &read),
            HostCommand::WriteZeroes(command) => self.zeroed(now, status, command),
            // A success without all of the data is none.
            HostCommand::Write { tag, source } | HostCommand::ZeroWrite { tag, source, .. }
                if status.is_success() && !source.is_whole() =>
            {
                self.answer(tag, Err(VolumeErrorKind::Media));
            }
            HostCommand::Plain { tag } | HostCommand::ZeroWrite { tag, .. } if !status.is_success() => {
                // If it came with data, the controller may have had no memory for that.
                if !status.is_final() && status.code() == Status::COMMAND_INTERRUPTED.code() {
                    self.capsule_data.on_interrupted(now);
                }
                self.complete(tag, status);
            }
            HostCommand::ZeroWrite { tag, rest, .. } => self.send_zeroes(now, tag, *rest),
            HostCommand::Write { tag, .. } | HostCommand::Plain { tag } => self.complete(tag, status),
        }
        self.start_pending(now);
        Ok(())
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
    fn handle_setup(&mut self, now: Instant, entry: CompletionQueueEntry, target: Option<ReadTarget>) {
        let (status, result) = (entry.status(), entry.result());
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
                self.keep_alive.start(now);
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
                self.send(now, HostCommand::Setup(target), CommandCapsule::bare(entry));
            }
            Next::Wait => {
                if self.setup.as_mut().map(|setup| setup.wait(now)) == Some(Readiness::Overdue) {
                    let text = "the controller did not become ready";
                    self.fail(Failure::TimedOut(text), CloseReason::TimedOut(text));
                }
            }
            Next::Ready(remote) if self.state == State::Ready => {
                self.actions.push_back(Action::NamespaceChanged(Box::new(remote)));
                if let Some(next) = self.setup.as_mut().and_then(Setup::next_change) {
                    self.follow(now, next);
                }
            }
            Next::Ready(remote) => {
                self.state = State::Ready;
                self.actions.push_back(Action::Ready(Box::new(remote)));
                self.send_event_request(now);
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
        self.send_event_request(now);
        if let Some(next) = self.setup.as_mut().and_then(Setup::on_change) {
            self.follow(now, next);
        }
    }

    fn send_event_request(&mut self, now: Instant) {
        let entry = SubmissionQueueEntry::new(admin::ASYNC_EVENT_REQUEST, 0);
        self.send(now, HostCommand::AsyncEvent, CommandCapsule::bare(entry));
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
                let entry = moving(block(extent, Durability::Cached).encode(nvm::READ, nsid), length);
                let command = HostCommand::Read { tag, target: ReadTarget::new(into, length) };
                self.send(now, command, CommandCapsule::bare(entry));
            }
            Operation::Write { extent, data, .. } | Operation::Compare { extent, data }
                if !fits(extent, block_size, data.len()) =>
            {
                self.refuse_length(tag, extent, None);
            }
            Operation::Write { extent, data, durability } => {
                let entry = block(extent, durability).encode(nvm::WRITE, nsid);
                self.send_with_data(now, tag, CommandCapsule { entry, data });
            }
            Operation::Compare { extent, data } => {
                let entry = block(extent, Durability::Cached).encode(nvm::COMPARE, nsid);
                self.send_with_data(now, tag, CommandCapsule { entry, data });
            }
            Operation::Flush => {
                let entry = SubmissionQueueEntry::new(nvm::FLUSH, nsid);
                self.send(now, HostCommand::Plain { tag }, CommandCapsule::bare(entry));
            }
            Operation::Discard { extent } => self.start_discard(now, tag, extent),
            Operation::WriteZeroes { extent, durability, may_unmap } => {
                self.send_zeroes(now, tag, Zeroes { left: extent, durability, deallocate: may_unmap });
            }
            Operation::Verify { extent } => self.start_verify(now, tag, extent),
            Operation::Reserve(command) => self.start_reserve(now, tag, &command),
            Operation::ReadReservations => self.start_report(now, tag, nsid),
            _ => self.answer(tag, Err(VolumeErrorKind::Unsupported)),
        }
    }

    /// Sends a command that has data for the controller: in the capsule if it fits, else when it is asked for.
    pub(super) fn send_with_data(&mut self, now: Instant, tag: Tag, capsule: CommandCapsule) {
        let CommandCapsule { mut entry, data } = capsule;
        let length = data.len();
        if self.capsule_data.takes(length) {
            entry.dptr = SglDescriptor::in_capsule(to_field(length));
            return self.send(now, HostCommand::Plain { tag }, CommandCapsule { entry, data });
        }
        self.capsule_data.on_data_apart(now);
        let command = HostCommand::Write { tag, source: WriteSource::new(data) };
        self.send(now, command, CommandCapsule::bare(moving(entry, length)));
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
        self.send_with_data(now, tag, CommandCapsule { entry: deallocate_one(nsid), data });
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
        self.send(now, HostCommand::Disconnect, CommandCapsule::bare(entry));
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
        self.is_unanswered(now) || self.commands.is_overdue(now)
    }

    /// True when the transport is not there in time, or the discovery log page was not told whole.
    fn is_unanswered(&self, now: Instant) -> bool {
        self.answer_by.is_some_and(|answer_by| answer_by <= now)
    }

    /// The time that [`HostQueue::poll_timeout`] named has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.is_unanswered(now) {
            return self.time_out();
        }
        if self.commands.on_check(now) {
            self.time_out();
        }
        if let Some(next) = self.setup.as_mut().and_then(|setup| setup.on_time(now)) {
            self.follow(now, next);
        }
        if self.keep_alive.is_due(now) {
            self.keep_alive.start(now);
            let entry = SubmissionQueueEntry::new(admin::KEEP_ALIVE, 0);
            self.send(now, HostCommand::KeepAlive, CommandCapsule::bare(entry));
        }
    }

    fn time_out(&mut self) {
        let text = "the controller did not answer in time";
        self.fail(Failure::TimedOut(text), CloseReason::TimedOut(text));
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
        let setup = self.setup.as_ref().and_then(Setup::due);
        [self.answer_by, self.commands.check_at(), setup, self.keep_alive.due()].into_iter().flatten().min()
    }

    /// Why the queue is over, once it is.
    #[inline]
    pub fn poll_close(&self) -> Option<CloseReason> {
        self.close
    }
}
