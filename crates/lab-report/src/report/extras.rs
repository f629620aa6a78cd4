//! What every run shows beside the publication's figures: processor effectiveness by arm, latency against load, the trace of the window, the A/A control,
//! the limiter over time and, of a run over several machines or nodes, what each did.

use std::collections::BTreeMap;

use lab_model::scenario::{Figure, FigureKind, Metric};

use super::plan::Drawn;
use super::run::Run;
use super::series::Measured;
use super::values::summary;
use super::{control, effectiveness, kinds, limiter, machines, nodes};

/// Axes along which load grows, the one that counts first first.
const LOADS: [&str; 5] = ["iodepth", "numjobs", "threads", "parallel", "volumes"];

/// The figures, in the order of the page.
pub(crate) fn draw(run: &Run, measured: &Measured<'_>) -> Vec<Drawn> {
    let hockey = hockey(measured).map(|figure| kinds::draw(measured, &figure));
    let trace = trace(measured).map(|figure| kinds::draw(measured, &figure));
    effectiveness::draw(measured)
        .into_iter()
        .chain(hockey)
        .chain(trace)
        .chain([control::draw(run), limiter::draw(run)])
        .chain(machines::draw(run))
        .chain(nodes::draw(run))
        .collect()
}

/// Latency against load, where a load was swept and the scenario does not draw it itself.
fn hockey(measured: &Measured<'_>) -> Option<Figure> {
    let scenario = measured.scenario;
    if scenario.figures.iter().any(|figure| figure.kind == FigureKind::Hockey) {
        return None;
    }
    let swept = |name: &&&str| scenario.sweep.iter().any(|axis| axis.axis == **name && axis.values.len() > 1);
    let axis = LOADS.iter().find(swept)?;
    let metric =
        [Metric::LatencyP99, Metric::LatencyMean].into_iter().find(|metric| seen(measured, *metric))?;
    Some(Figure {
        x: Some((*axis).to_owned()),
        ..figure("latency-against-load", "Latency against load", FigureKind::Hockey, metric)
    })
}

/// The rate in every second of the window.
fn trace(measured: &Measured<'_>) -> Option<Figure> {
    let metrics = [Metric::Transactions, Metric::Iops, Metric::Bandwidth];
    let metric = metrics.into_iter().find(|metric| seen(measured, *metric))?;
    let some =
        measured.groups.iter().flat_map(|group| &group.results).any(|result| !result.intervals.is_empty());
    some.then(|| Figure {
        x: Some("time".to_owned()),
        ..figure(
            "steady-state",
            "Steady state: the rate in each second of the window",
            FigureKind::OverTime,
            metric,
        )
    })
}

/// Whether any group has the metric.
fn seen(measured: &Measured<'_>, metric: Metric) -> bool {
    measured.groups.iter().any(|group| summary(measured, group, metric).is_some())
}

fn figure(id: &str, title: &str, kind: FigureKind, metric: Metric) -> Figure {
    Figure {
        id: format!("lab-{id}"),
        title: title.to_owned(),
        kind,
        x: None,
        y: vec![metric],
        series: Vec::new(),
        at: BTreeMap::new(),
        line_rate: false,
        title_lost: false,
    }
}
