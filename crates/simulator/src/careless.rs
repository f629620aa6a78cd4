//! Queues with bugs, for the tests of the tests: each does one thing that a volume that reconnects must not do.

use std::collections::HashMap;

use protocol::Instant;
use volume::{
    ComparedWrite, Completion, Durability, Extent, Operation, QueueFull, Request, Tag, VolumeErrorKind,
    VolumeQueue,
};

/// What is done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Nothing.
    None,
    /// A request whose connection was lost is forgotten.
    Forgets,
    /// A compare-and-write whose connection was lost is carried out again.
    RepeatsCompareAndWrite,
    /// A flush that failed is tried again until it succeeds, and nobody is told.
    HidesLosses,
}

/// What is kept of a compare-and-write.
type Kept = (Extent, Box<ComparedWrite>, Durability);

/// A queue with a bug.
pub(crate) struct Careless {
    inner: Box<dyn VolumeQueue>,
    bug: Bug,
    compares: HashMap<Tag, Kept>,
    flushes: Vec<Tag>,
    scratch: Vec<Completion>,
}

impl Careless {
    /// The queue with the bug.
    pub(crate) fn new(inner: Box<dyn VolumeQueue>, bug: Bug) -> Self {
        Self { inner, bug, compares: HashMap::new(), flushes: Vec::new(), scratch: Vec::new() }
    }

    fn again(&mut self, tag: Tag) -> Option<Operation> {
        match self.bug {
            Bug::None | Bug::Forgets => None,
            Bug::RepeatsCompareAndWrite => {
                let (extent, data, durability) = self.compares.get(&tag)?.clone();
                Some(Operation::CompareAndWrite { extent, data, durability })
            }
            Bug::HidesLosses => self.flushes.contains(&tag).then_some(Operation::Flush),
        }
    }
}

impl VolumeQueue for Careless {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        let tag = request.tag;
        match &request.operation {
            Operation::CompareAndWrite { extent, data, durability } => {
                self.compares.insert(tag, (*extent, data.clone(), *durability));
            }
            Operation::Flush => self.flushes.push(tag),
            _ => {}
        }
        self.inner.submit(now, request)
    }

    fn cancel(&mut self, tag: Tag) {
        self.inner.cancel(tag);
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.inner.poll(now, &mut self.scratch);
        for completion in std::mem::take(&mut self.scratch) {
            let lost = completion.error() == Some(VolumeErrorKind::Unreachable);
            if lost && self.bug == Bug::Forgets {
                continue;
            }
            if lost && let Some(operation) = self.again(completion.tag) {
                let request = Request { tag: completion.tag, operation };
                if self.inner.submit(now, request).is_ok() {
                    continue;
                }
            }
            self.compares.remove(&completion.tag);
            self.flushes.retain(|tag| *tag != completion.tag);
            done.push(completion);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }
}
