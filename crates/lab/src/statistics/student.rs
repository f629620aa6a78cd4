//! Student's t: how likely a mean at least so far from zero is, if only noise made it.
//!
//! Why not a resampled p-value: with five pairs no rearrangement of signs is rarer than 1 in 16, so nothing measured in
//! five pairs could ever pass Holm's correction over a sweep. Under "no difference" the two runs of a pair can change
//! places, so log ratios are symmetric around zero, which is where t is at its best; heavy tails make it say less, not more.

use super::number::real_length;

/// Two-sided p-value of the mean of `values` against zero; 1 for fewer than two values.
pub fn p_value(values: &[f64]) -> f64 {
    let Some(freedom) = values.len().checked_sub(1).filter(|&freedom| freedom > 0) else { return 1.0 };
    let count = real_length(values.len());
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let error = (squares / real_length(freedom) / count).sqrt();
    if mean == 0.0 {
        return 1.0;
    }
    (1.0 - within(mean.abs() / error, freedom)).clamp(0.0, 1.0)
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
        }
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
