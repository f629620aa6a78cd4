//! A volume with one bug: a test that cannot fail proves nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use buf::{Buf, BufList};
use protocol::Instant;
use volume::{
    ComparedWrite, Completion, Durability, Extent, Failure, Features, Geometry, Limits, OpenError, Operation,
    Outcome, QueueContext, QueueFull, Request, Tag, Volume, VolumeErrorKind, VolumeQueue,
};

/// What is wrong with the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Every 50th completion is never told.
    DropsCompletion,
    /// Every 50th completion is told twice.
    CompletesTwice,
    /// A full queue swallows the request's memory.
    FullQueueChangesRequest,
    /// The queue takes more than its depth.
    IgnoresDepth,
    /// Writes go in two halves of each block, with the other cores in between.
    TearsBlocks,
    /// A discard does nothing.
    IgnoresDiscard,
    /// A discard takes the block after it too.
    DiscardsTooMuch,
    /// A write of zeros does nothing.
    IgnoresWriteZeroes,
    /// A comparison reports the offset within the block.
    WrongMiscompareOffset,
    /// A compare-and-write compares, then writes, with the other cores in between.
    ComparesThenWrites,
    /// The end of the volume is one block late.
    LateEnd,
    /// An allocation query says that there is never anything.
    NothingAllocated,
    /// The last block of a write is lost.
    LosesLastBlock,
    /// Completions come late, and nobody is woken.
    WakesNobody,
    /// A read that fails keeps its buffer.
    KeepsReadMemory,
    /// A read that meets a medium error keeps its buffer; nothing finds that on a good medium.
    KeepsMemoryOfBadBlocks,
}

impl Bug {
    /// Every bug, and the checks of which one must find it.
    pub(crate) const ALL: &[(Self, &[&str])] = &[
        (Self::DropsCompletion, &["queue_full_gives_back", "completes_exactly_once"]),
        (Self::CompletesTwice, &["queue_full_gives_back", "completes_exactly_once"]),
        (Self::FullQueueChangesRequest, &["queue_full_gives_back"]),
        (Self::IgnoresDepth, &["queue_full_gives_back"]),
        (Self::TearsBlocks, &["blocks_are_never_torn"]),
        (Self::IgnoresDiscard, &["discard"]),
        (Self::DiscardsTooMuch, &["discard"]),
        (Self::IgnoresWriteZeroes, &["write_zeroes"]),
        (Self::WrongMiscompareOffset, &["compare"]),
        (Self::ComparesThenWrites, &["compare_and_write_is_atomic", "compare_and_write_loses_no_write"]),
        (Self::LateEnd, &["out_of_range"]),
        (Self::NothingAllocated, &["allocation_covers", "allocation_tells_data"]),
        (Self::LosesLastBlock, &["read_after_write"]),
        (Self::WakesNobody, &["out_of_range"]),
        (Self::KeepsReadMemory, &["failed_reads_return_memory"]),
    ];
}

/// A volume with a bug.
#[derive(Debug)]
pub(crate) struct Planted {
    inner: Arc<dyn Volume>,
    bug: Bug,
    traffic: Arc<Traffic>,
}

impl Planted {
    pub(crate) fn new(inner: Arc<dyn Volume>, bug: Bug) -> Self {
        Self { inner, bug, traffic: Arc::default() }
    }
}

/// What all queues of a volume have been asked, so that a bug that needs somebody in between can wait for them: on a
/// busy machine giving up the processor once brings nobody.
#[derive(Debug, Default)]
struct Traffic {
    queues: AtomicU64,
    requests: AtomicU64,
}

/// Requests of others that a gap waits for, and how long it does at most.
const IN_BETWEEN: u64 = 2;
const GAP: Duration = Duration::from_millis(20);

impl Traffic {
    /// Lets the other cores in. Beside its threads, a check has an idle queue of its own open.
    fn let_others_in(&self) {
        let (seen, begun) = (self.requests.load(Ordering::SeqCst), std::time::Instant::now());
        while self.queues.load(Ordering::SeqCst) > 1
            && self.requests.load(Ordering::SeqCst) < seen + IN_BETWEEN
            && begun.elapsed() < GAP
        {
            std::thread::yield_now();
        }
    }
}

impl Volume for Planted {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn limits(&self) -> Limits {
        let depth = if self.bug == Bug::IgnoresDepth { 16 } else { 64 };
        Limits { depth, ..self.inner.limits() }
    }

    fn features(&self) -> Features {
        self.inner.features()
    }

    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        let inner = self.inner.open_queue(context)?;
        let geometry = self.geometry();
        self.traffic.queues.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(PlantedQueue {
            inner,
            bug: self.bug,
            traffic: Arc::clone(&self.traffic),
            geometry,
            taken: 0,
            told: 0,
            seen: Vec::new(),
            late: false,
        }))
    }
}

struct PlantedQueue {
    inner: Box<dyn VolumeQueue>,
    bug: Bug,
    traffic: Arc<Traffic>,
    geometry: Geometry,
    taken: usize,
    told: u64,
    /// Completions that came while a hidden request was carried out.
    seen: Vec<Completion>,
    late: bool,
}

/// A mark that the submitter does not use.
const HIDDEN: Tag = Tag(u64::MAX - 1);

impl PlantedQueue {
    /// Does something at once, unseen.
    fn run_hidden(&mut self, operation: Operation) -> Result<Outcome, VolumeErrorKind> {
        self.inner.submit(Instant::ZERO, Request { tag: HIDDEN, operation }).unwrap();
        let mut done = Vec::new();
        self.inner.poll(Instant::ZERO, &mut done);
        let index = done.iter().position(|one| one.tag == HIDDEN).unwrap();
        let answer = done.swap_remove(index).outcome();
        self.seen.append(&mut done);
        answer
    }

    fn read(&mut self, extent: Extent) -> Vec<u8> {
        let len = usize::try_from(extent.blocks).unwrap() * self.geometry.block_size as usize;
        match self.run_hidden(Operation::Read { extent, into: Buf::zeroed(len) }) {
            Ok(Outcome::Data(data)) => data.into_one().to_vec(),
            other => panic!("{other:?}"),
        }
    }

    fn write(&mut self, extent: Extent, bytes: Vec<u8>) {
        let data = Buf::from(bytes).freeze().into();
        self.run_hidden(Operation::Write { extent, data, durability: Durability::Cached }).unwrap();
    }

    /// Writes the first half of every block, lets others run, and writes the whole.
    fn tear(&mut self, extent: Extent, data: &BufList) {
        let size = self.geometry.block_size as usize;
        let mut new = vec![0; data.len()];
        data.copy_to(&mut new);
        let mut torn = self.read(extent);
        for (torn, new) in torn.chunks_mut(size).zip(new.chunks(size)) {
            torn[..size / 2].copy_from_slice(&new[..size / 2]);
        }
        self.write(extent, torn);
        self.traffic.let_others_in();
        self.write(extent, new);
    }

    fn is_inside(&self, extent: Extent) -> bool {
        extent.blocks > 0 && self.geometry.check(extent).is_some()
    }

    fn twisted(&mut self, operation: Operation) -> Operation {
        match (self.bug, operation) {
            (Bug::TearsBlocks, Operation::Write { extent, data, .. })
                if self.is_inside(extent)
                    && Some(data.len() as u64) == self.geometry.check(extent)
                    && extent.blocks <= 24 =>
            {
                self.tear(extent, &data);
                Operation::Flush
            }
            (Bug::IgnoresDiscard, Operation::Discard { extent }) if self.is_inside(extent) => {
                Operation::Flush
            }
            (Bug::DiscardsTooMuch, Operation::Discard { extent }) if self.is_inside(extent) => {
                let blocks = (extent.blocks + 1).min(self.geometry.blocks - extent.start);
                Operation::Discard { extent: Extent::new(extent.start, blocks) }
            }
            (Bug::IgnoresWriteZeroes, Operation::WriteZeroes { extent, .. }) if self.is_inside(extent) => {
                Operation::Flush
            }
            (Bug::ComparesThenWrites, Operation::CompareAndWrite { extent, data, durability })
                if self.is_inside(extent) && extent.blocks <= 24 =>
            {
                let ComparedWrite { compare, write } = *data;
                if self.run_hidden(Operation::Compare { extent, data: compare.clone() }).is_err() {
                    return Operation::Compare { extent, data: compare };
                }
                self.traffic.let_others_in();
                Operation::Write { extent, data: write, durability }
            }
            (Bug::LateEnd, Operation::Verify { extent })
                if extent.end() == Some(self.geometry.blocks + 1) =>
            {
                Operation::Flush
            }
            (Bug::LosesLastBlock, Operation::Write { extent, data, durability })
                if self.is_inside(extent)
                    && extent.blocks > 1
                    && Some(data.len() as u64) == self.geometry.check(extent) =>
            {
                let data = data.part(0, data.len() - self.geometry.block_size as usize);
                Operation::Write { extent: Extent::new(extent.start, extent.blocks - 1), data, durability }
            }
            (_, operation) => operation,
        }
    }

    fn twist_answer(&self, completion: &mut Completion) {
        match &mut completion.result {
            Err(Failure { kind: VolumeErrorKind::Miscompare { offset }, .. })
                if self.bug == Bug::WrongMiscompareOffset =>
            {
                *offset %= self.geometry.block_size;
            }
            Err(failure) if self.bug == Bug::KeepsReadMemory => failure.memory = None,
            Err(failure @ Failure { kind: VolumeErrorKind::Media, .. })
                if self.bug == Bug::KeepsMemoryOfBadBlocks =>
            {
                failure.memory = None;
            }
            Ok(Outcome::Allocation(run)) if self.bug == Bug::NothingAllocated => run.mapped = false,
            _ => {}
        }
    }
}

impl Drop for PlantedQueue {
    fn drop(&mut self) {
        self.traffic.queues.fetch_sub(1, Ordering::SeqCst);
    }
}

impl VolumeQueue for PlantedQueue {
    fn submit(&mut self, now: Instant, mut request: Request) -> Result<(), QueueFull> {
        self.traffic.requests.fetch_add(1, Ordering::SeqCst);
        if self.taken >= 64 {
            if self.bug == Bug::FullQueueChangesRequest {
                request.operation = Operation::Flush;
            }
            return Err(QueueFull(request));
        }
        request.operation = self.twisted(request.operation);
        self.taken += 1;
        self.inner.submit(now, request)
    }

    fn cancel(&mut self, tag: Tag) {
        self.inner.cancel(tag);
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        let mut fresh = std::mem::take(&mut self.seen);
        self.inner.poll(now, &mut fresh);
        if self.bug == Bug::WakesNobody && !fresh.is_empty() {
            self.late = !self.late;
            if self.late {
                self.seen = fresh;
                return;
            }
        }
        self.taken -= fresh.len();
        for mut completion in fresh {
            self.told += 1;
            self.twist_answer(&mut completion);
            let special = self.told.is_multiple_of(50);
            if special && self.bug == Bug::CompletesTwice {
                done.push(Completion { tag: completion.tag, result: Ok(Outcome::Done) });
            }
            if !(special && self.bug == Bug::DropsCompletion) {
                done.push(completion);
            }
        }
    }
}
