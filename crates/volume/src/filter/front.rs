//! What the queues of all filters have in common: the queue behind, answers of their own, and the count of requests.

use std::collections::VecDeque;

use protocol::Instant;

use crate::{
    Completion, OpenError, QueueContext, QueueFull, Request, Tag, Volume, VolumeErrorKind, VolumeQueue,
};

/// The inner queue, and what waits for the next poll or for room in it.
pub(super) struct Front {
    inner: Box<dyn VolumeQueue>,
    ready: Vec<Completion>,
    /// Requests that may go on but found the inner queue full.
    refused: VecDeque<Request>,
    outstanding: usize,
    depth: usize,
}

impl Front {
    pub(super) fn open(inner: &dyn Volume, context: &QueueContext) -> Result<Self, OpenError> {
        let depth = inner.limits().depth as usize;
        let inner = inner.open_queue(context)?;
        Ok(Self { inner, ready: Vec::new(), refused: VecDeque::new(), outstanding: 0, depth })
    }

    /// Counts a request that the filter takes, or gives it back when there is no room.
    pub(super) fn take(&mut self, request: Request) -> Result<Request, QueueFull> {
        if self.outstanding >= self.depth {
            return Err(QueueFull(request));
        }
        self.outstanding += 1;
        Ok(request)
    }

    /// Passes a request on that was taken before; it waits here while the inner queue is full.
    pub(super) fn pass_on(&mut self, now: Instant, request: Request) {
        self.refused.push_back(request);
        self.retry(now);
    }

    fn retry(&mut self, now: Instant) {
        while let Some(request) = self.refused.pop_front() {
            if let Err(QueueFull(request)) = self.inner.submit(now, request) {
                self.refused.push_front(request);
                return;
            }
        }
    }

    /// Ends a request that was taken and not passed on.
    pub(super) fn fail(&mut self, request: Request, kind: VolumeErrorKind) {
        self.ready.push(request.failed(kind));
    }

    /// Cancels a request that was passed on.
    pub(super) fn cancel(&mut self, tag: Tag) {
        match remove(&mut self.refused, tag) {
            Some(request) => self.fail(request, VolumeErrorKind::Cancelled),
            None => self.inner.cancel(tag),
        }
    }

    pub(super) fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        let before = done.len();
        self.retry(now);
        self.inner.poll(now, done);
        done.append(&mut self.ready);
        // There is room now for what was refused.
        self.retry(now);
        self.outstanding = self.outstanding.saturating_sub(done.len() - before);
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }
}

/// The earlier of two deadlines, if there is one.
pub(super) fn earlier(one: Option<Instant>, two: Option<Instant>) -> Option<Instant> {
    match (one, two) {
        (Some(one), Some(two)) => Some(one.min(two)),
        (one, two) => one.or(two),
    }
}

/// Removes the request with `tag` from a queue of waiting ones, if it is there.
pub(super) fn remove(waiting: &mut VecDeque<Request>, tag: Tag) -> Option<Request> {
    let index = waiting.iter().position(|request| request.tag == tag)?;
    waiting.remove(index)
}
