//! A core's queue of a cache: it takes each request through its steps, and works in the background.
//!
//! A request locks its blocks, is planned, goes in pieces to the two volumes, and ends when all of them have, or when a commit of the map or a flush has made it durable. What
//! each step means for data is in [`crate::state`]; here is only what happens when.

use std::sync::Arc;
use std::task::Waker;

use buf::{Account, Buf, BufList, Pool};
use protocol::Instant;
use volume::{
    Allocation, CacheMode, Completion, Durability, Extent, Failure, LeaveMode, OpenError, Operation, Outcome,
    PollList, Polled, QueueContext, QueueFull, Request, Tag, Volume, VolumeErrorKind, VolumeQueue, shape,
};

use crate::child::Child;
use crate::commit::Need;
use crate::directory::SlotId;
use crate::job::{Commit, CommitStage, DetachStage, Job, JobId, Release, Work, WriteBackStage};
use crate::limits::{INSERTIONS, OWN_MEMORY, RETRY, SPARE_JOBS, TICK, TURNS, WRITE_BACKS};
use crate::map_block::{self, Place};
use crate::numbers::ByNumber;
use crate::page_set::PageSet;
use crate::plan::{Piece, Side};
use crate::range_locks::{LockMode, Ticket};
use crate::shared::Shared;
use crate::state::{Detach, Route, State, Stream, Waits, Written, pinned};
use crate::streams::Streams;

/// The numbers of the two volumes in the list of what wants to be polled.
const FAST: usize = 0;
const CAPACITY: usize = 1;

/// What a request to one of the volumes belongs to.
#[derive(Debug, Clone, Copy)]
enum Flight {
    Piece {
        job: JobId,
        piece: usize,
    },
    /// A flush of the capacity volume, and how many writes there it covers.
    CapacityFlush {
        covers: u64,
    },
    /// A flush of the fast volume that tells whether it has lost anything before its path was in this state.
    FastCheck {
        path: u64,
    },
}

/// Whether what was read from the fast volume holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Belief {
    Certain,
    /// A flush is to say.
    Doubtful,
    Lost,
}

/// Jobs that have read from the fast volume what it may have lost, and whether a flush is under way that will say.
#[derive(Debug, Default)]
struct Doubts {
    jobs: Vec<JobId>,
    is_asking: bool,
}

/// A core's queue.
pub(crate) struct CacheQueue {
    id: u64,
    shared: Arc<Shared>,
    fast: Child,
    capacity: Child,
    polls: PollList,
    waker: Waker,
    jobs: ByNumber<JobId, Box<Job>>,
    /// Jobs that have ended, for the next ones.
    #[expect(clippy::vec_box, reason = "a box is what is kept")]
    spare: Vec<Box<Job>>,
    /// Jobs that wait for their locks.
    locking: ByNumber<Ticket, JobId>,
    flights: ByNumber<Tag, Flight>,
    last: u64,
    streams: Streams,
    account: Account,
    own: Pool,
    /// Jobs that wait for a commit or a flush, and those that wait for memory of the queue's own.
    settling: Vec<JobId>,
    starved: Vec<JobId>,
    flushes_capacity: bool,
    doubts: Doubts,
    insertions: usize,
    /// Lines that are being written back, and how many were since the last commit.
    write_backs: Vec<u64>,
    cleaned: usize,
    detaches: bool,
    ready: Vec<Completion>,
    /// Requests whose completion was not handed on.
    outstanding: usize,
    now: Instant,
    due: Option<Instant>,
    wanted: Vec<usize>,
    ended: Vec<Completion>,
    /// One of the volumes was asked for something since it was polled.
    asked: bool,
}

impl CacheQueue {
    pub(crate) fn open(shared: &Arc<Shared>, context: &QueueContext) -> Result<Self, OpenError> {
        let polls = PollList::new(2, context.waker.clone());
        let open = |volume: &Arc<dyn Volume>, index| {
            volume.open_queue(&context.with_waker(polls.waker(index))).map(Child::new)
        };
        let (fast, capacity) = (open(&shared.fast, FAST)?, open(&shared.capacity, CAPACITY)?);
        let (id, bypass, page) = {
            let mut state = shared.state.lock();
            (state.add_queue(context.waker.clone()), state.options.bypass, u64::from(state.layout.page))
        };
        let bypass = (bypass > 0).then(|| bypass.div_ceil(page.max(1)));
        Ok(Self {
            id,
            shared: Arc::clone(shared),
            fast,
            capacity,
            polls,
            waker: context.waker.clone(),
            jobs: ByNumber::default(),
            spare: Vec::new(),
            locking: ByNumber::default(),
            flights: ByNumber::default(),
            last: 0,
            streams: Streams::new(bypass),
            account: Account::new(&context.pool),
            own: Pool::new(OWN_MEMORY),
            settling: Vec::new(),
            starved: Vec::new(),
            flushes_capacity: false,
            doubts: Doubts::default(),
            insertions: 0,
            write_backs: Vec::new(),
            cleaned: 0,
            detaches: false,
            ready: Vec::new(),
            outstanding: 0,
            now: Instant::ZERO,
            due: None,
            wanted: Vec::new(),
            ended: Vec::new(),
            asked: false,
        })
    }

    fn next_id(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    // Requests come in.

    /// Takes a request that makes sense.
    fn take(&mut self, request: Request) {
        let Request { tag, operation } = request;
        let extent = operation.extent();
        if extent.is_some_and(|extent| extent.blocks == 0) {
            return self.complete(tag, Ok(nothing(operation)));
        }
        if operation.writes() && self.shared.state.lock().detach != Detach::No {
            return self.complete(tag, Err(Failure::of(operation, VolumeErrorKind::ShuttingDown)));
        }
        let mode = match &operation {
            Operation::Write { .. } | Operation::CompareAndWrite { .. }
                if self.shared.mode == CacheMode::Back =>
            {
                LockMode::Exclusive
            }
            operation if operation.writes() => LockMode::Alone,
            _ => LockMode::Shared,
        };
        let stream = |queue: &mut Self, extent| {
            let passes = queue.streams.passes(extent);
            if passes {
                queue.shared.state.lock().counts.bypassed += 1;
                Stream::Passes
            } else {
                Stream::No
            }
        };
        let work = match operation {
            Operation::Read { extent, into } => {
                Work::Read { extent, into: Some(into), stream: stream(self, extent) }
            }
            Operation::Write { extent, data, durability } => {
                Work::Write { extent, data, durability, stream: stream(self, extent) }
            }
            Operation::Flush => Work::Flush,
            Operation::Discard { extent } => Work::Release { extent, release: Release::Discard },
            Operation::WriteZeroes { extent, durability, may_unmap } => {
                Work::Release { extent, release: Release::Zero { durability, may_unmap } }
            }
            Operation::Compare { extent, data } => Work::Compare { extent, data, into: None },
            Operation::CompareAndWrite { extent, data, durability } => {
                Work::CompareAndWrite { extent, data, durability, into: None, equal: false }
            }
            Operation::Verify { extent } => Work::Verify { extent },
            Operation::QueryAllocation { extent } => Work::Query { extent },
            _ => return self.complete(tag, Err(VolumeErrorKind::Unsupported.into())),
        };
        let mut job = match self.spare.pop() {
            Some(mut spare) => {
                (spare.tag, spare.work) = (Some(tag), work);
                spare
            }
            None => Job::new(Some(tag), work),
        };
        let id = JobId(self.next_id());
        let Some(extent) = extent else { return self.start_flush(id, job) };
        let granted = {
            let mut state = self.shared.state.lock();
            state.last_request = state.last_request.max(self.now);
            if mode != LockMode::Shared {
                state.changing += 1;
                job.changes = true;
            }
            let (ticket, granted) = state.enter(self.id, extent, mode);
            job.ticket = Some(ticket);
            if !granted {
                self.locking.insert(ticket, id);
            }
            granted
        };
        self.jobs.insert(id, job);
        if granted {
            self.start(id);
        }
    }

    /// Begins a job whose blocks are locked, or begins it again.
    fn start(&mut self, id: JobId) {
        let Some(mut job) = self.jobs.remove(&id) else { return };
        job.pieces.clear();
        job.parts.clear();
        (job.fast_failure, job.capacity_failure, job.read, job.doubted) = (None, None, None, false);
        // Before anything is planned, as another core may find out meanwhile that the fast volume has lost something.
        job.fast_path = self.shared.fast_path();
        job.fast_losses = self.shared.state.lock().fast_losses;
        match &job.work {
            Work::Read { extent, .. }
            | Work::Compare { extent, .. }
            | Work::CompareAndWrite { extent, equal: false, .. } => {
                let extent = *extent;
                self.start_read(id, job, extent);
            }
            Work::Write { extent, data, durability, stream } => {
                let write = (*extent, data.clone(), *durability, *stream);
                self.start_write(id, job, write.0, &write.1, write.2, write.3);
            }
            Work::CompareAndWrite { extent, data, durability, .. } => {
                let write = (*extent, data.write.clone(), *durability);
                self.start_write(id, job, write.0, &write.1, write.2, Stream::No);
            }
            Work::Release { extent, release } => {
                let (extent, release) = (*extent, *release);
                self.start_release(id, job, extent, release);
            }
            Work::Verify { extent } => {
                let extent = *extent;
                self.start_verify(id, job, extent);
            }
            Work::Query { extent } => {
                let extent = *extent;
                self.start_query(id, job, extent);
            }
            Work::WriteBack { .. } => self.start_write_back(id, job),
            Work::Flush | Work::Insert { .. } | Work::Commit(_) | Work::Detach(_) => {
                self.end(job, Ok(Outcome::Done));
            }
        }
    }

    // To the volumes and back.

    /// Sends a job's only piece on its way: most reads and writes are one, and take no memory for a list.
    fn issue_one(&mut self, id: JobId, mut job: Box<Job>, pieces: Vec<Piece>, operation: Operation) {
        let side = pieces.first().map_or(Side::Capacity, |piece| piece.side);
        job.left = 1;
        job.pieces = pieces;
        job.flush_failures = self.shared.state.lock().flush_failures;
        self.jobs.insert(id, job);
        self.ask(side, Flight::Piece { job: id, piece: 0 }, operation);
    }

    /// Sends pieces on their way.
    fn issue(&mut self, id: JobId, mut job: Box<Job>, pieces: Vec<Piece>, operations: Vec<Operation>) {
        job.left = operations.len();
        job.pieces = pieces;
        job.flush_failures = self.shared.state.lock().flush_failures;
        let sides: Vec<Side> = job.pieces.iter().map(|piece| piece.side).collect();
        self.jobs.insert(id, job);
        for ((piece, side), operation) in sides.into_iter().enumerate().zip(operations) {
            self.ask(side, Flight::Piece { job: id, piece }, operation);
        }
    }

    fn ask(&mut self, side: Side, flight: Flight, operation: Operation) {
        let tag = Tag(self.next_id());
        self.flights.insert(tag, flight);
        let (child, index) = match side {
            Side::Fast => (&mut self.fast, FAST),
            Side::Capacity => (&mut self.capacity, CAPACITY),
        };
        child.ask(self.now, Request { tag, operation });
        self.polls.mark(index);
        self.asked = true;
    }

    fn landed(&mut self, side: Side, completion: Completion) {
        let Completion { tag, result } = completion;
        match self.flights.remove(&tag) {
            Some(Flight::Piece { job, piece }) => self.piece_landed(job, piece, side, result),
            Some(Flight::CapacityFlush { covers }) => {
                self.capacity_flushed(covers, result.err().map(VolumeErrorKind::from));
            }
            Some(Flight::FastCheck { path }) => {
                self.fast_checked(path, result.err().map(VolumeErrorKind::from));
            }
            None => {}
        }
    }

    fn piece_landed(&mut self, id: JobId, piece: usize, side: Side, result: Result<Outcome, Failure>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let whole = job.pieces.len() == 1;
        let place = job.pieces.get(piece).copied();
        match (result, place) {
            (Ok(Outcome::Data(data)), Some(place)) => match &mut job.work {
                Work::WriteBack { data: read, .. } => read.push((place.extent, data)),
                _ if whole => job.read = Some(data),
                Work::Read { into, .. } | Work::Compare { into, .. } | Work::CompareAndWrite { into, .. } => {
                    let target = into.as_mut().and_then(|into| into.get_mut(place.offset..));
                    target.map(|target| data.copy_to(target));
                }
                _ => {}
            },
            (Ok(Outcome::Allocation(run)), _) => job.allocation = Some(run),
            (Ok(_), _) => {}
            (Err(Failure { kind, memory }), _) => {
                match side {
                    Side::Fast => job.fast_failure = Some(kind),
                    Side::Capacity => job.capacity_failure = Some(kind),
                }
                match &mut job.work {
                    Work::Read { into, .. }
                    | Work::Compare { into, .. }
                    | Work::CompareAndWrite { into, .. }
                        if whole =>
                    {
                        *into = memory;
                    }
                    _ => {}
                }
            }
        }
        job.left = job.left.saturating_sub(1);
        if job.left > 0 {
            return;
        }
        self.judge(id);
    }

    /// Goes on with a job whose pieces have landed, if what it has read may be believed.
    fn judge(&mut self, id: JobId) {
        match self.belief(id) {
            Belief::Certain => {}
            Belief::Doubtful => {
                self.doubts.jobs.push(id);
                return self.check_fast();
            }
            Belief::Lost => {
                if let Some(job) = self.jobs.get_mut(&id) {
                    (job.fast_failure, job.doubted) = (Some(VolumeErrorKind::Media), true);
                }
            }
        }
        self.moved(id);
    }

    /// Whether what a job has read from the fast volume is what was there when it was planned. Since that was reached in another way it may be older, and even another line's,
    /// if the volume has begun anew without what no flush had covered.
    fn belief(&self, id: JobId) -> Belief {
        let Some(job) = self.jobs.get(&id) else { return Belief::Certain };
        let reads = match &job.work {
            Work::Read { .. } | Work::Compare { .. } | Work::CompareAndWrite { equal: false, .. } => true,
            Work::WriteBack { stage, .. } => *stage == WriteBackStage::Read,
            _ => false,
        };
        if !reads || job.fast_failure.is_some() || job.pieces.iter().all(|piece| piece.side != Side::Fast) {
            return Belief::Certain;
        }
        let path = self.shared.fast_path();
        let state = self.shared.state.lock();
        #[cfg(test)]
        if state.planted == crate::planted::Planted::TrustsFastAnew {
            return Belief::Certain;
        }
        match path == state.trusted_path {
            _ if job.fast_losses != state.fast_losses => Belief::Lost,
            true => Belief::Certain,
            false if state.is_working() => Belief::Doubtful,
            false => Belief::Lost,
        }
    }

    /// Asks the fast volume whether it has lost anything: a flush fails if it has.
    fn check_fast(&mut self) {
        if !std::mem::replace(&mut self.doubts.is_asking, true) {
            let path = self.shared.fast_path();
            self.ask(Side::Fast, Flight::FastCheck { path }, Operation::Flush);
        }
    }

    fn fast_checked(&mut self, path: u64, failure: Option<VolumeErrorKind>) {
        self.doubts.is_asking = false;
        let lost = failure.unwrap_or(VolumeErrorKind::Media);
        let used = self.shared.state.lock().handle_fast_checked(path, failure.is_some());
        if !used {
            // Where it had failed already this says nothing new.
            self.shared.fail_fast(lost);
        }
        for id in core::mem::take(&mut self.doubts.jobs) {
            self.judge(id);
        }
    }

    /// True if a flush of the capacity volume has failed since the job's pieces were sent there.
    fn may_be_lost(&self, job: &Job) -> bool {
        job.flush_failures != self.shared.state.lock().flush_failures
    }

    /// All pieces of a job have landed.
    fn moved(&mut self, id: JobId) {
        let Some(mut job) = self.jobs.remove(&id) else { return };
        if let Some(kind) = job.fast_failure.filter(|_| !job.doubted) {
            self.shared.fail_fast(kind);
        }
        let writes = match &job.work {
            Work::Write { .. } | Work::CompareAndWrite { equal: true, .. } | Work::Release { .. } => true,
            Work::WriteBack { stage, .. } => *stage == WriteBackStage::Write,
            _ => false,
        };
        if writes && self.may_be_lost(&job) && job.pieces.iter().any(|piece| piece.side == Side::Capacity) {
            job.capacity_failure.get_or_insert(VolumeErrorKind::Media);
        }
        match &job.work {
            Work::Read { .. } | Work::Compare { .. } | Work::CompareAndWrite { equal: false, .. } => {
                self.read_moved(id, job);
            }
            Work::Write { durability, .. } | Work::CompareAndWrite { durability, .. } => {
                let durability = *durability;
                self.write_moved(id, job, durability);
            }
            Work::Release { extent, release } => {
                let (extent, release) = (*extent, *release);
                self.release_moved(id, job, extent, release);
            }
            Work::Verify { .. } => {
                let failure = job.fast_failure.map(|_| VolumeErrorKind::Media).or(job.capacity_failure);
                self.end(job, failure.map_or(Ok(Outcome::Done), |kind| Err(kind.into())));
            }
            Work::Query { .. } => self.query_moved(job),
            Work::Insert { .. } => self.insert_moved(job),
            Work::WriteBack { .. } => self.write_back_moved(id, job),
            Work::Commit(_) => self.commit_moved(id, job),
            Work::Detach(stage) => {
                let stage = *stage;
                self.detach_moved(id, job, stage);
            }
            Work::Flush => self.end(job, Ok(Outcome::Done)),
        }
    }

    /// Ends a job: what it holds is free for others.
    fn end(&mut self, mut job: Box<Job>, result: Result<Outcome, Failure>) {
        {
            let mut state = self.shared.state.lock();
            job.pins.drain(..).for_each(|id| state.directory.unpin(id));
            if let Some(ticket) = job.ticket.take() {
                state.leave(ticket);
            }
            if job.changes {
                state.changing = state.changing.saturating_sub(1);
                if state.changing == 0 && state.detach.is_wanted() {
                    state.wake_queues();
                }
            }
        }
        if let Some(tag) = job.tag {
            self.complete(tag, result);
        }
        if self.spare.len() < SPARE_JOBS {
            job.empty();
            self.spare.push(job);
        }
    }

    fn complete(&mut self, tag: Tag, result: Result<Outcome, Failure>) {
        self.ready.push(Completion { tag, result });
        self.waker.wake_by_ref();
    }

    // Reads.

    fn start_read(&mut self, id: JobId, mut job: Box<Job>, extent: Extent) {
        let list = core::mem::take(&mut job.pieces);
        let planned = self.shared.state.lock().plan_read(extent, &mut job.pins, list);
        let pieces = match planned {
            Ok(pieces) => pieces,
            Err(kind) => {
                let memory = match &mut job.work {
                    Work::Read { into, .. } => into.take(),
                    _ => None,
                };
                return self.end(job, Err(Failure { kind, memory }));
            }
        };
        if let ([piece], Work::Read { into, .. }) = (pieces.as_slice(), &mut job.work)
            && let Some(into) = into.take()
        {
            let operation = Operation::Read { extent: piece.extent, into };
            return self.issue_one(id, job, pieces, operation);
        }
        if let Some(buffers) = self.memory_for(&mut job, &pieces) {
            let read = |(piece, into): (&Piece, Buf)| Operation::Read { extent: piece.extent, into };
            let operations = pieces.iter().zip(buffers).map(read).collect();
            return self.issue(id, job, pieces, operations);
        }
        let mut state = self.shared.state.lock();
        job.pins.drain(..).for_each(|pin| state.directory.unpin(pin));
        drop(state);
        self.jobs.insert(id, job);
        self.starved.push(id);
    }

    /// Memory for the pieces of a read: all of it or none, so that no two wait for each other. One piece is read into the request's own.
    fn memory_for(&mut self, job: &mut Job, pieces: &[Piece]) -> Option<Vec<Buf>> {
        let bytes = pieces.iter().map(|piece| piece.bytes).sum();
        let own = &self.own;
        let into = match &mut job.work {
            Work::Read { into, .. } => into,
            Work::Compare { into, .. } | Work::CompareAndWrite { into, .. } => {
                if into.is_none() {
                    *into = Some(own.take(bytes)?);
                }
                into
            }
            _ => return None,
        };
        if pieces.len() == 1 {
            return into.take().map(|into| vec![into]);
        }
        let buffers: Option<Vec<Buf>> = pieces.iter().map(|piece| own.take(piece.bytes)).collect();
        if buffers.is_none()
            && let Work::Compare { into, .. } | Work::CompareAndWrite { into, .. } = &mut job.work
        {
            *into = None;
        }
        buffers
    }

    fn read_moved(&mut self, id: JobId, mut job: Box<Job>) {
        {
            let mut state = self.shared.state.lock();
            job.pins.drain(..).for_each(|pin| state.directory.unpin(pin));
        }
        let is_read = matches!(job.work, Work::Read { .. });
        let (Work::Read { into, .. } | Work::Compare { into, .. } | Work::CompareAndWrite { into, .. }) =
            &mut job.work
        else {
            return;
        };
        if let Some(kind) = job.capacity_failure {
            let memory = into.take().filter(|_| is_read);
            return self.end(job, Err(Failure { kind, memory }));
        }
        if job.fast_failure.is_some() {
            if let (true, None, Some(data)) = (is_read, &into, job.read.take()) {
                *into = self.own.take(data.len());
            }
            if is_read && into.is_none() {
                return self.end(job, Err(VolumeErrorKind::Media.into()));
            }
            // Without the fast volume, from the capacity volume if that has it.
            self.jobs.insert(id, job);
            return self.start(id);
        }
        let data = job.read.take().or_else(|| into.take().map(|into| into.freeze().into()));
        let Some(data) = data else { return self.end(job, Err(VolumeErrorKind::Media.into())) };
        match &mut job.work {
            Work::Read { extent, stream, .. } => {
                let (extent, stream) = (*extent, *stream);
                if job.pieces.iter().any(|piece| piece.side == Side::Capacity) && !self.may_be_lost(&job) {
                    self.insert(extent, stream, &data);
                }
                self.end(job, Ok(Outcome::Data(data)));
            }
            Work::Compare { data: expected, .. } => {
                let result = compare(&data, expected);
                self.end(job, result.map(|()| Outcome::Done).map_err(Failure::from));
            }
            Work::CompareAndWrite { data: lists, equal, .. } => match compare(&data, &lists.compare) {
                Ok(()) => {
                    *equal = true;
                    self.jobs.insert(id, job);
                    self.start(id);
                }
                Err(kind) => self.end(job, Err(kind.into())),
            },
            _ => {}
        }
    }

    /// Puts what was read into the cache, if it is admitted and there is memory for a copy. The read ends at once, and nobody waits for the insertion: who writes
    /// meanwhile spoils it.
    fn insert(&mut self, extent: Extent, stream: Stream, data: &BufList) {
        if self.insertions >= INSERTIONS {
            return;
        }
        let fast_path = self.shared.fast_path();
        let (planned, layout) = {
            let mut state = self.shared.state.lock();
            (state.plan_insertion(extent, stream), state.layout)
        };
        let page = wire::index(u64::from(layout.page));
        let (mut slots, mut pins, mut pieces, mut operations) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut left_out = Vec::new();
        for (part, slot) in planned {
            let bytes = wire::index(u64::from(part.count)) * page;
            let Some(mut copy) = self.account.take(bytes) else {
                left_out.push((slot, part.pages()));
                continue;
            };
            data.part(wire::index(part.before) * page, bytes).copy_to(&mut copy);
            let extent = Extent::new(layout.page_at(slot.0, part.first), layout.blocks(part.count));
            pieces.push(Piece { side: Side::Fast, extent, offset: 0, bytes });
            let data = copy.freeze().into();
            operations.push(Operation::Write { extent, data, durability: Durability::Cached });
            slots.push((slot, part.pages()));
            pins.push(slot);
        }
        if !left_out.is_empty() {
            self.account.stop_waiting();
        }
        {
            let mut state = self.shared.state.lock();
            for (slot, pages) in left_out {
                state.inserted(slot, pages, false);
                state.directory.unpin(slot);
            }
            if slots.is_empty() {
                return;
            }
            state.changing += 1;
        }
        self.insertions += 1;
        let mut insertion = Job::new(None, Work::Insert { slots });
        (insertion.pins, insertion.changes, insertion.fast_path) = (pins, true, fast_path);
        let id = JobId(self.next_id());
        self.issue(id, insertion, pieces, operations);
    }

    fn insert_moved(&mut self, job: Box<Job>) {
        self.insertions = self.insertions.saturating_sub(1);
        if let Work::Insert { slots } = &job.work {
            let stayed = job.fast_path == self.shared.fast_path();
            let (mut state, well) = (self.shared.state.lock(), stayed && job.fast_failure.is_none());
            for (slot, pages) in slots {
                state.inserted(*slot, *pages, well);
            }
        }
        self.end(job, Ok(Outcome::Done));
    }

    // Writes.

    #[expect(clippy::too_many_arguments, reason = "what a write is, and whose")]
    fn start_write(
        &mut self,
        id: JobId,
        mut job: Box<Job>,
        extent: Extent,
        data: &BufList,
        durability: Durability,
        stream: Stream,
    ) {
        let pieces = {
            let mut state = self.shared.state.lock();
            match state.plan_write(extent, stream) {
                Ok(parts) => {
                    job.pins.extend(pinned(&parts));
                    job.parts = parts;
                    state.write_pieces(&job.parts)
                }
                Err(kind) => {
                    drop(state);
                    return self.end(job, Err(kind.into()));
                }
            }
        };
        #[cfg(test)]
        let durability = match self.shared.state.lock().planted {
            crate::planted::Planted::AcknowledgesEarly => Durability::Cached,
            _ => durability,
        };
        let write = |piece: &Piece| Operation::Write {
            extent: piece.extent,
            data: data.part(piece.offset, piece.bytes),
            durability: if piece.side == Side::Capacity { durability } else { Durability::Cached },
        };
        let operations = pieces.iter().map(write).collect();
        self.issue(id, job, pieces, operations);
    }

    fn write_moved(&mut self, id: JobId, mut job: Box<Job>, durability: Durability) {
        let how = Written {
            fast: job.fast_failure.is_none(),
            fast_stayed: job.fast_path == self.shared.fast_path(),
            capacity: job.capacity_failure.is_none(),
        };
        let (waits, working) = {
            let mut state = self.shared.state.lock();
            job.pins.drain(..).for_each(|pin| state.directory.unpin(pin));
            (state.written(&job.parts, how), state.is_working())
        };
        if let Some(kind) = job.capacity_failure {
            return self.end(job, Err(kind.into()));
        }
        if !(how.fast && working) && job.parts.iter().any(|part| matches!(part.way, Route::Back(_))) {
            // The fast volume has it, or not, and is not used any more. To the capacity volume, as far as nothing dirty would hide it.
            self.jobs.insert(id, job);
            return self.start(id);
        }
        self.changed(id, job, durability, waits);
    }

    /// The two volumes have a change, though maybe not durably.
    fn changed(&mut self, id: JobId, mut job: Box<Job>, durability: Durability, waits: Waits) {
        let state = self.shared.state.lock();
        if waits.flush {
            // The blocks stay locked meanwhile: nobody sees the one content, then the other.
            (job.mark, job.supersedes) = (Some(state.capacity_done), true);
            drop(state);
            return self.settle(id, job);
        }
        let need = waits.commit.then(|| state.commits.need());
        drop(state);
        self.settle_durable(id, job, durability, need);
    }

    /// The capacity volume durably has what takes the place of dirty pages, or has failed: then those stay.
    fn supersede_settled(&mut self, id: JobId, mut job: Box<Job>, failure: Option<VolumeErrorKind>) {
        if let Some(kind) = failure {
            return self.end(job, Err(kind.into()));
        }
        (job.mark, job.supersedes) = (None, false);
        let (extent, durability, list) = match &job.work {
            Work::Write { extent, durability, .. } | Work::CompareAndWrite { extent, durability, .. } => {
                (*extent, *durability, Some(job.parts.as_slice()))
            }
            Work::Release { extent, release: Release::Zero { durability, .. } } => {
                (*extent, *durability, None)
            }
            Work::Release { extent, .. } => (*extent, Durability::Cached, None),
            _ => return self.end(job, Ok(Outcome::Done)),
        };
        let need = {
            let mut state = self.shared.state.lock();
            state.supersede_all(extent, list);
            state.commits.need()
        };
        self.settle_durable(id, job, durability, Some(need));
    }

    /// Ends what has changed blocks, once it is durable if that was wished. Others may have the blocks at once.
    fn settle_durable(&mut self, id: JobId, mut job: Box<Job>, durability: Durability, need: Option<Need>) {
        #[cfg(test)]
        let need =
            need.filter(|_| self.shared.state.lock().planted != crate::planted::Planted::AcknowledgesEarly);
        if durability == Durability::Cached || need.is_none() {
            return self.end(job, Ok(Outcome::Done));
        }
        if let Some(ticket) = job.ticket.take() {
            self.shared.state.lock().leave(ticket);
        }
        job.need = need;
        self.settle(id, job);
    }

    fn start_release(&mut self, id: JobId, job: Box<Job>, extent: Extent, release: Release) {
        let refused = {
            let mut state = self.shared.state.lock();
            state.spoil_all(extent);
            !state.is_working() && state.holds_any(extent)
        };
        if refused {
            return self.end(job, Err(VolumeErrorKind::Media.into()));
        }
        let operation = match release {
            Release::Discard => Operation::Discard { extent },
            Release::Zero { durability, may_unmap } => {
                Operation::WriteZeroes { extent, durability, may_unmap }
            }
        };
        let piece = Piece { side: Side::Capacity, extent, offset: 0, bytes: 0 };
        self.issue(id, job, vec![piece], vec![operation]);
    }

    fn release_moved(&mut self, id: JobId, job: Box<Job>, extent: Extent, release: Release) {
        // Where a discard may do nothing, what is dirty must not give way to what was there before it.
        let zeroes = self.shared.features().contains(volume::Features::DISCARD);
        let (drops_dirty, durability) = match release {
            Release::Discard => (zeroes, Durability::Cached),
            Release::Zero { durability, .. } => (true, durability),
        };
        let done = job.capacity_failure.is_none();
        let waits = self.shared.state.lock().released(extent, done, drops_dirty);
        match job.capacity_failure {
            Some(kind) => self.end(job, Err(kind.into())),
            None => self.changed(id, job, durability, waits),
        }
    }

    fn start_flush(&mut self, id: JobId, mut job: Box<Job>) {
        let lost = {
            let mut state = self.shared.state.lock();
            state.last_request = state.last_request.max(self.now);
            let back = self.shared.mode == CacheMode::Back || !state.commits.is_settled();
            job.need = back.then(|| state.commits.need());
            #[cfg(test)]
            if state.planted == crate::planted::Planted::FlushWithoutCommit {
                job.need = None;
            }
            (job.mark, job.flush_failures) = (Some(state.capacity_done), state.flush_failures);
            if state.has_lost() { Some(VolumeErrorKind::Media) } else { state.take_untold(self.id) }
        };
        if let Some(kind) = lost {
            return self.end(job, Err(kind.into()));
        }
        self.settle(id, job);
    }

    // What is only asked.

    fn start_verify(&mut self, id: JobId, mut job: Box<Job>, extent: Extent) {
        let planned = self.shared.state.lock().plan_verify(extent, &mut job.pins);
        match planned {
            Ok(pieces) => {
                let operations =
                    pieces.iter().map(|piece| Operation::Verify { extent: piece.extent }).collect();
                self.issue(id, job, pieces, operations);
            }
            Err(kind) => self.end(job, Err(kind.into())),
        }
    }

    fn start_query(&mut self, id: JobId, job: Box<Job>, extent: Extent) {
        let (blocks, dirty) = self.shared.state.lock().dirty_run(extent);
        let extent = Extent::new(extent.start, blocks);
        if dirty {
            return self.end(job, Ok(Outcome::Allocation(Allocation { extent, mapped: true })));
        }
        let piece = Piece { side: Side::Capacity, extent, offset: 0, bytes: 0 };
        self.issue(id, job, vec![piece], vec![Operation::QueryAllocation { extent }]);
    }

    fn query_moved(&mut self, mut job: Box<Job>) {
        let result = match (job.capacity_failure, job.allocation.take()) {
            (Some(kind), _) => Err(kind.into()),
            (None, Some(run)) => Ok(Outcome::Allocation(run)),
            (None, None) => Err(VolumeErrorKind::Media.into()),
        };
        self.end(job, result);
    }

    // Waiting for what makes things durable.

    fn settle(&mut self, id: JobId, job: Box<Job>) {
        self.jobs.insert(id, job);
        self.settling.push(id);
        self.check_settling();
    }

    /// Goes on with what waits for nothing any more, and sees that what others wait for is under way.
    fn check_settling(&mut self) {
        let (mut flush, mut commit) = (false, None);
        for id in core::mem::take(&mut self.settling) {
            let Some(job) = self.jobs.get(&id) else { continue };
            let state = self.shared.state.lock();
            let wants_flush = job.mark.is_some_and(|mark| mark > state.capacity_flushed);
            let unmet = job.need.filter(|need| !state.commits.meets(*need));
            let (working, lost) = (state.is_working(), state.has_lost());
            let unflushed = job.mark.is_some() && job.flush_failures != state.flush_failures;
            drop(state);
            let failure = match job.capacity_failure {
                Some(kind) => Some(kind),
                None if unflushed => Some(VolumeErrorKind::Media),
                None if unmet.is_some() && lost => Some(VolumeErrorKind::Media),
                None => None,
            };
            let waits = wants_flush || (unmet.is_some() && working);
            if failure.is_none() && waits {
                flush |= wants_flush;
                commit = commit.or(unmet.filter(|_| working));
                self.settling.push(id);
            } else if let Some(job) = self.jobs.remove(&id) {
                self.settled(id, job, failure);
            }
        }
        if flush && !self.flushes_capacity {
            self.flushes_capacity = true;
            let covers = self.shared.state.lock().capacity_done;
            self.ask(Side::Capacity, Flight::CapacityFlush { covers }, Operation::Flush);
        }
        if let Some(need) = commit {
            self.begin_commit(need);
        }
    }

    fn settled(&mut self, id: JobId, job: Box<Job>, failure: Option<VolumeErrorKind>) {
        match &job.work {
            _ if job.supersedes => self.supersede_settled(id, job, failure),
            Work::WriteBack { .. } => self.write_back_settled(job, failure),
            Work::Detach(_) => self.detach_settled(id, job, failure),
            _ => self.end(job, failure.map_or(Ok(Outcome::Done), |kind| Err(kind.into()))),
        }
    }

    fn capacity_flushed(&mut self, covers: u64, failure: Option<VolumeErrorKind>) {
        self.flushes_capacity = false;
        match failure {
            None => {
                let mut state = self.shared.state.lock();
                state.capacity_flushed = state.capacity_flushed.max(covers);
            }
            Some(kind) => {
                let mut told = None;
                for id in &self.settling {
                    if let Some(job) =
                        self.jobs.get_mut(id).filter(|job| job.mark.is_some_and(|mark| mark <= covers))
                    {
                        job.capacity_failure = Some(kind);
                        told = told.or(matches!(job.work, Work::Flush).then_some(self.id));
                    }
                }
                self.shared.state.lock().capacity_flush_failed(kind, told);
            }
        }
        self.check_settling();
    }

    // Commits of the map.

    fn begin_commit(&mut self, need: Need) {
        let mut state = self.shared.state.lock();
        let Some(batch) = state.commits.begin(need) else { return };
        let (layout, cache, sequence) = (state.layout, state.superblock.cache, state.commits.begun());
        let (mut says, mut blocks) = (Vec::new(), Vec::new());
        for (_, index) in &batch.blocks {
            let slots = layout.slots_of(*index);
            let entries: Vec<_> = slots.clone().map(|slot| state.directory.entry(SlotId(slot))).collect();
            for (slot, entry) in slots.zip(&entries) {
                let slot = SlotId(slot);
                state.directory.add_on_media(slot, entry.dirty);
                says.push((slot, entry.dirty));
            }
            let place = Place { cache, index: *index };
            let size = wire::index(u64::from(layout.block));
            blocks.push((
                layout.map_block(*index),
                map_block::encode(place, sequence, entries.into_iter(), size),
            ));
        }
        #[cfg(test)]
        let map_first = state.planted == crate::planted::Planted::MapBeforeData;
        drop(state);
        self.cleaned = 0;
        let commit = Commit { batch, says, blocks, stage: CommitStage::Data };
        let job = Job::new(None, Work::Commit(Box::new(commit)));
        let id = JobId(self.next_id());
        #[cfg(test)]
        if map_first {
            return self.commit_map(id, job);
        }
        self.commit_flush(id, job, CommitStage::Data);
    }

    fn commit_flush(&mut self, id: JobId, mut job: Box<Job>, next: CommitStage) {
        if let Work::Commit(commit) = &mut job.work {
            commit.stage = next;
        }
        let piece = Piece { side: Side::Fast, extent: Extent::new(0, 0), offset: 0, bytes: 0 };
        self.issue(id, job, vec![piece], vec![Operation::Flush]);
    }

    /// Writes the map blocks. One alone is written durably, several are flushed together.
    fn commit_map(&mut self, id: JobId, mut job: Box<Job>) {
        let Work::Commit(commit) = &mut job.work else { return };
        commit.stage = CommitStage::Map;
        let blocks = core::mem::take(&mut commit.blocks);
        let durability = if blocks.len() == 1 { Durability::Durable } else { Durability::Cached };
        let (mut pieces, mut operations) = (Vec::new(), Vec::new());
        for (start, bytes) in blocks {
            let extent = Extent::new(start, 1);
            pieces.push(Piece { side: Side::Fast, extent, offset: 0, bytes: bytes.len() });
            let data = Buf::from(bytes).freeze().into();
            operations.push(Operation::Write { extent, data, durability });
        }
        if operations.is_empty() {
            return self.commit_done(job);
        }
        self.issue(id, job, pieces, operations);
    }

    fn commit_moved(&mut self, id: JobId, job: Box<Job>) {
        // Of two flushes of a volume that has begun anew only one need fail, and that may have been another one than the commit's own.
        if job.fast_failure.is_some() || !self.shared.state.lock().is_working() {
            return self.commit_failed(job);
        }
        let Work::Commit(commit) = &job.work else { return };
        #[cfg(test)]
        if self.shared.state.lock().planted == crate::planted::Planted::MapBeforeData {
            return match commit.stage {
                CommitStage::Map => self.commit_flush(id, job, CommitStage::Fence),
                _ => self.commit_done(job),
            };
        }
        match commit.stage {
            CommitStage::Data => self.commit_map(id, job),
            CommitStage::Map if job.pieces.len() > 1 => self.commit_flush(id, job, CommitStage::Fence),
            CommitStage::Map | CommitStage::Fence => self.commit_done(job),
        }
    }

    fn commit_done(&mut self, job: Box<Job>) {
        let Work::Commit(commit) = job.work else { return };
        let mut state = self.shared.state.lock();
        for (slot, dirty) in &commit.says {
            state.directory.set_on_media(*slot, *dirty);
        }
        state.commits.end(&commit.batch);
        state.wake_queues();
        drop(state);
        self.check_settling();
    }

    /// The fast volume has failed: each that waits learns for itself what that means.
    fn commit_failed(&mut self, job: Box<Job>) {
        let Work::Commit(commit) = job.work else { return };
        let mut state = self.shared.state.lock();
        state.commits.abandon(commit.batch);
        state.wake_queues();
        drop(state);
        self.check_settling();
    }

    // Writing back.

    /// Begins what is to be done though nobody asks. One queue does it at a time; the others are woken when it has nothing more to do.
    fn background(&mut self) {
        self.due = None;
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state.lock();
        let mine = state.write_back.by == Some(self.id);
        if state.detach == Detach::Below && shared.is_left_below() {
            state.detach = Detach::Done;
            state.wake_queues();
            shared.listeners.wake();
        }
        let (detaching, keeps_dirty) = match state.detach {
            Detach::Wanted { keeps_dirty } => (true, keeps_dirty),
            _ => (false, false),
        };
        let dirty = state.directory.dirty_lines();
        let nothing = (dirty == 0 && state.commits.is_settled() && !detaching) || state.has_lost();
        if nothing || !state.is_working() || matches!(state.detach, Detach::Below | Detach::Done) {
            if mine {
                state.write_back.by = None;
            }
            return;
        }
        if *state.write_back.by.get_or_insert(self.id) != self.id {
            return;
        }
        if let Some(not_before) = state.write_back.not_before.filter(|not_before| *not_before > self.now) {
            self.due = Some(not_before);
            return;
        }
        let idle_from = state.last_request + state.options.idle;
        let all = detaching || self.now >= idle_from || self.shared.mode == CacheMode::Through;
        let count = match (keeps_dirty, all) {
            (true, _) => 0,
            (false, true) => WRITE_BACKS,
            (false, false) => pressure(&state, dirty),
        };
        let mut begun = Vec::new();
        while self.write_backs.len() < count {
            let cursor = state.write_back.cursor;
            let from = state.directory.dirty_from(cursor).next();
            let Some((line, slot)) = from.or_else(|| state.directory.dirty_from(0).next()) else { break };
            if self.write_backs.contains(&line) {
                break;
            }
            state.write_back.cursor = line + 1;
            self.write_backs.push(line);
            begun.push((line, slot));
        }
        let commits = !state.commits.is_settled()
            && (self.cleaned >= WRITE_BACKS || (self.write_backs.is_empty() && (all || self.cleaned > 0)));
        let need = commits.then(|| state.commits.need());
        let still = state.changing == 0 && self.write_backs.is_empty() && state.commits.is_settled();
        let detach = detaching && (dirty == 0 || keeps_dirty) && still;
        drop(state);
        for (line, slot) in begun {
            self.begin_write_back(line, slot);
        }
        if let Some(need) = need {
            self.begin_commit(need);
        }
        if detach && !self.detaches {
            self.begin_detach();
        }
        // What is under way wakes the queue when it ends.
        if self.write_backs.is_empty() {
            self.due = Some(if count > 0 { self.now + TICK } else { idle_from });
        }
    }

    fn begin_write_back(&mut self, line: u64, slot: SlotId) {
        let work = Work::WriteBack {
            line,
            slot,
            pages: PageSet::NONE,
            data: Vec::new(),
            stage: WriteBackStage::Read,
        };
        let mut job = Job::new(None, work);
        let id = JobId(self.next_id());
        let granted = {
            let mut state = self.shared.state.lock();
            let pages = u64::from(state.layout.pages());
            let (ticket, granted) =
                state.enter(self.id, Extent::new(line * pages, pages), LockMode::WriteBack);
            job.ticket = Some(ticket);
            if !granted {
                self.locking.insert(ticket, id);
            }
            granted
        };
        self.jobs.insert(id, job);
        if granted {
            self.start(id);
        }
    }

    /// The line is locked: reads what of it is dirty.
    fn start_write_back(&mut self, id: JobId, mut job: Box<Job>) {
        let Work::WriteBack { line, slot, pages, .. } = &mut job.work else { return };
        let (mut pieces, mut operations) = (Vec::new(), Vec::new());
        {
            let mut state = self.shared.state.lock();
            *pages = state.begin_write_back(*line, *slot);
            if !pages.is_empty() {
                state.directory.pin(*slot);
                job.pins.push(*slot);
            }
            let layout = state.layout;
            for (first, count) in pages.runs() {
                let extent = Extent::new(layout.page_at(slot.0, first), layout.blocks(count));
                let bytes = wire::index(u64::from(count) * u64::from(layout.page));
                let Some(into) = self.account.take(bytes) else { break };
                pieces.push(Piece { side: Side::Fast, extent, offset: wire::index(u64::from(first)), bytes });
                operations.push(Operation::Read { extent, into });
            }
        }
        if operations.len() < pages.runs().count() {
            // Later, when there is memory.
            self.account.stop_waiting();
            return self.end_write_back(job);
        }
        if operations.is_empty() {
            return self.end_write_back(job);
        }
        self.issue(id, job, pieces, operations);
    }

    fn write_back_moved(&mut self, id: JobId, mut job: Box<Job>) {
        let failure = job.capacity_failure;
        let Work::WriteBack { line, data, stage, .. } = &mut job.work else { return };
        if job.fast_failure.is_some() {
            return self.end_write_back(job);
        }
        match (*stage, failure) {
            (WriteBackStage::Read, _) => {
                *stage = WriteBackStage::Write;
                let (line, read) = (*line, core::mem::take(data));
                let places = core::mem::take(&mut job.pieces);
                let layout = self.shared.state.lock().layout;
                let (mut pieces, mut operations) = (Vec::new(), Vec::new());
                for (from, data) in read {
                    let Some(place) = places.iter().find(|place| place.extent == from) else { continue };
                    let start = line * u64::from(layout.pages()) + wire::widen(place.offset);
                    let extent = Extent::new(start, wire::widen(place.bytes) / u64::from(layout.page.max(1)));
                    pieces.push(Piece { side: Side::Capacity, extent, offset: 0, bytes: place.bytes });
                    operations.push(Operation::Write { extent, data, durability: Durability::Cached });
                }
                self.issue(id, job, pieces, operations);
            }
            (_, Some(kind)) => {
                self.shared.state.lock().capacity_done += 1;
                self.write_back_failed(job, kind);
            }
            (_, None) => {
                *stage = WriteBackStage::Flush;
                let mut state = self.shared.state.lock();
                state.capacity_done += 1;
                job.mark = Some(state.capacity_done);
                #[cfg(test)]
                if state.planted == crate::planted::Planted::CleanBeforeFlush {
                    job.mark = None;
                }
                drop(state);
                self.settle(id, job);
            }
        }
    }

    /// The capacity volume durably has the line's dirty pages, or has failed.
    fn write_back_settled(&mut self, job: Box<Job>, failure: Option<VolumeErrorKind>) {
        if let Some(kind) = failure {
            return self.write_back_failed(job, kind);
        }
        if let Work::WriteBack { slot, .. } = &job.work {
            self.shared.state.lock().end_write_back(*slot, true);
            self.cleaned += 1;
        }
        self.end_write_back(job);
    }

    fn write_back_failed(&mut self, job: Box<Job>, kind: VolumeErrorKind) {
        {
            let mut state = self.shared.state.lock();
            state.write_back.not_before = Some(self.now + RETRY);
            state.write_back.error = Some(format!(
                "the cache cannot write back to the capacity volume ({kind}): it tries again, and keeps {} bytes meanwhile",
                state.directory.dirty_pages() * u64::from(state.layout.page)
            ));
        }
        self.end_write_back(job);
    }

    fn end_write_back(&mut self, job: Box<Job>) {
        if let Work::WriteBack { line, slot, .. } = &job.work {
            self.write_backs.retain(|other| other != line);
            self.shared.state.lock().end_write_back(*slot, false);
        }
        self.end(job, Ok(Outcome::Done));
    }

    // Detaching.

    fn begin_detach(&mut self) {
        self.detaches = true;
        let mut job = Job::new(None, Work::Detach(DetachStage::Settle));
        {
            let mut state = self.shared.state.lock();
            (0..state.layout.map_blocks).for_each(|block| state.commits.change(block));
            (job.need, job.mark) = (Some(state.commits.need()), Some(state.capacity_done));
            job.flush_failures = state.flush_failures;
        }
        let id = JobId(self.next_id());
        self.settle(id, job);
    }

    fn detach_settled(&mut self, id: JobId, mut job: Box<Job>, failure: Option<VolumeErrorKind>) {
        let mut state = self.shared.state.lock();
        if failure.is_some() || !state.is_working() {
            self.detaches = false;
            state.write_back.not_before = Some(self.now + RETRY);
            drop(state);
            return self.end(job, Ok(Outcome::Done));
        }
        state.superblock.sequence += 1;
        state.superblock.clean = true;
        state.superblock.may_be_dirty = state.directory.dirty_pages() > 0;
        let (superblock, layout) = (state.superblock.clone(), state.layout);
        drop(state);
        job.work = Work::Detach(DetachStage::Superblock);
        let second = !superblock.sequence.is_multiple_of(2);
        let extent = Extent::new(layout.superblock(second), 1);
        let bytes = superblock.encode(wire::index(u64::from(layout.block)));
        let piece = Piece { side: Side::Fast, extent, offset: 0, bytes: bytes.len() };
        let data = Buf::from(bytes).freeze().into();
        let operation = Operation::Write { extent, data, durability: Durability::Durable };
        self.issue(id, job, vec![piece], vec![operation]);
    }

    fn detach_moved(&mut self, id: JobId, mut job: Box<Job>, ended: DetachStage) {
        if job.fast_failure.is_none() && ended == DetachStage::Superblock {
            job.work = Work::Detach(DetachStage::Fence);
            let piece = Piece { side: Side::Fast, extent: Extent::new(0, 0), offset: 0, bytes: 0 };
            return self.issue(id, job, vec![piece], vec![Operation::Flush]);
        }
        if job.fast_failure.is_none() {
            let mut state = self.shared.state.lock();
            let how = match state.detach {
                Detach::Wanted { keeps_dirty: true } => LeaveMode::Dirty,
                _ => LeaveMode::Clean,
            };
            state.detach = Detach::Below;
            state.wake_queues();
            drop(state);
            self.shared.leave_below(how);
        }
        self.detaches = false;
        self.end(job, Ok(Outcome::Done));
    }

    // Polling.

    fn poll_children(&mut self) {
        // Kept, so that a poll takes no memory.
        let (mut wanted, mut ended) = (core::mem::take(&mut self.wanted), core::mem::take(&mut self.ended));
        self.polls.take(self.now, &mut wanted);
        for index in wanted.drain(..) {
            let (child, side) = match index {
                FAST => (&mut self.fast, Side::Fast),
                _ => (&mut self.capacity, Side::Capacity),
            };
            child.poll(self.now, &mut ended);
            let polled =
                Polled { may_have_more: !ended.is_empty() && child.is_busy(), timeout: child.poll_timeout() };
            self.polls.handle_polled(index, polled);
            ended.drain(..).for_each(|completion| self.landed(side, completion));
        }
        (self.wanted, self.ended) = (wanted, ended);
    }

    fn take_grants(&mut self) {
        let grants = self.shared.state.lock().take_grants(self.id);
        for ticket in grants {
            if let Some(id) = self.locking.remove(&ticket) {
                self.start(id);
            }
        }
    }
}

/// How many lines to write back beside requests: none while less than half of what may be dirty is, all at once when more is.
fn pressure(state: &State, dirty: u64) -> usize {
    let most = (u64::from(state.layout.slots) * state.options.dirty / 100).max(1);
    let half = most / 2;
    if dirty <= half {
        return 0;
    }
    let share = (dirty - half) * wire::widen(WRITE_BACKS) / (most - half).max(1);
    wire::index(share).clamp(1, WRITE_BACKS)
}

/// What an operation on no blocks answers.
fn nothing(operation: Operation) -> Outcome {
    match operation {
        Operation::Read { into, .. } => Outcome::Data(into.freeze().into()),
        Operation::QueryAllocation { extent } => Outcome::Allocation(Allocation { extent, mapped: false }),
        _ => Outcome::Done,
    }
}

/// Finds the first difference.
fn compare(found: &BufList, expected: &BufList) -> Result<(), VolumeErrorKind> {
    let bytes = |list: &BufList| list.pieces().to_vec();
    let (found, expected) = (bytes(found), bytes(expected));
    let found = found.iter().flat_map(|piece| piece.iter());
    let expected = expected.iter().flat_map(|piece| piece.iter());
    match found.zip(expected).position(|(one, two)| one != two) {
        None => Ok(()),
        Some(at) => Err(VolumeErrorKind::Miscompare { offset: wire::bounded(at) }),
    }
}

impl VolumeQueue for CacheQueue {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        let limits = self.shared.limits();
        if self.outstanding >= limits.depth as usize {
            return Err(QueueFull(request));
        }
        self.now = now;
        self.outstanding += 1;
        match shape::check(&request.operation, self.shared.geometry(), &limits, self.shared.features()) {
            Ok(()) => self.take(request),
            Err(kind) => {
                self.ready.push(request.failed(kind));
                self.waker.wake_by_ref();
            }
        }
        Ok(())
    }

    fn cancel(&mut self, tag: Tag) {
        let found = self.jobs.iter().find(|(_, job)| job.tag == Some(tag));
        let Some((id, ticket)) = found.map(|(id, job)| (*id, job.ticket)) else { return };
        if ticket.is_some_and(|ticket| self.locking.remove(&ticket).is_some()) {
            let Some(mut job) = self.jobs.remove(&id) else { return };
            let memory = match &mut job.work {
                Work::Read { into, .. } => into.take(),
                _ => None,
            };
            return self.end(job, Err(Failure { kind: VolumeErrorKind::Cancelled, memory }));
        }
        // What the capacity volume was asked for may end early. The fast volume is not asked to: its failures mean more.
        let job = self.jobs.get(&id);
        let is_there = |piece: usize| {
            job.and_then(|job| job.pieces.get(piece)).is_some_and(|piece| piece.side == Side::Capacity)
        };
        let flights: Vec<Tag> = self
            .flights
            .iter()
            .filter_map(|(flight, of)| match of {
                Flight::Piece { job, piece } if *job == id && is_there(*piece) => Some(*flight),
                _ => None,
            })
            .collect();
        for flight in flights {
            self.polls.mark(CAPACITY);
            if let Some(completion) = self.capacity.cancel(flight) {
                self.landed(Side::Capacity, completion);
            }
        }
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.now = now;
        for _ in 0..TURNS {
            self.asked = false;
            self.poll_children();
            self.take_grants();
            for id in core::mem::take(&mut self.starved) {
                self.start(id);
            }
            self.check_settling();
            self.background();
            if !self.asked {
                break;
            }
        }
        if self.asked {
            // What a poll gives to a volume is not seen from outside.
            self.waker.wake_by_ref();
        }
        self.outstanding = self.outstanding.saturating_sub(self.ready.len());
        done.append(&mut self.ready);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [self.due, self.polls.poll_timeout()].into_iter().flatten().min()
    }
}

impl Drop for CacheQueue {
    /// What was under way ends without anybody's hearing of it, and then others get the locks; what was being written counts as unknown.
    ///
    /// The two volumes promise that a queue which is gone disturbs no other. Nevertheless no slot that a write or an insertion was on its way to is given to another line,
    /// and its pages are not written again.
    fn drop(&mut self) {
        self.fast.close();
        self.capacity.close();
        let mut state = self.shared.state.lock();
        state.remove_queue(self.id);
        for (_, mut job) in self.jobs.drain() {
            let under_way = job.left > 0;
            match job.work {
                Work::Write { .. } | Work::CompareAndWrite { .. } if under_way => state.orphaned(&job.parts),
                Work::Release { extent, .. } if under_way => {
                    state.released(extent, false, false);
                }
                Work::WriteBack { slot, .. } => {
                    state.capacity_done += 1;
                    state.end_write_back(slot, false);
                }
                Work::Commit(commit) => state.commits.abandon(commit.batch),
                Work::Insert { slots } => {
                    for (slot, pages) in slots {
                        state.orphaned_insertion(slot, pages);
                    }
                }
                _ => {}
            }
            job.pins.drain(..).for_each(|pin| state.directory.unpin(pin));
            if job.changes {
                state.changing = state.changing.saturating_sub(1);
            }
            if let Some(ticket) = job.ticket.take() {
                state.leave(ticket);
            }
        }
        if state.write_back.by == Some(self.id) {
            state.write_back.by = None;
        }
        state.wake_queues();
    }
}
