//! A bench for the server's connection: a RAM volume behind it, a client's words before it, no socket and no clock.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test uses some of it")]
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests")]

use std::sync::Arc;
use std::task::Waker;

use attach::nbd::wire::{
    Chunk, ChunkHeader, Command, CommandFlags, Info, OPTION_MAGIC, OptionCode, OptionHeader, OptionReply,
    OptionReplyHeader, RequestHeader, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, SimpleReply,
};
use attach::nbd::{Action, Connection, Export, Input};
use buf::Pool;
use protocol::pair::Half;
use protocol::{Connection as _, Instant};
use volume::{Completion, CoreId, Limits, QueueContext, Ram, Request, Volume, VolumeQueue};
use zerocopy::{FromBytes, IntoBytes};

pub const NOW: Instant = Instant::ZERO;
pub const SIZE: u64 = 1 << 20;

/// An export of a RAM volume.
pub fn export(ram: &Ram) -> Export {
    Export {
        description: "a test".to_owned(),
        geometry: ram.geometry(),
        limits: ram.limits(),
        features: ram.features(),
        read_only: false,
    }
}

/// A server's connection with its volume.
pub struct Bench {
    pub half: Half<Connection>,
    queue: Box<dyn VolumeQueue>,
    pub held: Vec<Request>,
    pub pool: Pool,
}

impl Bench {
    /// A connection to a new RAM volume, with this much memory; `shape` may change the export.
    pub fn new(memory: usize, shape: impl FnOnce(&mut Export)) -> Self {
        Self::on(&Pool::new(memory), shape)
    }

    /// The same, with memory that others share.
    pub fn on(pool: &Pool, shape: impl FnOnce(&mut Export)) -> Self {
        let ram = Ram::new(SIZE, 512).unwrap();
        let mut export = export(&ram);
        shape(&mut export);
        let pool = pool.clone();
        let half = Half::new(Connection::new(Arc::new(export), &pool, NOW));
        let queue = ram.open_queue(&QueueContext::without_pool(CoreId(0), Waker::noop().clone())).unwrap();
        Self { half, queue, held: Vec::new(), pool }
    }

    /// A connection after a negotiation with structured replies and `base:allocation`, or without both.
    pub fn agreed(structured: bool, shape: impl FnOnce(&mut Export)) -> Self {
        Self::agreed_on(&Pool::new(64 << 20), structured, shape)
    }

    /// The same, with memory that others share.
    pub fn agreed_on(pool: &Pool, structured: bool, shape: impl FnOnce(&mut Export)) -> Self {
        let mut bench = Self::on(pool, shape);
        bench.half.transmit(NOW);
        bench.half.receive(NOW, &3_u32.to_be_bytes());
        if structured {
            bench.half.receive(NOW, &option(OptionCode::STRUCTURED_REPLY, &[]));
            let query =
                [&0_u32.to_be_bytes()[..], &1_u32.to_be_bytes(), &15_u32.to_be_bytes(), b"base:allocation"];
            bench.half.receive(NOW, &option(OptionCode::SET_META_CONTEXT, &query.concat()));
        }
        bench.half.receive(NOW, &option(OptionCode::GO, &go(&[])));
        bench.half.transmit(NOW);
        bench
    }

    /// Takes what the connection asks of the volume, without doing it.
    pub fn hold(&mut self) -> usize {
        while let Some(Action::Submit(request)) = self.half.connection.poll_action() {
            self.held.push(request);
        }
        self.held.len()
    }

    /// Does what was held, in this order.
    pub fn release(&mut self) {
        for request in std::mem::take(&mut self.held) {
            self.queue.submit(NOW, request).unwrap();
        }
        let mut done: Vec<Completion> = Vec::new();
        self.queue.poll(NOW, &mut done);
        for completion in done {
            self.half.connection.handle_input(NOW, Input::Completion(completion));
        }
    }

    /// Lets the volume do everything, and answers what the connection sends.
    pub fn settle(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        loop {
            while self.hold() > 0 {
                self.release();
            }
            let sent = self.half.transmit(NOW);
            self.half.receive(NOW, &[]);
            if sent.is_empty() && self.hold() == 0 {
                return out;
            }
            out.extend(sent);
        }
    }

    /// Sends a request with its data, and answers the only reply.
    pub fn ask(&mut self, header: &RequestHeader, data: &[u8]) -> Answer {
        self.half.receive(NOW, header.as_bytes());
        self.half.receive(NOW, data);
        let out = self.settle();
        let (answer, rest) = Answer::read(&out, data_length(header));
        assert!(rest.is_empty(), "more than one reply: {rest:x?}");
        assert_eq!(answer.cookie, header.cookie.get());
        answer
    }

    pub fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        let answer = self.ask(&RequestHeader::new(Command::READ, 7, offset, length), &[]);
        assert_eq!(answer.error, 0);
        answer.data
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let header = RequestHeader::new(Command::WRITE, 8, offset, data.len() as u32);
        assert_eq!(self.ask(&header, data).error, 0);
    }

    /// The error of a request without data.
    pub fn error(&mut self, command: Command, flags: CommandFlags, range: (u64, u32)) -> u32 {
        self.ask(&RequestHeader::new(command, 9, range.0, range.1).with(flags), &[]).error
    }

    /// Extents as (bytes, flags).
    pub fn status(&mut self, flags: CommandFlags, range: (u64, u32)) -> Vec<(u32, u32)> {
        let answer =
            self.ask(&RequestHeader::new(Command::BLOCK_STATUS, 9, range.0, range.1).with(flags), &[]);
        assert_eq!((answer.error, &answer.data[..4]), (0, &[0, 0, 0, 1][..]));
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
        answer.data[4..].chunks(8).map(|run| (number(&run[..4]), number(&run[4..]))).collect()
    }
}

/// Bytes of data behind a simple reply to this request.
fn data_length(header: &RequestHeader) -> usize {
    if header.command.get() == Command::READ.0 { header.length.get() as usize } else { 0 }
}

/// A reply, of either kind.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub cookie: u64,
    pub error: u32,
    pub chunk: Option<u16>,
    pub data: Vec<u8>,
}

impl Answer {
    /// The reply at the front of `bytes`, and what follows it.
    pub fn read(bytes: &[u8], data: usize) -> (Self, &[u8]) {
        if bytes.starts_with(&STRUCTURED_REPLY_MAGIC.to_be_bytes()) {
            let (header, rest) = ChunkHeader::read_from_prefix(bytes).unwrap();
            assert_eq!(header.flags.get(), 1, "one chunk is all");
            let (payload, rest) = rest.split_at(header.length.get() as usize);
            let kind = header.kind.get();
            let failed = kind == Chunk::ERROR.0;
            let error = if failed { u32::from_be_bytes(payload[..4].try_into().unwrap()) } else { 0 };
            let skip = if kind == Chunk::OFFSET_DATA.0 { 8 } else { 0 };
            let data = payload[skip..].to_vec();
            return (Self { cookie: header.cookie.get(), error, chunk: Some(kind), data }, rest);
        }
        let (header, rest) = SimpleReply::read_from_prefix(bytes).unwrap();
        assert_eq!(header.magic.get(), SIMPLE_REPLY_MAGIC);
        let error = header.error.get();
        let (data, rest) = rest.split_at(if error == 0 { data } else { 0 });
        (Self { cookie: header.cookie.get(), error, chunk: None, data: data.to_vec() }, rest)
    }
}

/// An option with its data.
pub fn option(code: OptionCode, data: &[u8]) -> Vec<u8> {
    let header = OptionHeader {
        magic: OPTION_MAGIC.into(),
        option: code.0.into(),
        length: (data.len() as u32).into(),
    };
    [header.as_bytes(), data].concat()
}

/// The data of `GO` and `INFO` for the default export.
pub fn go(wanted: &[Info]) -> Vec<u8> {
    let mut data = vec![0; 4];
    data.extend((wanted.len() as u16).to_be_bytes());
    for info in wanted {
        data.extend(info.0.to_be_bytes());
    }
    data
}

/// Replies to options: kind and data.
pub fn option_replies(mut bytes: &[u8]) -> Vec<(OptionReply, Vec<u8>)> {
    let mut replies = Vec::new();
    while let Ok((header, rest)) = OptionReplyHeader::read_from_prefix(bytes) {
        let (data, rest) = rest.split_at(header.length.get() as usize);
        replies.push((OptionReply(header.reply.get()), data.to_vec()));
        bytes = rest;
    }
    assert!(bytes.is_empty(), "{bytes:x?}");
    replies
}

/// Limits of a volume that takes so many bytes at a time.
pub fn narrow(max_transfer: u32) -> Limits {
    Limits { max_transfer, max_discard: 3, ..Limits::default() }
}
