//! One client's connection: bytes in, requests to the volume out, completions in, replies out.
//!
//! `Negotiating` → `Transmission`. A client that takes its leave, a violation, or the end of this process lets what is
//! under way end, and then closes.

use std::collections::VecDeque;
use std::sync::Arc;

use buf::{Account, Buf, BufList, Outside, Pool};
use protocol::{CloseReason, Ended, Instant, Placement, Transmit};
use volume::{Completion, Features, Operation, Request};
use zerocopy::FromBytes;

use super::buffers::take_all;
use super::export::{Export, ReplyForm};
use super::handshake::{Agreement, Handshake, Step};
use super::limits::{AT_ONCE, MEMORY_RETRY, NEGOTIATION, STAGING};
use super::outbound::Outbound;
use super::progress::Progress;
use super::reply::Reply;
use super::requests::{ByteRange, Pending, Table, Work, append};
use super::wire::{Command, ExtentFlags, REQUEST_MAGIC, RequestHeader};
use crate::convert::{index, short};

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

/// How much of a write's data is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WritePosition {
    slot: usize,
    /// Bytes that have been submitted to the volume.
    done: u32,
}

/// A piece of a write's data that is being received.
#[derive(Debug)]
struct PartialPiece {
    buf: Buf,
    /// Bytes of it that are there.
    filled: usize,
}

/// What the next bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Receive {
    /// An option or a request.
    Header,
    /// Data of a write.
    Data(WritePosition),
    /// The same, with memory named for what comes next.
    Placing(WritePosition),
    /// What is discarded.
    Skip { bytes: usize },
}

/// Why no further bytes are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitReason {
    /// There is no memory for data, since the pool's returns were at this number.
    Memory(u64),
    /// A request has to end first, or a reply to be sent.
    Room,
}

/// The server's end of one connection.
#[derive(Debug)]
pub struct Connection {
    pub(super) export: Arc<Export>,
    /// What the connection holds of its core's memory.
    pub(super) account: Account,
    /// What of that is counted for answers, and for tables; and what its tables were granted before they grew.
    pub(super) counted: Outside,
    pub(super) granted: usize,
    state: State,
    agreed: Agreement,
    pub(super) receive: Receive,
    partial: Option<PartialPiece>,
    pub(super) receive_wait: Option<WaitReason>,
    pub(super) table: Table,
    /// Reads that wait for memory, in order.
    pub(super) waiting: VecDeque<usize>,
    retry: Option<Instant>,
    /// The pool's count of returns when they were last tried.
    tried_at: u64,
    pub(super) out: Outbound,
    pub(super) actions: VecDeque<Action>,
    deadline: Option<Instant>,
    pub(super) progress: Progress,
    pub(super) now: Instant,
    /// Why the connection closes once nothing is under way.
    leaving: Option<CloseReason>,
    close: Option<CloseReason>,
}

fn len(bytes: u32) -> usize {
    index(u64::from(bytes))
}

impl Connection {
    /// The end of a connection that was just accepted, on `export`, with memory from `pool`.
    pub fn new(export: Arc<Export>, pool: &Pool, now: Instant) -> Self {
        let (handshake, greeting) = Handshake::new();
        let mut out = Outbound::default();
        out.push(Reply::Bytes(greeting));
        Self {
            export,
            account: Account::new(pool),
            counted: Outside::default(),
            granted: 0,
            agreed: Agreement::default(),
            state: State::Negotiating(handshake),
            receive: Receive::Header,
            partial: None,
            receive_wait: None,
            table: Table::default(),
            waiting: VecDeque::new(),
            retry: None,
            tried_at: pool.returns(),
            out,
            actions: VecDeque::new(),
            deadline: Some(now + NEGOTIATION),
            progress: Progress::new(now),
            now,
            leaving: None,
            close: None,
        }
    }

    /// True while requests wait for memory.
    pub fn awaits_memory(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// True until the client has chosen an export.
    pub fn is_negotiating(&self) -> bool {
        matches!(self.state, State::Negotiating(_))
    }

    pub(super) fn end(&mut self, reason: CloseReason) {
        self.close.get_or_insert(reason);
        for slot in self.waiting.drain(..) {
            self.table.end(slot);
        }
        (self.deadline, self.retry, self.receive_wait) = (None, None, None);
        self.progress.stop_expecting();
    }

    /// Takes no further request, and closes once those under way have been answered.
    fn leave(&mut self, reason: CloseReason) {
        self.leaving.get_or_insert(reason);
        self.close_if_over();
    }

    fn close_if_over(&mut self) {
        let between = !matches!(self.receive, Receive::Data(_) | Receive::Placing(_));
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
            self.out.push(Reply::Bytes(out));
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
        if !self.has_room() {
            self.receive_wait = Some(WaitReason::Room);
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
        match Pending::decode(&self.export, &header, self.agreed) {
            Ok(pending) => self.begin(now, pending),
            Err(refused) => {
                let form = match Command(header.command.get()) {
                    Command::READ | Command::BLOCK_STATUS => self.agreed.replies,
                    _ => ReplyForm::Simple,
                };
                self.out.push(Reply::failed(header.cookie.get(), refused.failure, form));
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
        if self.table.answers() > 0 {
            // What it may find counts before another request is taken.
            self.update_account();
        }
        let Some(pending) = self.table.get(slot) else { return };
        match &mut pending.work {
            Work::Read(_) => {
                if !self.waiting.is_empty() || !self.start_read(slot) {
                    self.waiting.push_back(slot);
                    self.retry = Some(now + MEMORY_RETRY);
                }
            }
            Work::Write { .. } => {
                self.receive = Receive::Data(WritePosition { slot, done: 0 });
                self.progress.expect_data(self.now);
            }
            Work::Flush => {
                pending.outstanding = 1;
                self.submit(slot, 0, Operation::Flush);
            }
            Work::BlockStatus { found, done } if !self.export.features.contains(Features::ALLOCATION) => {
                // The volume does not distinguish holes from data: everything counts as data.
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
        let (piece, length) = (self.export.piece(), pending.length);
        let sizes = (0..length.div_ceil(piece)).map(|number| len(piece.min(length - number * piece)));
        let Some(memory) = take_all(&mut self.account, sizes) else { return false };
        pending.outstanding = memory.len();
        if let Work::Read(pieces) = &mut pending.work {
            pieces.resize(memory.len(), None);
        }
        let mut from = 0_u64;
        for (number, into) in memory.into_iter().enumerate() {
            let bytes = into.len() as u64;
            let request = Request {
                tag: Table::tag(slot, number),
                operation: Operation::Read {
                    extent: pending.extent(&self.export, ByteRange { from, length: bytes }),
                    into,
                },
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
                self.out.push(Reply::of(pending, self.agreed.replies));
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

    /// Data of a write is there: all of a piece, or less.
    fn take_data(&mut self, position: WritePosition, data: PartialPiece) {
        self.progress.handle_data(self.now);
        if data.filled < data.buf.len() {
            self.partial = Some(data);
            self.receive = Receive::Data(position);
        } else {
            self.submit_piece(position, data.buf);
        }
    }

    fn submit_piece(&mut self, WritePosition { slot, done }: WritePosition, data: Buf) {
        self.receive = Receive::Header;
        let Some(pending) = self.table.get(slot) else { return };
        let bytes = short(data.len());
        let end = done.saturating_add(bytes);
        let operation = Operation::Write {
            extent: pending
                .extent(&self.export, ByteRange { from: u64::from(done), length: u64::from(bytes) }),
            data: BufList::from(data.freeze()),
            durability: pending.durability(),
        };
        pending.outstanding += 1;
        if end < pending.length {
            self.receive = Receive::Data(WritePosition { slot, done: end });
        } else {
            pending.work = Work::Write { receiving: false };
        }
        self.submit(slot, len(done / self.export.piece()), operation);
    }

    /// Takes what stands at the front of `bytes`; zero when nothing of it can be taken now.
    fn take_next(&mut self, now: Instant, bytes: &[u8]) -> usize {
        match self.receive {
            Receive::Skip { bytes: left } => {
                let count = left.min(bytes.len());
                self.receive = Receive::Header;
                self.skip(left - count);
                count
            }
            Receive::Header if self.leaving.is_some() => bytes.len(),
            Receive::Header if self.is_congested() => {
                self.receive_wait = Some(WaitReason::Room);
                0
            }
            Receive::Header if self.is_negotiating() => self.negotiate(bytes),
            Receive::Header => self.handle_request(now, bytes),
            Receive::Data(_) | Receive::Placing(_) => 0,
        }
    }
}

impl protocol::Connection for Connection {
    type Input = Input;
    type Action = Action;

    const STAGING: usize = STAGING;

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        self.now = now;
        self.receive_wait = None;
        let mut used = 0;
        while self.close.is_none() {
            let step = self.take_next(now, bytes.get(used..).unwrap_or_default());
            if step == 0 && self.close.is_none() {
                self.update_account();
                return used;
            }
            used += step;
        }
        self.update_account();
        bytes.len()
    }

    fn take_placement(&mut self) -> Option<Placement> {
        let Receive::Data(position) = self.receive else { return None };
        if self.close.is_some() {
            return None;
        }
        let length = self.table.get(position.slot)?.length;
        let PartialPiece { buf, filled: start } = if let Some(partial) = self.partial.take() {
            partial
        } else {
            let returns = self.account.returns();
            let Some(buf) = self.account.take(len(self.export.piece().min(length - position.done))) else {
                self.receive_wait = Some(WaitReason::Memory(returns));
                return None;
            };
            PartialPiece { buf, filled: 0 }
        };
        self.receive_wait = None;
        self.receive = Receive::Placing(position);
        let len = AT_ONCE.min(buf.len() - start);
        Some(Placement { buf, start, len, token: 0 })
    }

    fn handle_placed(&mut self, now: Instant, placement: Placement) {
        self.now = now;
        if let Receive::Placing(position) = self.receive {
            let filled = placement.start + placement.len;
            self.take_data(position, PartialPiece { buf: placement.buf, filled });
        }
        self.update_account();
    }

    fn handle_input(&mut self, now: Instant, input: Input) {
        self.now = now;
        match input {
            Input::Completion(completion) => {
                self.handle_completion(completion);
                self.serve_waiting(now);
            }
            Input::Shutdown => self.leave(CloseReason::ShuttingDown),
        }
        self.update_account();
    }

    fn handle_transmitted(&mut self, now: Instant, _bytes: usize) {
        self.now = now;
        self.progress.end_send();
        self.out.sent();
        self.serve_waiting(now);
        self.update_account();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        self.check_progress(now);
        if self.retry.is_some_and(|retry| retry <= now) {
            self.serve_waiting(now);
        }
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.end(CloseReason::TimedOut("the client did not choose an export in time"));
        }
        self.update_account();
    }

    fn handle_ended(&mut self, _now: Instant, _how: Ended) {
        self.end(CloseReason::Finished);
        self.out.clear();
        self.out.sent();
        self.progress.end_send();
        self.partial = None;
        self.update_account();
    }

    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
        while !send.is_full() && self.out.send_one(send) {}
        if !send.is_empty() {
            self.progress.begin_send(now);
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        if self.actions.is_empty() && !self.waiting.is_empty() {
            let returns = self.account.returns();
            if std::mem::replace(&mut self.tried_at, returns) != returns {
                self.serve_waiting(self.now);
            }
        }
        self.actions.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [self.deadline, self.retry, self.progress.poll_timeout()].into_iter().flatten().min()
    }

    fn wants_bytes(&mut self) -> bool {
        match self.receive_wait {
            None => true,
            Some(WaitReason::Memory(returns)) => self.account.returns() != returns,
            Some(WaitReason::Room) => !self.table.is_full() && !self.is_congested(),
        }
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.close
    }
}
