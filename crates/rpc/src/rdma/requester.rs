//! Calls of this side over a queue pair (RFC 8166 §3.4, §3.5): memory is registered before a call is sent, and is this side's own again before its reply is
//! looked at.
//!
//! ```text
//!  begin ─► Registering ─► Sent ─► Answered ─► the upper layer
//! ```

use alloc::vec::Vec;

use buf::{Buf, SharedBuf};
use verbs::{RegionMemory, RemoteRegion, WorkMemory, WorkRequest};

use super::header::{BARE, Body as RdmaBody, Chunks, Header, RdmaError, ReadSegment};
use super::sending::{Sending, Terms};
use super::work_queue::{Work, WorkQueue};
use crate::call::Call;
use crate::channel::{CallError, Channel};
use crate::intake::{Context, Intake, Named, Taken, Want};
use crate::limits::{CHUNKS, REPLY_HEADER};
use crate::message::{CallHeader, OpaqueAuth};
use crate::upper::{Body, UpperLayer};
use crate::violation::Violation;
use crate::xdr::{Error, Piece, Stream, Writer, padding};

/// What the memory of a region is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// The message itself.
    Message,
    /// A payload of the arguments.
    Read { position: u32 },
    /// A payload of the results.
    Write,
    /// The reply.
    Reply,
}

/// Memory of a call.
#[derive(Debug)]
struct Region {
    purpose: Use,
    /// Its name, while the peer may use it.
    named: Option<RemoteRegion>,
    /// The memory, once it is this side's own again; of arguments it is not kept.
    memory: Option<Buf>,
    /// It is this side's own again, or lost with the queue pair.
    is_back: bool,
}

/// What has come as a reply.
#[derive(Debug)]
enum Answer {
    /// A message in a receive, from `start` to `end`.
    Message {
        receive: Buf,
        start: usize,
        end: usize,
        writes: Vec<usize>,
    },
    /// A message of so many bytes in the memory for the reply.
    Long {
        length: usize,
        writes: Vec<usize>,
    },
    Error,
}

#[derive(Debug)]
enum Phase {
    /// Its memory gets names.
    Registering,
    /// It was sent.
    Sent,
    /// Its reply has come, and its memory comes back.
    Answered(Answer),
}

/// A call that is under way.
#[derive(Debug)]
struct Request {
    xid: u32,
    phase: Phase,
    regions: Vec<Region>,
}

/// What a call needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Plan {
    /// Payloads of arguments that are read apart; none if all fit into the message.
    reads: usize,
    /// Memory for payloads of results; none if they fit into a message.
    writes: usize,
    /// Bytes of memory for a reply that may not fit into a message.
    reply: Option<usize>,
    /// The message itself does not fit, and is read.
    is_long: bool,
}

impl Plan {
    /// What a call needs whose header has `header` bytes.
    fn new<R>(terms: Terms, header: usize, call: &Call<R>) -> Self {
        let payloads = call.arguments.payloads().iter().filter(|payload| !payload.data.is_empty());
        let room = call.memory.bytes();
        let reply = BARE.saturating_add(REPLY_HEADER).saturating_add(call.results_limit);
        let mut plan = Self::default();
        if reply.saturating_add(room) > terms.receive {
            plan.writes = call.memory.len();
            let lists = plan.writes.saturating_mul(WRITE_CHUNK);
            if reply.saturating_add(lists) > terms.receive {
                plan.reply = Some(REPLY_HEADER.saturating_add(call.results_limit));
            }
        }
        let whole = header.saturating_add(call.arguments.len());
        if plan.size().saturating_add(whole) > terms.send {
            plan.reads = payloads.clone().count();
            let apart: usize = payloads.map(|payload| padded(payload.data.len())).sum();
            plan.is_long = plan.size().saturating_add(whole.saturating_sub(apart)) > terms.send;
        }
        plan
    }

    /// Bytes of the header of the message.
    fn size(self) -> usize {
        let reply = if self.reply.is_some() { REPLY_CHUNK } else { 0 };
        let writes = self.writes.saturating_mul(WRITE_CHUNK);
        BARE.saturating_add(self.reads.saturating_mul(READ_CHUNK))
            .saturating_add(writes)
            .saturating_add(reply)
    }

    fn regions(self) -> usize {
        let more = usize::from(self.is_long).saturating_add(usize::from(self.reply.is_some()));
        self.reads.saturating_add(self.writes).saturating_add(more)
    }
}

/// Bytes of a chunk of one segment in a header.
const READ_CHUNK: usize = 24;
const WRITE_CHUNK: usize = 24;
const REPLY_CHUNK: usize = 20;

const fn padded(length: usize) -> usize {
    length.saturating_add(padding(length))
}

/// How far a call could be begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begun {
    /// It was.
    Yes,
    /// There is none, or no room for one.
    No,
    /// There is no memory for its reply.
    Starved,
}

/// The calls of this side.
#[derive(Debug)]
pub(super) struct Requester<A> {
    requests: Vec<Request>,
    /// Calls that the peer takes at a time.
    credits: usize,
    /// Regions in use.
    regions: usize,
    intake: Intake<A>,
}

impl<A: Body> Requester<A> {
    pub(super) fn new(longest_item: usize) -> Self {
        // Until a reply says how many, the peer takes one (RFC 8166 §3.3.1).
        Self { requests: Vec::new(), credits: 1, regions: 0, intake: Intake::new(longest_item) }
    }

    /// Bytes of its tables.
    pub(super) fn held(&self) -> usize {
        self.requests.capacity().saturating_mul(size_of::<Request>()).saturating_add(self.intake.held())
    }

    /// Begins the next call, if the peer takes one.
    pub(super) fn begin<U: UpperLayer<Arguments = A>>(
        &mut self,
        context: &mut Context<'_, U>,
        sending: &mut Sending,
    ) -> Begun {
        let terms = sending.terms;
        let sent = self.requests.iter().filter(|request| !matches!(request.phase, Phase::Answered(_)));
        if sent.count() >= self.credits {
            return Begun::No;
        }
        let Some(next) = context.channel.peek_call() else { return Begun::No };
        let (xid, header) = (next.xid, rpc_header(next.xid, &next.call));
        let plan = Plan::new(terms, header.len(), &next.call);
        let possible = (plan.regions() == 0 || terms.may_name_memory)
            && plan.regions() <= terms.regions
            && plan.reads.max(plan.writes) <= CHUNKS;
        if !possible {
            context.channel.drop_call();
            answer(context, xid, Err(CallError::Chunks));
            return Begun::Yes;
        }
        if self.regions.saturating_add(plan.regions()) > terms.regions {
            return Begun::No;
        }
        let reply = match plan.reply.map(|length| (length, context.upper.memory(length))) {
            Some((_, None)) => return Begun::Starved,
            Some((length, Some(mut reply))) => {
                reply.set_len(length.min(reply.len()));
                Some(reply)
            }
            None => None,
        };
        context.channel.drop_call();
        self.register(context.channel, xid, plan, sending, reply);
        self.send_if_registered(context.channel, xid, sending);
        Begun::Yes
    }

    /// Registers what a call needs.
    fn register<R>(
        &mut self,
        channel: &mut Channel<R>,
        xid: u32,
        plan: Plan,
        sending: &mut Sending,
        reply: Option<Buf>,
    ) {
        let Some(sent) = channel.find(xid) else { return };
        let header = rpc_header(xid, &sent.call);
        let mut request = Request { xid, phase: Phase::Registering, regions: Vec::new() };
        let mut add = |purpose: Use, memory: RegionMemory| {
            let index = request.regions.len();
            request.regions.push(Region { purpose, named: None, memory: None, is_back: false });
            sending.work.push(Work::Register { xid, index }, WorkRequest::Register { memory });
        };
        if plan.is_long {
            let message = reduced(&header, &sent.call.arguments, plan.reads != 0);
            add(Use::Message, RegionMemory::Source(SharedBuf::from(message).into()));
        }
        if plan.reads != 0 {
            let mut before = header.len();
            for payload in sent.call.arguments.payloads() {
                let position = wire::saturate(before.saturating_add(payload.after));
                before = before.saturating_add(payload.data.len());
                if !payload.data.is_empty() {
                    add(Use::Read { position }, RegionMemory::Source(payload.data.clone()));
                }
            }
        }
        for _ in 0..plan.writes {
            if let Some(memory) = sent.call.memory.pop() {
                add(Use::Write, RegionMemory::Sink(memory));
            }
        }
        if let Some(reply) = reply {
            add(Use::Reply, RegionMemory::Sink(reply));
        }
        self.regions = self.regions.saturating_add(request.regions.len());
        self.requests.push(request);
    }

    fn find(&mut self, xid: u32) -> Option<&mut Request> {
        self.requests.iter_mut().find(|request| request.xid == xid)
    }

    /// A region has a name.
    pub(super) fn registered<R>(
        &mut self,
        channel: &mut Channel<R>,
        (xid, index): (u32, usize),
        named: RemoteRegion,
        sending: &mut Sending,
    ) {
        if let Some(region) = self.find(xid).and_then(|request| request.regions.get_mut(index)) {
            region.named = Some(named);
        }
        self.send_if_registered(channel, xid, sending);
    }

    /// Sends a call once all its memory has names.
    fn send_if_registered<R>(&mut self, channel: &mut Channel<R>, xid: u32, sending: &mut Sending) {
        let (Some(request), Some(sent)) = (self.find(xid), channel.find(xid)) else { return };
        if request.regions.iter().any(|region| region.named.is_none()) {
            return;
        }
        let mut chunks = Chunks::default();
        let mut is_long = false;
        for region in &request.regions {
            let Some(target) = region.named else { continue };
            match region.purpose {
                Use::Message => {
                    is_long = true;
                    chunks.reads.push(ReadSegment { position: 0, target });
                }
                Use::Read { position } => chunks.reads.push(ReadSegment { position, target }),
                Use::Write => chunks.writes.push([target].into()),
                Use::Reply => chunks.reply = Some([target].into()),
            }
        }
        let reduces = chunks.reads.iter().any(|read| read.position != 0);
        let mut writer = Writer::new();
        let body = if is_long { RdmaBody::NoMessage(chunks) } else { RdmaBody::Message(chunks) };
        writer.put(&Header { xid, credits: sending.terms.asked, body });
        let header = writer.finish().into_bytes();
        request.phase = Phase::Sent;
        if is_long {
            return sending.message(&header);
        }
        let rpc_header = rpc_header(xid, &sent.call);
        let parts = || {
            let headers = [&header[..], &rpc_header[..]].into_iter();
            headers.chain(sent.call.arguments.reduced(move |_| reduces).map(Piece::bytes))
        };
        sending.message_of(parts().map(<[u8]>::len).sum(), parts());
    }

    /// A reply has come in a receive. Gives the receive back unless it is looked at later.
    pub(super) fn reply<U: UpperLayer<Arguments = A>>(
        &mut self,
        context: &mut Context<'_, U>,
        header: Header,
        message: Received,
        work: &mut WorkQueue,
    ) -> Option<Buf> {
        let Received { receive, start, end } = message;
        self.credits = usize::try_from(header.credits).unwrap_or(usize::MAX).max(1);
        let Some(request) = self.find(header.xid).filter(|request| matches!(request.phase, Phase::Sent))
        else {
            context.channel.violated(Violation::UnknownReply, header.xid);
            return Some(receive);
        };
        let written = |segments: &Vec<RemoteRegion>| -> usize {
            segments
                .iter()
                .map(|segment| wire::index(u64::from(segment.length)))
                .fold(0, usize::saturating_add)
        };
        let (answer, free) = match header.body {
            RdmaBody::Message(chunks) => {
                let writes = chunks.writes.iter().map(written).collect();
                (Answer::Message { receive, start, end, writes }, None)
            }
            RdmaBody::NoMessage(chunks) => {
                let writes = chunks.writes.iter().map(written).collect();
                let length = chunks.reply.as_ref().map_or(0, written);
                (Answer::Long { length, writes }, Some(receive))
            }
            RdmaBody::Error(RdmaError::Chunk | RdmaError::Version { .. }) => (Answer::Error, Some(receive)),
        };
        request.phase = Phase::Answered(answer);
        for (index, region) in request.regions.iter().enumerate() {
            if let Some(RemoteRegion { stag, .. }) = region.named {
                work.push(Work::Invalidate { xid: header.xid, index }, WorkRequest::Invalidate { stag });
            }
        }
        free
    }

    /// A region's memory is this side's own again, or could not be registered.
    pub(super) fn returned(&mut self, xid: u32, index: usize, memory: WorkMemory) {
        if let Some(region) = self.find(xid).and_then(|request| request.regions.get_mut(index)) {
            (region.named, region.is_back) = (None, true);
            if let WorkMemory::Region(RegionMemory::Sink(buf)) = memory {
                region.memory = Some(buf);
            }
        }
    }

    /// Hands on the next reply whose memory is back. Gives its receive back; nothing if there is no such reply.
    pub(super) fn deliver<U: UpperLayer<Arguments = A>>(
        &mut self,
        context: &mut Context<'_, U>,
    ) -> Option<Delivered> {
        let at = self.requests.iter().position(|request| {
            matches!(request.phase, Phase::Answered(_)) && request.regions.iter().all(|region| region.is_back)
        })?;
        let Request { xid, phase, regions } = self.requests.swap_remove(at);
        self.regions = self.regions.saturating_sub(regions.len());
        let reply = restore(context.channel, xid, regions);
        match phase {
            Phase::Answered(Answer::Message { receive, start, end, writes }) => {
                let body = receive.get(start..end).unwrap_or_default();
                self.read(context, xid, body, &writes);
                Some(Delivered { receive: Some(receive) })
            }
            Phase::Answered(Answer::Long { length, writes }) => {
                let body = reply.as_deref().and_then(|reply| reply.get(..length)).unwrap_or_default();
                self.read(context, xid, body, &writes);
                Some(Delivered { receive: None })
            }
            Phase::Answered(Answer::Error) | Phase::Registering | Phase::Sent => {
                answer(context, xid, Err(CallError::Chunks));
                Some(Delivered { receive: None })
            }
        }
    }

    /// Reads a reply. `writes` says how much of the memory for each payload was written to.
    fn read<U: UpperLayer<Arguments = A>>(
        &mut self,
        context: &mut Context<'_, U>,
        xid: u32,
        body: &[u8],
        writes: &[usize],
    ) {
        if kind_of(body) != Some(MessageKind { xid, is_call: false }) {
            return answer(context, xid, Err(CallError::Undecodable(Error::NotInEnumeration(xid))));
        }
        let named = context.channel.find(xid).map_or(0, |sent| sent.call.memory.len());
        self.intake.restart();
        let mut used = 0_usize;
        loop {
            let rest = body.get(used..).unwrap_or_default();
            let Taken { used: count, want } = self.intake.handle_bytes(context, rest);
            used = used.saturating_add(count);
            match want {
                Want::Nothing => return,
                Want::Bytes => return self.intake.finish(context),
                Want::Payload(length) => {
                    let left = context.channel.find(xid).map_or(0, |sent| sent.call.memory.len());
                    let written = writes.get(named.saturating_sub(left)).copied().unwrap_or(0);
                    let rest = body.get(used..).unwrap_or_default();
                    used = used.saturating_add(self.take_payload(context, length, written, rest));
                }
            }
        }
    }

    /// Finds a payload: in the memory that was named for it, or in the message. Says how many bytes of the message it took.
    fn take_payload<U: UpperLayer<Arguments = A>>(
        &mut self,
        context: &mut Context<'_, U>,
        length: usize,
        written: usize,
        rest: &[u8],
    ) -> usize {
        if written != 0 && written != length || written == 0 && rest.len() < length {
            self.intake.fail(context, Error::Truncated { missing: length.abs_diff(written) });
            return 0;
        }
        match self.intake.memory(context, length) {
            Named::Memory(memory) if written != 0 => {
                self.intake.pass_over();
                self.intake.deliver(context, memory);
                0
            }
            Named::Memory(memory) => {
                self.intake.provide(memory);
                self.intake.copy(context, rest)
            }
            Named::Wait | Named::Refused => 0,
        }
    }

    /// The queue pair has ended: asks for all memory back.
    pub(super) fn end(&mut self, work: &mut WorkQueue) {
        for Request { xid, regions, .. } in &self.requests {
            for (index, region) in regions.iter().enumerate() {
                if let Some(RemoteRegion { stag, .. }) = region.named {
                    work.push(Work::Invalidate { xid: *xid, index }, WorkRequest::Invalidate { stag });
                }
            }
        }
    }

    /// What came back of it goes back to its calls.
    pub(super) fn restore_all<R>(&mut self, channel: &mut Channel<R>) {
        self.regions = 0;
        for Request { xid, regions, .. } in self.requests.drain(..) {
            restore(channel, xid, regions);
        }
    }
}

/// Hands on what became of a call.
fn answer<U: UpperLayer>(context: &mut Context<'_, U>, xid: u32, outcome: Result<(), CallError>) {
    if let Some(reply) = context.channel.answered(xid, outcome) {
        context.upper.reply(context.now, context.channel, reply);
    }
}

/// A message in a receive.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) receive: Buf,
    /// Where the RPC message begins.
    pub(super) start: usize,
    /// Where it ends.
    pub(super) end: usize,
}

/// A reply was handed on.
#[derive(Debug)]
pub(super) struct Delivered {
    /// Its receive, free again.
    pub(super) receive: Option<Buf>,
}

/// Gives the memory for payloads back to its call, and gives the memory for the reply.
fn restore<R>(channel: &mut Channel<R>, xid: u32, regions: Vec<Region>) -> Option<Buf> {
    let mut reply = None;
    for Region { purpose, memory, .. } in regions {
        match (purpose, memory, channel.find(xid)) {
            (Use::Write, Some(memory), Some(sent)) => sent.call.memory.push(memory),
            (Use::Reply, memory, _) => reply = memory,
            _ => {}
        }
    }
    reply
}

/// The number and the kind of an RPC message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MessageKind {
    pub(super) xid: u32,
    pub(super) is_call: bool,
}

/// What a message is, by its first words; nothing if it has none.
pub(super) fn kind_of(message: &[u8]) -> Option<MessageKind> {
    let mut reader = crate::xdr::Reader::new(message);
    match (reader.u32(), reader.u32()) {
        (Ok(xid), Ok(kind)) => Some(MessageKind { xid, is_call: kind == 0 }),
        _ => None,
    }
}

fn rpc_header<R>(xid: u32, call: &Call<R>) -> Vec<u8> {
    let mut writer = Writer::new();
    let header = CallHeader {
        xid,
        procedure: call.procedure,
        credential: call.credential.as_auth(),
        verifier: OpaqueAuth::NONE,
    };
    header.write(&mut writer);
    writer.finish().into_bytes()
}

/// A message without the payloads that travel apart, if they do, and without their padding (RFC 8166 §3.4.1).
fn reduced(header: &[u8], arguments: &Stream, apart: bool) -> Vec<u8> {
    let mut message = Vec::with_capacity(header.len().saturating_add(arguments.bytes().len()));
    message.extend_from_slice(header);
    arguments.reduced(|_| apart).for_each(|piece| message.extend_from_slice(piece.bytes()));
    message
}
