//! The A/A control: an arm against itself, in pairs like any other. What it seems to find is what this bench makes up.

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
    let points = analyse_pairs(&mut Bootstrap::new(SEED), pairs(results, ARMS, metric), ARMS, metric);
    let reach =
        points.iter().filter_map(|point| point.ratio).map(|ratio| ratio.high.max(1.0 / ratio.low) - 1.0);
    let smallest_percent = reach.reduce(f64::max)? * 100.0;
    Some(Control { smallest_percent, points })
}

impl Control {
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
}
