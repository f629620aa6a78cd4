//! The first arm against each other one, at every point of a figure, in words.
//!
//! Pairs are corrected over all points of the run, not only the figure's, so that a figure of few points is no easier to
//! pass than the sweep it is cut from. What stood in for a thing is not compared with the thing itself.

use lab_model::result::{Coordinate, PointResult, point_name};
use lab_model::scenario::{Arm, Figure, FigureKind, Metric};
use lab_model::statistics::SEED;
use lab_model::statistics::bootstrap::Bootstrap;
use lab_model::statistics::metric::{Context, value_of};
use lab_model::statistics::pairing::{ArmPair, pairs_with};
use lab_model::statistics::verdict::{Finding, PointVerdict, analyse_pairs};

use super::series::{Group, Measured};
use super::{values, words};

/// More metrics than this of one figure are not compared in words.
const MOST_METRICS: usize = 2;

/// One arm over another in a metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// `IOPS: A linerate initiator over B libiscsi`.
    pub(crate) title: String,
    /// How often what was found.
    pub(crate) summary: String,
    /// Point and verdict.
    pub(crate) rows: Vec<(String, String)>,
}

/// The comparisons of a figure; none of stacks, whose parts mean something only together.
pub(crate) fn comparisons(measured: &Measured<'_>, figure: &Figure) -> Vec<Comparison> {
    if figure.kind == FigureKind::Stacked {
        return Vec::new();
    }
    let groups = measured.of(figure);
    let Some((first, others)) = measured.scenario.arms.split_first() else { return Vec::new() };
    let evidence = |arm: &Arm| {
        let group = groups.iter().find(|group| group.arm.key == arm.key);
        group.and_then(|group| group.results.first()).map(|result| &result.evidence)
    };
    let Some(own) = evidence(first) else { return Vec::new() };
    let there = others.iter().filter_map(|other| Some((other, evidence(other)?)));
    let (fit, unfit): (Vec<_>, Vec<_>) = there.partition(|(_, other)| own.comparable(other));
    let metrics = figure.y.iter().take(MOST_METRICS);
    let pairs = metrics.flat_map(|metric| fit.iter().map(|(other, _)| (*metric, *other)));
    let compared = pairs.filter_map(|(metric, other)| {
        compared(measured, figure, &Pair { a: first, b: other, metric }, &groups)
    });
    let unfit: Vec<String> =
        unfit.iter().map(|(other, evidence)| format!("{} ({})", other.key, evidence.label())).collect();
    let refused = (!unfit.is_empty()).then(|| Comparison {
        title: "Not compared".to_owned(),
        summary: format!(
            "{} ({}) with {}: what stands in for a thing is not the thing",
            first.key,
            own.label(),
            unfit.join(", ")
        ),
        rows: Vec::new(),
    });
    compared.chain(refused).collect()
}

/// Two arms, of which one is compared with the other by a metric.
struct Pair<'a> {
    a: &'a Arm,
    b: &'a Arm,
    metric: Metric,
}

fn compared(
    measured: &Measured<'_>,
    figure: &Figure,
    pair: &Pair<'_>,
    groups: &[&Group<'_>],
) -> Option<Comparison> {
    let Pair { a, b, metric } = *pair;
    let title =
        format!("{}: {} over {}", metric.title(), words::arm(&a.key, &a.name), words::arm(&b.key, &b.name));
    let points = verdicts(measured, ArmPair { a: &a.key, b: &b.key }, metric);
    let points: Vec<PointVerdict> = points
        .into_iter()
        .filter(|verdict| groups.iter().any(|group| group.point == verdict.point))
        .collect();
    let rows = points.iter().map(|verdict| (shown(figure, &verdict.point), verdict.words())).collect();
    (!points.is_empty()).then(|| Comparison { title, summary: summary(&points), rows })
}

/// The verdicts of two arms at every point of the run.
fn verdicts(measured: &Measured<'_>, arms: ArmPair<'_>, metric: Metric) -> Vec<PointVerdict> {
    let value = |result: &PointResult| {
        let mut groups = measured.groups.iter();
        let group = groups.find(|group| group.arm.key == result.arm && group.point == result.point);
        let context = group.map_or_else(Context::default, |group| values::context(measured, group));
        value_of(metric, result, &context)
    };
    let pairs = pairs_with(measured.points, arms, &value);
    let width = measured.widths.gate(metric);
    let verdicts = analyse_pairs(&mut Bootstrap::new(SEED), pairs, arms, metric);
    verdicts.into_iter().map(|verdict| verdict.beside(width)).collect()
}

/// The point without what the whole figure has in common.
fn shown(figure: &Figure, point: &[Coordinate]) -> String {
    let own: Vec<Coordinate> = point.iter().filter(|at| !figure.at.contains_key(&at.axis)).cloned().collect();
    point_name(if own.is_empty() { point } else { &own })
}

/// `higher at 3 of 9 points, no difference shown at 6`.
fn summary(points: &[PointVerdict]) -> String {
    let of = |finding| points.iter().filter(|point| point.finding == finding).count();
    let all = [
        ("higher", of(Finding::Higher)),
        ("lower", of(Finding::Lower)),
        ("no difference shown", of(Finding::NoDifference)),
        ("not enough pairs", of(Finding::NotEnough)),
        ("not shown for want of a control", of(Finding::NoControl)),
    ];
    let found = all.into_iter().filter(|(_, count)| *count > 0);
    let found: Vec<String> = found.map(|(finding, count)| format!("{finding} at {count}")).collect();
    format!("{} of {}", found.join(", "), words::count(points.len(), "point"))
}
