//! A disk that takes its time, and tells when each write takes effect.
//!
//! # Fault model
//! * A request takes effect, and completes, at any moment within [`SlowDisk::slowest`] of its submission, or at once while [`SlowDisk::quick`] says so; requests overtake each other.
//! * By [`SlowDisk::stubborn`] nothing can be cancelled: what was submitted takes effect.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use buf::BufList;
use protocol::Instant;
use volume::{
    Completion, Extent, Features, Geometry, Limits, OpenError, Operation, QueueContext, QueueFull, Request,
    Tag, Volume, VolumeErrorKind, VolumeQueue,
};

use crate::dice::Dice;
use crate::lock;

/// A write takes effect.
#[derive(Debug)]
pub struct Effect<'a> {
    /// Now.
    pub now: Instant,
    /// When it was submitted to the disk.
    pub submitted: Instant,
    /// Where.
    pub extent: Extent,
    /// What.
    pub data: &'a BufList,
}

/// Hears of each write as it takes effect.
pub type Watch = Arc<Mutex<Box<dyn FnMut(&Effect<'_>) + Send>>>;

/// The disk.
pub struct SlowDisk {
    /// The volume that carries requests out.
    pub inner: Arc<dyn Volume>,
    /// The longest that a request takes.
    pub slowest: Duration,
    /// While this is set, requests that come take no time at all.
    pub quick: Arc<AtomicBool>,
    /// Nothing can be cancelled.
    pub stubborn: bool,
    /// Hears of each write.
    pub watch: Watch,
    /// What chooses its times.
    pub dice: Mutex<Dice>,
}

impl Volume for SlowDisk {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn features(&self) -> Features {
        self.inner.features()
    }

    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        Ok(Box::new(SlowQueue {
            inner: self.inner.open_queue(context)?,
            slowest: self.slowest,
            quick: Arc::clone(&self.quick),
            stubborn: self.stubborn,
            watch: Arc::clone(&self.watch),
            dice: lock(&self.dice).fork(),
            waiting: Vec::new(),
            cancelled: Vec::new(),
        }))
    }
}

impl std::fmt::Debug for SlowDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SlowDisk").field("slowest", &self.slowest).finish_non_exhaustive()
    }
}

struct SlowQueue {
    inner: Box<dyn VolumeQueue>,
    slowest: Duration,
    quick: Arc<AtomicBool>,
    stubborn: bool,
    watch: Watch,
    dice: Dice,
    waiting: Vec<Waiting>,
    cancelled: Vec<Completion>,
}

struct Waiting {
    due: Instant,
    submitted: Instant,
    request: Request,
}

impl VolumeQueue for SlowQueue {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        let slowest = if self.quick.load(Ordering::Relaxed) { Duration::ZERO } else { self.slowest };
        let due = now + self.dice.span(&(Duration::ZERO..=slowest));
        self.waiting.push(Waiting { due, submitted: now, request });
        Ok(())
    }

    fn cancel(&mut self, tag: Tag) {
        if let Some(at) = self.waiting.iter().position(|waiting| waiting.request.tag == tag && !self.stubborn)
        {
            let Waiting { request, .. } = self.waiting.remove(at);
            self.cancelled.push(request.failed(VolumeErrorKind::Cancelled));
        }
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        done.append(&mut self.cancelled);
        while let Some(at) = self.waiting.iter().position(|waiting| waiting.due <= now) {
            let Waiting { submitted, request, .. } = self.waiting.remove(at);
            if let Operation::Write { extent, data, .. } = &request.operation {
                (lock(&self.watch))(&Effect { now, submitted, extent: *extent, data });
            }
            if let Err(QueueFull(request)) = self.inner.submit(now, request) {
                self.waiting.push(Waiting { due: now, submitted, request });
                break;
            }
        }
        self.inner.poll(now, done);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let due = self.waiting.iter().map(|waiting| waiting.due).min();
        if self.cancelled.is_empty() { due } else { Some(Instant::ZERO) }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use buf::Buf;
    use volume::{CoreId, Failure, Ram};

    use super::*;

    #[test]
    fn a_read_that_is_cancelled_gives_its_buffer_back() {
        let disk = SlowDisk {
            inner: Arc::new(Ram::new(1 << 16, 512).unwrap()),
            slowest: Duration::from_secs(1),
            quick: Arc::default(),
            stubborn: false,
            watch: Arc::new(Mutex::new(Box::new(|_: &Effect<'_>| {}))),
            dice: Mutex::new(Dice::new(1)),
        };
        let mut queue =
            disk.open_queue(&QueueContext::without_pool(CoreId(0), Waker::noop().clone())).unwrap();
        let operation = Operation::Read { extent: Extent::new(0, 1), into: Buf::zeroed(512) };
        queue.submit(Instant::ZERO, Request { tag: Tag(7), operation }).unwrap();
        queue.cancel(Tag(7));
        let mut done = Vec::new();
        queue.poll(Instant::ZERO, &mut done);
        let [Completion { tag: Tag(7), result: Err(Failure { kind, memory }) }] = &done[..] else {
            panic!("{done:?}")
        };
        assert_eq!(*kind, VolumeErrorKind::Cancelled);
        assert_eq!(memory.as_ref().map(|memory| memory.len()), Some(512));
    }
}
