//! A volume that fails now and then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use names::FailRate;
use protocol::{Entropy, Instant, SeededEntropy};

use super::front::Front;
use super::same_control;
use crate::operation_set::OperationSet;
use crate::{
    Completion, Extent, OpenError, Operation, QueueContext, QueueFull, Request, Tag, Volume, VolumeErrorKind,
    VolumeQueue,
};

/// Ends some requests with an error instead of passing them on.
#[derive(Debug)]
pub struct Fail {
    inner: Arc<dyn Volume>,
    rule: Rule,
    seed: u64,
    queues: AtomicU64,
}

#[derive(Debug, Clone, Copy)]
struct Rule {
    rate: FailRate,
    kind: VolumeErrorKind,
    on: OperationSet,
    within: Option<Extent>,
}

impl Fail {
    /// Fails requests of any operation at `rate` with `kind`.
    pub fn new(inner: Arc<dyn Volume>, rate: FailRate, kind: VolumeErrorKind) -> Self {
        let rule = Rule { rate, kind, on: OperationSet::all(), within: None };
        Self { inner, rule, seed: 0, queues: AtomicU64::new(0) }
    }

    /// Fails these operations only.
    #[must_use]
    pub fn on(mut self, on: OperationSet) -> Self {
        self.rule.on = on;
        self
    }

    /// Fails only what touches these blocks.
    #[must_use]
    pub fn within(mut self, extent: Option<Extent>) -> Self {
        self.rule.within = extent;
        self
    }

    /// Draws from this seed and the number of the queue.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
}

impl Volume for Fail {
    same_control!();

    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        let number = self.queues.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(FailQueue {
            front: Front::open(&*self.inner, context)?,
            rule: self.rule,
            concerned: 0,
            entropy: SeededEntropy::new(self.seed.wrapping_add(number)),
        }))
    }
}

struct FailQueue {
    front: Front,
    rule: Rule,
    concerned: u64,
    entropy: SeededEntropy,
}

impl FailQueue {
    fn fails(&mut self, operation: &Operation) -> bool {
        let inside = |within: Extent| operation.extent().is_some_and(|extent| extent.overlaps(within));
        if !self.rule.on.contains(OperationSet::of(operation)) || !self.rule.within.is_none_or(inside) {
            return false;
        }
        self.concerned += 1;
        match self.rule.rate {
            FailRate::PartsPerMillion(parts) => self.entropy.number() % 1_000_000 < u64::from(parts),
            FailRate::EveryNth(nth) => nth > 0 && self.concerned.is_multiple_of(nth),
        }
    }
}

impl VolumeQueue for FailQueue {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        let request = self.front.take(request)?;
        if self.fails(&request.operation) {
            self.front.fail(request, self.rule.kind);
        } else {
            self.front.pass_on(now, request);
        }
        Ok(())
    }

    fn cancel(&mut self, tag: Tag) {
        self.front.cancel(tag);
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.front.poll(now, done);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.front.poll_timeout()
    }
}
