//! One number of a group: the median of its repetitions, with its bootstrap interval.
//!
//! Percentiles come from the merged histograms of the repetitions where there are histograms: an average of percentiles is
//! a percentile of nothing. The interval is then still that of the repetitions.

use lab_model::result::{Latency, PointResult};
use lab_model::scenario::{Initiator, Metric, Scenario, topology};
use lab_model::statistics::context::payload_rate as link_payload_rate;
use lab_model::statistics::histogram::percentile_of_all;
use lab_model::statistics::metric::{Context, value_of};

use super::series::{Group, Measured};
use super::summary::Summary;

/// A metric of a group.
pub(crate) fn summary(measured: &Measured<'_>, group: &Group<'_>, metric: Metric) -> Option<Summary> {
    let context = context(measured, group);
    let summary = Summary::of(
        group.results.iter().filter_map(|result| value_of(metric, result, &context)),
        &measured.draws,
    )?;
    Some(match merged(group, metric) {
        // A bucket's bound may lie a little outside of what the repetitions' own tools say.
        Some(value) => summary.around(value),
        None => summary,
    })
}

/// What values of a group depend on beside its own results.
pub(crate) fn context(measured: &Measured<'_>, group: &Group<'_>) -> Context {
    Context {
        payload_rate: payload_rate(measured.scenario, group),
        local_latency: local_latency(measured, group),
        price: measured.prices.and_then(|prices| prices.of(&measured.scenario.id, &group.arm.key).ok()),
    }
}

/// Bytes per second of TCP payload that the link of a group carries in one direction; none where it is not limited, or nothing goes over it.
pub(crate) fn payload_rate(scenario: &Scenario, group: &Group<'_>) -> Option<f64> {
    if group.arm.initiator == Initiator::Local {
        return None;
    }
    let built = topology::at(scenario, group.arm, group.point).ok()?;
    link_payload_rate(&built.link)
}

/// The local arm's mean latency at the same point, unless the group is the local arm itself.
fn local_latency(measured: &Measured<'_>, group: &Group<'_>) -> Option<f64> {
    if group.arm.initiator == Initiator::Local {
        return None;
    }
    let local = measured
        .groups
        .iter()
        .find(|other| other.arm.initiator == Initiator::Local && other.point == group.point)?;
    let means = local.results.iter();
    let means = means.filter_map(|result| value_of(Metric::LatencyMean, result, &Context::default()));
    Summary::of(means, &measured.draws).map(|summary| summary.value)
}

/// A percentile over all repetitions together; none unless all have histograms.
fn merged(group: &Group<'_>, metric: Metric) -> Option<f64> {
    let name = match metric {
        Metric::LatencyP50 | Metric::LatencyRead | Metric::LatencyWrite => "p50",
        Metric::LatencyP95 => "p95",
        Metric::LatencyP99 => "p99",
        Metric::LatencyP999 => "p99.9",
        Metric::LatencyP9999 => "p99.99",
        _ => return None,
    };
    let latencies: Vec<&Latency> =
        group.results.iter().flat_map(|result| latencies(result, metric)).collect();
    percentile_of_all(&latencies, name)
}

/// The distributions that a metric speaks of: of one direction, or of all.
pub(crate) fn latencies(result: &PointResult, metric: Metric) -> Vec<&Latency> {
    let directions = match metric {
        Metric::LatencyRead => vec![result.load.read.as_ref()],
        Metric::LatencyWrite => vec![result.load.write.as_ref()],
        _ if result.directions().next().is_none() => return result.load.transactions.iter().collect(),
        _ => vec![result.load.read.as_ref(), result.load.write.as_ref()],
    };
    directions.into_iter().flatten().filter_map(|direction| direction.latency.as_ref()).collect()
}
