//! How many pairs a verdict needs, computed before anything is measured.
//!
//! A run that is planned with too few pairs cannot show what it was made for, whatever comes out. The calculation is that of a median
//! of log ratios: its standard error falls with the square root of the pairs, the verdict's interval reaches Student's quantile to
//! each side, and a difference of the asked size must lie beyond that with the asked probability.

use super::number::real_length;
use super::student;

/// Scatter of single runs that plans reckon with: standard deviation of a run's logarithm.
pub const NOISE: f64 = 0.05;
/// The difference that a primary claim must be able to show.
pub const EFFECT: f64 = 0.10;
/// Standard errors beyond an interval's end that 97.5 % of all medians keep, by the normal distribution: a verdict has to pass its own
/// interval, which the bootstrap makes wider than Student's, and the control, and both in nine of ten runs.
const EACH: f64 = 1.96;
/// Standard error of a median over that of a mean, for normal values: the square root of half of pi.
const MEDIAN: f64 = 1.2533;
/// No plan asks for more.
const MOST_PAIRS: usize = 60;

/// Pairs with which a difference of [`EFFECT`] is shown in 90 % of all runs on a machine whose runs scatter by [`NOISE`], where a
/// verdict errs with a chance of `level`.
pub fn pairs(level: f64) -> u32 {
    let enough = |&pairs: &usize| {
        let error = MEDIAN * NOISE * std::f64::consts::SQRT_2 / real_length(pairs).sqrt();
        (student::quantile_at(pairs - 1, level) + EACH) * error <= EFFECT.ln_1p()
    };
    let least = (super::MIN_PAIRS..MOST_PAIRS).find(enough).unwrap_or(MOST_PAIRS);
    super::number::count(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surer_verdicts_take_more_pairs() {
        assert_eq!([0.05, 0.025, 0.01].map(pairs), [15, 17, 21]);
        assert_eq!(pairs(1e-300), 60);
    }
}
