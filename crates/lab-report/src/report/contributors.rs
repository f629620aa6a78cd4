//! Contributors to a latency: what each arm adds to the next one, pair by pair.
//!
//! A stack of one metric has its arms ordered from the whole to its innermost part, each with one thing less than the one before
//! it: the difference of two neighbours is the share of that thing. The local arm is no part of the path, and neither is a target
//! that a site brings, which lies on another path.

use lab_model::scenario::{Arm, Initiator, Metric, Target};
use lab_model::statistics::metric::value_of;
use lab_model::statistics::number::real_length;

use super::chart::{Chart, Series};
use super::plan::{Plan, evidence, split};
use super::series::{Group, values_of};
use super::summary::Summary;
use super::table::{Cell, Table};
use super::values;
use super::{units, words};

/// A part of the path at a point.
struct Part {
    /// `A − B`, or the innermost arm alone.
    name: String,
    /// What the arms are called.
    explanation: String,
    summary: Summary,
}

/// The parts at each value along x, innermost first.
fn parts(plan: &Plan<'_>, metric: Metric, groups: &[&Group<'_>]) -> Vec<(String, Vec<Part>)> {
    let axes: Vec<String> = plan.x.iter().chain(&plan.series).chain(&plan.panels).cloned().collect();
    let points = split(groups, |group| values_of(group, &axes));
    points.into_iter().map(|(name, groups)| (name, parts_at(plan, metric, &groups))).collect()
}

fn parts_at(plan: &Plan<'_>, metric: Metric, groups: &[&Group<'_>]) -> Vec<Part> {
    let path: Vec<&&Group<'_>> = groups.iter().filter(|group| is_on_path(group.arm)).collect();
    let inner = path.iter().skip(1).map(Some).chain([None]);
    let parts =
        path.iter().zip(inner).filter_map(|(own, inner)| part(plan, metric, own, inner.map(|group| **group)));
    let mut parts: Vec<Part> = parts.collect();
    parts.reverse();
    parts
}

fn is_on_path(arm: &Arm) -> bool {
    arm.initiator != Initiator::Local && arm.target != Target::Site
}

/// What `own` has beyond `inner`, of the pairs that both have.
fn part(plan: &Plan<'_>, metric: Metric, own: &Group<'_>, inner: Option<&Group<'_>>) -> Option<Part> {
    let unit = plan.unit(metric);
    let each = |group: &Group<'_>| -> Vec<(u32, f64)> {
        let context = values::context(plan.measured, group);
        let value = |result: &&lab_model::result::PointResult| {
            Some((result.repetition, unit.of(value_of(metric, result, &context)?)))
        };
        group.results.iter().filter_map(value).collect()
    };
    let (all, less) = (each(own), inner.map(each));
    let beyond = |(pair, value): &(u32, f64)| match &less {
        None => Some(*value),
        Some(less) => less.iter().find(|(other, _)| other == pair).map(|(_, inner)| value - inner),
    };
    let summary = Summary::of(all.iter().filter_map(beyond), &plan.measured.draws)?;
    let (name, explanation) = match inner {
        Some(inner) => (
            format!("{} − {}", own.arm.key, inner.arm.key),
            format!("{} less {}", own.arm.name, inner.arm.name),
        ),
        None => (own.arm.key.clone(), own.arm.name.clone()),
    };
    Some(Part { name, explanation, summary })
}

/// A bar for each value along x, the parts upon each other.
pub(crate) fn chart(plan: &Plan<'_>, mut chart: Chart, metric: Metric, groups: &[&Group<'_>]) -> Chart {
    let points = parts(plan, metric, groups);
    chart.x.categories = points.iter().map(|(name, _)| name.clone()).collect();
    for (place, (_, parts)) in points.iter().enumerate() {
        for (colour, part) in parts.iter().enumerate() {
            let name = format!("{}: {} ({})", part.name, part.explanation, evidence(groups).join(", "));
            let one = part.summary;
            let point = [real_length(place), one.value, one.low, one.high];
            match chart.series.iter_mut().find(|series| series.name == name) {
                Some(series) => series.points.push(point),
                None => chart.series.push(Series {
                    name,
                    colour,
                    variant: 0,
                    axis: 0,
                    stack: "parts".to_owned(),
                    labels: Vec::new(),
                    points: vec![point],
                }),
            }
        }
    }
    chart
}

/// The same numbers.
pub(crate) fn table(plan: &Plan<'_>, metric: Metric) -> Table {
    let unit = plan.unit(metric);
    let x = plan.x.as_deref().map_or("point", |axis| units::axis(axis));
    let mut table = Table::new([x, "part", "what", "evidence"]);
    table.column(units::with_unit(metric, unit));
    for name in ["95 % from", "95 % to", "pairs"] {
        table.minor_column(name);
    }
    let labels = evidence(&plan.groups).join(", ");
    for (name, parts) in parts(plan, metric, &plan.groups) {
        for part in parts {
            let texts = [&name, &part.name, &part.explanation, &labels].map(Cell::text);
            let one = part.summary;
            let numbers = [one.value, one.low, one.high, real_length(one.count)].map(Cell::Number);
            table.rows.push(texts.into_iter().chain(numbers).collect());
        }
    }
    table
}

/// Said under the figure.
pub(crate) fn note(plan: &Plan<'_>) -> String {
    let keys = plan.measured.scenario.arms.iter().filter(|arm| is_on_path(arm));
    let keys: Vec<String> = keys.map(|arm| words::arm(&arm.key, &arm.name)).collect();
    format!(
        "Parts are differences, pair by pair, of arms that each have one thing less: {}.",
        keys.join("; ")
    )
}
