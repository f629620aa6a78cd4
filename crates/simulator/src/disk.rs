//! The crash disk: a disk with a volatile write cache, whose power can be cut at any moment.
//!
//! # Fault model
//! * A sector is written all or nothing; a longer write is torn between its sectors.
//! * A completed write that is neither durable nor covered by a later flush lies in the cache: reads see it, and a cut
//!   loses it or not, each sector by itself, in any order. So newer sectors may survive where older ones are lost.
//! * A write that is under way at a cut may have reached any of its sectors.
//! * A flush secures what had completed before it was submitted, and nothing more.
//! * With a page cache ([`DiskOptions::write_back`]) the system writes back by itself, and sometimes fails: what a sector's cache
//!   held is then lost though reads see it, the next flush of each queue is told so, once, and later ones are not. A queue opened
//!   after somebody was told is not told. This is what Linux does for each open file description.
//! * Operations end in any order. By [`DiskOptions::errors`] some fail with `EIO`; a failed write may have changed any of its sectors.
//!
//! Architecture invariant: one thread, one seed, no clock; whoever drives the disk lets operations end by polling.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use buf::Buf;
use host::{
    BlockDone, BlockFile, BlockInfo, BlockKind, BlockOperation, BlockQueue, BlockRequest, IoError,
    OpenOptions, Storage,
};

use crate::dice::{Dice, Odds};
use crate::limits::DISK_DEPTH;
use crate::lock;

/// `EIO`.
const IO_ERROR: IoError = IoError(5);
/// Bytes in a sector.
pub const SECTOR: usize = 512;

/// A bug that a storage stack must not have; the checker must find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlantedBug {
    /// None: the disk keeps its promises.
    #[default]
    None,
    /// A flush does nothing and succeeds.
    FlushDoesNothing,
    /// A write is acknowledged before it is done.
    EarlyAcknowledgement,
    /// A durable write stays in the cache.
    DurableIsCached,
}

/// What a disk is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskOptions {
    /// Sectors.
    pub sectors: usize,
    /// How often an operation fails.
    pub errors: Odds,
    /// How often the page cache before it fails to write something back; `None` if there is no page cache.
    pub write_back: Option<Odds>,
    /// What is wrong with it.
    pub bug: PlantedBug,
}

/// Bytes of a sector, and when they were written.
#[derive(Debug, Clone)]
struct Version {
    sequence: u64,
    bytes: Box<[u8]>,
    /// It could not be written back: it is seen until the power is cut, and never secured.
    lost: bool,
}

/// A sector: what is on the medium, and what the cache holds of it, oldest first.
#[derive(Debug, Clone)]
struct Sector {
    stable: Version,
    cached: Vec<Version>,
}

impl Sector {
    fn newest(&self) -> &Version {
        self.cached.last().unwrap_or(&self.stable)
    }
}

struct State {
    options: DiskOptions,
    sectors: Vec<Sector>,
    /// Operations of all queues that are under way, by queue.
    pending: Vec<(usize, u64, BlockRequest)>,
    /// Acknowledged before they were done ([`PlantedBug::EarlyAcknowledgement`]).
    owed: VecDeque<(u64, Vec<u8>)>,
    done: Vec<(usize, BlockDone)>,
    sequence: u64,
    /// How often something could not be written back, and how much of that each queue was told, by its number from one.
    failures: u64,
    told: Vec<u64>,
    /// How much of it a living process was told. Linux also counts what a process was told that was killed before it could look;
    /// docs/decisions/0012-lost-writes.md says what that leaves open.
    heard: u64,
    dice: Dice,
}

/// A disk whose power can be cut. Clones are handles to the same disk.
#[derive(Clone)]
pub struct CrashDisk(Arc<Mutex<State>>);

impl CrashDisk {
    /// A disk of zeros.
    pub fn new(options: DiskOptions, dice: Dice) -> Self {
        let zeros = Version { sequence: 0, bytes: vec![0; SECTOR].into(), lost: false };
        let sector = Sector { stable: zeros, cached: Vec::new() };
        Self(Arc::new(Mutex::new(State {
            options,
            sectors: vec![sector; options.sectors],
            pending: Vec::new(),
            owed: VecDeque::new(),
            done: Vec::new(),
            sequence: 0,
            failures: 0,
            told: Vec::new(),
            heard: 0,
            dice,
        })))
    }

    /// Cuts the power: what was under way ends nowhere, and of everything that was not secured any part may be gone.
    /// Queues that were open are dead.
    pub fn cut(&self) {
        let mut state = lock(&self.0);
        state.reach_some_sectors_of_pending();
        state.pending.clear();
        state.owed.clear();
        state.done.clear();
        let State { sectors, dice, .. } = &mut *state;
        for sector in sectors {
            sector.cached.retain(|version| !version.lost);
            let survivors = sector.cached.len() + 1;
            let survivor = dice.index(survivors);
            if let Some(version) = survivor.checked_sub(1).and_then(|index| sector.cached.get(index)) {
                sector.stable = version.clone();
            }
            sector.cached.clear();
        }
    }
}

impl CrashDisk {
    /// Lets all that is under way run its course, in any order, with nobody to be told: the process that began it has ended, and
    /// the system waits for such operations before it lets a process go.
    pub fn outlive(&self) {
        let mut state = lock(&self.0);
        while !state.pending.is_empty() {
            let index = state.pending.len();
            let chosen = state.dice.index(index);
            let (queue, submitted, request) = state.pending.swap_remove(chosen);
            state.perform((queue, submitted), request);
        }
        state.done.clear();
    }
}

impl fmt::Debug for CrashDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrashDisk").field("options", &lock(&self.0).options).finish_non_exhaustive()
    }
}

impl State {
    fn bytes(&self) -> u64 {
        (self.sectors.len() * SECTOR) as u64
    }

    /// Puts bytes into the cache, or onto the medium.
    fn write(&mut self, offset: u64, bytes: &[u8], secured: bool) {
        self.sequence += 1;
        let first = wire::index(offset) / SECTOR;
        for (sector, bytes) in self.sectors.iter_mut().skip(first).zip(bytes.chunks(SECTOR)) {
            let version = Version { sequence: self.sequence, bytes: bytes.into(), lost: false };
            if secured {
                sector.stable = version;
                sector.cached.clear();
            } else {
                sector.cached.push(version);
            }
        }
    }

    fn read(&self, offset: u64, into: &mut [u8]) {
        let first = wire::index(offset) / SECTOR;
        for (sector, place) in self.sectors.iter().skip(first).zip(into.chunks_mut(SECTOR)) {
            place.copy_from_slice(&sector.newest().bytes[..place.len()]);
        }
    }

    /// Secures every cached version up to `sequence`.
    fn secure(&mut self, sequence: u64) {
        for sector in &mut self.sectors {
            let older = sector.cached.iter().take_while(|version| version.sequence <= sequence).count();
            // What reads see stays so.
            let seen = sector.cached.last().filter(|newest| newest.lost).cloned();
            if let Some(newest) = sector.cached.drain(..older).rfind(|version| !version.lost) {
                sector.stable = newest;
            }
            if sector.cached.is_empty() {
                sector.cached.extend(seen);
            }
        }
    }

    /// The page cache fails to write something back, sometimes.
    fn write_back(&mut self) {
        let Some(odds) = self.options.write_back else { return };
        if !self.dice.happens(odds) {
            return;
        }
        let chosen = self.dice.index(self.sectors.len());
        let Some(sector) = self.sectors.get_mut(chosen) else { return };
        if sector.cached.iter().any(|version| !version.lost) {
            sector.cached.iter_mut().for_each(|version| version.lost = true);
            self.failures += 1;
        }
    }

    /// True when a queue is told that something could not be written back, which it then was.
    fn is_told(&mut self, queue: usize) -> bool {
        let place = queue.checked_sub(1).and_then(|index| self.told.get_mut(index));
        place.is_some_and(|told| std::mem::replace(told, self.failures) != self.failures)
    }

    /// Lets each pending write reach some of its sectors, in the cache.
    fn reach_some_sectors_of_pending(&mut self) {
        for (_, _, request) in std::mem::take(&mut self.pending) {
            self.reach_some_sectors(&request.operation);
        }
    }

    fn reach_some_sectors(&mut self, operation: &BlockOperation) {
        let Some((offset, bytes)) = written(operation) else { return };
        for (index, sector) in bytes.chunks(SECTOR).enumerate() {
            if self.dice.coin() {
                self.write(offset + (index * SECTOR) as u64, sector, false);
            }
        }
    }

    fn submit(&mut self, queue: usize, request: BlockRequest) {
        let early = self.options.bug == PlantedBug::EarlyAcknowledgement;
        match &request.operation {
            BlockOperation::Write { offset, data, durable: false } if early => {
                let mut bytes = vec![0; data.len()];
                data.copy_to(&mut bytes);
                self.owed.push_back((*offset, bytes));
                let done = BlockDone { tag: request.tag, result: Ok(()), data: None, run: None };
                self.done.push((queue, done));
            }
            _ => self.pending.push((queue, self.sequence, request)),
        }
    }

    /// Lets some operations end.
    fn step(&mut self) {
        self.write_back();
        if !self.owed.is_empty()
            && self.dice.coin()
            && self.dice.coin()
            && let Some((offset, bytes)) = self.owed.pop_front()
        {
            self.write(offset, &bytes, false);
        }
        while !self.pending.is_empty() && self.dice.coin() {
            let chosen = self.dice.index(self.pending.len());
            let (queue, submitted, request) = self.pending.swap_remove(chosen);
            let done = self.perform((queue, submitted), request);
            self.done.push((queue, done));
        }
    }

    fn perform(&mut self, (queue, submitted): (usize, u64), request: BlockRequest) -> BlockDone {
        let mut done = BlockDone { tag: request.tag, result: Ok(()), data: None, run: None };
        if self.dice.happens(self.options.errors) {
            self.reach_some_sectors(&request.operation);
            done.result = Err(IO_ERROR);
            if let BlockOperation::Read { into, .. } = request.operation {
                done.data = Some(into.freeze());
            }
            return done;
        }
        let honest_durable = self.options.bug != PlantedBug::DurableIsCached;
        if let Some((offset, bytes)) = written(&request.operation) {
            let durable = matches!(request.operation, BlockOperation::Write { durable: true, .. });
            self.write(offset, &bytes, durable && honest_durable);
            return done;
        }
        match request.operation {
            BlockOperation::Read { offset, mut into } => {
                self.read(offset, &mut into);
                done.data = Some(Buf::freeze(into));
            }
            BlockOperation::Flush if self.options.bug != PlantedBug::FlushDoesNothing => {
                self.secure(submitted);
                if self.is_told(queue) {
                    done.result = Err(IO_ERROR);
                }
            }
            BlockOperation::Seek { offset } => done.run = Some((self.bytes().saturating_sub(offset), true)),
            _ => {}
        }
        done
    }
}

/// The bytes that an operation writes, and where.
fn written(operation: &BlockOperation) -> Option<(u64, Vec<u8>)> {
    match operation {
        BlockOperation::Write { offset, data, .. } => {
            let mut bytes = vec![0; data.len()];
            data.copy_to(&mut bytes);
            Some((*offset, bytes))
        }
        BlockOperation::Discard { offset, len } | BlockOperation::Zero { offset, len } => {
            Some((*offset, vec![0; usize::try_from(*len).unwrap_or(0)]))
        }
        BlockOperation::Read { .. } | BlockOperation::Flush | BlockOperation::Seek { .. } => None,
    }
}

impl BlockFile for CrashDisk {
    fn info(&self) -> BlockInfo {
        let sector = wire::bounded::<u32>(SECTOR);
        let state = lock(&self.0);
        BlockInfo {
            kind: BlockKind::File,
            size: state.bytes(),
            alignment: 1,
            logical_block: sector,
            physical_block: sector,
            can_discard: true,
            can_zero: true,
            page_cache: state.options.write_back.is_some(),
        }
    }

    fn open_queue(&self, waker: Waker) -> Result<Box<dyn BlockQueue>, IoError> {
        let mut state = lock(&self.0);
        let heard = state.heard;
        state.told.push(heard);
        let queue = state.told.len();
        Ok(Box::new(DiskQueue { disk: self.clone(), queue, outstanding: 0, waker }))
    }
}

/// A storage with this one disk, whatever the path.
impl Storage for CrashDisk {
    fn open(&self, _path: &str, _options: OpenOptions) -> Result<Arc<dyn BlockFile>, IoError> {
        Ok(Arc::new(self.clone()))
    }
}

struct DiskQueue {
    disk: CrashDisk,
    queue: usize,
    outstanding: usize,
    waker: Waker,
}

impl BlockQueue for DiskQueue {
    fn submit(&mut self, request: BlockRequest) -> Result<(), BlockRequest> {
        if self.outstanding >= DISK_DEPTH {
            return Err(request);
        }
        self.outstanding += 1;
        lock(&self.disk.0).submit(self.queue, request);
        Ok(())
    }

    fn poll(&mut self, done: &mut Vec<BlockDone>) {
        let mut state = lock(&self.disk.0);
        state.step();
        let before = done.len();
        let (ours, others) =
            std::mem::take(&mut state.done).into_iter().partition(|(queue, _)| *queue == self.queue);
        state.done = others;
        let ours: Vec<(usize, BlockDone)> = ours;
        if ours.iter().any(|(_, finished)| finished.result.is_err()) {
            state.heard = state.told.get(self.queue - 1).copied().unwrap_or(0).max(state.heard);
        }
        done.extend(ours.into_iter().map(|(_, finished)| finished));
        self.outstanding = self.outstanding.saturating_sub(done.len() - before);
        if self.outstanding > 0 {
            // The disk does its work while it is looked at.
            self.waker.wake_by_ref();
        }
    }
}
