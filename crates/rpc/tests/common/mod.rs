//! An upper layer for tests, in both roles: a program whose one procedure is a compound of reads, writes and names, over whatever carries it.
#![allow(dead_code, unreachable_pub, missing_debug_implementations, reason = "each test uses a part of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::VecDeque;

use buf::{Buf, Pool, SharedBuf};
use protocol::{Ended, Instant};
use rpc::message::{AcceptStat, CallHeader, Procedure, ReplyStatus, Service, dispatch};
use rpc::xdr::{Decoder, Error, Reader, Step, Stream, Writer};
use rpc::{
    Body, Call, CallId, Channel, Config, Credential, Memory, ReceivedReply, UnansweredCall, UpperLayer,
};

pub const PROGRAM: u32 = 400_100;
pub const SERVICES: &[Service<()>] = &[
    Service { program: PROGRAM, version: 2, procedures: 2, to: () },
    Service { program: PROGRAM, version: 3, procedures: 2, to: () },
];
pub const LARGEST: usize = 1 << 20;
const OPERATIONS: usize = 16;

pub fn config() -> Config {
    Config { longest_item: 4096, calls_received: 8, calls_sent: 8, ..Config::new(100) }
}

/// What a compound has, as a caller sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// So many bytes from there. Behind the end of the store it fails.
    Read {
        offset: u64,
        count: u32,
    },
    /// With a word behind the data.
    Write {
        offset: u64,
        data: Vec<u8>,
        behind: u32,
    },
    Name(String),
}

/// What an operation gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Read(Vec<u8>),
    ReadFailed(u32),
    Written { count: u32, behind: u32 },
    Name(String),
}

pub fn encode(mut writer: Writer, operations: &[Operation]) -> Stream {
    writer.length(operations.len());
    for operation in operations {
        match operation {
            Operation::Read { offset, count } => {
                writer.u32(1);
                writer.u64(*offset);
                writer.u32(*count);
            }
            Operation::Write { offset, data, behind } => {
                writer.u32(2);
                writer.u64(*offset);
                writer.payload(SharedBuf::from(data.clone()).into());
                writer.u32(*behind);
            }
            Operation::Name(name) => {
                writer.u32(3);
                writer.opaque(name.as_bytes());
            }
        }
    }
    writer.finish()
}

/// Arguments on their way in.
#[derive(Debug, Default)]
pub struct Arguments {
    pub procedure: u32,
    pub operations: Vec<Operation>,
    left: Option<usize>,
    behind: bool,
}

impl Decoder for Arguments {
    fn step(&mut self, reader: &mut Reader<'_>) -> Result<Step, Error> {
        if self.procedure == 0 {
            return Ok(Step::End);
        }
        if self.behind {
            let word = reader.u32()?;
            if let Some(Operation::Write { behind, .. }) = self.operations.last_mut() {
                *behind = word;
            }
            self.behind = false;
            return Ok(Step::Next);
        }
        let Some(left) = self.left else {
            self.left = Some(reader.length(OPERATIONS)?);
            return Ok(Step::Next);
        };
        if left == 0 {
            return Ok(Step::End);
        }
        let step = match reader.u32()? {
            1 => {
                let (offset, count) = (reader.u64()?, reader.u32()?);
                self.operations.push(Operation::Read { offset, count });
                Step::Next
            }
            2 => {
                let (offset, length) = (reader.u64()?, reader.length(LARGEST)?);
                self.operations.push(Operation::Write { offset, data: Vec::new(), behind: 0 });
                self.behind = true;
                Step::Payload(length)
            }
            3 => {
                self.operations.push(Operation::Name(reader.string(400)?.into()));
                Step::Next
            }
            other => return Err(Error::NotInEnumeration(other)),
        };
        self.left = Some(left - 1);
        Ok(step)
    }
}

impl Body for Arguments {
    fn payload(&mut self, piece: Buf) {
        let Some(Operation::Write { data, .. }) = self.operations.last_mut() else {
            panic!("data of no write")
        };
        data.extend_from_slice(&piece);
    }
}

/// Results on their way in.
#[derive(Debug, Default)]
pub struct Results {
    pub tag: u64,
    pub procedure: u32,
    pub outcomes: Vec<Outcome>,
    left: Option<usize>,
}

impl Decoder for Results {
    fn step(&mut self, reader: &mut Reader<'_>) -> Result<Step, Error> {
        if self.procedure == 0 {
            return Ok(Step::End);
        }
        let Some(left) = self.left else {
            self.left = Some(reader.length(OPERATIONS)?);
            return Ok(Step::Next);
        };
        if left == 0 {
            return Ok(Step::End);
        }
        let step = match reader.u32()? {
            1 => match reader.u32()? {
                0 => {
                    let length = reader.length(LARGEST)?;
                    self.outcomes.push(Outcome::Read(Vec::new()));
                    Step::Payload(length)
                }
                status => {
                    self.outcomes.push(Outcome::ReadFailed(status));
                    Step::NoPayload
                }
            },
            2 => {
                let (count, behind) = (reader.u32()?, reader.u32()?);
                self.outcomes.push(Outcome::Written { count, behind });
                Step::Next
            }
            3 => {
                self.outcomes.push(Outcome::Name(reader.string(400)?.into()));
                Step::Next
            }
            other => return Err(Error::NotInEnumeration(other)),
        };
        self.left = Some(left - 1);
        Ok(step)
    }
}

impl Body for Results {
    fn payload(&mut self, piece: Buf) {
        let Some(Outcome::Read(data)) = self.outcomes.last_mut() else { panic!("data of no read") };
        data.extend_from_slice(&piece);
    }
}

/// What a test tells an upper layer.
pub enum Input {
    /// Calls procedure 1, or 0 without operations.
    Call {
        tag: u64,
        procedure: Procedure,
        operations: Vec<Operation>,
    },
    /// Answers the oldest call that waits.
    Answer,
    Again(Box<UnansweredCall<Results>>),
}

/// What a test hears.
#[derive(Debug)]
pub enum Action {
    /// A call that could not be sent.
    NoRoom(u64),
}

pub struct Peer {
    pub store: Vec<u8>,
    /// Where memory for arguments comes from.
    pub pool: Option<Pool>,
    /// Calls wait until the test says [`Input::Answer`].
    pub holds: bool,
    pub waiting: VecDeque<(CallId, Arguments)>,
    pub replies: Vec<ReceivedReply<Results>>,
    pub garbage: usize,
    pub calls: usize,
    pub asked: Vec<usize>,
    pub unanswered: Vec<UnansweredCall<Results>>,
    pub actions: VecDeque<Action>,
    pub credentials: Vec<u32>,
}

impl Default for Peer {
    fn default() -> Self {
        Self {
            store: (0..=255).cycle().take(3 * LARGEST).collect(),
            pool: None,
            holds: false,
            waiting: VecDeque::new(),
            replies: Vec::new(),
            garbage: 0,
            calls: 0,
            asked: Vec::new(),
            unanswered: Vec::new(),
            actions: VecDeque::new(),
            credentials: Vec::new(),
        }
    }
}

pub fn procedure(procedure: u32) -> Procedure {
    Procedure { program: PROGRAM, version: 3, procedure }
}

/// Bytes that the results of a compound have at most beside their payloads.
fn results_limit(operations: &[Operation]) -> usize {
    let each = operations.iter().map(|operation| match operation {
        Operation::Name(name) => 12 + name.len(),
        _ => 12,
    });
    4 + each.sum::<usize>()
}

pub fn call(mut writer: Option<Writer>, tag: u64, to: Procedure, operations: &[Operation]) -> Call<Results> {
    let writer = writer.take().unwrap_or_default();
    let mut memory = Memory::new();
    for operation in operations {
        if let Operation::Read { count, .. } = operation {
            memory.push(Buf::zeroed((*count).max(1) as usize));
        }
    }
    Call {
        procedure: to,
        credential: Credential::None,
        arguments: if to.procedure == 0 { writer.finish() } else { encode(writer, operations) },
        results: Results { tag, procedure: to.procedure, ..Results::default() },
        memory,
        results_limit: results_limit(operations),
    }
}

impl Peer {
    fn answer(&mut self, channel: &mut Channel<Results>, id: CallId, arguments: &Arguments) {
        let mut writer = channel.writer();
        if arguments.procedure == 0 {
            return channel.reply(id, writer.finish());
        }
        writer.length(arguments.operations.len());
        for operation in &arguments.operations {
            match operation {
                Operation::Read { offset, count } => {
                    writer.u32(1);
                    let from = usize::try_from(*offset).unwrap_or(usize::MAX);
                    let data = self.store.get(from..from.saturating_add(*count as usize));
                    if let Some(data) = data {
                        writer.u32(0);
                        writer.payload(SharedBuf::from(data.to_vec()).into());
                    } else {
                        writer.u32(5);
                        writer.no_payload();
                    }
                }
                Operation::Write { offset, data, behind } => {
                    let from = usize::try_from(*offset).unwrap();
                    self.store[from..from + data.len()].copy_from_slice(data);
                    writer.u32(2);
                    writer.length(data.len());
                    writer.u32(*behind);
                }
                Operation::Name(name) => {
                    writer.u32(3);
                    writer.opaque(name.as_bytes());
                }
            }
        }
        channel.reply(id, writer.finish());
    }

    /// The outcomes of the calls that have succeeded, by their tag.
    pub fn outcomes(&self) -> Vec<(u64, Vec<Outcome>)> {
        let succeeded = self.replies.iter().filter(|reply| reply.outcome.is_ok());
        let mut all: Vec<_> =
            succeeded.map(|reply| (reply.results.tag, reply.results.outcomes.clone())).collect();
        all.sort_by_key(|(tag, _)| *tag);
        all
    }
}

impl UpperLayer for Peer {
    type Input = Input;
    type Action = Action;
    type Arguments = Arguments;
    type Results = Results;

    fn begin_call(&mut self, header: &CallHeader<'_>) -> Result<Arguments, ReplyStatus> {
        dispatch(SERVICES, header.procedure).map_err(ReplyStatus::Accepted)?;
        if let Some(sys) = header.auth_sys()? {
            self.credentials.push(sys.uid);
        }
        Ok(Arguments { procedure: header.procedure.procedure, ..Arguments::default() })
    }

    fn memory(&mut self, length: usize) -> Option<Buf> {
        self.asked.push(length);
        self.pool.as_ref().map_or_else(|| Some(Buf::zeroed(length)), |pool| pool.take(length))
    }

    fn call(&mut self, _: Instant, channel: &mut Channel<Results>, id: CallId, arguments: Arguments) {
        self.calls += 1;
        if self.holds {
            self.waiting.push_back((id, arguments));
        } else {
            self.answer(channel, id, &arguments);
        }
    }

    fn undecodable(&mut self, _: Instant, channel: &mut Channel<Results>, id: CallId, _: Arguments) {
        self.garbage += 1;
        channel.refuse(id, ReplyStatus::Accepted(AcceptStat::GarbageArguments));
    }

    fn reply(&mut self, _: Instant, _: &mut Channel<Results>, reply: ReceivedReply<Results>) {
        self.replies.push(reply);
    }

    fn handle_input(&mut self, now: Instant, channel: &mut Channel<Results>, input: Input) {
        match input {
            Input::Call { tag, procedure, operations } => {
                let writer = channel.writer();
                if channel.call(now, call(Some(writer), tag, procedure, &operations)).is_err() {
                    self.actions.push_back(Action::NoRoom(tag));
                }
            }
            Input::Answer => {
                let (id, arguments) = self.waiting.pop_front().unwrap();
                self.answer(channel, id, &arguments);
            }
            Input::Again(unanswered) => channel.call_again(now, *unanswered).unwrap(),
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn handle_ended(&mut self, _: Instant, channel: &mut Channel<Results>) {
        self.unanswered.extend(channel.take_unanswered());
    }
}

/// A connection whose upper layer is a [`Peer`].
pub trait Access: protocol::Connection<Input = Input, Action = Action> {
    fn peer(&mut self) -> &mut Peer;
    fn channel(&mut self) -> &mut Channel<Results>;
}

impl Access for rpc::tcp::TcpConnection<Peer> {
    fn peer(&mut self) -> &mut Peer {
        self.parts().upper
    }

    fn channel(&mut self) -> &mut Channel<Results> {
        self.parts().channel
    }
}

pub fn end(connection: &mut impl Access) -> Vec<UnansweredCall<Results>> {
    connection.handle_ended(Instant::ZERO, Ended::ByPeer);
    std::mem::take(&mut connection.peer().unanswered)
}

/// What a server that has the store of a new [`Peer`] gives.
pub fn expected(store: &mut [u8], operations: &[Operation]) -> Vec<Outcome> {
    let outcome = |operation: &Operation| match operation {
        Operation::Read { offset, count } => {
            let from = usize::try_from(*offset).unwrap();
            let data = store.get(from..from + *count as usize);
            data.map_or(Outcome::ReadFailed(5), |data| Outcome::Read(data.to_vec()))
        }
        Operation::Write { offset, data, behind } => {
            let from = usize::try_from(*offset).unwrap();
            store[from..from + data.len()].copy_from_slice(data);
            Outcome::Written { count: u32::try_from(data.len()).unwrap(), behind: *behind }
        }
        Operation::Name(name) => Outcome::Name(name.clone()),
    };
    operations
        .iter()
        .map({
            let mut outcome = outcome;
            move |operation| outcome(operation)
        })
        .collect()
}
