//! A volume that nobody changes.

use std::sync::Arc;
use std::task::Waker;

use protocol::Instant;

use super::front::Front;
use crate::statistics::StatsSnapshot;
use crate::{
    CacheControl, Changes, Completion, Features, Geometry, Identity, LeaveControl, Limits, LossRecord,
    OpenError, PathState, QueueContext, QueueFull, Request, Tag, Volume, VolumeErrorKind, VolumeQueue,
};

/// Refuses everything that writes.
#[derive(Debug)]
pub struct ReadOnly {
    inner: Arc<dyn Volume>,
}

impl ReadOnly {
    /// Protects `inner`.
    pub fn new(inner: Arc<dyn Volume>) -> Self {
        Self { inner }
    }
}

impl Volume for ReadOnly {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn features(&self) -> Features {
        let useless = Features::DISCARD | Features::WRITE_ZEROES;
        self.inner.features().difference(useless) | Features::READ_ONLY
    }

    fn identity(&self) -> Option<Identity> {
        self.inner.identity()
    }

    fn changes(&self) -> Changes {
        self.inner.changes()
    }

    fn listen(&self, waker: Waker) {
        self.inner.listen(waker);
    }

    fn rescan(&self) -> Result<(), OpenError> {
        self.inner.rescan()
    }

    fn keep_losses(&self, record: Arc<dyn LossRecord>, known: Option<String>) {
        self.inner.keep_losses(record, known);
    }

    fn path(&self) -> PathState {
        self.inner.path()
    }

    fn last_error(&self) -> Option<String> {
        self.inner.last_error()
    }

    fn memory(&self) -> Option<Arc<dyn buf::MemorySource>> {
        self.inner.memory()
    }

    fn copied(&self) -> Option<u64> {
        self.inner.copied()
    }

    fn statistics(&self) -> Option<StatsSnapshot> {
        self.inner.statistics()
    }

    fn cache(&self) -> Option<&dyn CacheControl> {
        self.inner.cache()
    }

    fn leave_control(&self) -> Option<&dyn LeaveControl> {
        self.inner.leave_control()
    }

    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        let front = Front::open(&*self.inner, context)?;
        Ok(Box::new(ReadOnlyQueue { front, inner: Arc::clone(&self.inner) }))
    }
}

struct ReadOnlyQueue {
    front: Front,
    inner: Arc<dyn Volume>,
}

impl VolumeQueue for ReadOnlyQueue {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        let request = self.front.take(request)?;
        if request.operation.writes() {
            let inside = request.operation.extent().and_then(|extent| self.inner.geometry().check(extent));
            let kind = inside.map_or(VolumeErrorKind::OutOfRange, |_| VolumeErrorKind::ReadOnly);
            self.front.fail(request, kind);
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
