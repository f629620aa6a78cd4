//! A queue that may resend too early, for the tests of the tests: it sends over the next connection whatever a lost one carried, as if
//! nothing of that could still take effect, or not for as long.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::Instant;
use volume::{Completion, Operation, QueueFull, Request, Tag, VolumeErrorKind, VolumeQueue};

/// A queue with the bug, or without.
pub(crate) struct Hasty {
    inner: Box<dyn VolumeQueue>,
    pace: Pace,
    /// What is kept of the writes under way.
    writes: BTreeMap<Tag, Operation>,
    /// When those that a lost connection had are sent again.
    due: BTreeMap<Tag, Instant>,
    has_answered: bool,
    done: Vec<Completion>,
}

/// Whether a write is sent again before the server may have forgotten it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Not before: as it should be.
    Patient,
    /// So long after the loss.
    After(Duration),
}

/// The operation once more, if it writes.
fn copy(operation: &Operation) -> Option<Operation> {
    Some(match operation {
        Operation::Write { extent, data, durability } => {
            Operation::Write { extent: *extent, data: data.clone(), durability: *durability }
        }
        Operation::Discard { extent } => Operation::Discard { extent: *extent },
        _ => return None,
    })
}

impl Hasty {
    pub(crate) fn new(inner: Box<dyn VolumeQueue>, pace: Pace) -> Self {
        let (writes, due) = (BTreeMap::new(), BTreeMap::new());
        Self { inner, pace, writes, due, has_answered: false, done: Vec::new() }
    }

    /// A request has succeeded.
    pub(crate) fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Connections are lost now, and the queue notices at `loss`: with the bug nothing is held back for as long as it should be.
    pub(crate) fn hurry(&mut self, now: Instant, loss: Instant) {
        if let Pace::After(span) = self.pace {
            self.inner.poll(now, &mut self.done);
            self.due.extend(self.writes.keys().map(|tag| (*tag, loss + span)));
            self.give_up(now);
        }
    }

    /// Gives up the writes whose time has come; they come back to be sent again.
    fn give_up(&mut self, now: Instant) {
        let inner = &mut self.inner;
        self.due.retain(|tag, due| {
            let is_due = *due <= now;
            if is_due {
                inner.cancel(*tag);
            }
            !is_due
        });
    }
}

impl VolumeQueue for Hasty {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        let (tag, kept) = (request.tag, copy(&request.operation).filter(|_| self.pace != Pace::Patient));
        self.inner.submit(now, request)?;
        self.writes.extend(kept.map(|operation| (tag, operation)));
        Ok(())
    }

    fn cancel(&mut self, tag: Tag) {
        self.inner.cancel(tag);
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.give_up(now);
        self.inner.poll(now, &mut self.done);
        for completion in std::mem::take(&mut self.done) {
            let tag = completion.tag;
            self.due.remove(&tag);
            self.has_answered |= completion.result.is_ok();
            let given_up = [VolumeErrorKind::Unreachable, VolumeErrorKind::Cancelled];
            let operation = self.writes.remove(&tag);
            if let (Some(kind), Some(operation)) = (completion.error(), operation)
                && given_up.contains(&kind)
                && self.submit(now, Request { tag, operation }).is_ok()
            {
                continue;
            }
            done.push(completion);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }
}
