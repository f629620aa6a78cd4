//! The requests of one queue, from submission to completion.
//!
//! A request locks its blocks. What changes something waits for its dirty bits, goes to every leg that takes writes, and is acknowledged when every leg that
//! is in sync has it and the record says which those are. What reads goes to one leg, and to the next where that fails.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use buf::{Buf, BufList, Pool};
use protocol::Instant;
use volume::{
    Allocation, ComparedWrite, Completion, Durability, Extent, Failure, Operation, Outcome, Request, Tag,
    VolumeErrorKind,
};

use crate::compare::first_difference;
use crate::limits::BUSY;
use crate::members::{LegState, Membership};
use crate::placement::on_leg;
use crate::planted::{Fault, planted};
use crate::ports::{Ended, Owner, Ports, Sent};
use crate::range_locks::{Held, Holder, LockMode};
use crate::shared::{Failed, Repair, Shape, Shared, State};
use crate::slab::Slab;
use crate::spread::late;

/// What a request needs beside itself.
pub(crate) struct QueueParts<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) ports: &'a mut Ports,
    /// The queue's own memory.
    pub(crate) memory: &'a Pool,
    pub(crate) queue: u64,
    pub(crate) now: Instant,
}

/// What an answer needs that is settled with the lock held.
pub(crate) struct Settling<'a> {
    pub(crate) shape: &'a Shape,
    pub(crate) queue: u64,
    pub(crate) now: Instant,
}

impl QueueParts<'_> {
    /// As whom a request of this queue locks its blocks.
    fn holder(&self, number: u64) -> Holder {
        Holder { queue: self.queue, number }
    }

    /// A buffer of the queue's own, or of the heap where that is used up.
    pub(crate) fn buffer(&self, len: usize) -> Buf {
        self.memory.take(len).unwrap_or_else(|| Buf::zeroed(len))
    }
}

#[derive(Debug)]
enum Work {
    Read { into: Option<Buf> },
    Compare { data: BufList },
    CompareAndWrite { data: Box<ComparedWrite>, durability: Durability },
    Verify,
    Allocation,
    Write { data: BufList, durability: Durability },
    Discard,
    Zero { durability: Durability, may_unmap: bool },
    Flush,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It waits for its blocks.
    Locking,
    /// One leg reads all of it, by this tag since then: the usual way of a read, which needs no parts.
    Forwarded(Membership, Sent, Instant),
    /// One leg for each part reads.
    Reading,
    /// It waits for its dirty bits; attempts to write them had failed so many times before.
    Logging(u64),
    /// Legs write.
    Writing,
    /// It waits for the record of the epoch.
    Recording,
}

/// A part of something that reads: what lies in one slab.
#[derive(Debug)]
struct ReadPart {
    extent: Extent,
    /// Blocks of the leg that was asked last in one of the mirror.
    factor: u64,
    /// Legs that could not, by bit.
    tried: u32,
    /// Those of them whose medium could not.
    unreadable: Vec<Membership>,
    sent: Option<(Membership, Sent, Instant)>,
    /// When to ask again a leg that had too much to do.
    again_at: Option<Instant>,
    failure: Option<VolumeErrorKind>,
    memory: Option<Buf>,
    outcome: Option<Outcome>,
}

impl ReadPart {
    fn new(extent: Extent, memory: Option<Buf>) -> Self {
        Self {
            extent,
            factor: 1,
            tried: 0,
            unreadable: Vec::new(),
            sent: None,
            again_at: None,
            failure: None,
            memory,
            outcome: None,
        }
    }
}

/// A part of something that changes: what lies in one slab, on one leg.
#[derive(Debug, Clone, Copy)]
struct WritePart {
    extent: Extent,
    /// Where it is in the request's data.
    offset: usize,
    membership: Membership,
    /// The leg's own blocks.
    place: Extent,
    /// The leg takes discards.
    discards: bool,
    end: Option<bool>,
    again_at: Option<Instant>,
}

impl WritePart {
    fn flush(membership: Membership) -> Self {
        let none = Extent::new(0, 0);
        Self { extent: none, offset: 0, membership, place: none, discards: false, end: None, again_at: None }
    }
}

/// A request. Its place is used again by others, with the memory of its parts.
#[derive(Debug)]
struct Task {
    tag: Tag,
    work: Work,
    extent: Extent,
    stage: Stage,
    begun: Instant,
    /// Where its blocks are locked, if that was at once.
    held: Option<Held>,
    /// The dirty log knows of it.
    logged: bool,
    cancelled: bool,
    reads: Vec<ReadPart>,
    writes: Vec<WritePart>,
    /// When the first leg had done it.
    first: Option<Instant>,
    failure: Option<VolumeErrorKind>,
}

impl Default for Task {
    fn default() -> Self {
        Self {
            tag: Tag(0),
            work: Work::Flush,
            extent: Extent::new(0, 0),
            stage: Stage::Locking,
            begun: Instant::ZERO,
            held: None,
            logged: false,
            cancelled: false,
            reads: Vec::new(),
            writes: Vec::new(),
            first: None,
            failure: None,
        }
    }
}

/// The requests of one queue.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    under_way: Slab<Task>,
    ready: Vec<Completion>,
    /// No request has a deadline before.
    deadline: Option<Instant>,
    /// Memory for the numbers of all requests.
    numbers: Vec<u64>,
}

/// How far an answer settles a request.
enum Settled {
    /// More is to be done for it than to note that.
    Not,
    Part,
    Whole,
}

/// What a task does next.
enum Next {
    Wait,
    End(Result<Outcome, Failure>),
}

impl Tasks {
    /// Requests under way, and those whose completion nobody has taken yet.
    pub(crate) fn len(&self) -> usize {
        self.under_way.len() + self.ready.len()
    }

    /// Ends a request at once.
    pub(crate) fn end(&mut self, completion: Completion) {
        self.ready.push(completion);
    }

    /// Takes all completions.
    pub(crate) fn take_ready(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.ready);
    }

    /// True if no request is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.len() == 0
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// When requests want to be looked at.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }

    /// Begins a request that fits the volume and is not empty.
    pub(crate) fn begin(&mut self, with: &mut QueueParts<'_>, request: Request) {
        let Request { tag, operation } = request;
        let extent = operation.extent().unwrap_or(Extent::new(0, 0));
        let Some(work) = Work::of(operation) else {
            return self.end(Completion::failed(tag, VolumeErrorKind::Unsupported));
        };
        let mode = work.lock_mode();
        let (number, task) = self.under_way.claim();
        task.begin(tag, work, extent, with.now);
        let shared = with.shared;
        let mut state = shared.lock();
        if let Some(kind) = state.refusal() {
            drop(state);
            let result = task.fail(kind);
            task.forget();
            self.under_way.release(number);
            return self.end(Completion { tag, result });
        }
        if let Some(mode) = mode {
            task.held = state.locks.lock(Holder { queue: with.queue, number }, extent, mode);
            if task.held.is_none() {
                return;
            }
        }
        let next = task.start(with, state, number);
        self.go_on(with, number, next);
    }

    /// The request has its blocks.
    pub(crate) fn granted(&mut self, with: &mut QueueParts<'_>, number: u64) {
        self.with_task(with, number, |task, with| {
            if task.stage != Stage::Locking {
                return Next::Wait;
            }
            let shared = with.shared;
            task.start(with, shared.lock(), number)
        });
    }

    fn with_task(
        &mut self,
        with: &mut QueueParts<'_>,
        number: u64,
        act: impl FnOnce(&mut Task, &mut QueueParts<'_>) -> Next,
    ) {
        let Some(task) = self.under_way.get_mut(number) else { return };
        let next = act(task, with);
        self.go_on(with, number, next);
    }

    fn go_on(&mut self, with: &QueueParts<'_>, number: u64, next: Next) {
        match next {
            Next::Wait => {
                let task = self.under_way.get_mut(number);
                look_at(&mut self.deadline, task.and_then(|task| task.deadline(with.shared.shape.timeout)));
            }
            Next::End(result) => {
                let Some(task) = self.under_way.release(number) else { return };
                task.release(&mut with.shared.lock(), with.holder(number), result.is_ok(), with.now);
                self.ready.push(Completion { tag: task.tag, result });
            }
        }
    }

    /// Takes what a leg has answered as far as that needs nothing but the lock: what is well and no news. Otherwise gives it back, for [`Tasks::answered`].
    pub(crate) fn settle(&mut self, state: &mut State, with: &Settling<'_>, ended: Ended) -> Option<Ended> {
        let Owner::Task { task: number, part } = ended.owner else { return Some(ended) };
        let task = self.under_way.get_mut(number)?;
        match task.settles(state, with, part, &ended.result) {
            Settled::Not => return Some(ended),
            Settled::Part => {
                look_at(&mut self.deadline, task.first.map(|first| first + with.shape.timeout));
            }
            Settled::Whole => {
                let reads = matches!(task.work, Work::Read { .. });
                let result = if reads { ended.result } else { Ok(Outcome::Done) };
                self.ready.push(Completion { tag: task.tag, result });
                task.release(state, Holder { queue: with.queue, number }, true, with.now);
                self.under_way.release(number);
            }
        }
        None
    }

    /// A leg has ended a part of a request.
    pub(crate) fn answered(&mut self, with: &mut QueueParts<'_>, number: u64, part: usize, ended: Ended) {
        self.with_task(with, number, |task, with| match task.stage {
            Stage::Reading => task.has_read(with, number, part, ended),
            Stage::Forwarded(..) => {
                task.take_apart();
                task.has_read(with, number, part, ended)
            }
            _ => task.has_written(with, part, ended),
        });
    }

    /// Legs, log or record have changed, or it is time: every request looks what that means for it.
    pub(crate) fn look(&mut self, with: &mut QueueParts<'_>) {
        self.deadline = None;
        let mut numbers = std::mem::take(&mut self.numbers);
        numbers.extend(self.under_way.iter_mut().map(|(number, _)| number));
        for number in numbers.drain(..) {
            self.with_task(with, number, |task, with| task.look(with, number));
        }
        self.numbers = numbers;
    }

    /// Asks that a request end soon: one that waits ends, one that reads is cancelled on its leg, one that writes goes on, as legs would differ.
    pub(crate) fn cancel(&mut self, with: &mut QueueParts<'_>, tag: Tag) {
        let found = self.under_way.iter_mut().find(|(_, task)| task.tag == tag).map(|(number, _)| number);
        let Some(number) = found else { return };
        self.with_task(with, number, |task, with| match task.stage {
            Stage::Locking | Stage::Logging(_) => Next::End(task.fail(VolumeErrorKind::Cancelled)),
            Stage::Reading | Stage::Forwarded(..) => {
                task.take_apart();
                task.cancelled = true;
                for (membership, sent, _) in task.reads.iter().filter_map(|part| part.sent) {
                    with.ports.cancel(membership, sent);
                }
                task.reads_end(with, number)
            }
            Stage::Writing | Stage::Recording => Next::Wait,
        });
    }

    /// The queue is gone: what it was writing is left unfinished.
    pub(crate) fn abandon(&mut self, state: &mut State, now: Instant) {
        for (_, task) in std::mem::take(&mut self.under_way).iter_mut() {
            if task.logged {
                if !task.writes.is_empty() {
                    state.suspect(task.extent);
                }
                state.log.end_write(task.extent, now);
            }
        }
    }
}

impl Work {
    fn of(operation: Operation) -> Option<Self> {
        Some(match operation {
            Operation::Read { into, .. } => Self::Read { into: Some(into) },
            Operation::Write { data, durability, .. } => Self::Write { data, durability },
            Operation::Flush => Self::Flush,
            Operation::Discard { .. } => Self::Discard,
            Operation::WriteZeroes { durability, may_unmap, .. } => Self::Zero { durability, may_unmap },
            Operation::Compare { data, .. } => Self::Compare { data },
            Operation::CompareAndWrite { data, durability, .. } => Self::CompareAndWrite { data, durability },
            Operation::Verify { .. } => Self::Verify,
            Operation::QueryAllocation { .. } => Self::Allocation,
            _ => return None,
        })
    }

    fn changes(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Discard | Self::Zero { .. })
    }

    fn lock_mode(&self) -> Option<LockMode> {
        match self {
            Self::Flush => None,
            Self::CompareAndWrite { .. } => Some(LockMode::Exclusive),
            work if work.changes() => Some(LockMode::Exclusive),
            _ => Some(LockMode::Shared),
        }
    }
}

fn bytes(blocks: u64, block_size: u32) -> usize {
    wire::index(blocks.saturating_mul(u64::from(block_size)))
}

impl Task {
    fn fail(&mut self, kind: VolumeErrorKind) -> Result<Outcome, Failure> {
        let memory = match &mut self.work {
            Work::Read { into } => {
                into.take().or_else(|| self.reads.first_mut().and_then(|part| part.memory.take()))
            }
            _ => None,
        };
        Err(Failure { kind, memory })
    }

    /// Begins in a place that another request has left.
    fn begin(&mut self, tag: Tag, work: Work, extent: Extent, now: Instant) {
        (self.tag, self.work, self.extent, self.begun) = (tag, work, extent, now);
        (self.stage, self.held, self.logged, self.cancelled) = (Stage::Locking, None, false, false);
        (self.first, self.failure) = (None, None);
    }

    /// It has its blocks: what changes something is logged, what reads is asked for.
    fn start(&mut self, with: &mut QueueParts<'_>, mut state: MutexGuard<'_, State>, number: u64) -> Next {
        match self.work {
            Work::Flush => self.write(with, state, number),
            Work::Read { .. } => {
                let Some((membership, extent)) = self.place_to_read(&mut state) else {
                    drop(state);
                    return self.read(with, number);
                };
                drop(state);
                self.forward(with, number, membership, extent);
                Next::Wait
            }
            _ if self.work.changes() => self.log(with, state, number),
            _ => {
                drop(state);
                self.read(with, number)
            }
        }
    }

    /// Lets the blocks go, and the log know, and drops what it holds.
    fn release(&mut self, state: &mut State, holder: Holder, well: bool, now: Instant) {
        if self.logged {
            state.log.end_write(self.extent, now);
            if !well && !self.writes.is_empty() {
                state.suspect(self.extent);
            }
        }
        if self.work.lock_mode().is_some() {
            state.unlock(holder, self.held);
        }
        self.forget();
    }

    /// Drops the memory that it has been given: its place may stay unused for long.
    fn forget(&mut self) {
        self.work = Work::Flush;
        self.reads.clear();
        self.writes.clear();
    }

    /// How far an answer settles the request, if nothing else is to be done for it.
    fn settles(
        &mut self,
        state: &State,
        with: &Settling<'_>,
        part: usize,
        result: &Result<Outcome, Failure>,
    ) -> Settled {
        if state.fenced || planted(Fault::EarlyAcknowledgement) {
            return Settled::Not;
        }
        match (self.stage, result) {
            (Stage::Forwarded(..), Ok(Outcome::Data(data))) => {
                let whole = bytes(self.extent.blocks, with.shape.geometry.block_size);
                if data.len() == whole { Settled::Whole } else { Settled::Not }
            }
            (Stage::Writing, Ok(_)) => {
                let (mut all_ended, mut all_well) = (true, self.failure.is_none());
                for (index, other) in self.writes.iter().enumerate() {
                    if index != part {
                        all_ended &= other.end.is_some();
                        all_well &= other.end != Some(false);
                    }
                }
                if all_ended && !(all_well && state.members.is_recorded()) {
                    return Settled::Not;
                }
                let Some(part) = self.writes.get_mut(part) else { return Settled::Not };
                part.end = Some(true);
                self.first.get_or_insert(with.now);
                if all_ended { Settled::Whole } else { Settled::Part }
            }
            _ => Settled::Not,
        }
    }

    fn deadline(&self, timeout: Duration) -> Option<Instant> {
        if let Stage::Forwarded(_, _, at) = self.stage {
            return Some(at + timeout);
        }
        let reads = self.reads.iter().filter(|part| part.outcome.is_none());
        let read = reads.filter_map(|part| part.again_at.or(part.sent.map(|(_, _, at)| at + timeout))).min();
        let again = self.writes.iter().filter_map(|part| part.again_at).min();
        let waits = self.stage == Stage::Writing && self.writes.iter().any(|part| part.end.is_none());
        let late = self.first.filter(|_| waits).map(|first| first + timeout);
        [read, again, late].into_iter().flatten().min()
    }

    fn look(&mut self, with: &mut QueueParts<'_>, number: u64) -> Next {
        if with.shared.lock().fenced && matches!(self.stage, Stage::Locking | Stage::Logging(_)) {
            return Next::End(self.fail(VolumeErrorKind::ReservationConflict));
        }
        match self.stage {
            Stage::Locking => Next::Wait,
            Stage::Forwarded(_, _, at) if at + with.shared.shape.timeout > with.now => Next::Wait,
            Stage::Reading | Stage::Forwarded(..) => {
                self.take_apart();
                self.look_at_reads(with, number)
            }
            Stage::Logging(failures) => {
                let shared = with.shared;
                let state = shared.lock();
                let (ready, failed) = (state.log.is_durable(self.extent), state.log_failures != failures);
                let error = state.log_error.filter(|_| failed);
                match error {
                    _ if ready => self.write(with, state, number),
                    Some(kind) => Next::End(self.fail(kind)),
                    None => Next::Wait,
                }
            }
            Stage::Writing => self.look_at_writes(with, number),
            Stage::Recording => self.acknowledge(with),
        }
    }

    // What reads.

    /// The leg that is to read all of it, counted as asked, and its blocks there; `None` where that takes more than one leg.
    fn place_to_read(&self, state: &mut State) -> Option<(Membership, Extent)> {
        let placement = state.members.placement;
        if !placement.is_one_piece(self.extent) {
            return None;
        }
        let membership = state.members.in_sync(placement.row(self.extent.start)).next()?;
        let leg = state.members.leg(membership.leg)?;
        let at = placement.block_on(leg.member?, self.extent.start);
        let extent = on_leg(at, self.extent.blocks, leg.medium.as_ref()?.factor);
        state.members.begin(&[membership]);
        Some((membership, extent))
    }

    fn forward(&mut self, with: &mut QueueParts<'_>, number: u64, membership: Membership, extent: Extent) {
        let Work::Read { into } = &mut self.work else { return };
        let len = bytes(self.extent.blocks, with.shared.shape.geometry.block_size);
        let into = into.take().unwrap_or_else(|| with.buffer(len));
        let owner = Owner::Task { task: number, part: 0 };
        let sent = with.ports.send(with.now, membership, owner, Operation::Read { extent, into });
        self.stage = Stage::Forwarded(membership, sent, with.now);
    }

    /// A read that was forwarded needs more than that: it has one part from now on.
    fn take_apart(&mut self) {
        let Stage::Forwarded(membership, sent, at) = self.stage else { return };
        self.stage = Stage::Reading;
        let sent = Some((membership, sent, at));
        self.reads.push(ReadPart { sent, ..ReadPart::new(self.extent, None) });
    }

    fn read(&mut self, with: &mut QueueParts<'_>, number: u64) -> Next {
        self.stage = Stage::Reading;
        let placement = with.shared.lock().members.placement;
        let pieces: Vec<Extent> = placement.pieces(self.extent).collect();
        let pieces =
            if matches!(self.work, Work::Allocation) { pieces.get(..1).unwrap_or_default() } else { &pieces };
        let size = with.shared.shape.geometry.block_size;
        let alone = pieces.len() == 1;
        let needs_memory = !matches!(self.work, Work::Verify | Work::Allocation);
        for extent in pieces {
            let own = match &mut self.work {
                Work::Read { into } if alone => into.take(),
                _ => None,
            };
            let memory = own.or_else(|| needs_memory.then(|| with.buffer(bytes(extent.blocks, size))));
            self.reads.push(ReadPart::new(*extent, memory));
        }
        for part in 0..self.reads.len() {
            self.ask(with, number, part);
        }
        self.reads_end(with, number)
    }

    /// Asks the next leg for a part.
    fn ask(&mut self, with: &mut QueueParts<'_>, number: u64, index: usize) {
        let cancelled = self.cancelled;
        let Some(part) = self.reads.get_mut(index) else { return };
        part.sent = None;
        part.again_at = None;
        if cancelled {
            part.failure.get_or_insert(VolumeErrorKind::Cancelled);
            return;
        }
        let mut state = with.shared.lock();
        if state.fenced {
            part.failure = Some(VolumeErrorKind::ReservationConflict);
            return;
        }
        let placement = state.members.placement;
        let may = |membership: &Membership| part.tried & (1 << membership.leg) == 0;
        // Where legs may differ all reads see the first one's blocks, unless those cannot be read.
        let membership = state.members.in_sync(placement.row(part.extent.start)).find(may);
        let found = membership.and_then(|membership| {
            let leg = state.members.leg(membership.leg)?;
            Some((membership, leg.member?, leg.medium.as_ref()?.clone()))
        });
        let Some((membership, member, medium)) = found else {
            part.failure.get_or_insert(VolumeErrorKind::Unreachable);
            return;
        };
        state.members.begin(&[membership]);
        drop(state);
        (part.failure, part.factor) = (None, medium.factor);
        let at = placement.block_on(member, part.extent.start);
        let extent = on_leg(at, part.extent.blocks, medium.factor);
        let len = bytes(part.extent.blocks, with.shared.shape.geometry.block_size);
        let operation = match self.work {
            Work::Verify => Operation::Verify { extent },
            Work::Allocation => Operation::QueryAllocation { extent },
            _ => {
                // Only a connection that ended while it filled the buffer has kept it.
                let into = part.memory.take().unwrap_or_else(|| with.buffer(len));
                Operation::Read { extent, into }
            }
        };
        let sent =
            with.ports.send(with.now, membership, Owner::Task { task: number, part: index }, operation);
        part.sent = Some((membership, sent, with.now));
    }

    fn has_read(&mut self, with: &mut QueueParts<'_>, number: u64, index: usize, ended: Ended) -> Next {
        let Some(part) = self.reads.get_mut(index) else { return Next::Wait };
        part.sent = None;
        match ended.result {
            // The blocks were locked all the while: what a leg that is out by now has read is what it was.
            Ok(outcome) => {
                part.outcome = Some(outcome);
                let mut state = with.shared.lock();
                let repairs =
                    part.unreadable.drain(..).map(|membership| Repair { membership, extent: part.extent });
                state.repairs.extend(repairs);
                if !state.repairs.is_empty() {
                    state.tell_all();
                }
            }
            Err(Failure { kind, memory }) => {
                part.memory = memory.or(part.memory.take());
                part.failure = Some(kind);
                self.read_failed(with, number, index, ended.membership, kind);
            }
        }
        self.reads_end(with, number)
    }

    fn read_failed(
        &mut self,
        with: &mut QueueParts<'_>,
        number: u64,
        index: usize,
        membership: Membership,
        kind: VolumeErrorKind,
    ) {
        let begun = self.begun;
        let cancelled = self.cancelled;
        let Some(part) = self.reads.get_mut(index) else { return };
        match kind {
            VolumeErrorKind::ReservationConflict => return with.shared.lock().fence(),
            VolumeErrorKind::Cancelled if cancelled => return,
            VolumeErrorKind::Busy if with.now.since(begun) < with.shared.shape.timeout => {
                part.again_at = Some(with.now + BUSY);
                return;
            }
            VolumeErrorKind::Media | VolumeErrorKind::Protection => part.unreadable.push(membership),
            // It was put out for being late.
            VolumeErrorKind::Cancelled => {}
            _ => {
                with.shared.lock().fail(membership, format!("a read failed: {kind}"), with.now);
            }
        }
        part.tried |= 1 << membership.leg;
        let before = part.failure;
        self.ask(with, number, index);
        // If nobody else has it, the leg's own failure is what the request ends with.
        if let Some(part) = self.reads.get_mut(index).filter(|part| part.sent.is_none() && !cancelled) {
            part.failure = before;
        }
    }

    fn look_at_reads(&mut self, with: &mut QueueParts<'_>, number: u64) -> Next {
        let timeout = with.shared.shape.timeout;
        for index in 0..self.reads.len() {
            let Some(part) = self.reads.get(index) else { continue };
            if part.again_at.is_some_and(|at| at <= with.now) {
                self.ask(with, number, index);
                continue;
            }
            let late_one = part.sent.filter(|(_, _, at)| *at + timeout <= with.now);
            let Some((membership, sent, _)) = late_one else { continue };
            let mut state = with.shared.lock();
            let row = state.members.placement.row(part.extent.start);
            let others = state.members.in_sync(row).any(|other| other.leg != membership.leg);
            if others {
                state.fail(membership, format!("it had not answered a read within {timeout:?}"), with.now);
            }
            drop(state);
            if others {
                with.ports.cancel(membership, sent);
            }
            if let Some(part) = self.reads.get_mut(index) {
                // Asked for once; the leg ends it in its own time.
                part.sent = Some((membership, sent, with.now));
            }
        }
        self.reads_end(with, number)
    }

    /// Goes on once all parts are read, or fails once no part is under way.
    fn reads_end(&mut self, with: &mut QueueParts<'_>, number: u64) -> Next {
        if self.reads.iter().any(|part| part.sent.is_some()) {
            return Next::Wait;
        }
        if self.cancelled && self.reads.iter().any(|part| part.outcome.is_none()) {
            return Next::End(self.fail(VolumeErrorKind::Cancelled));
        }
        if self.reads.iter().any(|part| part.again_at.is_some()) {
            return Next::Wait;
        }
        if with.shared.lock().fenced {
            return Next::End(self.fail(VolumeErrorKind::ReservationConflict));
        }
        let failed = self.reads.iter().find(|part| part.outcome.is_none()).and_then(|part| part.failure);
        if let Some(kind) = failed {
            return Next::End(self.fail(kind));
        }
        self.has_all(with, number)
    }

    fn has_all(&mut self, with: &mut QueueParts<'_>, number: u64) -> Next {
        if matches!(self.work, Work::Verify) {
            return Next::End(Ok(Outcome::Done));
        }
        let start = self.extent.start;
        let mut data = BufList::new();
        for part in &mut self.reads {
            match part.outcome.take() {
                Some(Outcome::Data(read)) => data.append(read),
                Some(Outcome::Allocation(run)) => {
                    return Next::End(Ok(Outcome::Allocation(on_mirror(
                        run,
                        start,
                        part.extent.blocks,
                        part.factor,
                    ))));
                }
                _ => return Next::End(self.fail(VolumeErrorKind::Media)),
            }
        }
        if data.len() != bytes(self.extent.blocks, with.shared.shape.geometry.block_size) {
            return Next::End(self.fail(VolumeErrorKind::Media));
        }
        let miscompare = |difference| VolumeErrorKind::Miscompare { offset: wire::bounded(difference) };
        match &mut self.work {
            Work::Read { into } => {
                if let Some(mut whole) = into.take() {
                    data.copy_to(&mut whole);
                    data = whole.freeze().into();
                }
                Next::End(Ok(Outcome::Data(data)))
            }
            Work::Compare { data: expected } => {
                let difference = first_difference(expected, &data);
                Next::End(difference.map_or(Ok(Outcome::Done), |at| Err(miscompare(at).into())))
            }
            Work::CompareAndWrite { data: both, durability } => {
                if let Some(at) = first_difference(&both.compare, &data) {
                    return Next::End(Err(miscompare(at).into()));
                }
                let (data, durability) = (std::mem::take(&mut both.write), *durability);
                self.reads.clear();
                // Its lock stays: a write has an exclusive one too.
                self.work = Work::Write { data, durability };
                let shared = with.shared;
                self.log(with, shared.lock(), number)
            }
            _ => Next::End(self.fail(VolumeErrorKind::Media)),
        }
    }

    // What changes something.

    fn log(&mut self, with: &mut QueueParts<'_>, mut state: MutexGuard<'_, State>, number: u64) -> Next {
        if state.fenced {
            drop(state);
            return Next::End(self.fail(VolumeErrorKind::ReservationConflict));
        }
        self.stage = Stage::Logging(state.log_failures);
        self.logged = true;
        let durable = state.log.begin_write(self.extent, with.now);
        if durable { self.write(with, state, number) } else { Next::Wait }
    }

    fn write(&mut self, with: &mut QueueParts<'_>, mut state: MutexGuard<'_, State>, number: u64) -> Next {
        self.stage = Stage::Writing;
        let refused =
            if state.fenced { Some(VolumeErrorKind::ReservationConflict) } else { state.members.stuck() };
        if let Some(kind) = refused {
            drop(state);
            return Next::End(self.fail(kind));
        }
        let (placement, whole) = (state.members.placement, self.extent);
        if matches!(self.work, Work::Flush) {
            let all = state.members.all_writable();
            state.members.begin(&all);
            self.writes.extend(all.into_iter().map(WritePart::flush));
        } else if placement.is_one_piece(whole) {
            self.add_row(&mut state, whole, 0);
        } else {
            for piece in placement.pieces(whole) {
                let offset = bytes(piece.start - whole.start, with.shared.shape.geometry.block_size);
                self.add_row(&mut state, piece, offset);
            }
        }
        drop(state);
        for index in 0..self.writes.len() {
            self.send_write(with, number, index);
        }
        if self.writes.is_empty() { self.writes_end(with) } else { Next::Wait }
    }

    /// Adds a part for each leg that has this piece.
    fn add_row(&mut self, state: &mut State, extent: Extent, offset: usize) {
        state.members.begin_writes(extent, |membership, place, discards| {
            let (end, again_at) = (None, None);
            self.writes.push(WritePart { extent, offset, membership, place, discards, end, again_at });
        });
    }

    fn send_write(&mut self, with: &mut QueueParts<'_>, number: u64, index: usize) {
        let Some(&WritePart { extent: part, offset, membership, place: extent, discards, .. }) =
            self.writes.get(index)
        else {
            return;
        };
        let operation = match &self.work {
            Work::Write { data, durability } => {
                let len = bytes(part.blocks, with.shared.shape.geometry.block_size);
                Operation::Write { extent, data: data.part(offset, len), durability: *durability }
            }
            Work::Zero { durability, may_unmap } => {
                Operation::WriteZeroes { extent, durability: *durability, may_unmap: *may_unmap }
            }
            // A leg whose discarded blocks may hold anything would differ from the others.
            Work::Discard if discards => Operation::Discard { extent },
            Work::Discard => {
                Operation::WriteZeroes { extent, durability: Durability::Cached, may_unmap: true }
            }
            _ => Operation::Flush,
        };
        with.ports.send(with.now, membership, Owner::Task { task: number, part: index }, operation);
    }

    #[expect(clippy::needless_pass_by_value, reason = "the answer is used up")]
    fn has_written(&mut self, with: &mut QueueParts<'_>, index: usize, ended: Ended) -> Next {
        let (now, timeout) = (with.now, with.shared.shape.timeout);
        let late = now.since(self.begun) >= timeout;
        let Some(part) = self.writes.get_mut(index) else { return Next::Wait };
        match ended.result {
            Ok(_) => {
                part.end = Some(true);
                self.first.get_or_insert(now);
            }
            Err(Failure { kind: VolumeErrorKind::ReservationConflict, .. }) => {
                part.end = Some(false);
                with.shared.lock().fence();
            }
            Err(Failure { kind: VolumeErrorKind::Busy, .. }) if !late => part.again_at = Some(now + BUSY),
            Err(Failure { kind, .. }) => {
                part.end = Some(false);
                let why = format!("a write or flush failed: {kind}");
                if with.shared.lock().fail(ended.membership, why, now) == Failed::Request {
                    self.failure = Some(kind);
                }
            }
        }
        self.writes_end(with)
    }

    fn look_at_writes(&mut self, with: &mut QueueParts<'_>, number: u64) -> Next {
        let timeout = with.shared.shape.timeout;
        let is_late = self.first.is_some_and(|first| first + timeout <= with.now);
        if is_late {
            // The last leg stays, and is looked at again only after as long.
            self.first = Some(with.now);
        }
        for index in 0..self.writes.len() {
            let Some(part) = self.writes.get_mut(index).filter(|part| part.end.is_none()) else { continue };
            let mut state = with.shared.lock();
            let row = state.members.placement.row(part.extent.start);
            let has_other = state.members.in_sync(row).nth(1).is_some();
            if is_late && (has_other || state.members.state(part.membership) != Some(LegState::InSync)) {
                state.fail(part.membership, late(timeout), with.now);
            }
            if !state.members.counts(part.membership) {
                // What it still answers means nothing.
                part.end = Some(false);
                part.again_at = None;
            } else if part.again_at.is_some_and(|at| at <= with.now) {
                part.again_at = None;
                state.members.begin(&[part.membership]);
                drop(state);
                self.send_write(with, number, index);
            }
        }
        self.writes_end(with)
    }

    fn writes_end(&mut self, with: &mut QueueParts<'_>) -> Next {
        let early =
            planted(Fault::EarlyAcknowledgement) && self.writes.iter().any(|part| part.end == Some(true));
        if !early && self.writes.iter().any(|part| part.end.is_none()) {
            return Next::Wait;
        }
        if with.shared.lock().fenced {
            return Next::End(self.fail(VolumeErrorKind::ReservationConflict));
        }
        // Each part is on a leg, at least; the last one's failure is the request's.
        let is_somewhere = |part: &WritePart| {
            let same = self.writes.iter().filter(|other| other.extent == part.extent);
            same.into_iter().any(|other| other.end == Some(true))
        };
        let everywhere = !self.writes.is_empty() && self.writes.iter().all(is_somewhere);
        if let Some(kind) = self.failure.or((!everywhere).then_some(VolumeErrorKind::Unreachable)) {
            return Next::End(self.fail(kind));
        }
        self.stage = Stage::Recording;
        self.acknowledge(with)
    }

    /// Ends well, once the record says which legs have it.
    fn acknowledge(&mut self, with: &mut QueueParts<'_>) -> Next {
        let state = with.shared.lock();
        let (fenced, recorded, stuck) = (state.fenced, state.members.is_recorded(), state.members.stuck());
        drop(state);
        match stuck {
            _ if fenced => Next::End(self.fail(VolumeErrorKind::ReservationConflict)),
            _ if recorded || planted(Fault::EarlyAcknowledgement) => Next::End(Ok(Outcome::Done)),
            Some(kind) => Next::End(self.fail(kind)),
            None => Next::Wait,
        }
    }
}

/// Has a deadline come no later.
fn look_at(deadline: &mut Option<Instant>, at: Option<Instant>) {
    *deadline = match (*deadline, at) {
        (Some(deadline), Some(at)) => Some(deadline.min(at)),
        (deadline, at) => deadline.or(at),
    };
}

/// What a leg said of its own blocks, in the mirror's, of which each has `factor` of them. Less than a block is said to have something behind it.
fn on_mirror(run: Allocation, start: u64, most: u64, factor: u64) -> Allocation {
    let blocks = (run.extent.blocks / factor.max(1)).min(most);
    Allocation { extent: Extent::new(start, blocks.max(1)), mapped: run.mapped || blocks == 0 }
}
