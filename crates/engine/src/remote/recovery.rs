//! When a remote volume's queue connects, waits, tries again and gives up: states and times, nothing else.
//!
//! ```text
//!            Opened                 Ended              Due
//! Opening ────────────► Ready ────────────► Waiting ─────────► Dialling
//!    │                   ▲ ▲                  ▲  │                │ │
//!    │ Failed            │ └──── Opened ──────┼──┼────────────────┘ │ Expired
//!    └───────────────────┼────────────────────┘  │ Expired          ▼
//!                        │                       ▼       Due     Probing
//!                        │                    Resting ──────────►  │
//!                        └──────── Opened ───────────────────────-─┘
//! ```
//!
//! In `Opening`, `Waiting` and `Dialling` requests wait for the connection. Beyond the bound, in `Resting` and `Probing`, they fail
//! at once, but the volume is still looked for; an attempt that `Opening` has begun goes on in `Probing`, too. `Dead` is final:
//! the user does not want to reconnect, or another volume was found in its place. `recovery.table` has every transition; docs/decisions/0003-reconnect.md says why they are so.

use std::time::Duration;

use protocol::{Entropy, Instant};

use crate::limits::{BACKOFF_FIRST, BACKOFF_MOST, FIRST_OPEN};

/// Where a queue is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The first connection is being made; requests wait.
    Opening,
    /// Connected.
    Ready,
    /// The connection is lost, and the next attempt has its time; requests wait.
    Waiting,
    /// An attempt is under way; requests wait.
    Dialling,
    /// The bound has passed, and the next attempt has its time; requests fail at once.
    Resting,
    /// The bound has passed, and an attempt is under way; requests fail at once.
    Probing,
    /// It will not come back.
    Dead,
}

/// What happens to a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// An attempt has succeeded.
    Opened,
    /// An attempt has failed.
    Failed,
    /// The open connection has ended.
    Ended,
    /// The next attempt's time has come.
    Due,
    /// The requests that wait have waited as long as was wanted.
    Expired,
    /// A connection has ended, and no other is wanted.
    Barred,
    /// What was found is not the volume that was lost.
    Mismatched,
}

impl State {
    /// The state after an event; `None` where the event means nothing.
    pub(crate) fn after(self, event: Event) -> Option<Self> {
        Some(match (self, event) {
            (Self::Opening | Self::Dialling | Self::Probing, Event::Opened) => Self::Ready,
            (Self::Opening | Self::Dialling, Event::Failed) | (Self::Ready, Event::Ended) => Self::Waiting,
            (Self::Probing, Event::Failed) | (Self::Waiting, Event::Expired) => Self::Resting,
            (Self::Waiting, Event::Due) => Self::Dialling,
            (Self::Resting, Event::Due) | (Self::Opening | Self::Dialling, Event::Expired) => Self::Probing,
            (Self::Opening | Self::Ready | Self::Probing, Event::Barred)
            | (Self::Opening | Self::Dialling | Self::Probing, Event::Mismatched) => Self::Dead,
            _ => return None,
        })
    }

    /// True when requests fail instead of waiting.
    pub(crate) fn fails_fast(self) -> bool {
        matches!(self, Self::Resting | Self::Probing | Self::Dead)
    }
}

/// How long requests wait for a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// While the first attempt of all is under way.
    pub(crate) first: Duration,
    /// Once that has failed, or a connection is lost; zero never to reconnect.
    pub(crate) later: Duration,
}

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Begin an attempt.
    Dial,
    /// End every request that waits.
    Expire,
    /// Nothing.
    Rest,
}

/// One queue's recovery.
pub(crate) struct Recovery {
    state: State,
    patience: Patience,
    /// The queue has been connected before.
    opened: bool,
    /// Since when requests wait for the first attempt, or there is no connection.
    since: Option<Instant>,
    /// When the next attempt begins.
    due: Option<Instant>,
    /// Attempts and connections that came to nothing since a request last succeeded.
    failures: u32,
    entropy: Box<dyn Entropy>,
}

impl Recovery {
    /// A queue whose first attempt is being begun.
    pub(crate) fn new(patience: Patience, entropy: Box<dyn Entropy>) -> Self {
        Self { state: State::Opening, patience, opened: false, since: None, due: None, failures: 0, entropy }
    }

    /// Where it is.
    pub(crate) fn state(&self) -> State {
        self.state
    }

    fn enter(&mut self, event: Event) -> bool {
        let next = self.state.after(event);
        self.state = next.unwrap_or(self.state);
        next.is_some()
    }

    /// A request waits for a connection.
    pub(crate) fn handle_waiting(&mut self, now: Instant) {
        if self.state == State::Opening {
            self.since.get_or_insert(now);
        }
    }

    /// The attempt has succeeded.
    pub(crate) fn handle_opened(&mut self) {
        if self.enter(Event::Opened) {
            (self.opened, self.since, self.due) = (true, None, None);
        }
    }

    /// The attempt has failed.
    pub(crate) fn handle_failed(&mut self, now: Instant) {
        self.handle_end(now, Event::Failed);
    }

    /// The connection has ended.
    pub(crate) fn handle_ended(&mut self, now: Instant) {
        self.handle_end(now, Event::Ended);
    }

    fn handle_end(&mut self, now: Instant, event: Event) {
        let event = if self.patience.later.is_zero() { Event::Barred } else { event };
        let was_first = self.state == State::Opening;
        if self.enter(event) && self.state != State::Dead {
            self.since = self.since.filter(|_| !was_first).or(Some(now));
            self.due = Some(now + self.delay());
            self.failures = self.failures.saturating_add(1);
        }
    }

    /// What was found is another volume.
    pub(crate) fn handle_mismatch(&mut self) {
        self.enter(Event::Mismatched);
        self.due = None;
    }

    /// A request has been answered: the connection is worth something.
    pub(crate) fn handle_progress(&mut self) {
        self.failures = 0;
    }

    /// The time until the next attempt: none at first, then doubling, at random within its upper half, so that the queues
    /// of many hosts do not come back in step.
    fn delay(&mut self) -> Duration {
        let Some(doublings) = self.failures.checked_sub(1) else { return Duration::ZERO };
        let whole = BACKOFF_FIRST.saturating_mul(1 << doublings.min(16)).min(BACKOFF_MOST);
        let half = whole / 2;
        let nanos = protocol::nanos(half).max(1);
        half + Duration::from_nanos(self.entropy.number() % nanos)
    }

    /// When requests have waited long enough.
    fn expiry(&self) -> Option<Instant> {
        let patience = match self.state {
            State::Opening => self.patience.first,
            State::Waiting | State::Dialling if self.opened => self.patience.later,
            State::Waiting | State::Dialling => self.patience.later.min(FIRST_OPEN),
            State::Ready | State::Resting | State::Probing | State::Dead => return None,
        };
        self.since.map(|since| since + patience)
    }

    /// What is to be done at `now`; asked again until it is nothing.
    pub(crate) fn poll(&mut self, now: Instant) -> Step {
        if self.expiry().is_some_and(|expiry| expiry <= now) && self.enter(Event::Expired) {
            return Step::Expire;
        }
        if self.due.is_some_and(|due| due <= now) && self.enter(Event::Due) {
            self.due = None;
            return Step::Dial;
        }
        Step::Rest
    }

    /// When [`Recovery::poll`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        [self.expiry(), self.due].into_iter().flatten().min()
    }
}

impl std::fmt::Debug for Recovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recovery")
            .field("state", &self.state)
            .field("failures", &self.failures)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use protocol::SeededEntropy;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);
    const FIRST: Duration = Duration::from_mins(1);

    fn recovery(later: Duration) -> Recovery {
        Recovery::new(Patience { first: FIRST, later }, Box::new(SeededEntropy::new(1)))
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn table_of_all_transitions() {
        use Event::{Barred, Due, Ended, Expired, Failed, Mismatched, Opened};
        use State::{Dead, Dialling, Opening, Probing, Ready, Resting, Waiting};
        let mut table = String::new();
        for state in [Opening, Ready, Waiting, Dialling, Resting, Probing, Dead] {
            for event in [Opened, Failed, Ended, Due, Expired, Barred, Mismatched] {
                if let Some(next) = state.after(event) {
                    writeln!(table, "{state:?} --{event:?}--> {next:?}").unwrap();
                }
            }
        }
        assert_eq!(table, include_str!("recovery.table"));
    }

    #[test]
    fn the_first_attempt_is_at_once_and_later_ones_back_off() {
        let mut recovery = recovery(PATIENCE);
        recovery.handle_opened();
        recovery.handle_ended(at(0));
        assert_eq!(recovery.poll(at(0)), Step::Dial);
        recovery.handle_failed(at(0));
        let mut now = at(0);
        let mut waits = Vec::new();
        while recovery.poll(now) != Step::Expire {
            if recovery.state() == State::Dialling {
                recovery.handle_failed(now);
            }
            let next = recovery.poll_timeout().unwrap();
            waits.push(next.since(now));
            now = next;
        }
        for (nth, wait) in waits[..waits.len() - 1].iter().enumerate() {
            let whole = BACKOFF_FIRST.saturating_mul(1 << nth.min(16)).min(BACKOFF_MOST);
            assert!((whole / 2..whole).contains(wait), "attempt {nth} after {wait:?}, not {whole:?}");
        }
        assert_eq!(now, at(0) + PATIENCE, "requests wait exactly as long as was wanted");
        assert!(recovery.state().fails_fast());
    }

    #[test]
    fn it_is_looked_for_beyond_the_bound_and_comes_back() {
        let mut recovery = recovery(PATIENCE);
        recovery.handle_opened();
        recovery.handle_ended(at(0));
        assert_eq!(recovery.poll(at(0)), Step::Dial);
        assert_eq!(recovery.poll(at(30_000)), Step::Expire);
        assert_eq!(recovery.state(), State::Probing);
        recovery.handle_failed(at(40_000));
        assert_eq!(recovery.poll(at(45_000)), Step::Dial);
        recovery.handle_opened();
        assert_eq!((recovery.state(), recovery.poll_timeout()), (State::Ready, None));
    }

    #[test]
    fn a_connection_that_ends_before_any_answer_counts_as_a_failure() {
        let mut recovery = recovery(PATIENCE);
        recovery.handle_opened();
        recovery.handle_ended(at(0));
        assert_eq!(recovery.poll(at(0)), Step::Dial);
        recovery.handle_opened();
        recovery.handle_ended(at(1));
        assert_eq!(recovery.poll(at(1)), Step::Rest, "no busy loop of logins");
        assert_eq!(recovery.poll(at(101)), Step::Dial);
        recovery.handle_opened();
        recovery.handle_progress();
        recovery.handle_ended(at(102));
        assert_eq!(recovery.poll(at(102)), Step::Dial, "an answer makes up for the failures");
    }

    #[test]
    fn zero_patience_never_reconnects() {
        let mut recovery = recovery(Duration::ZERO);
        recovery.handle_opened();
        recovery.handle_ended(at(5));
        assert_eq!((recovery.state(), recovery.poll_timeout()), (State::Dead, None));
        assert_eq!(recovery.poll(at(100_000)), Step::Rest);
    }

    #[test]
    fn a_queue_that_never_opens_gives_up_early() {
        let mut recovery = recovery(PATIENCE);
        assert_eq!(recovery.poll(at(0)), Step::Rest);
        recovery.handle_failed(at(1));
        assert_eq!(recovery.poll(at(1) + FIRST_OPEN), Step::Expire);
    }

    #[test]
    fn requests_wait_for_a_first_attempt_that_hangs_as_long_as_was_wanted() {
        let mut recovery = recovery(PATIENCE);
        assert_eq!(recovery.poll_timeout(), None, "nobody waits");
        recovery.handle_waiting(at(5));
        recovery.handle_waiting(at(7));
        assert_eq!(recovery.poll_timeout(), Some(at(5) + FIRST));
        assert_eq!(recovery.poll(at(5) + FIRST), Step::Expire);
        assert_eq!((recovery.state(), recovery.poll_timeout()), (State::Probing, None));
        recovery.handle_opened();
        assert_eq!(recovery.state(), State::Ready, "it is late, and of use all the same");
    }

    #[test]
    fn a_first_attempt_that_fails_late_is_the_last_one_without_patience() {
        let mut recovery = recovery(Duration::ZERO);
        recovery.handle_waiting(at(0));
        assert_eq!(recovery.poll(at(0) + FIRST), Step::Expire);
        recovery.handle_failed(at(70_000));
        assert_eq!((recovery.state(), recovery.poll_timeout()), (State::Dead, None));
    }

    #[test]
    fn the_time_after_a_failed_first_attempt_begins_with_the_failure() {
        let mut recovery = recovery(PATIENCE);
        recovery.handle_waiting(at(0));
        recovery.handle_failed(at(40_000));
        assert_eq!(recovery.poll(at(40_000)), Step::Dial);
        assert_eq!(recovery.poll(at(40_000) + FIRST_OPEN), Step::Expire);
    }
}
