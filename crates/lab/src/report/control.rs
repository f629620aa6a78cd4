//! The A/A control: one arm against itself, in pairs like any other. What it finds is the smallest difference that this
//! bench can show.

use std::collections::BTreeMap;

use crate::result::{PointResult, point_name};
use crate::scenario::Metric;
use crate::statistics::metric::{Context, value_of};

use super::chart::{Chart, Horizontal, Rule, Series, Shape, Vertical};
use super::figure::{Drawn, number, real};
use super::run::Run;
use super::table::{Cell, Table};
use super::values::{Draws, Summary};

/// What is compared, the first that a pair has.
const METRICS: [Metric; 3] = [Metric::Transactions, Metric::Iops, Metric::Bandwidth];

/// The pairs of a point.
struct Pairs {
    point: String,
    metric: Metric,
    evidence: &'static str,
    /// By how many per cent the second of each pair was above the first.
    differences: Vec<f64>,
}

/// Draws the control.
pub(crate) fn draw(run: &Run) -> Drawn {
    let draws = Draws::default();
    let mut table =
        Table::new(["point", "metric", "evidence", "difference (%)", "95 % from", "95 % to", "pairs"]);
    let mut points = Vec::new();
    let mut categories = Vec::new();
    let mut widest: f64 = 0.0;
    let pairs = pairs(&run.control);
    for one in &pairs {
        let Some(summary) = Summary::of(one.differences.iter().copied(), &draws) else { continue };
        widest = widest.max(summary.low.abs()).max(summary.high.abs());
        points.push([real(categories.len()), summary.value, summary.low, summary.high]);
        categories.push(one.point.clone());
        let texts = [one.point.as_str(), one.metric.title(), one.evidence].map(Cell::text);
        let numbers = [summary.value, summary.low, summary.high, real(summary.count)].map(Cell::Number);
        table.rows.push(texts.into_iter().chain(numbers).collect());
    }
    let evidence = pairs.first().map_or("", |one| one.evidence);
    let mut charts: Vec<Chart> =
        if points.is_empty() { Vec::new() } else { vec![chart(evidence, categories, points)] };
    let id = "lab-control".to_owned();
    number(&id, &mut charts);
    Drawn {
        id,
        title: "A/A control: one arm against itself".to_owned(),
        notes: vec![note(widest, table.rows.is_empty())],
        charts,
        svg: String::new(),
        table,
        verdicts: Vec::new(),
    }
}

fn note(widest: f64, none: bool) -> String {
    if none {
        return "This run has no A/A control, so what this bench can tell apart is not known.".to_owned();
    }
    format!("The smallest difference that this bench can show: {widest:.1} %.")
}

fn chart(evidence: &str, categories: Vec<String>, points: Vec<[f64; 4]>) -> Chart {
    Chart {
        id: String::new(),
        heading: String::new(),
        shape: Shape::Dots,
        description: "Difference between two runs of one arm at each point, in per cent".to_owned(),
        watermark: evidence.to_owned(),
        x: Horizontal { name: "point".to_owned(), categories, log: false },
        y: vec![Vertical {
            name: "second run over first (%)".to_owned(),
            unit: "%".to_owned(),
            better: String::new(),
        }],
        rules: vec![Rule { value: 0.0, label: "no difference".to_owned(), axis: 0 }],
        series: vec![Series {
            name: format!("A against A ({evidence})"),
            colour: 0,
            variant: 0,
            axis: 0,
            stack: String::new(),
            labels: Vec::new(),
            points,
        }],
    }
}

/// The pairs of every point, in the order in which the points were found.
fn pairs(control: &[PointResult]) -> Vec<Pairs> {
    let mut points: Vec<(String, BTreeMap<u32, Vec<&PointResult>>)> = Vec::new();
    for result in control.iter().filter(|result| result.valid()) {
        let name = point_name(&result.point);
        let place = points.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
            points.push((name, BTreeMap::new()));
            points.len() - 1
        });
        if let Some((_, pairs)) = points.get_mut(place) {
            pairs.entry(result.repetition).or_default().push(result);
        }
    }
    points.into_iter().filter_map(|(point, pairs)| pairs_of(point, &pairs)).collect()
}

fn pairs_of(point: String, pairs: &BTreeMap<u32, Vec<&PointResult>>) -> Option<Pairs> {
    let whole = || pairs.values().filter(|pair| pair.len() == 2).map(|pair| sorted(pair));
    let value = |metric, result| value_of(metric, result, &Context::default());
    let metric =
        METRICS.into_iter().find(|metric| whole().flatten().any(|one| value(*metric, one).is_some()))?;
    let evidence = whole().flatten().next()?.evidence.label();
    let differences = whole().filter_map(|pair| {
        let [first, second] = pair.as_slice() else { return None };
        let (first, second) = (value(metric, first)?, value(metric, second)?);
        (first > 0.0).then(|| (second / first - 1.0) * 100.0)
    });
    Some(Pairs { point, metric, evidence, differences: differences.collect() })
}

/// A pair in the order of its arms' names: `A`, then `A2`.
fn sorted<'a>(pair: &[&'a PointResult]) -> Vec<&'a PointResult> {
    let mut pair = pair.to_vec();
    pair.sort_by(|one, other| one.arm.cmp(&other.arm));
    pair
}
