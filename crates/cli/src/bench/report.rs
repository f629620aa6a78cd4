//! What `linerate bench` prints: figures as text, or JSON with everything that was counted.

use std::collections::BTreeMap;
use std::time::SystemTime;

use anyhow::Result;
use linerate::{LoadEnd, LoadInterval, LoadPlan, LoadResult, Tally, VolumeErrorKind};
use names::VolumeUrl;
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
    /// Rates are null where an error ended the load: the part before it is no measurement.
    iops: Option<f64>,
    mb_per_s: Option<f64>,
    latency_us: Latency,
    cpu_us_per_io: f64,
    errors: u64,
    /// How many were of which kind, by the names of [`kind`].
    errors_by_kind: BTreeMap<&'static str, u64>,
    first_error: Option<String>,
    /// What ended the load: `runtime`, `error` or `stopped`.
    end: &'static str,
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
    /// Where the requests went, by volume.
    spread: Vec<Spread>,
    /// Reads of --verify that returned what was written; null without it.
    verified: Option<u64>,
    /// The first of those that did not.
    wrong_data: Option<String>,
    /// Bytes that were copied on their way into a device's memory or out of it; null where no volume has such memory.
    copied: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Spread {
    /// Bytes of the volume that were used, from its beginning.
    bytes: u64,
    /// Requests that succeeded, in each of as many equal parts.
    ios: Vec<u64>,
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
    iops: Option<f64>,
    bytes_per_second: Option<f64>,
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
    pub(crate) fn new(result: &LoadResult, urls: &[VolumeUrl], plan: &LoadPlan) -> Self {
        let block = plan.block;
        let seconds = result.elapsed.as_secs_f64();
        let rated = result.end != LoadEnd::Error && seconds > 0.0;
        let per_second = |count: f64| rated.then(|| count / seconds);
        let latency = result.latency();
        let quantile = |share: f64| latency.value_at_quantile(share) as f64 / 1000.0;
        let completed = result.completed() as f64;
        let started = result.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            started: started.as_secs_f64(),
            iops: per_second(completed),
            mb_per_s: per_second(completed * block as f64 / 1e6),
            latency_us: Latency { p50: quantile(0.5), p99: quantile(0.99), p999: quantile(0.999) },
            cpu_us_per_io: result.cpu.as_secs_f64() * 1e6 / completed.max(1.0),
            errors: result.errors,
            errors_by_kind: result.errors_by_kind.iter().map(|(of, count)| (kind(*of), *count)).collect(),
            first_error: first_error(result, urls, block),
            end: match result.end {
                LoadEnd::Runtime => "runtime",
                LoadEnd::Error => "error",
                LoadEnd::Stopped => "stopped",
            },
            missed: result.missed,
            longest_turn_us: result.longest_turn.as_secs_f64() * 1e6,
            stalls: result.stalls,
            seconds,
            read: Direction::new(&result.read, block, &per_second),
            write: Direction::new(&result.write, block, &per_second),
            intervals: intervals(result, block),
            spread: result.spread.iter().map(Spread::new).collect(),
            verified: plan.verify.then_some(result.verified),
            wrong_data: wrong_data(result, urls),
            copied: result.copied,
        }
    }

    /// Prints it as text.
    pub(crate) fn print(&self) -> Result<()> {
        if let (Some(iops), Some(rate)) = (self.iops, self.mb_per_s) {
            output::line(&format!("{iops:.0} IOPS, {rate:.1} MB/s"))?;
        }
        let latency = &self.latency_us;
        output::line(&format!(
            "latency in µs: p50 {:.1}, p99 {:.1}, p99.9 {:.1}",
            latency.p50, latency.p99, latency.p999
        ))?;
        output::line(&format!("{:.2} µs of CPU per I/O, {} errors", self.cpu_us_per_io, self.errors))?;
        if let Some(copied) = self.copied.filter(|copied| *copied > 0) {
            output::line(&format!(
                "{copied} bytes were copied, as the device does not have the memory that they were in"
            ))?;
        }
        if self.missed > 0 {
            output::line(&format!(
                "{} requests were due but never started: the rate is too high",
                self.missed
            ))?;
        }
        Ok(())
    }

    /// Where data came back other than it was written.
    pub(crate) fn describe_wrong_data(&self) -> Option<String> {
        self.wrong_data.as_ref().map(|wrong| format!("data was lost under load: {wrong}"))
    }

    /// How many requests failed, of which kinds, and how the first did.
    pub(crate) fn describe_failures(&self) -> Option<String> {
        let first = self.first_error.as_ref()?;
        let kinds: Vec<String> =
            self.errors_by_kind.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let end = if self.end == "error" {
            format!(
                "; it ended the load after {:.3} s: --continue-on-error counts failures and goes on",
                self.seconds
            )
        } else {
            String::new()
        };
        let requests = if self.errors == 1 { "request" } else { "requests" };
        Some(format!("{} {requests} failed ({}); the first: {first}{end}", self.errors, kinds.join(", ")))
    }
}

/// The first read that differed, in words.
fn wrong_data(result: &LoadResult, urls: &[VolumeUrl]) -> Option<String> {
    let wrong = result.wrong?;
    let url = urls.get(wrong.volume).map(ToString::to_string).unwrap_or_default();
    let (at, reads, right) = (wrong.at, wrong.reads, result.verified);
    Some(format!(
        "{url}: byte {at} is not what was written a tenth of a second before; {reads} reads differed and {right} did not"
    ))
}

impl Spread {
    fn new(spread: &linerate::Spread) -> Self {
        Self { bytes: spread.bytes, ios: spread.ios.clone() }
    }
}

/// The first failure in words.
fn first_error(result: &LoadResult, urls: &[VolumeUrl], block: usize) -> Option<String> {
    let error = result.first_error.as_ref()?;
    let url = urls.get(error.volume).map(ToString::to_string).unwrap_or_default();
    let verb = if error.is_read { "read" } else { "write" };
    Some(format!("{url}: {verb} of {block} bytes at byte {}: {}{}", error.at, error.kind, error.last_error))
}

/// The name of a kind of failure; `docs/howto/data.md` lists them, and they stay.
fn kind(kind: VolumeErrorKind) -> &'static str {
    match kind {
        VolumeErrorKind::OutOfRange => "out-of-range",
        VolumeErrorKind::Media => "media",
        VolumeErrorKind::Protection => "protection",
        VolumeErrorKind::NoSpace => "no-space",
        VolumeErrorKind::ReadOnly => "read-only",
        VolumeErrorKind::Misaligned => "misaligned",
        VolumeErrorKind::Unsupported => "unsupported",
        VolumeErrorKind::Miscompare { .. } => "miscompare",
        VolumeErrorKind::Cancelled => "cancelled",
        VolumeErrorKind::TimedOut => "timed-out",
        VolumeErrorKind::Unreachable => "unreachable",
        VolumeErrorKind::Busy => "busy",
        VolumeErrorKind::ReservationConflict => "reservation-conflict",
        VolumeErrorKind::ShuttingDown => "shutting-down",
        _ => "other",
    }
}

/// About a second each.
#[expect(clippy::cast_precision_loss, reason = "counts of one run are far below 2^52")]
fn intervals(result: &LoadResult, block: usize) -> Vec<Interval> {
    let mut begin = 0.0;
    let interval = |interval: &LoadInterval| {
        let end = interval.end.as_secs_f64();
        let iops = if end > begin { interval.completed as f64 / (end - begin) } else { 0.0 };
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
    fn new(tally: &Tally, block: usize, per_second: &dyn Fn(f64) -> Option<f64>) -> Option<Self> {
        let latency = &tally.latency;
        let histogram = latency
            .iter_recorded()
            .map(|bucket| (bucket.value_iterated_to(), bucket.count_since_last_iteration()));
        (tally.completed > 0).then(|| Self {
            ios: tally.completed,
            bytes: tally.completed * block as u64,
            iops: per_second(tally.completed as f64),
            bytes_per_second: per_second(tally.completed as f64 * block as f64),
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
