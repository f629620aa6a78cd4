//! The A/A control: an arm against itself, in pairs like any other. What it seems to find is what this bench makes up.
//!
//! It gates every comparison of arms ([`Widths::gate`]): without a control that says what the bench makes up, nothing is shown.

use std::collections::BTreeMap;

use super::metric::{Context, value_of};
use super::number::real_length;
use super::pairing::{ArmPair, pairs};
use super::verdict::{Finding, PointVerdict, analyse_pairs};
use super::{SEED, bootstrap::Bootstrap};
use crate::result::PointResult;
use crate::scenario::Metric;

/// The arms of a control block's results.
pub const ARMS: ArmPair<'_> = ArmPair { a: "A", b: "A2" };

/// What a control block showed.
#[derive(Debug, Clone, PartialEq)]
pub struct Control {
    /// The farthest that an interval reached from "no difference", in per cent.
    pub smallest_percent: f64,
    /// The verdict of each point of the block.
    pub points: Vec<PointVerdict>,
}

/// What the control block of a run shows, of results whose arms are [`ARMS`]. `None` when no point has enough usable pairs.
pub fn control(results: &[PointResult], metric: Metric) -> Option<Control> {
    control_with(&mut Bootstrap::new(SEED), results, metric)
}

fn control_with(bootstrap: &mut Bootstrap, results: &[PointResult], metric: Metric) -> Option<Control> {
    let points = analyse_pairs(bootstrap, pairs(results, ARMS, metric), ARMS, metric);
    let reach =
        points.iter().filter_map(|point| point.ratio).map(|ratio| ratio.high.max(1.0 / ratio.low) - 1.0);
    let smallest_percent = reach.reduce(f64::max)? * 100.0;
    Some(Control { smallest_percent, points })
}

/// How far a run's control reached from "no difference", metric by metric: a logarithm, at the noisiest point that it has.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Widths(BTreeMap<Metric, f64>);

impl Widths {
    /// Of a control block's results. A metric of which no point has enough usable pairs has no width.
    pub fn of(results: &[PointResult]) -> Self {
        Self::of_with(&mut Bootstrap::new(SEED), results)
    }

    /// The same with draws that were made before.
    pub(crate) fn of_with(bootstrap: &mut Bootstrap, results: &[PointResult]) -> Self {
        let width = |metric| Some((metric, control_with(bootstrap, results, metric)?.width()));
        Self(Metric::ALL.into_iter().filter_map(width).collect())
    }

    /// The width of a metric.
    pub fn width(&self, metric: Metric) -> Option<f64> {
        self.0.get(&metric).copied()
    }

    /// What a difference in a metric has to exceed: the metric's own width, or the widest of all where the arm of the control does not
    /// have the metric. A price is exact. `None` when the control has too few undisturbed pairs: then no difference is shown, however large.
    pub fn gate(&self, metric: Metric) -> Option<f64> {
        let metric = metric.without_price();
        self.width(metric).or_else(|| self.0.values().copied().reduce(f64::max))
    }

    /// What a difference in a metric has to exceed between runs with these controls: the widest gate. `None` where one has none.
    pub fn wider(of: &[Self], metric: Metric) -> Option<f64> {
        of.iter().map(|one| one.gate(metric)).reduce(|one, other| Some(one?.max(other?)))?
    }

    /// Whether no metric has a width.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// How much an arm's undisturbed results of one point scatter: the standard deviation of their logarithms. `None` for fewer than two.
pub fn spread(results: &[PointResult], arm: &str, metric: Metric) -> Option<f64> {
    let logs: Vec<f64> = results
        .iter()
        .filter(|result| result.arm == arm && result.doubt().is_none())
        .filter_map(|result| value_of(metric, result, &Context::default()))
        .filter(|&value| value > 0.0)
        .map(f64::ln)
        .collect();
    let count = real_length(logs.len());
    let mean = logs.iter().sum::<f64>() / count;
    let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    (logs.len() > 1).then(|| (squares / (count - 1.0)).sqrt())
}

impl Control {
    /// The reach as the logarithm of a ratio.
    pub fn width(&self) -> f64 {
        (self.smallest_percent / 100.0).ln_1p()
    }

    /// Whether identical arms came out as different: then no verdict of the run is to be believed.
    pub fn is_biased(&self) -> bool {
        self.points.iter().any(|point| matches!(point.finding, Finding::Higher | Finding::Lower))
    }

    /// `the smallest difference that this bench can show: 7 %`, with a warning where identical arms differed.
    pub fn words(&self) -> String {
        let digits = usize::from(self.smallest_percent < 10.0);
        let smallest =
            format!("the smallest difference that this bench can show: {:.digits$} %", self.smallest_percent);
        match self.points.iter().find(|point| matches!(point.finding, Finding::Higher | Finding::Lower)) {
            Some(point) => format!(
                "{smallest}; identical arms came out as different ({point}): find out why before believing anything else"
            ),
            None => smallest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::result;
    use super::*;

    fn block(first: f64, second: [f64; 6]) -> Vec<PointResult> {
        let mut results = Vec::new();
        for (repetition, iops) in (1..).zip(second) {
            results.push(result("A", repetition, first));
            results.push(result("A2", repetition, iops));
        }
        results
    }

    #[test]
    fn the_width_is_the_farthest_end_in_either_direction() {
        let control =
            control(&block(1000.0, [950.0, 990.0, 1000.0, 1010.0, 1030.0, 1020.0]), Metric::Iops).unwrap();
        let ratio = control.points[0].ratio.unwrap();
        assert!(ratio.high >= 1000.0 / 950.0);
        assert!((control.smallest_percent - (ratio.high - 1.0) * 100.0).abs() < 1e-9, "{control:?}");
        assert!(!control.is_biased());
        assert!(
            control.words().starts_with("the smallest difference that this bench can show: 5."),
            "{}",
            control.words()
        );
    }

    #[test]
    fn identical_arms_that_differ_are_told() {
        let control =
            control(&block(1000.0, [800.0, 801.0, 802.0, 803.0, 804.0, 805.0]), Metric::Iops).unwrap();
        assert!(control.is_biased());
        assert!(control.words().contains("A higher by 25 % (CI 24–25, 6 pairs)"), "{}", control.words());
    }

    #[test]
    fn too_few_pairs_say_nothing() {
        assert_eq!(control(&block(1.0, [1.0; 6])[..8], Metric::Iops), None);
        assert_eq!(control(&[], Metric::Iops), None);
    }

    #[test]
    fn a_metric_that_the_control_lacks_takes_the_widest_and_no_control_gates_nothing() {
        let noisy = block(1000.0, [900.0, 990.0, 1000.0, 1010.0, 1100.0, 1020.0]);
        let widths = Widths::of(&noisy);
        let widest = widths.width(Metric::Iops).unwrap().max(widths.width(Metric::Bandwidth).unwrap());
        assert_eq!(widths.width(Metric::Transactions), None);
        assert_eq!(widths.gate(Metric::Transactions), Some(widest));
        assert_eq!(widths.gate(Metric::Iops), widths.width(Metric::Iops));
        let none = Widths::of(&noisy[..8]);
        assert_eq!(none.gate(Metric::Iops), None);
        let narrow = Widths::of(&block(1000.0, [1000.0; 6]));
        assert_eq!(Widths::wider(&[narrow.clone(), widths.clone()], Metric::Iops), widths.gate(Metric::Iops));
        assert_eq!(Widths::wider(&[widths, none], Metric::Iops), None, "one control does not gate two runs");
        assert_eq!(Widths::wider(&[], Metric::Iops), None);
    }
}
