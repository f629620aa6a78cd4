//! Checks that a volume keeps what it was given: patterns written in mixed order, flushed, read back, then partly
//! overwritten, zeroed and discarded, and read back again. It ends with everything written.
//!
//! A fast volume that loses data is worth nothing, so a measurement begins with this. Every block carries its own number
//! and the round in which it was written: what is found in the wrong place says where it belongs.

mod stamp;

use std::collections::VecDeque;
use std::task::Waker;

use buf::{Buf, BufList, Pool};
use protocol::{Entropy, Instant, SeededEntropy};
use volume::{
    Completion, CoreId, Durability, Extent, Features, OpenError, Operation, Outcome, QueueContext, QueueFull,
    Request, Tag, Volume, VolumeErrorKind, VolumeQueue,
};

use crate::job::Job;
use crate::last_error::LastError;
use crate::memory::pool_for;
use stamp::Stamp;

/// Bytes in a chunk, if the volume allows it.
const CHUNK: usize = 1 << 16;
/// Chunks under way at a time.
const WINDOW: usize = 16;

/// What to check.
#[derive(Debug, Clone, Copy)]
pub struct CheckPlan {
    /// Bytes from the volume's start that are overwritten; fewer when it is smaller.
    pub bytes: u64,
    /// Seed of the patterns and of their order.
    pub seed: u64,
}

impl Default for CheckPlan {
    fn default() -> Self {
        Self { bytes: 8 << 20, seed: 1 }
    }
}

/// What was checked, and held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckResult {
    /// Bytes from the volume's start.
    pub bytes: u64,
    /// Whether writing zeroes was among it: the volume offers it.
    pub zeroes: bool,
    /// Whether discarding was among it: the volume says that discarded blocks read as zeros.
    pub discards: bool,
}

/// What a volume did wrong, and where. Its text has the cause and the last error in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckError {
    /// The byte, if one place is wrong.
    pub at: Option<u64>,
    /// What was wrong.
    pub cause: CheckErrorCause,
    /// What the volume last met on the way to its far end.
    pub last_error: LastError,
}

impl CheckError {
    fn new(at: Option<u64>, cause: CheckErrorCause) -> Self {
        Self { at, cause, last_error: LastError::default() }
    }
}

impl std::fmt::Display for CheckError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(at) = self.at {
            write!(f, "at byte {at}: ")?;
        }
        write!(f, "{}{}", self.cause, self.last_error)
    }
}

impl std::error::Error for CheckError {}

/// What a volume did wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckErrorCause {
    /// It refused a request.
    #[error("cannot be {verb}: {kind}")]
    Failed {
        /// What could not be done, such as `read`.
        verb: &'static str,
        /// Why.
        kind: VolumeErrorKind,
    },
    /// It could not make durable what was written.
    #[error("the volume cannot be flushed: {0}")]
    NotFlushed(VolumeErrorKind),
    /// It answered a read, but not with data.
    #[error("a read was answered without data")]
    NoData,
    /// It holds something else than what was written.
    #[error("{expected} was expected, but there is {found}")]
    Differs {
        /// What was written there.
        expected: String,
        /// What is there.
        found: String,
    },
}

/// What is done with a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Write,
    Zero,
    Discard,
    Read,
}

/// Steps that may run side by side; the next phase begins when all have ended and a flush after them.
type Phase = VecDeque<(u64, Act)>;

/// A check under way.
pub(crate) struct Check {
    queue: Box<dyn VolumeQueue>,
    pool: Pool,
    stamp: Stamp,
    block_size: u64,
    /// Blocks in a chunk; the last may have fewer.
    chunk: u64,
    /// Blocks in all.
    blocks: u64,
    /// What each chunk holds: the round that wrote it, 0 for zeros.
    expected: Vec<u64>,
    round: u64,
    phases: VecDeque<Phase>,
    running: Vec<Option<(u64, Act)>>,
    flushing: bool,
    failure: Option<CheckError>,
    done: Vec<Completion>,
    result: CheckResult,
}

/// The flush's tag; chunks have the number of their place in the window.
const FLUSH: Tag = Tag(u64::MAX);

impl Check {
    pub(crate) fn new(volume: &dyn Volume, plan: CheckPlan, waker: &Waker) -> Result<Self, OpenError> {
        let geometry = volume.geometry();
        let block_size = u64::from(geometry.block_size);
        let most = u64::from(volume.limits().max_transfer);
        let chunk = ((CHUNK as u64).min(most) / block_size).max(1);
        let blocks = plan.bytes.div_ceil(block_size).clamp(1, geometry.blocks.max(1));
        let chunks = blocks.div_ceil(chunk);
        let features = volume.features();
        let zeroes = features.contains(Features::WRITE_ZEROES);
        let discards = features.contains(Features::DISCARD);
        Ok(Self {
            queue: volume.open_queue(&QueueContext::without_pool(CoreId(0), waker.clone()))?,
            pool: pool_for(std::iter::once(volume), WINDOW * 2 * CHUNK),
            stamp: Stamp { seed: plan.seed, block_size: geometry.block_size },
            block_size,
            chunk,
            blocks,
            expected: (0..chunks).map(|_| 0).collect(),
            round: 1,
            phases: phases(chunks, plan.seed, features),
            running: vec![None; WINDOW],
            flushing: false,
            failure: None,
            done: Vec::new(),
            result: CheckResult { bytes: blocks * block_size, zeroes, discards },
        })
    }

    fn extent(&self, chunk: u64) -> Extent {
        let first = chunk * self.chunk;
        Extent::new(first, self.chunk.min(self.blocks - first))
    }

    /// Memory for the data of an extent; `None` while there is none.
    fn memory(&self, extent: Extent) -> Option<Buf> {
        self.pool.take(usize::try_from(extent.blocks * self.block_size).ok()?)
    }

    fn start(&mut self, now: Instant) {
        for slot in 0..self.running.len() {
            if self.failure.is_some() || self.running[slot].is_some() {
                continue;
            }
            let Some(&(chunk, act)) = self.phases.front().and_then(VecDeque::front) else { return };
            let Some(operation) = self.operation(chunk, act) else { return };
            let request = Request { tag: Tag(slot as u64), operation };
            if let Err(QueueFull(_)) = self.queue.submit(now, request) {
                return;
            }
            if let Some(phase) = self.phases.front_mut() {
                phase.pop_front();
            }
            self.running[slot] = Some((chunk, act));
        }
    }

    /// The request for a step; `None` while there is no memory.
    fn operation(&self, chunk: u64, act: Act) -> Option<Operation> {
        let extent = self.extent(chunk);
        let durability = Durability::Cached;
        Some(match act {
            Act::Zero => Operation::WriteZeroes { extent, durability, may_unmap: false },
            Act::Discard => Operation::Discard { extent },
            Act::Read => Operation::Read { extent, into: self.memory(extent)? },
            Act::Write => {
                let mut data = self.memory(extent)?;
                self.stamp.fill(&mut data, extent.start, self.round);
                Operation::Write { extent, data: BufList::from(data.freeze()), durability }
            }
        })
    }

    fn reap(&mut self, now: Instant) {
        self.queue.poll(now, &mut self.done);
        for completion in std::mem::take(&mut self.done) {
            if completion.tag == FLUSH {
                self.flushed(completion.error());
                continue;
            }
            let slot = usize::try_from(completion.tag.0).ok().and_then(|slot| self.running.get_mut(slot));
            let Some((chunk, act)) = slot.and_then(Option::take) else { continue };
            match completion.outcome() {
                Ok(outcome) => self.ended(chunk, act, outcome),
                Err(kind) => self.fail(chunk, CheckErrorCause::Failed { verb: act.done(), kind }),
            }
        }
    }

    fn ended(&mut self, chunk: u64, act: Act, outcome: Outcome) {
        let index = usize::try_from(chunk).ok();
        let Some(expected) = index.and_then(|index| self.expected.get_mut(index)) else { return };
        match (act, outcome) {
            (Act::Write, _) => *expected = self.round,
            (Act::Zero | Act::Discard, _) => *expected = 0,
            (Act::Read, Outcome::Data(data)) => {
                let (expected, first) = (*expected, self.extent(chunk).start);
                if let Some((at, found)) = self.stamp.difference(&data.into_one(), first, expected) {
                    let cause = CheckErrorCause::Differs { expected: stamp::words(expected), found };
                    self.failure.get_or_insert_with(|| CheckError::new(Some(at), cause));
                }
            }
            (Act::Read, _) => self.fail(chunk, CheckErrorCause::NoData),
        }
    }

    fn flushed(&mut self, failure: Option<VolumeErrorKind>) {
        self.flushing = false;
        self.phases.pop_front();
        self.round += 1;
        if let Some(kind) = failure {
            self.failure.get_or_insert_with(|| CheckError::new(None, CheckErrorCause::NotFlushed(kind)));
        }
    }

    fn fail(&mut self, chunk: u64, cause: CheckErrorCause) {
        let at = self.extent(chunk).start * self.block_size;
        self.failure.get_or_insert_with(|| CheckError::new(Some(at), cause));
    }

    /// Flushes behind a phase whose steps have all ended.
    fn flush(&mut self, now: Instant) {
        let over = self.phases.front().is_some_and(VecDeque::is_empty);
        if over && !self.flushing {
            let request = Request { tag: FLUSH, operation: Operation::Flush };
            self.flushing = self.queue.submit(now, request).is_ok();
        }
    }
}

impl Act {
    const fn done(self) -> &'static str {
        match self {
            Self::Write => "written",
            Self::Zero => "zeroed",
            Self::Discard => "discarded",
            Self::Read => "read",
        }
    }
}

/// All is written and read; then a quarter each is written again, zeroed, discarded and left alone, and all is read. At the
/// end all is written once more, so that no hole is left: who measures the volume next shall not measure holes.
fn phases(chunks: u64, seed: u64, features: Features) -> VecDeque<Phase> {
    let mut dice = SeededEntropy::new(seed);
    let mut all = |act: fn(u64) -> Option<Act>| {
        let mut steps: Vec<(u64, Act)> = (0..chunks).filter_map(|chunk| Some((chunk, act(chunk)?))).collect();
        shuffle(&mut steps, &mut dice);
        Phase::from(steps)
    };
    let (written, read) = (all(|_| Some(Act::Write)), all(|_| Some(Act::Read)));
    let mut mixed = all(|chunk| match chunk % 4 {
        0 => Some(Act::Write),
        1 => Some(Act::Zero),
        2 => Some(Act::Discard),
        _ => None,
    });
    mixed.retain(|(_, act)| match act {
        Act::Zero => features.contains(Features::WRITE_ZEROES),
        Act::Discard => features.contains(Features::DISCARD),
        Act::Write | Act::Read => true,
    });
    let again = all(|_| Some(Act::Read));
    let whole = all(|_| Some(Act::Write));
    VecDeque::from([written, read, mixed, again, whole])
}

fn shuffle(steps: &mut [(u64, Act)], dice: &mut SeededEntropy) {
    for last in (1..steps.len()).rev() {
        let mut bytes = [0; 8];
        dice.fill(&mut bytes);
        let chosen = u64::from_le_bytes(bytes) % (last as u64 + 1);
        steps.swap(last, usize::try_from(chosen).unwrap_or(0));
    }
}

impl Job for Check {
    type Output = Result<CheckResult, CheckError>;

    fn poll(&mut self, now: Instant) -> Option<Self::Output> {
        loop {
            self.reap(now);
            let before = (self.phases.len(), self.running.iter().flatten().count());
            let quiet = before.1 == 0 && !self.flushing;
            if quiet && let Some(failure) = &self.failure {
                return Some(Err(failure.clone()));
            }
            if self.phases.is_empty() {
                return Some(Ok(self.result));
            }
            self.start(now);
            if self.running.iter().all(Option::is_none) {
                self.flush(now);
            }
            // A volume in memory has answered already: nothing else would wake the job.
            self.queue.poll(now, &mut self.done);
            if self.done.is_empty() {
                return None;
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.queue.poll_timeout()
    }

    fn expects_work(&self) -> bool {
        true
    }
}

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Check").field("phases", &self.phases.len()).finish_non_exhaustive()
    }
}
