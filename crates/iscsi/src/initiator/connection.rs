//! The life of an initiator's connection, and what it sends.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use buf::{Buf, BufList, Pool};
use protocol::{CloseReason, Ended, Entropy, Instant, Placement, Transmit};
use scsi::builder::read_capacity;
use volume::{Completion, Geometry, Request, Tag, VolumeErrorKind};

use super::cdb::{self, Abilities};
use super::config::Config;
use super::login::{Failure, Login, LoginContext, Moved, Outcome, Received};
use super::probe::{ANSWER, Probe, RemoteUnit};
use super::tasks::{Kind, Owner, Progress, Task, Tasks, Transfer, Work, tag};
use crate::connection::{Event, State};
use crate::datamover::TaskHandle;
use crate::datamover::tcp::data_out::{DataOutProgress, DataOutSequence};
use crate::datamover::tcp::framing::{Digests, Payload, Receiver, send};
use crate::datamover::tcp::send_queue::initiator::{Outgoing, SendQueue};
use crate::keys::Parameters;
use crate::limits::{
    ABORT_TIME, DISCOVERY_TIME, INITIATOR_DEPTH, INITIATOR_IDLE_TIME, INITIATOR_PING_TIME, LOGIN_TIME,
    LOGOUT_TIME, STAGING,
};
use crate::pdu::{
    BasicHeaderSegment, Bhs, DataRange, Function, LoginResponse, LogoutReason, LogoutRequest, NopOut, Opcode,
    RESERVED_TAG, ScsiCommand, TaskManagementRequest, TaskTags, TextRequest, stamp_length, stamp_request,
};
use crate::sequence::CommandNumbers;
use crate::text::Text;
use crate::violation::Violation;

/// A target that a discovery found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovered {
    /// TargetName.
    pub name: String,
    /// Its portals: address, port and portal group, as the target wrote them.
    pub addresses: Vec<String>,
}

/// What a connection tells the inside.
#[derive(Debug)]
pub enum Action {
    /// The logical unit is known; requests may come.
    Ready(Box<RemoteUnit>),
    /// The logical unit has another size now.
    Resized(Geometry),
    /// A request has ended.
    Complete(Completion),
    /// A discovery has ended; the connection logs out.
    Discovered(Vec<Discovered>),
    /// The target is elsewhere, and is to be logged in to there; [`Action::Failed`] follows.
    Moved {
        /// Where, as the target wrote it: `address[:port][,portal-group-tag]`.
        address: String,
        /// The old place is not to be asked again.
        permanently: bool,
    },
    /// The connection is of no use any more; every request has been completed.
    Failed {
        /// Why, for an operator.
        reason: String,
    },
}

/// What the inside asks of a connection.
#[derive(Debug)]
pub enum Input {
    /// Carry out a request; at most [`INITIATOR_DEPTH`] at a time.
    Submit(Request),
    /// End a request soon; it completes in any case.
    Cancel(Tag),
    /// Log out, once what was sent is done with.
    Logout,
    /// Send nothing more, and close.
    Abandon,
}

/// A connection to one target's logical unit, or to a discovery service.
pub struct Connection {
    pub(super) config: Config,
    pub(super) lun: [u8; 8],
    pub(super) pool: Pool,
    pub(super) entropy: Box<dyn Entropy>,
    pub(super) receiver: Receiver,
    pub(super) digests: Digests,
    pub(super) state: State,
    pub(super) login: Login,
    pub(super) parameters: Parameters,
    /// Bytes of a write that go unsolicited, at most: what was agreed, or none for a time after the target had no memory for them.
    pub(super) unsolicited: u32,
    /// When data may go unsolicited again.
    pub(super) unsolicited_from: Instant,
    pub(super) numbers: CommandNumbers,
    pub(super) exp_stat_sn: u32,
    pub(super) tasks: Tasks,
    /// Commands that wait for the window, in order.
    pub(super) queue: VecDeque<u16>,
    pub(super) out: SendQueue,
    pub(super) actions: VecDeque<Action>,
    pub(super) probe: Option<Probe>,
    pub(super) geometry: Geometry,
    pub(super) abilities: Abilities,
    /// The size is being asked for again.
    pub(super) measuring: bool,
    /// The size changed while the unit was being probed, or its size asked for: what is known may be that of before.
    pub(super) outdated: bool,
    pub(super) found: Text,
    /// Text responses that the discovery has taken so far; `None` while none is awaited.
    pub(super) texts: Option<u32>,
    pub(super) pings: u32,
    /// When something last happened.
    pub(super) now: Instant,
    heard: Instant,
    pub(super) pinged: Option<Instant>,
    /// When a login or logout is overdue.
    due: Option<Instant>,
    /// When to look for overdue commands.
    check: Option<Instant>,
    close: Option<CloseReason>,
    failed: bool,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("state", &self.state)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// A connection whose transport was just established; it begins to log in.
    pub fn new(now: Instant, config: Config, pool: Pool, entropy: Box<dyn Entropy>) -> Self {
        let numbers = CommandNumbers::new(1);
        let due = Some(now + LOGIN_TIME.min(config.command_time));
        let (login, request, text) = Login::begin(LoginContext { config: &config, cmd_sn: numbers.next() });
        let mut connection = Self {
            lun: scsi::encode_lun(config.lun),
            config,
            pool,
            entropy,
            receiver: Receiver::new(),
            digests: Digests::default(),
            state: State::InLogin,
            login,
            parameters: Parameters::default(),
            unsolicited: 0,
            unsolicited_from: now,
            numbers,
            exp_stat_sn: 0,
            tasks: Tasks::new(INITIATOR_DEPTH),
            queue: VecDeque::new(),
            out: SendQueue::new(),
            actions: VecDeque::new(),
            probe: None,
            geometry: Geometry { blocks: 0, block_size: 512, physical_block_size: 512 },
            abilities: Abilities::NONE,
            measuring: false,
            outdated: false,
            found: Text::new(),
            texts: None,
            pings: 0,
            now,
            heard: now,
            pinged: None,
            due,
            check: None,
            close: None,
            failed: false,
        };
        connection.out.send(request.to_bytes(), text.into_bytes());
        connection
    }

    /// Where the connection is in its life.
    pub fn state(&self) -> State {
        self.state
    }

    pub(super) fn enter(&mut self, event: Event) {
        if let Some(next) = self.state.after(event) {
            self.state = next;
        }
    }

    pub(super) fn handle_login(&mut self, now: Instant, response: &LoginResponse, data: &[u8]) {
        let context = LoginContext { config: &self.config, cmd_sn: self.numbers.next() };
        match self.login.handle(context, Received { response, data }, &mut *self.entropy) {
            Ok(Outcome::Request(request, text)) => self.out.send(request.to_bytes(), text.into_bytes()),
            Ok(Outcome::Done) => self.begin_full_feature(now),
            Err(Failure(reason)) => {
                let moved = self.login.moved.take();
                self.actions.extend(
                    moved.map(|Moved { address, permanently }| Action::Moved { address, permanently }),
                );
                self.fail(CloseReason::Refused("the login failed"), reason);
            }
        }
    }

    fn begin_full_feature(&mut self, now: Instant) {
        self.parameters = self.login.parameters;
        self.unsolicited = self.parameters.unsolicited();
        self.digests = Digests { header: self.parameters.header_digest, data: self.parameters.data_digest };
        self.receiver.digests = self.digests;
        let discovery = self.config.target.is_none();
        let tuning = &self.config.tuning;
        self.receiver.longest = if discovery { tuning.for_discovery().segment } else { tuning.segment };
        self.enter(Event::LoginDone);
        self.due = discovery.then(|| now + DISCOVERY_TIME);
        self.heard = now;
        if discovery {
            self.texts = Some(0);
            let mut text = Text::new();
            text.put("SendTargets", "All");
            let request = TextRequest::new(tag(Kind::Other, 0, 0), RESERVED_TAG);
            self.out.send(request.to_bytes(), text.into_bytes());
        } else {
            self.probe = Some(Probe::new());
            self.ask();
        }
    }

    /// Sends the probe's current question.
    pub(super) fn ask(&mut self) {
        let Some(probe) = &self.probe else { return };
        let buf = self.pool.take(ANSWER.into()).unwrap_or_else(|| Buf::zeroed(ANSWER.into()));
        let work = Work::reading(probe.question.cdb(), buf);
        self.start(Owner::Probe, work);
    }

    /// Asks for the size again, after the unit has said that it changed.
    pub(super) fn measure(&mut self) {
        self.outdated = self.measuring || self.probe.is_some();
        if !self.outdated {
            self.measuring = true;
            let buf = self.pool.take(ANSWER.into()).unwrap_or_else(|| Buf::zeroed(ANSWER.into()));
            self.start(Owner::Size, Work::reading(read_capacity(ANSWER.into()), buf));
        }
    }

    /// The same, if it changed while nobody could ask.
    pub(super) fn measure_if_outdated(&mut self) {
        if self.outdated && self.state == State::LoggedIn {
            self.measure();
        }
    }

    /// Makes a command a task that waits for the window.
    fn start(&mut self, owner: Owner, work: Work) {
        let due = self.now + self.config.command_time;
        let progress = Progress::default();
        let task = Task { owner, work, progress, cmd_sn: 0, sent: false, due, retries: 0, aborting: None };
        self.check.get_or_insert(due);
        match self.tasks.insert(task) {
            Ok(slot) if self.state == State::LoggedIn => self.queue.push_back(slot),
            // Behind a logout nothing is sent (RFC 7143 §11.14): it ends as what was lost with the connection.
            Ok(_) => {}
            Err(mut task) => {
                let memory = task.unfilled();
                self.complete(task.owner, Err(volume::Failure { kind: VolumeErrorKind::TimedOut, memory }));
            }
        }
    }

    fn submit(&mut self, request: Request) {
        let Request { tag, operation } = request;
        let stands = matches!(self.state, State::LoggedIn | State::InLogout);
        let usable = stands && self.probe.is_none() && self.config.target.is_some();
        let work = if usable {
            cdb::command(operation, self.geometry.block_size, self.abilities)
        } else {
            Err(volume::Failure::of(operation, VolumeErrorKind::Unreachable))
        };
        match work {
            Ok(work) => self.start(Owner::Request(tag), work),
            Err(failure) => self.complete(Owner::Request(tag), Err(failure)),
        }
    }

    /// Ends a task's request.
    pub(super) fn complete(&mut self, owner: Owner, result: Result<volume::Outcome, volume::Failure>) {
        match owner {
            Owner::Request(tag) => self.actions.push_back(Action::Complete(Completion { tag, result })),
            Owner::Size => self.measured(&result),
            Owner::Probe => {}
        }
    }

    /// Aborts a task: at once if it was not sent yet, else with the target's help.
    pub(super) fn abort(&mut self, now: Instant, slot: u16, kind: VolumeErrorKind) {
        let Some((generation, task)) = self.tasks.get(slot) else { return };
        if !task.sent {
            self.queue.retain(|queued| *queued != slot);
            return self.end(slot, Err(kind));
        }
        if task.aborting.replace(kind).is_none() {
            task.due = now + ABORT_TIME;
            let request = TaskManagementRequest::new(
                Function::ABORT_TASK,
                self.lun,
                tag(Kind::Abort, generation, slot),
            )
            .referring(tag(Kind::Command, generation, slot), task.cmd_sn);
            self.out.send(request.to_bytes(), Vec::new());
            let soon = now + ABORT_TIME;
            self.check = Some(self.check.map_or(soon, |check| check.min(soon)));
        }
    }

    /// The connection is of no use any more.
    pub(super) fn fail(&mut self, reason: CloseReason, text: impl Into<String>) {
        self.enter(Event::Close);
        self.close.get_or_insert(reason);
        self.due = None;
        self.check = None;
        self.queue.clear();
        for slot in self.tasks.slots() {
            let memory = self.tasks.unfilled(slot);
            if let Some((owner, aborting)) = self.tasks.remove(slot) {
                let kind = aborting.unwrap_or(VolumeErrorKind::Unreachable);
                self.complete(owner, Err(volume::Failure { kind, memory }));
            }
        }
        if !core::mem::replace(&mut self.failed, true) {
            self.actions.push_back(Action::Failed { reason: text.into() });
        }
    }

    pub(super) fn violate(&mut self, violation: Violation) {
        let text = alloc::format!("the target broke the protocol: {violation}");
        self.fail(CloseReason::Violation(violation.text()), text);
    }

    pub(super) fn log_out(&mut self, now: Instant) {
        match self.state {
            State::LoggedIn => {
                let request = LogoutRequest::new(LogoutReason::CLOSE_SESSION, 0, tag(Kind::Other, 1, 0));
                self.out.send(request.to_bytes(), Vec::new());
                self.enter(Event::Logout);
                self.due = Some(now + LOGOUT_TIME);
            }
            State::InLogin => self.fail(CloseReason::Finished, "the login was given up"),
            _ => {}
        }
    }

    /// Commands that are overdue are aborted; an abort that is overdue ends the connection.
    fn check_tasks(&mut self, now: Instant) {
        let mut next: Option<Instant> = None;
        for slot in self.tasks.slots() {
            let Some((_, task)) = self.tasks.get(slot) else { continue };
            let overdue = task.due <= now;
            if overdue && task.aborting.is_some() {
                return self
                    .fail(CloseReason::TimedOut("an abort was not answered"), "the target does not answer");
            }
            if overdue {
                self.abort(now, slot, VolumeErrorKind::TimedOut);
            }
            let due = self.tasks.get(slot).map(|(_, task)| task.due);
            next = [next, due].into_iter().flatten().min();
        }
        self.check = next;
    }

    fn check_silence(&mut self, now: Instant) {
        if self.state != State::LoggedIn {
            return;
        }
        if self.pinged.is_some_and(|due| due <= now) {
            self.fail(CloseReason::TimedOut("the target does not answer pings"), "the target is silent");
        } else if self.pinged.is_none() && self.heard + INITIATOR_IDLE_TIME <= now {
            self.pings = self.pings.wrapping_add(1);
            let [.., low] = self.pings.to_be_bytes();
            self.out.send(NopOut::ping(tag(Kind::Other, low, 2)).to_bytes(), Vec::new());
            self.pinged = Some(now + INITIATOR_PING_TIME);
        }
    }

    fn hear(&mut self, now: Instant) {
        self.heard = now;
        self.pinged = None;
    }

    fn put(&self, out: &mut Transmit, mut header: Bhs, payload: Payload<'_>) {
        let view = BasicHeaderSegment::from_bytes(&header);
        let numbered = view.opcode() != Opcode::DATA_OUT && view.opcode() != Opcode::SCSI_COMMAND;
        stamp_request(&mut header, numbered.then(|| self.numbers.next()), self.exp_stat_sn);
        send(out, self.digests, &header, payload);
    }

    /// Sends the oldest thing that waits, or the next command that the window lets through.
    fn send_one(&mut self, out: &mut Transmit) -> bool {
        match self.out.pop() {
            Some(Outgoing::Pdu { mut header, data }) => {
                stamp_length(&mut header, data.len());
                self.put(out, header, Payload::Bytes(&data));
                true
            }
            Some(Outgoing::Answer(header)) => {
                self.put(out, header, Payload::Bytes(&[]));
                true
            }
            Some(Outgoing::Data(sequence)) => {
                self.send_data(sequence, out);
                true
            }
            None => self.send_command(out),
        }
    }

    fn send_data(&mut self, sequence: DataOutSequence, out: &mut Transmit) {
        let TaskHandle(slot) = sequence.task;
        if self.tasks.find(Kind::Command, sequence.tags.initiator) != Some(slot) {
            return;
        }
        let range = sequence.next_range(self.parameters.peer_segment);
        let Some((_, task)) = self.tasks.get(slot) else { return };
        let Some(part) = task.work.part(range) else { return };
        let (header, rest) = sequence.next(self.lun, range);
        task.progress.data_out.count(range.length);
        if rest.is_none() && sequence.is_solicited() {
            task.progress.data_out.close_r2t();
        }
        self.put(out, header.to_bytes(), Payload::Shared(part));
        if let Some(rest) = rest {
            self.out.continue_data(rest);
        }
    }

    fn send_command(&mut self, out: &mut Transmit) -> bool {
        if self.state != State::LoggedIn || !self.numbers.open() {
            return false;
        }
        let Some(slot) = self.queue.pop_front() else { return false };
        let cmd_sn = self.numbers.take();
        let Some((generation, task)) = self.tasks.get(slot) else { return true };
        (task.sent, task.cmd_sn, task.progress) = (true, cmd_sn, Progress::default());
        let task_tag = tag(Kind::Command, generation, slot);
        let length = task.work.length;
        let command = ScsiCommand::new(self.lun, task_tag, cmd_sn, task.work.cdb);
        let mut immediate = BufList::new();
        let command = match task.work.transfer {
            Transfer::None => command,
            Transfer::Read | Transfer::Status(_) | Transfer::Compare(_) | Transfer::Reservations => {
                command.reading(length)
            }
            Transfer::Write(_) => {
                let first = self.unsolicited.min(length);
                let most =
                    if self.parameters.immediate_data { first.min(self.parameters.peer_segment) } else { 0 };
                immediate = task.work.part(DataRange { offset: 0, length: most }).unwrap_or_default();
                let more = !self.parameters.initial_r2t && most < first;
                task.progress.data_out = DataOutProgress::begin(most, if more { first } else { most });
                if more {
                    let tags = TaskTags { initiator: task_tag, target: RESERVED_TAG };
                    let range = DataRange { offset: most, length: first - most };
                    self.out.continue_data(DataOutSequence::new(TaskHandle(slot), tags, range));
                }
                let command = command.writing(length, most);
                if more { command.with_unsolicited() } else { command }
            }
        };
        self.put(out, command.to_bytes(), Payload::Shared(immediate));
        true
    }
}

impl protocol::Connection for Connection {
    type Input = Input;
    type Action = Action;
    const STAGING: usize = STAGING;

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        self.now = now;
        let used = self.receive(now, bytes);
        if used > 0 {
            self.hear(now);
        }
        used
    }

    fn take_placement(&mut self) -> Option<Placement> {
        self.receiver.take_placement()
    }

    fn handle_placed(&mut self, now: Instant, placement: Placement) {
        self.now = now;
        self.hear(now);
        self.receiver.placed(placement);
        self.receive(now, &[]);
    }

    fn handle_input(&mut self, now: Instant, input: Input) {
        self.now = now;
        match input {
            Input::Submit(request) => self.submit(request),
            Input::Cancel(wanted) => {
                if let Some(slot) = self.tasks.of_request(wanted) {
                    self.abort(now, slot, VolumeErrorKind::Cancelled);
                }
            }
            Input::Logout => self.log_out(now),
            Input::Abandon => self.fail(CloseReason::Finished, "the connection was given up"),
        }
    }

    fn handle_transmitted(&mut self, _now: Instant, _bytes: usize) {}

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        if self.due.is_some_and(|due| due <= now) {
            match self.state {
                State::InLogin => {
                    self.fail(
                        CloseReason::TimedOut("the login took too long"),
                        "the login timed out: check that an iSCSI target listens there",
                    );
                }
                State::LoggedIn => {
                    let text = "the target does not end its list of targets";
                    self.fail(CloseReason::TimedOut("the discovery took too long"), text);
                }
                _ => self.fail(CloseReason::Finished, "logged out"),
            }
        }
        if self.check.is_some_and(|check| check <= now) {
            self.check_tasks(now);
        }
        self.check_silence(now);
    }

    fn handle_ended(&mut self, _now: Instant, how: Ended) {
        let reason = match how {
            Ended::ByPeer => "the target closed the connection".into(),
            Ended::Failed(code) => {
                alloc::format!("the connection failed (system error {code})")
            }
            Ended::ByUs => "the connection was closed".into(),
        };
        self.fail(CloseReason::Finished, reason);
        self.enter(Event::Ended);
        self.out.clear();
    }

    fn poll_transmit(&mut self, _now: Instant, send: &mut Transmit) {
        if self.state == State::Closing {
            self.out.clear();
        }
        while !send.is_full() && self.send_one(send) {}
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let silence =
            (self.state == State::LoggedIn).then(|| self.pinged.unwrap_or(self.heard + INITIATOR_IDLE_TIME));
        [self.due, self.check, silence].into_iter().flatten().min()
    }

    fn wants_bytes(&mut self) -> bool {
        self.state.is_over() || !self.out.is_full()
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.close
    }
}
