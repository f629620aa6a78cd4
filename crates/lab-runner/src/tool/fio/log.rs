//! fio's logs: `time, value, direction, block size, …`, a line for each second, direction and job.
//!
//! Each job writes files of its own; seconds of the whole load are sums over them (rates) or means weighed by I/Os
//! (latencies). Times are milliseconds since 1970; an entry stands at the end of its second.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::super::raw;
use super::{LOG_MILLIS, LOGS};
use lab_model::result::Interval;
use lab_model::statistics::number::real;

const KIB: f64 = 1024.0;

/// A second, a job and a direction.
type Place = (u64, String, u8);

/// A line.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Entry {
    millis: u64,
    value: f64,
    direction: u8,
}

/// The seconds of the window, and when the window began (milliseconds since 1970) by the first entry of all.
pub(super) fn intervals(folder: &Path) -> Result<(Vec<Interval>, Option<u64>)> {
    let [iops, bandwidth, latency] = ["iops", "bw", "lat"].map(|kind| entries(folder, kind));
    let (iops, bandwidth, latency) = (iops?, bandwidth?, latency?);
    let first = latency.iter().chain(&iops).map(|(_, entry)| entry.millis).min();
    let Some(start) = first.map(|first| first.saturating_sub(LOG_MILLIS)) else {
        return Ok((Vec::new(), None));
    };
    let bandwidth = by_place(bandwidth, start);
    let latency = by_place(latency, start);
    let mut seconds: BTreeMap<u64, Sum> = BTreeMap::new();
    for (place, iops) in by_place(iops, start) {
        let bandwidth = bandwidth.get(&place).copied().unwrap_or_default();
        seconds.entry(place.0).or_default().add(iops, bandwidth * KIB, latency.get(&place).copied());
    }
    Ok((seconds.into_iter().map(|(second, sum)| sum.interval(second)).collect(), Some(start)))
}

/// A second over all jobs and directions.
#[derive(Debug, Default)]
struct Sum {
    iops: f64,
    bytes_per_second: f64,
    /// Latency times I/Os, and those I/Os.
    weighed: (f64, f64),
}

impl Sum {
    fn add(&mut self, iops: f64, bytes_per_second: f64, latency: Option<f64>) {
        self.iops += iops;
        self.bytes_per_second += bytes_per_second;
        if let Some(latency) = latency {
            self.weighed.0 += latency * iops;
            self.weighed.1 += iops;
        }
    }

    fn interval(self, second: u64) -> Interval {
        let (product, ios) = self.weighed;
        Interval {
            at: real(second),
            iops: self.iops,
            bytes_per_second: self.bytes_per_second,
            latency: (ios > 0.0).then(|| product / ios),
            ..Interval::default()
        }
    }
}

/// By the second that an entry ends, to the nearest: jobs wake a few milliseconds apart.
fn by_place(entries: Vec<(String, Entry)>, start: u64) -> BTreeMap<Place, f64> {
    let second = |millis: u64| (millis.saturating_sub(start) + LOG_MILLIS / 2) / LOG_MILLIS;
    entries
        .into_iter()
        .map(|(job, entry)| ((second(entry.millis), job, entry.direction), entry.value))
        .collect()
}

/// Every job's entries of one kind of log, with the job's number.
fn entries(folder: &Path, kind: &str) -> Result<Vec<(String, Entry)>> {
    let mut all = Vec::new();
    for (job, path) in files(folder, LOGS, kind)? {
        let text = raw::text(&path)?;
        // A job that is killed leaves half a line.
        let whole = text.rfind('\n').and_then(|end| text.get(..end)).unwrap_or_default();
        for (index, line) in whole.lines().enumerate() {
            let entry = entry(line).with_context(|| {
                format!("{}: line {} is no entry of a fio log: {line:?}", path.display(), index + 1)
            })?;
            all.push((job.clone(), entry));
        }
    }
    Ok(all)
}

/// `load_iops.3.log` is job 3's.
pub(super) fn files(folder: &Path, logs: &str, kind: &str) -> Result<BTreeMap<String, PathBuf>> {
    let begin = format!("{logs}_{kind}.");
    let mut found = BTreeMap::new();
    let listing = fs::read_dir(folder).with_context(|| format!("{}: cannot be listed", folder.display()))?;
    for file in listing {
        let path = file.with_context(|| format!("{}: cannot be listed", folder.display()))?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let job = name.strip_prefix(&begin).and_then(|rest| rest.strip_suffix(".log"));
        if let Some(job) = job {
            found.insert(job.to_owned(), path);
        }
    }
    Ok(found)
}

fn entry(line: &str) -> Option<Entry> {
    let mut fields = line.split(',').map(str::trim);
    let millis = fields.next()?.parse().ok()?;
    let value = fields.next()?.parse::<u64>().ok().map(as_f64)?;
    let direction = fields.next()?.parse().ok()?;
    Some(Entry { millis, value, direction })
}

/// Rates in KiB/s and latencies in nanoseconds stay far below 2^52.
#[expect(clippy::cast_precision_loss, reason = "rates and latencies of a second are far below 2^52")]
const fn as_f64(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn jobs_and_directions_are_merged_second_by_second() {
        let folder = folder(&[
            ("load_iops.1.log", "10999, 100, 0, 0, 0\n10999, 50, 1, 0, 0\n11999, 10, 0, 0, 0\n"),
            ("load_iops.2.log", "11022, 300, 0, 0, 0\n"),
            ("load_bw.1.log", "10999, 400, 0, 0, 0\n10999, 200, 1, 0, 0\n11999, 40, 0, 0, 0\n"),
            ("load_bw.2.log", "11022, 1200, 0, 0, 0\n"),
            (
                "load_lat.1.log",
                "11000, 1000, 0, 0, 0\n11000, 5000, 1, 0, 0\n12000, 7, 0, 0, 0\n12500, 9, 0, 0, 0\n",
            ),
            ("load_lat.2.log", "11022, 2000, 0, 0, 0\n"),
            ("log_iops.3.log", "10999, 77777, 1, 0, 0\n"),
        ]);
        let (seconds, start) = intervals(folder.path()).unwrap();
        assert_eq!(start, Some(9999));
        let first = Interval {
            at: 1.0,
            iops: 450.0,
            bytes_per_second: 1800.0 * 1024.0,
            latency: Some((100.0 * 1000.0 + 50.0 * 5000.0 + 300.0 * 2000.0) / 450.0),
            ..Interval::default()
        };
        let second = Interval {
            at: 2.0,
            iops: 10.0,
            bytes_per_second: 40960.0,
            latency: Some(7.0),
            ..Interval::default()
        };
        assert_eq!(seconds, [first, second]);
    }

    #[test]
    fn a_window_below_a_second_has_no_intervals() {
        let empty = folder(&[("load_iops.1.log", ""), ("load_lat.1.log", "")]);
        assert_eq!(intervals(empty.path()).unwrap(), (Vec::new(), None));
    }

    #[test]
    fn half_a_line_at_the_end_is_dropped_and_any_other_is_named() {
        let cut = folder(&[("load_iops.1.log", "1000, 5, 0, 0, 0\n2000, 1")]);
        assert_eq!(intervals(cut.path()).unwrap().0.len(), 1);
        let bad = folder(&[("load_bw.1.log", "1000, 5, 0, 0, 0\nfio: oops\n3000, 5, 0, 0, 0\n")]);
        let said = format!("{:#}", intervals(bad.path()).unwrap_err());
        assert!(said.contains("load_bw.1.log: line 2") && said.contains("oops"), "{said}");
    }
}
