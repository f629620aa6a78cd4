//! A queue that may resend too early, for the tests of the tests: it sends over the next connection whatever a lost one carried, as if
//! nothing of that could still take effect.

use std::collections::BTreeMap;

use protocol::Instant;
use volume::{Completion, Operation, QueueFull, Request, Tag, VolumeErrorKind, VolumeQueue};

/// A queue with the bug, or without.
pub(crate) struct Hasty {
    inner: Box<dyn VolumeQueue>,
    pace: Pace,
    /// What is kept of the writes under way.
    writes: BTreeMap<Tag, Operation>,
    done: Vec<Completion>,
}

/// Whether a write is sent again before the server may have forgotten it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Not before: as it should be.
    Patient,
    /// At once.
    Hasty,
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
        Self { inner, pace, writes: BTreeMap::new(), done: Vec::new() }
    }

    /// Connections were lost: with the bug nothing is held back.
    pub(crate) fn hurry(&mut self, now: Instant) {
        if self.pace == Pace::Hasty {
            self.inner.poll(now, &mut self.done);
            self.writes.keys().for_each(|tag| self.inner.cancel(*tag));
        }
    }
}

impl VolumeQueue for Hasty {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        let (tag, kept) = (request.tag, copy(&request.operation).filter(|_| self.pace == Pace::Hasty));
        self.inner.submit(now, request)?;
        self.writes.extend(kept.map(|operation| (tag, operation)));
        Ok(())
    }

    fn cancel(&mut self, tag: Tag) {
        self.inner.cancel(tag);
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.inner.poll(now, &mut self.done);
        for completion in std::mem::take(&mut self.done) {
            let tag = completion.tag;
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
