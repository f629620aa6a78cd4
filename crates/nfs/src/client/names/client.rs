//! The upper layer of one connection of the client of names.
//!
//! ```text
//!  Exchanging ─► Creating ─► Completing ─► LookingUp ─► Ready ─► DestroyingSession ─► DestroyingClient ─► Ended
//! ```

use alloc::borrow::ToOwned;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use protocol::{CloseReason, Instant};
use rpc::message::{AcceptStat, CallHeader, ReplyStatus};
use rpc::{Call, CallId, Channel, Credential, Memory, NoBody, ReceivedReply, UpperLayer};

use super::operation::{NameOperation, NamesAction, NamesConfig, NamesInput, NamesReady, ObjectHandle};
use crate::client::arguments::{Arguments, Compound};
use crate::client::config::Versions;
use crate::client::connection::{COMPOUND, ClientResults};
use crate::client::found::Exchanged;
use crate::client::limits::{LEAVE_TIME, PAUSE_FIRST, PAUSE_MOST, RESULTS};
use crate::client::results::Results;
use crate::client::session::Session;
use crate::client::subject::{SlotUse, Subject};
use crate::client::verdict::remedy;
use crate::v4::Status;

/// How far the connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Exchanging,
    Creating,
    Completing,
    LookingUp,
    Ready,
    DestroyingSession,
    DestroyingClient,
    Ended,
}

/// An operation under way or waiting.
#[derive(Debug)]
struct Task {
    number: u64,
    operation: NameOperation,
}

/// A client of names over one connection.
#[derive(Debug)]
pub struct NamesClient {
    config: NamesConfig,
    stage: Stage,
    minor: u32,
    exchanged: Option<Exchanged>,
    session: Option<Session>,
    /// Names that were looked up, and what they led to; none is the root.
    looked_up: usize,
    directory: Option<Vec<u8>>,
    /// Operations under way, each at the place of its slot.
    tasks: Vec<Option<Task>>,
    waiting: VecDeque<Task>,
    /// The server was busy: nothing is asked before.
    again: Option<Instant>,
    pause: Duration,
    leaves: bool,
    /// When the way to the directory, or leaving, has taken too long.
    deadline: Option<Instant>,
    actions: VecDeque<NamesAction>,
}

impl NamesClient {
    /// A client whose connection has just been made.
    pub fn new(config: NamesConfig) -> Self {
        Self {
            stage: Stage::Exchanging,
            minor: if config.versions == Versions::One { 1 } else { 2 },
            exchanged: None,
            session: None,
            looked_up: 0,
            directory: None,
            tasks: Vec::new(),
            waiting: VecDeque::new(),
            again: None,
            pause: PAUSE_FIRST,
            leaves: false,
            deadline: None,
            actions: VecDeque::new(),
            config,
        }
    }

    /// Sends the first call.
    pub fn start(&mut self, now: Instant, channel: &mut Channel<ClientResults>) {
        self.deadline = Some(now + self.config.command_time);
        self.step(now, channel);
    }

    fn call(
        &mut self,
        now: Instant,
        channel: &mut Channel<ClientResults>,
        compound: Compound,
        about: Subject,
    ) {
        let keeps_entries = match about {
            Subject::Part(_, place) => self.tasks.get(place).is_some_and(|task| {
                task.as_ref().is_some_and(|task| matches!(task.operation, NameOperation::Entries { .. }))
            }),
            _ => false,
        };
        let call = Call {
            procedure: COMPOUND,
            credential: Credential::Sys(self.config.user.clone()),
            arguments: compound.stream,
            results: ClientResults(Results::new(about, compound.plan).keeping_entries(keeps_entries)),
            memory: Memory::new(),
            results_limit: RESULTS,
        };
        if channel.call(now, call).is_err() {
            self.fail(channel, "too many calls are under way".to_owned());
        }
    }

    /// Takes a slot; nothing while all are taken.
    fn take_slot(&mut self) -> Option<SlotUse> {
        self.session.as_mut()?.slots.take(0)
    }

    /// Sends the next call of the way in or out.
    fn step(&mut self, now: Instant, channel: &mut Channel<ClientResults>) {
        let bare = Arguments::new(channel.writer(), self.minor);
        let compound = match self.stage {
            Stage::Exchanging => bare.exchange_id(&self.config.owner, self.config.verifier),
            Stage::Creating => {
                let Some(exchanged) = self.exchanged else { return };
                bare.create_session(exchanged.client, exchanged.sequence)
            }
            Stage::DestroyingSession | Stage::DestroyingClient => {
                let Some(session) = &self.session else { return };
                if self.stage == Stage::DestroyingSession {
                    bare.destroy_session(session.id)
                } else {
                    bare.destroy_client(session.client)
                }
            }
            Stage::Completing | Stage::LookingUp => return self.step_in_slot(now, channel),
            Stage::Ready | Stage::Ended => return,
        };
        self.call(now, channel, compound.finish(), Subject::Outside);
    }

    fn step_in_slot(&mut self, now: Instant, channel: &mut Channel<ClientResults>) {
        let Some(of) = self.take_slot() else { return };
        let Some(session) = &self.session else { return };
        let arguments = session.begin(channel.writer(), of, false);
        let compound = if self.stage == Stage::Completing {
            arguments.reclaim_complete()
        } else {
            let names = self.config.path.get(self.looked_up..).unwrap_or_default();
            let arguments = match &self.directory {
                Some(handle) => arguments.put_handle(handle),
                None => arguments.put_root(),
            };
            let names = names.iter().take(session.lookups);
            names.fold(arguments, |arguments, name| arguments.lookup(name)).get_handle()
        };
        self.call(now, channel, compound.finish(), Subject::Step(of));
    }

    /// Sends operations while there are slots.
    fn pump(&mut self, now: Instant, channel: &mut Channel<ClientResults>) {
        while self.stage == Stage::Ready && self.again.is_none() && !self.waiting.is_empty() {
            let Some(of) = self.take_slot() else { break };
            let (Some(task), Some(session)) = (self.waiting.pop_front(), &self.session) else { break };
            let arguments = session.begin(channel.writer(), of, task.operation.changes());
            let compound = task.operation.write(arguments, session.client, &self.config.owner).finish();
            let place = wire::index(of.slot.into());
            if let Some(empty) = self.tasks.get_mut(place) {
                *empty = Some(task);
            }
            self.call(now, channel, compound, Subject::Part(of, place));
        }
        let idle = self.waiting.is_empty() && self.tasks.iter().all(Option::is_none);
        if self.stage == Stage::Ready && self.leaves && idle {
            self.stage = Stage::DestroyingSession;
            self.deadline = Some(now + LEAVE_TIME);
            self.step(now, channel);
        }
    }

    /// The server was busy.
    fn put_off(&mut self, now: Instant) {
        if self.again.is_none() {
            self.again = Some(now + self.pause);
            self.pause = self.pause.saturating_mul(2).min(PAUSE_MOST);
        }
    }

    /// Takes the answer to a step.
    fn stepped(&mut self, now: Instant, channel: &mut Channel<ClientResults>, results: &mut Results) {
        let status = results.status();
        if matches!(self.stage, Stage::DestroyingSession | Stage::DestroyingClient) {
            // Whatever it came to.
            self.stage =
                if self.stage == Stage::DestroyingSession { Stage::DestroyingClient } else { Stage::Ended };
            if self.stage == Stage::Ended {
                self.deadline = None;
                channel.close(CloseReason::Finished);
            }
            return self.step(now, channel);
        }
        if matches!(status, Status::DELAY | Status::GRACE) {
            return self.put_off(now);
        }
        if status == Status::MINOR_VERS_MISMATCH
            && self.minor == 2
            && self.config.versions == Versions::Newest
        {
            self.minor = 1;
            return self.step(now, channel);
        }
        // RECLAIM_COMPLETE of a client that has done it already, as one that is known from before.
        if !status.is_ok() && status != Status::COMPLETE_ALREADY {
            let what = if self.stage == Stage::LookingUp {
                shown(&self.config.path)
            } else {
                "the server does not take this client".to_owned()
            };
            return self.fail(channel, format!("{what}: {status}: {}", remedy(status)));
        }
        self.pause = PAUSE_FIRST;
        let found = results.found.take().unwrap_or_default();
        match self.stage {
            Stage::Exchanging => {
                self.exchanged = found.exchanged;
                self.stage = Stage::Creating;
            }
            Stage::Creating => {
                let made = self.exchanged.zip(found.session);
                self.session = made.and_then(|(exchanged, made)| {
                    Session::new(exchanged.client, made.session, self.minor, &made.channel)
                });
                if self.session.is_none() {
                    let reason =
                        "the server grants sessions of too short messages or COMPOUNDs: raise its limits";
                    return self.fail(channel, reason.to_owned());
                }
                self.stage = Stage::Completing;
            }
            Stage::Completing => self.stage = Stage::LookingUp,
            Stage::LookingUp => return self.looked_up(now, channel, found.handle),
            _ => return,
        }
        self.step(now, channel);
    }

    fn looked_up(&mut self, now: Instant, channel: &mut Channel<ClientResults>, handle: Option<Vec<u8>>) {
        let Some(session) = &self.session else { return };
        let Some(handle) = handle else {
            return self.fail(channel, "the server's answer to GETFH has no handle".to_owned());
        };
        self.looked_up = self.looked_up.saturating_add(session.lookups).min(self.config.path.len());
        if self.looked_up < self.config.path.len() {
            self.directory = Some(handle);
            return self.step(now, channel);
        }
        let slots = session.slots.limit();
        self.tasks.resize_with(wire::index(slots.into()), || None);
        (self.stage, self.deadline) = (Stage::Ready, None);
        let directory = ObjectHandle(handle.into());
        self.actions.push_back(NamesAction::Ready(NamesReady { directory, slots, minor: self.minor }));
        self.pump(now, channel);
    }

    /// Takes the answer to an operation.
    fn done(
        &mut self,
        now: Instant,
        channel: &mut Channel<ClientResults>,
        place: usize,
        results: &mut Results,
    ) {
        let Some(task) = self.tasks.get_mut(place).and_then(Option::take) else { return };
        let status = results.status();
        if matches!(status, Status::DELAY | Status::GRACE) {
            self.waiting.push_front(task);
            return self.put_off(now);
        }
        self.pause = PAUSE_FIRST;
        let result = if status.is_ok() {
            let Some(outcome) = task.operation.outcome(results) else {
                return self.fail(channel, "the server's answer has less than it must have".to_owned());
            };
            Ok(outcome)
        } else {
            Err(status)
        };
        self.actions.push_back(NamesAction::Done(task.number, result));
        self.pump(now, channel);
    }

    fn fail(&mut self, channel: &mut Channel<ClientResults>, reason: String) {
        if self.stage == Stage::Ended {
            return;
        }
        self.stage = Stage::Ended;
        (self.deadline, self.again) = (None, None);
        self.tasks.clear();
        self.waiting.clear();
        self.actions.push_back(NamesAction::Failed { reason });
        channel.close(CloseReason::Finished);
    }
}

fn shown(path: &[Vec<u8>]) -> String {
    path.iter().fold(String::new(), |text, name| format!("{text}/{}", String::from_utf8_lossy(name)))
}

impl UpperLayer for NamesClient {
    type Input = NamesInput;
    type Action = NamesAction;
    type Arguments = NoBody;
    type Results = ClientResults;

    fn begin_call(&mut self, _header: &CallHeader<'_>) -> Result<NoBody, ReplyStatus> {
        // There is no backchannel.
        Err(ReplyStatus::Accepted(AcceptStat::ProgramUnavailable))
    }

    fn memory(&mut self, _length: usize) -> Option<buf::Buf> {
        None
    }

    fn call(&mut self, _now: Instant, _channel: &mut Channel<ClientResults>, _id: CallId, arguments: NoBody) {
        match arguments {}
    }

    fn reply(
        &mut self,
        now: Instant,
        channel: &mut Channel<ClientResults>,
        reply: ReceivedReply<ClientResults>,
    ) {
        if self.stage == Stage::Ended {
            return;
        }
        let ReceivedReply { results: ClientResults(mut results), outcome, .. } = reply;
        if let Err(error) = outcome {
            return self.fail(channel, format!("what answers there speaks no NFS 4.1: {error}"));
        }
        if let (Some(of), Some(session)) = (results.subject.slot(), self.session.as_mut()) {
            let answer = results.sequence;
            session.slots.release(of, answer.is_some());
            match answer {
                Some(answer) if session.recognises(of, &answer) => session.slots.set_target(answer.target),
                Some(_) => {
                    let reason = "the server breaks the protocol: an answer is for another slot or session";
                    return self.fail(channel, reason.to_owned());
                }
                None if matches!(results.status(), Status::DELAY | Status::GRACE) => {}
                None => {
                    let status = results.status();
                    return self.fail(channel, format!("the session is lost: {status}"));
                }
            }
        }
        match results.subject {
            Subject::Part(_, place) => self.done(now, channel, place, &mut results),
            _ => self.stepped(now, channel, &mut results),
        }
    }

    fn handle_input(&mut self, now: Instant, channel: &mut Channel<ClientResults>, input: NamesInput) {
        match input {
            NamesInput::Do(number, operation) => self.waiting.push_back(Task { number, operation }),
            NamesInput::Disconnect => self.leaves = true,
        }
        self.pump(now, channel);
    }

    fn poll_action(&mut self) -> Option<NamesAction> {
        self.actions.pop_front()
    }

    fn handle_timeout(&mut self, now: Instant, channel: &mut Channel<ClientResults>) {
        if self.stage == Stage::Ended {
            return;
        }
        if let Some(CloseReason::TimedOut(reason)) = channel.close_reason() {
            return self.fail(channel, reason.to_owned());
        }
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            return self.fail(channel, "the server does not answer, or is busy all the time".to_owned());
        }
        if self.again.take_if(|again| *again <= now).is_some() {
            self.step(now, channel);
            self.pump(now, channel);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [self.deadline, self.again].into_iter().flatten().min()
    }

    fn handle_ended(&mut self, _now: Instant, channel: &mut Channel<ClientResults>) {
        self.fail(channel, "the connection has ended".to_owned());
    }

    fn is_established(&self) -> bool {
        self.stage == Stage::Ready
    }
}
