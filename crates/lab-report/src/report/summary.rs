//! A number with its interval: the median of repetitions and what a bootstrap says of it.

use lab_model::statistics::interval::Interval;
use std::cell::RefCell;

use lab_model::statistics::SEED;
use lab_model::statistics::bootstrap::{Bootstrap, median};

/// The bootstrap's draws, shared by all the numbers of a report.
#[derive(Debug)]
pub(crate) struct Draws(RefCell<Bootstrap>);

impl Default for Draws {
    fn default() -> Self {
        Self(RefCell::new(Bootstrap::new(SEED)))
    }
}

/// A number with its interval, in base units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Summary {
    /// Median of the repetitions, or the percentile of all of them together.
    pub(crate) value: f64,
    /// Lower end of the 95 % interval.
    pub(crate) low: f64,
    /// Its upper end.
    pub(crate) high: f64,
    /// Repetitions that have the number.
    pub(crate) count: usize,
}

impl Summary {
    /// Of some numbers; none of none.
    pub(crate) fn of(numbers: impl IntoIterator<Item = f64>, draws: &Draws) -> Option<Self> {
        let mut sorted: Vec<f64> = numbers.into_iter().filter(|number| number.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let Interval { low, high } = draws.0.borrow_mut().interval(&sorted)?;
        // What is never negative (a rate, a share, a time) is not so at the end of its interval either.
        let low = if *sorted.first()? >= 0.0 { low.max(0.0) } else { low };
        Some(Self { value: median(&sorted)?, low, high, count: sorted.len() })
    }

    /// Another value with the same interval, which is made to hold it.
    pub(crate) const fn around(self, value: f64) -> Self {
        Self { value, low: self.low.min(value), high: self.high.max(value), count: self.count }
    }

    /// Everything changed alike: another unit.
    pub(crate) fn map(self, change: impl Fn(f64) -> f64) -> Self {
        Self { value: change(self.value), low: change(self.low), high: change(self.high), count: self.count }
    }
}
