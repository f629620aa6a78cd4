//! How long a core's turns keep the processor, so that a stall of our own making can be distinguished from one of the machine's.
//!
//! A turn and the wait that follows it end where the next one begins, and that moment is read anyway: what is short by the wall clock
//! costs a subtraction. What is long has slept, was preempted, or has worked; the thread's own clock, which stands still unless the
//! thread runs, shows which. It takes a system call, so it is read once in [`SPACING`] at most, and a turn's time is therefore reported up to
//! that much too long, never too short but by the time in which the core looked for work before it slept.
//!
//! Kernels that do not account interrupts apart (`CONFIG_IRQ_TIME_ACCOUNTING`) charge the network's to the thread that they interrupt, and
//! so to its turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use protocol::Instant;
use rustix::time::{ClockId, clock_gettime};

use crate::limits::{SPACING, STALL};

/// What the turns of one core took, readable from any thread.
#[derive(Debug, Default)]
pub struct Turns {
    longest: AtomicU64,
    stalls: AtomicU64,
}

impl Turns {
    /// The most processor time that a turn took with what it sent, up to a quarter of a millisecond too much; zero while none took
    /// as much as that.
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest.load(Ordering::Relaxed))
    }

    /// Turns of more than a millisecond of processor time.
    pub fn stalls(&self) -> u64 {
        self.stalls.load(Ordering::Relaxed)
    }

    /// Resets both: what opening took says nothing of serving.
    pub fn forget(&self) {
        self.longest.store(0, Ordering::Relaxed);
        self.stalls.store(0, Ordering::Relaxed);
    }

    fn record(&self, took: Duration) {
        self.longest.fetch_max(protocol::nanos(took), Ordering::Relaxed);
        self.stalls.fetch_add(u64::from(took > STALL), Ordering::Relaxed);
    }
}

/// Measures the turns of one core, on its thread.
#[derive(Debug)]
pub(crate) struct TurnTimer {
    turns: Arc<Turns>,
    /// When the turn under way began.
    began: Instant,
    /// When the thread's clock was read, and what it said; nothing before the first turn.
    read: Option<(Instant, Duration)>,
    /// How long the core looked for work at most before the next turn begins.
    spun: Duration,
}

impl TurnTimer {
    pub(crate) fn new(turns: Arc<Turns>) -> Self {
        Self { turns, began: Instant::ZERO, read: None, spun: Duration::ZERO }
    }

    /// A turn begins, and the one before has ended: returns what that took, unless it was short. `time` is what the thread has run.
    pub(crate) fn begin(&mut self, now: Instant, time: impl FnOnce() -> Duration) -> Option<Duration> {
        let began = std::mem::replace(&mut self.began, now);
        let spun = std::mem::take(&mut self.spun);
        let Some((at, before)) = self.read else {
            self.read = Some((now, time()));
            return None;
        };
        if now.since(at) < SPACING {
            return None;
        }
        let time = time();
        self.read = Some((now, time));
        let took = time.saturating_sub(before).saturating_sub(spun);
        let long = (now.since(began) >= SPACING).then_some(took);
        if let Some(took) = long {
            self.turns.record(took);
        }
        long
    }

    /// The core has looked for work, for as long as this at most.
    pub(crate) fn spun(&mut self, span: Duration) {
        self.spun = span;
    }
}

/// What the calling thread has run.
pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A core whose clocks are given: each turn begins so many microseconds after the one before, in which the thread ran for so many.
    fn play(steps: &[(u64, u64)]) -> (Arc<Turns>, u32) {
        let turns = Arc::new(Turns::default());
        let mut turn_timer = TurnTimer::new(Arc::clone(&turns));
        let (mut now, mut ran, mut reads) = (Instant::ZERO + Duration::from_secs(1), Duration::ZERO, 0);
        turn_timer.begin(now, || ran);
        for (wall, own) in steps {
            now = now + Duration::from_micros(*wall);
            ran += Duration::from_micros(*own);
            turn_timer.begin(now, || {
                reads += 1;
                ran
            });
        }
        (turns, reads)
    }

    #[test]
    fn a_turn_that_works_for_long_is_a_stall() {
        let (turns, _) = play(&[(300, 10), (1500, 1400), (300, 10)]);
        assert_eq!((turns.stalls(), turns.longest()), (1, Duration::from_micros(1400)));
    }

    #[test]
    fn sleep_and_preemption_are_none() {
        let (turns, _) = play(&[(300, 10), (50_000, 20), (4000, 900)]);
        assert_eq!((turns.stalls(), turns.longest()), (0, Duration::from_micros(900)));
    }

    #[test]
    fn many_short_turns_are_no_long_one_and_cost_no_reading_each() {
        let busy = vec![(10, 10); 1000];
        let (turns, reads) = play(&busy);
        assert_eq!((turns.stalls(), turns.longest()), (0, Duration::ZERO));
        assert_eq!(reads, 1000 * 10 / 250);
    }

    #[test]
    fn what_ran_since_the_last_reading_counts_with_the_long_turn() {
        let (turns, _) = play(&[(300, 0), (240, 240), (800, 800)]);
        assert_eq!((turns.stalls(), turns.longest()), (1, Duration::from_micros(1040)));
    }

    #[test]
    fn looking_for_work_is_no_work() {
        let turns = Arc::new(Turns::default());
        let mut turn_timer = TurnTimer::new(Arc::clone(&turns));
        let at = |micros| Instant::ZERO + Duration::from_micros(micros);
        turn_timer.begin(at(1000), || Duration::ZERO);
        turn_timer.spun(Duration::from_millis(2));
        turn_timer.begin(at(3300), || Duration::from_micros(2300));
        assert_eq!((turns.stalls(), turns.longest()), (0, Duration::from_micros(300)));
    }

    #[test]
    fn what_was_before_can_be_forgotten() {
        let (turns, _) = play(&[(300, 10), (1500, 1400)]);
        turns.forget();
        assert_eq!((turns.stalls(), turns.longest()), (0, Duration::ZERO));
    }

    #[test]
    fn the_thread_s_clock_goes_on_while_it_runs() {
        let before = thread_time();
        while thread_time() == before {}
        assert!(thread_time() > before);
    }
}
