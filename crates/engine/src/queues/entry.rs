//! The queue of one thing that is served, on one core, from its opening to its end.
//!
//! What is not to be served any more is withdrawn first: its connections know, and may still secure what they changed. Then its queue drains: it
//! takes nothing more, lets what is under way complete, and submits a last request after that ([`ServedKind::last`]: a flush, where volumes are served), so that
//! nothing that the process has acknowledged depends on a cache that ends with it, or on what happens to the machine before the next one begins. That
//! request covers what was completed over the same queue: each core submits its own, and all is secured when all cores' have succeeded. `entry.table` has
//! every transition.

use std::collections::VecDeque;
use std::sync::Arc;

use protocol::Instant;
use volume::{Epoch, Tag};

use super::tag::{Slot, join};
use crate::kind::ServedKind;
use crate::limits::{USE_INTERVAL, WITHDRAWAL};
use crate::served_id::ServedId;

/// The slot that asks for the last request: no driver's.
pub(crate) const LAST: Slot = Slot(0x7fff_ffff);

/// Who asks to close what NFS clients have open no more: core 0, which hears nothing of it.
pub(crate) const RELEASE: Slot = Slot(0x7fff_fffe);

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
    /// Its last request is under way.
    Securing,
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
    /// Its connections' last request has completed, and something may have changed.
    Drained,
    /// The same, where nothing can have changed.
    DrainedUnchanged,
    /// Its last request has ended, or could not begin.
    LastEnded,
}

impl State {
    pub(super) fn after(self, event: Event) -> Option<Self> {
        match (self, event) {
            (Self::Opened, Event::Commit) => Some(Self::Serving),
            (Self::Serving, Event::Withdraw) => Some(Self::Withdrawn),
            (Self::Serving, Event::Retire)
            | (Self::Withdrawn, Event::Unused | Event::Overdue | Event::Retire) => Some(Self::Draining),
            (Self::Draining, Event::Drained) => Some(Self::Securing),
            (Self::Opened, Event::Abandon)
            | (Self::Draining, Event::DrainedUnchanged)
            | (Self::Securing, Event::LastEnded) => Some(Self::Vacant),
            _ => None,
        }
    }
}

/// What is known of the users of what is withdrawn.
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

/// A place in the table of queues: a queue of what is served, or nothing.
pub(super) struct QueueEntry<K: ServedKind> {
    pub(super) id: ServedId,
    pub(super) queue: K::Queue,
    pub(super) epoch: Epoch,
    pub(super) outstanding: [usize; 2],
    pub(super) side: usize,
    /// The fence that waits for the old side, and those behind it.
    pub(super) draining: VecDeque<u64>,
    state: State,
    withdrawal: Withdrawal,
    /// Requests that were under way when the connections had had their time.
    forced: u32,
    served: Option<K::Served>,
}

impl<K: ServedKind> QueueEntry<K> {
    /// A place without a queue: no request is for it.
    pub(super) fn vacant() -> Self {
        Self {
            id: ServedId::NONE,
            queue: K::no_queue(),
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
    pub(super) fn new(served: K::Served, queue: K::Queue) -> Self {
        let (id, epoch, state) = (K::id(&served), Epoch::default(), State::Opened);
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

    /// What its operator calls what it serves.
    pub(super) fn name(&self) -> Option<&Arc<str>> {
        self.served.as_ref().map(K::name)
    }

    /// The catalogue that it is in is served.
    pub(super) fn commit(&mut self) {
        self.handle(Event::Commit);
    }

    /// The catalogue that it is in is not served after all.
    pub(super) fn abandon(&mut self) {
        if self.handle(Event::Abandon) {
            self.vacate();
        }
    }

    /// Begins a fence: `number` is the epoch from now on, and requests submitted from now on do not count for it.
    pub(super) fn fence(&mut self, number: u64) {
        // A core may hear of a fence before it hears that this is served.
        if self.epoch != NEVER {
            self.epoch = Epoch(number);
        }
        if self.draining.is_empty() {
            self.side = 1 - self.side;
        }
        self.draining.push_back(number);
    }

    /// It is not in the catalogue any more: it is served until nobody uses it, for a limited time. False if it ends already, or nobody has seen it yet.
    pub(super) fn withdraw(&mut self, now: Instant) -> bool {
        self.withdrawal = Withdrawal { until: now + WITHDRAWAL, ask_at: now, awaited: None, used: false };
        self.handle(Event::Withdraw)
    }

    /// So many connections were asked whether they use it.
    pub(super) fn await_users(&mut self, now: Instant, asked: usize) {
        self.withdrawal = Withdrawal { awaited: Some(asked), used: false, ..self.withdrawal };
        self.conclude(now);
    }

    /// A connection says whether it uses it, or is gone. True when it was the last one of those that were asked.
    pub(super) fn handle_use(&mut self, now: Instant, report: UseReport) -> bool {
        let Some(awaited) = &mut self.withdrawal.awaited else { return false };
        *awaited = awaited.saturating_sub(1);
        self.withdrawal.used |= report == UseReport::InUse;
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
                self.forced = wire::saturate::<u32>(self.under_way());
                self.drain(Event::Overdue);
                Some(Progress::Overdue)
            }
            State::Withdrawn if self.withdrawal.ask_at <= now => {
                self.withdrawal.ask_at = self.withdrawal.until;
                Some(Progress::Ask)
            }
            State::Draining if self.under_way() == 0 => Some(self.begin_last(now)),
            _ => None,
        }
    }

    /// When it goes on by itself.
    pub(super) fn deadline(&self) -> Option<Instant> {
        (self.state == State::Withdrawn).then(|| self.withdrawal.until.min(self.withdrawal.ask_at))
    }

    fn begin_last(&mut self, now: Instant) -> Progress {
        let tag = join(LAST, self.side, Tag(self.id.slot() as u64));
        let Some(last) = self.served.as_ref().and_then(|served| K::last(served, tag)) else {
            self.handle(Event::DrainedUnchanged);
            return Progress::Retired { secured: true };
        };
        self.handle(Event::Drained);
        if K::submit(&mut self.queue, now, last).is_err() {
            self.handle(Event::LastEnded);
            return Progress::Retired { secured: false };
        }
        self.outstanding[self.side] += 1;
        Progress::Securing
    }

    /// The last request has ended.
    pub(super) fn handle_last_ended(&mut self) -> bool {
        self.handle(Event::LastEnded)
    }

    /// Drops the queue, on its own core. Whoever still asks for what it served is refused.
    pub(super) fn vacate(&mut self) {
        *self = Self::vacant();
    }

    fn handle(&mut self, event: Event) -> bool {
        let next = self.state.after(event);
        self.state = next.unwrap_or(self.state);
        next.is_some()
    }
}

/// What a connection says of something that is withdrawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UseReport {
    /// It uses it.
    InUse,
    /// It does not, or is gone.
    Unused,
}

/// What came of going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// The connections are to say whether they use what it serves.
    Ask,
    /// They have had their time: those that still use it are to end, and with them their requests.
    Overdue,
    /// The last request is under way.
    Securing,
    /// The queue has ended.
    Retired {
        /// Its last request has secured everything, or nothing can have changed.
        secured: bool,
    },
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn table_of_all_transitions() {
        use Event::{
            Abandon, Commit, Drained, DrainedUnchanged, LastEnded, Overdue, Retire, Unused, Withdraw,
        };
        use State::{Draining, Opened, Securing, Serving, Vacant, Withdrawn};
        let events =
            [Commit, Abandon, Withdraw, Unused, Overdue, Retire, Drained, DrainedUnchanged, LastEnded];
        let mut table = String::new();
        for state in [Opened, Serving, Withdrawn, Draining, Securing, Vacant] {
            for event in events {
                if let Some(next) = state.after(event) {
                    writeln!(table, "{state:?} --{event:?}--> {next:?}").unwrap();
                }
            }
        }
        assert_eq!(table, include_str!("entry.table"));
    }
}
