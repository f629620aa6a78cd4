//! iperf 2: lines for each stream and interval, and one for the whole time of each stream.
//!
//! The text rounds to three digits; `-y C` does not. Time stamps of `-y C` are local and name no zone: they are taken as UTC.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::super::blank::{at, blank};
use super::super::limits;
use super::super::number::{amount, count, whole};
use super::super::source::{Source, seconds_only};
use lab_model::result::{Direction, Interval, Network, PointResult};

/// What stands in evidence and tool.
const TOOL: &str = "iperf";

/// A stream during an interval.
#[derive(Debug, Clone, PartialEq)]
struct Line {
    stream: String,
    start: f64,
    end: f64,
    bytes: u64,
    /// Bytes per second.
    rate: f64,
    /// When it was written.
    at: Option<Timestamp>,
}

impl Line {
    /// The stream's number in its test.
    fn number(&self) -> &str {
        self.stream.split(' ').next().unwrap_or_default()
    }

    /// Whether it can speak of a whole test.
    fn begins_at_zero(&self) -> bool {
        self.start.abs() < 1e-3
    }
}

pub(super) fn read(source: &Source) -> Result<Vec<PointResult>> {
    let mut tests: Vec<Test> = Vec::new();
    let mut opened = false;
    for (index, text) in source.text.lines().enumerate() {
        opened |= text.starts_with("Client connecting to") || text.starts_with("Server listening on");
        let line = match text.trim() {
            text if text.starts_with('[') => printed(text),
            text if text.starts_with(|first: char| first.is_ascii_digit() || first == '+') => {
                Some(separated(text).ok_or_else(|| {
                    source.error(
                        index + 1,
                        "this is no line of 'iperf -y C': it is cut short; copy the file again",
                    )
                })?)
            }
            _ => None,
        };
        let Some(line) = line.filter(|line| !matches!(line.stream.as_str(), "SUM" | "-1")) else { continue };
        if opened || tests.last().is_none_or(|test| test.is_over_before(&line)) {
            tests.push(Test::default());
        }
        if let Some(test) = tests.last_mut() {
            test.add(line);
        }
        opened = false;
    }
    if tests.is_empty() {
        return Err(source
            .error(1, "no result of iperf: give what 'iperf3 -J' or 'iperf -y C' wrote, or iperf 2's text"));
    }
    Ok(tests.iter().map(|test| result(source, &test.lines)).collect())
}

/// The lines of a test.
#[derive(Debug, Default)]
struct Test {
    lines: Vec<Line>,
    /// When the last of them was written.
    last: Option<Timestamp>,
    /// The stream that bears a number.
    streams: BTreeMap<String, String>,
}

impl Test {
    fn add(&mut self, line: Line) {
        self.last = self.last.max(line.at);
        self.streams.entry(line.number().to_owned()).or_insert_with(|| line.stream.clone());
        self.lines.push(line);
    }

    /// Numbers begin anew with each test, so a number with other ports belongs to the next one; so does a line that began
    /// when the test was over.
    fn is_over_before(&self, line: &Line) -> bool {
        let renumbered = self.streams.get(line.number()).is_some_and(|stream| *stream != line.stream);
        let half = SignedDuration::from_millis(500);
        let later = began(line).and_then(|at| at.checked_add(half).ok()).zip(self.last);
        line.begins_at_zero() && (renumbered || later.is_some_and(|(at, last)| at >= last))
    }
}

fn began(line: &Line) -> Option<Timestamp> {
    line.at?.checked_sub(SignedDuration::try_from_secs_f64(line.end).ok()?).ok()
}

/// `20261121074830,127.0.0.1,48166,127.0.0.1,45671,1,0.0-1.0,3059744828,24477958624`.
fn separated(text: &str) -> Option<Line> {
    let cells: Vec<&str> = text.split(',').collect();
    let [stamp, _, from, _, to, id, interval, bytes, bits, ..] = cells.as_slice() else { return None };
    let (start, end) = span(interval)?;
    let stamp = stamp.rsplit(':').next().unwrap_or_default();
    // Some versions write 1970 for a test without intervals.
    let at = DateTime::strptime("%Y%m%d%H%M%S", stamp.get(..14)?).ok()?;
    let known = at.year() > 1970;
    Some(Line {
        stream: if *id == "-1" { (*id).to_owned() } else { format!("{id} {from} {to}") },
        start,
        end,
        bytes: count(bytes)?,
        rate: amount(bits)? / 8.0,
        at: at.to_zoned(TimeZone::UTC).ok().filter(|_| known).map(|zoned| zoned.timestamp()),
    })
}

/// `[  2] 0.0000-1.0000 sec  1.16 GBytes  9.95 Gbits/sec`; other lines in brackets are no results.
fn printed(text: &str) -> Option<Line> {
    let (stream, rest) = text.strip_prefix('[')?.split_once(']')?;
    let (interval, rest) = rest.split_once(" sec ")?;
    let (start, end) = span(interval)?;
    let cells: Vec<&str> = rest.split_whitespace().collect();
    let [bytes, bytes_unit, rate, rate_unit, ..] = cells.as_slice() else { return None };
    let bytes_scale = scale(bytes_unit.strip_suffix("Bytes")?, 1024.0)?;
    let rate_scale = match rate_unit.strip_suffix("bits/sec") {
        Some(prefix) => scale(prefix, 1000.0)? / 8.0,
        None => scale(rate_unit.strip_suffix("Bytes/sec")?, 1024.0)?,
    };
    Some(Line {
        stream: stream.trim().to_owned(),
        start,
        end,
        bytes: whole(amount(bytes)? * bytes_scale),
        rate: amount(rate)? * rate_scale,
        at: None,
    })
}

fn span(text: &str) -> Option<(f64, f64)> {
    let (start, end) = text.trim().split_once('-')?;
    Some((amount(start)?, amount(end)?)).filter(|(start, end)| start <= end)
}

/// `G` is 1024³ bytes or 1000³ bits.
fn scale(prefix: &str, base: f64) -> Option<f64> {
    let power = ["", "K", "M", "G", "T"].iter().position(|known| known.eq_ignore_ascii_case(prefix))?;
    Some(base.powi(i32::try_from(power).ok()?))
}

fn result(source: &Source, test: &[Line]) -> PointResult {
    let mut result = blank(source, TOOL);
    // A stream's last line that begins at zero is its sum; where it was cut off, the longest that there is.
    let starts = test.iter().enumerate().filter(|(_, line)| line.begins_at_zero());
    let last: BTreeMap<&str, usize> = starts.map(|(place, line)| (line.stream.as_str(), place)).collect();
    let sums: BTreeSet<usize> = last.into_values().collect();
    let totals: Vec<&Line> = sums.iter().filter_map(|place| test.get(*place)).collect();
    let bytes = totals.iter().fold(0_u64, |sum, line| sum.saturating_add(line.bytes));
    result.seconds = totals.iter().map(|line| line.end).fold(0.0, f64::max);
    result.load.write = Some(Direction {
        bytes,
        bytes_per_second: totals.iter().map(|line| line.rate).sum(),
        ..Direction::default()
    });
    result.network = Some(Network { sent: bytes, ..Network::default() });
    result.point = vec![at("numjobs", totals.len().to_string()), at("rw", "write")];
    if let Some(started) = test.first().and_then(began) {
        result.started = seconds_only(started);
    }
    let parts = test.iter().enumerate().filter(|(place, _)| !sums.contains(place)).map(|(_, line)| line);
    result.intervals = intervals(parts);
    result
}

/// Streams added by the end of their intervals, which differs in the last digits.
fn intervals<'a>(parts: impl Iterator<Item = &'a Line>) -> Vec<Interval> {
    let mut all: Vec<Interval> = Vec::new();
    for line in parts {
        let recent = all.len().saturating_sub(4);
        let same = all.iter().skip(recent).position(|one| (one.at - line.end).abs() < 0.05);
        if let Some(one) = same.and_then(|place| all.get_mut(recent + place)) {
            one.bytes_per_second += line.rate;
        } else if all.len() < limits::MOST_INTERVALS {
            all.push(Interval { at: line.end, bytes_per_second: line.rate, ..Interval::default() });
        }
    }
    all
}
