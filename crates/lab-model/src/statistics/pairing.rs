//! Pairs: the two arms' results of one point and one repetition, which ran one after the other.
//!
//! What drifts over minutes (a neighbour's load, the processor's clock, a device's fill) hits both runs of a pair alike and
//! cancels in their ratio. So nothing here ever compares an arm's average with the other's.

use std::collections::BTreeMap;

use super::metric::{Context, value_of};
use crate::result::{Coordinate, PointResult};
use crate::scenario::Metric;

/// The pairs of two arms at one point.
#[derive(Debug, Clone, PartialEq)]
pub struct Pairs {
    /// The point.
    pub point: Vec<Coordinate>,
    /// ln(A / B) of each usable pair, by repetition.
    pub log_ratios: Vec<f64>,
    /// Pairs that are not usable: a side is missing, invalid, or without a positive value of the metric.
    pub unusable: u32,
}

/// One arm's and the other's result, as far as they are there.
type Sides<'a> = (Option<&'a PointResult>, Option<&'a PointResult>);

/// The pairs of arm `a` against arm `b` at every point that either has, in the order in which points first appear. Of two results
/// of the same arm, point and repetition the later one counts.
pub fn pairs(results: &[PointResult], (a, b): (&str, &str), metric: Metric) -> Vec<Pairs> {
    pairs_with(results, (a, b), &|result| value_of(metric, result, &Context::default()))
}

/// The same for any value of a result.
pub fn pairs_with<'a>(
    results: impl IntoIterator<Item = &'a PointResult>,
    (a, b): (&str, &str),
    value: &dyn Fn(&PointResult) -> Option<f64>,
) -> Vec<Pairs> {
    let mut points: Vec<(&[Coordinate], BTreeMap<u32, Sides<'_>>)> = Vec::new();
    for result in results.into_iter().filter(|result| result.arm == a || result.arm == b) {
        let place = points.iter().position(|(point, _)| *point == result.point).unwrap_or_else(|| {
            points.push((&result.point, BTreeMap::new()));
            points.len() - 1
        });
        let Some((_, repetitions)) = points.get_mut(place) else { continue };
        let sides = repetitions.entry(result.repetition).or_default();
        *(if result.arm == a { &mut sides.0 } else { &mut sides.1 }) = Some(result);
    }
    points.into_iter().map(|(point, repetitions)| of_point(point, &repetitions, value)).collect()
}

fn of_point(
    point: &[Coordinate],
    repetitions: &BTreeMap<u32, Sides<'_>>,
    value: &dyn Fn(&PointResult) -> Option<f64>,
) -> Pairs {
    let positive =
        |side: Option<&PointResult>| side.and_then(value).filter(|&value| value > 0.0 && value.is_finite());
    let log_ratio = |&(a, b): &Sides<'_>| Some((positive(a)? / positive(b)?).ln());
    let log_ratios: Vec<f64> = repetitions.values().filter_map(log_ratio).collect();
    let unusable = u32::try_from(repetitions.len() - log_ratios.len()).unwrap_or(u32::MAX);
    Pairs { point: point.to_vec(), log_ratios, unusable }
}
