//! A volume that counts: what was done, how much, how long it took.
//!
//! Every queue writes a cell that only it writes, by plain stores; whoever reads adds the cells up. So counting costs
//! no shared line on the path of a request.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::Instant;

use super::front::Front;
use super::same_control;
use crate::operation_set::OperationSet;
use crate::statistics::{KINDS, OperationStats, StatsSnapshot};
use crate::{Completion, OpenError, QueueContext, QueueFull, Request, Tag, Volume, VolumeQueue};

/// Counts everything that passes.
#[derive(Debug)]
pub struct Stats {
    inner: Arc<dyn Volume>,
    counted: Arc<Mutex<Counted>>,
}

/// The cells of open queues, and the sum of those that were closed.
#[derive(Debug, Default)]
struct Counted {
    cells: Vec<Arc<Cell>>,
    closed: [OperationStats; KINDS.len()],
}

/// One queue's counters, on lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Cell {
    operations: [Counters; KINDS.len()],
}

#[derive(Debug, Default)]
struct Counters {
    count: AtomicU64,
    errors: AtomicU64,
    bytes: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
    total: AtomicU64,
}

/// Adds to a counter that only this thread writes.
fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

impl Counters {
    fn record(&self, nanos: u64, bytes: Option<u64>) {
        let first = self.count.load(Ordering::Relaxed) == 0;
        if first || nanos < self.min.load(Ordering::Relaxed) {
            self.min.store(nanos, Ordering::Relaxed);
        }
        if nanos > self.max.load(Ordering::Relaxed) {
            self.max.store(nanos, Ordering::Relaxed);
        }
        match bytes {
            Some(bytes) => bump(&self.bytes, bytes),
            None => bump(&self.errors, 1),
        }
        bump(&self.total, nanos);
        bump(&self.count, 1);
    }

    fn read(&self) -> OperationStats {
        let time = |counter: &AtomicU64| Duration::from_nanos(counter.load(Ordering::Relaxed));
        OperationStats {
            count: self.count.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            min: time(&self.min),
            max: time(&self.max),
            total: time(&self.total),
        }
    }
}

fn add_cell(sum: &mut [OperationStats; KINDS.len()], cell: &Cell) {
    sum.iter_mut().zip(&cell.operations).for_each(|(sum, counters)| sum.add(&counters.read()));
}

impl Stats {
    /// Counts what goes to `inner`.
    pub fn new(inner: Arc<dyn Volume>) -> Self {
        Self { inner, counted: Arc::default() }
    }

    /// What has been counted so far, by all queues.
    pub fn snapshot(&self) -> StatsSnapshot {
        let counted = lock(&self.counted);
        let mut operations = counted.closed;
        counted.cells.iter().for_each(|cell| add_cell(&mut operations, cell));
        StatsSnapshot { operations }
    }
}

fn lock(counted: &Mutex<Counted>) -> MutexGuard<'_, Counted> {
    counted.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Volume for Stats {
    same_control!(but statistics);

    fn statistics(&self) -> Option<StatsSnapshot> {
        Some(self.snapshot())
    }

    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        let front = Front::open(&*self.inner, context)?;
        let cell = Arc::<Cell>::default();
        lock(&self.counted).cells.push(Arc::clone(&cell));
        Ok(Box::new(StatsQueue {
            front,
            cell,
            counted: Arc::clone(&self.counted),
            started: HashMap::new(),
            block_size: u64::from(self.inner.geometry().block_size),
        }))
    }
}

struct StatsQueue {
    front: Front,
    cell: Arc<Cell>,
    counted: Arc<Mutex<Counted>>,
    started: HashMap<Tag, Started>,
    block_size: u64,
}

struct Started {
    at: Instant,
    kind: usize,
    bytes: u64,
}

impl VolumeQueue for StatsQueue {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        let request = self.front.take(request)?;
        let set = OperationSet::of(&request.operation);
        let kind = KINDS.iter().position(|kind| *kind == set).unwrap_or_default();
        let blocks = request.operation.extent().map_or(0, |extent| extent.blocks);
        let bytes = blocks.saturating_mul(self.block_size);
        self.started.insert(request.tag, Started { at: now, kind, bytes });
        self.front.pass_on(now, request);
        Ok(())
    }

    fn cancel(&mut self, tag: Tag) {
        self.front.cancel(tag);
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        let before = done.len();
        self.front.poll(now, done);
        for completion in done.iter().skip(before) {
            let Some(started) = self.started.remove(&completion.tag) else { continue };
            let nanos = protocol::nanos(now.since(started.at));
            let bytes = completion.result.as_ref().ok().map(|_| started.bytes);
            if let Some(counters) = self.cell.operations.get(started.kind) {
                counters.record(nanos, bytes);
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.front.poll_timeout()
    }
}

impl Drop for StatsQueue {
    fn drop(&mut self) {
        let mut counted = lock(&self.counted);
        counted.cells.retain(|cell| !Arc::ptr_eq(cell, &self.cell));
        add_cell(&mut counted.closed, &self.cell);
    }
}
