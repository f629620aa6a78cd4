//! Holm's correction: a sweep of many points finds something somewhere by chance alone, unless each point must be the
//! surer the more points there are.
//!
//! The smallest p-value is multiplied by the number of points, the next by one less, and so on; none becomes smaller than
//! the one before it (Holm, 1979). Whatever the points have in common, the chance of even one false finding stays at the level.

use super::number::real_length;

/// The corrected p-values, in the order given. A value that is not a number counts as 1.
pub fn adjust(p_values: &[f64]) -> Vec<f64> {
    let sound: Vec<f64> = p_values.iter().map(|&p| if p.is_nan() { 1.0 } else { p }).collect();
    let mut ascending: Vec<usize> = (0..sound.len()).collect();
    ascending.sort_by(|&a, &b| at(&sound, a).total_cmp(&at(&sound, b)));
    let mut adjusted = vec![1.0; sound.len()];
    let mut least = 0.0_f64;
    for (rank, &index) in ascending.iter().enumerate() {
        least = least.max(at(&sound, index) * real_length(sound.len() - rank)).min(1.0);
        if let Some(slot) = adjusted.get_mut(index) {
            *slot = least;
        }
    }
    adjusted
}

fn at(values: &[f64], index: usize) -> f64 {
    values.get(index).copied().unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_pays_for_all_and_order_is_kept() {
        let adjusted = adjust(&[0.03, 0.005, 0.04, 0.9]);
        for (got, expected) in adjusted.iter().zip([0.09, 0.02, 0.09, 0.9]) {
            assert!((got - expected).abs() < 1e-12, "{adjusted:?}");
        }
    }

    #[test]
    fn one_point_pays_nothing_and_nothing_exceeds_one() {
        assert_eq!(adjust(&[0.04]), [0.04]);
        assert_eq!(adjust(&[0.6, 0.7, f64::NAN]), [1.0, 1.0, 1.0]);
        assert_eq!(adjust(&[]), [0.0; 0]);
    }
}
