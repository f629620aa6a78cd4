//! How long a run takes: what its plan promises before anything is measured.

use super::sweep::{Extent, points};
use super::{Design, Scenario, calibration};
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
/// with the A/A control (two arms at one point, as often as the least) and the calibration.
pub fn seconds(scenario: &Scenario, extent: Extent) -> Seconds {
    if scenario.arms.is_empty() {
        return Seconds::default();
    }
    let cells = real_length(points(scenario, extent).len() * scenario.arms.len());
    let one = scenario.design.seconds_each();
    let control = 2.0 * f64::from(scenario.design.min_pairs) * one;
    let calibration = real_length(calibration::measurements(scenario, &points(scenario, extent))) * one;
    let all = |pairs: u32| cells * f64::from(pairs) * one + control + calibration;
    Seconds { least: all(scenario.design.min_pairs), most: all(scenario.design.max_pairs) }
}

impl Design {
    /// Seconds that one arm takes once: ramp, window and [`OVERHEAD_SECONDS`].
    pub fn seconds_each(&self) -> f64 {
        self.ramp + self.runtime + OVERHEAD_SECONDS
    }
}
