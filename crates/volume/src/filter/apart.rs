//! A volume whose requests do not meet: what overlaps goes one after the other, on whatever core.
//!
//! It stands before a volume that may mix requests that overlap, as servers of files do, and makes its blocks whole again, as the contract wants them. What does not
//! overlap does not wait.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use protocol::Instant;

use super::front::{Front, remove};
use super::same_control;
use crate::range_locks::{BlockRange, LockMode, RangeLock, RangeLocks};
use crate::{
    Completion, OpenError, QueueContext, QueueFull, Request, Tag, Volume, VolumeErrorKind, VolumeQueue,
};

/// Keeps requests apart that overlap.
#[derive(Debug)]
pub struct Apart {
    inner: Arc<dyn Volume>,
    locks: Arc<RangeLocks>,
}

impl Apart {
    /// Keeps the requests of all queues of `inner` apart.
    pub fn new(inner: Arc<dyn Volume>) -> Self {
        Self { inner, locks: RangeLocks::new() }
    }
}

impl Volume for Apart {
    same_control!();

    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        Ok(Box::new(ApartQueue {
            front: Front::open(&*self.inner, context)?,
            lock: RangeLock::new(&self.locks, context.waker.clone()),
            block_size: u64::from(self.inner.geometry().block_size),
            waiting: VecDeque::new(),
            locked: HashMap::new(),
        }))
    }
}

struct ApartQueue {
    front: Front,
    lock: RangeLock,
    /// Bytes.
    block_size: u64,
    /// Those whose first waits for its lock.
    waiting: VecDeque<Request>,
    locked: HashMap<Tag, Locked>,
}

/// What a request under way has locked.
#[derive(Debug, Clone, Copy)]
struct Locked {
    range: BlockRange,
    mode: LockMode,
}

impl ApartQueue {
    /// Passes on what waits, in order, as far as it gets its lock; true if one did.
    fn admit(&mut self, now: Instant) -> bool {
        let mut progress = false;
        while let Some(request) = self.waiting.pop_front() {
            let mode = LockMode::of(&request.operation);
            if mode != LockMode::None
                && let Some(extent) = request.operation.extent()
            {
                let offset = extent.start.saturating_mul(self.block_size);
                let range = BlockRange::of_bytes(offset, extent.blocks.saturating_mul(self.block_size));
                if !self.lock.try_lock(range, mode) {
                    self.waiting.push_front(request);
                    return progress;
                }
                self.locked.insert(request.tag, Locked { range, mode });
            }
            self.front.pass_on(now, request);
            progress = true;
        }
        progress
    }

    /// Takes what has ended, which lets others in.
    fn collect(&mut self, now: Instant, done: &mut Vec<Completion>) {
        let before = done.len();
        self.front.poll(now, done);
        for completion in done.iter().skip(before) {
            if let Some(Locked { range, mode }) = self.locked.remove(&completion.tag) {
                self.lock.unlock(range, mode);
            }
        }
    }
}

impl VolumeQueue for ApartQueue {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        let request = self.front.take(request)?;
        self.waiting.push_back(request);
        if self.waiting.len() == 1 {
            self.admit(now);
        }
        Ok(())
    }

    fn cancel(&mut self, tag: Tag) {
        match remove(&mut self.waiting, tag) {
            Some(request) => {
                // The one behind it begins to wait for itself.
                self.lock.stop_waiting();
                self.front.fail(request, VolumeErrorKind::Cancelled);
            }
            None => self.front.cancel(tag),
        }
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.collect(now, done);
        while self.admit(now) {
            self.collect(now, done);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.front.poll_timeout()
    }
}

impl Drop for ApartQueue {
    fn drop(&mut self) {
        for Locked { range, mode } in self.locked.values() {
            self.lock.unlock(*range, *mode);
        }
    }
}
