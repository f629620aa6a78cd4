//! A client's connection: it opens one file and carries the requests of a volume to it.
//!
//! | what happens | what is done |
//! |---|---|
//! | the connection is made | [`Mount`] opens the file, step by step; [`Action::Ready`] says what it is |
//! | a request comes | [`Transfers`] has its COMPOUNDs, [`Slots`](super::slots::Slots) the slots for them |
//! | nothing comes for some time | a bare SEQUENCE asks whether the server is there |
//! | from time to time | GETATTR asks how large the file is |
//! | the server answers with another write verifier | it has restarted: the connection fails, and the next one begins with the new verifier |
//! | the connection fails | every request ends with "unreachable"; [`Keep`](super::Keep) has the session and what its slots carried |
//! | the next connection is made | it binds itself to the session, and finds out what became of each slot before any request goes on |

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use protocol::{CloseReason, Instant};
use rpc::message::{AcceptStat, CallHeader, Procedure, ReplyStatus};
use rpc::{
    Call, CallError, CallId, Channel, Credential, Memory, NoBody, ReceivedReply, UnansweredCall, UpperLayer,
};
use volume::{Completion, Geometry, Request, Tag};

use super::arguments::Compound;
use super::clocks::{Clocks, Overdue, silent};
use super::config::Config;
use super::found::FileFacts;
use super::limits::{RESULTS, SETTLED, SHORT_RESULTS};
use super::mount::{Mount, Mounting};
use super::refusal::{Called, refusal};
use super::remote::{RemoteFile, resized};
use super::results::Results;
use super::session::{Change, Remains, Session, Settled, Unsettled};
use super::subject::{SlotUse, Subject};
use super::transfers::{Part, Progress, Shape, Transfers};
use super::verdict::Verdict;
use crate::v4::operation::OpNumber;
use crate::v4::{SessionId, Status, Verifier};

/// NFS's program (RFC 5531), version 4, and its procedure COMPOUND.
pub(super) const COMPOUND: Procedure = Procedure { program: 100_003, version: 4, procedure: 1 };
/// Why a connection ends whose server answers with another write verifier than before, in any version.
pub(super) const ANOTHER_VERIFIER: &str =
    "the server has restarted, as its write verifier says: what was not flushed may be lost";
/// SEQ4_STATUS flags that say that state is lost (RFC 8881 §18.46.3): EXPIRED_ALL_STATE_REVOKED, EXPIRED_SOME_STATE_REVOKED, ADMIN_STATE_REVOKED and RESTART_RECLAIM_NEEDED.
const STATE_LOST: u32 = 0x0000_0138;

/// What comes from inside.
#[derive(Debug)]
pub enum Input {
    /// Do a request of the volume's.
    Submit(Request),
    /// End a request, if it has not been sent.
    Cancel(Tag),
    /// Close the file, and leave.
    Disconnect,
    /// Send nothing more.
    Abandon,
}

/// What goes inside.
#[derive(Debug)]
pub enum Action {
    /// The file is open.
    Ready(Box<RemoteFile>),
    /// It has another size.
    Resized(Geometry),
    /// A request has ended.
    Complete(Completion),
    /// It cannot go on.
    Failed {
        /// Why, for people.
        reason: String,
    },
}

/// How far the connection is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    /// The file is being opened.
    Mounting,
    /// Requests go.
    Ready,
    /// It is to be closed, once nothing is under way.
    Draining,
    /// CLOSE.
    Closing,
    /// DESTROY_SESSION.
    DestroyingSession,
    /// DESTROY_CLIENTID.
    DestroyingClient,
    /// It is over.
    Ended,
}

/// What is lost with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// The connection.
    Connection,
    /// The session, too.
    Session,
    /// And what was open.
    State,
}

/// A client over one connection.
#[derive(Debug)]
pub struct NfsClient {
    config: Config,
    life: Life,
    mount: Mount,
    /// What is known of the open file.
    shape: Shape,
    geometry: Option<Geometry>,
    verifier: Option<Verifier>,
    transfers: Transfers,
    /// Slots whose fate is to be found out.
    unsettled: Vec<Unsettled>,
    /// Those of them that wait to be asked.
    asking: Vec<Unsettled>,
    settled: VecDeque<Settled>,
    actions: VecDeque<Action>,
    clocks: Clocks,
    /// The file's size is being asked for.
    looks: bool,
    /// Why the last step was put off.
    put_off: Option<Status>,
}

impl NfsClient {
    /// A client whose connection has just been made.
    pub fn new(config: Config) -> Self {
        let mut remains = config.keep.take();
        let unsettled = core::mem::take(&mut remains.unsettled);
        let settled = core::mem::take(&mut remains.settled);
        Self {
            life: Life::Mounting,
            mount: Mount::new(&config, remains),
            shape: Shape::unknown(config.block_size, config.access),
            geometry: None,
            verifier: None,
            transfers: Transfers::default(),
            unsettled,
            asking: Vec::new(),
            settled,
            actions: VecDeque::new(),
            clocks: Clocks::new(),
            looks: false,
            put_off: None,
            config,
        }
    }

    /// Sends the first call.
    pub fn start(&mut self, now: Instant, channel: &mut Channel<ClientResults>) {
        self.clocks.start(now, self.config.command_time);
        self.step(now, channel);
    }

    fn is_over(&self) -> bool {
        self.life == Life::Ended
    }

    fn session(&mut self) -> Option<&mut Session> {
        self.mount.session.as_mut()
    }

    /// Sends a COMPOUND.
    fn call(
        &mut self,
        now: Instant,
        channel: &mut Channel<ClientResults>,
        compound: Compound,
        about: Subject,
        memory: Memory,
    ) {
        let call = Call {
            procedure: COMPOUND,
            credential: Credential::Sys(self.config.user.clone()),
            arguments: compound.stream,
            results: ClientResults(Results::new(about, compound.plan)),
            memory,
            results_limit: if about.is_short() { SHORT_RESULTS } else { RESULTS },
        };
        if channel.call(now, call).is_err() {
            // There is room for more calls than there are slots.
            self.fail(now, channel, Loss::Connection, "too many calls are under way".to_owned());
        }
    }

    /// Sends the step of the set-up.
    fn step(&mut self, now: Instant, channel: &mut Channel<ClientResults>) {
        let of = if self.mount.needs_slot() {
            let Some(of) = self.session().and_then(|session| session.slots.take(0)) else { return };
            Some(of)
        } else {
            None
        };
        let about = of.map_or(Subject::Outside, Subject::Step);
        if let Some(compound) = self.mount.step(&self.config, channel.writer(), of) {
            self.call(now, channel, compound, about, Memory::new());
        }
    }

    /// Takes the answer to a step of the set-up.
    fn mounting(&mut self, now: Instant, channel: &mut Channel<ClientResults>, results: &mut Results) {
        let stage = self.mount.stage;
        let status = results.status();
        match self.mount.answer(&self.config, results) {
            Mounting::Next => {
                self.clocks.went_on();
                if stage == super::mount::Stage::Binding {
                    return self.bound(now, channel);
                }
                self.step(now, channel);
            }
            Mounting::Later => self.put_off(now, status),
            Mounting::Failed(reason) => self.refused(now, channel, reason),
            Mounting::Lost(verdict) => self.lost(now, channel, verdict, status),
            Mounting::Mounted(file) => self.mounted(now, channel, file),
        }
    }

    /// The file cannot be opened. Whoever wants it hears so, and nothing of this client stays at the server.
    fn refused(&mut self, now: Instant, channel: &mut Channel<ClientResults>, reason: String) {
        if self.mount.session.is_none() {
            return self.fail(now, channel, Loss::State, reason);
        }
        self.config.keep.put(Remains { minor: Some(self.mount.minor), ..Remains::default() });
        self.actions.push_back(Action::Failed { reason });
        self.life = if self.mount.file.is_some() { Life::Draining } else { Life::DestroyingSession };
        self.clocks.leave(now);
        self.leave(now, channel);
    }

    /// Tries again a little later.
    fn put_off(&mut self, now: Instant, status: Status) {
        self.clocks.put_off(now);
        self.put_off = Some(status);
    }

    /// The connection belongs to the session of before, or the session is gone and its slots with it.
    fn bound(&mut self, now: Instant, channel: &mut Channel<ClientResults>) {
        if self.mount.session.is_none() {
            self.unsettled.clear();
            self.settled.clear();
            return self.step(now, channel);
        }
        self.asking.clone_from(&self.unsettled);
        self.ask(now, channel);
    }

    /// Finds out what became of slots: what changed something goes again as it was, under its own sequence ID; for others a bare SEQUENCE says it.
    fn ask(&mut self, now: Instant, channel: &mut Channel<ClientResults>) {
        for Unsettled { of, change } in core::mem::take(&mut self.asking) {
            let writer = channel.writer();
            let compound = if let Some(Change { arguments, plan, .. }) = change {
                Compound { stream: arguments, plan }
            } else {
                let Some(session) = self.session() else { return };
                session.begin(writer, of, false).finish()
            };
            self.call(now, channel, compound, Subject::Settle(of), Memory::new());
        }
        self.settle(now, channel);
    }

    /// Goes on once each slot is settled.
    fn settle(&mut self, now: Instant, channel: &mut Channel<ClientResults>) {
        if self.unsettled.is_empty() && self.life == Life::Mounting {
            self.mount.settled();
            self.step(now, channel);
        }
    }

    /// A slot's fate is known, or nearly.
    fn slot_answered(
        &mut self,
        now: Instant,
        channel: &mut Channel<ClientResults>,
        of: SlotUse,
        results: Option<&Results>,
    ) {
        let Some(at) = self.unsettled.iter().position(|unsettled| unsettled.of == of) else { return };
        let status = results.map_or(Status::OK, Results::status);
        let at_sequence = results.is_some_and(|results| results.failed() == Some(OpNumber::SEQUENCE));
        if at_sequence && status == Status::DELAY {
            // The server is still at it.
            if let Some(unsettled) = self.unsettled.get(at) {
                self.asking.push(unsettled.clone());
            }
            return self.put_off(now, status);
        }
        if at_sequence && super::verdict::verdict(status) == Verdict::NoSession && !is_about_the_slot(status)
        {
            return self.lost(now, channel, Verdict::NoSession, status);
        }
        let unsettled = self.unsettled.swap_remove(at);
        if let Some(session) = self.session() {
            session.slots.release(of, true);
        }
        if let (Some(change), Some(results)) = (unsettled.change, results.filter(|_| status.is_ok())) {
            let written = results.data.written.map_or(change.key.length, |written| written.count.into());
            // A server that says more has said nothing: the request is made again.
            if written <= change.key.length {
                if self.settled.len() >= SETTLED {
                    self.settled.pop_front();
                }
                let verifier = results.data.verifier;
                self.settled.push_back(Settled { key: change.key, written, verifier });
            }
        }
        self.settle(now, channel);
    }

    fn mounted(&mut self, now: Instant, channel: &mut Channel<ClientResults>, file: RemoteFile) {
        // What was written over the connection before was written at a server that has restarted since.
        self.settled
            .retain(|settled| settled.verifier.is_none_or(|verifier| file.verifier == Some(verifier)));
        self.verifier = file.verifier;
        self.geometry = Some(file.geometry);
        if let Some(session) = self.session() {
            let (read_limit, write_limit) = (session.read_limit, session.write_limit);
            (self.shape.read_limit, self.shape.write_limit) = (read_limit, write_limit);
        }
        self.shape.deallocates = file.features.contains(volume::Features::DISCARD);
        self.life = Life::Ready;
        self.clocks.open(now);
        self.actions.push_back(Action::Ready(Box::new(file)));
        self.pump(now, channel);
    }

    /// Sends what waits, as far as there are slots.
    fn pump(&mut self, now: Instant, channel: &mut Channel<ClientResults>) {
        if !matches!(self.life, Life::Ready | Life::Draining) {
            return;
        }
        while let Some(place) = self.transfers.next() {
            if !channel.has_room() {
                return;
            }
            let Some(session) = self.mount.session.as_mut() else { return };
            // The first slot is for signs of life, where another may be used.
            let least = u32::from(session.slots.limit() > 1);
            let Some(of) = session.slots.take(least) else { return };
            self.transfers.drop_next();
            self.send_part(now, channel, place, of);
            if self.is_over() {
                return;
            }
        }
        if self.life == Life::Draining && self.transfers.len() == 0 {
            self.leave(now, channel);
        }
    }

    fn send_part(&mut self, now: Instant, channel: &mut Channel<ClientResults>, place: usize, of: SlotUse) {
        let changes = self.transfers.changes(place, self.shape).is_some();
        let (Some(session), Some(file)) = (&self.mount.session, &self.mount.file) else { return };
        let arguments = session.begin(channel.writer(), of, changes).put_handle(&file.handle);
        let stateid = file.stateid;
        if let Some(Part { ask, memory }) = self.transfers.part(place, self.shape) {
            let compound = arguments.ask(stateid, ask).finish();
            self.call(now, channel, compound, Subject::Part(of, place), memory);
        }
    }

    /// A part of a request was answered.
    fn part_answered(
        &mut self,
        now: Instant,
        channel: &mut Channel<ClientResults>,
        place: usize,
        results: &mut Results,
        unused: Memory,
    ) {
        if let (Some(known), Some(told)) = (self.verifier, results.data.verifier)
            && known != told
        {
            self.transfers.put_back(place, unused);
            return self.fail(now, channel, Loss::Connection, ANOTHER_VERIFIER.to_owned());
        }
        let status = results.status();
        let failure = (!status.is_ok()).then(|| super::verdict::verdict(status));
        match self.transfers.answer(place, failure, &mut results.data, unused) {
            Progress::More => {}
            Progress::Over(completion) => self.actions.push_back(Action::Complete(completion)),
            Progress::Shrunk(completion) => {
                self.actions.push_back(Action::Complete(completion));
                self.look(now, channel);
            }
            Progress::Lost(verdict) => return self.lost(now, channel, verdict, status),
            Progress::Wrong(what) => {
                let reason = format!("the server breaks the protocol: {what}");
                return self.fail(now, channel, Loss::Connection, reason);
            }
        }
        self.pump(now, channel);
    }

    fn lost(&mut self, now: Instant, channel: &mut Channel<ClientResults>, verdict: Verdict, status: Status) {
        let (loss, what) = match verdict {
            Verdict::NoState => (Loss::State, "the server has forgotten what was open"),
            _ => (Loss::Session, "the server has ended the session"),
        };
        self.fail(now, channel, loss, format!("{what} ({status})"));
    }

    /// Asks whether the server is there: of the file nothing is asked, as a disk may be slow.
    fn ping(&mut self, now: Instant, channel: &mut Channel<ClientResults>) {
        let Some(session) = self.mount.session.as_mut() else { return };
        let Some(of) = session.slots.take(0) else {
            // A session of one slot, which is busy: its call has a time of its own.
            self.clocks.heard(now);
            return;
        };
        let compound = session.begin(channel.writer(), of, false).finish();
        self.clocks.ping(now);
        self.call(now, channel, compound, Subject::Ping(of), Memory::new());
    }

    fn pinged(&mut self, now: Instant, channel: &mut Channel<ClientResults>, results: &Results) {
        self.clocks.pinged();
        let status = results.status();
        if status.is_ok() {
            return self.pump(now, channel);
        }
        if let verdict @ (Verdict::NoSession | Verdict::NoState) = super::verdict::verdict(status) {
            self.lost(now, channel, verdict, status);
        }
    }

    /// Asks how large the file is.
    fn look(&mut self, now: Instant, channel: &mut Channel<ClientResults>) {
        if self.looks || self.life != Life::Ready {
            return;
        }
        let (Some(session), Some(file)) = (self.mount.session.as_mut(), self.mount.file.as_ref()) else {
            return;
        };
        let Some(of) = session.slots.take(0) else { return };
        let arguments = session.begin(channel.writer(), of, false).put_handle(&file.handle);
        let compound = arguments.get_attributes(&FileFacts::LOOK).finish();
        self.looks = true;
        self.call(now, channel, compound, Subject::Look(of), Memory::new());
    }

    fn looked(&mut self, now: Instant, channel: &mut Channel<ClientResults>, results: &mut Results) {
        self.looks = false;
        let status = results.status();
        if !status.is_ok() {
            match super::verdict::verdict(status) {
                Verdict::Fails(_) | Verdict::Uncached => {}
                verdict => return self.lost(now, channel, verdict, status),
            }
        }
        let told = results.found.take().and_then(|found| found.facts).and_then(|facts| facts.size);
        if let Some(geometry) = told.and_then(|size| resized(&mut self.geometry, size)) {
            self.actions.push_back(Action::Resized(geometry));
        }
        self.pump(now, channel);
    }

    /// Leaves in order: nothing of this client stays at the server.
    fn leave(&mut self, now: Instant, channel: &mut Channel<ClientResults>) {
        let about_slot = |of: Option<SlotUse>| of.map_or(Subject::Outside, Subject::Step);
        let minor = self.mount.minor;
        let (compound, about) = match self.life {
            Life::Draining => {
                let (Some(session), Some(file)) = (self.mount.session.as_mut(), self.mount.file.as_ref())
                else {
                    return self.finish(channel);
                };
                let Some(of) = session.slots.take(0) else { return };
                self.life = Life::Closing;
                let arguments = session.begin(channel.writer(), of, false).put_handle(&file.handle);
                (arguments.close(file.stateid).finish(), about_slot(Some(of)))
            }
            Life::DestroyingSession | Life::DestroyingClient => {
                let Some(session) = self.mount.session.as_ref() else { return self.finish(channel) };
                let arguments = super::arguments::Arguments::new(channel.writer(), minor);
                let arguments = if self.life == Life::DestroyingSession {
                    arguments.destroy_session(session.id)
                } else {
                    arguments.destroy_client(session.client)
                };
                (arguments.finish(), about_slot(None))
            }
            Life::Mounting | Life::Ready | Life::Closing | Life::Ended => return,
        };
        self.call(now, channel, compound, about, Memory::new());
    }

    /// A step of the leave was answered, whatever it came to.
    fn left(&mut self, now: Instant, channel: &mut Channel<ClientResults>) {
        self.life = match self.life {
            Life::Closing => Life::DestroyingSession,
            Life::DestroyingSession => Life::DestroyingClient,
            _ => return self.finish(channel),
        };
        self.leave(now, channel);
    }

    fn finish(&mut self, channel: &mut Channel<ClientResults>) {
        self.life = Life::Ended;
        self.clocks.stop();
        channel.close(CloseReason::Finished);
    }

    fn disconnect(&mut self, now: Instant, channel: &mut Channel<ClientResults>) {
        match self.life {
            Life::Ready => {
                self.life = Life::Draining;
                self.clocks.leave(now);
                self.pump(now, channel);
            }
            Life::Mounting => self.finish(channel),
            _ => {}
        }
    }

    fn submit(&mut self, now: Instant, channel: &mut Channel<ClientResults>, request: Request) {
        if self.life != Life::Ready {
            let completion = request.failed(volume::VolumeErrorKind::Unreachable);
            return self.actions.push_back(Action::Complete(completion));
        }
        if let Some(completion) = self.transfers.begin(now, request, self.shape) {
            return self.actions.push_back(Action::Complete(completion));
        }
        self.recall();
        self.pump(now, channel);
    }

    /// A request that comes again may have been carried out over the connection of before.
    fn recall(&mut self) {
        if self.settled.is_empty() {
            return;
        }
        let Some(place) = self.transfers.last() else { return };
        let Some(key) = self.transfers.changes(place, self.shape) else { return };
        let Some(at) = self.settled.iter().position(|settled| settled.key == key) else { return };
        let Some(Settled { written, .. }) = self.settled.remove(at) else { return };
        if let Some(completion) = self.transfers.was_done(place, written) {
            self.transfers.unwait_last();
            self.actions.push_back(Action::Complete(completion));
        }
    }

    /// The connection cannot go on. Requests end, and what the next connection needs is kept.
    fn fail(&mut self, now: Instant, channel: &mut Channel<ClientResults>, loss: Loss, reason: String) {
        if self.is_over() {
            return;
        }
        let was_mounting = self.life == Life::Mounting;
        let leaves = matches!(
            self.life,
            Life::Draining | Life::Closing | Life::DestroyingSession | Life::DestroyingClient
        );
        self.life = Life::Ended;
        self.clocks.stop();
        let unsettled = self.take_unanswered(channel, was_mounting);
        if !leaves {
            self.keep(loss, unsettled);
        }
        let (actions, patience) = (&mut self.actions, self.config.command_time);
        self.transfers
            .end(now, patience)
            .for_each(|completion| actions.push_back(Action::Complete(completion)));
        actions.push_back(Action::Failed { reason });
        channel.close(CloseReason::Finished);
    }

    /// What calls that are under way leave behind: memory for their requests, and slots.
    fn take_unanswered(
        &mut self,
        channel: &mut Channel<ClientResults>,
        was_mounting: bool,
    ) -> Vec<Unsettled> {
        let mut unsettled = core::mem::take(&mut self.unsettled);
        let calls: Vec<UnansweredCall<ClientResults>> = channel.take_unanswered().collect();
        for UnansweredCall { call, .. } in calls {
            let Call { arguments, results: ClientResults(mut results), mut memory, .. } = call;
            match results.subject {
                Subject::Outside | Subject::Settle(_) => {}
                Subject::Step(of) | Subject::Ping(of) | Subject::Look(of) => {
                    unsettled.push(Unsettled { of, change: None });
                }
                Subject::Part(of, place) => {
                    let key = self.transfers.changes(place, self.shape);
                    let plan = results.plan();
                    let change = key.map(|key| Change { arguments, plan, key });
                    unsettled.push(Unsettled { of, change });
                    if let Some(piece) = results.data.payload.take() {
                        memory.push(piece);
                    }
                    self.transfers.put_back(place, memory);
                }
            }
        }
        debug_assert!(was_mounting || unsettled.len() <= 128, "no more than slots");
        unsettled
    }

    /// Keeps what the next connection goes on with.
    fn keep(&mut self, loss: Loss, unsettled: Vec<Unsettled>) {
        let session = self.mount.session.take();
        let file = self.mount.file.take();
        let (session, obsolete, unsettled) = match (loss, session) {
            (Loss::Connection, Some(session)) => (Some(session), None, unsettled),
            (_, session) => (None, session.map(|session| session.id).or(self.mount.obsolete), Vec::new()),
        };
        // A session without an open file is of no use: it is begun anew.
        let (session, obsolete): (Option<Session>, Option<SessionId>) = match (session, &file) {
            (Some(session), None) => (None, Some(session.id)),
            kept => (kept.0, obsolete),
        };
        let minor = Some(self.mount.minor);
        let (unsettled, settled) = match &session {
            Some(_) => (unsettled, core::mem::take(&mut self.settled)),
            None => (Vec::new(), VecDeque::new()),
        };
        self.config.keep.put(Remains { session, obsolete, minor, file, unsettled, settled });
    }

    /// Looks at what a reply says of its slot and of the session.
    fn slot_of(
        &mut self,
        now: Instant,
        channel: &mut Channel<ClientResults>,
        results: &Results,
    ) -> Option<()> {
        let Some(of) = results.subject.slot() else { return Some(()) };
        let Some(answer) = results.sequence else {
            // SEQUENCE itself has failed: the sequence ID is as it was.
            if let Some(session) = self.session() {
                session.slots.release(of, false);
            }
            return Some(());
        };
        let is_ready = matches!(self.life, Life::Ready | Life::Draining);
        let session = self.mount.session.as_mut()?;
        if !session.recognises(of, &answer) {
            let reason = "the server breaks the protocol: an answer is for another slot or session";
            self.fail(now, channel, Loss::Session, reason.to_owned());
            return None;
        }
        session.slots.release(of, true);
        session.slots.set_target(answer.target);
        if answer.flags & STATE_LOST != 0 && is_ready {
            let reason = "the server has restarted, or has let the lease of this client end";
            self.fail(now, channel, Loss::State, reason.to_owned());
            return None;
        }
        Some(())
    }

    /// A call has no results.
    fn unanswered(
        &mut self,
        now: Instant,
        channel: &mut Channel<ClientResults>,
        results: &Results,
        unused: Memory,
        error: CallError,
    ) {
        if let Subject::Part(_, place) = results.subject {
            self.transfers.put_back(place, unused);
        }
        if let (Subject::Settle(of), CallError::Undecodable(_)) = (results.subject, error) {
            // The answer of something else, which was kept: what the slot carried is over.
            return self.slot_answered(now, channel, of, None);
        }
        let reason = refusal(Called::Version4, error);
        self.fail(now, channel, Loss::Session, reason);
    }

    fn late(&self) -> &'static str {
        match self.put_off {
            Some(Status::GRACE) => {
                "the server has restarted and still waits for its clients (NFS4ERR_GRACE): try again in a minute or two"
            }
            Some(_) => "the server is busy (NFS4ERR_DELAY): try again",
            None => "the server does not answer: check that it runs, and that NFS is served at this port",
        }
    }
}

/// True for what SEQUENCE says where the slot has gone on, or was used for something else: the session is well.
fn is_about_the_slot(status: Status) -> bool {
    matches!(status, Status::SEQ_FALSE_RETRY | Status::SEQ_MISORDERED | Status::RETRY_UNCACHED_REP)
}

/// The decoder of an answer.
#[derive(Debug)]
pub struct ClientResults(pub(super) Results);

impl rpc::xdr::Decoder for ClientResults {
    fn step(&mut self, reader: &mut rpc::xdr::Reader<'_>) -> Result<rpc::xdr::Step, rpc::xdr::Error> {
        self.0.step(reader)
    }
}

impl rpc::Body for ClientResults {
    fn payload(&mut self, piece: buf::Buf) {
        self.0.payload(piece);
    }
}

impl UpperLayer for NfsClient {
    type Input = Input;
    type Action = Action;
    type Arguments = NoBody;
    type Results = ClientResults;

    fn begin_call(&mut self, _header: &CallHeader<'_>) -> Result<NoBody, ReplyStatus> {
        // There is no backchannel.
        Err(ReplyStatus::Accepted(AcceptStat::ProgramUnavailable))
    }

    /// For replies over RDMA that may be longer than a message: nobody calls, so there are no other payloads.
    fn memory(&mut self, length: usize) -> Option<buf::Buf> {
        Some(buf::Buf::zeroed(length))
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
        if self.is_over() {
            return;
        }
        self.clocks.heard(now);
        let ReceivedReply { results: ClientResults(mut results), unused, outcome, .. } = reply;
        if let Err(error) = outcome {
            return self.unanswered(now, channel, &results, unused, error);
        }
        if let Subject::Settle(of) = results.subject {
            return self.slot_answered(now, channel, of, Some(&results));
        }
        if self.slot_of(now, channel, &results).is_none() {
            return;
        }
        match (results.subject, self.life) {
            (Subject::Part(_, place), _) => self.part_answered(now, channel, place, &mut results, unused),
            (Subject::Ping(_), _) => self.pinged(now, channel, &results),
            (Subject::Look(_), _) => self.looked(now, channel, &mut results),
            (_, Life::Mounting) => self.mounting(now, channel, &mut results),
            _ => self.left(now, channel),
        }
    }

    fn handle_input(&mut self, now: Instant, channel: &mut Channel<ClientResults>, input: Input) {
        match input {
            Input::Submit(request) => self.submit(now, channel, request),
            Input::Cancel(tag) => {
                if let Some(completion) = self.transfers.cancel(tag) {
                    self.actions.push_back(Action::Complete(completion));
                }
            }
            Input::Disconnect => self.disconnect(now, channel),
            Input::Abandon => self.fail(now, channel, Loss::Connection, "it was given up".to_owned()),
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn handle_timeout(&mut self, now: Instant, channel: &mut Channel<ClientResults>) {
        if self.is_over() {
            return;
        }
        if let Some(CloseReason::TimedOut(_)) = channel.close_reason() {
            let reason = if self.life == Life::Mounting { self.late() } else { "the server does not answer" };
            return self.fail(now, channel, Loss::Connection, reason.to_owned());
        }
        if let Some(overdue) = self.clocks.overdue(now) {
            let reason = match overdue {
                Overdue::Passage => self.late().to_owned(),
                Overdue::Answer => silent(),
            };
            return self.fail(now, channel, Loss::Connection, reason);
        }
        if self.clocks.take_again(now) {
            if self.asking.is_empty() {
                self.step(now, channel);
            } else {
                self.ask(now, channel);
            }
        }
        if self.clocks.wants_ping(now) {
            self.ping(now, channel);
        }
        if self.clocks.take_look(now) {
            self.look(now, channel);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.clocks.next()
    }

    fn handle_ended(&mut self, now: Instant, channel: &mut Channel<ClientResults>) {
        self.fail(now, channel, Loss::Connection, "the connection has ended".to_owned());
    }

    fn is_established(&self) -> bool {
        self.life == Life::Ready
    }
}
