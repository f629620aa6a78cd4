//! Loads that are a share of what an arm can do: how much that is, is found before the first point is measured.
//!
//! A latency at a fixed rate compares arms of which one idles and another drowns. So `rate_iops = "50%"` is half of what the closed
//! loop of `[calibration]` came to on the same arm (or on one arm for all, where `of` names it) in the same run, at the same other
//! coordinates. What was found is part of the run's record.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::sweep::{self, Point};
use super::{Arm, Scenario};
use crate::result::Coordinate;
use crate::statistics::bootstrap::median;

/// The setting that may be a share.
pub const RATE: &str = "rate_iops";

/// What an arm was found to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibrated {
    /// The arm's key.
    pub arm: String,
    /// The coordinates beside the rate.
    pub point: Point,
    /// I/Os per second: the median of the runs.
    pub iops: f64,
    /// I/Os per second of each run.
    pub runs: Vec<f64>,
}

impl Calibrated {
    /// What runs came to; `None` without any.
    pub fn of(arm: &str, point: &[Coordinate], runs: Vec<f64>) -> Option<Self> {
        let mut sorted = runs.clone();
        sorted.sort_by(f64::total_cmp);
        let iops = median(&sorted).filter(|iops| *iops >= 1.0)?;
        Some(Self { arm: arm.to_owned(), point: point.to_vec(), iops, runs })
    }
}

/// The share that settings ask for, between 0 and 1; `None` where the rate is none or a number of its own.
pub fn share(settings: &BTreeMap<String, String>) -> Option<f64> {
    let percent: f64 = settings.get(RATE)?.strip_suffix('%')?.trim().parse().ok()?;
    Some(percent / 100.0)
}

/// A point without its rate: all that a calibration depends on.
pub fn place(point: &[Coordinate]) -> Point {
    point.iter().filter(|at| at.axis != RATE).cloned().collect()
}

/// Settings of the closed loop that finds out what an arm does at a place.
pub fn closed_loop(scenario: &Scenario, arm: &Arm, place: &[Coordinate]) -> BTreeMap<String, String> {
    let mut settings = sweep::settings(scenario, arm, place);
    settings.remove(RATE);
    settings.extend(scenario.calibration.iter().flat_map(|calibration| calibration.with.clone()));
    settings
}

/// Settings with the share as a number, of what was found.
pub fn loaded(mut settings: BTreeMap<String, String>, iops: f64) -> BTreeMap<String, String> {
    if let Some(share) = share(&settings) {
        settings.insert(RATE.to_owned(), format!("{:.0}", (share * iops).max(1.0)));
    }
    settings
}

/// An arm that is to be calibrated.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted<'s> {
    /// The arm.
    pub arm: &'s Arm,
    /// Where.
    pub place: Point,
}

/// The arms to be calibrated and where, each once: those whose loads are shares, or the one of which all get a share.
pub fn wanted<'s>(scenario: &'s Scenario, points: &[Point]) -> Vec<Wanted<'s>> {
    let mut all: Vec<Wanted<'_>> = Vec::new();
    for point in points {
        for arm in &scenario.arms {
            let source = source(scenario, arm);
            let (Some(source), Some(_)) = (source, share(&sweep::settings(scenario, arm, point))) else {
                continue;
            };
            let one = Wanted { arm: source, place: place(point) };
            if !all.iter().any(|known| known.arm.key == one.arm.key && known.place == one.place) {
                all.push(one);
            }
        }
    }
    all
}

/// The arm of which an arm gets a share.
pub fn source<'s>(scenario: &'s Scenario, arm: &Arm) -> Option<&'s Arm> {
    let key = scenario.calibration.as_ref()?.of.as_ref().unwrap_or(&arm.key);
    scenario.arms.iter().find(|arm| arm.key == *key)
}

/// Measurements that the calibration takes.
pub fn measurements(scenario: &Scenario, points: &[Point]) -> usize {
    let runs = scenario.calibration.as_ref().map_or(0, |calibration| calibration.runs);
    wanted(scenario, points).len() * usize::try_from(runs).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::sweep::Extent;

    fn scenario(calibration: &str) -> Scenario {
        let arm = |key: char| {
            format!(
                "[[arm]]\nkey='{key}'\nname='{key}'\ninitiator='linerate'\ntarget='linerate-iscsi'\nevidence={{kind='real'}}\n"
            )
        };
        let text = format!(
            "id='f.n'\ntitle='t'\nquestion='q'\nsource={{publication='p'}}\n[workload]\ntool='fio'\noptions={{iodepth='64'}}\n\
             [calibration]\n{calibration}\n[[sweep]]\naxis='bs'\nvalues=['4k','8k']\n\
             [[sweep]]\naxis='rate_iops'\nvalues=['25%','50%','1000']\n{}{}",
            arm('A'),
            arm('B')
        );
        toml::from_str(&text).unwrap()
    }

    fn names(scenario: &Scenario) -> Vec<String> {
        let wanted = wanted(scenario, &sweep::points(scenario, Extent::Full));
        wanted
            .iter()
            .map(|Wanted { arm, place }| format!("{} {}", arm.key, crate::result::point_name(place)))
            .collect()
    }

    #[test]
    fn each_arm_is_calibrated_once_at_each_place() {
        let own = scenario("with={iodepth='128'}");
        assert_eq!(names(&own), ["A bs=4k", "B bs=4k", "A bs=8k", "B bs=8k"]);
        assert_eq!(measurements(&own, &sweep::points(&own, Extent::Full)), 12);
        assert_eq!(names(&scenario("of='A'")), ["A bs=4k", "A bs=8k"]);
    }

    #[test]
    fn a_closed_loop_has_no_rate_and_an_open_one_has_its_share() {
        let scenario = scenario("with={iodepth='128'}");
        let points = sweep::points(&scenario, Extent::Full);
        let arm = &scenario.arms[0];
        let closed = closed_loop(&scenario, arm, &points[0]);
        assert_eq!((closed.get(RATE), closed["iodepth"].as_str()), (None, "128"));
        let given = |point: usize| loaded(sweep::settings(&scenario, arm, &points[point]), 90_001.0);
        assert_eq!((given(0)[RATE].as_str(), given(0)["iodepth"].as_str()), ("22500", "64"));
        assert_eq!((given(1)[RATE].as_str(), given(2)[RATE].as_str()), ("45000", "1000"));
    }

    #[test]
    fn the_median_of_the_runs_counts() {
        let calibrated = |runs: &[f64]| Calibrated::of("A", &[], runs.to_vec());
        assert_eq!(calibrated(&[300.0, 100.0, 200.0]).unwrap().iops.to_bits(), 200_f64.to_bits());
        assert_eq!(calibrated(&[]), None);
        assert_eq!(calibrated(&[0.0]), None, "nothing to take a share of");
    }
}
