//! A volume that is no faster than it is told.
//!
//! Each limit is a point in time up to which the rate is used up; a request may go on while that is at most a burst
//! ahead of now, and moves it by what it costs. The two points are shared by all queues: the limit is the volume's.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use protocol::Instant;

use super::front::{Front, earlier, remove};
use super::same_control;
use crate::{
    Completion, OpenError, Operation, QueueContext, QueueFull, Request, Tag, Volume, VolumeErrorKind,
    VolumeQueue,
};

/// How far ahead a volume may work, in nanoseconds: what it does at once after being idle.
const BURST: u64 = 10_000_000;
const SECOND: u64 = 1_000_000_000;

/// Holds requests back so that no more than so many, or so many bytes, go on in a second.
#[derive(Debug)]
pub struct Limit {
    inner: Arc<dyn Volume>,
    rates: Rates,
    used: Arc<Mutex<Used>>,
}

#[derive(Debug, Clone, Copy)]
struct Rates {
    requests: Option<u64>,
    bytes: Option<u64>,
}

/// Up to when each rate is used up.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    requests: Instant,
    bytes: Instant,
}

impl Limit {
    /// At most `requests` and `bytes` (read and written) in a second; `None` or zero is no limit.
    pub fn new(inner: Arc<dyn Volume>, requests: Option<u64>, bytes: Option<u64>) -> Self {
        let positive = |rate: Option<u64>| rate.filter(|rate| *rate > 0);
        let rates = Rates { requests: positive(requests), bytes: positive(bytes) };
        Self { inner, rates, used: Arc::default() }
    }
}

impl Volume for Limit {
    same_control!();

    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        Ok(Box::new(LimitQueue {
            front: Front::open(&*self.inner, context)?,
            waiting: VecDeque::new(),
            next: Instant::ZERO,
            rates: self.rates,
            used: Arc::clone(&self.used),
            block_size: u64::from(self.inner.geometry().block_size),
        }))
    }
}

struct LimitQueue {
    front: Front,
    waiting: VecDeque<Request>,
    /// When the first waiting request may go on, as far as is known.
    next: Instant,
    rates: Rates,
    used: Arc<Mutex<Used>>,
    block_size: u64,
}

/// Nanoseconds of a rate that `amount` uses up.
fn cost(amount: u64, rate: Option<u64>) -> u64 {
    let Some(rate) = rate else { return 0 };
    let nanos = u128::from(amount) * u128::from(SECOND) / u128::from(rate.max(1));
    wire::saturate::<u64>(nanos)
}

/// The point moved on by `nanos` from now, or from itself if that is later.
fn moved(point: Instant, now: Instant, nanos: u64) -> Instant {
    Instant::from_nanos(point.max(now).as_nanos().saturating_add(nanos))
}

impl LimitQueue {
    fn bytes(&self, operation: &Operation) -> u64 {
        let moves = matches!(
            operation,
            Operation::Read { .. }
                | Operation::Write { .. }
                | Operation::Compare { .. }
                | Operation::CompareAndWrite { .. }
        );
        let blocks = operation.extent().filter(|_| moves).map_or(0, |extent| extent.blocks);
        blocks.saturating_mul(self.block_size)
    }

    /// Uses up what the operation costs, or says when to try again.
    fn pay(&self, now: Instant, operation: &Operation) -> Result<(), Instant> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let latest = used.requests.max(used.bytes).as_nanos();
        if latest > now.as_nanos().saturating_add(BURST) {
            return Err(Instant::from_nanos(latest - BURST));
        }
        used.requests = moved(used.requests, now, cost(1, self.rates.requests));
        used.bytes = moved(used.bytes, now, cost(self.bytes(operation), self.rates.bytes));
        Ok(())
    }

    fn release(&mut self, now: Instant) {
        while let Some(request) = self.waiting.pop_front() {
            if let Err(next) = self.pay(now, &request.operation) {
                self.next = next;
                self.waiting.push_front(request);
                return;
            }
            self.front.pass_on(now, request);
        }
    }
}

impl VolumeQueue for LimitQueue {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        let request = self.front.take(request)?;
        self.waiting.push_back(request);
        self.release(now);
        Ok(())
    }

    fn cancel(&mut self, tag: Tag) {
        match remove(&mut self.waiting, tag) {
            Some(request) => self.front.fail(request, VolumeErrorKind::Cancelled),
            None => self.front.cancel(tag),
        }
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.release(now);
        self.front.poll(now, done);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let next = (!self.waiting.is_empty()).then_some(self.next);
        earlier(next, self.front.poll_timeout())
    }
}
