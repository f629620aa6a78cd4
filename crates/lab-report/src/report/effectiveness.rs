//! Processor effectiveness, a row for each arm: what an arm does for each per cent of processor, as the publications draw it.
//!
//! The host alone, as published, and below it, thinner, the host with the adapter, which no publication shows. It is drawn here,
//! without the script, as rows that fit a narrow screen and paper; arms that were not measured there have a grey row.

use std::fmt::Write;

use lab_model::result::{Coordinate, point_name};
use lab_model::scenario::{Arm, Metric};
use lab_model::statistics::number::real_length;

use super::plan::Drawn;
use super::series::{Group, Measured};
use super::summary::Summary;
use super::svg::{colour, escaped};
use super::table::{Cell, Table};
use super::units::{self, Unit};
use super::values::summary;
use super::words;

/// What is drawn: the first that any arm has.
const METRICS: [Metric; 3] =
    [Metric::EffectivenessIops, Metric::EffectivenessBandwidth, Metric::EffectivenessTransactions];
/// One arm is no comparison.
const LEAST_ARMS: usize = 2;

/// An arm's row.
struct Row<'a> {
    arm: &'a Arm,
    colour: usize,
    measured: Option<Bars<'a>>,
}

/// What an arm reached.
struct Bars<'a> {
    group: &'a Group<'a>,
    host: Summary,
    /// Absent where the arm has no adapter.
    with_adapter: Option<Summary>,
}

/// Draws the effectiveness; nothing where fewer than two arms have one at the same point.
pub(crate) fn draw(measured: &Measured<'_>) -> Option<Drawn> {
    let (metric, point) = METRICS.into_iter().find_map(|metric| Some((metric, place(measured, metric)?)))?;
    let rows = rows(measured, metric, point);
    let note = format!(
        "At {}, for each per cent of the machine's processors. Bars begin at zero, whiskers are 95 % intervals; the thin bar \
         counts the adapter's processor time too.",
        point_name(point)
    );
    Some(Drawn {
        id: "lab-effectiveness".to_owned(),
        title: format!("{}, an arm a row", metric.title()),
        notes: vec![note],
        charts: Vec::new(),
        svg: html(&rows, metric),
        table: table(measured, &rows, metric),
        comparisons: Vec::new(),
    })
}

/// The first of the points at which most arms have the metric.
fn place<'a>(measured: &Measured<'a>, metric: Metric) -> Option<&'a [Coordinate]> {
    let mut points: Vec<(&[Coordinate], usize)> = Vec::new();
    for group in &measured.groups {
        if summary(measured, group, metric).is_none() {
            continue;
        }
        match points.iter_mut().find(|(point, _)| *point == group.point) {
            Some((_, arms)) => *arms += 1,
            None => points.push((group.point, 1)),
        }
    }
    let most = points.iter().map(|(_, arms)| *arms).max().filter(|most| *most >= LEAST_ARMS)?;
    points.into_iter().find(|(_, arms)| *arms == most).map(|(point, _)| point)
}

fn rows<'a>(measured: &'a Measured<'_>, metric: Metric, point: &[Coordinate]) -> Vec<Row<'a>> {
    let bars = |arm: &Arm| {
        let mut groups = measured.groups.iter();
        let group = groups.find(|group| group.arm.key == arm.key && group.point == point)?;
        let with_adapter = group.results.iter().any(|result| result.cpu.adapter.is_some());
        let with_adapter = with_adapter && metric == Metric::EffectivenessIops;
        Some(Bars {
            group,
            host: summary(measured, group, metric)?,
            with_adapter: with_adapter
                .then(|| summary(measured, group, Metric::EffectivenessWithAdapter))
                .flatten(),
        })
    };
    let arms = measured.scenario.arms.iter().enumerate();
    arms.map(|(colour, arm)| Row { arm, colour, measured: bars(arm) }).collect()
}

fn html(rows: &[Row<'_>], metric: Metric) -> String {
    let ends = rows.iter().filter_map(|row| row.measured.as_ref()).flat_map(|bars| {
        [Some(bars.host.high), bars.with_adapter.map(|both| both.high)].into_iter().flatten()
    });
    let end = ends.fold(f64::MIN_POSITIVE, f64::max);
    let mut html = String::from("<div class=\"rows\">");
    for row in rows {
        let label = escaped(&words::arm(&row.arm.key, &row.arm.name));
        let Some(bars) = &row.measured else {
            let _ = write!(
                html,
                "<div class=\"row absent\"><span>{label}</span><span class=\"track\"></span><span>not measured here</span></div>"
            );
            continue;
        };
        let mut track = bar("reach", row.colour, bars.host, end);
        if let Some(both) = bars.with_adapter {
            track.push_str(&bar("reach thin", row.colour, both, end));
        }
        let value = escaped(&metric.format(bars.host.value));
        let evidence = escaped(bars.group.evidence());
        let _ = write!(
            html,
            "<div class=\"row\"><span>{label} ({evidence})</span><span class=\"track\">{track}</span><span>{value}</span></div>"
        );
    }
    html.push_str("</div>");
    html
}

/// A bar from zero with its whisker, in per cent of the track.
fn bar(class: &str, place: usize, one: Summary, end: f64) -> String {
    let [value, low, high] = [one.value, one.low, one.high].map(|number| number / end * 100.0);
    format!(
        "<span class=\"{class}\" style=\"width:{value:.2}%;background:{}\"></span>\
         <span class=\"whisker{}\" style=\"left:{low:.2}%;width:{:.2}%\"></span>",
        colour(place),
        class.strip_prefix("reach").unwrap_or_default(),
        (high - low).max(0.0)
    )
}

fn table(measured: &Measured<'_>, rows: &[Row<'_>], metric: Metric) -> Table {
    let mut table = Table::new(["arm", "name", "evidence"]);
    let with_adapter = (metric == Metric::EffectivenessIops).then_some(Metric::EffectivenessWithAdapter);
    let metrics: Vec<Metric> = [metric].into_iter().chain(with_adapter).collect();
    for metric in &metrics {
        table.column(units::with_unit(*metric, Unit::new(*metric, measured.scenario)));
        table.minor_column(format!("{}: 95 % from", metric.title()));
        table.minor_column(format!("{}: 95 % to", metric.title()));
    }
    table.minor_column("repetitions");
    for row in rows {
        let Some(bars) = &row.measured else { continue };
        let texts = [row.arm.key.as_str(), row.arm.name.as_str(), bars.group.evidence()];
        let mut cells: Vec<Cell> = texts.map(Cell::text).into();
        for (metric, one) in metrics.iter().zip([Some(bars.host), bars.with_adapter]) {
            let unit = Unit::new(*metric, measured.scenario);
            let one = one.map(|one| one.map(|value| unit.of(value)));
            let numbers = [one.map(|one| one.value), one.map(|one| one.low), one.map(|one| one.high)];
            cells.extend(numbers.map(Cell::number));
        }
        cells.push(Cell::Number(real_length(bars.group.results.len())));
        table.rows.push(cells);
    }
    table
}
