//! Iometer's results: a block of access specifications, then blocks of results whose rows `ALL` speak for the whole test.
//!
//! Each `ALL` row is a point. Counts come as they are; the time follows from a count and its rate, because `ALL` rows have
//! none. The histogram of latencies is one for both directions, so it is kept only when there is one direction. Time stamps
//! name no time zone and are taken as UTC. Older versions write `MBps` and mean 2^20 bytes.

use std::collections::BTreeMap;

use anyhow::Result;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::blank::{MILLISECOND, Machine, Shape, at, blank};
use super::number::{amount, count, float, ratio, whole};
use super::source::{Source, seconds_only};
use super::table::{Header, Row, rows};
use lab_model::result::{Bucket, Direction, Flag, Latency, PointResult};

const TOOL: &str = "Iometer";
/// Bytes of a binary megabyte.
const MIB: f64 = 1_048_576.0;

/// What the file has said so far.
#[derive(Debug, Default)]
struct Reader {
    version: Option<String>,
    started: Option<String>,
    /// By name; `None` for a specification of several lines, whose mix fio's words do not tell.
    specifications: BTreeMap<String, Option<Shape>>,
    named: Option<String>,
    header: Option<Header>,
    expected: Next,
    results: Vec<PointResult>,
}

/// What the next row is, by the heading before it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Next {
    #[default]
    Nothing,
    Version,
    Time,
    SpecificationName,
    SpecificationLine,
    Result,
}

/// Every `ALL` row of a file.
pub(super) fn read(source: &Source) -> Result<Vec<PointResult>> {
    let mut reader = Reader::default();
    for row in rows(source, &source.text, 1, b',') {
        let row = row?;
        if row.cell(0).starts_with('\'') {
            reader.heading(&row);
        } else {
            reader.row(source, &row)?;
        }
    }
    if reader.results.is_empty() {
        return Err(match reader.header {
            Some(_) => source.ends_before("the first row 'ALL' of results"),
            None => {
                source.error(1, "no line \"'Target Type,…\": this is not Iometer's result file (results.csv)")
            }
        });
    }
    Ok(reader.results)
}

impl Reader {
    fn heading(&mut self, row: &Row) {
        self.expected = match row.cell(0) {
            "'Version" => Next::Version,
            "'Time Stamp" => Next::Time,
            "'Access specification name" => Next::SpecificationName,
            "'size" => Next::SpecificationLine,
            "'Target Type" => {
                self.header = Some(Header::of(row));
                Next::Result
            }
            _ => Next::Nothing,
        };
    }

    fn row(&mut self, source: &Source, row: &Row) -> Result<()> {
        match self.expected {
            Next::Nothing => {}
            Next::Version => self.version = Some(row.cell(0).to_owned()),
            Next::Time => self.started = time(row.cell(0)),
            Next::SpecificationName => {
                // A comma in a name makes more cells; the last one is the default assignment.
                let cells: Vec<&str> = row.cells().collect();
                let name = cells.split_last().map_or(&[] as &[&str], |(_, name)| name);
                self.named = Some(name.join(","));
            }
            Next::SpecificationLine => self.specification(row),
            Next::Result => return self.result(source, row),
        }
        Ok(())
    }

    /// `size,% of size,% reads,% random,delay,burst,align,reply`.
    fn specification(&mut self, row: &Row) {
        let Some(name) = self.named.clone() else { return };
        let percent = |column: usize| amount(row.cell(column));
        let shape = Shape {
            block: count(row.cell(0)),
            write_percent: percent(2).map(|reads| 100.0 - reads),
            random: percent(3).map(|random| random > 0.0),
            ..Shape::default()
        };
        self.specifications.entry(name).and_modify(|known| *known = None).or_insert(Some(shape));
    }

    fn result(&mut self, source: &Source, row: &Row) -> Result<()> {
        let Some(header) = self.header.as_ref().filter(|_| row.cell(0) == "ALL") else { return Ok(()) };
        let filled = row.cells().skip(header.len()).any(|cell| !cell.is_empty());
        if row.len() < header.len() || filled {
            let (cells, columns) = (row.len(), header.len());
            return Err(source.error(
                row.line,
                format_args!(
                    "{cells} cells where the header has {columns}: the file is cut short, or a name holds a comma"
                ),
            ));
        }
        let columns = Columns { source, header, row };
        let mut result = blank(source, TOOL);
        let name = columns.text("Access Specification Name").to_owned();
        let known = self.specifications.get(&name).cloned().flatten().unwrap_or_default();
        let shape = Shape {
            depth: count(columns.text("Queue Depth")),
            threads: count(columns.text("# Workers")),
            ..known
        };
        result.point = shape.coordinates();
        result.point.push(at("specification", name));
        if let Some(version) = &self.version {
            result.tool.version.clone_from(version);
        }
        if let Some(started) = &self.started {
            result.started.clone_from(started);
        }
        columns.load(&mut result)?;
        columns.host(&mut result);
        self.results.push(result);
        Ok(())
    }
}

/// `2016-05-12 14:03:11:123`.
fn time(text: &str) -> Option<String> {
    let seconds = text.get(..19)?;
    let at = DateTime::strptime("%Y-%m-%d %H:%M:%S", seconds).ok()?;
    at.to_zoned(TimeZone::UTC).ok().map(|zoned| seconds_only(zoned.timestamp()))
}

/// A row by the names of its columns.
struct Columns<'a> {
    source: &'a Source,
    header: &'a Header,
    row: &'a Row,
}

impl Columns<'_> {
    fn text(&self, name: &str) -> &str {
        self.header.find(&[name]).map_or("", |column| self.row.cell(column))
    }

    fn figure(&self, names: &[&str]) -> Option<f64> {
        self.header.find(names).and_then(|column| amount(self.row.cell(column)))
    }

    fn needed(&self, names: &[&str]) -> Result<f64> {
        self.figure(names).ok_or_else(|| {
            let name = names.first().copied().unwrap_or_default();
            self.source
                .error(self.row.line, format_args!("no number for '{name}'; save Iometer's results again"))
        })
    }

    fn load(&self, result: &mut PointResult) -> Result<()> {
        result.load.read = self.direction("Read", "Bytes Read")?;
        result.load.write = self.direction("Write", "Bytes Written")?;
        result.seconds = result
            .directions()
            .map(|direction| ratio(float(direction.ios), direction.iops))
            .fold(0.0, f64::max);
        let histogram = self.histogram(result);
        match (&mut result.load.read, &mut result.load.write) {
            (Some(only), None) | (None, Some(only)) => {
                if let Some(latency) = &mut only.latency {
                    latency.histogram = histogram;
                }
            }
            _ => {}
        }
        result.load.errors = whole(self.figure(&["Errors"]).unwrap_or(0.0));
        if result.load.errors > 0 {
            let detail = format!("Iometer counted {} failed I/Os", result.load.errors);
            result.flags.push(Flag::Errors { detail });
        }
        Ok(())
    }

    fn direction(&self, name: &str, bytes: &str) -> Result<Option<Direction>> {
        let iops = self.needed(&[&format!("{name} IOps")])?;
        if iops <= 0.0 {
            return Ok(None);
        }
        let decimal = self.figure(&[&format!("{name} MBps (Decimal)")]).map(|rate| rate * 1e6);
        let binary =
            [format!("{name} MiBps (Binary)"), format!("{name} MBps (Binary)"), format!("{name} MBps")];
        let binary: Vec<&str> = binary.iter().map(String::as_str).collect();
        let bytes_per_second = match decimal {
            Some(rate) => rate,
            None => self.needed(&binary)? * MIB,
        };
        let milliseconds = |what: &str| self.figure(&[&format!("{what} {name} Response Time")]);
        let latency = milliseconds("Average").map(|mean| Latency {
            mean: mean * MILLISECOND,
            max: milliseconds("Maximum").unwrap_or(0.0) * MILLISECOND,
            ..Latency::default()
        });
        Ok(Some(Direction {
            ios: count(self.text(&format!("{name} I/Os"))).unwrap_or(0),
            bytes: count(self.text(bytes)).unwrap_or(0),
            iops,
            bytes_per_second,
            latency,
        }))
    }

    /// The columns `0 to 50 uS` and so on; the last, open one ends at the longest latency seen.
    fn histogram(&self, result: &PointResult) -> Vec<Bucket> {
        let longest = result.directions().filter_map(|way| way.latency.as_ref()).map(|of| whole(of.max));
        let longest = longest.max().unwrap_or(0).max(10_000_000_000);
        (0..self.header.len())
            .filter_map(|column| {
                let bound = bound(self.header.name(column), longest)?;
                let count = count(self.row.cell(column)).filter(|count| *count > 0)?;
                Some(Bucket { bound, count })
            })
            .collect()
    }

    fn host(&self, result: &mut PointResult) {
        let percent = |name: &str| self.figure(&[name]);
        if let Some(busy) = percent("% CPU Utilization") {
            let machine = Machine {
                processors: 0,
                busy,
                user: percent("% User Time").unwrap_or(0.0),
                system: percent("% Privileged Time").unwrap_or(0.0),
            };
            result.cpu = machine.cpu(result.seconds, format!("{TOOL}: mean of the managers' processors"));
        }
    }
}

/// `50 to 100 us` in nanoseconds; header names are in lower case.
fn bound(name: &str, longest: u64) -> Option<u64> {
    if name.trim_start().starts_with(">=") {
        return Some(longest);
    }
    let (_, upper) = name.split_once(" to ")?;
    let (value, unit) = upper.trim().split_once(' ')?;
    let scale = match unit.trim() {
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    amount(value).map(|value| whole(value * scale))
}
