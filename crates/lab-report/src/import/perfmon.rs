//! Perfmon's logs as `relog -f csv`, `relog -f tsv` or `typeperf` write them: a column for each counter, a row for each sample.
//!
//! Each machine in a log is a point. Disks and processors come from the `_Total` instances, and the first row only marks the
//! beginning: a rate in it speaks of the time before. Every other counter's mean stands in `extra`. Counters have the
//! language of the Windows they were read on; only English names are known here, the others stand in `extra` as well.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::blank::{Machine, at, blank, rates};
use super::limits;
use super::number::{number, ratio};
use super::source::{Source, seconds_only};
use super::table::{Header, Row, delimiter, rows};
use lab_model::result::{Direction, Interval, Latency, PointResult};

const TOOL: &str = "Perfmon";
/// Nanoseconds of a second.
const SECOND: f64 = 1e9;
/// Objects that count disks, the better first.
const DISKS: [&str; 2] = ["physicaldisk(_total)", "logicaldisk(_total)"];
/// Objects that count processors.
const PROCESSORS: [&str; 2] = ["processor(_total)", "processor information(_total)"];

/// A result for each machine of a log.
pub(super) fn read(source: &Source) -> Result<Vec<PointResult>> {
    let blank_lines = source.text.lines().take_while(|line| line.trim().is_empty()).count();
    let first = source.text.lines().nth(blank_lines).unwrap_or_default();
    let mut all = rows(source, &source.text, 1, delimiter(first));
    let header = all.next().transpose()?.filter(|row| row.cell(0).starts_with("(PDH-"));
    let Some(header) = header else {
        return Err(source.error(
            blank_lines + 1,
            "the first cell is not '(PDH-CSV 4.0)…': convert the log by 'relog LOG.blg -f csv -o LOG.csv'",
        ));
    };
    let offset = offset(header.cell(0));
    let header = Header::of(&header);
    let samples = samples(source, all, offset)?;
    let mut hosts: BTreeMap<&str, Vec<(usize, &str)>> = BTreeMap::new();
    for column in 1..header.len() {
        let (host, path) = counter(header.name(column));
        hosts.entry(host).or_default().push((column, path));
    }
    let several = hosts.len() > 1;
    let results = hosts.into_iter().map(|(host, columns)| {
        let mut result = Log { source, samples: &samples, columns }.result();
        if several {
            result.point.push(at("host", host));
        }
        result
    });
    Ok(results.collect())
}

/// Minutes to add for UTC: the last number in parentheses of `(PDH-CSV 4.0) (W. Europe Standard Time)(-60)`.
fn offset(title: &str) -> i64 {
    let last = title.rsplit_once('(').map_or("", |(_, last)| last);
    last.trim_end_matches(')').parse::<i64>().ok().filter(|minutes| minutes.abs() <= 24 * 60).unwrap_or(0)
}

/// `\\host\object(instance)\counter` as host and the rest without its leading sign.
fn counter(path: &str) -> (&str, &str) {
    match path.strip_prefix("\\\\") {
        Some(rest) => rest.split_once('\\').unwrap_or((rest, "")),
        None => ("", path.trim_start_matches('\\')),
    }
}

struct Sample {
    at: Timestamp,
    row: Row,
}

fn samples(source: &Source, rows: impl Iterator<Item = Result<Row>>, offset: i64) -> Result<Vec<Sample>> {
    let mut samples = Vec::new();
    for row in rows {
        let row = row?;
        if row.cells().filter(|cell| !cell.is_empty()).count() < 2 {
            // typeperf ends with a sentence, and samples may be empty.
            continue;
        }
        let at = time(row.cell(0), offset).ok_or_else(|| {
            source.error(row.line, format_args!("'{}' is not a time of a sample", row.cell(0)))
        })?;
        samples.push(Sample { at, row });
        if samples.len() > limits::MOST_INTERVALS {
            let most = limits::MOST_INTERVALS;
            return Err(
                source.ends_before(&format!("sample {most}: more are not read; cut the log by relog -b -e"))
            );
        }
    }
    if samples.len() < 2 {
        return Err(source.ends_before("the second sample; a window needs two"));
    }
    Ok(samples)
}

/// `01/24/2019 10:36:41.123`, local time.
fn time(text: &str, offset: i64) -> Option<Timestamp> {
    let at = DateTime::strptime("%m/%d/%Y %H:%M:%S%.f", text).ok()?;
    let zoned = at.to_zoned(TimeZone::UTC).ok()?;
    zoned.timestamp().checked_add(SignedDuration::from_mins(offset)).ok()
}

/// A machine's columns.
struct Log<'a> {
    source: &'a Source,
    samples: &'a [Sample],
    /// Where each counter stands, and its path without the machine.
    columns: Vec<(usize, &'a str)>,
}

impl Log<'_> {
    fn result(&self) -> PointResult {
        let mut result = blank(self.source, TOOL);
        let [first, .., last] = self.samples else { return result };
        result.started = seconds_only(first.at);
        result.seconds = last.at.duration_since(first.at).as_secs_f64().max(0.0);
        result.load.read = self.direction("read", result.seconds);
        result.load.write = self.direction("write", result.seconds);
        self.processors(&mut result);
        self.intervals(&mut result);
        for (column, path) in self.columns.iter().take(limits::MOST_EXTRA) {
            if let Some((_, mean, _)) = self.spread(*column) {
                result.extra.insert((*path).to_owned(), mean);
            }
        }
        result
    }

    /// The rows that speak of the window.
    fn window(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter().skip(1)
    }

    fn column(&self, objects: &[&str], name: &str) -> Option<usize> {
        let names = |path: &str, object: &str| {
            path.strip_prefix(object).and_then(|rest| rest.strip_prefix('\\')) == Some(name)
        };
        objects.iter().find_map(|object| {
            self.columns.iter().find(|(_, path)| names(path, object)).map(|(column, _)| *column)
        })
    }

    /// Least, mean and most of a column.
    fn spread(&self, column: usize) -> Option<(f64, f64, f64)> {
        let values: Vec<f64> = self.window().filter_map(|sample| number(sample.row.cell(column))).collect();
        let least = values.iter().copied().reduce(f64::min)?;
        let most = values.iter().copied().reduce(f64::max)?;
        Some((
            least,
            values.iter().sum::<f64>() / lab_model::statistics::number::real_length(values.len()),
            most,
        ))
    }

    fn mean(&self, objects: &[&str], name: &str) -> Option<f64> {
        self.spread(self.column(objects, name)?).map(|(_, mean, _)| mean)
    }

    fn direction(&self, way: &str, seconds: f64) -> Option<Direction> {
        let (per_second, time) = (format!("disk {way}s/sec"), format!("avg. disk sec/{way}"));
        let iops = self.mean(&DISKS, &per_second)?;
        let bytes = self.mean(&DISKS, &format!("disk {way} bytes/sec")).unwrap_or(0.0);
        let mut direction = rates(iops, bytes, seconds)?;
        // A second with many I/Os weighs more than one with few.
        let columns = self.column(&DISKS, &per_second).zip(self.column(&DISKS, &time));
        direction.latency = columns.and_then(|(rate, time)| {
            let pairs = self
                .window()
                .filter_map(|sample| Some((number(sample.row.cell(rate))?, number(sample.row.cell(time))?)));
            let (weight, sum) =
                pairs.fold((0.0, 0.0), |(weight, sum), (rate, time)| (weight + rate, sum + rate * time));
            (weight > 0.0).then(|| Latency { mean: ratio(sum, weight) * SECOND, ..Latency::default() })
        });
        Some(direction)
    }

    fn processors(&self, result: &mut PointResult) {
        let Some(busy) = self.column(&PROCESSORS, "% processor time").and_then(|at| self.spread(at)) else {
            return;
        };
        let machine = Machine {
            processors: self.count(),
            busy: busy.1,
            user: self.mean(&PROCESSORS, "% user time").unwrap_or(0.0),
            system: self.mean(&PROCESSORS, "% privileged time").unwrap_or(0.0),
        };
        result.cpu = machine.cpu(result.seconds, format!("{TOOL}: the whole machine"));
        result.cpu.machine_percent = busy;
    }

    /// Instances of `Processor` that are numbers; 0 when the log has only the total.
    fn count(&self) -> u32 {
        let instances: BTreeSet<&str> = self
            .columns
            .iter()
            .filter_map(|(_, path)| {
                let object =
                    ["processor(", "processor information("].iter().find_map(|name| path.strip_prefix(name));
                let (instance, _) = object?.split_once(')')?;
                instance.ends_with(|last: char| last.is_ascii_digit()).then_some(instance)
            })
            .collect();
        u32::try_from(instances.len()).unwrap_or(0)
    }

    fn intervals(&self, result: &mut PointResult) {
        let [rate, bytes, time] = ["disk transfers/sec", "disk bytes/sec", "avg. disk sec/transfer"]
            .map(|name| self.column(&DISKS, name));
        let busy = self.column(&PROCESSORS, "% processor time");
        let Some(first) = self.samples.first().filter(|_| rate.or(bytes).or(busy).is_some()) else { return };
        result.intervals = self
            .window()
            .map(|sample| {
                let value = |column: Option<usize>| column.and_then(|column| number(sample.row.cell(column)));
                Interval {
                    at: sample.at.duration_since(first.at).as_secs_f64(),
                    iops: value(rate).unwrap_or(0.0),
                    bytes_per_second: value(bytes).unwrap_or(0.0),
                    latency: value(time).map(|seconds| seconds * SECOND),
                    cpu_percent: value(busy),
                    transactions: None,
                }
            })
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_offsets() {
        assert_eq!(offset("(PDH-CSV 4.0) (W. Europe Standard Time)(-60)"), -60);
        assert_eq!(offset("(PDH-CSV 4.0)"), 0);
        assert_eq!(counter("\\\\h\\processor(_total)\\% user time"), ("h", "processor(_total)\\% user time"));
        assert_eq!(counter("\\memory\\pages/sec"), ("", "memory\\pages/sec"));
        assert_eq!(time("01/24/2019 10:36:41.500", -60).unwrap().to_string(), "2019-01-24T09:36:41.5Z");
    }
}
