//! What `linerate bench` prints: figures for people, or JSON with everything that was counted.

use std::collections::BTreeMap;
use std::time::SystemTime;

use anyhow::Result;
use linerate::{LoadInterval, LoadResult, Tally};
use serde::Serialize;

use crate::output;

/// Percentiles of each direction, by the names that the lab gives them.
const PERCENTILES: &[(&str, f64)] =
    &[("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

/// The result as JSON. Latencies are in microseconds, but for the histograms, whose bounds are nanoseconds.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    version: &'static str,
    /// When counting began, seconds since 1970.
    started: f64,
    iops: f64,
    mb_per_s: f64,
    latency_us: Latency,
    cpu_us_per_io: f64,
    errors: u64,
    missed: u64,
    /// The most processor time that a turn of the event loop took, and turns of more than a millisecond.
    longest_turn_us: f64,
    stalls: u64,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    read: Option<Direction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write: Option<Direction>,
    intervals: Vec<Interval>,
}

#[derive(Debug, Serialize)]
struct Latency {
    p50: f64,
    p99: f64,
    p999: f64,
}

#[derive(Debug, Serialize)]
struct Direction {
    ios: u64,
    bytes: u64,
    iops: f64,
    bytes_per_second: f64,
    latency_ns: Distribution,
}

#[derive(Debug, Serialize)]
struct Distribution {
    min: u64,
    mean: f64,
    deviation: f64,
    max: u64,
    /// By name, such as `p99.9`.
    percentiles: BTreeMap<&'static str, u64>,
    /// Upper bound of a bucket, and how many fell into it.
    histogram: Vec<(u64, u64)>,
}

#[derive(Debug, Serialize)]
struct Interval {
    end: f64,
    ios: u64,
    iops: f64,
    bytes_per_second: f64,
    latency_us: f64,
}

impl Report {
    /// What came of a load with requests of `block` bytes.
    #[expect(clippy::cast_precision_loss, reason = "counts of one run are far below 2^52")]
    pub(crate) fn new(result: &LoadResult, block: usize) -> Self {
        let seconds = result.elapsed.as_secs_f64();
        let latency = result.latency();
        let quantile = |share: f64| latency.value_at_quantile(share) as f64 / 1000.0;
        let completed = result.completed() as f64;
        let started = result.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            started: started.as_secs_f64(),
            iops: completed / seconds,
            mb_per_s: completed * block as f64 / seconds / 1e6,
            latency_us: Latency { p50: quantile(0.5), p99: quantile(0.99), p999: quantile(0.999) },
            cpu_us_per_io: result.cpu.as_secs_f64() * 1e6 / completed,
            errors: result.errors,
            missed: result.missed,
            longest_turn_us: result.longest_turn.as_secs_f64() * 1e6,
            stalls: result.stalls,
            seconds,
            read: Direction::new(&result.read, block, seconds),
            write: Direction::new(&result.write, block, seconds),
            intervals: intervals(result, block),
        }
    }

    /// Prints it for people.
    pub(crate) fn print(&self) -> Result<()> {
        output::line(&format!("{:.0} IOPS, {:.1} MB/s", self.iops, self.mb_per_s))?;
        let latency = &self.latency_us;
        output::line(&format!(
            "latency in µs: p50 {:.1}, p99 {:.1}, p99.9 {:.1}",
            latency.p50, latency.p99, latency.p999
        ))?;
        output::line(&format!("{:.2} µs of CPU per I/O, {} errors", self.cpu_us_per_io, self.errors))?;
        if self.missed > 0 {
            output::line(&format!(
                "{} requests were due but never started: the rate is too high",
                self.missed
            ))?;
        }
        Ok(())
    }
}

/// About a second each.
#[expect(clippy::cast_precision_loss, reason = "counts of one run are far below 2^52")]
fn intervals(result: &LoadResult, block: usize) -> Vec<Interval> {
    let mut begin = 0.0;
    let interval = |interval: &LoadInterval| {
        let end = interval.end.as_secs_f64();
        let iops = interval.completed as f64 / (end - begin);
        begin = end;
        Interval {
            end,
            ios: interval.completed,
            iops,
            bytes_per_second: iops * block as f64,
            latency_us: interval.latency.as_secs_f64() * 1e6,
        }
    };
    result.intervals.iter().map(interval).collect()
}

impl Direction {
    #[expect(clippy::cast_precision_loss, reason = "counts of one run are far below 2^52")]
    fn new(tally: &Tally, block: usize, seconds: f64) -> Option<Self> {
        let latency = &tally.latency;
        let histogram = latency
            .iter_recorded()
            .map(|bucket| (bucket.value_iterated_to(), bucket.count_since_last_iteration()));
        (tally.completed > 0).then(|| Self {
            ios: tally.completed,
            bytes: tally.completed * block as u64,
            iops: tally.completed as f64 / seconds,
            bytes_per_second: tally.completed as f64 * block as f64 / seconds,
            latency_ns: Distribution {
                min: latency.min(),
                mean: latency.mean(),
                deviation: latency.stdev(),
                max: latency.max(),
                percentiles: PERCENTILES
                    .iter()
                    .map(|(name, share)| (*name, latency.value_at_quantile(*share)))
                    .collect(),
                histogram: histogram.collect(),
            },
        })
    }
}
