//! One disk on one core: what waits for room, what is under way, and whom each belongs to.

use std::collections::VecDeque;
use std::sync::Arc;

use ::volume::{
    Completion, Extent, OpenError, Operation, Outcome, QueueContext, QueueFull, Request, Tag, Volume,
    VolumeErrorKind, VolumeQueue,
};
use buf::{Buf, Pool};
use protocol::Instant;

/// What came of a request.
pub(crate) type Ended = Result<Outcome, VolumeErrorKind>;

/// What is to be done.
pub(crate) enum Work {
    /// As it is.
    Operation(Operation),
    /// A read into memory of the core.
    Read(Extent),
}

/// A disk on a core; `T` is whom a request belongs to.
pub(crate) struct DiskQueue<T> {
    volume: Arc<dyn Volume>,
    queue: Box<dyn VolumeQueue>,
    waiting: VecDeque<(Work, T)>,
    flying: Vec<Option<T>>,
    free: Vec<usize>,
    completions: Vec<Completion>,
}

impl<T> DiskQueue<T> {
    /// Opens the volume's queue on the calling core.
    pub(crate) fn open(volume: Arc<dyn Volume>, context: &QueueContext) -> Result<Self, OpenError> {
        let queue = volume.open_queue(context)?;
        Ok(Self {
            volume,
            queue,
            waiting: VecDeque::new(),
            flying: Vec::new(),
            free: Vec::new(),
            completions: Vec::new(),
        })
    }

    /// The volume.
    pub(crate) fn volume(&self) -> &Arc<dyn Volume> {
        &self.volume
    }

    /// Puts a request behind those that wait.
    pub(crate) fn push(&mut self, work: Work, owner: T) {
        self.waiting.push_back((work, owner));
    }

    /// True when nothing waits and nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && !self.is_flying()
    }

    /// True while requests are under way.
    pub(crate) fn is_flying(&self) -> bool {
        self.free.len() < self.flying.len()
    }

    /// When to pump even if nothing happens.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.queue.poll_timeout()
    }

    /// Starts what has room and adds what has ended, until neither leads further.
    pub(crate) fn pump(&mut self, now: Instant, pool: &Pool, ended: &mut Vec<(T, Ended)>) {
        loop {
            self.start(now, pool);
            self.queue.poll(now, &mut self.completions);
            if self.completions.is_empty() {
                return;
            }
            for completion in self.completions.drain(..) {
                let Ok(index) = usize::try_from(completion.tag.0) else { continue };
                let Some(owner) = self.flying.get_mut(index).and_then(Option::take) else { continue };
                self.free.push(index);
                ended.push((owner, completion.outcome()));
            }
        }
    }

    fn start(&mut self, now: Instant, pool: &Pool) {
        while let Some((work, owner)) = self.waiting.pop_front() {
            let operation = match self.prepare(work, pool) {
                Ok(operation) => operation,
                Err(work) => return self.waiting.push_front((work, owner)),
            };
            let index = self.free.pop().unwrap_or_else(|| {
                self.flying.push(None);
                self.flying.len() - 1
            });
            match self.queue.submit(now, Request { tag: Tag(index as u64), operation }) {
                Ok(()) => self.flying[index] = Some(owner),
                Err(QueueFull(request)) => {
                    self.free.push(index);
                    return self.waiting.push_front((Work::Operation(request.operation), owner));
                }
            }
        }
    }

    /// Finds memory for a read that has none. While others are under way it can wait for theirs; else it gets memory
    /// of its own, as whoever holds the core's may never let go.
    fn prepare(&self, work: Work, pool: &Pool) -> Result<Operation, Work> {
        let extent = match work {
            Work::Operation(operation) => return Ok(operation),
            Work::Read(extent) => extent,
        };
        let bytes = self.volume.geometry().check(extent).unwrap_or(0);
        let most = self.volume.limits().max_transfer as usize;
        // What is too long is given no memory: the volume refuses it.
        let len = usize::try_from(bytes).ok().filter(|len| *len <= most.min(buf::LARGEST)).unwrap_or(0);
        match pool.take(len) {
            Some(into) => Ok(Operation::Read { extent, into }),
            None if self.is_flying() => Err(work),
            None => Ok(Operation::Read { extent, into: Buf::zeroed(len) }),
        }
    }

    /// Gives up everything: whom it belonged to.
    pub(crate) fn abandon(self) -> impl Iterator<Item = T> {
        let waiting = self.waiting.into_iter().map(|(_, owner)| owner);
        self.flying.into_iter().flatten().chain(waiting)
    }
}
