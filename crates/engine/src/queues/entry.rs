//! One volume's queue on one core, from its opening to its end.
//!
//! A queue that ends in good order takes nothing more, lets what is under way complete, and flushes once after that, so that nothing that the process has
//! acknowledged depends on a cache that ends with it, or on what happens to the machine before the next one begins. A flush covers what was completed over the
//! same queue: each core flushes its own, and a volume is secured when all cores have. `entry.table` has every transition.

use std::collections::VecDeque;
use std::sync::Arc;

use protocol::Instant;
use volume::{Completion, Epoch, Features, Operation, QueueFull, Request, Tag, VolumeId, VolumeQueue};

use super::tag::{Slot, join};
use crate::catalogue::ServedVolume;

/// The slot that asks for the last flush: no driver's.
pub(crate) const FLUSH: Slot = Slot(0x7fff_ffff);

/// No request carries this epoch.
const NEVER: Epoch = Epoch(u64::MAX);

/// Which way a queue has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Nobody knows of it yet.
    Opened,
    /// It takes requests.
    Serving,
    /// It takes none, and waits for those under way.
    Draining,
    /// Its last flush is under way.
    Flushing,
    /// It has ended: there is no queue.
    Vacant,
}

/// What moves it on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// Its catalogue is served.
    Commit,
    /// Its catalogue is not served after all.
    Abandon,
    /// It is to end.
    Retire,
    /// Its last request has completed, and it may have been written to.
    Drained,
    /// The same, of one that cannot have been written to.
    DrainedUnwritten,
    /// Its last flush has ended, or could not begin.
    Flushed,
}

impl State {
    pub(super) fn after(self, event: Event) -> Option<Self> {
        match (self, event) {
            (Self::Opened, Event::Commit) => Some(Self::Serving),
            (Self::Serving, Event::Retire) => Some(Self::Draining),
            (Self::Draining, Event::Drained) => Some(Self::Flushing),
            (Self::Opened, Event::Abandon)
            | (Self::Draining, Event::DrainedUnwritten)
            | (Self::Flushing, Event::Flushed) => Some(Self::Vacant),
            _ => None,
        }
    }
}

/// A place in the table of queues: a volume's queue, or nothing.
pub(super) struct QueueEntry {
    pub(super) id: VolumeId,
    pub(super) queue: Box<dyn VolumeQueue>,
    pub(super) epoch: Epoch,
    pub(super) outstanding: [usize; 2],
    pub(super) side: usize,
    /// The fence that waits for the old side, and those behind it.
    pub(super) draining: VecDeque<u64>,
    state: State,
    served: Option<ServedVolume>,
}

impl QueueEntry {
    /// A place without a queue: no request is for it.
    pub(super) fn vacant() -> Self {
        Self {
            id: VolumeId::NONE,
            queue: Box::new(NoQueue),
            epoch: NEVER,
            outstanding: [0; 2],
            side: 0,
            draining: VecDeque::new(),
            state: State::Vacant,
            served: None,
        }
    }

    /// A queue that was opened.
    pub(super) fn new(served: ServedVolume, queue: Box<dyn VolumeQueue>) -> Self {
        let (id, epoch, state) = (served.id, Epoch::default(), State::Opened);
        Self { id, queue, epoch, state, served: Some(served), ..Self::vacant() }
    }

    pub(super) fn is_vacant(&self) -> bool {
        self.state == State::Vacant
    }

    /// What the volume is called.
    pub(super) fn name(&self) -> Option<&Arc<str>> {
        self.served.as_ref().map(|served| &served.name)
    }

    /// The catalogue with this volume is served.
    pub(super) fn commit(&mut self) {
        self.handle(Event::Commit);
    }

    /// The catalogue with this volume is not served after all.
    pub(super) fn abandon(&mut self) {
        if self.handle(Event::Abandon) {
            self.vacate();
        }
    }

    /// Begins a fence: `number` is the volume's epoch from now on, and requests submitted from now on do not count for it.
    pub(super) fn fence(&mut self, number: u64) {
        if self.state == State::Serving {
            self.epoch = Epoch(number);
        }
        if self.draining.is_empty() {
            self.side = 1 - self.side;
        }
        self.draining.push_back(number);
    }

    /// The queue is to end. False if it does already, or nobody has seen it yet.
    pub(super) fn retire(&mut self) -> bool {
        let begun = self.handle(Event::Retire);
        if begun {
            self.epoch = NEVER;
        }
        begun
    }

    /// Goes on towards the end, if what the queue waits for has come.
    #[inline]
    pub(super) fn advance(&mut self, now: Instant) -> Option<Progress> {
        if self.state == State::Draining && self.outstanding == [0, 0] {
            Some(self.begin_flush(now))
        } else {
            None
        }
    }

    #[cold]
    fn begin_flush(&mut self, now: Instant) -> Progress {
        let features = self.served.as_ref().map(|served| served.volume.features());
        if features.is_none_or(|features| features.contains(Features::READ_ONLY)) {
            self.handle(Event::DrainedUnwritten);
            return Progress::Retired { secured: true };
        }
        self.handle(Event::Drained);
        let tag = join(FLUSH, self.side, Tag(self.id.slot() as u64));
        if self.queue.submit(now, Request { tag, operation: Operation::Flush }).is_err() {
            self.handle(Event::Flushed);
            return Progress::Retired { secured: false };
        }
        self.outstanding[self.side] += 1;
        Progress::Flushing
    }

    /// The last flush has ended.
    pub(super) fn handle_flushed(&mut self) -> bool {
        self.handle(Event::Flushed)
    }

    /// Drops the queue, on its own core. Whoever still asks for the volume is refused.
    pub(super) fn vacate(&mut self) {
        *self = Self::vacant();
    }

    fn handle(&mut self, event: Event) -> bool {
        let next = self.state.after(event);
        self.state = next.unwrap_or(self.state);
        next.is_some()
    }
}

/// What came of going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// The last flush is under way.
    Flushing,
    /// The queue has ended.
    Retired {
        /// It was flushed after its last request, or could not be written to.
        secured: bool,
    },
}

/// What stands where no queue is.
struct NoQueue;

impl VolumeQueue for NoQueue {
    fn submit(&mut self, _: Instant, request: Request) -> Result<(), QueueFull> {
        Err(QueueFull(request))
    }

    fn cancel(&mut self, _: Tag) {}

    fn poll(&mut self, _: Instant, _: &mut Vec<Completion>) {}
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn table_of_all_transitions() {
        use Event::{Abandon, Commit, Drained, DrainedUnwritten, Flushed, Retire};
        use State::{Draining, Flushing, Opened, Serving, Vacant};
        let mut table = String::new();
        for state in [Opened, Serving, Draining, Flushing, Vacant] {
            for event in [Commit, Abandon, Retire, Drained, DrainedUnwritten, Flushed] {
                if let Some(next) = state.after(event) {
                    writeln!(table, "{state:?} --{event:?}--> {next:?}").unwrap();
                }
            }
        }
        assert_eq!(table, include_str!("entry.table"));
    }
}
