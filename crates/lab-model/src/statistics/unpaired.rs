//! Ratios of two runs that did not run side by side.
//!
//! Without pairs, what drifts over minutes does not cancel: it is part of each run's scatter and makes the interval wider.
//! The interval of the ratio of medians is put together from the two medians' own bootstrap intervals (Zou and Donner,
//! "Construction of confidence intervals about effect measures", Statistics in Medicine 27, 2008), and the p-value is
//! Welch's, on logarithms. What changed once between the runs, such as another neighbour on the machine, no interval shows.

use crate::statistics::MIN_PAIRS;
use crate::statistics::bootstrap::{Bootstrap, median};
use crate::statistics::number::real_length;
use crate::statistics::student;
use crate::statistics::verdict::{Ratio, STOPPING};

/// Median of `a` over median of `b`, both logarithms, uncorrected. `None` when either has fewer than [`MIN_PAIRS`] values.
pub fn ratio(bootstrap: &mut Bootstrap, a: &[f64], b: &[f64]) -> Option<Ratio> {
    let (a, b) = (sorted(a)?, sorted(b)?);
    let (middle_a, middle_b) = (median(&a)?, median(&b)?);
    let (around_a, around_b) = (bootstrap.interval(&a)?, bootstrap.interval(&b)?);
    let difference = middle_a - middle_b;
    let below = (middle_a - around_a.low).hypot(around_b.high - middle_b);
    let above = (around_a.high - middle_a).hypot(middle_b - around_b.low);
    let p_value = (welch(&a, &b) * STOPPING).min(1.0);
    Some(Ratio {
        median: difference.exp(),
        low: (difference - below).exp(),
        high: (difference + above).exp(),
        p_value,
        adjusted: p_value,
    })
}

fn sorted(values: &[f64]) -> Option<Vec<f64>> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    (values.len() >= MIN_PAIRS).then_some(values)
}

/// Two-sided p-value of a difference of means with unequal variances.
fn welch(a: &[f64], b: &[f64]) -> f64 {
    let ((mean_a, error_a), (mean_b, error_b)) = (mean(a), mean(b));
    let error = error_a + error_b;
    if error <= 0.0 {
        return if (mean_a - mean_b).abs() > 0.0 { 0.0 } else { 1.0 };
    }
    let part = |error: f64, count: usize| error * error / (real_length(count) - 1.0);
    let freedom = error * error / (part(error_a, a.len()) + part(error_b, b.len()));
    // Rounded down: fewer degrees of freedom claim less. Never fewer than the smaller run has.
    let least = a.len().min(b.len()) - 1;
    let most = a.len() + b.len() - 2;
    let freedom = (least..=most).rev().find(|&whole| real_length(whole) <= freedom).unwrap_or(least);
    student::two_sided((mean_a - mean_b) / error.sqrt(), freedom)
}

/// Mean, and the square of its standard error.
fn mean(values: &[f64]) -> (f64, f64) {
    let count = real_length(values.len());
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, squares / (count - 1.0) / count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::SEED;
    use crate::statistics::random::Random;
    use crate::statistics::synthetic::Bench;

    fn logs(random: &mut Random, bench: Bench, effect: f64, count: usize) -> Vec<f64> {
        (0..count).map(|_| bench.block(random, effect).a.ln()).collect()
    }

    #[test]
    fn a_known_case() {
        // t = 1 / sqrt(0.02 + 0.02) = 5 with 8 degrees of freedom: p = 0.00105.
        let spread = [-0.4, -0.2, 0.0, 0.2, 0.4].map(|part: f64| part * 0.1_f64.sqrt() / 0.1_f64.sqrt());
        let a: Vec<f64> = spread.iter().map(|part| 1.0 + part).collect();
        let p = welch(&a, &spread);
        assert!((p - 0.001_05).abs() < 0.000_05, "{p}");
        assert!((welch(&spread, &spread) - 1.0).abs() < 1e-12);
    }

    /// Over 500 pairs of runs of the realistic bench: false findings stay rare, and the interval holds the truth.
    #[test]
    fn intervals_hold_the_truth() {
        let mut random = Random::new(5);
        let mut bootstrap = Bootstrap::new(SEED);
        let bench = crate::statistics::synthetic::REALISTIC;
        let (mut missed, mut found) = (0, 0);
        for _ in 0..500 {
            let (a, b) = (logs(&mut random, bench, 0.9, 8), logs(&mut random, bench, 1.0, 8));
            let ratio = ratio(&mut bootstrap, &a, &b).unwrap();
            missed += u32::from(!(ratio.low..=ratio.high).contains(&0.9));
            let same = logs(&mut random, bench, 1.0, 8);
            let null = super::ratio(&mut bootstrap, &same, &b).unwrap();
            found += u32::from(null.p_value <= 0.05 && !(null.low..=null.high).contains(&1.0));
        }
        assert!(missed <= 35, "{missed} of 500 intervals miss the truth");
        assert!(found <= 25, "{found} of 500 equal runs differ");
    }

    #[test]
    fn too_few_repetitions_have_no_ratio() {
        let four = [0.0; 4];
        assert_eq!(ratio(&mut Bootstrap::new(SEED), &four, &[0.0; 9]), None);
        assert_eq!(ratio(&mut Bootstrap::new(SEED), &[0.0; 9], &four), None);
    }

    #[test]
    fn equal_values_are_equal() {
        let ratio = ratio(&mut Bootstrap::new(SEED), &[1.0; 5], &[1.0; 5]).unwrap();
        assert_eq!((ratio.median, ratio.low, ratio.high, ratio.p_value), (1.0, 1.0, 1.0, 1.0));
    }
}
