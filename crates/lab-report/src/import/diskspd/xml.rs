//! `diskspd -Rxml`: one `<Results>` with the system, the profile and a `<TimeSpan>` for each that ran.

use anyhow::Result;
use roxmltree::{Document, Node, ParsingOptions};

use super::super::blank::{MILLISECOND, Machine, Shape, blank, direction};
use super::super::limits;
use super::super::number::{amount, count};
use super::super::source::Source;
use super::common::{TOOL, put, put_total, start_time};
use lab_model::result::{Interval, Latency, PointResult};

/// Elements and texts of one file: a thousand threads on a hundred files.
const MOST_NODES: u32 = 4_000_000;

pub(super) fn read(source: &Source) -> Result<Vec<PointResult>> {
    let options = ParsingOptions { allow_dtd: false, nodes_limit: MOST_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(&source.text, options).map_err(|error| {
        let line = usize::try_from(error.pos().row).unwrap_or(1);
        source.error(
            line,
            format_args!("no whole XML ({error}): the file is cut short or was changed; copy it again"),
        )
    })?;
    let root = document.root_element();
    if root.tag_name().name() != "Results" {
        return Err(source.error(
            1,
            format_args!(
                "<{}> is not DiskSpd's <Results>: run DiskSpd with -Rxml and give its output",
                root.tag_name().name()
            ),
        ));
    }
    let shapes: Vec<Shape> = path(root, &["Profile", "TimeSpans"])
        .map(|spans| children(spans, "TimeSpan").map(shape).collect())
        .unwrap_or_default();
    let mut all = Vec::new();
    for (index, span) in children(root, "TimeSpan").enumerate() {
        let mut result = blank(source, TOOL);
        about(&mut result, root);
        result.point = shapes.get(index).cloned().unwrap_or_default().coordinates();
        measured(source, span, &mut result)?;
        all.push(result);
    }
    if all.is_empty() {
        return Err(source.ends_before("the first <TimeSpan> of results"));
    }
    Ok(all)
}

/// Version, command line and start.
fn about(result: &mut PointResult, root: Node<'_, '_>) {
    if let Some(version) = path(root, &["System", "Tool", "Version"]).and_then(|at| at.text()) {
        version.trim().clone_into(&mut result.tool.version);
    }
    if let Some(started) = path(root, &["System", "RunTime"]).and_then(|at| at.text()).and_then(start_time) {
        result.started = started;
    }
}

/// What the targets of a time span have in common.
fn shape(span: Node<'_, '_>) -> Shape {
    let targets: Vec<Node<'_, '_>> =
        path(span, &["Targets"]).map(|all| children(all, "Target").collect()).unwrap_or_default();
    let common = |name: &str| {
        let mut values = targets.iter().map(|target| value(*target, name).and_then(amount));
        let first = values.next().flatten()?;
        values.all(|other| other == Some(first)).then_some(first)
    };
    let whole = |name: &str| common(name).map(super::super::number::whole);
    let random = targets.first().map(|target| {
        value(*target, "RandomRatio")
            .or_else(|| value(*target, "Random"))
            .and_then(amount)
            .is_some_and(|by| by > 0.0)
    });
    Shape {
        block: whole("BlockSize"),
        write_percent: common("WriteRatio"),
        random,
        depth: whole("RequestCount"),
        threads: value(span, "ThreadCount")
            .and_then(count)
            .filter(|threads| *threads > 0)
            .or_else(|| whole("ThreadsPerFile").map(|each| each.saturating_mul(targets.len() as u64))),
    }
}

/// The figures of one time span.
fn measured(source: &Source, span: Node<'_, '_>, result: &mut PointResult) -> Result<()> {
    let line = line_of(span);
    if let Some(error) = value(span, "Error") {
        return Err(source.error(line, format_args!("DiskSpd says of this time span: {error}")));
    }
    result.seconds = value(span, "TestTimeSeconds")
        .and_then(amount)
        .filter(|seconds| *seconds > 0.0)
        .ok_or_else(|| {
            source.error(line, "a <TimeSpan> without <TestTimeSeconds>: the run was interrupted; repeat it")
        })?;
    let processors = value(span, "ProcCount").and_then(|text| text.parse().ok()).unwrap_or(0);
    if let Some(average) = path(span, &["CpuUtilization", "Average"]) {
        let percent = |name| value(average, name).and_then(amount).unwrap_or(0.0);
        let machine = Machine {
            processors,
            busy: percent("UsagePercent"),
            user: percent("UserPercent"),
            system: percent("KernelPercent"),
        };
        result.cpu = machine.cpu(result.seconds, format!("{TOOL}: the whole machine"));
    }
    let latency = child(span, "Latency");
    let read = latency.and_then(|at| distribution(at, "Read"));
    let write = latency.and_then(|at| distribution(at, "Write"));
    if let Some(total) = latency.and_then(|at| distribution(at, "Total")) {
        put_total(result, &total);
    }
    let targets = || children(span, "Thread").flat_map(|thread| children(thread, "Target"));
    if targets().next().is_none() {
        return Err(source
            .error(line, "a <TimeSpan> without <Thread> and <Target> results: the run failed; repeat it"));
    }
    let sum = |name: &str| {
        targets().filter_map(|target| value(target, name).and_then(count)).fold(0, u64::saturating_add)
    };
    result.load.read = direction(sum("ReadCount"), sum("ReadBytes"), result.seconds, read);
    result.load.write = direction(sum("WriteCount"), sum("WriteBytes"), result.seconds, write);
    result.intervals = intervals(span, result);
    Ok(())
}

/// A direction's latencies, if DiskSpd was told to measure them (`-L`).
fn distribution(latency: Node<'_, '_>, direction: &str) -> Option<Latency> {
    let mean = value(latency, &format!("Average{direction}Milliseconds")).and_then(amount)?;
    let deviation_name =
        if direction == "Total" { "LatencyStdev".to_owned() } else { format!("{direction}LatencyStdev") };
    let mut all = Latency {
        mean: mean * MILLISECOND,
        deviation: value(latency, &deviation_name).and_then(amount).unwrap_or(0.0) * MILLISECOND,
        ..Latency::default()
    };
    for bucket in children(latency, "Bucket") {
        let percentile = value(bucket, "Percentile").and_then(amount);
        let milliseconds = value(bucket, &format!("{direction}Milliseconds")).and_then(amount);
        if let (Some(percentile), Some(milliseconds)) = (percentile, milliseconds) {
            put(&mut all, percentile, milliseconds * MILLISECOND);
        }
    }
    Some(all)
}

/// The I/O rate bucket by bucket (`-D`); bytes follow from the mean size of an I/O.
fn intervals(span: Node<'_, '_>, result: &PointResult) -> Vec<Interval> {
    let Some(iops) = child(span, "Iops") else { return Vec::new() };
    let mean_size = super::super::number::ratio(result.bytes_per_second(), result.iops());
    let figure = |bucket: Node<'_, '_>, name: &str| bucket.attribute(name).and_then(amount);
    children(iops, "Bucket")
        .take(limits::MOST_INTERVALS)
        .filter_map(|bucket| {
            let rate = figure(bucket, "Total")?;
            let part = |direction: &str| {
                let count = figure(bucket, direction)?;
                Some(count * figure(bucket, &format!("{direction}AvgLatencyMilliseconds"))?)
            };
            let weighted = part("Read").unwrap_or(0.0) + part("Write").unwrap_or(0.0);
            Some(Interval {
                at: figure(bucket, "SampleMillisecond")? / 1000.0,
                iops: rate,
                bytes_per_second: rate * mean_size,
                latency: (weighted > 0.0 && rate > 0.0).then(|| weighted / rate * MILLISECOND),
                ..Interval::default()
            })
        })
        .collect()
}

fn children<'a, 'i>(node: Node<'a, 'i>, name: &'static str) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(move |child| child.has_tag_name(name))
}

fn child<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    node.children().find(|child| child.has_tag_name(name))
}

fn path<'a, 'i>(node: Node<'a, 'i>, names: &[&str]) -> Option<Node<'a, 'i>> {
    names.iter().try_fold(node, |at, name| child(at, name))
}

fn value<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    child(node, name).and_then(|at| at.text()).map(str::trim)
}

fn line_of(node: Node<'_, '_>) -> usize {
    let position = node.document().text_pos_at(node.range().start);
    usize::try_from(position.row).unwrap_or(1)
}
