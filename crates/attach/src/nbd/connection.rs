//! One client's connection: bytes in, requests to the volume out, completions in, replies out.
//!
//! `Negotiating` → `Transmission`. A client that takes its leave, a violation, or the end of this process lets what is
//! under way end, and then closes.

use std::collections::VecDeque;
use std::sync::Arc;

use buf::{Buf, BufList, Pool};
use protocol::{CloseReason, Ended, Instant, Placement, Transmit};
use volume::{Completion, Features, Operation, Request};
use zerocopy::FromBytes;

use super::export::Export;
use super::handshake::{Agreement, Handshake, Step};
use super::limits::{MEMORY_RETRY, NEGOTIATION, STAGING, UNSENT};
use super::reply::Reply;
use super::requests::{Pending, Table, Work, append};
use super::wire::{Command, ExtentFlags, REQUEST_MAGIC, RequestHeader};

/// What comes from inside.
#[derive(Debug)]
pub enum Input {
    /// A request to the volume has ended.
    Completion(Completion),
    /// The process is about to stop: no further request is taken.
    Shutdown,
}

/// What the connection asks for.
#[derive(Debug)]
pub enum Action {
    /// Submit this to the volume. Its tag is below 2^32.
    Submit(Request),
}

#[derive(Debug)]
enum State {
    Negotiating(Handshake),
    Transmission,
}

/// What the next bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Receive {
    /// An option or a request.
    Header,
    /// Data of a write, of which so much is there.
    Data { slot: usize, done: u32 },
    /// The same, with memory named for its next piece.
    Placing { slot: usize, done: u32 },
    /// What nobody wants.
    Skip { bytes: usize },
}

/// Why no further bytes are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Starved {
    /// For memory for data, since the pool's returns were at this number.
    Memory(u64),
    /// Until a request has ended or a reply was sent.
    Room,
}

/// The server's end of one connection.
#[derive(Debug)]
pub struct Connection {
    export: Arc<Export>,
    pool: Pool,
    state: State,
    agreed: Agreement,
    receive: Receive,
    starved: Option<Starved>,
    table: Table,
    /// Reads that wait for memory, in order.
    waiting: VecDeque<usize>,
    retry: Option<Instant>,
    outgoing: VecDeque<Reply>,
    actions: VecDeque<Action>,
    deadline: Option<Instant>,
    /// Why the connection closes once nothing is under way.
    leaving: Option<CloseReason>,
    close: Option<CloseReason>,
}

fn len(bytes: u32) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl Connection {
    /// The end of a connection that was just accepted, on `export`, with memory from `pool`.
    pub fn new(export: Arc<Export>, pool: Pool, now: Instant) -> Self {
        let (handshake, greeting) = Handshake::new();
        Self {
            export,
            pool,
            agreed: Agreement::default(),
            state: State::Negotiating(handshake),
            receive: Receive::Header,
            starved: None,
            table: Table::default(),
            waiting: VecDeque::new(),
            retry: None,
            outgoing: VecDeque::from([Reply::Bytes(greeting)]),
            actions: VecDeque::new(),
            deadline: Some(now + NEGOTIATION),
            leaving: None,
            close: None,
        }
    }

    fn end(&mut self, reason: CloseReason) {
        self.close.get_or_insert(reason);
        self.deadline = None;
    }

    /// Takes no further request, and closes once those under way have been answered.
    fn leave(&mut self, reason: CloseReason) {
        self.leaving.get_or_insert(reason);
        self.close_if_over();
    }

    fn close_if_over(&mut self) {
        let between = !matches!(self.receive, Receive::Data { .. } | Receive::Placing { .. });
        if let Some(reason) = self.leaving
            && self.table.is_empty()
            && between
        {
            self.end(reason);
        }
    }

    fn negotiate(&mut self, bytes: &[u8]) -> usize {
        let State::Negotiating(handshake) = &mut self.state else { return 0 };
        let mut out = Vec::new();
        let step = handshake.handle(&self.export, bytes, &mut out);
        self.agreed = handshake.agreement();
        if !out.is_empty() {
            self.outgoing.push_back(Reply::Bytes(out));
        }
        match step {
            Step::More => 0,
            Step::Used(used) => used,
            Step::Skip(used, bytes) => {
                self.receive = Receive::Skip { bytes };
                used
            }
            Step::Begin(used) => {
                self.state = State::Transmission;
                self.deadline = None;
                used
            }
            Step::Close(reason) => {
                self.end(reason);
                0
            }
        }
    }

    /// Takes a request off the front of `bytes`, if it is there whole and there is room for it.
    fn handle_request(&mut self, now: Instant, bytes: &[u8]) -> usize {
        if self.table.is_full() {
            self.starved = Some(Starved::Room);
            return 0;
        }
        let Ok((header, _)) = RequestHeader::read_from_prefix(bytes) else { return 0 };
        if header.magic.get() != REQUEST_MAGIC {
            self.end(CloseReason::Violation("a request did not begin with its magic number"));
            return 0;
        }
        if Command(header.command.get()) == Command::DISC {
            self.leave(CloseReason::Finished);
            return size_of::<RequestHeader>();
        }
        match Pending::decode(&self.export, &header, self.agreed.allocation) {
            Ok(pending) => self.begin(now, pending),
            Err(refused) => {
                let reads = Command(header.command.get()) == Command::READ;
                let structured = self.agreed.structured
                    && (reads || Command(header.command.get()) == Command::BLOCK_STATUS);
                self.outgoing.push_back(Reply::failed(header.cookie.get(), refused.failure, structured));
                self.skip(refused.skip);
            }
        }
        size_of::<RequestHeader>()
    }

    fn skip(&mut self, bytes: usize) {
        if bytes > 0 {
            self.receive = Receive::Skip { bytes };
        }
    }

    fn begin(&mut self, now: Instant, pending: Pending) {
        let slot = self.table.begin(pending);
        let Some(pending) = self.table.get(slot) else { return };
        match &mut pending.work {
            Work::Read(_) => {
                if !self.waiting.is_empty() || !self.start_read(slot) {
                    self.waiting.push_back(slot);
                    self.retry = Some(now + MEMORY_RETRY);
                }
            }
            Work::Write { .. } => self.receive = Receive::Data { slot, done: 0 },
            Work::Flush => {
                pending.outstanding = 1;
                self.submit(slot, 0, Operation::Flush);
            }
            Work::BlockStatus { found, done } if !self.export.features.contains(Features::ALLOCATION) => {
                // The volume does not tell holes from data: everything counts as data.
                append(found, pending.length, ExtentFlags::empty());
                *done = u64::from(pending.length);
                self.advance(slot);
            }
            Work::Trim { .. } | Work::WriteZeroes { .. } | Work::BlockStatus { .. } => self.advance(slot),
        }
    }

    fn submit(&mut self, slot: usize, piece: usize, operation: Operation) {
        let request = Request { tag: Table::tag(slot, piece), operation };
        self.actions.push_back(Action::Submit(request));
    }

    /// Begins a read if there is memory for all of it: a part would only keep others waiting.
    fn start_read(&mut self, slot: usize) -> bool {
        let Some(pending) = self.table.get(slot) else { return true };
        let piece = self.export.piece();
        let sizes =
            (0..pending.length.div_ceil(piece)).map(|index| piece.min(pending.length - index * piece));
        let Some(memory) =
            sizes.map(|size| self.pool.take(len(size))).collect::<Option<smallvec::SmallVec<[Buf; 1]>>>()
        else {
            return false;
        };
        pending.outstanding = memory.len();
        if let Work::Read(pieces) = &mut pending.work {
            pieces.resize(memory.len(), None);
        }
        let mut from = 0_u64;
        for (index, into) in memory.into_iter().enumerate() {
            let bytes = into.len() as u64;
            let request = Request {
                tag: Table::tag(slot, index),
                operation: Operation::Read { extent: pending.extent(&self.export, (from, bytes)), into },
            };
            self.actions.push_back(Action::Submit(request));
            from += bytes;
        }
        true
    }

    /// Begins as many waiting reads as there is memory for.
    fn serve_waiting(&mut self, now: Instant) {
        while let Some(&slot) = self.waiting.front() {
            if !self.start_read(slot) {
                self.retry = Some(now + MEMORY_RETRY);
                return;
            }
            self.waiting.pop_front();
        }
        self.retry = None;
    }

    /// Goes on with a request: the next one to the volume, or the reply.
    fn advance(&mut self, slot: usize) {
        let Some(pending) = self.table.get(slot) else { return };
        if pending.outstanding == 0
            && let Some(operation) = pending.next(&self.export)
        {
            pending.outstanding = 1;
            return self.submit(slot, 0, operation);
        }
        if pending.is_over()
            && let Some(pending) = self.table.end(slot)
        {
            if self.close.is_none() {
                self.outgoing.push_back(Reply::of(pending, self.agreed.structured));
            }
            self.close_if_over();
        }
    }

    fn handle_completion(&mut self, completion: Completion) {
        let (slot, piece) = Table::split(completion.tag);
        if let Some(pending) = self.table.get(slot) {
            pending.complete(&self.export, piece, completion);
            self.advance(slot);
        }
    }

    /// A piece of a write's data is there.
    fn submit_piece(&mut self, (slot, done): (usize, u32), data: Buf) {
        self.receive = Receive::Header;
        let Some(pending) = self.table.get(slot) else { return };
        let bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let end = done.saturating_add(bytes);
        let operation = Operation::Write {
            extent: pending.extent(&self.export, (u64::from(done), u64::from(bytes))),
            data: BufList::from(data.freeze()),
            durability: pending.durability(),
        };
        pending.outstanding += 1;
        if end < pending.length {
            self.receive = Receive::Data { slot, done: end };
        } else {
            pending.work = Work::Write { receiving: false };
        }
        self.submit(slot, len(done / self.export.piece()), operation);
    }
}

impl protocol::Connection for Connection {
    type Input = Input;
    type Action = Action;

    const STAGING: usize = STAGING;

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        self.starved = None;
        let mut used = 0;
        loop {
            let rest = bytes.get(used..).unwrap_or_default();
            if self.close.is_some() {
                return bytes.len();
            }
            let step = match self.receive {
                Receive::Skip { bytes } => {
                    let count = bytes.min(rest.len());
                    self.receive = Receive::Header;
                    self.skip(bytes - count);
                    count
                }
                Receive::Header if self.leaving.is_some() => return bytes.len(),
                Receive::Header if self.outgoing.len() >= UNSENT => {
                    self.starved = Some(Starved::Room);
                    0
                }
                Receive::Header if matches!(self.state, State::Transmission) => {
                    self.handle_request(now, rest)
                }
                Receive::Header => self.negotiate(rest),
                Receive::Data { .. } | Receive::Placing { .. } => 0,
            };
            if step == 0 && self.close.is_none() {
                return used;
            }
            used += step;
        }
    }

    fn take_placement(&mut self) -> Option<Placement> {
        let Receive::Data { slot, done } = self.receive else { return None };
        let length = self.table.get(slot)?.length;
        let bytes = len(self.export.piece().min(length - done));
        let returns = self.pool.returns();
        let Some(buf) = self.pool.take(bytes) else {
            self.starved = Some(Starved::Memory(returns));
            return None;
        };
        self.starved = None;
        self.receive = Receive::Placing { slot, done };
        Some(Placement { buf, start: 0, len: bytes, token: 0 })
    }

    fn handle_placed(&mut self, _now: Instant, placement: Placement) {
        if let Receive::Placing { slot, done } = self.receive {
            self.submit_piece((slot, done), placement.buf);
        }
    }

    fn handle_input(&mut self, now: Instant, input: Input) {
        match input {
            Input::Completion(completion) => {
                self.handle_completion(completion);
                self.serve_waiting(now);
            }
            Input::Shutdown => self.leave(CloseReason::ShuttingDown),
        }
    }

    fn handle_transmitted(&mut self, now: Instant, _bytes: usize) {
        self.serve_waiting(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.retry.is_some_and(|retry| retry <= now) {
            self.serve_waiting(now);
        }
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.end(CloseReason::TimedOut("the client did not choose an export in time"));
        }
    }

    fn handle_ended(&mut self, _now: Instant, _how: Ended) {
        self.end(CloseReason::Finished);
        self.outgoing.clear();
        for slot in self.waiting.drain(..) {
            self.table.end(slot);
        }
        self.retry = None;
    }

    fn poll_transmit(&mut self, _now: Instant, send: &mut Transmit) {
        while !send.is_full() {
            let Some(reply) = self.outgoing.pop_front() else { break };
            reply.put(send);
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [self.deadline, self.retry].into_iter().flatten().min()
    }

    fn wants_bytes(&mut self) -> bool {
        match self.starved {
            None => true,
            Some(Starved::Memory(returns)) => self.pool.returns() != returns,
            Some(Starved::Room) => !self.table.is_full() && self.outgoing.len() < UNSENT,
        }
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.close
    }
}
