//! A client's connection in version 3: it opens one file and carries the requests of a volume to it.
//!
//! | what happens | what is done |
//! |---|---|
//! | the connection is made | [`Opened`] opens the file, step by step; [`Action::Ready`] says what it is |
//! | a request comes | [`Transfers`] has its calls; as many go at a time as the connection takes |
//! | nothing comes for some time | NULL asks whether the server is there |
//! | from time to time | GETATTR asks how large the file is |
//! | the server answers with another write verifier | it has restarted: the connection fails, and the next one begins with the new verifier |
//! | the connection fails | every request ends with "unreachable"; [`Nfs3Keep`](super::Nfs3Keep) has the file's handle |

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use buf::Buf;
use filesystem::Stability;
use protocol::{CloseReason, Instant};
use rpc::message::{AcceptStat, CallHeader, Procedure, ReplyStatus};
use rpc::xdr::{Decoder, Error, Reader, Step, Stream};
use rpc::{
    Body, Call, CallId, Channel, Credential, Memory, NoBody, ReceivedReply, UnansweredCall, UpperLayer,
};
use volume::{Geometry, Request};

use super::config::Nfs3Config;
use super::opening::{Opened, Opening};
use super::results::{Results, Subject};
use super::verdict::verdict;
use crate::client::clocks::{Clocks, Overdue, silent};
use crate::client::connection::{ANOTHER_VERIFIER, Action, Input};
use crate::client::data::{Ask, Stable};
use crate::client::limits::{DEPTH, SHORT_RESULTS};
use crate::client::refusal::{Called, refusal};
use crate::client::remote::{RemoteFile, resized};
use crate::client::transfers::{Part, Progress, Shape, Transfers};
use crate::client::verdict::Verdict;
use crate::v3::procedure::Number;
use crate::v3::results::Success;
use crate::v3::{Status, arguments};
use crate::v4::Verifier;

/// NFS's program (RFC 5531) and version.
const PROGRAM: u32 = 100_003;
const VERSION: u32 = 3;

/// How far the connection is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    /// The file is being opened.
    Opening,
    /// Requests go.
    Ready,
    /// It is to end, once nothing is under way.
    Draining,
    /// It is over.
    Ended,
}

/// A client of version 3 over one connection.
#[derive(Debug)]
pub struct Nfs3Client {
    config: Nfs3Config,
    life: Life,
    opened: Opened,
    /// What is known of the open file.
    shape: Shape,
    geometry: Option<Geometry>,
    verifier: Option<Verifier>,
    transfers: Transfers,
    actions: VecDeque<Action>,
    clocks: Clocks,
    /// The file's size is being asked for.
    looks: bool,
    /// The server has put off the last step.
    put_off: bool,
}

/// The decoder of an answer.
#[derive(Debug)]
pub struct Nfs3Results(Results);

impl Decoder for Nfs3Results {
    fn step(&mut self, reader: &mut Reader<'_>) -> Result<Step, Error> {
        self.0.step(reader)
    }
}

impl Body for Nfs3Results {
    fn payload(&mut self, piece: Buf) {
        self.0.payload(piece);
    }
}

/// A call that is to be made.
#[derive(Debug)]
struct Asked {
    number: Number,
    arguments: Stream,
    /// For what it reads.
    memory: Memory,
}

impl Asked {
    /// A call that reads no data.
    fn plain(number: Number, arguments: Stream) -> Self {
        Self { number, arguments, memory: Memory::new() }
    }
}

impl Nfs3Client {
    /// A client whose connection has just been made.
    pub fn new(config: Nfs3Config) -> Self {
        Self {
            life: Life::Opening,
            opened: Opened::new(&config),
            shape: Shape::unknown(config.block_size, config.access),
            geometry: None,
            verifier: None,
            transfers: Transfers::default(),
            actions: VecDeque::new(),
            clocks: Clocks::new(),
            looks: false,
            put_off: false,
            config,
        }
    }

    /// Sends the first call.
    pub fn start(&mut self, now: Instant, channel: &mut Channel<Nfs3Results>) {
        self.clocks.start(now, self.config.command_time);
        self.step(now, channel);
    }

    fn is_over(&self) -> bool {
        self.life == Life::Ended
    }

    fn call(&mut self, now: Instant, channel: &mut Channel<Nfs3Results>, asked: Asked, about: Subject) {
        let Asked { number, arguments, memory } = asked;
        let call = Call {
            procedure: Procedure { program: PROGRAM, version: VERSION, procedure: number.0 },
            credential: Credential::Sys(self.config.user.clone()),
            arguments,
            results: Nfs3Results(Results::new(about, number)),
            memory,
            results_limit: SHORT_RESULTS,
        };
        if channel.call(now, call).is_err() {
            // There is room for more calls than are made.
            self.fail(now, channel, "too many calls are under way".to_owned());
        }
    }

    /// Sends the next step of opening.
    fn step(&mut self, now: Instant, channel: &mut Channel<Nfs3Results>) {
        let mut out = channel.writer();
        if let Some(number) = self.opened.step(&self.config, &mut out) {
            self.call(now, channel, Asked::plain(number, out.finish()), Subject::Step);
        }
    }

    /// Takes the answer to a step of opening.
    fn opening(&mut self, now: Instant, channel: &mut Channel<Nfs3Results>, results: Results) {
        match self.opened.answer(&self.config, results) {
            Opening::Next => {
                self.clocks.went_on();
                self.step(now, channel);
            }
            Opening::Later => {
                self.clocks.put_off(now);
                self.put_off = true;
            }
            Opening::Failed(reason) => self.fail(now, channel, reason),
            Opening::Opened(file) => self.ready(now, channel, file),
        }
    }

    fn ready(&mut self, now: Instant, channel: &mut Channel<Nfs3Results>, file: RemoteFile) {
        self.verifier = file.verifier;
        self.geometry = Some(file.geometry);
        (self.shape.read_limit, self.shape.write_limit) = (self.opened.read_limit, self.opened.write_limit);
        self.life = Life::Ready;
        self.clocks.open(now);
        self.actions.push_back(Action::Ready(Box::new(file)));
        self.pump(now, channel);
    }

    /// Sends what waits, as far as there is room; some is left for signs of life.
    fn pump(&mut self, now: Instant, channel: &mut Channel<Nfs3Results>) {
        if !matches!(self.life, Life::Ready | Life::Draining) {
            return;
        }
        while let Some(place) = self.transfers.next() {
            if channel.calls_under_way() >= wire::index(DEPTH.into()) {
                return;
            }
            self.transfers.drop_next();
            self.send_part(now, channel, place);
            if self.is_over() {
                return;
            }
        }
        if self.life == Life::Draining && self.transfers.len() == 0 {
            self.finish(channel);
        }
    }

    fn send_part(&mut self, now: Instant, channel: &mut Channel<Nfs3Results>, place: usize) {
        let Some(Part { ask, memory }) = self.transfers.part(place, self.shape) else { return };
        let mut out = channel.writer();
        let file = self.opened.file();
        let number = match ask {
            Ask::Read { offset, count } => {
                arguments::read(&mut out, file, offset, count);
                Number::READ
            }
            Ask::Write { offset, stable, data } => {
                let stability = match stable {
                    Stable::Unstable => Stability::Unstable,
                    Stable::FileSync => Stability::FileSync,
                };
                arguments::write(&mut out, file, offset, stability, data);
                Number::WRITE
            }
            Ask::Commit => {
                arguments::commit(&mut out, file, 0, 0);
                Number::COMMIT
            }
            // Transfers ask for it only where `Shape::deallocates` says that there is such a thing.
            Ask::Deallocate { .. } => {
                return self.fail(now, channel, "version 3 deallocates nothing".to_owned());
            }
        };
        self.call(now, channel, Asked { number, arguments: out.finish(), memory }, Subject::Part(place));
    }

    /// A part of a request was answered.
    fn part_answered(
        &mut self,
        now: Instant,
        channel: &mut Channel<Nfs3Results>,
        place: usize,
        results: &mut Results,
        unused: Memory,
    ) {
        if let (Some(known), Some(told)) = (self.verifier, results.data.verifier)
            && known != told
        {
            self.transfers.put_back(place, unused);
            return self.fail(now, channel, ANOTHER_VERIFIER.to_owned());
        }
        let failed = results.outcome.as_ref().and_then(|outcome| outcome.as_ref().err()).copied();
        match self.transfers.answer(place, failed.map(verdict), &mut results.data, unused) {
            Progress::More => {}
            Progress::Over(completion) => self.actions.push_back(Action::Complete(completion)),
            Progress::Shrunk(completion) => {
                self.actions.push_back(Action::Complete(completion));
                self.look(now, channel);
            }
            Progress::Lost(_) => return self.forgotten(now, channel, failed),
            Progress::Wrong(what) => {
                return self.fail(now, channel, format!("the server breaks the protocol: {what}"));
            }
        }
        self.pump(now, channel);
    }

    /// The server does not know the file any more: the next connection looks for it by its path.
    fn forgotten(&mut self, now: Instant, channel: &mut Channel<Nfs3Results>, status: Option<Status>) {
        self.config.keep.set(None);
        let status = status.unwrap_or(Status::STALE);
        self.fail(now, channel, format!("the server has forgotten what was open ({status})"));
    }

    /// Asks whether the server is there: of the file nothing is asked, as a disk may be slow.
    fn ping(&mut self, now: Instant, channel: &mut Channel<Nfs3Results>) {
        self.clocks.ping(now);
        let nothing = channel.writer().finish();
        self.call(now, channel, Asked::plain(Number::NULL, nothing), Subject::Ping);
    }

    /// Asks how large the file is.
    fn look(&mut self, now: Instant, channel: &mut Channel<Nfs3Results>) {
        if self.looks || self.life != Life::Ready {
            return;
        }
        self.looks = true;
        let mut out = channel.writer();
        arguments::object(&mut out, self.opened.file());
        self.call(now, channel, Asked::plain(Number::GETATTR, out.finish()), Subject::Look);
    }

    fn looked(&mut self, now: Instant, channel: &mut Channel<Nfs3Results>, results: &Results) {
        self.looks = false;
        match &results.outcome {
            Some(Err(status)) if verdict(*status) == Verdict::NoState => {
                return self.forgotten(now, channel, Some(*status));
            }
            Some(Ok(Success::Attributes(attributes))) => {
                if let Some(geometry) = resized(&mut self.geometry, attributes.size) {
                    self.actions.push_back(Action::Resized(geometry));
                }
            }
            _ => {}
        }
        self.pump(now, channel);
    }

    fn finish(&mut self, channel: &mut Channel<Nfs3Results>) {
        self.life = Life::Ended;
        self.clocks.stop();
        channel.close(CloseReason::Finished);
    }

    fn disconnect(&mut self, now: Instant, channel: &mut Channel<Nfs3Results>) {
        match self.life {
            Life::Ready => {
                self.life = Life::Draining;
                self.clocks.leave(now);
                self.pump(now, channel);
            }
            Life::Opening => self.finish(channel),
            Life::Draining | Life::Ended => {}
        }
    }

    fn submit(&mut self, now: Instant, channel: &mut Channel<Nfs3Results>, request: Request) {
        if self.life != Life::Ready {
            let completion = request.failed(volume::VolumeErrorKind::Unreachable);
            return self.actions.push_back(Action::Complete(completion));
        }
        if let Some(completion) = self.transfers.begin(now, request, self.shape) {
            return self.actions.push_back(Action::Complete(completion));
        }
        self.pump(now, channel);
    }

    /// The connection cannot go on. Requests end.
    fn fail(&mut self, now: Instant, channel: &mut Channel<Nfs3Results>, reason: String) {
        if self.is_over() {
            return;
        }
        self.finish(channel);
        let calls: Vec<UnansweredCall<Nfs3Results>> = channel.take_unanswered().collect();
        for UnansweredCall { call, .. } in calls {
            let Call { results: Nfs3Results(mut results), mut memory, .. } = call;
            if let Subject::Part(place) = results.subject {
                if let Some(piece) = results.data.payload.take() {
                    memory.push(piece);
                }
                self.transfers.put_back(place, memory);
            }
        }
        let (actions, patience) = (&mut self.actions, self.config.command_time);
        self.transfers
            .end(now, patience)
            .for_each(|completion| actions.push_back(Action::Complete(completion)));
        actions.push_back(Action::Failed { reason });
    }

    fn late(&self) -> &'static str {
        if self.put_off {
            "the server is busy (NFS3ERR_JUKEBOX): try again"
        } else {
            "the server does not answer: check that it runs, and that NFS is served at this port"
        }
    }
}

impl UpperLayer for Nfs3Client {
    type Input = Input;
    type Action = Action;
    type Arguments = NoBody;
    type Results = Nfs3Results;

    fn begin_call(&mut self, _header: &CallHeader<'_>) -> Result<NoBody, ReplyStatus> {
        // Servers of version 3 call nobody over a client's connection.
        Err(ReplyStatus::Accepted(AcceptStat::ProgramUnavailable))
    }

    /// For replies over RDMA that may be longer than a message: nobody calls, so there are no other payloads.
    fn memory(&mut self, length: usize) -> Option<Buf> {
        Some(Buf::zeroed(length))
    }

    fn call(&mut self, _now: Instant, _channel: &mut Channel<Nfs3Results>, _id: CallId, arguments: NoBody) {
        match arguments {}
    }

    fn reply(&mut self, now: Instant, channel: &mut Channel<Nfs3Results>, reply: ReceivedReply<Nfs3Results>) {
        if self.is_over() {
            return;
        }
        self.clocks.heard(now);
        let ReceivedReply { results: Nfs3Results(mut results), unused, outcome, .. } = reply;
        if let Err(error) = outcome {
            if let Subject::Part(place) = results.subject {
                self.transfers.put_back(place, unused);
            }
            return self.fail(now, channel, refusal(Called::Version3, error));
        }
        match results.subject {
            Subject::Step => self.opening(now, channel, results),
            Subject::Ping => {
                self.clocks.pinged();
                self.pump(now, channel);
            }
            Subject::Look => self.looked(now, channel, &results),
            Subject::Part(place) => self.part_answered(now, channel, place, &mut results, unused),
        }
    }

    fn handle_input(&mut self, now: Instant, channel: &mut Channel<Nfs3Results>, input: Input) {
        match input {
            Input::Submit(request) => self.submit(now, channel, request),
            Input::Cancel(tag) => {
                if let Some(completion) = self.transfers.cancel(tag) {
                    self.actions.push_back(Action::Complete(completion));
                }
            }
            Input::Disconnect => self.disconnect(now, channel),
            Input::Abandon => self.fail(now, channel, "it was given up".to_owned()),
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn handle_timeout(&mut self, now: Instant, channel: &mut Channel<Nfs3Results>) {
        if self.is_over() {
            return;
        }
        if let Some(CloseReason::TimedOut(_)) = channel.close_reason() {
            let reason = if self.life == Life::Opening { self.late() } else { "the server does not answer" };
            return self.fail(now, channel, reason.to_owned());
        }
        if let Some(overdue) = self.clocks.overdue(now) {
            let reason = match overdue {
                Overdue::Passage => self.late().to_owned(),
                Overdue::Answer => silent(),
            };
            return self.fail(now, channel, reason);
        }
        if self.clocks.take_again(now) {
            self.step(now, channel);
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

    fn handle_ended(&mut self, now: Instant, channel: &mut Channel<Nfs3Results>) {
        self.fail(now, channel, "the connection has ended".to_owned());
    }

    fn is_established(&self) -> bool {
        self.life == Life::Ready
    }
}
