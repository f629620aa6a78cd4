//! How long a run takes: what its plan promises before anything is measured.

use super::sweep::{Extent, Point, points};
use super::{Design, Scenario, calibration, primary};
use crate::statistics::number::real_length;

/// Seconds that a measurement takes besides its ramp and window: starting, stopping and collecting. Measured with fio on
/// two cores; the plan's times are estimates.
pub const OVERHEAD_SECONDS: f64 = 1.5;

/// Between how many seconds something takes, by the pairs that the design asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Seconds {
    /// With the least pairs.
    pub least: f64,
    /// With the most pairs.
    pub most: f64,
}

/// Least and most seconds that a run takes: every arm at every point, as often as the design says at least and at most,
/// with the A/A control (two arms at one point, and once more at the noisiest) and the calibration.
pub fn seconds(scenario: &Scenario, extent: Extent) -> Seconds {
    of_points(scenario, &points(scenario, extent))
}

/// The same of these points.
pub fn of_points(scenario: &Scenario, points: &[Point]) -> Seconds {
    if scenario.arms.is_empty() {
        return Seconds::default();
    }
    let one = scenario.design.seconds_each();
    let control = 2.0 * f64::from(primary::control_pairs(scenario)) * one;
    let calibration = real_length(calibration::measurements(scenario, points)) * one;
    let arms = real_length(scenario.arms.len());
    let all = |pairs: &dyn Fn(Design) -> u32| {
        let pairs = points.iter().map(|point| f64::from(pairs(primary::design(scenario, point))));
        pairs.sum::<f64>() * arms * one + control
    };
    Seconds {
        least: all(&|design| design.min_pairs) + calibration,
        // A second control may follow, at the noisiest point.
        most: all(&|design| design.max_pairs) + if points.len() > 1 { control } else { 0.0 } + calibration,
    }
}

impl Design {
    /// Seconds that one arm takes once: ramp, window and [`OVERHEAD_SECONDS`].
    pub fn seconds_each(&self) -> f64 {
        self.ramp + self.runtime + OVERHEAD_SECONDS
    }
}
