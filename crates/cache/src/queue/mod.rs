//! A core's queue of a cache: it takes each request through its steps, and works in the background.
//!
//! A request locks its blocks, is planned, goes in pieces to the two volumes, and ends when all of them have, or when a commit of the map or a flush has made it durable. What
//! each step means for data is in [`crate::state`]; here is only what happens when.

use std::sync::Arc;
use std::task::Waker;

use buf::{Account, Pool};
use protocol::Instant;
use volume::{
    Allocation, CacheMode, Completion, Failure, OpenError, Operation, Outcome, PollList, Polled,
    QueueContext, QueueFull, Request, Tag, Volume, VolumeErrorKind, VolumeQueue, shape,
};

use crate::child::Child;
use crate::job::{Job, JobId, Release, Work, WriteBackStage};
use crate::limits::{OWN_MEMORY, SPARE_JOBS, TURNS};
use crate::numbers::ByNumber;
use crate::plan::{Piece, Side};
use crate::range_locks::{LockMode, Ticket};
use crate::shared::Shared;
use crate::state::{Detach, Stream};
use crate::streams::Streams;

mod commits;
mod detaching;
mod queries;
mod reads;
mod settling;
mod write_back;
mod writes;

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

/// What an operation on no blocks answers.
fn nothing(operation: Operation) -> Outcome {
    match operation {
        Operation::Read { into, .. } => Outcome::Data(into.freeze().into()),
        Operation::QueryAllocation { extent } => Outcome::Allocation(Allocation { extent, mapped: false }),
        _ => Outcome::Done,
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
