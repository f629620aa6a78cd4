//! Calls of the peer over a queue pair (RFC 8166 §3.4, §3.5, §4.5): arguments are read from its memory, and results are written to it.
//!
//! A call whose message or payload is read stays a [`Task`] until its arguments are whole; several may be under way. Then it is the upper layer's, and what
//! its reply needs stays here.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use buf::{Buf, BufList, SharedBuf};
use verbs::{RemoteRegion, WorkRequest};

use super::header::{BARE, Body as RdmaBody, Chunks, Header, HeaderError, RdmaError, ReadSegment, VERSION};
use super::requester::{MessageKind, Received, kind_of};
use super::sending::Sending;
use super::work_queue::Work;
use crate::channel::QueuedReply;
use crate::intake::{Context, Intake, Named, Taken, Want};
use crate::message::write_reply;
use crate::upper::{Body, UpperLayer};
use crate::violation::Violation;
use crate::xdr::{Error, Piece, Writer, padding};

/// What the reply to a call needs.
#[derive(Debug)]
struct Called {
    xid: u32,
    /// Credits that were asked for.
    credits: u32,
    writes: Vec<Vec<RemoteRegion>>,
    reply: Option<Vec<RemoteRegion>>,
}

/// A part of a message.
#[derive(Debug)]
struct Part {
    memory: Buf,
    at: usize,
    end: usize,
    /// It is a receive, which is posted again.
    is_receive: bool,
}

/// Memory of the peer that is read.
#[derive(Debug, Default)]
struct Fetch {
    /// What is still to be asked for.
    segments: VecDeque<RemoteRegion>,
    /// Reads that are under way.
    under_way: usize,
}

impl Fetch {
    fn is_done(&self) -> bool {
        self.segments.is_empty() && self.under_way == 0
    }
}

#[derive(Debug)]
enum Stage {
    /// The message itself is read.
    Message(Fetch),
    /// The message is there.
    Whole,
    /// What is there is decoded.
    Decoding,
    /// A payload is read.
    Payload(Fetch),
    /// A part of the message is read that its upper layer does not take apart, such as the target of a symbolic link; `behind` follows it.
    Inline { fetch: Fetch, padding: usize, behind: VecDeque<Part> },
    /// It has ended.
    Over,
}

/// A call whose arguments are not whole.
#[derive(Debug)]
struct Task<A> {
    id: u64,
    xid: u32,
    intake: Intake<A>,
    longest_item: usize,
    parts: VecDeque<Part>,
    reads: Vec<ReadSegment>,
    /// Bytes of the message, as it would be without chunks, in front of what comes next of the parts.
    position: usize,
    stage: Stage,
}

/// How a task goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// It waits for reads, or is over.
    Waits,
    /// It waits for memory.
    Starved,
    Moved,
}

/// The peer's calls.
#[derive(Debug)]
pub(super) struct Responder<A> {
    tasks: Vec<Task<A>>,
    called: Vec<Called>,
    last_task: u64,
    longest_item: usize,
    longest_record: usize,
    /// Receives that are free to be posted.
    free: Vec<Buf>,
}

impl<A: Body> Responder<A> {
    pub(super) fn new(longest_item: usize, longest_record: usize) -> Self {
        Self {
            tasks: Vec::new(),
            called: Vec::new(),
            last_task: 0,
            longest_item,
            longest_record,
            free: Vec::new(),
        }
    }

    /// Bytes of its tables.
    pub(super) fn held(&self) -> usize {
        let tasks: usize = self.tasks.iter().map(|task| task.intake.held()).sum();
        let chunks: usize = self.called.iter().map(Called::size).sum();
        let tables = self.tasks.capacity().saturating_mul(size_of::<Task<A>>());
        let called = self.called.capacity().saturating_mul(size_of::<Called>());
        [tasks, chunks, tables, called].into_iter().fold(0, usize::saturating_add)
    }

    /// A receive that is free.
    pub(super) fn take_free(&mut self) -> Option<Buf> {
        self.free.pop()
    }

    /// A call has come in a receive. Gives the receive back unless it is kept.
    pub(super) fn begin<U: UpperLayer<Arguments = A>>(
        &mut self,
        context: &mut Context<'_, U>,
        header: Header,
        message: Received,
        sending: &mut Sending,
    ) -> Option<Buf> {
        let Received { receive, start, end } = message;
        let (chunks, is_long) = match header.body {
            RdmaBody::Message(chunks) => (chunks, false),
            RdmaBody::NoMessage(chunks) => (chunks, true),
            RdmaBody::Error(_) => return Some(receive),
        };
        let channel = &context.channel;
        self.called.retain(|called| {
            channel.knows(called.xid) || self.tasks.iter().any(|task| task.xid == called.xid)
        });
        if self.called.iter().any(|called| called.xid == header.xid) {
            context.channel.violated(Violation::DuplicateCall, header.xid);
            return Some(receive);
        }
        let granted = usize::try_from(sending.terms.granted).unwrap_or(usize::MAX);
        if self.called.len() >= granted {
            context.channel.violated(Violation::Credits, header.xid);
            return Some(receive);
        }
        let Chunks { reads, writes, reply } = chunks;
        // Where this side has called first, its peer's calls name no memory.
        let names_memory = !reads.is_empty() || !writes.is_empty() || reply.is_some();
        let message: Vec<RemoteRegion> =
            reads.iter().filter(|read| read.position == 0).map(|read| read.target).collect();
        let malformed = (names_memory && sending.terms.may_name_memory)
            || is_long == message.is_empty()
            || total(&message) > self.longest_record;
        if malformed {
            send_error(header.xid, RdmaError::Chunk, sending);
            return Some(receive);
        }
        self.called.push(Called { xid: header.xid, credits: header.credits, writes, reply });
        self.last_task = self.last_task.wrapping_add(1);
        let mut task = Task {
            id: self.last_task,
            xid: header.xid,
            intake: Intake::new(self.longest_item),
            longest_item: self.longest_item,
            parts: VecDeque::new(),
            reads,
            position: 0,
            stage: Stage::Whole,
        };
        let free = if is_long {
            task.stage = Stage::Message(Fetch { segments: message.into(), under_way: 0 });
            Some(receive)
        } else {
            task.parts.push_back(Part { memory: receive, at: start, end, is_receive: true });
            None
        };
        self.tasks.push(task);
        free
    }

    /// Carries calls on as far as they go; true if one of them waits for memory.
    pub(super) fn advance<U: UpperLayer<Arguments = A>>(
        &mut self,
        context: &mut Context<'_, U>,
        sending: &mut Sending,
    ) -> bool {
        let mut starved = false;
        for task in &mut self.tasks {
            loop {
                match task.advance(context, sending) {
                    Progress::Moved => {}
                    Progress::Waits => break,
                    Progress::Starved => {
                        starved = true;
                        break;
                    }
                }
            }
        }
        let over = self.tasks.extract_if(.., |task| matches!(task.stage, Stage::Over));
        for part in over.flat_map(|task| task.parts).filter(|part| part.is_receive) {
            self.free.push(part.memory);
        }
        starved
    }

    /// A read has ended.
    pub(super) fn read<U: UpperLayer<Arguments = A>>(
        &mut self,
        context: &mut Context<'_, U>,
        id: u64,
        memory: Buf,
    ) {
        let Some(task) = self.tasks.iter_mut().find(|task| task.id == id) else { return };
        match &mut task.stage {
            Stage::Message(fetch) | Stage::Inline { fetch, .. } => {
                fetch.under_way = fetch.under_way.saturating_sub(1);
                let end = memory.len();
                task.parts.push_back(Part { memory, at: 0, end, is_receive: false });
            }
            Stage::Payload(fetch) => {
                fetch.under_way = fetch.under_way.saturating_sub(1);
                let is_done = fetch.is_done();
                task.intake.deliver(context, memory);
                if is_done {
                    task.intake.pass_over();
                    task.position = task.intake.position();
                    task.stage = Stage::Decoding;
                }
            }
            Stage::Whole | Stage::Decoding | Stage::Over => {}
        }
    }

    /// Sends a reply, by RDMA Write as far as its caller has named memory.
    pub(super) fn reply(&mut self, reply: &QueuedReply, sending: &mut Sending) {
        let at = self.called.iter().position(|called| called.xid == reply.xid);
        let Some(called) = at.map(|at| self.called.swap_remove(at)) else { return };
        let credits = called.credits.clamp(1, sending.terms.granted.max(1));
        let mut writer = Writer::new();
        write_reply(&mut writer, reply.xid, reply.status);
        let rpc_header = writer.finish().into_bytes();
        let Some(placed) = Placed::new(reply, called.writes) else {
            return send_error(reply.xid, RdmaError::Chunk, sending);
        };
        let chunks = Chunks { reads: Vec::new(), writes: placed.written.clone(), reply: None };
        let length = rpc_header.len().saturating_add(placed.left(reply));
        if BARE.saturating_add(chunks.size()).saturating_add(length) <= sending.terms.send {
            placed.write(sending);
            // The memory for a long reply is not used.
            let unused = called.reply.map(|segments| segments.into_iter().map(emptied).collect());
            let body = RdmaBody::Message(Chunks { reply: unused, ..chunks });
            let header = encoded(&Header { xid: reply.xid, credits, body });
            let length = header.len().saturating_add(length);
            if length > sending.terms.send {
                return send_error(reply.xid, RdmaError::Chunk, sending);
            }
            let headers = [&header[..], &rpc_header[..]].into_iter();
            return sending.message_of(length, headers.chain(placed.pieces(reply).map(Piece::bytes)));
        }
        let segments = called.reply.filter(|segments| total(segments) >= length);
        let Some(segments) = segments else { return send_error(reply.xid, RdmaError::Chunk, sending) };
        placed.write(sending);
        let list = placed.list(rpc_header, reply);
        let written = write_to(&segments, &list, sending);
        let body = RdmaBody::NoMessage(Chunks { reply: Some(written), ..chunks });
        let message = encoded(&Header { xid: reply.xid, credits, body });
        sending.message(&message);
    }

    /// The queue pair has ended: nothing that waits goes on.
    pub(super) fn end(&mut self) {
        self.tasks.clear();
        self.called.clear();
        self.free.clear();
    }
}

impl Called {
    fn size(&self) -> usize {
        let segments = self.writes.iter().map(Vec::capacity).sum::<usize>();
        let reply = self.reply.as_ref().map_or(0, Vec::capacity);
        let lists = self.writes.capacity().saturating_mul(size_of::<Vec<RemoteRegion>>());
        segments.saturating_add(reply).saturating_mul(size_of::<RemoteRegion>()).saturating_add(lists)
    }
}

impl<A: Body> Task<A> {
    /// One step of what can be done now.
    fn advance<U: UpperLayer<Arguments = A>>(
        &mut self,
        context: &mut Context<'_, U>,
        sending: &mut Sending,
    ) -> Progress {
        match &mut self.stage {
            Stage::Over => Progress::Waits,
            Stage::Message(fetch) if fetch.is_done() => {
                self.stage = Stage::Whole;
                Progress::Moved
            }
            Stage::Inline { fetch, padding, behind } if fetch.is_done() => {
                self.parts.push_back(Part {
                    memory: Buf::zeroed(*padding),
                    at: 0,
                    end: *padding,
                    is_receive: false,
                });
                self.parts.append(behind);
                self.stage = Stage::Decoding;
                Progress::Moved
            }
            Stage::Whole => {
                self.stage = if is_call(&self.parts, self.xid) {
                    Stage::Decoding
                } else {
                    send_error(self.xid, RdmaError::Chunk, sending);
                    Stage::Over
                };
                Progress::Moved
            }
            Stage::Message(fetch) | Stage::Payload(fetch) | Stage::Inline { fetch, .. } => {
                let Some(from) = fetch.segments.front().copied() else { return Progress::Waits };
                let length = wire::index(u64::from(from.length));
                let Some(mut into) = context.upper.memory(length) else { return Progress::Starved };
                into.set_len(length.min(into.len()));
                fetch.segments.pop_front();
                fetch.under_way = fetch.under_way.saturating_add(1);
                sending.work.push(Work::Read { task: self.id }, WorkRequest::Read { into, from });
                Progress::Moved
            }
            Stage::Decoding => self.decode(context),
        }
    }

    fn decode<U: UpperLayer<Arguments = A>>(&mut self, context: &mut Context<'_, U>) -> Progress {
        let room = self.to_chunk();
        let Some(part) = self.parts.iter_mut().find(|part| part.at < part.end) else {
            return self.decode_nothing(context);
        };
        let bytes = part.memory.get(part.at..part.end).unwrap_or_default();
        let bytes = bytes.get(..room.unwrap_or(bytes.len())).unwrap_or(bytes);
        if bytes.is_empty() {
            return self.decode_nothing(context);
        }
        let copied = self.intake.copy(context, bytes);
        let rest = bytes.get(copied..).unwrap_or_default();
        let Taken { used, want } = self.intake.handle_bytes(context, rest);
        let taken = copied.saturating_add(used);
        part.at = part.at.saturating_add(taken);
        self.position = self.position.saturating_add(taken);
        match want {
            Want::Payload(length) => self.payload(context, length),
            Want::Bytes => Progress::Moved,
            Want::Nothing => {
                self.stage = Stage::Over;
                Progress::Moved
            }
        }
    }

    /// Bytes up to where the next chunk's data would be.
    fn to_chunk(&self) -> Option<usize> {
        let positions = self.reads.iter().map(|read| wire::index(u64::from(read.position)));
        positions.filter(|position| *position != 0).filter_map(|at| at.checked_sub(self.position)).min()
    }

    /// No bytes of the message are to come before a chunk, or none at all.
    fn decode_nothing<U: UpperLayer<Arguments = A>>(&mut self, context: &mut Context<'_, U>) -> Progress {
        let Taken { want, .. } = self.intake.handle_bytes(context, &[]);
        match want {
            Want::Payload(length) => return self.payload(context, length),
            Want::Bytes => {
                if self.to_chunk() == Some(0) {
                    self.read_inline(context);
                    return Progress::Moved;
                }
                self.intake.finish(context);
            }
            Want::Nothing => {}
        }
        self.stage = Stage::Over;
        Progress::Moved
    }

    /// Puts the chunk that is next into the message: what it has is of no payload.
    fn read_inline<U: UpperLayer<Arguments = A>>(&mut self, context: &mut Context<'_, U>) {
        let position = self.position;
        let is_here = |read: &ReadSegment| wire::index(u64::from(read.position)) == position;
        let segments: Vec<RemoteRegion> =
            self.reads.extract_if(.., |read| is_here(read)).map(|read| read.target).collect();
        let length = total(&segments);
        if length > self.longest_item {
            let (length, maximum) = (wire::saturate(length), self.longest_item);
            return self.intake.fail(context, Error::TooLong { length, maximum });
        }
        let used = self.parts.iter().take_while(|part| part.at >= part.end).count();
        let behind = self.parts.split_off(used);
        let fetch = Fetch { segments: cut(&segments, length), under_way: 0 };
        self.stage = Stage::Inline { fetch, padding: padding(length), behind };
    }

    /// A payload begins: it is read from where the caller has it, or is in the message.
    fn payload<U: UpperLayer<Arguments = A>>(
        &mut self,
        context: &mut Context<'_, U>,
        length: usize,
    ) -> Progress {
        let position = self.intake.position();
        let chunk = self.reads.iter().filter(|read| wire::index(u64::from(read.position)) == position);
        let segments: Vec<RemoteRegion> = chunk.map(|read| read.target).collect();
        if !segments.is_empty() {
            let named = total(&segments);
            if named < length || named > length.saturating_add(padding(length)) {
                self.intake.fail(context, Error::Truncated { missing: named.abs_diff(length) });
            } else {
                self.stage = Stage::Payload(Fetch { segments: cut(&segments, length), under_way: 0 });
            }
            return Progress::Moved;
        }
        let left: usize = self.parts.iter().map(|part| part.end.saturating_sub(part.at)).sum();
        if left < length {
            self.intake.fail(context, Error::Truncated { missing: length.saturating_sub(left) });
            return Progress::Moved;
        }
        match self.intake.memory(context, length) {
            Named::Memory(memory) => {
                self.intake.provide(memory);
                Progress::Moved
            }
            Named::Wait => Progress::Starved,
            Named::Refused => Progress::Moved,
        }
    }
}

/// A message is a call, and the one that its header names.
fn is_call(parts: &VecDeque<Part>, xid: u32) -> bool {
    let mut front = [0; 8];
    let bytes = parts.iter().flat_map(|part| part.memory.get(part.at..part.end).unwrap_or_default());
    let mut count = 0_usize;
    for (place, byte) in front.iter_mut().zip(bytes) {
        *place = *byte;
        count = count.saturating_add(1);
    }
    count == front.len() && kind_of(&front) == Some(MessageKind { xid, is_call: true })
}

/// The payloads of a reply, as far as they travel apart.
struct Placed {
    /// What goes where: the data, and the segments that it fills.
    writes: Vec<Placement>,
    /// How much of each of the caller's segments is written, for each chunk of it.
    written: Vec<Vec<RemoteRegion>>,
}

/// A payload that travels apart.
struct Placement {
    number: usize,
    data: BufList,
    segments: Vec<RemoteRegion>,
}

impl Placed {
    /// Each payload takes the next chunk; nothing if one is too long for its own.
    fn new(reply: &QueuedReply, chunks: Vec<Vec<RemoteRegion>>) -> Option<Self> {
        let mut placed = Self { writes: Vec::new(), written: Vec::new() };
        let mut payloads = reply.results.payloads().iter().enumerate();
        for segments in chunks {
            let data = payloads.next().filter(|(_, payload)| !payload.data.is_empty());
            let Some((number, payload)) = data else {
                placed.written.push(segments.into_iter().map(emptied).collect());
                continue;
            };
            if total(&segments) < payload.data.len() {
                return None;
            }
            placed.written.push(filled(&segments, payload.data.len()));
            placed.writes.push(Placement { number, data: payload.data.clone(), segments });
        }
        Some(placed)
    }

    fn is_apart(&self, number: usize) -> bool {
        self.writes.iter().any(|placement| placement.number == number)
    }

    fn pieces<'a>(&'a self, reply: &'a QueuedReply) -> impl Iterator<Item = Piece<'a>> {
        reply.results.reduced(|number| self.is_apart(number))
    }

    /// Bytes of the results that do not travel apart.
    fn left(&self, reply: &QueuedReply) -> usize {
        self.pieces(reply).map(|piece| piece.bytes().len()).sum()
    }

    /// A message whole, as one list.
    fn list(&self, mut header: Vec<u8>, reply: &QueuedReply) -> BufList {
        let mut list = BufList::new();
        for piece in self.pieces(reply) {
            match piece {
                Piece::Bytes(bytes) => header.extend_from_slice(bytes),
                Piece::Shared(shared) => {
                    list.push(SharedBuf::from(core::mem::take(&mut header)));
                    list.push(shared.clone());
                }
            }
        }
        list.push(SharedBuf::from(header));
        list
    }

    fn write(&self, sending: &mut Sending) {
        for placement in &self.writes {
            write_to(&placement.segments, &placement.data, sending);
        }
    }
}

/// Writes data to segments that hold it: how much of each is written.
fn write_to(segments: &[RemoteRegion], data: &BufList, sending: &mut Sending) -> Vec<RemoteRegion> {
    let written = filled(segments, data.len());
    let mut at = 0_usize;
    for to in written.iter().filter(|segment| segment.length != 0) {
        let length = wire::index(u64::from(to.length));
        let request = WorkRequest::Write { data: data.part(at, length), to: *to };
        sending.work.push(Work::Write, request);
        at = at.saturating_add(length);
    }
    written
}

/// The segments as far as `length` bytes fill them, one after the other.
fn filled(segments: &[RemoteRegion], length: usize) -> Vec<RemoteRegion> {
    let mut left: u32 = wire::saturate(length);
    let fill = |segment: &RemoteRegion| {
        let length = segment.length.min(left);
        left = left.saturating_sub(length);
        RemoteRegion { length, ..*segment }
    };
    segments.iter().map(fill).collect()
}

/// The segments that are read of a chunk of which `length` bytes count: a caller may have its padding in it.
fn cut(segments: &[RemoteRegion], length: usize) -> VecDeque<RemoteRegion> {
    filled(segments, length).into_iter().filter(|segment| segment.length != 0).collect()
}

const fn emptied(segment: RemoteRegion) -> RemoteRegion {
    RemoteRegion { length: 0, ..segment }
}

fn total(segments: &[RemoteRegion]) -> usize {
    segments.iter().map(|segment| wire::index(u64::from(segment.length))).fold(0, usize::saturating_add)
}

fn encoded(header: &Header) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.put(header);
    writer.finish().into_bytes()
}

fn send_error(xid: u32, error: RdmaError, sending: &mut Sending) {
    let credits = sending.terms.granted;
    sending.message(&encoded(&Header { xid, credits, body: RdmaBody::Error(error) }));
}

/// A message that is no header is answered, if it can be.
pub(super) fn refuse_header(error: HeaderError, sending: &mut Sending) {
    let (xid, error) = match error {
        HeaderError::Short => return,
        HeaderError::Version(xid) => (xid, RdmaError::Version { low: VERSION, high: VERSION }),
        HeaderError::Malformed(xid) => (xid, RdmaError::Chunk),
    };
    send_error(xid, error, sending);
}
