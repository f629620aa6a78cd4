//! Percentiles of several runs, directions or arms together, from merged histograms.
//!
//! The mean of two 99th percentiles is the 99th percentile of nothing. Counts, however, add: so histograms are merged
//! first and read afterwards. A bucket is known by its upper bound, so a percentile is never understated.

use super::number::real;
use crate::result::{Bucket, Latency};

/// All the counts of several histograms in one, ascending, each bound once.
pub fn merge<'a>(histograms: impl IntoIterator<Item = &'a [Bucket]>) -> Vec<Bucket> {
    let mut all: Vec<Bucket> =
        histograms.into_iter().flatten().copied().filter(|bucket| bucket.count > 0).collect();
    all.sort_unstable_by_key(|bucket| bucket.bound);
    let mut merged: Vec<Bucket> = Vec::with_capacity(all.len());
    for bucket in all {
        match merged.last_mut() {
            Some(last) if last.bound == bucket.bound => last.count = last.count.saturating_add(bucket.count),
            _ => merged.push(bucket),
        }
    }
    merged
}

/// The smallest bound, in nanoseconds, that at least `percent` (0 to 100) of the counts do not exceed: the nearest-rank
/// percentile. `None` for an empty histogram or a `percent` outside its range.
pub fn percentile(buckets: &[Bucket], percent: f64) -> Option<f64> {
    if !(0.0..=100.0).contains(&percent) {
        return None;
    }
    let total = buckets.iter().fold(0_u64, |sum, bucket| sum.saturating_add(bucket.count));
    let wanted = (real(total) * percent / 100.0).ceil().max(1.0);
    let mut seen = 0_u64;
    buckets.iter().find_map(|&Bucket { bound, count }| {
        seen = seen.saturating_add(count);
        (count > 0 && real(seen) >= wanted).then(|| real(bound))
    })
}

/// A percentile by its name (`p50`, `p99.9`) over several distributions together. A single one answers as its tool does,
/// to the digit; several answer from their merged histograms. `None` when that needs a histogram which a tool did not give.
pub fn percentile_of_all(latencies: &[&Latency], name: &str) -> Option<f64> {
    match latencies {
        [] => None,
        [one] => one.percentiles.get(name).copied().or_else(|| from_histogram(&one.histogram, name)),
        many if many.iter().all(|latency| !latency.histogram.is_empty()) => {
            from_histogram(&merge(many.iter().map(|latency| latency.histogram.as_slice())), name)
        }
        _ => None,
    }
}

fn from_histogram(buckets: &[Bucket], name: &str) -> Option<f64> {
    percentile(buckets, name.strip_prefix('p')?.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_adds_counts_and_keeps_order() {
        let (one, other) = ([(10, 1), (30, 2)], [(10, 4), (20, 1), (40, 0)]);
        let merged = merge([&one.map(Bucket::from)[..], &other.map(Bucket::from)[..]]);
        assert_eq!(merged, [(10, 5), (20, 1), (30, 2)].map(Bucket::from));
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let buckets = [(10, 50), (20, 49), (30, 1)].map(Bucket::from);
        for (percent, expected) in
            [(0.0, 10.0), (50.0, 10.0), (50.1, 20.0), (99.0, 20.0), (99.1, 30.0), (100.0, 30.0)]
        {
            assert_eq!(percentile(&buckets, percent), Some(expected), "{percent}");
        }
        assert_eq!(percentile(&[], 50.0), None);
        assert_eq!(percentile(&buckets, 101.0), None);
        assert_eq!(percentile(&buckets, f64::NAN), None);
    }

    #[test]
    fn percentiles_of_several_are_not_averaged() {
        // A thousand fast I/Os and ten slow ones: the average of the two p99 would be 50,500.
        let fast = Latency { histogram: vec![Bucket { bound: 1_000, count: 1_000 }], ..Latency::default() };
        let slow = Latency { histogram: vec![Bucket { bound: 100_000, count: 10 }], ..Latency::default() };
        assert_eq!(percentile_of_all(&[&fast, &slow], "p99"), Some(1_000.0));
        assert_eq!(percentile_of_all(&[&fast, &slow], "p99.9"), Some(100_000.0));
    }

    #[test]
    fn without_histograms_several_have_no_percentile() {
        let mut one = Latency::default();
        one.percentiles.insert("p99".to_owned(), 7.5);
        assert_eq!(percentile_of_all(&[&one], "p99"), Some(7.5));
        assert_eq!(percentile_of_all(&[&one, &one], "p99"), None);
        assert_eq!(percentile_of_all(&[], "p99"), None);
    }
}
