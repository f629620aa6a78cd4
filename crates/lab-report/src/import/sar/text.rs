//! What `sar` prints: a first line with machine, date and processors, then tables whose titles begin with a time.
//!
//! The date's order follows the locale that sar ran in: a year in front is ISO 8601 (`S_TIME_FORMAT=ISO`), otherwise the
//! month is taken to stand first, as sar writes it in the C locale. Times past midnight belong to the next day.

use anyhow::Result;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::super::number::number;
use super::super::source::Source;
use super::machine::{Host, Hosts, Of, too_many};

/// Titles that begin a table which is read.
const ITEMS: [&str; 3] = ["CPU", "DEV", "IFACE"];

#[derive(Debug)]
struct Reader<'a> {
    source: &'a Source,
    /// The number of the line at hand.
    line: usize,
    host: Host,
    name: &'a str,
    date: Option<Date>,
    /// Of the table at hand, after the time.
    titles: Vec<&'a str>,
}

pub(super) fn read(source: &Source) -> Result<Hosts> {
    let (host, name) = (Host::default(), "unknown");
    let mut reader = Reader { source, line: 0, host, name, date: None, titles: Vec::new() };
    for line in source.text.lines() {
        reader.line += 1;
        reader.take(line)?;
    }
    if reader.host.samples.is_empty() {
        return Err(
            source.ends_before("the first sample of processors, disks or interfaces (sar -u -d -b -n DEV)")
        );
    }
    Ok(Hosts::from([(reader.name.to_owned(), reader.host)]))
}

impl<'a> Reader<'a> {
    fn take(&mut self, line: &'a str) -> Result<()> {
        let line = line.trim();
        if line.starts_with("Linux ") {
            self.first(line);
            return Ok(());
        }
        if line.is_empty() || line.starts_with("Average:") || line.contains("LINUX RESTART") {
            return Ok(());
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((time, words)) = time(&words) else {
            return Err(self
                .source
                .error(self.line, "no line of sar: it begins with no time; give sar's text unchanged"));
        };
        let Some(at) = self.moment(time) else {
            return Err(self.source.error(
                self.line,
                "a sample before the line 'Linux … (machine) date'; give sar's text whole",
            ));
        };
        match words.split_first() {
            Some((title, _)) if ITEMS.contains(title) || is_titles(words) => self.begin(at, words),
            _ => self.row(at, words)?,
        }
        Ok(())
    }

    /// `Linux 6.1.0 (vm)  11/21/26  _x86_64_  (2 CPU)`.
    fn first(&mut self, line: &'a str) {
        let mut brackets =
            line.split('(').skip(1).filter_map(|rest| rest.split_once(')')).map(|(inside, _)| inside);
        self.name = brackets.next().unwrap_or("unknown");
        let processors = brackets.find_map(|inside| inside.strip_suffix(" CPU"));
        self.host.processors = processors.and_then(|count| count.trim().parse().ok()).unwrap_or(0);
        let formats = ["%Y-%m-%d", "%m/%d/%y", "%m/%d/%Y"];
        self.date = line
            .split_whitespace()
            .find_map(|word| formats.iter().find_map(|format| Date::strptime(format, word).ok()));
    }

    fn begin(&mut self, at: Timestamp, titles: &[&'a str]) {
        // sar repeats the titles from time to time; only the first time of all begins the window.
        self.host.began = Some(self.host.began.map_or(at, |began| began.min(at)));
        self.titles = titles.to_vec();
    }

    /// A time of the day, on the next day when it lies before the table's last.
    fn moment(&mut self, time: Time) -> Option<Timestamp> {
        let at = DateTime::from_parts(self.date?, time).to_zoned(TimeZone::UTC).ok()?.timestamp();
        let began = self.host.began;
        match began {
            Some(began) if at < began => at.checked_add(24.hours()).ok(),
            _ => Some(at),
        }
    }

    fn row(&mut self, at: Timestamp, words: &[&str]) -> Result<()> {
        let (source, line) = (self.source, self.line);
        let Some(title) = self.titles.first().copied() else { return Ok(()) };
        if words.len() != self.titles.len() {
            let (cells, columns) = (words.len(), self.titles.len());
            return Err(source.error(
                line,
                format_args!(
                    "{cells} columns where the titles are {columns}: the line is cut short; copy it again"
                ),
            ));
        }
        let of = if title == "tps" {
            Some(Of::Requests)
        } else {
            Of::column(title, words.first().copied().unwrap_or_default())
        };
        let Some(of) = of else { return Ok(()) };
        let sample = self.host.sample(at).ok_or_else(|| too_many(source, line))?;
        let mut waits = (None, None);
        for (title, word) in self.titles.iter().zip(words) {
            let Some(value) = number(word) else { continue };
            match *title {
                "tps" => waits.0 = Some(value),
                "await" => waits.1 = Some(value),
                _ => {}
            }
            if !ITEMS.contains(title) {
                sample.take(of, title, value);
            }
        }
        if let (Of::Disk(disk), (Some(transfers), Some(wait))) = (of, waits) {
            sample.wait(disk, transfers, wait);
        }
        Ok(())
    }
}

/// Whether words are the titles of a table without items, such as `tps rtps wtps`.
fn is_titles(words: &[&str]) -> bool {
    words.iter().skip(1).all(|word| number(word).is_none())
        && words.first().is_some_and(|word| number(word).is_none())
}

/// The time at a line's beginning, by 24 hours or with `AM` and `PM`, and what follows.
fn time<'a, 'w>(words: &'w [&'a str]) -> Option<(Time, &'w [&'a str])> {
    let (first, rest) = words.split_first()?;
    match rest.split_first() {
        Some((half @ (&"AM" | &"PM"), rest)) => {
            let time = Time::strptime("%I:%M:%S %p", format!("{first} {half}")).ok()?;
            Some((time, rest))
        }
        _ => Some((Time::strptime("%H:%M:%S", first).ok()?, rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_both_kinds() {
        let (at, rest) = time(&["11:59:59", "PM", "all"]).unwrap();
        assert_eq!((at.to_string(), rest), ("23:59:59".to_owned(), &["all"][..]));
        assert_eq!(time(&["00:10:01", "sda"]).unwrap().0.to_string(), "00:10:01");
        assert!(time(&["sda", "1"]).is_none());
    }
}
