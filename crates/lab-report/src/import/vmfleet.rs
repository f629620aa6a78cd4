//! VMFleet's tables: `result.tsv` of a measured run or sweep, `result-vm-*.tsv` with a row for each virtual machine, and the
//! table that `Process-DiskSpd.ps1` makes of the first VMFleet's results. Each row is a point.
//!
//! A fleet's row has no times and no counts, only rates: counts are zero, and the window's length is unknown unless the
//! table has it. Windows PowerShell writes decimal commas where the system does.

use anyhow::Result;

use super::blank::{MILLISECOND, Machine, Shape, at, blank, rates};
use super::number::{amount, count, whole};
use super::source::Source;
use super::table::{Header, Row, delimiter, rows};
use lab_model::result::{Latency, PointResult};

const TOOL: &str = "VMFleet";

/// Columns that say how the load looked, by the names that both versions use.
const SHAPE: [&str; 12] =
    ["b", "block", "t", "threads", "o", "outstanding", "w", "writeratio", "p", "pattern", "iops", "align"];

/// Every row of a table.
pub(super) fn read(source: &Source) -> Result<Vec<PointResult>> {
    let first = source.text.lines().find(|line| !line.starts_with('#')).unwrap_or_default();
    let skipped = source.text.lines().take_while(|line| line.starts_with('#')).count();
    let start = source.text.find(first).unwrap_or(0);
    let text = source.text.get(start..).unwrap_or_default();
    let mut all = rows(source, text, skipped + 1, delimiter(first));
    let Some(header) = all.next().transpose()? else {
        return Err(source.error(1, "the file is empty; give VMFleet's result.tsv"));
    };
    let header = Header::of(&header);
    let columns = Columns::of(&header);
    if columns.read_iops.is_none() && columns.write_iops.is_none() {
        return Err(source.error(
            skipped + 1,
            "no column AverageReadIOPS, AverageWriteIOPS, ReadIOPS or WriteIOPS; give VMFleet's result.tsv",
        ));
    }
    let mut results = Vec::new();
    for row in all {
        let row = row?;
        if row.cells().all(str::is_empty) {
            continue;
        }
        if row.len() != header.len() {
            return Err(source.error(
                row.line,
                format_args!(
                    "{} cells where the header has {}: the file is cut short; copy it again",
                    row.len(),
                    header.len()
                ),
            ));
        }
        results.push(columns.result(source, &header, &row)?);
    }
    if results.is_empty() {
        return Err(source.ends_before("the first row of figures"));
    }
    Ok(results)
}

/// Where the figures stand.
#[derive(Debug)]
struct Columns {
    read_iops: Option<usize>,
    write_iops: Option<usize>,
    read_bytes: Option<usize>,
    write_bytes: Option<usize>,
    cpu: Option<usize>,
    kernel: Option<usize>,
    seconds: Option<usize>,
    /// Columns left of `RunType` are the sweep's own.
    keys: usize,
}

impl Columns {
    fn of(header: &Header) -> Self {
        Self {
            read_iops: header.find(&["AverageReadIOPS", "ReadIOPS"]),
            write_iops: header.find(&["AverageWriteIOPS", "WriteIOPS"]),
            read_bytes: header.find(&["AverageReadBW", "ReadBW"]),
            write_bytes: header.find(&["AverageWriteBW", "WriteBW"]),
            cpu: header.find(&["AverageCPU", "CPU"]),
            kernel: header.find(&["CPUKern"]),
            seconds: header.find(&["TestTime"]),
            keys: header.find(&["RunType"]).unwrap_or(0),
        }
    }

    fn result(&self, source: &Source, header: &Header, row: &Row) -> Result<PointResult> {
        let mut result = blank(source, TOOL);
        let figure = |column: Option<usize>| column.map(|at| row.cell(at)).and_then(amount);
        let needed = |column: Option<usize>| match column.map(|at| (at, row.cell(at))) {
            None | Some((_, "")) => Ok(0.0),
            Some((at, cell)) => amount(cell).ok_or_else(|| {
                source.error(row.line, format_args!("'{cell}' in column {} is not a number", header.name(at)))
            }),
        };
        result.point = self.point(header, row);
        result.seconds = figure(self.seconds).unwrap_or(0.0);
        result.load.read = rates(needed(self.read_iops)?, needed(self.read_bytes)?, result.seconds);
        result.load.write = rates(needed(self.write_iops)?, needed(self.write_bytes)?, result.seconds);
        if let Some(read) = &mut result.load.read {
            read.latency = latency(header, row, "Read");
        }
        if let Some(write) = &mut result.load.write {
            write.latency = latency(header, row, "Write");
        }
        if let Some(busy) = figure(self.cpu) {
            let system = figure(self.kernel).unwrap_or(0.0);
            let machine = Machine { processors: 0, busy, user: (busy - system).max(0.0), system };
            result.cpu = machine.cpu(result.seconds, format!("{TOOL}: mean of the nodes"));
        }
        let extra = [
            "VMCount",
            "QOSperVM",
            "AverageCSVIOPS",
            "AverageCSVReadMilliseconds",
            "AverageCSVWriteMilliseconds",
        ];
        for name in extra {
            if let Some(value) = figure(header.find(&[name])) {
                result.extra.insert(name.to_lowercase(), value);
            }
        }
        Ok(result)
    }

    /// The load in fio's words, then what else the sweep varied.
    fn point(&self, header: &Header, row: &Row) -> Vec<lab_model::result::Coordinate> {
        let cell = |names: &[&str]| {
            header.find(names).map(|column| row.cell(column)).filter(|cell| !cell.is_empty())
        };
        let kilobytes = cell(&["b"]).and_then(amount).map(|size| whole(size * 1024.0));
        let shape = Shape {
            block: kilobytes.or_else(|| cell(&["Block"]).and_then(count)),
            write_percent: cell(&["w", "WriteRatio"]).and_then(amount),
            random: cell(&["p", "Pattern"]).map(|pattern| pattern.to_lowercase().starts_with('r')),
            depth: cell(&["o", "Outstanding"]).and_then(count),
            threads: cell(&["t", "Threads"]).and_then(count),
        };
        let mut point = shape.coordinates();
        for column in 0..self.keys {
            let name = header.name(column);
            if !SHAPE.contains(&name) && !row.cell(column).is_empty() {
                point.push(at(name, row.cell(column)));
            }
        }
        if let Some(name) = cell(&["Result", "ResultFileName"]) {
            point.push(at("result", name));
        }
        point
    }
}

/// Mean and percentiles of a direction, under the new names or the old.
fn latency(header: &Header, row: &Row, direction: &str) -> Option<Latency> {
    let figure = |names: &[&str]| {
        header
            .find(names)
            .map(|column| row.cell(column))
            .and_then(amount)
            .map(|milliseconds| milliseconds * MILLISECOND)
    };
    let mean = figure(&[&format!("Average{direction}Milliseconds"), &format!("Lat{direction}AV")])?;
    let mut all = Latency { mean, ..Latency::default() };
    for percentile in ["25", "50", "75", "90", "95", "99", "99.9", "99.99", "99.999"] {
        let names = [format!("{direction}Milliseconds{percentile}"), format!("Lat{direction}{percentile}")];
        if let Some(value) = figure(&[&names[0], &names[1]]) {
            all.percentiles.insert(format!("p{percentile}"), value);
        }
    }
    all.max = figure(&[&format!("Lat{direction}100")]).unwrap_or(0.0);
    Some(all)
}
