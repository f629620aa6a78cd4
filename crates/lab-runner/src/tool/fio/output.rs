//! fio's JSON, as far as the lab reads it (fio 3.33, `--output-format=json+`).

use std::collections::BTreeMap;

use serde::Deserialize;

/// The whole report.
#[derive(Debug, Deserialize)]
pub(super) struct Output {
    #[serde(rename = "fio version")]
    pub(super) version: String,
    /// When the report was written, milliseconds since 1970.
    pub(super) timestamp_ms: u64,
    /// One entry for each group.
    pub(super) jobs: Vec<Job>,
}

/// A group of jobs.
#[derive(Debug, Deserialize)]
pub(super) struct Job {
    pub(super) jobname: String,
    /// The `errno` that ended it, or 0.
    pub(super) error: i64,
    pub(super) read: Side,
    pub(super) write: Side,
    pub(super) sync: Sync,
    /// I/Os that failed; told when fio goes on after errors.
    #[serde(default)]
    pub(super) total_err: u64,
}

/// A direction.
#[derive(Debug, Deserialize)]
pub(super) struct Side {
    pub(super) io_bytes: u64,
    pub(super) bw_bytes: f64,
    pub(super) iops: f64,
    /// Milliseconds.
    pub(super) runtime: u64,
    pub(super) total_ios: u64,
    pub(super) lat_ns: Distribution,
}

/// Flushes.
#[derive(Debug, Deserialize)]
pub(super) struct Sync {
    pub(super) total_ios: u64,
    pub(super) lat_ns: Distribution,
}

/// Latencies in nanoseconds.
#[derive(Debug, Deserialize)]
pub(super) struct Distribution {
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) mean: f64,
    pub(super) stddev: f64,
    /// By share, such as `99.900000`.
    #[serde(default)]
    pub(super) percentile: BTreeMap<String, f64>,
    /// How many fell into the bucket around a value.
    #[serde(default)]
    pub(super) bins: BTreeMap<u64, u64>,
}
