//! One number of a group: the median of its repetitions, with its bootstrap interval.
//!
//! Percentiles come from the merged histograms of the repetitions where there are histograms: an average of percentiles is
//! a percentile of nothing. The interval is then still that of the repetitions.

use std::cell::RefCell;

use crate::result::{Latency, PointResult};
use crate::scenario::{Initiator, Metric};
use crate::statistics::SEED;
use crate::statistics::bootstrap::{Bootstrap, median};
use crate::statistics::histogram::percentile_of_all;
use crate::statistics::metric::{Context, value_of};

use super::link;
use super::series::{Group, Measured};

/// The bootstrap's draws, shared by all the numbers of a report.
#[derive(Debug)]
pub(crate) struct Draws(RefCell<Bootstrap>);

impl Default for Draws {
    fn default() -> Self {
        Self(RefCell::new(Bootstrap::new(SEED)))
    }
}

/// A number with its interval, in base units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Summary {
    /// Median of the repetitions, or the percentile of all of them together.
    pub(crate) value: f64,
    /// Lower end of the 95 % interval.
    pub(crate) low: f64,
    /// Its upper end.
    pub(crate) high: f64,
    /// Repetitions that have the number.
    pub(crate) count: usize,
}

impl Summary {
    /// Of some numbers; none of none.
    pub(crate) fn of(numbers: impl IntoIterator<Item = f64>, draws: &Draws) -> Option<Self> {
        let mut sorted: Vec<f64> = numbers.into_iter().filter(|number| number.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = draws.0.borrow_mut().interval(&sorted)?;
        // What is never negative (a rate, a share, a time) is not so at the end of its interval either.
        let low = if *sorted.first()? >= 0.0 { low.max(0.0) } else { low };
        Some(Self { value: median(&sorted)?, low, high, count: sorted.len() })
    }

    /// Another value with the same interval, which is made to hold it.
    pub(crate) const fn around(self, value: f64) -> Self {
        Self { value, low: self.low.min(value), high: self.high.max(value), count: self.count }
    }

    /// Everything changed alike: another unit.
    pub(crate) fn map(self, change: impl Fn(f64) -> f64) -> Self {
        Self { value: change(self.value), low: change(self.low), high: change(self.high), count: self.count }
    }
}

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
        payload_rate: link::payload_rate(measured.scenario, group),
        local_latency: local_latency(measured, group),
    }
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
