//! Figures over the seconds of the window: the median of the repetitions at each second, and a band for its interval.

use lab_model::result::{Interval, ONLY_POINT};
use lab_model::scenario::{Figure, Metric};
use lab_model::statistics::number::real_length;

use super::chart::{Chart, Horizontal, Series, Shape, Vertical};
use super::plan::{Drawn, arms, legend, notes, number, shorten, split, watermark};
use super::series::{Group, Measured, name};
use super::summary::Summary;
use super::table::{Cell, Table};
use super::units::{self, Unit};

/// Draws a figure over time: a chart for each point and metric, a line for each arm.
pub(crate) fn draw(measured: &Measured<'_>, figure: &Figure) -> Drawn {
    let mut charts = Vec::new();
    let mut notes = notes(figure);
    let mut table = Table::new(["point", "arm", "name", "evidence", "second"]);
    for metric in &figure.y {
        table.column(units::with_unit(*metric, Unit::new(*metric, measured.scenario)));
        table.minor_column(format!("{}: 95 % from", metric.title()));
        table.minor_column(format!("{}: 95 % to", metric.title()));
    }
    table.minor_column("repetitions");
    for (point, groups) in split(&measured.of(figure), name) {
        for metric in &figure.y {
            charts.push(chart(measured, figure, &Place { heading: &point, groups: &groups }, *metric));
        }
        for group in &groups {
            table.rows.extend(rows(measured, figure, &point, group));
        }
    }
    let silent = |metric: &&Metric| {
        measured.of(figure).iter().all(|group| seconds(measured, group, **metric).is_empty())
    };
    let silent: Vec<&str> = figure.y.iter().filter(silent).map(|metric| metric.title()).collect();
    if !silent.is_empty() {
        notes.push(format!("Not given by the second: {}.", silent.join(", ")));
    }
    shorten(&mut charts, &mut notes);
    number(&figure.id, &mut charts);
    let (id, title) = (figure.id.clone(), figure.title.clone());
    Drawn { id, title, notes, charts, svg: String::new(), table, comparisons: Vec::new() }
}

/// A point of the run, with what was measured there.
struct Place<'a> {
    heading: &'a str,
    groups: &'a [&'a Group<'a>],
}

fn chart(measured: &Measured<'_>, figure: &Figure, place: &Place<'_>, metric: Metric) -> Chart {
    let Place { heading, groups } = *place;
    let unit = Unit::new(metric, measured.scenario);
    let series = groups.iter().map(|group| {
        let seconds = seconds(measured, group, metric).into_iter();
        let points = seconds.map(|(at, one)| {
            let one = one.map(|value| unit.of(value));
            [at, one.value, one.low, one.high]
        });
        let (name, points) = (legend(group, ""), points.collect());
        Series {
            name,
            colour: group.index,
            variant: 0,
            axis: 0,
            stack: String::new(),
            labels: Vec::new(),
            points,
        }
    });
    let heading = if heading == ONLY_POINT { String::new() } else { heading.to_owned() };
    let heading = if figure.y.len() > 1 { format!("{} {heading}", metric.title()) } else { heading };
    Chart {
        id: String::new(),
        heading: heading.trim().to_owned(),
        shape: Shape::Trace,
        description: format!("{}: {} over time of {}", figure.title, metric.title(), arms(groups).join(", ")),
        watermark: watermark(groups),
        x: Horizontal {
            name: "time since the window began (s)".to_owned(),
            categories: Vec::new(),
            log: false,
        },
        y: vec![Vertical {
            name: units::with_unit(metric, unit),
            unit: unit.name.to_owned(),
            better: units::better(metric).to_owned(),
            zero: true,
            marks: None,
        }],
        rules: Vec::new(),
        series: series.collect(),
    }
}

/// Each second of the window with the median of the repetitions and its interval.
fn seconds(measured: &Measured<'_>, group: &Group<'_>, metric: Metric) -> Vec<(f64, Summary)> {
    let longest = group.results.iter().map(|result| result.intervals.len()).max().unwrap_or(0);
    let at = |place: usize| {
        let all = group.results.iter().filter_map(|result| result.intervals.get(place));
        let end = all.clone().next()?.at;
        Some((end, Summary::of(all.filter_map(|interval| of(interval, metric)), &measured.draws)?))
    };
    (0..longest).filter_map(at).collect()
}

/// What an interval says of a metric; nothing where tools give it only for the whole window.
fn of(interval: &Interval, metric: Metric) -> Option<f64> {
    match metric {
        Metric::Iops => Some(interval.iops),
        Metric::Bandwidth => Some(interval.bytes_per_second),
        Metric::LatencyMean => interval.latency,
        Metric::CpuHost => interval.cpu_percent,
        Metric::Transactions => interval.transactions,
        _ => None,
    }
}

/// A row for each second; a cell is missing where a second has no such number.
fn rows(measured: &Measured<'_>, figure: &Figure, point: &str, group: &Group<'_>) -> Vec<Vec<Cell>> {
    let columns: Vec<Vec<(f64, Summary)>> =
        figure.y.iter().map(|metric| seconds(measured, group, *metric)).collect();
    let mut ends: Vec<f64> = columns.iter().flatten().map(|(at, _)| *at).collect();
    ends.sort_by(f64::total_cmp);
    ends.dedup();
    let row = |end: f64| {
        let texts = [point, &group.arm.key, &group.arm.name, group.evidence()];
        let mut row: Vec<Cell> = texts.map(Cell::text).into();
        row.push(Cell::Number(end));
        for (metric, column) in figure.y.iter().zip(&columns) {
            let unit = Unit::new(*metric, measured.scenario);
            let found = column.iter().find(|(at, _)| at.total_cmp(&end).is_eq()).map(|(_, one)| *one);
            let one = found.map(|one| one.map(|value| unit.of(value)));
            row.extend(
                [one.map(|one| one.value), one.map(|one| one.low), one.map(|one| one.high)].map(Cell::number),
            );
        }
        row.push(Cell::Number(real_length(group.results.len())));
        row
    };
    ends.into_iter().map(row).collect()
}
