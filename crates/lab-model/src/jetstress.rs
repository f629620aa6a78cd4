//! The parts of a Jetstress-like result, and whether an I/O profile has an Exchange server's mix.
//!
//! Jetstress runs Exchange's database engine. What this lab runs in its place is a fio profile with the same mix, and
//! Microsoft's ranges say what that mix is: database reads to writes between 3:2 and 2:1, database I/Os to log I/Os between
//! 8:1 and 12:1. Both ratios are computed from what was measured, never from what was asked for, and a profile
//! outside them fails. A result tells its parts in `extra`, under the names below.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use anyhow::{Result, bail};

use crate::result::{Direction, Load, PointResult};

/// Database reads per second.
pub const DATABASE_READS: &str = "database_reads_per_second";
/// Database writes per second.
pub const DATABASE_WRITES: &str = "database_writes_per_second";
/// Log writes per second: during a run without recovery or replication, all of the log's I/O.
pub const LOG_WRITES: &str = "log_writes_per_second";
/// Mean bytes of a log write.
pub const LOG_WRITE_BYTES: &str = "log_write_bytes";
/// Mean latency of database reads, ns.
pub const DATABASE_READ_LATENCY: &str = "database_read_latency";
/// Mean latency of log writes, ns.
pub const LOG_WRITE_LATENCY: &str = "log_write_latency";
/// Transactional (database) I/Os per second that were achieved.
pub const ACHIEVED: &str = "transactional_io_per_second";
/// Transactional I/Os per second that were asked for.
pub const TARGET: &str = "transactional_io_per_second_target";
/// Bytes of the databases at the beginning.
pub const INITIAL_SIZE: &str = "database_bytes_initial";
/// Bytes of the databases at the end.
pub const FINAL_SIZE: &str = "database_bytes_final";
/// Threads.
pub const THREADS: &str = "threads";
/// 1 when Jetstress itself said Pass, 0 when it said Fail.
pub const PASSED: &str = "passed";

/// Microsoft's range of database reads to database writes: 3:2 to 2:1.
pub const READS_TO_WRITES: RangeInclusive<f64> = 1.5..=2.0;
/// Microsoft's range of database I/Os to log I/Os: 8:1 to 12:1.
pub const DATABASE_TO_LOG: RangeInclusive<f64> = 8.0..=12.0;

/// The parts of a load with a log section, by the names of `extra`; nothing for a load without one.
pub fn parts(load: &Load) -> BTreeMap<String, f64> {
    let Some(log) = &load.log else { return BTreeMap::new() };
    let rate = |direction: Option<&Direction>| direction.map(|direction| direction.iops);
    let mean = |direction: Option<&Direction>| Some(direction?.latency.as_ref()?.mean);
    let parts = [
        (DATABASE_READS, rate(load.read.as_ref())),
        (DATABASE_WRITES, rate(load.write.as_ref())),
        (LOG_WRITES, rate(Some(log))),
        (LOG_WRITE_BYTES, (log.iops > 0.0).then(|| log.bytes_per_second / log.iops)),
        (DATABASE_READ_LATENCY, mean(load.read.as_ref())),
        (LOG_WRITE_LATENCY, mean(Some(log))),
    ];
    parts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// The mix of a measured profile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mix {
    /// Database reads per database write.
    pub reads_to_writes: f64,
    /// Database I/Os per log I/O.
    pub database_to_log: f64,
}

impl Mix {
    /// The mix that a result shows; `None` when its tool did not tell database and log apart or one of them stood still.
    pub fn of(result: &PointResult) -> Option<Self> {
        let rate = |name: &str| result.extra.get(name).copied().filter(|rate| rate.is_finite());
        let (reads, writes, log) = (rate(DATABASE_READS)?, rate(DATABASE_WRITES)?, rate(LOG_WRITES)?);
        (writes > 0.0 && log > 0.0)
            .then(|| Self { reads_to_writes: reads / writes, database_to_log: (reads + writes) / log })
    }

    /// Fails outside Microsoft's ranges, naming the ratio that lies there.
    pub fn check(&self) -> Result<()> {
        let checks = [
            ("database reads to writes", self.reads_to_writes, READS_TO_WRITES, "3:2 to 2:1 (set rwmixread)"),
            (
                "database to log I/O",
                self.database_to_log,
                DATABASE_TO_LOG,
                "8:1 to 12:1 (set the log's rate)",
            ),
        ];
        let outside: Vec<String> = checks
            .into_iter()
            .filter(|(_, value, range, _)| !range.contains(value))
            .map(|(what, value, _, range)| format!("{what} is {value:.2}:1, outside {range}"))
            .collect();
        if !outside.is_empty() {
            bail!("not an Exchange server's mix: {}", outside.join("; "));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::synthetic::result;

    fn profile(reads: f64, writes: f64, log: f64) -> PointResult {
        let mut result = result("A", 1, reads + writes + log);
        for (name, rate) in [(DATABASE_READS, reads), (DATABASE_WRITES, writes), (LOG_WRITES, log)] {
            result.extra.insert(name.to_owned(), rate);
        }
        result
    }

    #[test]
    fn ratios_are_computed_and_their_ends_belong_to_the_range() {
        for (reads, writes, log) in [(600.0, 400.0, 100.0), (600.0, 400.0, 125.0), (800.0, 400.0, 100.0)] {
            let profile = profile(reads, writes, log);
            let mix = Mix::of(&profile).unwrap();
            assert!((mix.reads_to_writes - reads / writes).abs() < 1e-12);
            assert!((mix.database_to_log - (reads + writes) / log).abs() < 1e-12);
            mix.check().unwrap();
        }
    }

    #[test]
    fn a_profile_outside_the_ranges_fails_and_says_which() {
        for (reads, writes, log, names) in [
            (590.0, 410.0, 100.0, "database reads to writes is 1.44:1"),
            (700.0, 300.0, 100.0, "database reads to writes is 2.33:1"),
            (600.0, 400.0, 50.0, "database to log I/O is 20.00:1"),
            (600.0, 400.0, 200.0, "database to log I/O is 5.00:1"),
        ] {
            let profile = profile(reads, writes, log);
            let error = Mix::of(&profile).unwrap().check().unwrap_err().to_string();
            assert!(error.contains(names), "{error}");
        }
    }

    #[test]
    fn a_result_that_tells_no_parts_has_no_mix() {
        assert_eq!(Mix::of(&profile(600.0, 400.0, 0.0)), None);
        assert_eq!(Mix::of(&result("A", 1, 1000.0)), None);
    }
}
