//! One volume's queue on one core, from its opening to its end.
//!
//! A volume that is not to be served any more is withdrawn first: its connections know, and may still flush what they wrote. Then its queue drains: it
//! takes nothing more, lets what is under way complete, and flushes once after that, so that nothing that the process has
//! acknowledged depends on a cache that ends with it, or on what happens to the machine before the next one begins. A flush covers what was completed over the
//! same queue: each core flushes its own, and a volume is secured when all cores have. `entry.table` has every transition.

use std::collections::VecDeque;
use std::sync::Arc;

use protocol::Instant;
use volume::{Completion, Epoch, Features, Operation, QueueFull, Request, Tag, VolumeId, VolumeQueue};

use super::tag::{Slot, join};
use crate::catalogue::ServedVolume;
use crate::limits::{USE_INTERVAL, WITHDRAWAL};

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
    /// It still takes them, from connections that are about to end.
    Withdrawn,
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
    /// The catalogue in its place does not have it.
    Withdraw,
    /// No connection uses it any more.
    Unused,
    /// Its connections have had their time.
    Overdue,
    /// The process is about to end.
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
            (Self::Serving, Event::Withdraw) => Some(Self::Withdrawn),
            (Self::Serving, Event::Retire)
            | (Self::Withdrawn, Event::Unused | Event::Overdue | Event::Retire) => Some(Self::Draining),
            (Self::Draining, Event::Drained) => Some(Self::Flushing),
            (Self::Opened, Event::Abandon)
            | (Self::Draining, Event::DrainedUnwritten)
            | (Self::Flushing, Event::Flushed) => Some(Self::Vacant),
            _ => None,
        }
    }
}

/// What is known of a withdrawn volume's users.
#[derive(Debug, Clone, Copy, Default)]
struct Withdrawal {
    /// When its connections have had their time.
    until: Instant,
    /// When they are asked whether they use it; not before that is answered.
    ask_at: Instant,
    /// How many have not answered yet; `None` when nobody was asked.
    awaited: Option<usize>,
    /// One that has answered uses it.
    used: bool,
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
    withdrawal: Withdrawal,
    /// Requests that were under way when the connections had had their time.
    forced: u32,
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
            withdrawal: Withdrawal::default(),
            forced: 0,
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

    /// True when it is not on its way to its end.
    #[inline]
    pub(super) fn is_serving(&self) -> bool {
        self.state == State::Serving
    }

    /// Requests under way.
    pub(super) fn under_way(&self) -> usize {
        self.outstanding[0] + self.outstanding[1]
    }

    /// Requests that were under way when its connections had had their time.
    pub(super) fn forced(&self) -> u32 {
        self.forced
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
        // A core may hear of a fence before it hears that the volume is served.
        if self.epoch != NEVER {
            self.epoch = Epoch(number);
        }
        if self.draining.is_empty() {
            self.side = 1 - self.side;
        }
        self.draining.push_back(number);
    }

    /// The volume is not in the catalogue any more: it is served until nobody uses it, for a limited time. False if it ends already, or nobody has seen it yet.
    pub(super) fn withdraw(&mut self, now: Instant) -> bool {
        self.withdrawal = Withdrawal { until: now + WITHDRAWAL, ask_at: now, awaited: None, used: false };
        self.handle(Event::Withdraw)
    }

    /// So many connections were asked whether they use the volume.
    pub(super) fn await_users(&mut self, now: Instant, asked: usize) {
        self.withdrawal = Withdrawal { awaited: Some(asked), used: false, ..self.withdrawal };
        self.conclude(now);
    }

    /// A connection says whether it uses the volume, or is gone. True when it was the last one of those that were asked.
    pub(super) fn handle_use(&mut self, now: Instant, used: bool) -> bool {
        let Some(awaited) = &mut self.withdrawal.awaited else { return false };
        *awaited = awaited.saturating_sub(1);
        self.withdrawal.used |= used;
        self.conclude(now)
    }

    /// Goes on if all have answered.
    fn conclude(&mut self, now: Instant) -> bool {
        if self.state != State::Withdrawn || self.withdrawal.awaited != Some(0) {
            return false;
        }
        self.withdrawal.awaited = None;
        if self.withdrawal.used || self.under_way() > 0 {
            self.withdrawal.ask_at = now + USE_INTERVAL;
        } else {
            self.drain(Event::Unused);
        }
        true
    }

    /// The queue is to end with the process. False if it does already, or nobody has seen it yet.
    pub(super) fn retire(&mut self) -> bool {
        self.drain(Event::Retire)
    }

    /// Takes no more requests, if it is time.
    fn drain(&mut self, event: Event) -> bool {
        let begun = self.handle(event);
        if begun {
            self.epoch = NEVER;
        }
        begun
    }

    /// Goes on towards the end, if what the queue waits for has come.
    #[cold]
    pub(super) fn advance(&mut self, now: Instant) -> Option<Progress> {
        match self.state {
            State::Withdrawn if self.withdrawal.until <= now => {
                self.forced = u32::try_from(self.under_way()).unwrap_or(u32::MAX);
                self.drain(Event::Overdue);
                Some(Progress::Overdue)
            }
            State::Withdrawn if self.withdrawal.ask_at <= now => {
                self.withdrawal.ask_at = self.withdrawal.until;
                Some(Progress::Ask)
            }
            State::Draining if self.under_way() == 0 => Some(self.begin_flush(now)),
            _ => None,
        }
    }

    /// When it goes on by itself.
    pub(super) fn deadline(&self) -> Option<Instant> {
        (self.state == State::Withdrawn).then(|| self.withdrawal.until.min(self.withdrawal.ask_at))
    }

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
    /// The connections are to say whether they use the volume.
    Ask,
    /// They have had their time: those that still use it are to end, and with them their requests.
    Overdue,
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
        use Event::{Abandon, Commit, Drained, DrainedUnwritten, Flushed, Overdue, Retire, Unused, Withdraw};
        use State::{Draining, Flushing, Opened, Serving, Vacant, Withdrawn};
        let events = [Commit, Abandon, Withdraw, Unused, Overdue, Retire, Drained, DrainedUnwritten, Flushed];
        let mut table = String::new();
        for state in [Opened, Serving, Withdrawn, Draining, Flushing, Vacant] {
            for event in events {
                if let Some(next) = state.after(event) {
                    writeln!(table, "{state:?} --{event:?}--> {next:?}").unwrap();
                }
            }
        }
        assert_eq!(table, include_str!("entry.table"));
    }
}
