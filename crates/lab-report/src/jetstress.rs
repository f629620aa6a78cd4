//! The Jetstress-like table: what Exchange Jetstress prints of a run, for results of Jetstress and of a profile with its mix.

use std::ops::RangeInclusive;

use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;

use lab_model::effectiveness::effectiveness;
use lab_model::jetstress::{
    ACHIEVED, DATABASE_READ_LATENCY, DATABASE_READS, DATABASE_TO_LOG, DATABASE_WRITES, FINAL_SIZE,
    INITIAL_SIZE, LOG_WRITE_LATENCY, Mix, PASSED, READS_TO_WRITES, TARGET, THREADS,
};
use lab_model::result::PointResult;

/// A row of the table: a label, then a text for each result.
pub type Row = (&'static str, Vec<String>);

/// The rows of the report's table, then what is computed from them. What a result does not tell is `-`.
pub fn rows(results: &[&PointResult]) -> Vec<Row> {
    let row = |label, cell: fn(&PointResult) -> Option<String>| {
        let cells = results.iter().map(|result| cell(result).unwrap_or_else(|| "-".to_owned()));
        (label, cells.collect())
    };
    vec![
        row("Overall Test Result", |result| Some(verdict(result).to_owned())),
        row("Machine Name", |result| {
            result.point.iter().find(|at| at.axis == "machine").map(|at| at.value.clone())
        }),
        row("Achieved Transactional I/O per Second", |result| {
            achieved(result).map(|rate| format!("{rate:.3}"))
        }),
        row("Target Transactional I/O per Second", |result| plain(result, TARGET)),
        row("Initial Database Size (bytes)", |result| plain(result, INITIAL_SIZE)),
        row("Final Database Size (bytes)", |result| plain(result, FINAL_SIZE)),
        row("Thread Count", |result| plain(result, THREADS)),
        row("I/O Database Reads Average Latency (ms)", |result| milliseconds(result, DATABASE_READ_LATENCY)),
        row("I/O Log Writes Average Latency (ms)", |result| milliseconds(result, LOG_WRITE_LATENCY)),
        row("% CPU average", |result| percent(result).map(|(_, mean, _)| format!("{mean:.3}"))),
        row("% CPU minimum", |result| percent(result).map(|(least, ..)| format!("{least:.3}"))),
        row("% CPU maximum", |result| percent(result).map(|(.., most)| format!("{most:.3}"))),
        row("Transactional I/Os per 1 % CPU", |result| {
            effectiveness(achieved(result)?, percent(result)?.1).map(|value| format!("{value:.1}"))
        }),
        row("Database reads : writes (3:2 to 2:1)", |result| {
            Mix::of(result).map(|mix| within(mix.reads_to_writes, &READS_TO_WRITES))
        }),
        row("Database I/O : log I/O (8:1 to 12:1)", |result| {
            Mix::of(result).map(|mix| within(mix.database_to_log, &DATABASE_TO_LOG))
        }),
    ]
}

/// The rows as text for a terminal, under a name for each result.
pub fn table(names: &[&str], results: &[&PointResult]) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(std::iter::once("Jetstress-like profile").chain(names.iter().copied()));
    for (label, cells) in rows(results) {
        table.add_row(std::iter::once(label.to_owned()).chain(cells));
    }
    table.to_string()
}

/// Transactional I/Os per second: as told, or the database's reads and writes.
pub fn achieved(result: &PointResult) -> Option<f64> {
    let figure = |name: &str| result.extra.get(name).copied();
    figure(ACHIEVED).or_else(|| Some(figure(DATABASE_READS)? + figure(DATABASE_WRITES)?))
}

/// `Pass` needs what Jetstress said, if it was Jetstress, and the mix, if it is known.
fn verdict(result: &PointResult) -> &'static str {
    let said = result.extra.get(PASSED).is_none_or(|passed| *passed > 0.0);
    let mix = Mix::of(result).is_none_or(|mix| mix.check().is_ok());
    let known = result.extra.contains_key(PASSED) || Mix::of(result).is_some();
    match (known, said && mix && result.valid()) {
        (_, false) => "Fail",
        (true, true) => "Pass",
        (false, true) => "-",
    }
}

fn plain(result: &PointResult, name: &str) -> Option<String> {
    result.extra.get(name).map(|value| if *value >= 1e9 { format!("{value:.5e}") } else { value.to_string() })
}

fn milliseconds(result: &PointResult, name: &str) -> Option<String> {
    result.extra.get(name).map(|nanoseconds| format!("{:.3}", nanoseconds / 1e6))
}

fn percent(result: &PointResult) -> Option<(f64, f64, f64)> {
    Some(result.cpu.machine_percent).filter(|(_, mean, _)| *mean > 0.0)
}

fn within(ratio: f64, range: &RangeInclusive<f64>) -> String {
    let place = if range.contains(&ratio) { "within" } else { "OUTSIDE" };
    format!("{ratio:.2}:1, {place}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_model::jetstress::LOG_WRITES;
    use lab_model::statistics::synthetic::result;

    fn profile(reads: f64, writes: f64, log: f64) -> PointResult {
        let mut result = result("A", 1, reads + writes + log);
        for (name, rate) in [(DATABASE_READS, reads), (DATABASE_WRITES, writes), (LOG_WRITES, log)] {
            result.extra.insert(name.to_owned(), rate);
        }
        result
    }

    #[test]
    fn the_ends_of_the_ranges_pass_and_what_lies_outside_fails() {
        for (reads, writes, log) in [(600.0, 400.0, 100.0), (600.0, 400.0, 125.0), (800.0, 400.0, 100.0)] {
            assert_eq!(rows(&[&profile(reads, writes, log)])[0].1, ["Pass"]);
        }
        for (reads, writes, log) in
            [(590.0, 410.0, 100.0), (700.0, 300.0, 100.0), (600.0, 400.0, 50.0), (600.0, 400.0, 200.0)]
        {
            let profile = profile(reads, writes, log);
            assert_eq!(rows(&[&profile])[0].1, ["Fail"]);
            assert!(table(&["here"], &[&profile]).contains("OUTSIDE"));
        }
        assert_eq!(rows(&[&result("A", 1, 1000.0)])[0].1, ["-"]);
    }
}
