//! The life of an initiator's connection, the commands that it sends, and what its datamover and its driver see of it.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use buf::{Buf, Pool};
use protocol::{CloseReason, Ended, Entropy, Instant};
use scsi::builder::read_capacity;
use volume::{Completion, Geometry, Request, Tag, VolumeErrorKind};

use super::cdb::{self, Abilities};
use super::config::Config;
use super::login::{Failure, Login, LoginContext, Moved, Outcome, Received};
use super::probe::{ANSWER, Probe, RemoteUnit};
use super::tasks::{CommandEnd, Kind, Owner, Task, Tasks, Work, tag};
use crate::connection::{Event, State};
use crate::datamover::{
    CommandData, CommandResources, CommandToSend, ControlPdu, Disposition, InitiatorDatamover,
    InitiatorLayer, ReceivedPdu, Sender, TaskHandle, UpperLayer,
};
use crate::keys::Parameters;
use crate::limits::{
    ABORT_TIME, DISCOVERY_TIME, INITIATOR_DEPTH, INITIATOR_IDLE_TIME, INITIATOR_PING_TIME, LOGIN_TIME,
    LOGOUT_TIME, TARGET_CLOSE_TIME,
};
use crate::pdu::{
    Bhs, Function, LoginResponse, LogoutReason, LogoutRequest, NopOut, RESERVED_TAG, Residual, ScsiCommand,
    TaskManagementRequest, TextRequest,
};
use crate::sequence::InitiatorNumbers;
use crate::text::Text;
use crate::violation::Violation;

/// Why a connection is of no use any more that was left in order.
const LOGGED_OUT: &str = "logged out";

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

/// A connection to one target's logical unit, or to a discovery service, over whatever carries it.
pub struct Initiator<D> {
    pub(super) mover: D,
    pub(super) config: Config,
    pub(super) lun: [u8; 8],
    pub(super) pool: Pool,
    pub(super) entropy: Box<dyn Entropy>,
    pub(super) state: State,
    pub(super) login: Login,
    pub(super) parameters: Parameters,
    /// Bytes of a write that go unsolicited, at most: what was agreed, or none for a time after the target had no memory for them.
    pub(super) unsolicited: u32,
    /// When data may go unsolicited again.
    pub(super) unsolicited_from: Instant,
    pub(super) numbers: InitiatorNumbers,
    pub(super) tasks: Tasks,
    /// Commands that wait for the window, in order.
    pub(super) queue: VecDeque<u16>,
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
    /// Why it ends, once the target has answered the logout and is let to end the connection.
    farewell: Option<&'static str>,
    close: Option<CloseReason>,
    failed: bool,
}

impl<D> fmt::Debug for Initiator<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Initiator")
            .field("state", &self.state)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl<D: InitiatorDatamover> Initiator<D> {
    /// A connection whose transport was just established, and that this datamover carries; it begins to log in.
    pub fn new(now: Instant, mut config: Config, pool: Pool, entropy: Box<dyn Entropy>, mover: D) -> Self {
        config.tuning = D::tuning(config.tuning, config.session_type());
        let numbers = InitiatorNumbers::new(1);
        let due = Some(now + LOGIN_TIME.min(config.command_time));
        let (login, request, text) = Login::begin(LoginContext::over::<D>(&config, numbers.commands.next()));
        let mut connection = Self {
            mover,
            lun: scsi::encode_lun(config.lun),
            config,
            pool,
            entropy,
            state: State::InLogin,
            login,
            parameters: Parameters::default(),
            unsolicited: 0,
            unsolicited_from: now,
            numbers,
            tasks: Tasks::new(INITIATOR_DEPTH),
            queue: VecDeque::new(),
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
            farewell: None,
            close: None,
            failed: false,
        };
        connection.send(request.to_bytes(), text.into_bytes());
        connection
    }

    /// Where the connection is in its life.
    pub fn state(&self) -> State {
        self.state
    }

    pub(super) fn send(&mut self, header: Bhs, data: Vec<u8>) {
        self.mover.send_control(ControlPdu::unnumbered(header, data));
    }

    pub(super) fn enter(&mut self, event: Event) {
        if let Some(next) = self.state.after(event) {
            self.state = next;
        }
    }

    pub(super) fn handle_login(&mut self, now: Instant, response: &LoginResponse, data: &[u8]) {
        let context = LoginContext::over::<D>(&self.config, self.numbers.commands.next());
        match self.login.handle(context, Received { response, data }, &mut *self.entropy) {
            Ok(Outcome::Request(request, text)) => self.send(request.to_bytes(), text.into_bytes()),
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
        self.parameters = D::parameters(self.login.parameters);
        self.unsolicited = self.parameters.unsolicited();
        let discovery = self.config.target.is_none();
        let tuning = &self.config.tuning;
        let longest_segment = if discovery { tuning.for_discovery().segment } else { tuning.segment };
        self.mover.notice_key_values(&self.parameters);
        self.mover.enable_datamover(longest_segment);
        self.enter(Event::LoginDone);
        self.due = discovery.then(|| now + DISCOVERY_TIME);
        self.heard = now;
        if discovery {
            self.texts = Some(0);
            let mut text = Text::new();
            text.put("SendTargets", "All");
            let request = TextRequest::new(tag(Kind::Other, 0, 0), RESERVED_TAG);
            self.send(request.to_bytes(), text.into_bytes());
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
        let task = Task { owner, work, cmd_sn: 0, sent: false, due, retries: 0, aborting: None };
        self.check.get_or_insert(due);
        match self.tasks.insert(task) {
            Ok(slot) if self.state == State::LoggedIn => self.queue.push_back(slot),
            // Behind a logout nothing is sent (RFC 7143 §11.14): it ends as what was lost with the connection.
            Ok(_) => {}
            Err(mut task) => {
                let memory = task.unfilled(CommandData::None);
                self.complete(task.owner, Err(volume::Failure { kind: VolumeErrorKind::TimedOut, memory }));
            }
        }
    }

    #[inline]
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
            return self.end(slot, kind);
        }
        if task.aborting.replace(kind).is_none() {
            task.due = now + ABORT_TIME;
            let request = TaskManagementRequest::new(
                Function::ABORT_TASK,
                self.lun,
                tag(Kind::Abort, generation, slot),
            )
            .referring(tag(Kind::Command, generation, slot), task.cmd_sn);
            self.send(request.to_bytes(), Vec::new());
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
        self.mover.connection_terminate();
        for slot in self.tasks.slots() {
            let memory = self.take_memory(slot);
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

    /// The target has answered the logout: the connection ends, by this side or by the target.
    pub(super) fn logged_out(&mut self) {
        if D::TARGET_ENDS_FIRST && self.state == State::InLogout {
            self.farewell = Some(LOGGED_OUT);
            self.due = Some(self.now + TARGET_CLOSE_TIME);
        } else {
            self.fail(CloseReason::Finished, LOGGED_OUT);
        }
    }

    pub(super) fn log_out(&mut self, now: Instant) {
        match self.state {
            State::LoggedIn => {
                let request = LogoutRequest::new(LogoutReason::CLOSE_SESSION, 0, tag(Kind::Other, 1, 0));
                self.send(request.to_bytes(), Vec::new());
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
            self.send(NopOut::ping(tag(Kind::Other, low, 2)).to_bytes(), Vec::new());
            self.pinged = Some(now + INITIATOR_PING_TIME);
        }
    }

    /// Makes the oldest command that waits one that is sent.
    #[inline]
    fn next_command(&mut self) -> Option<CommandToSend> {
        if self.state != State::LoggedIn || !self.numbers.commands.open() {
            return None;
        }
        let slot = self.queue.pop_front()?;
        let cmd_sn = self.numbers.commands.take();
        let (generation, task) = self.tasks.get(slot)?;
        (task.sent, task.cmd_sn) = (true, cmd_sn);
        let (task_tag, length) = (tag(Kind::Command, generation, slot), task.work.length);
        let command = ScsiCommand::new(self.lun, task_tag, cmd_sn, task.work.cdb);
        let command = match task.work.data {
            CommandData::None => command,
            CommandData::Read(_) => command.reading(length),
            CommandData::Write(_) => command.writing(length, 0),
        };
        let (data, unsolicited) = (core::mem::take(&mut task.work.data), self.unsolicited);
        let resources = CommandResources { task_tag, lun: self.lun, length, data, unsolicited };
        self.mover.allocate_task_resources(TaskHandle(slot), resources);
        Some(CommandToSend { task: TaskHandle(slot), header: command.to_bytes() })
    }
}

impl<D: InitiatorDatamover> UpperLayer for Initiator<D> {
    type Mover = D;
    type Numbers = InitiatorNumbers;
    type Input = Input;
    type Action = Action;

    #[inline]
    fn mover(&mut self) -> &mut D {
        &mut self.mover
    }

    #[inline]
    fn mover_ref(&self) -> &D {
        &self.mover
    }

    #[inline]
    fn sender(&mut self) -> Sender<'_, D, InitiatorNumbers> {
        Sender { mover: &mut self.mover, numbers: &mut self.numbers }
    }

    #[inline]
    fn begin_turn(&mut self, now: Instant) {
        self.now = now;
    }

    #[inline]
    fn hear(&mut self) {
        self.heard = self.now;
        self.pinged = None;
    }

    #[inline]
    fn control_notify(&mut self, pdu: ReceivedPdu<'_>) -> Disposition {
        match pdu.data {
            Some(data) => self.handle_pdu(pdu.header, data),
            None => self.violate(Violation::SegmentTooLong),
        }
        Disposition::Taken
    }

    fn violation_notify(&mut self, violation: Violation, _header: Option<&Bhs>) {
        self.violate(violation);
    }

    fn terminate_notify(&mut self, why: &'static str) {
        self.fail(CloseReason::Finished, self.farewell.unwrap_or(why));
    }

    #[inline]
    fn find_task(&self, task_tag: u32) -> Option<TaskHandle> {
        self.tasks.find(Kind::Command, task_tag).map(TaskHandle)
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.state.is_over()
    }

    #[inline]
    fn handle_input(&mut self, input: Input) {
        let now = self.now;
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

    fn handle_timeout(&mut self) {
        let now = self.now;
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
                _ => self.fail(CloseReason::Finished, LOGGED_OUT),
            }
        }
        if self.check.is_some_and(|check| check <= now) {
            self.check_tasks(now);
        }
        self.check_silence(now);
    }

    fn handle_ended(&mut self, how: Ended) {
        let reason = match how {
            Ended::ByPeer => "the target closed the connection".into(),
            Ended::Failed(code) => {
                alloc::format!("the connection failed (system error {code})")
            }
            Ended::ByUs => "the connection was closed".into(),
        };
        let reason = self.farewell.map_or(reason, String::from);
        self.fail(CloseReason::Finished, reason);
        self.enter(Event::Ended);
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Instant> {
        let silence =
            (self.state == State::LoggedIn).then(|| self.pinged.unwrap_or(self.heard + INITIATOR_IDLE_TIME));
        [self.due, self.check, silence].into_iter().flatten().min()
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.close
    }
}

impl<D: InitiatorDatamover> InitiatorLayer for Initiator<D> {
    #[inline]
    fn poll_command(&mut self) -> Option<CommandToSend> {
        self.next_command()
    }

    #[inline]
    fn status_notify(&mut self, task: TaskHandle, status: u8, residual: Residual) {
        self.finish(task.0, &CommandEnd { status, residual, sense: &[] });
    }

    fn get_data_notify(&mut self, _task: TaskHandle) {
        if self.unsolicited == 0 && self.unsolicited_from <= self.now {
            self.unsolicited = self.parameters.unsolicited();
        }
    }
}
