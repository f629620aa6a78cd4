//! Bootstrap interval of a median.
//!
//! A resample of `n` values has a median that depends on nothing but which *ranks* were drawn: rank 3 is the third
//! smallest value, whatever it is. So the draws are made once for each `n`, on ranks, and counted by the two middle
//! ranks that came out; applying them to data is then a short sum. It is the ordinary percentile bootstrap, resample by
//! resample, only that the resamples are shared between points with the same number of pairs.

use std::collections::BTreeMap;

use super::random::Random;

/// Resamples.
pub const DRAWS: u32 = 10_000;
/// Resamples beyond each end of a 95 % interval.
const TAIL: u32 = DRAWS / 40;

/// Resampled medians by the two middle ranks (the same one twice for an odd count), and how often they came out.
type Medians = Vec<((usize, usize), u32)>;

/// The draws of a seed, made when first needed.
#[derive(Debug, Clone)]
pub struct Bootstrap {
    seed: u64,
    tables: BTreeMap<usize, Medians>,
}

impl Bootstrap {
    /// Draws that `seed` decides.
    pub const fn new(seed: u64) -> Self {
        Self { seed, tables: BTreeMap::new() }
    }

    /// The 95 % percentile interval of the median of `sorted` (ascending). `None` without values.
    pub fn interval(&mut self, sorted: &[f64]) -> Option<(f64, f64)> {
        let seed = self.seed;
        let table = self.tables.entry(sorted.len()).or_insert_with(|| resample(seed, sorted.len()));
        let mut medians: Vec<(f64, u32)> = table
            .iter()
            .filter_map(|&((lower, upper), count)| {
                Some((f64::midpoint(*sorted.get(lower)?, *sorted.get(upper)?), count))
            })
            .collect();
        medians.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        Some((beyond_tail(medians.iter())?, beyond_tail(medians.iter().rev())?))
    }
}

/// The first value with at least [`TAIL`] resamples up to it.
fn beyond_tail<'a>(mut medians: impl Iterator<Item = &'a (f64, u32)>) -> Option<f64> {
    let mut seen = 0;
    medians.find_map(|&(median, count)| {
        seen += count;
        (seen >= TAIL).then_some(median)
    })
}

/// The median of `sorted` (ascending). `None` without values.
pub fn median(sorted: &[f64]) -> Option<f64> {
    let (lower, upper) = middle(sorted.len());
    Some(f64::midpoint(*sorted.get(lower)?, *sorted.get(upper)?))
}

/// The two middle ranks, from 0.
const fn middle(count: usize) -> (usize, usize) {
    (count.saturating_sub(1) / 2, count / 2)
}

fn resample(seed: u64, count: usize) -> Medians {
    let mut random = Random::part(seed, count as u64);
    let mut medians = BTreeMap::new();
    let mut drawn = vec![0; count];
    for _ in 0..DRAWS {
        drawn.fill_with(|| random.below(count));
        *medians.entry(middle_values(&mut drawn)).or_insert(0) += 1;
    }
    medians.into_iter().collect()
}

fn middle_values(drawn: &mut [usize]) -> (usize, usize) {
    drawn.sort_unstable();
    let (lower, upper) = middle(drawn.len());
    (drawn.get(lower).copied().unwrap_or_default(), drawn.get(upper).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The plain way: draw values, sort, take the middle, 10,000 times.
    fn plain(seed: u64, sorted: &[f64]) -> (f64, f64) {
        let mut random = Random::part(seed, sorted.len() as u64);
        let mut medians: Vec<f64> = (0..DRAWS)
            .map(|_| {
                let mut drawn: Vec<f64> = sorted.iter().map(|_| sorted[random.below(sorted.len())]).collect();
                drawn.sort_by(f64::total_cmp);
                median(&drawn).unwrap()
            })
            .collect();
        medians.sort_by(f64::total_cmp);
        (medians[249], medians[9_750])
    }

    #[test]
    fn shared_draws_give_what_plain_draws_give() {
        let mut random = Random::new(7);
        for count in [1, 2, 5, 8, 13, 30] {
            let mut values: Vec<f64> = (0..count).map(|_| random.unit()).collect();
            values.sort_by(f64::total_cmp);
            assert_eq!(Bootstrap::new(3).interval(&values), Some(plain(3, &values)), "{count} values");
        }
    }

    #[test]
    fn medians_of_even_and_odd_counts() {
        assert_eq!(median(&[1.0, 2.0, 9.0]), Some(2.0));
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), Some(3.0));
        assert_eq!(median(&[]), None);
        assert_eq!(Bootstrap::new(1).interval(&[]), None);
    }
}
