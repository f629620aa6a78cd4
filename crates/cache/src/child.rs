//! The queue of one of the two volumes: what it has no room for waits here.

use std::collections::VecDeque;

use protocol::Instant;
use volume::{Completion, QueueFull, Request, Tag, VolumeErrorKind, VolumeQueue};

/// A volume's queue, and what waits for it.
pub(crate) struct Child {
    /// `None` once it was closed.
    queue: Option<Box<dyn VolumeQueue>>,
    backlog: VecDeque<Request>,
    /// Requests that it has.
    asked: usize,
}

impl core::fmt::Debug for Child {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Child").field("asked", &self.asked).finish_non_exhaustive()
    }
}

impl Child {
    pub(crate) fn new(queue: Box<dyn VolumeQueue>) -> Self {
        Self { queue: Some(queue), backlog: VecDeque::new(), asked: 0 }
    }

    /// Asks for something, as soon as there is room.
    pub(crate) fn ask(&mut self, now: Instant, request: Request) {
        self.backlog.push_back(request);
        self.push(now);
    }

    /// Ends the queue and everything that is under way in it.
    pub(crate) fn close(&mut self) {
        self.queue = None;
        self.backlog.clear();
    }

    fn push(&mut self, now: Instant) {
        let Some(queue) = &mut self.queue else { return };
        while let Some(request) = self.backlog.pop_front() {
            match queue.submit(now, request) {
                Ok(()) => self.asked += 1,
                Err(QueueFull(request)) => return self.backlog.push_front(request),
            }
        }
    }

    /// Adds what has ended.
    pub(crate) fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        let before = done.len();
        self.push(now);
        if let Some(queue) = &mut self.queue {
            queue.poll(now, done);
        }
        self.asked = self.asked.saturating_sub(done.len() - before);
        // There is room now for what waited.
        self.push(now);
    }

    /// Asks that a request end soon; its end if it had not begun.
    pub(crate) fn cancel(&mut self, tag: Tag) -> Option<Completion> {
        let waiting = self.backlog.iter().position(|request| request.tag == tag);
        if let Some(request) = waiting.and_then(|index| self.backlog.remove(index)) {
            return Some(request.failed(VolumeErrorKind::Cancelled));
        }
        if let Some(queue) = &mut self.queue {
            queue.cancel(tag);
        }
        None
    }

    /// True if it has requests.
    pub(crate) fn is_busy(&self) -> bool {
        self.asked > 0
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.queue.as_ref()?.poll_timeout()
    }
}
