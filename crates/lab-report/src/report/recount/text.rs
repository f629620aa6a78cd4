//! Raw outputs that are lines for people: dd, iscsi-perf and pgbench.

use std::path::Path;

use anyhow::{Context, Result};

use super::counts::{Both, Counted, Counts, Database};

/// `dd.0.txt`, `dd.1.txt`, …: a file of each stream, with a summary of each pass over it. Streams run side by side: the longest tells the time.
pub(super) fn dd(folder: &Path) -> Result<Option<Counted>> {
    let mut write = Counts::default();
    let mut longest: f64 = 0.0;
    let files = numbered(folder, "dd")?;
    for text in &files {
        let mut seconds = 0.0;
        for line in text.lines() {
            if let Some(records) = line.strip_suffix(" records out") {
                write.ios += records.split('+').filter_map(|part| part.parse::<f64>().ok()).sum::<f64>();
            } else if let Some((bytes, rest)) = line.split_once(" bytes ") {
                let copied = rest.split_once(" copied, ").and_then(|(_, rest)| before(rest, " s"));
                write.bytes += bytes.parse::<f64>().context("dd tells no bytes")?;
                seconds += copied.context("dd tells no seconds")?;
            }
        }
        longest = longest.max(seconds);
    }
    if files.is_empty() {
        return Ok(None);
    }
    (write.iops, write.bytes_per_second) = (write.ios / longest, write.bytes / longest);
    Ok(Some(of("dd.0.txt", Both { read: Counts::default(), write })))
}

/// `iscsi-perf.0.txt`, …: a file of each volume. It tells a rate and no count: I/Os are the rate times the seconds that it was told to run.
pub(super) fn iscsi_perf(folder: &Path) -> Result<Option<Counted>> {
    let mut read = Counts::default();
    let files = numbered(folder, "iscsi-perf")?;
    for text in &files {
        let lines = || text.split(['\n', '\r']);
        let after = |label: &str| lines().filter_map(|line| leading(line.strip_prefix(label)?)).next_back();
        let transfer = lines()
            .find(|line| line.starts_with("FIXED transfer size"))
            .and_then(|line| leading(line.split_once('(')?.1));
        let all = after("iops average ").zip(transfer).zip(after("will run for "));
        let ((iops, transfer), seconds) = all.context("iscsi-perf tells no rate, no size or no time")?;
        read.iops += iops;
        read.ios += iops * seconds;
        read.bytes += iops * seconds * transfer;
        read.bytes_per_second += iops * transfer;
    }
    Ok((!files.is_empty()).then(|| of("iscsi-perf.0.txt", Both { read, write: Counts::default() })))
}

/// `pgbench.txt`: its summary.
pub(super) fn pgbench(folder: &Path) -> Result<Option<Counted>> {
    const FILE: &str = "pgbench.txt";
    let path = folder.join(FILE);
    if !path.is_file() {
        return Ok(None);
    }
    let text = text(&path)?;
    let after = |label: &str| {
        let found = text.lines().find_map(|line| leading(line.strip_prefix(label)?));
        found.with_context(|| format!("{FILE} beside it holds no {label:?}"))
    };
    let database = Database {
        transactions: after("number of transactions actually processed: ")?,
        failed: after("number of failed transactions: ")?,
        per_second: after("tps = ")?,
        mean: Some(after("latency average = ")? * 1e6),
    };
    Ok(Some(Counted { database: Some(database), ..of(FILE, Both::default()) }))
}

fn of(file: &str, both: Both) -> Counted {
    Counted { file: file.to_owned(), both, database: None }
}

/// The texts of `NAME.0.txt`, `NAME.1.txt`, … as far as there are any.
fn numbered(folder: &Path, name: &str) -> Result<Vec<String>> {
    let paths = (0..).map(|number| folder.join(format!("{name}.{number}.txt")));
    paths.take_while(|path| path.is_file()).map(|path| text(&path)).collect()
}

/// The file's text; iscsi-perf prints its author's name in several encodings.
fn text(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The number that a text begins with.
fn leading(text: &str) -> Option<f64> {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    text.get(..end)?.parse().ok()
}

/// The number before a unit.
fn before(text: &str, unit: &str) -> Option<f64> {
    text.split_once(unit)?.0.parse().ok()
}
