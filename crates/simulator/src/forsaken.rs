//! A volume that says of a request that it is cancelled, and carries it out all the same: for the tests of the tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::Instant;
use volume::{
    Completion, Features, Geometry, Limits, OpenError, QueueContext, QueueFull, Request, Tag, Volume,
    VolumeErrorKind, VolumeQueue,
};

/// The volume that does what was asked for.
pub(crate) struct Forsaken(pub(crate) Arc<dyn Volume>);

impl Volume for Forsaken {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn limits(&self) -> Limits {
        self.0.limits()
    }

    fn features(&self) -> Features {
        self.0.features()
    }

    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        let inner = self.0.open_queue(context)?;
        Ok(Box::new(Queue { inner, next: 0, asked: BTreeMap::new(), cancelled: Vec::new() }))
    }
}

impl std::fmt::Debug for Forsaken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Forsaken")
    }
}

struct Queue {
    inner: Box<dyn VolumeQueue>,
    next: u64,
    /// Tags of the requests whose submitter still waits, as the submitter knows them.
    asked: BTreeMap<Tag, Tag>,
    cancelled: Vec<Tag>,
}

impl VolumeQueue for Queue {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        let (own, tag) = (Tag(self.next), request.tag);
        match self.inner.submit(now, Request { tag: own, ..request }) {
            Ok(()) => {
                self.next += 1;
                self.asked.insert(own, tag);
                Ok(())
            }
            Err(QueueFull(request)) => Err(QueueFull(Request { tag, ..request })),
        }
    }

    fn cancel(&mut self, tag: Tag) {
        let found = self.asked.iter().find(|(_, asked)| **asked == tag).map(|(own, _)| *own);
        if let Some(own) = found {
            self.asked.remove(&own);
            self.cancelled.push(tag);
        }
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        let cancelled = self.cancelled.drain(..);
        done.extend(cancelled.map(|tag| Completion::failed(tag, VolumeErrorKind::Cancelled)));
        let mut ended = Vec::new();
        self.inner.poll(now, &mut ended);
        for completion in ended {
            if let Some(tag) = self.asked.remove(&completion.tag) {
                done.push(Completion { tag, ..completion });
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.cancelled.is_empty() { self.inner.poll_timeout() } else { Some(Instant::ZERO) }
    }
}
