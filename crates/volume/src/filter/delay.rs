//! A volume that takes its time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Memory};
use std::time::Duration;

use protocol::{Entropy, Instant, SeededEntropy};

use super::front::{Front, earlier};
use super::same_control;
use crate::operation_set::OperationSet;
use crate::{
    Completion, OpenError, QueueContext, QueueFull, Request, Tag, Volume, VolumeErrorKind, VolumeQueue,
};

/// Passes requests on after a delay, which may vary; they may overtake each other then.
#[derive(Debug)]
pub struct Delay {
    inner: Arc<dyn Volume>,
    time: Duration,
    jitter: Duration,
    seed: u64,
    on: OperationSet,
    queues: AtomicU64,
}

impl Delay {
    /// Delays everything by `time`.
    pub fn new(inner: Arc<dyn Volume>, time: Duration) -> Self {
        let (jitter, on) = (Duration::ZERO, OperationSet::all());
        Self { inner, time, jitter, seed: 0, on, queues: AtomicU64::new(0) }
    }

    /// Adds up to `jitter` to each delay, drawn from `seed` and the number of the queue.
    #[must_use]
    pub fn with_jitter(mut self, jitter: Duration, seed: u64) -> Self {
        (self.jitter, self.seed) = (jitter, seed);
        self
    }

    /// Delays these operations only.
    #[must_use]
    pub fn on(mut self, on: OperationSet) -> Self {
        self.on = on;
        self
    }
}

impl Volume for Delay {
    same_control!();

    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        let number = self.queues.fetch_add(1, Memory::Relaxed);
        Ok(Box::new(DelayQueue {
            front: Front::open(&*self.inner, context)?,
            waiting: BinaryHeap::new(),
            taken: 0,
            time: self.time,
            jitter: protocol::nanos(self.jitter),
            on: self.on,
            entropy: SeededEntropy::new(self.seed.wrapping_add(number)),
        }))
    }
}

struct DelayQueue {
    front: Front,
    waiting: BinaryHeap<Reverse<Waiting>>,
    taken: u64,
    time: Duration,
    jitter: u64,
    on: OperationSet,
    entropy: SeededEntropy,
}

/// A request and when it goes on; of two at the same time, the one that came first goes first.
struct Waiting {
    due: (Instant, u64),
    request: Request,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        self.due.cmp(&other.due)
    }
}

impl DelayQueue {
    fn delay(&mut self) -> Duration {
        if self.jitter == 0 {
            return self.time;
        }
        self.time + Duration::from_nanos(self.entropy.number() % self.jitter)
    }

    fn release(&mut self, now: Instant) {
        while self.waiting.peek().is_some_and(|Reverse(first)| first.due.0 <= now) {
            let Some(Reverse(first)) = self.waiting.pop() else { return };
            self.front.pass_on(now, first.request);
        }
    }
}

impl VolumeQueue for DelayQueue {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        let request = self.front.take(request)?;
        if self.on.contains(OperationSet::of(&request.operation)) {
            self.taken += 1;
            let due = (now + self.delay(), self.taken);
            self.waiting.push(Reverse(Waiting { due, request }));
        } else {
            self.front.pass_on(now, request);
        }
        Ok(())
    }

    fn cancel(&mut self, tag: Tag) {
        let is_it = |waiting: &Reverse<Waiting>| waiting.0.request.tag == tag;
        let mut waiting = std::mem::take(&mut self.waiting).into_vec();
        let found = waiting.iter().position(is_it).map(|index| waiting.swap_remove(index));
        self.waiting = waiting.into();
        match found {
            Some(Reverse(waiting)) => self.front.fail(waiting.request, VolumeErrorKind::Cancelled),
            None => self.front.cancel(tag),
        }
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.release(now);
        self.front.poll(now, done);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let due = self.waiting.peek().map(|Reverse(first)| first.due.0);
        earlier(due, self.front.poll_timeout())
    }
}
