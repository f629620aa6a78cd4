//! Pairs: the two arms' results of one point and one repetition, which ran one after the other.
//!
//! What drifts over minutes (a neighbour's load, the processor's clock, a device's fill) hits both runs of a pair alike and
//! cancels in their ratio. So nothing here ever compares an arm's average with the other's.

use std::collections::BTreeMap;

use super::metric::{Context, value_of};
use super::number::count;
use crate::result::{Coordinate, PointResult};
use crate::scenario::Metric;

/// The pairs of two arms at one point.
#[derive(Debug, Clone, PartialEq)]
pub struct Pairs {
    /// The point.
    pub point: Vec<Coordinate>,
    /// ln(A / B) of each usable pair, by repetition.
    pub log_ratios: Vec<f64>,
    /// Pairs that are not usable: a side is missing, invalid, doubtful, or without a positive value of the metric.
    pub unusable: u32,
    /// Of those, pairs that would have a value, and of which a side was contended, unsteady or throttled.
    pub doubtful: u32,
}

/// Two arms that are compared, by their keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArmPair<'a> {
    /// The arm whose values are divided.
    pub a: &'a str,
    /// The arm whose values they are divided by.
    pub b: &'a str,
}

/// Both arms' results of one repetition, as far as they are there.
#[derive(Debug, Clone, Copy, Default)]
struct Repetition<'a> {
    a: Option<&'a PointResult>,
    b: Option<&'a PointResult>,
}

/// The pairs of two arms at every point that either has, in the order in which points first appear. Of two results
/// of the same arm, point and repetition the later one counts.
pub fn pairs(results: &[PointResult], arms: ArmPair<'_>, metric: Metric) -> Vec<Pairs> {
    pairs_with(results, arms, &|result| value_of(metric, result, &Context::default()))
}

/// The same for any value of a result.
pub fn pairs_with<'a>(
    results: impl IntoIterator<Item = &'a PointResult>,
    arms: ArmPair<'_>,
    value: &dyn Fn(&PointResult) -> Option<f64>,
) -> Vec<Pairs> {
    let mut points: Vec<(&[Coordinate], BTreeMap<u32, Repetition<'_>>)> = Vec::new();
    for result in results.into_iter().filter(|result| result.arm == arms.a || result.arm == arms.b) {
        let place = points.iter().position(|(point, _)| *point == result.point).unwrap_or_else(|| {
            points.push((&result.point, BTreeMap::new()));
            points.len() - 1
        });
        let Some((_, repetitions)) = points.get_mut(place) else { continue };
        let repetition = repetitions.entry(result.repetition).or_default();
        *(if result.arm == arms.a { &mut repetition.a } else { &mut repetition.b }) = Some(result);
    }
    points.into_iter().map(|(point, repetitions)| of_point(point, &repetitions, value)).collect()
}

fn of_point(
    point: &[Coordinate],
    repetitions: &BTreeMap<u32, Repetition<'_>>,
    value: &dyn Fn(&PointResult) -> Option<f64>,
) -> Pairs {
    let positive =
        |side: Option<&PointResult>| side.and_then(value).filter(|&value| value > 0.0 && value.is_finite());
    let log_ratio = |of: &Repetition<'_>| Some((positive(of.a)? / positive(of.b)?).ln());
    let (doubtful, sound): (Vec<_>, Vec<_>) = repetitions.values().partition(|of| of.doubtful());
    let log_ratios: Vec<f64> = sound.into_iter().filter_map(log_ratio).collect();
    Pairs {
        point: point.to_vec(),
        unusable: count(repetitions.len() - log_ratios.len()),
        doubtful: count(doubtful.into_iter().filter_map(log_ratio).count()),
        log_ratios,
    }
}

impl Repetition<'_> {
    /// Whether the machine was disturbed while a side was measured.
    fn doubtful(&self) -> bool {
        self.a.iter().chain(&self.b).any(|result| result.doubt().is_some())
    }
}
