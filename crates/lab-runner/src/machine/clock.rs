//! The machine's own clock: what results and tools note their times in.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Two moments of a clock, in seconds since 1970, and what lies between.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Period {
    /// The earlier one.
    pub from: f64,
    /// The later one.
    pub to: f64,
}

/// Seconds since 1970.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Both of a machine's clocks at one moment: the one that somebody may set, and the one that only runs.
#[derive(Debug, Clone, Copy)]
pub struct Clocks {
    wall: f64,
    running: Instant,
}

/// Seconds by which the clocks may part over a measurement: a clock that is slewed parts by half a thousandth.
const PARTED: f64 = 0.02;

impl Clocks {
    /// Now.
    pub fn read() -> Self {
        Self { wall: now(), running: Instant::now() }
    }

    /// In words, if the clock was set since then.
    pub fn set_since(self) -> Option<String> {
        self.set_between(now(), self.running.elapsed())
    }

    fn set_between(self, wall: f64, elapsed: Duration) -> Option<String> {
        let elapsed = elapsed.as_secs_f64();
        let step = wall - self.wall - elapsed;
        (step.abs() > PARTED + elapsed / 1000.0)
            .then(|| format!("the machine's clock was set by {step:+.3} s while it was measured"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_step_of_the_clock_is_noticed_and_a_slew_is_not() {
        let before = Clocks { wall: 1000.0, running: Instant::now() };
        let after = |wall| before.set_between(wall, Duration::from_secs(10));
        assert_eq!(after(1010.0), None);
        assert_eq!(after(1010.005), None);
        assert_eq!(after(1010.05).unwrap(), "the machine's clock was set by +0.050 s while it was measured");
        assert!(after(1009.9).unwrap().contains("-0.100 s"));
    }
}
