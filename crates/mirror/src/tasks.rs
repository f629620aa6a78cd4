//! The requests of one queue, from submission to completion.
//!
//! A request locks its blocks. What changes something waits for its dirty bits, goes to every leg that takes writes, and is acknowledged when every leg that
//! is in sync has it and the record says which those are. What reads goes to one leg, and to the next where that fails.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use buf::{Buf, BufList, Pool};
use protocol::Instant;
use volume::{
    Allocation, ComparedWrite, Completion, Durability, Extent, Failure, Features, Operation, Outcome,
    Request, Tag, VolumeErrorKind,
};

use crate::compare::first_difference;
use crate::limits::BUSY;
use crate::members::{LegState, Medium, Membership};
use crate::planted::{Fault, planted};
use crate::ports::{Ended, Owner, Ports, Sent, on_leg};
use crate::range_locks::{Holder, LockMode};
use crate::shared::{Failed, Repair, Shared, State};
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

impl QueueParts<'_> {
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

/// A part of something that changes: what lies in one slab, on one leg.
#[derive(Debug)]
struct WritePart {
    extent: Extent,
    /// Where it is in the request's data.
    offset: usize,
    membership: Membership,
    end: Option<bool>,
    again_at: Option<Instant>,
}

#[derive(Debug)]
struct Task {
    tag: Tag,
    work: Work,
    extent: Extent,
    stage: Stage,
    begun: Instant,
    /// The dirty log knows of it.
    logged: bool,
    cancelled: bool,
    reads: Vec<ReadPart>,
    writes: Vec<WritePart>,
    /// When the first leg had done it.
    first: Option<Instant>,
    failure: Option<VolumeErrorKind>,
}

/// The requests of one queue.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    under_way: BTreeMap<u64, Task>,
    last: u64,
    ready: Vec<Completion>,
    /// No request has a deadline before.
    deadline: Option<Instant>,
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

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// When requests want to be looked at.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }

    fn look_at(&mut self, at: Instant) {
        self.deadline = Some(self.deadline.map_or(at, |deadline| deadline.min(at)));
    }

    /// Begins a request that fits the volume and is not empty.
    pub(crate) fn begin(&mut self, with: &mut QueueParts<'_>, request: Request) {
        let Request { tag, operation } = request;
        let extent = operation.extent().unwrap_or(Extent::new(0, 0));
        let Some(work) = Work::of(operation) else {
            return self.end(Completion::failed(tag, VolumeErrorKind::Unsupported));
        };
        self.last += 1;
        let number = self.last;
        let task = Task {
            tag,
            stage: Stage::Locking,
            begun: with.now,
            logged: false,
            cancelled: false,
            reads: Vec::new(),
            writes: Vec::new(),
            first: None,
            failure: None,
            work,
            extent,
        };
        let locked = {
            let mut state = with.shared.lock();
            let mode = task.work.lock_mode();
            let holder = Holder { queue: with.queue, number };
            mode.is_none_or(|mode| state.locks.lock(holder, extent, mode))
        };
        self.under_way.insert(number, task);
        if locked {
            self.granted(with, number);
        }
    }

    /// The request has its blocks.
    pub(crate) fn granted(&mut self, with: &mut QueueParts<'_>, number: u64) {
        self.with_task(with, number, |task, with| {
            if task.stage != Stage::Locking {
                return Next::Wait;
            }
            match task.work {
                Work::Flush => task.write(with, number),
                _ if task.work.changes() => task.log(with, number),
                _ => task.read(with, number),
            }
        });
    }

    fn with_task(
        &mut self,
        with: &mut QueueParts<'_>,
        number: u64,
        act: impl FnOnce(&mut Task, &mut QueueParts<'_>) -> Next,
    ) {
        let Some(mut task) = self.under_way.remove(&number) else { return };
        match act(&mut task, with) {
            Next::Wait => {
                if let Some(deadline) = task.deadline(with.shared.shape.timeout) {
                    self.look_at(deadline);
                }
                self.under_way.insert(number, task);
            }
            Next::End(result) => {
                task.release(with, number, result.is_ok());
                self.ready.push(Completion { tag: task.tag, result });
            }
        }
    }

    /// A leg has ended a part of a request.
    pub(crate) fn answered(&mut self, with: &mut QueueParts<'_>, number: u64, part: usize, ended: Ended) {
        self.with_task(with, number, |task, with| match task.stage {
            Stage::Reading => task.has_read(with, number, part, ended),
            _ => task.has_written(with, part, ended),
        });
    }

    /// Legs, log or record have changed, or it is time: every request looks what that means for it.
    pub(crate) fn look(&mut self, with: &mut QueueParts<'_>) {
        self.deadline = None;
        let numbers: Vec<u64> = self.under_way.keys().copied().collect();
        for number in numbers {
            self.with_task(with, number, |task, with| task.look(with, number));
        }
    }

    /// Asks that a request end soon: one that waits ends, one that reads is cancelled on its leg, one that writes goes on, as legs would differ.
    pub(crate) fn cancel(&mut self, with: &mut QueueParts<'_>, tag: Tag) {
        let found = self.under_way.iter().find(|(_, task)| task.tag == tag).map(|(number, _)| *number);
        let Some(number) = found else { return };
        self.with_task(with, number, |task, with| match task.stage {
            Stage::Locking | Stage::Logging(_) => Next::End(task.fail(VolumeErrorKind::Cancelled)),
            Stage::Reading => {
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
        for task in std::mem::take(&mut self.under_way).into_values() {
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

    /// Lets the blocks go, and the log know.
    fn release(&mut self, with: &mut QueueParts<'_>, number: u64, well: bool) {
        let mut state = with.shared.lock();
        if self.logged {
            state.log.end_write(self.extent, with.now);
            if !well && !self.writes.is_empty() {
                state.suspect(self.extent);
            }
        }
        if self.work.lock_mode().is_some() {
            state.unlock(Holder { queue: with.queue, number });
        }
    }

    fn deadline(&self, timeout: Duration) -> Option<Instant> {
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
            Stage::Reading => self.look_at_reads(with, number),
            Stage::Logging(failures) => {
                let state = with.shared.lock();
                let (ready, failed) = (state.log.is_durable(self.extent), state.log_failures != failures);
                let error = state.log_error.filter(|_| failed);
                drop(state);
                match error {
                    _ if ready => self.write(with, number),
                    Some(kind) => Next::End(self.fail(kind)),
                    None => Next::Wait,
                }
            }
            Stage::Writing => self.look_at_writes(with, number),
            Stage::Recording => self.acknowledge(with),
        }
    }

    // What reads.

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
            self.reads.push(ReadPart {
                extent: *extent,
                factor: 1,
                tried: 0,
                unreadable: Vec::new(),
                sent: None,
                again_at: None,
                failure: None,
                memory,
                outcome: None,
            });
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
        let in_sync = state.members.in_sync(placement.row(part.extent.start));
        // Where legs may differ all reads see the first one's blocks, unless those cannot be read.
        let membership = in_sync.into_iter().find(|membership| part.tried & (1 << membership.leg) == 0);
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
            let others = state.members.in_sync(row).into_iter().any(|other| other.leg != membership.leg);
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
                self.log(with, number)
            }
            _ => Next::End(self.fail(VolumeErrorKind::Media)),
        }
    }

    // What changes something.

    fn log(&mut self, with: &mut QueueParts<'_>, number: u64) -> Next {
        let mut state = with.shared.lock();
        if state.fenced {
            drop(state);
            return Next::End(self.fail(VolumeErrorKind::ReservationConflict));
        }
        self.stage = Stage::Logging(state.log_failures);
        self.logged = true;
        let durable = state.log.begin_write(self.extent, with.now);
        drop(state);
        if durable { self.write(with, number) } else { Next::Wait }
    }

    fn write(&mut self, with: &mut QueueParts<'_>, number: u64) -> Next {
        self.stage = Stage::Writing;
        let mut state = with.shared.lock();
        let refused =
            if state.fenced { Some(VolumeErrorKind::ReservationConflict) } else { state.members.stuck() };
        if let Some(kind) = refused {
            drop(state);
            return Next::End(self.fail(kind));
        }
        let placement = state.members.placement;
        let mut media: Vec<(u64, Medium)> = Vec::new();
        let size = with.shared.shape.geometry.block_size;
        let whole = self.extent;
        let pieces =
            placement.pieces(whole).map(|piece| (piece, state.members.writable(placement.row(piece.start))));
        let flush = matches!(self.work, Work::Flush);
        let pieces: Vec<_> =
            if flush { vec![(whole, state.members.all_writable())] } else { pieces.collect() };
        for (extent, memberships) in pieces {
            for membership in memberships {
                let leg = state.members.leg(membership.leg);
                let found = leg.and_then(|leg| Some((leg.member.unwrap_or(0), leg.medium.clone()?)));
                let Some((member, medium)) = found else { continue };
                state.members.begin(&[membership]);
                media.push((placement.block_on(member, extent.start), medium));
                let offset = bytes(extent.start - whole.start, size);
                self.writes.push(WritePart { extent, offset, membership, end: None, again_at: None });
            }
        }
        drop(state);
        for (index, (at, medium)) in media.into_iter().enumerate() {
            self.send_write(with, number, index, at, &medium);
        }
        self.look_at_writes(with, number)
    }

    fn send_write(&mut self, with: &mut QueueParts<'_>, number: u64, index: usize, at: u64, medium: &Medium) {
        let Some(part) = self.writes.get(index) else { return };
        let extent = on_leg(at, part.extent.blocks, medium.factor);
        let operation = match &self.work {
            Work::Write { data, durability } => {
                let len = bytes(part.extent.blocks, with.shared.shape.geometry.block_size);
                Operation::Write { extent, data: data.part(part.offset, len), durability: *durability }
            }
            Work::Zero { durability, may_unmap } => {
                Operation::WriteZeroes { extent, durability: *durability, may_unmap: *may_unmap }
            }
            // A leg whose discarded blocks may hold anything would differ from the others.
            Work::Discard if medium.volume.features().contains(Features::DISCARD) => {
                Operation::Discard { extent }
            }
            Work::Discard => {
                Operation::WriteZeroes { extent, durability: Durability::Cached, may_unmap: true }
            }
            _ => Operation::Flush,
        };
        with.ports.send(with.now, part.membership, Owner::Task { task: number, part: index }, operation);
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
            let has_other = state.members.in_sync(state.members.placement.row(part.extent.start)).len() > 1;
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
                let placement = state.members.placement;
                let leg = state.members.leg(part.membership.leg);
                let medium = leg.and_then(|leg| Some((leg.member.unwrap_or(0), leg.medium.clone()?)));
                let start = part.extent.start;
                drop(state);
                if let Some((member, medium)) = medium {
                    self.send_write(with, number, index, placement.block_on(member, start), &medium);
                }
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

/// What a leg said of its own blocks, in the mirror's, of which each has `factor` of them. Less than a block is said to have something behind it.
fn on_mirror(run: Allocation, start: u64, most: u64, factor: u64) -> Allocation {
    let blocks = (run.extent.blocks / factor.max(1)).min(most);
    Allocation { extent: Extent::new(start, blocks.max(1)), mapped: run.mapped || blocks == 0 }
}
