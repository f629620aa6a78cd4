//! A leg of a mirror that dies and returns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use protocol::Instant;
use volume::{
    Completion, Features, Geometry, Limits, OpenError, QueueContext, QueueFull, Request, Tag, Volume,
    VolumeErrorKind, VolumeQueue,
};

/// A volume that is away while the test says so.
#[derive(Debug)]
pub(crate) struct Mortal {
    pub(crate) inner: Arc<dyn Volume>,
    pub(crate) away: Arc<AtomicBool>,
}

impl Volume for Mortal {
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
        let (inner, away) = (self.inner.open_queue(context)?, Arc::clone(&self.away));
        Ok(Box::new(MortalQueue { inner, away, failed: Vec::new() }))
    }
}

struct MortalQueue {
    inner: Box<dyn VolumeQueue>,
    away: Arc<AtomicBool>,
    failed: Vec<Completion>,
}

impl VolumeQueue for MortalQueue {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        if self.away.load(Ordering::Relaxed) {
            self.failed.push(request.failed(VolumeErrorKind::Unreachable));
            return Ok(());
        }
        self.inner.submit(now, request)
    }
    fn cancel(&mut self, tag: Tag) {
        self.inner.cancel(tag);
    }
    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        done.append(&mut self.failed);
        self.inner.poll(now, done);
    }
}
