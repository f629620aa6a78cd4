//! Closed-loop load on a volume: a fixed number of requests under way, each replaced as it completes.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use buf::{BufList, Pool, SharedBuf};
use hdrhistogram::Histogram;
use protocol::{Entropy, Instant, SeededEntropy};
use volume::{
    Completion, CoreId, Durability, Extent, OpenError, Operation, QueueFull, Request, Tag, Volume,
    VolumeQueue,
};

use crate::job::Job;

/// Longest latency that the histogram tells apart, in nanoseconds: 100 s.
const LONGEST_NANOS: u64 = 100_000_000_000;
/// The most requests under way that a load may ask for.
pub const MOST_DEPTH: usize = 4096;
/// A load that fails this often has nothing to measure, and ends.
const MOST_ERRORS: u64 = 1000;

/// What kind of I/O to do, in fio's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Sequential reads.
    Read,
    /// Sequential writes.
    Write,
    /// Reads at random offsets.
    RandRead,
    /// Writes at random offsets.
    RandWrite,
}

impl Pattern {
    const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::RandRead)
    }

    const fn random(self) -> bool {
        matches!(self, Self::RandRead | Self::RandWrite)
    }
}

/// A load.
#[derive(Debug, Clone, Copy)]
pub struct LoadPlan {
    /// Reads or writes, in order or not.
    pub pattern: Pattern,
    /// Bytes in each request; a multiple of the volume's block size.
    pub block: usize,
    /// Requests under way at a time, 1 to [`MOST_DEPTH`].
    pub depth: usize,
    /// How long.
    pub runtime: Duration,
    /// Seed of the offsets.
    pub seed: u64,
    /// How long the event loop looks for an answer before it sleeps; `None` for what suits the machine.
    pub spin: Option<Duration>,
}

/// What came of a load.
#[derive(Debug, Clone)]
pub struct LoadResult {
    /// Requests that succeeded.
    pub completed: u64,
    /// Requests that failed.
    pub errors: u64,
    /// The first failure.
    pub first_error: Option<volume::VolumeErrorKind>,
    /// From the first submission to the last counted completion.
    pub elapsed: Duration,
    /// Nanoseconds from submission to completion.
    pub latency: Histogram<u64>,
}

/// A load under way.
pub(crate) struct Load {
    plan: LoadPlan,
    queue: Box<dyn VolumeQueue>,
    pool: Pool,
    data: SharedBuf,
    offsets: Offsets,
    started: Vec<Instant>,
    free: Vec<usize>,
    done: Vec<Completion>,
    begun: Option<Instant>,
    result: LoadResult,
    progress: Arc<dyn Fn(Duration, u64) + Send + Sync>,
    next_progress: Instant,
}

impl Load {
    /// Opens a queue on `volume` for the calling core. `progress` is told the time since the start and the completed
    /// requests about once a second.
    pub(crate) fn new(
        volume: &dyn Volume,
        plan: LoadPlan,
        waker: Waker,
        progress: Arc<dyn Fn(Duration, u64) + Send + Sync>,
    ) -> Result<Self, OpenError> {
        let geometry = volume.geometry();
        check(&plan, volume)?;
        let queue = volume.open_queue(CoreId(0), waker)?;
        let blocks = (plan.block / geometry.block_size as usize) as u64;
        let pool = Pool::new((plan.depth + 1) * plan.block.next_power_of_two().max(4096) * 2);
        let mut bytes = vec![0; plan.block];
        SeededEntropy::new(plan.seed).fill(&mut bytes);
        let latency = Histogram::new_with_max(LONGEST_NANOS, 3)
            .map_err(|error| OpenError::new(format!("the latency histogram cannot be made: {error}")))?;
        Ok(Self {
            plan,
            queue,
            pool,
            data: SharedBuf::from(bytes),
            offsets: Offsets {
                blocks,
                slots: geometry.blocks / blocks,
                next: 0,
                dice: SeededEntropy::new(plan.seed),
            },
            started: vec![Instant::ZERO; plan.depth],
            free: (0..plan.depth).collect(),
            done: Vec::with_capacity(plan.depth),
            begun: None,
            result: LoadResult {
                completed: 0,
                errors: 0,
                first_error: None,
                elapsed: Duration::ZERO,
                latency,
            },
            progress,
            next_progress: Instant::ZERO,
        })
    }

    fn fill(&mut self, now: Instant) {
        while let Some(slot) = self.free.pop() {
            let extent = self.offsets.next(self.plan.pattern.random());
            let operation = if self.plan.pattern.reads() {
                let Some(into) = self.pool.take(self.plan.block) else {
                    return self.free.push(slot);
                };
                Operation::Read { extent, into }
            } else {
                let data = BufList::from(self.data.clone());
                Operation::Write { extent, data, durability: Durability::Cached }
            };
            let request = Request { tag: Tag(slot as u64), operation };
            if let Err(QueueFull(_)) = self.queue.submit(now, request) {
                return self.free.push(slot);
            }
            self.started[slot] = now;
        }
    }

    /// Takes completions; those that come after the load's end are not counted.
    fn reap(&mut self, now: Instant, counted: bool) {
        self.queue.poll(now, &mut self.done);
        for completion in self.done.drain(..) {
            let slot = usize::try_from(completion.tag.0).unwrap_or(usize::MAX);
            let Some(started) = self.started.get(slot) else { continue };
            self.free.push(slot);
            if !counted {
                continue;
            }
            match completion.result {
                Ok(_) => self.result.completed += 1,
                Err(kind) => {
                    self.result.errors += 1;
                    self.result.first_error.get_or_insert(kind);
                }
            }
            let nanos = u64::try_from(now.since(*started).as_nanos()).unwrap_or(LONGEST_NANOS);
            self.result.latency.saturating_record(nanos);
        }
    }

    fn tell(&mut self, now: Instant, elapsed: Duration) {
        if now >= self.next_progress {
            self.next_progress = now + Duration::from_secs(1);
            (self.progress)(elapsed, self.result.completed);
        }
    }
}

fn check(plan: &LoadPlan, volume: &dyn Volume) -> Result<(), OpenError> {
    let geometry = volume.geometry();
    let block_size = geometry.block_size as usize;
    let limit = volume.limits().max_transfer as usize;
    if plan.block == 0 || !plan.block.is_multiple_of(block_size) {
        return Err(OpenError::new(format!(
            "a block of {} bytes does not fit: the volume's blocks have {block_size} bytes, use a multiple of that",
            plan.block
        )));
    }
    if plan.block > limit {
        return Err(OpenError::new(format!(
            "a block of {} bytes is above the volume's limit of {limit}",
            plan.block
        )));
    }
    if plan.block as u64 > geometry.bytes() {
        return Err(OpenError::new(format!("the volume has only {} bytes", geometry.bytes())));
    }
    if plan.depth == 0 || plan.depth > MOST_DEPTH {
        return Err(OpenError::new(format!("the queue depth must be from 1 to {MOST_DEPTH}")));
    }
    Ok(())
}

impl Job for Load {
    type Output = LoadResult;

    fn poll(&mut self, now: Instant) -> Option<LoadResult> {
        let begun = *self.begun.get_or_insert(now);
        let elapsed = now.since(begun);
        let over = elapsed >= self.plan.runtime || self.result.errors > MOST_ERRORS;
        self.reap(now, !over);
        self.tell(now, elapsed);
        if !over {
            self.result.elapsed = elapsed;
            self.fill(now);
            return None;
        }
        (self.free.len() == self.plan.depth).then(|| self.result.clone())
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let end = self.begun.map(|begun| begun + self.plan.runtime);
        [end, Some(self.next_progress), self.queue.poll_timeout()].into_iter().flatten().min()
    }

    fn expects_work(&self) -> bool {
        true
    }
}

impl std::fmt::Debug for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Load").field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// Where the next request goes.
#[derive(Debug)]
struct Offsets {
    blocks: u64,
    slots: u64,
    next: u64,
    dice: SeededEntropy,
}

impl Offsets {
    fn next(&mut self, random: bool) -> Extent {
        let slot = if random { self.dice.number() % self.slots } else { self.next % self.slots };
        self.next += 1;
        Extent::new(slot * self.blocks, self.blocks)
    }
}
