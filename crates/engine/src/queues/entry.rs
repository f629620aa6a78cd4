//! One volume's queue on one core, from its opening to its end.
//!
//! A queue that ends in good order takes nothing more, lets what is under way complete, and flushes once after that, so that nothing that the process has
//! acknowledged depends on a cache that ends with it, or on what happens to the machine before the next one begins. A flush covers what was completed over the
//! same queue: each core flushes its own, and a volume is secured when all cores have. `entry.table` has every transition.

use std::collections::VecDeque;
use std::sync::Arc;

use protocol::Instant;
use volume::{Epoch, Features, Operation, Request, Tag, Volume, VolumeId, VolumeQueue};

use super::tag::{Slot, join};

/// The slot that asks for the last flush: no driver's.
pub(crate) const FLUSH: Slot = Slot(0x7fff_ffff);

/// Which way a queue has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It takes requests.
    Serving,
    /// It takes none, and waits for those under way.
    Draining,
    /// Its last flush is under way.
    Flushing,
    /// It has ended.
    Retired,
}

/// What moves it on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
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
            (Self::Serving, Event::Retire) => Some(Self::Draining),
            (Self::Draining, Event::Drained) => Some(Self::Flushing),
            (Self::Draining, Event::DrainedUnwritten) | (Self::Flushing, Event::Flushed) => {
                Some(Self::Retired)
            }
            _ => None,
        }
    }
}

/// A volume's queue.
pub(super) struct QueueEntry {
    pub(super) id: VolumeId,
    pub(super) queue: Box<dyn VolumeQueue>,
    pub(super) epoch: Epoch,
    pub(super) outstanding: [usize; 2],
    pub(super) side: usize,
    /// The fence that waits for the old side, and those behind it.
    pub(super) draining: VecDeque<u64>,
    volume: Arc<dyn Volume>,
    state: State,
    secured: bool,
}

impl QueueEntry {
    /// A queue that was opened.
    pub(super) fn new(id: VolumeId, volume: Arc<dyn Volume>, queue: Box<dyn VolumeQueue>) -> Self {
        Self {
            id,
            queue,
            volume,
            epoch: Epoch::default(),
            outstanding: [0; 2],
            side: 0,
            draining: VecDeque::new(),
            state: State::Serving,
            secured: false,
        }
    }

    /// Whether the volume is secured as far as this queue goes, once the queue has ended.
    pub(super) fn secured(&self) -> Option<bool> {
        (self.state == State::Retired).then_some(self.secured)
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

    /// The queue is to end.
    pub(super) fn retire(&mut self, now: Instant) {
        if self.handle(Event::Retire) {
            // No request carries this epoch.
            self.epoch = Epoch(u64::MAX);
            self.advance(now);
        }
    }

    /// Goes on towards the end, if what the queue waits for has come. True if it is to be polled for that.
    #[inline]
    pub(super) fn advance(&mut self, now: Instant) -> bool {
        self.state == State::Draining && self.outstanding == [0, 0] && self.begin_flush(now)
    }

    #[cold]
    fn begin_flush(&mut self, now: Instant) -> bool {
        if self.volume.features().contains(Features::READ_ONLY) {
            self.secured = true;
            self.handle(Event::DrainedUnwritten);
            return false;
        }
        self.handle(Event::Drained);
        let tag = join(FLUSH, self.side, Tag(self.id.slot() as u64));
        let begun = self.queue.submit(now, Request { tag, operation: Operation::Flush }).is_ok();
        if begun {
            self.outstanding[self.side] += 1;
        } else {
            self.handle_flushed(false);
        }
        begun
    }

    /// The last flush has ended.
    pub(super) fn handle_flushed(&mut self, secured: bool) {
        if self.handle(Event::Flushed) {
            self.secured = secured;
        }
    }

    fn handle(&mut self, event: Event) -> bool {
        let next = self.state.after(event);
        self.state = next.unwrap_or(self.state);
        next.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn table_of_all_transitions() {
        use Event::{Drained, DrainedUnwritten, Flushed, Retire};
        use State::{Draining, Flushing, Retired, Serving};
        let mut table = String::new();
        for state in [Serving, Draining, Flushing, Retired] {
            for event in [Retire, Drained, DrainedUnwritten, Flushed] {
                if let Some(next) = state.after(event) {
                    writeln!(table, "{state:?} --{event:?}--> {next:?}").unwrap();
                }
            }
        }
        assert_eq!(table, include_str!("entry.table"));
    }
}
