//! pgbench: transactions on PostgreSQL.
//!
//! Rate, count and mean latency are pgbench's own. It prints no percentiles: they and the histogram are counted from its
//! log, which holds every transaction's microseconds. The log is in the window only, since a run of its own before takes
//! the place of a warm-up. pgbench is a client and may run as anybody; `PGUSER` is `postgres` unless the URL names a user.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::assignment::{Assignment, Measured, command_line, tool, whole_seconds};
use super::settings::Settings;
use super::{doubt, raw, shell};
use crate::machine::process::CommandLine;
use lab_model::result::{Bucket, Interval, Latency, Load};
use lab_model::statistics::number::real;

const OUTPUT: &str = "pgbench.txt";
const LOGS: &str = "transactions";
/// Percentiles that fio is asked for too, and their shares.
const PERCENTILES: &[(&str, f64)] =
    &[("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

/// How it is started.
pub(super) fn command(assignment: &Assignment<'_>) -> Result<CommandLine> {
    let settings = Settings(assignment.settings);
    let clients = settings.count("client", 1)?;
    let mut common = vec!["pgbench".to_owned()];
    let mut add = |name: &str, value: String| common.extend([name.to_owned(), value]);
    add("-c", clients.to_string());
    add("-j", settings.count("jobs", 1)?.min(clients).to_string());
    add("-M", settings.word("protocol", &["simple", "extended", "prepared"])?.to_owned());
    add("-b", settings.word("builtin", &["tpcb-like", "simple-update", "select-only"])?.to_owned());
    let url = url(assignment)?;
    let run = |seconds: f64, more: &[&str]| {
        let mut words = common.clone();
        words.extend(["-T".to_owned(), whole_seconds(seconds).to_string()]);
        words.extend(more.iter().map(|word| (*word).to_owned()));
        words.push(url.clone());
        shell::join(&words)
    };
    let before = if assignment.ramp > 0.0 {
        format!("{} >/dev/null || exit\n", run(assignment.ramp, &[]))
    } else {
        String::new()
    };
    let log = format!("--log-prefix={LOGS}");
    let measured = run(assignment.runtime, &["-n", "-P", "1", "--progress-timestamp", "-l", &log]);
    let script = format!("{before}{}exec {measured}\n", shell::note_window());
    let mut command = command_line(assignment, shell::argv(&script), OUTPUT);
    command.environment.extend(environment(settings)?);
    Ok(command)
}

/// `pgbench -i`: tables of the setting `scale`.
pub(super) fn prepare(assignment: &Assignment<'_>) -> Result<Vec<CommandLine>> {
    let settings = Settings(assignment.settings);
    let scale = settings.count("scale", 1)?.to_string();
    let argv = ["pgbench", "-i", "-q", "-s", &scale, &url(assignment)?].map(str::to_owned).to_vec();
    let mut command = command_line(assignment, argv, "pgbench-prepare.txt");
    command.environment.extend(environment(settings)?);
    Ok(vec![command])
}

fn url(assignment: &Assignment<'_>) -> Result<String> {
    match assignment.endpoints {
        [endpoint] if endpoint.url.starts_with("postgres") => Ok(endpoint.url.clone()),
        other => bail!(
            "pgbench needs exactly one database (postgresql://…), the arm gave {:?}",
            other.iter().map(|endpoint| endpoint.url.as_str()).collect::<Vec<_>>()
        ),
    }
}

fn environment(settings: Settings<'_>) -> Result<BTreeMap<String, String>> {
    let mut all = BTreeMap::from([("PGUSER".to_owned(), "postgres".to_owned())]);
    if settings.get("synchronous_commit").is_some() {
        let word = settings.word("synchronous_commit", &["on", "off", "local"])?;
        all.insert("PGOPTIONS".to_owned(), format!("-c synchronous_commit={word}"));
    }
    Ok(all)
}

/// What it printed at its end.
#[derive(Debug, Default, PartialEq)]
struct Summary {
    version: String,
    seconds: f64,
    transactions: f64,
    failed: f64,
    per_second: f64,
    /// Milliseconds.
    mean: f64,
    deviation: f64,
    /// Milliseconds.
    connecting: f64,
}

/// What it measured.
pub(super) fn read(assignment: &Assignment<'_>) -> Result<Measured> {
    let command = command(assignment)?;
    let summary =
        summary(&raw::text(&command.stdout)?).with_context(|| command.stdout.display().to_string())?;
    let (intervals, start) = progress(&raw::text(&command.stderr)?);
    let failed = count(summary.failed);
    let mut latency = latency(&logged(assignment.folder)?);
    if let Some(latency) = &mut latency {
        (latency.mean, latency.deviation) = (summary.mean * 1e6, summary.deviation * 1e6);
    }
    let load = Load { transactions: latency, errors: failed, ..Load::default() };
    let extra = [
        ("transactions_per_second", summary.per_second),
        ("transactions", summary.transactions),
        ("connecting_ms", summary.connecting),
    ];
    Ok(Measured {
        tool: tool("pgbench", &summary.version, &command),
        load,
        intervals,
        extra: extra.map(|(name, value)| (name.to_owned(), value)).into(),
        seconds: summary.seconds,
        window_start: Some(match start {
            Some(start) => start,
            None => shell::window_start(assignment.folder)?,
        }),
        flags: doubt::errors(failed, "transactions of pgbench").into_iter().collect(),
    })
}

/// It prints counts as whole numbers.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "read from digits, so not negative; `as` saturates"
)]
fn count(number: f64) -> u64 {
    number as u64
}

fn summary(text: &str) -> Result<Summary> {
    let find = |label: &str| {
        let found = text
            .lines()
            .find_map(|line| line.starts_with(label).then(|| raw::number_after(line, label)).flatten());
        found.with_context(|| {
            format!("holds no \"{label}\": pgbench ended early, see its standard error beside it")
        })
    };
    let version = text.lines().next().and_then(super::assignment::version_in).unwrap_or_default();
    Ok(Summary {
        version,
        seconds: find("duration:")?,
        transactions: find("number of transactions actually processed:")?,
        failed: find("number of failed transactions:")?,
        per_second: find("tps =")?,
        mean: find("latency average =")?,
        // It leaves this out when a single transaction was made.
        deviation: find("latency stddev =").unwrap_or_default(),
        connecting: find("initial connection time =")?,
    })
}

/// Lines such as `progress: 1795247693.975 s, 2902.7 tps, lat 0.685 ms stddev 0.497, 0 failed`, and when the first second
/// began.
fn progress(text: &str) -> (Vec<Interval>, Option<f64>) {
    let second = |line: &str| {
        let moment = raw::number_after(line, "progress:")?;
        let rest = line.split_once(" s, ")?.1;
        let transactions = rest.split_once(" tps")?.0.parse::<f64>().ok()?;
        Some((moment, transactions, raw::number_after(rest, "lat")))
    };
    let seconds: Vec<(f64, f64, Option<f64>)> = text.lines().filter_map(second).collect();
    let start = seconds.first().map(|(moment, ..)| moment - 1.0);
    let interval = |(moment, transactions, millis): &(f64, f64, Option<f64>)| Interval {
        at: moment - start.unwrap_or(*moment),
        latency: millis.map(|millis| millis * 1e6),
        transactions: Some(*transactions),
        ..Interval::default()
    };
    (seconds.iter().map(interval).collect(), start)
}

/// How many transactions took how many microseconds, from the logs of all threads. Lines are
/// `client transaction microseconds script seconds microseconds`; one that failed has a word in place of its time.
fn logged(folder: &Path) -> Result<BTreeMap<u64, u64>> {
    let begin = format!("{LOGS}.");
    let mut counts = BTreeMap::new();
    let listing = fs::read_dir(folder).with_context(|| format!("{}: cannot be listed", folder.display()))?;
    for file in listing {
        let path = file.with_context(|| format!("{}: cannot be listed", folder.display()))?.path();
        if !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&begin)) {
            continue;
        }
        for (index, line) in raw::text(&path)?.lines().enumerate() {
            let mut fields = line.split(' ').skip(2);
            let field = fields.next().filter(|_| fields.count() >= 3);
            match field.map(str::parse::<u64>) {
                Some(Ok(micros)) => *counts.entry(micros).or_default() += 1,
                Some(Err(_)) if field == Some("failed") || field == Some("skipped") => {}
                _ => bail!("{}: line {} is no entry of pgbench's log: {line:?}", path.display(), index + 1),
            }
        }
    }
    Ok(counts)
}

/// Nearest rank over every transaction. Mean and deviation are left to pgbench's own figures.
fn latency(counts: &BTreeMap<u64, u64>) -> Option<Latency> {
    let (least, most) = (*counts.keys().next()?, *counts.keys().next_back()?);
    let total: u64 = counts.values().sum();
    let percentile = |share: f64| {
        let rank = count((real(total) * share).ceil()).max(1);
        let mut seen = 0;
        let found = counts.iter().find(|(_, times)| {
            seen += **times;
            seen >= rank
        });
        nanos(found.map_or(most, |(micros, _)| *micros))
    };
    Some(Latency {
        min: nanos(least),
        max: nanos(most),
        percentiles: PERCENTILES
            .iter()
            .map(|(name, share)| ((*name).to_owned(), percentile(*share)))
            .collect(),
        histogram: counts
            .iter()
            .map(|(micros, times)| Bucket { bound: micros.saturating_mul(1000), count: *times })
            .collect(),
        ..Latency::default()
    })
}

fn nanos(micros: u64) -> f64 {
    real(micros) * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_summary_is_read() {
        let read = summary(include_str!("fixtures/pgbench.txt")).unwrap();
        let expected = Summary {
            version: "15.18".to_owned(),
            seconds: 3.0,
            transactions: 6823.0,
            failed: 0.0,
            per_second: 2_272.228_492,
            mean: 0.877,
            deviation: 1.552,
            connecting: 3.497,
        };
        assert_eq!(read, expected);
    }

    #[test]
    fn recorded_progress_becomes_seconds() {
        let (seconds, start) = progress(include_str!("fixtures/pgbench.stderr"));
        assert_eq!(start, Some(1_795_247_692.975));
        let transactions: Vec<_> = seconds.iter().map(|second| second.transactions).collect();
        assert_eq!(transactions, [Some(2902.7), Some(2396.9), Some(1521.0)]);
        assert_eq!(seconds[0].latency, Some(685_000.0));
        assert!((seconds[2].at - 3.0).abs() < 1e-3);
    }

    #[test]
    fn percentiles_are_of_every_transaction() {
        let read = latency(&BTreeMap::from([(100, 90), (200, 9), (9000, 1)])).unwrap();
        let given = [("p50", 1e5), ("p95", 2e5), ("p99", 2e5), ("p99.9", 9e6), ("p99.99", 9e6)];
        assert_eq!(read.percentiles, given.map(|(name, value)| (name.to_owned(), value)).into());
        assert_eq!((read.min, read.max), (1e5, 9e6));
        let buckets = [(100_000, 90), (200_000, 9), (9_000_000, 1)].map(Bucket::from);
        assert_eq!(read.histogram, buckets);
        assert_eq!(latency(&BTreeMap::new()), None);
    }
}
