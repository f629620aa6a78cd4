//! What fio measured. Every figure is fio's own.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::super::assignment::{Assignment, Measured, tool};
use super::super::doubt;
use super::super::raw;
use super::super::settings::Settings;
use super::output::{Distribution, Job, Output, Side};
use super::{LOG_MILLIS, LOG_SECTION, OFFSETS_SECTION, OUTPUT, VERIFIED_SECTION, command, log, sample};
use lab_model::result::{Bucket, Direction, Interval, Latency, Load};

/// Groups that are not the load's own.
const BESIDE: [&str; 3] = [LOG_SECTION, VERIFIED_SECTION, OFFSETS_SECTION];

/// Reads the report and the logs.
pub(in crate::tool) fn read(assignment: &Assignment<'_>) -> Result<Measured> {
    let path = assignment.folder.join(OUTPUT);
    let output: Output = raw::json(&path)?;
    let Some(main) = output.jobs.iter().find(|job| !BESIDE.contains(&job.jobname.as_str())) else {
        bail!("{}: holds no job: fio refused its options, see fio.stderr beside it", path.display());
    };
    let second = output.jobs.iter().find(|job| job.jobname == LOG_SECTION);
    let shown = sample::read(assignment, &output)?;
    // Wrong data is told as such, and not as I/O that failed.
    let failed = output.jobs.iter().filter(|job| job.jobname != VERIFIED_SECTION || shown.flags.is_empty());
    let errors = failed.clone().map(Job::errors).sum();
    let code = failed.map(|job| job.error).find(|code| *code != 0);
    let load = Load {
        read: direction(&main.read),
        write: direction(&main.write),
        sync: (main.sync.total_ios > 0).then(|| latency(&main.sync.lat_ns)),
        log: second.and_then(|job| direction(&job.write)),
        errors,
        ..Load::default()
    };
    let millis = main.read.runtime.max(main.write.runtime);
    let (intervals, start) = log::intervals(assignment.folder)?;
    let intervals = whole_seconds(intervals, millis);
    // A window shorter than an entry of the logs has but one, which does not stand for a whole second.
    let start = start.filter(|_| millis >= LOG_MILLIS);
    let mut flags = doubt::flags(&load, assignment.initiator);
    flags.extend(doubt::errors(
        errors,
        &code.map_or_else(String::new, |code| format!("error {code} of the system")),
    ));
    flags.extend(shown.flags);
    let over = shown.over.unwrap_or(output.timestamp_ms);
    Ok(Measured {
        tool: tool("fio", output.version.trim_start_matches("fio-"), &command(assignment)?),
        load,
        extra: extra(assignment, &intervals).into_iter().chain(shown.extra).collect(),
        intervals,
        seconds: seconds(millis),
        window_start: Some(seconds(start.unwrap_or(over.saturating_sub(millis)))),
        flags,
    })
}

/// fio closes its last entry a little after the end; an entry wholly past it would be a second that was not measured.
fn whole_seconds(intervals: Vec<Interval>, millis: u64) -> Vec<Interval> {
    let end = seconds(millis) + 0.5;
    intervals.into_iter().filter(|interval| interval.at <= end).collect()
}

impl Job {
    /// At least one when the job ended by an error.
    fn errors(&self) -> u64 {
        self.total_err.max(u64::from(self.error != 0))
    }
}

fn direction(side: &Side) -> Option<Direction> {
    (side.total_ios > 0).then(|| Direction {
        ios: side.total_ios,
        bytes: side.io_bytes,
        iops: side.iops,
        bytes_per_second: side.bw_bytes,
        latency: Some(latency(&side.lat_ns)),
    })
}

fn latency(from: &Distribution) -> Latency {
    let percentiles = from.percentile.iter().map(|(share, value)| (percentile_name(share), *value));
    Latency {
        min: from.min,
        mean: from.mean,
        deviation: from.stddev,
        max: from.max,
        percentiles: percentiles.collect(),
        histogram: from.bins.iter().map(|(bound, count)| Bucket { bound: *bound, count: *count }).collect(),
    }
}

/// `99.900000` is p99.9.
fn percentile_name(share: &str) -> String {
    let short = if share.contains('.') { share.trim_end_matches('0').trim_end_matches('.') } else { share };
    format!("p{short}")
}

/// What the load was asked to keep, where it was asked, and how far it fell behind at the end of any second.
fn extra(assignment: &Assignment<'_>, intervals: &[Interval]) -> BTreeMap<String, f64> {
    let rate = Settings(assignment.settings).get("rate_iops").and_then(|rate| rate.parse::<f64>().ok());
    let Some(rate) = rate else { return BTreeMap::new() };
    [("rate_iops", rate), ("late_ios", late(rate, intervals))]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
}

/// The most I/Os that were due at the end of a second and had not ended.
fn late(rate: f64, intervals: &[Interval]) -> f64 {
    let (mut done, mut before, mut most) = (0.0, 0.0, 0.0_f64);
    for interval in intervals {
        done += interval.iops * (interval.at - before);
        before = interval.at;
        most = most.max(rate * interval.at - done);
    }
    most.round()
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 are below 2^52")]
fn seconds(millis: u64) -> f64 {
    millis as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_behind_a_stall_is_counted_though_it_ends_in_time() {
        let second = |at, iops| Interval { at, iops, ..Interval::default() };
        // 1,000 a second, of which fio makes none in the second one and all of them in the third.
        let stalled = [second(1.0, 1000.0), second(2.0, 100.0), second(3.0, 1900.0), second(4.0, 1000.0)];
        assert_eq!(late(1000.0, &stalled).to_bits(), 900_f64.to_bits());
        assert_eq!(late(1000.0, &[second(1.0, 1000.0), second(2.0, 1001.0)]).to_bits(), 0_f64.to_bits());
    }
}
