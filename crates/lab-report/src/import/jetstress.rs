//! Jetstress's performance report (`Performance_….html`): the summary, the I/O of each database, and the host's counters.
//!
//! A transactional I/O is a database read or write; log writes come besides. The report's rates stand in `extra` under the
//! names that [`lab_model::jetstress`] computes Microsoft's ratios from. Latencies are means: Jetstress has no percentiles.

use anyhow::Result;
use jiff::civil::DateTime;

use super::blank::{MILLISECOND, Machine, at, blank, rates};
use super::html::{Row, rows};
use super::number::{amount, ratio};
use super::source::{Source, seconds_only};
use lab_model::jetstress as profile;
use lab_model::result::{Direction, Latency, PointResult};

const TOOL: &str = "Jetstress";

/// Rows of the summary that are numbers, and what they are called in `extra`.
const FIGURES: [(&str, &str); 5] = [
    ("Achieved Transactional I/O per Second", profile::ACHIEVED),
    ("Target Transactional I/O per Second", profile::TARGET),
    ("Initial Database Size (bytes)", profile::INITIAL_SIZE),
    ("Final Database Size (bytes)", profile::FINAL_SIZE),
    ("Thread Count", profile::THREADS),
];

/// The one result of a report.
pub(super) fn read(source: &Source) -> Result<Vec<PointResult>> {
    let rows = rows(&source.text);
    if !rows.iter().any(|row| row.cell(0) == "Overall Test Result") {
        return Err(source.error(
            1,
            "no row 'Overall Test Result': give Jetstress's Performance_….html, whole and in English",
        ));
    }
    let mut result = blank(source, TOOL);
    summary(source, &rows, &mut result)?;
    host(&rows, &mut result);
    databases(source, &rows, &mut result)?;
    Ok(vec![result])
}

fn value<'a>(rows: &'a [Row], label: &str) -> Option<(&'a Row, &'a str)> {
    let row = rows.iter().find(|row| row.cells.len() == 2 && row.cell(0) == label)?;
    Some((row, row.cell(1))).filter(|(_, value)| !value.is_empty())
}

fn summary(source: &Source, rows: &[Row], result: &mut PointResult) -> Result<()> {
    for (label, name) in FIGURES {
        if let Some((row, text)) = value(rows, label) {
            let figure = amount(text).ok_or_else(|| {
                source.error(row.line, format_args!("'{text}' is not a number for '{label}'"))
            })?;
            result.extra.insert(name.to_owned(), figure);
        }
    }
    if !result.extra.contains_key(profile::ACHIEVED) {
        return Err(source.ends_before("'Achieved Transactional I/O per Second'"));
    }
    if let Some((_, verdict)) = value(rows, "Overall Test Result") {
        let passed = f64::from(u8::from(verdict.eq_ignore_ascii_case("pass")));
        result.extra.insert(profile::PASSED.to_owned(), passed);
    }
    if let Some((_, version)) = value(rows, "Jetstress Version") {
        version.clone_into(&mut result.tool.version);
    }
    if let Some((_, machine)) = value(rows, "Machine Name") {
        result.point.push(at("machine", machine));
    }
    let time = |label: &str| value(rows, label).and_then(|(_, text)| time(text));
    let span = ["Collection", "Test"]
        .iter()
        .find_map(|what| Some((time(&format!("{what} Start Time"))?, time(&format!("{what} End Time"))?)));
    if let Some((start, end)) = span {
        result.started = seconds_only(start);
        result.seconds = end.duration_since(start).as_secs_f64().max(0.0);
    }
    Ok(())
}

/// `3/14/2016 9:05:07 AM`; the report does not say in which time zone, so it is taken as UTC.
fn time(text: &str) -> Option<jiff::Timestamp> {
    let formats = ["%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y %H:%M:%S", "%d.%m.%Y %H:%M:%S", "%Y-%m-%d %H:%M:%S"];
    let at = formats.iter().find_map(|format| DateTime::strptime(format, text.trim()).ok())?;
    at.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

/// `% Processor Time`: average, minimum, maximum.
fn host(rows: &[Row], result: &mut PointResult) {
    let Some(row) = rows.iter().find(|row| row.cells.len() >= 4 && row.cell(0) == "% Processor Time") else {
        return;
    };
    let percent = |column: usize| amount(row.cell(column)).unwrap_or(0.0);
    let machine = Machine { busy: percent(1), ..Machine::default() };
    result.cpu = machine.cpu(result.seconds, format!("{TOOL}: % Processor Time of the host"));
    result.cpu.machine_percent = (percent(2), percent(1), percent(3));
}

/// A counter over all databases.
#[derive(Debug, Default, Clone, Copy)]
struct Sum {
    rate: f64,
    /// Rate × mean latency, ms per s.
    weighted: f64,
    bytes: f64,
}

impl Sum {
    fn direction(self, seconds: f64) -> Option<Direction> {
        let mut direction = rates(self.rate, self.bytes, seconds)?;
        direction.latency = Some(Latency { mean: self.mean(), ..Latency::default() });
        Some(direction)
    }

    /// Nanoseconds.
    fn mean(self) -> f64 {
        ratio(self.weighted, self.rate) * MILLISECOND
    }
}

/// The table of transactional I/O; where a report has only means for the whole, those.
fn databases(source: &Source, rows: &[Row], result: &mut PointResult) -> Result<()> {
    let whole = |label: &str| {
        ["", " (msec)", " (ms)"]
            .iter()
            .find_map(|unit| value(rows, &format!("{label}{unit}")))
            .and_then(|(_, text)| amount(text))
    };
    for (label, name) in [
        ("I/O Database Reads Average Latency", profile::DATABASE_READ_LATENCY),
        ("I/O Log Writes Average Latency", profile::LOG_WRITE_LATENCY),
    ] {
        if let Some(milliseconds) = whole(label) {
            result.extra.insert(name.to_owned(), milliseconds * MILLISECOND);
        }
    }
    let heading = "Transactional I/O Performance";
    let Some(start) = rows.iter().position(|row| row.heading == heading && row.cells.len() > 2) else {
        return Ok(());
    };
    let table = rows.get(start..).unwrap_or_default();
    let table: Vec<&Row> = table.iter().take_while(|row| row.heading == heading).collect();
    let Some((header, instances)) = table.split_first() else { return Ok(()) };
    if instances.is_empty() {
        return Err(source.ends_before("the first database of 'Transactional I/O Performance'"));
    }
    let sum = |what: &str| sum(source, header, instances, what);
    let (reads, writes, log) = (sum("Database Reads")?, sum("Database Writes")?, sum("Log Writes")?);
    result.load.read = reads.direction(result.seconds);
    result.load.write = writes.direction(result.seconds);
    for (name, value) in [
        (profile::DATABASE_READS, reads.rate),
        (profile::DATABASE_WRITES, writes.rate),
        (profile::LOG_WRITES, log.rate),
        (profile::LOG_WRITE_BYTES, ratio(log.bytes, log.rate)),
        (profile::DATABASE_READ_LATENCY, reads.mean()),
        (profile::LOG_WRITE_LATENCY, log.mean()),
    ] {
        result.extra.insert(name.to_owned(), value);
    }
    Ok(())
}

/// Rates added, latencies and sizes weighted by them.
fn sum(source: &Source, header: &Row, instances: &[&Row], what: &str) -> Result<Sum> {
    let column = |name: String| {
        header.cells.iter().position(|cell| *cell == name).ok_or_else(|| {
            source.error(
                header.line,
                format_args!("no column '{name}'; the report must be whole and in English"),
            )
        })
    };
    let rate = column(format!("I/O {what}/sec"))?;
    let latency = column(format!("I/O {what} Average Latency (msec)"))?;
    let bytes = column(format!("I/O {what} Average Bytes"))?;
    let mut all = Sum::default();
    for row in instances {
        let figure = |column: usize| {
            amount(row.cell(column)).ok_or_else(|| {
                source.error(
                    row.line,
                    format_args!("'{}' is not a number in column {}", row.cell(column), column + 1),
                )
            })
        };
        let per_second = figure(rate)?;
        all.rate += per_second;
        all.weighted += per_second * figure(latency)?;
        all.bytes += per_second * figure(bytes)?;
    }
    Ok(all)
}
