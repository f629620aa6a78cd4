//! When a point has been measured often enough.
//!
//! The rule looks at the width of the interval and never at whether there is a difference: who measures on until a
//! difference shows will find one. Width and difference are not quite independent in small samples (a narrow interval is
//! in part a lucky one), which is what [`super::verdict`] charges every p-value for.

use super::bootstrap::Bootstrap;
use super::pairing::Pairs;
use super::verdict::LEVEL;
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

/// What to do after `measured` pairs that were not disturbed, of which the usable ones gave `log_ratios`
/// ([`super::pairing::pairs`]). It depends on nothing else: the same pairs always stop at the same place. To be asked after every pair.
pub fn step(design: &Design, measured: u32, log_ratios: &[f64]) -> Step {
    step_with(&mut Bootstrap::new(SEED), design, Measured { pairs: measured, log_ratios, level: LEVEL })
}

/// What a point has so far.
#[derive(Debug, Clone, Copy)]
pub struct Measured<'a> {
    /// Pairs that were not disturbed.
    pub pairs: u32,
    /// Of the usable ones among them.
    pub log_ratios: &'a [f64],
    /// At which the ratio will be judged: the interval that is to be narrow is that of the verdict.
    pub level: f64,
}

/// The same at any level, with draws that were made before.
pub fn step_with(bootstrap: &mut Bootstrap, design: &Design, measured: Measured<'_>) -> Step {
    if measured.pairs >= design.min_pairs
        && measured.log_ratios.len() >= MIN_PAIRS
        && is_narrow(bootstrap, design, measured)
    {
        Step::Narrow
    } else if measured.pairs >= design.max_pairs {
        Step::Exhausted
    } else {
        Step::Another
    }
}

/// Repetitions of a point at most: disturbed ones are taken again, and a machine that never comes to rest ends somewhere.
pub const fn most_repetitions(design: &Design) -> u32 {
    design.max_pairs.saturating_mul(2)
}

/// What to do at a point after so many `repetitions`: disturbed pairs do not count, and are taken again.
pub fn at_point(
    bootstrap: &mut Bootstrap,
    design: &Design,
    repetitions: u32,
    pairs: &Pairs,
    level: f64,
) -> Step {
    if repetitions >= most_repetitions(design) {
        return Step::Exhausted;
    }
    let undisturbed = repetitions.saturating_sub(pairs.doubtful);
    step_with(bootstrap, design, Measured { pairs: undisturbed, log_ratios: &pairs.log_ratios, level })
}

fn is_narrow(bootstrap: &mut Bootstrap, design: &Design, measured: Measured<'_>) -> bool {
    let mut sorted = measured.log_ratios.to_vec();
    sorted.sort_by(f64::total_cmp);
    bootstrap
        .interval_at(&sorted, measured.level)
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

    #[test]
    fn disturbed_pairs_are_taken_again_and_end_somewhere() {
        let design = Design::default();
        let at = |repetitions, doubtful| {
            let pairs = Pairs { point: Vec::new(), log_ratios: WILD.to_vec(), unusable: doubtful, doubtful };
            at_point(&mut Bootstrap::new(SEED), &design, repetitions, &pairs, LEVEL)
        };
        assert_eq!(at(12, 0), Step::Exhausted);
        assert_eq!(at(12, 7), Step::Another, "seven of twelve were disturbed");
        assert_eq!(at(24, 19), Step::Exhausted);
    }

    #[test]
    fn a_surer_verdict_takes_more_pairs() {
        let measured = |level| Measured { pairs: 5, log_ratios: &[0.10, 0.13, 0.07, 0.12, 0.08], level };
        let design = Design::default();
        assert_eq!(step_with(&mut Bootstrap::new(SEED), &design, measured(LEVEL)), Step::Narrow);
        assert_eq!(step_with(&mut Bootstrap::new(SEED), &design, measured(0.005)), Step::Another);
    }
}
