//! Student's t: how likely a mean at least so far from zero is, if only noise made it.
//!
//! Why not a resampled p-value: with five pairs no rearrangement of signs is rarer than 1 in 16, so nothing measured in
//! five pairs could ever pass Holm's correction over a sweep. Under "no difference" the two runs of a pair can change
//! places, so log ratios are symmetric around zero, which is where t is at its best; heavy tails make it say less, not more.

use super::interval::Interval;
use super::number::real_length;

/// Two-sided p-value of the mean of `values` against zero; 1 for fewer than two values.
pub fn p_value(values: &[f64]) -> f64 {
    match Mean::of(values) {
        Some(mean) if mean.value != 0.0 => two_sided(mean.value / mean.error, mean.freedom),
        _ => 1.0,
    }
}

/// How likely a t at least so far from zero is, if only noise made it, for 1 degree of freedom or more.
pub fn two_sided(t: f64, freedom: usize) -> f64 {
    (1.0 - within(t.abs(), freedom)).clamp(0.0, 1.0)
}

/// The 95 % interval of the mean of `values`. `None` for fewer than two.
pub fn interval(values: &[f64]) -> Option<Interval> {
    interval_within(values, quantile(values.len().checked_sub(1).filter(|&freedom| freedom > 0)?))
}

/// So many standard errors to each side of the mean of `values`. `None` for fewer than two.
pub fn interval_within(values: &[f64], reach: f64) -> Option<Interval> {
    let mean = Mean::of(values)?;
    let reach = reach * mean.error;
    Some(Interval { low: mean.value - reach, high: mean.value + reach })
}

/// The t that |t| stays below with a probability of 95 %, for 1 degree of freedom or more.
pub fn quantile(freedom: usize) -> f64 {
    quantile_at(freedom, 0.05)
}

/// The t that |t| exceeds with a probability of `level`, which is above 0 and below 1, for 1 degree of freedom or more.
pub fn quantile_at(freedom: usize, level: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while two_sided(high, freedom) > level && high < MOST_T {
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if two_sided(middle, freedom) > level { low = middle } else { high = middle }
    }
    high
}

/// Beyond this the sums of [`within`] have no digits left.
const MOST_T: f64 = 1e9;

/// Probability that a standard normal number is above `x`, which is at least 0; off by less than 1e-7
/// (Abramowitz and Stegun, 26.2.17).
pub fn above_normal(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 5] =
        [1.330_274_429, -1.821_255_978, 1.781_477_937, -0.356_563_782, 0.319_381_530];
    let t = 1.0 / (1.0 + 0.231_641_9 * x);
    let polynomial = COEFFICIENTS.iter().fold(0.0, |sum, coefficient| (sum + coefficient) * t);
    polynomial * (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// A mean, its standard error and its degrees of freedom.
struct Mean {
    value: f64,
    error: f64,
    freedom: usize,
}

impl Mean {
    fn of(values: &[f64]) -> Option<Self> {
        let freedom = values.len().checked_sub(1).filter(|&freedom| freedom > 0)?;
        let count = real_length(values.len());
        let value = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|one| (one - value).powi(2)).sum();
        Some(Self { value, error: (squares / real_length(freedom) / count).sqrt(), freedom })
    }
}

/// Probability that |t| stays below `t`, by the finite sums that exist for whole degrees of freedom
/// (Abramowitz and Stegun, 26.7.3 and 26.7.4). An infinite `t` is certain.
fn within(t: f64, freedom: usize) -> f64 {
    let angle = (t / real_length(freedom).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let odd = freedom % 2 == 1;
    let mut term = if odd { cosine } else { 1.0 };
    let mut sum = 0.0;
    let mut step = usize::from(odd);
    while step + 2 <= freedom {
        sum += term;
        step += 2;
        // 2/3, 4/5, … for odd degrees of freedom; 1/2, 3/4, … for even ones.
        term *= cosine * cosine * real_length(step - 1) / real_length(step);
    }
    if odd { std::f64::consts::FRAC_2_PI * (angle + sine * sum) } else { sine * sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_student_come_out() {
        // Two-sided 5 % and 1 % points as every table prints them.
        for (freedom, five, one) in [
            (1, 12.7062, 63.6567),
            (2, 4.3027, 9.9248),
            (4, 2.7764, 4.6041),
            (7, 2.3646, 3.4995),
            (11, 2.2010, 3.1058),
            (30, 2.0423, 2.7500),
        ] {
            assert!((within(five, freedom) - 0.95).abs() < 1e-5, "{freedom}");
            assert!((within(one, freedom) - 0.99).abs() < 1e-5, "{freedom}");
            assert!((quantile(freedom) - five).abs() < 1e-4, "{freedom}");
            assert!((quantile_at(freedom, 0.01) - one).abs() < 1e-3, "{freedom}");
        }
    }

    #[test]
    fn normal_tails_and_an_interval() {
        assert!((above_normal(0.0) - 0.5).abs() < 1e-7);
        assert!((above_normal(1.959_964) - 0.025).abs() < 1e-7);
        assert!((above_normal(3.090_232) - 0.001).abs() < 1e-7);
        // Mean 2, standard error 1 / sqrt(3), t(2) = 4.3027.
        let Interval { low, high } = interval(&[1.0, 2.0, 3.0]).unwrap();
        assert!((low + 0.4841).abs() < 1e-4 && (high - 4.4841).abs() < 1e-4, "{low} to {high}");
        assert_eq!(interval(&[1.0]), None);
    }

    #[test]
    fn p_values_of_small_samples() {
        // Mean 1, standard error 1/2 with four degrees of freedom: t = 2.
        let error = 0.5_f64 * 5.0_f64.sqrt();
        let side = error * 2.0_f64.sqrt();
        let values = [1.0 - side, 1.0, 1.0, 1.0, 1.0 + side];
        assert!((p_value(&values) - 0.116_117).abs() < 1e-5, "{}", p_value(&values));
        assert!((p_value(&[0.0; 6]) - 1.0).abs() < f64::EPSILON, "no difference at all");
        assert!(p_value(&[0.1; 6]).abs() < f64::EPSILON, "the same difference each time");
        assert!((p_value(&[0.1]) - 1.0).abs() < f64::EPSILON, "one pair shows nothing");
        assert!((p_value(&[]) - 1.0).abs() < f64::EPSILON);
    }
}
