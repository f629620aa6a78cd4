//! Copies a volume onto another, several chunks at a time, and can read it back to compare.

use std::sync::Arc;
use std::task::Waker;

use buf::{BufList, Pool, SharedBuf};
use protocol::Instant;
use volume::{
    Completion, CoreId, Durability, Extent, Features, OpenError, Operation, Outcome, QueueFull, Request, Tag,
    Volume, VolumeErrorKind, VolumeQueue,
};

use crate::job::Job;

/// Chunks under way at a time.
const WINDOW: usize = 16;
/// Bytes in a chunk, if both volumes allow it.
const CHUNK: u64 = 1 << 20;

/// What came of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyResult {
    /// Bytes of the source, all of which the target now holds.
    pub bytes: u64,
    /// Of these, how many were zeros and not sent as data.
    pub zeros: u64,
}

/// Why a copy did not succeed, for the user to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyError(pub String);

impl std::fmt::Display for CopyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CopyError {}

/// What a chunk waits for.
#[derive(Debug, Clone)]
enum Stage {
    Idle,
    Reading,
    Writing,
    ReadingBack(SharedBuf),
}

/// What the whole copy waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Moving,
    Flushing,
    Over,
}

/// Whether the target is read back and compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verify {
    /// No.
    No,
    /// Each chunk, after it was written.
    Yes,
}

/// A copy under way.
pub(crate) struct Copy {
    source: Box<dyn VolumeQueue>,
    target: Box<dyn VolumeQueue>,
    pool: Pool,
    verify: Verify,
    target_zeroes: bool,
    block_size: u64,
    target_block_size: u64,
    chunk: u64,
    total: u64,
    next: u64,
    moved: u64,
    zeros: u64,
    chunks: Vec<(Stage, u64, u64)>,
    done: Vec<Completion>,
    phase: Phase,
    failure: Option<CopyError>,
    progress: Arc<dyn Fn(u64, u64) + Send + Sync>,
}

impl Copy {
    /// Opens queues on both volumes. `progress` is told bytes done and bytes in all.
    pub(crate) fn new(
        (source, target): (&dyn Volume, &dyn Volume),
        verify: Verify,
        waker: &Waker,
        progress: Arc<dyn Fn(u64, u64) + Send + Sync>,
    ) -> Result<Self, OpenError> {
        let (from, to) = (source.geometry(), target.geometry());
        if to.bytes() < from.bytes() {
            return Err(OpenError::new(format!(
                "the target has {} bytes, fewer than the source's {}",
                to.bytes(),
                from.bytes()
            )));
        }
        let unit = u64::from(from.block_size.max(to.block_size));
        if !from.bytes().is_multiple_of(unit) {
            return Err(OpenError::new(format!(
                "the source's {} bytes are no whole number of the target's blocks of {unit} bytes",
                from.bytes()
            )));
        }
        let most = u64::from(source.limits().max_transfer.min(target.limits().max_transfer));
        let chunk = (CHUNK.min(most) / unit * unit).max(unit);
        Ok(Self {
            source: source.open_queue(CoreId(0), waker.clone())?,
            target: target.open_queue(CoreId(0), waker.clone())?,
            pool: Pool::new(WINDOW * 4 * usize::try_from(CHUNK).unwrap_or(usize::MAX)),
            verify,
            target_zeroes: target.features().contains(Features::WRITE_ZEROES),
            block_size: u64::from(from.block_size),
            target_block_size: u64::from(to.block_size),
            chunk,
            total: from.bytes(),
            next: 0,
            moved: 0,
            zeros: 0,
            chunks: vec![(Stage::Idle, 0, 0); WINDOW],
            done: Vec::new(),
            phase: Phase::Moving,
            failure: None,
            progress,
        })
    }

    fn start_chunks(&mut self, now: Instant) {
        for slot in 0..self.chunks.len() {
            if self.failure.is_some() || self.next >= self.total {
                return;
            }
            if !matches!(self.chunks[slot].0, Stage::Idle) {
                continue;
            }
            let (start, len) = (self.next, self.chunk.min(self.total - self.next));
            let Some(into) = usize::try_from(len).ok().and_then(|len| self.pool.take(len)) else { return };
            let extent = Extent::new(start / self.block_size, len / self.block_size);
            let request = Request { tag: Tag(slot as u64), operation: Operation::Read { extent, into } };
            if self.source.submit(now, request).is_err() {
                return;
            }
            self.next += len;
            self.chunks[slot] = (Stage::Reading, start, len);
        }
    }

    fn ask_target(&mut self, now: Instant, slot: u64, operation: Operation) {
        let request = Request { tag: Tag(slot), operation };
        if let Err(QueueFull(request)) = self.target.submit(now, request) {
            let result = Err(VolumeErrorKind::Unreachable);
            self.done.push(Completion { tag: request.tag, result });
        }
    }

    fn write(&mut self, now: Instant, slot: usize, data: SharedBuf) {
        let (_, start, len) = self.chunks[slot];
        let extent = Extent::new(start / self.target_block_size, len / self.target_block_size);
        let durability = Durability::Cached;
        let operation = if self.target_zeroes && data.iter().all(|&byte| byte == 0) {
            self.zeros += len;
            Operation::WriteZeroes { extent, durability, may_unmap: true }
        } else {
            Operation::Write { extent, data: BufList::from(data.clone()), durability }
        };
        self.chunks[slot].0 = match self.verify {
            Verify::No => Stage::Writing,
            Verify::Yes => Stage::ReadingBack(data),
        };
        self.ask_target(now, slot as u64, operation);
    }

    fn written(&mut self, now: Instant, slot: usize, outcome: Outcome) {
        let (stage, start, len) = self.chunks[slot].clone();
        match (stage, outcome) {
            (Stage::ReadingBack(_), Outcome::Done) => {
                let extent = Extent::new(start / self.target_block_size, len / self.target_block_size);
                match usize::try_from(len).ok().and_then(|len| self.pool.take(len)) {
                    Some(into) => self.ask_target(now, slot as u64, Operation::Read { extent, into }),
                    None => self.fail(slot, "no memory is left to read it back"),
                }
            }
            (Stage::ReadingBack(data), Outcome::Data(read)) => {
                match data.iter().zip(read.iter()).position(|(ours, theirs)| ours != theirs) {
                    Some(at) => {
                        self.fail(slot, &format!("what was read back differs at byte {}", start + at as u64));
                    }
                    None => self.finish(slot),
                }
            }
            _ => self.finish(slot),
        }
    }

    fn finish(&mut self, slot: usize) {
        self.moved += self.chunks[slot].2;
        self.chunks[slot].0 = Stage::Idle;
        (self.progress)(self.moved, self.total);
    }

    fn fail(&mut self, slot: usize, why: &str) {
        let (_, start, _) = self.chunks[slot];
        self.chunks[slot].0 = Stage::Idle;
        self.failure.get_or_insert_with(|| CopyError(format!("at byte {start}: {why}")));
    }

    fn reap(&mut self, now: Instant) {
        self.source.poll(now, &mut self.done);
        for completion in std::mem::take(&mut self.done) {
            let slot = slot_of(completion.tag);
            match completion.result {
                Ok(Outcome::Data(data)) => self.write(now, slot, data),
                Ok(_) => self.fail(slot, "the source answered a read without data"),
                Err(kind) => self.fail(slot, &format!("the source cannot be read: {kind}")),
            }
        }
        self.target.poll(now, &mut self.done);
        for completion in std::mem::take(&mut self.done) {
            if self.phase == Phase::Flushing {
                self.phase = Phase::Over;
                if let Err(kind) = completion.result {
                    self.failure = Some(CopyError(format!("the target cannot be flushed: {kind}")));
                }
                continue;
            }
            let slot = slot_of(completion.tag);
            match completion.result {
                Ok(outcome) => self.written(now, slot, outcome),
                Err(kind) => self.fail(slot, &format!("the target cannot be written: {kind}")),
            }
        }
    }
}

fn slot_of(tag: Tag) -> usize {
    usize::try_from(tag.0).unwrap_or(0)
}

impl Job for Copy {
    type Output = Result<CopyResult, CopyError>;

    fn poll(&mut self, now: Instant) -> Option<Self::Output> {
        self.reap(now);
        self.start_chunks(now);
        let quiet = self.chunks.iter().all(|(stage, _, _)| matches!(stage, Stage::Idle));
        if quiet && let Some(failure) = &self.failure {
            return Some(Err(failure.clone()));
        }
        if quiet && self.phase == Phase::Moving && self.next >= self.total {
            self.phase = Phase::Flushing;
            self.ask_target(now, 0, Operation::Flush);
            self.reap(now);
        }
        (self.phase == Phase::Over).then_some(Ok(CopyResult { bytes: self.total, zeros: self.zeros }))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [self.source.poll_timeout(), self.target.poll_timeout()].into_iter().flatten().min()
    }

    fn expects_work(&self) -> bool {
        true
    }
}

impl std::fmt::Debug for Copy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Copy").field("moved", &self.moved).field("total", &self.total).finish_non_exhaustive()
    }
}
