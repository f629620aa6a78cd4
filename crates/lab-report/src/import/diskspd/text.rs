//! DiskSpd's summary as text: input parameters, then for each time span processor use, three tables by thread and the
//! percentiles of latency.

use anyhow::Result;

use super::super::blank::{MILLISECOND, Machine, Shape, blank};
use super::super::number::{amount, count, float, ratio};
use super::super::source::Source;
use super::common::{TOOL, put, put_total, start_time};
use lab_model::result::{Direction, Latency, PointResult};

/// Bytes of the MiB/s column's unit.
const MIB: f64 = 1_048_576.0;

/// Lines with their numbers, from 1.
type Lines<'a> = [(usize, &'a str)];

pub(super) fn read(source: &Source) -> Result<Vec<PointResult>> {
    let lines: Vec<(usize, &str)> =
        source.text.lines().enumerate().map(|(at, line)| (at + 1, line.trim())).collect();
    let starts: Vec<usize> = indices(&lines, |line| line.starts_with("Results for timespan"));
    let Some(first) = starts.first().copied() else {
        let known = source.text.contains("Command Line:") || source.text.contains("timespan:");
        return Err(if known {
            source.ends_before("'Results for timespan'")
        } else {
            source.error(1, "this is not DiskSpd's output: give what diskspd printed, as text or with -Rxml")
        });
    };
    let (before, _) = lines.split_at(first);
    let shapes = shapes(before);
    let mut all = Vec::new();
    for (index, start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).copied().unwrap_or(lines.len());
        let span = lines.get(*start..end).unwrap_or_default();
        let mut result = blank(source, TOOL);
        about(&mut result, before);
        result.point = shapes.get(index).cloned().unwrap_or_default().coordinates();
        measured(source, span, &mut result)?;
        all.push(result);
    }
    Ok(all)
}

fn indices(lines: &Lines<'_>, wanted: impl Fn(&str) -> bool) -> Vec<usize> {
    lines.iter().enumerate().filter(|(_, (_, line))| wanted(line)).map(|(at, _)| at).collect()
}

fn after<'a>(lines: &Lines<'a>, label: &str) -> Option<&'a str> {
    lines.iter().find_map(|(_, line)| line.strip_prefix(label)).map(str::trim)
}

fn about(result: &mut PointResult, before: &Lines<'_>) {
    if let Some(command) = after(before, "Command Line:") {
        result.tool.argv = command.split_whitespace().map(str::to_owned).collect();
    }
    if let Some(started) = after(before, "start time:").and_then(start_time) {
        result.started = started;
    }
}

/// The input parameters of each time span, one target standing for all when there are several.
fn shapes(before: &Lines<'_>) -> Vec<Shape> {
    let starts = indices(before, |line| line.starts_with("timespan:"));
    starts
        .iter()
        .enumerate()
        .map(|(index, start)| {
            let end = starts.get(index + 1).copied().unwrap_or(before.len());
            shape(before.get(*start..end).unwrap_or_default())
        })
        .collect()
}

fn shape(lines: &Lines<'_>) -> Shape {
    let files = lines.iter().filter(|(_, line)| line.starts_with("path:")).count().max(1);
    let has = |text: &str| lines.iter().any(|(_, line)| line.starts_with(text));
    let write_percent = if has("performing read test") {
        Some(0.0)
    } else if has("performing write test") {
        Some(100.0)
    } else {
        after(lines, "performing mix test (read/write ratio:")
            .and_then(|rest| rest.trim_end_matches(')').split('/').nth(1))
            .and_then(amount)
    };
    let random = (has("using random I/O") || has("using mixed random/sequential I/O")).then_some(true);
    Shape {
        block: after(lines, "block size:").and_then(bytes),
        write_percent,
        random: random.or_else(|| has("using").then_some(false)),
        depth: after(lines, "number of outstanding I/O operations per thread:")
            .or_else(|| after(lines, "number of outstanding I/O operations:"))
            .and_then(count),
        threads: after(lines, "threads per file:")
            .and_then(count)
            .map(|each| each.saturating_mul(files as u64))
            .or_else(|| {
                after(lines, "thread pool with").and_then(|rest| rest.split(' ').next()).and_then(count)
            }),
    }
}

/// `65536`, and `64KiB` of newer versions.
fn bytes(text: &str) -> Option<u64> {
    let scale = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match scale.iter().find_map(|(unit, shift)| text.strip_suffix(unit).map(|rest| (rest, shift))) {
        Some((rest, shift)) => {
            amount(rest).map(|number| super::super::number::whole(number * float(1 << shift)))
        }
        None => count(text),
    }
}

fn measured(source: &Source, span: &Lines<'_>, result: &mut PointResult) -> Result<()> {
    let line = span.first().map_or(1, |(line, _)| *line);
    if span.iter().any(|(_, line)| line.starts_with("The test was interrupted")) {
        return Err(source.error(line, "DiskSpd was interrupted before it measured; repeat the run"));
    }
    result.seconds = after(span, "actual test time:")
        .and_then(|time| amount(time.trim_end_matches('s')))
        .filter(|seconds| *seconds > 0.0)
        .ok_or_else(|| {
            source
                .error(line, "no 'actual test time' in this time span: the file is cut short; copy it again")
        })?;
    processor(span, result);
    let read_latency = percentiles(span, 1);
    let write_latency = percentiles(span, 2);
    if let Some(total) = percentiles(span, 3) {
        let mean = totals(source, span, "Total IO")?.latency.map_or(0.0, |of| of.mean);
        put_total(result, &Latency { mean, ..total });
    }
    result.load.read = with_percentiles(totals(source, span, "Read IO")?, read_latency);
    result.load.write = with_percentiles(totals(source, span, "Write IO")?, write_latency);
    Ok(())
}

/// `avg.| 3.96%| 0.32%| 3.64%| 96.04%`: the last four columns, because topology columns may stand before them.
fn processor(span: &Lines<'_>, result: &mut PointResult) {
    let Some((_, line)) = span.iter().find(|(_, line)| line.starts_with("avg.|")) else { return };
    let cells: Vec<f64> = line.split('|').skip(1).filter_map(amount).collect();
    if let [busy, user, system, _] = cells.as_slice() {
        let processors =
            after(span, "proc count:").and_then(|text| text.parse().ok()).unwrap_or_else(|| counted(span));
        let machine = Machine { processors, busy: *busy, user: *user, system: *system };
        result.cpu = machine.cpu(result.seconds, format!("{TOOL}: the whole machine"));
    }
}

/// Rows of the table of processors.
fn counted(span: &Lines<'_>) -> u32 {
    let rows = span.iter().filter(|(_, line)| line.ends_with('%') && !line.starts_with("avg.")).count();
    u32::try_from(rows).unwrap_or(0)
}

/// The `total:` row below a title, by the names of the header's columns.
fn totals(source: &Source, span: &Lines<'_>, title: &str) -> Result<Direction> {
    let from = span.iter().position(|(_, line)| *line == title);
    let Some(table) = from.and_then(|at| span.get(at..)) else {
        return Err(source.ends_before(&format!("the table '{title}'")));
    };
    let header: Vec<&str> = table.get(1).map_or("", |(_, line)| *line).split('|').map(str::trim).collect();
    let Some((line, row)) = table.iter().skip(1).find(|(_, line)| line.starts_with("total:")) else {
        return Err(source.ends_before(&format!("the totals of '{title}'")));
    };
    let cells: Vec<&str> = row.trim_start_matches("total:").split('|').map(str::trim).collect();
    let cell = |name: &str| {
        let column = header.iter().position(|own| *own == name)?;
        cells.get(column.checked_sub(1)?).copied()
    };
    let megabytes = cell("MiB/s").or_else(|| cell("MB/s")).and_then(amount);
    let (Some(bytes), Some(count), Some(iops), Some(megabytes)) = (
        cell("bytes").and_then(count),
        cell("I/Os").and_then(count),
        cell("I/O per s").and_then(amount),
        megabytes,
    ) else {
        return Err(source.error(
            *line,
            format_args!("the totals of '{title}' lack bytes, I/Os or rates; copy the file again"),
        ));
    };
    let latency = cell("AvgLat").and_then(amount).map(|mean| Latency {
        mean: mean * MILLISECOND,
        deviation: cell("LatStdDev").and_then(amount).unwrap_or(0.0) * MILLISECOND,
        ..Latency::default()
    });
    Ok(Direction { ios: count, bytes, iops, bytes_per_second: megabytes * MIB, latency })
}

fn with_percentiles(direction: Direction, percentiles: Option<Latency>) -> Option<Direction> {
    if direction.ios == 0 {
        return None;
    }
    let latency = match (direction.latency, percentiles) {
        (Some(own), Some(more)) => Some(Latency { mean: own.mean, deviation: own.deviation, ..more }),
        (own, more) => own.or(more),
    };
    Some(Direction { latency, ..direction })
}

/// A column (1 read, 2 write, 3 total) of the last table of percentiles, which is the one over all targets.
fn percentiles(span: &Lines<'_>, column: usize) -> Option<Latency> {
    let start = span.iter().rposition(|(_, line)| line.starts_with("%-ile"))?;
    let mut all = Latency::default();
    for (_, line) in span.get(start + 1..)?.iter().skip(1).take_while(|(_, line)| line.contains('|')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let percentile = cells.first().and_then(|name| percentile(name));
        if let (Some(percentile), Some(value)) = (percentile, cells.get(column).and_then(|cell| amount(cell)))
        {
            put(&mut all, percentile, value * MILLISECOND);
        }
    }
    (all.max > 0.0 || ratio(all.min, 1.0) > 0.0 || !all.percentiles.is_empty()).then_some(all)
}

/// `min`, `25th`, `3-nines`, `max` as per cent.
fn percentile(name: &str) -> Option<f64> {
    match name {
        "min" => return Some(0.0),
        "max" => return Some(100.0),
        _ => {}
    }
    if let Some(nines) = name.strip_suffix("-nines") {
        let nines: usize = nines.parse().ok().filter(|nines| (3..=9).contains(nines))?;
        return format!("99.{}", "9".repeat(nines - 2)).parse().ok();
    }
    amount(name.strip_suffix("th")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_percentiles() {
        assert_eq!(percentile("3-nines"), Some(99.9));
        assert_eq!(percentile("4-nines"), Some(99.99));
        assert_eq!(percentile("95th"), Some(95.0));
        assert_eq!(percentile("max"), Some(100.0));
        assert_eq!(percentile("400-nines"), None);
    }

    #[test]
    fn block_sizes_of_old_and_new_versions() {
        assert_eq!(bytes("65536"), Some(65536));
        assert_eq!(bytes("64KiB"), Some(65536));
        assert_eq!(bytes("1MiB"), Some(1 << 20));
    }
}
