//! A volume that takes its time, in no order, and takes few requests at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use protocol::{Instant, SeededEntropy};
use volume::{
    Completion, Features, Geometry, Limits, OpenError, Operation, Outcome, QueueContext, QueueFull, Request,
    Tag, Volume, VolumeQueue, shape,
};

use super::below;

/// Blocks of 512 bytes.
pub(super) const BLOCKS: u64 = 8192;
const BLOCK: usize = 512;

/// The volume. Clones are the same one.
#[derive(Debug, Clone)]
pub(super) struct Slow {
    blocks: Arc<Mutex<Vec<u8>>>,
    depth: u32,
    seed: u64,
    most_bytes: Arc<AtomicUsize>,
}

impl Slow {
    pub(super) fn new(depth: u32, seed: u64) -> Self {
        let bytes = vec![0; wire::index(BLOCKS) * BLOCK];
        Self { blocks: Arc::new(Mutex::new(bytes)), depth, seed, most_bytes: Arc::default() }
    }

    /// The most bytes of data that were under way at a time.
    pub(super) fn most_bytes(&self) -> usize {
        self.most_bytes.load(Ordering::Relaxed)
    }
}

impl Volume for Slow {
    fn geometry(&self) -> Geometry {
        Geometry { blocks: BLOCKS, block_size: 512, physical_block_size: 512 }
    }

    fn limits(&self) -> Limits {
        Limits { depth: self.depth, max_transfer: 1 << 20, ..Limits::default() }
    }

    fn features(&self) -> Features {
        Features::VOLATILE_CACHE | Features::DISCARD | Features::WRITE_ZEROES
    }

    fn open_queue(&self, _context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        let dice = SeededEntropy::new(self.seed);
        Ok(Box::new(SlowQueue { volume: self.clone(), dice, under_way: Vec::new() }))
    }
}

struct SlowQueue {
    volume: Slow,
    dice: SeededEntropy,
    under_way: Vec<(Instant, Request)>,
}

fn bytes_of(operation: &Operation) -> usize {
    match operation {
        Operation::Read { into, .. } => into.len(),
        Operation::Write { data, .. } => data.len(),
        _ => 0,
    }
}

impl SlowQueue {
    fn carry_out(&self, request: Request) -> Completion {
        let Request { tag, operation } = request;
        let mut blocks = self.volume.blocks.lock().unwrap();
        let bytes = operation.extent().map_or(0..0, |extent| {
            let at = |block: u64| wire::index(block) * BLOCK;
            at(extent.start)..at(extent.start + extent.blocks)
        });
        let outcome = match operation {
            Operation::Read { mut into, .. } => {
                into.copy_from_slice(&blocks[bytes]);
                Outcome::Data(into.freeze().into())
            }
            Operation::Write { data, .. } => {
                data.copy_to(&mut blocks[bytes]);
                Outcome::Done
            }
            Operation::Discard { .. } | Operation::WriteZeroes { .. } => {
                blocks[bytes].fill(0);
                Outcome::Done
            }
            _ => Outcome::Done,
        };
        Completion { tag, result: Ok(outcome) }
    }
}

impl VolumeQueue for SlowQueue {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        if self.under_way.len() >= wire::index(u64::from(self.volume.depth)) {
            return Err(QueueFull(request));
        }
        let (geometry, limits) = (self.volume.geometry(), self.volume.limits());
        let fits = shape::check(&request.operation, geometry, &limits, self.volume.features());
        assert_eq!(fits, Ok(()), "front ends cannot ask for what makes no sense: {request:?}");
        let takes = Duration::from_nanos(below(&mut self.dice, 400_000));
        self.under_way.push((now + takes, request));
        let bytes = self.under_way.iter().map(|(_, request)| bytes_of(&request.operation)).sum();
        self.volume.most_bytes.fetch_max(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn cancel(&mut self, _tag: Tag) {}

    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        let (due, rest) = std::mem::take(&mut self.under_way).into_iter().partition(|(when, _)| *when <= now);
        self.under_way = rest;
        let due: Vec<(Instant, Request)> = due;
        done.extend(due.into_iter().map(|(_, request)| self.carry_out(request)));
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.under_way.iter().map(|(when, _)| *when).min()
    }
}
