//! `sadf -d`: semicolons, and a line of titles for each activity; `sadf`: tabs, and a line for each figure.

use anyhow::Result;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::super::number::{amount, number};
use super::super::source::Source;
use super::machine::{Host, Hosts, Of, too_many};

pub(super) fn read(source: &Source) -> Result<Hosts> {
    let mut hosts = Hosts::new();
    let mut titles: Vec<&str> = Vec::new();
    for (index, line) in source.text.lines().enumerate() {
        let line_number = index + 1;
        if let Some(header) = line.strip_prefix('#') {
            titles = header.split(';').map(str::trim).collect();
            continue;
        }
        let separator = if line.contains('\t') { '\t' } else { ';' };
        let cells: Vec<&str> = line.split(separator).map(str::trim).collect();
        if cells.len() < 4 || line.contains("LINUX-RESTART") || line.contains("COMMENT") {
            if line.trim().is_empty() || cells.len() >= 4 {
                continue;
            }
            return Err(source.error(
                line_number,
                "no line of sadf (host, interval, time, figures): give what 'sadf -d FILE -- -u -d -b' writes",
            ));
        }
        let row = Row { source, line: line_number, cells: &cells };
        if separator == '\t' { row.figure(&mut hosts)? } else { row.figures(&titles, &mut hosts)? }
    }
    if hosts.is_empty() {
        return Err(source.ends_before("the first sample"));
    }
    Ok(hosts)
}

/// A line's cells.
#[derive(Clone, Copy)]
struct Row<'a> {
    source: &'a Source,
    line: usize,
    cells: &'a [&'a str],
}

impl<'a> Row<'a> {
    fn cell(self, column: usize) -> &'a str {
        self.cells.get(column).copied().unwrap_or("")
    }

    /// The host and the end of the interval.
    fn place(self, hosts: &mut Hosts) -> Result<(&mut Host, Timestamp)> {
        let at = moment(self.cell(2)).ok_or_else(|| {
            self.source.error(self.line, format_args!("'{}' is not a time of a sample", self.cell(2)))
        })?;
        let host = hosts.entry(self.cell(0).to_owned()).or_default();
        if host.began.is_none() {
            let interval =
                amount(self.cell(1)).and_then(|seconds| SignedDuration::try_from_secs_f64(seconds).ok());
            host.began = interval.and_then(|interval| at.checked_sub(interval).ok());
        }
        Ok((host, at))
    }

    /// `host;interval;time;item;figure;…` under titles, or without an item for activities of the whole machine.
    fn figures(self, titles: &[&str], hosts: &mut Hosts) -> Result<()> {
        let title = titles.get(3).copied().unwrap_or("");
        if title.is_empty() {
            return Err(self
                .source
                .error(self.line, "figures before a line '# hostname;interval;timestamp;…'"));
        }
        if self.cells.len() < titles.len() {
            let (cells, columns) = (self.cells.len(), titles.len());
            return Err(self.source.error(
                self.line,
                format_args!(
                    "{cells} cells where the titles are {columns}: the file is cut short; copy it again"
                ),
            ));
        }
        let (of, first) = match title {
            "tps" => (Some(Of::Requests), 3),
            _ => (Of::column(title, self.cell(3)), 4),
        };
        let (source, line) = (self.source, self.line);
        let Some(of) = of else { return Ok(()) };
        let (host, at) = self.place(hosts)?;
        let sample = host.sample(at).ok_or_else(|| too_many(source, line))?;
        let figures = titles.iter().zip(self.cells).skip(first);
        let mut waits = (None, None);
        for (title, cell) in figures {
            let value = number(cell).ok_or_else(|| {
                source.error(line, format_args!("'{cell}' is not a number in column {title}"))
            })?;
            sample.take(of, title, value);
            match *title {
                "tps" => waits.0 = Some(value),
                "await" => waits.1 = Some(value),
                _ => {}
            }
        }
        if let (Of::Disk(disk), (Some(transfers), Some(wait))) = (of, waits) {
            sample.wait(disk, transfers, wait);
        }
        Ok(())
    }

    /// `host interval time item figure value`; an item that is no processor is a disk or interface by its figure's name.
    fn figure(self, hosts: &mut Hosts) -> Result<()> {
        let (item, name) = (self.cell(3), self.cell(4));
        let of = match name {
            _ if item == "all" => Of::Processors,
            "rtps" | "wtps" | "bread/s" | "bwrtn/s" => Of::Requests,
            "tps" if item == "-" => return Ok(()),
            "tps" | "rkB/s" | "wkB/s" | "rd_sec/s" | "wr_sec/s" => Of::Disk(item),
            "rxkB/s" | "txkB/s" => Of::Interface(item),
            _ => return Ok(()),
        };
        let (source, line) = (self.source, self.line);
        let value = number(self.cell(5)).ok_or_else(|| {
            source.error(line, format_args!("'{}' is not a number for {name}", self.cell(5)))
        })?;
        let (host, at) = self.place(hosts)?;
        host.sample(at).ok_or_else(|| too_many(source, line))?.take(of, name, value);
        Ok(())
    }
}

/// `2026-11-21 07:48:26 UTC`, or seconds since 1970 (`sadf -T` and `-U`).
fn moment(text: &str) -> Option<Timestamp> {
    if let Ok(seconds) = text.parse::<i64>() {
        return Timestamp::from_second(seconds).ok();
    }
    let at = DateTime::strptime("%Y-%m-%d %H:%M:%S", text.trim_end_matches("UTC").trim()).ok()?;
    at.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}
