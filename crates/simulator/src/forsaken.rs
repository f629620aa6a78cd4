//! A volume that says of a request that it is cancelled, and carries it out all the same: for the tests of the tests. A read, which changes nothing, it cancels
//! in truth: its buffer goes back.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::Instant;
use volume::{
    Completion, Features, Geometry, Limits, OpenError, Operation, QueueContext, QueueFull, Request, Tag,
    Volume, VolumeErrorKind, VolumeQueue,
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
    /// Requests whose submitter still waits, by the tag that they have behind this one.
    asked: BTreeMap<Tag, Asked>,
    cancelled: Vec<Tag>,
}

#[derive(Clone, Copy)]
struct Asked {
    /// As the submitter knows it.
    tag: Tag,
    reads: bool,
}

impl VolumeQueue for Queue {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        let (own, tag) = (Tag(self.next), request.tag);
        let reads = matches!(request.operation, Operation::Read { .. });
        match self.inner.submit(now, Request { tag: own, ..request }) {
            Ok(()) => {
                self.next += 1;
                self.asked.insert(own, Asked { tag, reads });
                Ok(())
            }
            Err(QueueFull(request)) => Err(QueueFull(Request { tag, ..request })),
        }
    }

    fn cancel(&mut self, tag: Tag) {
        let found = self.asked.iter().find(|(_, asked)| asked.tag == tag).map(|(own, asked)| (*own, *asked));
        match found {
            Some((own, Asked { reads: true, .. })) => self.inner.cancel(own),
            Some((own, _)) => {
                self.asked.remove(&own);
                self.cancelled.push(tag);
            }
            None => {}
        }
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        let cancelled = self.cancelled.drain(..);
        done.extend(cancelled.map(|tag| Completion::failed(tag, VolumeErrorKind::Cancelled)));
        let mut ended = Vec::new();
        self.inner.poll(now, &mut ended);
        for completion in ended {
            if let Some(Asked { tag, .. }) = self.asked.remove(&completion.tag) {
                done.push(Completion { tag, ..completion });
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.cancelled.is_empty() { self.inner.poll_timeout() } else { Some(Instant::ZERO) }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;
    use std::time::Duration;

    use buf::Buf;
    use volume::filter::Delay;
    use volume::{CoreId, Extent, Failure, Ram};

    use super::*;

    #[test]
    fn a_read_that_is_cancelled_gives_its_buffer_back() {
        let ram: Arc<dyn Volume> = Arc::new(Ram::new(1 << 16, 512).unwrap());
        let volume = Forsaken(Arc::new(Delay::new(ram, Duration::from_secs(1))));
        let mut queue =
            volume.open_queue(&QueueContext::without_pool(CoreId(0), Waker::noop().clone())).unwrap();
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
