//! A disk in memory with a volatile cache, whose operations end in any order, and which can be cut off, die and come back.
//!
//! * A block is written whole or not at all. A completed write that no flush has covered is seen by reads; a power cut loses it or not, each block by itself.
//! * A flush secures what had completed before it was submitted. A durable write secures itself.
//! * A write that is under way at a cut may have reached any of its blocks.
//! * A dead disk fails everything, and keeps what it has.

use std::sync::{Arc, Mutex, MutexGuard};

use buf::{Buf, BufList};
use protocol::{Entropy, Instant, SeededEntropy};
use volume::{
    Allocation, Changes, Completion, Durability, Extent, Failure, Features, Geometry, Limits, OpenError,
    Operation, Outcome, QueueContext, QueueFull, Request, Tag, Volume, VolumeErrorKind, VolumeQueue, shape,
};

pub(super) const BLOCK: usize = 512;
const DEPTH: u32 = 12;

#[derive(Debug, Clone, Default)]
struct Block {
    stable: Vec<u8>,
    /// What the cache has of it, oldest first, with the number of the write.
    cached: Vec<(u64, Vec<u8>)>,
}

impl Block {
    fn newest(&self) -> &[u8] {
        self.cached.last().map_or(&self.stable, |(_, bytes)| bytes)
    }
}

#[derive(Debug)]
struct Medium {
    blocks: Vec<Block>,
    writes: u64,
    dead: bool,
    /// One in so many operations fails.
    errors: Option<u64>,
    /// An operation ends in one of so many polls.
    slowness: u64,
    dice: SeededEntropy,
    /// Writes under way, for a cut.
    under_way: Vec<(u64, Extent, Option<BufList>)>,
    queues: u64,
    /// How often it has lost what no flush had covered, and how often before this life: the next flush of each queue fails.
    losses: u64,
    losses_before: u64,
}

impl Medium {
    fn chance(&mut self, one_in: u64) -> bool {
        self.dice.number().is_multiple_of(one_in)
    }

    fn write(&mut self, extent: Extent, data: Option<&BufList>, durable: bool) {
        let bytes = data.map(|data| data.clone().into_one());
        for index in 0..extent.blocks {
            self.write_block(extent, index, bytes.as_deref(), durable);
        }
    }

    fn write_block(&mut self, extent: Extent, index: u64, bytes: Option<&[u8]>, durable: bool) {
        let at = usize::try_from(index).unwrap() * BLOCK;
        let content = bytes.map_or_else(|| vec![0; BLOCK], |bytes| bytes[at..at + BLOCK].to_vec());
        let block = &mut self.blocks[usize::try_from(extent.start + index).unwrap()];
        self.writes += 1;
        if durable {
            (block.stable, block.cached) = (content, Vec::new());
        } else {
            block.cached.push((self.writes, content));
        }
    }

    /// A write that reaches some of its blocks.
    fn partly(&mut self, extent: Extent, data: Option<BufList>) {
        let bytes = data.map(BufList::into_one);
        for index in 0..extent.blocks {
            if !self.dead && self.chance(2) {
                self.write_block(extent, index, bytes.as_deref(), false);
            }
        }
    }

    fn flush(&mut self, covers: u64) {
        for block in &mut self.blocks {
            while block.cached.first().is_some_and(|(write, _)| *write <= covers) {
                block.stable = block.cached.remove(0).1;
            }
        }
    }
}

/// A disk; clones are the same one.
#[derive(Debug, Clone)]
pub(super) struct Disk {
    medium: Arc<Mutex<Medium>>,
    blocks: u64,
}

impl Disk {
    pub(super) fn new(blocks: u64, seed: u64) -> Self {
        let block = Block { stable: vec![0; BLOCK], cached: Vec::new() };
        let medium = Medium {
            blocks: vec![block; usize::try_from(blocks).unwrap()],
            writes: 0,
            dead: false,
            errors: None,
            slowness: 1,
            dice: SeededEntropy::new(seed),
            under_way: Vec::new(),
            queues: 0,
            losses: 0,
            losses_before: 0,
        };
        Self { medium: Arc::new(Mutex::new(medium)), blocks }
    }

    fn lock(&self) -> MutexGuard<'_, Medium> {
        self.medium.lock().unwrap()
    }

    pub(super) fn set_slowness(&self, slowness: u64) {
        self.lock().slowness = slowness;
    }

    pub(super) fn set_errors(&self, errors: Option<u64>) {
        self.lock().errors = errors;
    }

    pub(super) fn set_dead(&self, dead: bool) {
        self.lock().dead = dead;
    }

    /// What nobody drives any more: it has reached any of its blocks.
    pub(super) fn abandon(&self) {
        let mut medium = self.lock();
        medium.losses_before = medium.losses;
        for (_, extent, data) in core::mem::take(&mut medium.under_way) {
            medium.partly(extent, data);
        }
    }

    /// It begins anew without its cache, as a machine does that is reached again after a while: of what no flush has covered some is lost, and the next flush of each queue fails.
    pub(super) fn lose(&self) {
        let mut medium = self.lock();
        medium.losses += 1;
        for index in 0..medium.blocks.len() {
            if !medium.blocks[index].cached.is_empty() && medium.chance(2) {
                medium.blocks[index].cached.clear();
            }
        }
    }

    /// The power goes: of what the cache has of each block, some or none is there afterwards.
    pub(super) fn cut(&self) {
        self.abandon();
        let mut medium = self.lock();
        for index in 0..medium.blocks.len() {
            let versions = medium.blocks[index].cached.len() as u64;
            let kept = medium.dice.number() % (versions + 1);
            let block = &mut medium.blocks[index];
            if let Some((_, bytes)) =
                usize::try_from(kept).unwrap().checked_sub(1).map(|at| block.cached[at].clone())
            {
                block.stable = bytes;
            }
            block.cached.clear();
        }
    }

    /// What a block holds, as reads see it.
    pub(super) fn newest(&self, block: u64) -> Vec<u8> {
        self.lock().blocks[usize::try_from(block).unwrap()].newest().to_vec()
    }
}

impl Volume for Disk {
    fn geometry(&self) -> Geometry {
        Geometry { blocks: self.blocks, block_size: 512, physical_block_size: 512 }
    }

    fn limits(&self) -> Limits {
        Limits { max_transfer: 64 << 10, depth: DEPTH, ..Limits::default() }
    }

    fn features(&self) -> Features {
        Features::VOLATILE_CACHE | Features::DISCARD | Features::WRITE_ZEROES
    }

    /// Whoever begins anew is reached in another way.
    fn changes(&self) -> Changes {
        Changes { path: self.lock().losses, ..Changes::default() }
    }

    fn open_queue(&self, _: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        let mut medium = self.lock();
        medium.queues += 1;
        Ok(Box::new(DiskQueue {
            disk: self.clone(),
            number: medium.queues << 32,
            pending: Vec::new(),
            told: medium.losses_before,
        }))
    }
}

struct Pending {
    number: u64,
    request: Request,
    /// What a flush covers.
    covers: u64,
}

struct DiskQueue {
    disk: Disk,
    number: u64,
    pending: Vec<Pending>,
    /// Losses that its flushes have told of.
    told: u64,
}

impl DiskQueue {
    fn carry_out(medium: &mut Medium, told: &mut u64, pending: Pending) -> Completion {
        let Pending { number, request: Request { tag, operation }, covers } = pending;
        medium.under_way.retain(|(other, ..)| *other != number);
        let fails =
            medium.dead || medium.errors.is_some_and(|one_in| medium.dice.number().is_multiple_of(one_in));
        let tells = matches!(operation, Operation::Flush) && *told < medium.losses;
        if tells {
            *told = medium.losses;
        }
        if fails || tells {
            // Some of its blocks may have changed.
            if let Operation::Write { extent, data, .. } = &operation {
                medium.partly(*extent, Some(data.clone()));
            }
            return Completion { tag, result: Err(Failure::of(operation, VolumeErrorKind::Media)) };
        }
        let result = match operation {
            Operation::Read { extent, mut into } => {
                for (index, target) in (extent.start..).zip(into.chunks_mut(BLOCK)) {
                    target.copy_from_slice(medium.blocks[usize::try_from(index).unwrap()].newest());
                }
                Outcome::Data(into.freeze().into())
            }
            Operation::Write { extent, data, durability } => {
                medium.write(extent, Some(&data), durability == Durability::Durable);
                Outcome::Done
            }
            Operation::WriteZeroes { extent, durability, .. } => {
                medium.write(extent, None, durability == Durability::Durable);
                Outcome::Done
            }
            Operation::Discard { extent } => {
                medium.write(extent, None, false);
                Outcome::Done
            }
            Operation::Flush => {
                medium.flush(covers);
                Outcome::Done
            }
            Operation::QueryAllocation { extent } => Outcome::Allocation(Allocation { extent, mapped: true }),
            _ => Outcome::Done,
        };
        Completion { tag, result: Ok(result) }
    }
}

impl VolumeQueue for DiskQueue {
    fn submit(&mut self, _: Instant, request: Request) -> Result<(), QueueFull> {
        if self.pending.len() >= DEPTH as usize {
            return Err(QueueFull(request));
        }
        let (geometry, limits, features) = (self.disk.geometry(), self.disk.limits(), self.disk.features());
        assert_eq!(shape::check(&request.operation, geometry, &limits, features), Ok(()), "{request:?}");
        let mut medium = self.disk.lock();
        self.number += 1;
        let under_way = match &request.operation {
            Operation::Write { extent, data, .. } => Some((self.number, *extent, Some(data.clone()))),
            Operation::WriteZeroes { extent, .. } | Operation::Discard { extent } => {
                Some((self.number, *extent, None))
            }
            _ => None,
        };
        if let Some(extent) = request.operation.extent() {
            let is_write = request.operation.writes();
            let clash = medium.under_way.iter().find(|(_, other, _)| other.overlaps(extent) && is_write);
            assert!(clash.is_none(), "two writes of the same block are under way: {request:?} and {clash:?}");
        }
        medium.under_way.extend(under_way);
        let covers = medium.writes;
        self.pending.push(Pending { number: self.number, request, covers });
        Ok(())
    }

    fn cancel(&mut self, _: Tag) {}

    fn poll(&mut self, _: Instant, done: &mut Vec<Completion>) {
        let mut medium = self.disk.lock();
        let mut index = 0;
        while index < self.pending.len() {
            let slowness = medium.slowness;
            if medium.chance(slowness) {
                let pending = self.pending.swap_remove(index);
                done.push(Self::carry_out(&mut medium, &mut self.told, pending));
            } else {
                index += 1;
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (!self.pending.is_empty()).then_some(Instant::ZERO)
    }
}

impl Drop for DiskQueue {
    /// What was under way has reached any of its blocks, and reaches no more.
    fn drop(&mut self) {
        let Ok(mut medium) = self.disk.medium.lock() else { return };
        for Pending { number, .. } in self.pending.drain(..) {
            let Some(index) = medium.under_way.iter().position(|(other, ..)| *other == number) else {
                continue;
            };
            let (_, extent, data) = medium.under_way.swap_remove(index);
            medium.partly(extent, data);
        }
    }
}

/// A block that holds a value, and says where it belongs.
pub(super) fn block_of(value: u64, place: u64) -> Vec<u8> {
    if value == 0 {
        return vec![0; BLOCK];
    }
    let mut bytes = Vec::with_capacity(BLOCK);
    while bytes.len() < BLOCK {
        bytes.extend(value.to_le_bytes());
        bytes.extend(place.to_le_bytes());
    }
    bytes
}

/// The value that a block holds; `None` if it is torn, or another block's.
pub(super) fn value_of(bytes: &[u8], place: u64) -> Option<u64> {
    let value = u64::from_le_bytes(*bytes.first_chunk()?);
    (bytes == block_of(value, place)).then_some(value)
}

/// Blocks that hold these values.
pub(super) fn data_of(values: &[u64], start: u64) -> BufList {
    let bytes = (start..).zip(values).flat_map(|(place, value)| block_of(*value, place)).collect::<Vec<_>>();
    Buf::from(bytes).freeze().into()
}
