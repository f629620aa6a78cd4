//! Whether a core looks for the end of file I/O before it sleeps, and for how long: learned from how long that has taken.
//!
//! A fast drive ends an I/O sooner than a core falls asleep and wakes up, which it would do for each of a burst. How long I/Os take follows from how many are under way at each moment and how
//! many end (Little's law), so that none of them needs a look at the clock.

use std::time::Duration;

use protocol::Instant;

use crate::driver::{FileCount, Woken};
use crate::limits::{FILE_GAP, FILE_SAMPLE, FILE_SPIN};
use crate::spin::Spin;

/// What a core has learned of its files and devices.
#[derive(Debug)]
pub(crate) struct FileWait {
    seen: FileCount,
    looked: Option<Instant>,
    /// I/Os under way, added up over time, since the last estimate.
    area: Duration,
    /// I/Os that have ended since.
    ended: u64,
    /// How long an I/O takes, once so many have ended that it can be told.
    latency: Option<Duration>,
    spin: Spin,
}

impl FileWait {
    /// A core that has seen none. One that `may_spin` not never looks.
    pub(crate) fn new(may_spin: bool) -> Self {
        let longest = if may_spin { FILE_SPIN } else { Duration::ZERO };
        Self {
            seen: FileCount::default(),
            looked: None,
            area: Duration::ZERO,
            ended: 0,
            latency: None,
            spin: Spin::new(longest),
        }
    }

    /// What the driver has counted by the beginning of a turn.
    pub(crate) fn note(&mut self, now: Instant, count: FileCount) {
        let before = self.looked.replace(now);
        if let Some(before) = before.filter(|_| self.seen.under_way > 0) {
            let passed = now.since(before);
            self.area = self.area.saturating_add(passed.saturating_mul(self.seen.under_way));
        }
        self.ended += count.ended - self.seen.ended;
        self.seen = count;
        if self.ended >= FILE_SAMPLE {
            let each = self.area / u32::try_from(self.ended).unwrap_or(u32::MAX);
            // Half of what was known stays, so that one slow I/O is not taken for the rule.
            self.latency = Some(self.latency.map_or(each, |known| (known + each) / 2));
            (self.area, self.ended) = (Duration::ZERO, 0);
        }
    }

    /// How long to look before the next sleep, with so many I/Os under way: long enough for any of them, if they end so quickly one after another that a sleep between two costs
    /// more than looking.
    pub(crate) fn allowed(&self, under_way: u32) -> Duration {
        let Some(latency) = self.latency.filter(|_| under_way > 0) else { return Duration::ZERO };
        let gap = latency / under_way;
        if gap > FILE_GAP { Duration::ZERO } else { latency.saturating_mul(2).min(self.spin.allowed()) }
    }

    /// How a wait ended for which so long was allowed.
    pub(crate) fn learn(&mut self, woken: Woken, span: Duration) {
        self.spin.learn(woken, span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    /// `depth` I/Os at a time that take `each` µs, over and over.
    fn after(depth: u32, each: u64) -> FileWait {
        let mut wait = FileWait::new(true);
        for round in 0..64 {
            wait.note(at(round * each), FileCount { under_way: depth, ended: round * u64::from(depth) });
        }
        wait
    }

    #[test]
    fn a_core_looks_for_as_long_as_a_quick_drive_takes() {
        let wait = after(32, 100);
        assert_eq!(wait.latency, Some(Duration::from_micros(100)));
        assert_eq!(wait.allowed(32), FILE_SPIN.min(Duration::from_micros(200)));
        assert_eq!(wait.allowed(0), Duration::ZERO, "nothing is under way");
    }

    #[test]
    fn a_core_sleeps_where_ios_end_seldom() {
        assert_eq!(after(1, 100).allowed(1), Duration::ZERO);
        assert_eq!(after(8, 10_000).allowed(8), Duration::ZERO, "a disk that turns");
        assert!(after(1, 10).allowed(1) > Duration::ZERO, "a drive as quick as memory");
        assert_eq!(FileWait::new(true).allowed(32), Duration::ZERO, "nothing is known yet");
    }

    #[test]
    fn a_core_that_looked_in_vain_sleeps_for_a_while() {
        let mut wait = after(32, 100);
        wait.learn(Woken::SpunInVain, wait.allowed(32));
        assert_eq!(wait.allowed(32), Duration::ZERO);
        for _ in 0..2 {
            wait.learn(Woken::Slept, Duration::ZERO);
        }
        assert!(wait.allowed(32) > Duration::ZERO);
    }

    #[test]
    fn a_core_that_may_not_spin_never_does() {
        let mut wait = FileWait::new(false);
        for round in 0..64 {
            wait.note(at(round * 100), FileCount { under_way: 32, ended: round * 32 });
        }
        assert_eq!(wait.allowed(32), Duration::ZERO);
    }
}
