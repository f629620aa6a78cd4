//! When a point has been measured often enough.
//!
//! The rule looks at the width of the interval and never at whether there is a difference: who measures on until a
//! difference shows will find one. Width and difference are not quite independent in small samples (a narrow interval is
//! in part a lucky one), which is what [`super::verdict`] charges every p-value for.

use super::bootstrap::Bootstrap;
use super::{MIN_PAIRS, SEED};
use crate::scenario::Design;

/// What the runner does after a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Measure another pair.
    Another,
    /// The interval is as narrow as the design asks.
    Narrow,
    /// The design allows no more pairs.
    Exhausted,
}

impl Step {
    /// Whether the point is done.
    pub const fn stops(self) -> bool {
        !matches!(self, Self::Another)
    }
}

/// What to do after `measured` pairs, of which the usable ones gave `log_ratios` ([`super::pairing::pairs`]). It depends on
/// nothing else: the same pairs always stop at the same place. To be asked after every pair.
pub fn step(design: &Design, measured: u32, log_ratios: &[f64]) -> Step {
    step_with(&mut Bootstrap::new(SEED), design, measured, log_ratios)
}

/// The same with draws that were made before, for who asks often.
pub fn step_with(bootstrap: &mut Bootstrap, design: &Design, measured: u32, log_ratios: &[f64]) -> Step {
    if measured >= design.min_pairs
        && log_ratios.len() >= MIN_PAIRS
        && is_narrow(bootstrap, design, log_ratios)
    {
        Step::Narrow
    } else if measured >= design.max_pairs {
        Step::Exhausted
    } else {
        Step::Another
    }
}

fn is_narrow(bootstrap: &mut Bootstrap, design: &Design, log_ratios: &[f64]) -> bool {
    let mut sorted = log_ratios.to_vec();
    sorted.sort_by(f64::total_cmp);
    bootstrap
        .interval(&sorted)
        .is_some_and(|interval| (interval.high - interval.low) / 2.0 <= design.half_width.ln_1p())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: [f64; 5] = [0.100, 0.102, 0.098, 0.101, 0.099];
    const WILD: [f64; 5] = [0.3, -0.2, 0.1, -0.3, 0.2];

    #[test]
    fn a_calm_point_stops_at_the_least_number_of_pairs() {
        let design = Design::default();
        assert_eq!(step(&design, 4, &CALM[..4]), Step::Another);
        assert_eq!(step(&design, 5, &CALM), Step::Narrow);
        assert!(step(&design, 5, &CALM).stops());
    }

    #[test]
    fn a_wild_point_goes_on_to_the_greatest() {
        let design = Design::default();
        for measured in 5..12 {
            assert_eq!(step(&design, measured, &WILD), Step::Another, "{measured}");
        }
        assert_eq!(step(&design, 12, &WILD), Step::Exhausted);
    }

    #[test]
    fn what_is_too_few_for_an_interval_is_never_narrow() {
        let design = Design { min_pairs: 2, ..Design::default() };
        assert_eq!(step(&design, 2, &CALM[..2]), Step::Another);
        assert_eq!(
            step(&design, 12, &[]),
            Step::Exhausted,
            "failing pairs count, or a broken arm would never end"
        );
    }

    #[test]
    fn a_difference_does_not_stop_and_its_absence_does_not_go_on() {
        let shifted = |by: f64| WILD.map(|ratio| ratio + by);
        let design = Design::default();
        assert_eq!(step(&design, 6, &shifted(5.0)), step(&design, 6, &shifted(0.0)));
    }
}
