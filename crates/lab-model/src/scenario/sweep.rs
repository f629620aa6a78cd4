//! The points of a scenario: the product of its axes, in the order in which they are worth measuring.
//!
//! The points of the quick extent come first, so that a run that its budget ends early holds the skeleton of the whole.
//! [`settings`] says what an arm is given at a point; the order of precedence stands there and nowhere else.

use std::collections::BTreeMap;

use super::{Arm, Axis, Scenario};
use crate::result::Coordinate;

/// A point: a value on each axis, outermost axis first.
pub type Point = Vec<Coordinate>;

/// How much of a sweep is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Extent {
    /// The values that each axis names as `quick`; of an axis that names none, all.
    Quick,
    /// Every value.
    Full,
}

/// Points of a scenario in the order of their worth: the quick ones, then the others. A scenario without axes has one
/// point without coordinates.
pub fn points(scenario: &Scenario, extent: Extent) -> Vec<Point> {
    let quick = product(&scenario.sweep, Axis::quick_values);
    if extent == Extent::Quick {
        return quick;
    }
    let rest = product(&scenario.sweep, |axis| &axis.values);
    let rest: Vec<Point> = rest.into_iter().filter(|point| !quick.contains(point)).collect();
    quick.into_iter().chain(rest).collect()
}

fn product(axes: &[Axis], values: impl Fn(&Axis) -> &[String]) -> Vec<Point> {
    axes.iter().fold(vec![Point::new()], |points, axis| {
        let extend = |point: &Point, value: &String| {
            let mut longer = point.clone();
            longer.push(Coordinate { axis: axis.axis.clone(), value: value.clone() });
            longer
        };
        points.iter().flat_map(|point| values(axis).iter().map(move |value| extend(point, value))).collect()
    })
}

impl Axis {
    /// The values of the quick extent.
    pub fn quick_values(&self) -> &[String] {
        if self.quick.is_empty() { &self.values } else { &self.quick }
    }
}

/// What an arm is given at a point. Later ones take the place of earlier ones: the workload's options, the options of the
/// job that the point, the arm or the workload names, the point's own values, the arm's `with`.
pub fn settings(scenario: &Scenario, arm: &Arm, point: &[Coordinate]) -> BTreeMap<String, String> {
    let mut all = scenario.workload.options.clone();
    let at = point.iter().map(|at| (at.axis.clone(), at.value.clone()));
    let own: BTreeMap<String, String> = at.chain(arm.with.clone()).collect();
    let job = own.get("job").or_else(|| all.get("job"));
    let named = job.and_then(|name| scenario.workload.jobs.get(name)).cloned().unwrap_or_default();
    all.extend(named);
    all.extend(own);
    all
}

/// Whether a point lies where `at` says: every axis that both name has the same value. An axis that the point lacks
/// matches nothing.
pub fn matches(point: &[Coordinate], at: &BTreeMap<String, String>) -> bool {
    at.iter().all(|(axis, value)| point.iter().any(|here| here.axis == *axis && here.value == *value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(text: &str) -> Scenario {
        let head = "id='f.n'\ntitle='t'\nquestion='q'\nsource={publication='p'}\n";
        let arms = "[[arm]]\nkey='A'\nname='a'\ninitiator='linerate'\ntarget='linerate-iscsi'\nevidence={kind='real'}\nwith={iodepth='7'}\n";
        toml::from_str(&format!("{head}{text}\n{arms}")).unwrap()
    }

    fn names(points: &[Point]) -> Vec<String> {
        points.iter().map(|point| crate::result::point_name(point)).collect()
    }

    const TWO_AXES: &str = "[workload]\ntool='fio'\noptions={iodepth='64',numjobs='2'}\n\
        [[sweep]]\naxis='rw'\nvalues=['randread','randwrite']\n[[sweep]]\naxis='bs'\nvalues=['4k','8k','16k']\nquick=['8k']\n";

    #[test]
    fn quick_points_come_first_and_none_is_lost_or_doubled() {
        let scenario = scenario(TWO_AXES);
        assert_eq!(names(&points(&scenario, Extent::Quick)), ["rw=randread bs=8k", "rw=randwrite bs=8k"]);
        let all = names(&points(&scenario, Extent::Full));
        assert_eq!(all.len(), 6);
        assert_eq!(all[..2], ["rw=randread bs=8k", "rw=randwrite bs=8k"]);
        assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), 6);
    }

    #[test]
    fn a_sweep_without_axes_is_one_point() {
        let scenario = scenario("[workload]\ntool='fio'\n");
        assert_eq!(points(&scenario, Extent::Full), [Point::new()]);
        assert_eq!(
            super::super::duration::seconds(&scenario, Extent::Full),
            super::super::duration::Seconds { least: 15.0 * 4.0, most: 22.0 * 4.0 }
        );
    }

    #[test]
    fn an_arm_overrules_the_point_and_the_point_the_job() {
        let text = "[workload]\ntool='fio'\noptions={direct='1'}\n[workload.jobs.Seq]\nbs='128k'\niodepth='128'\nnumjobs='2'\n\
            [[sweep]]\naxis='job'\nvalues=['Seq']\n[[sweep]]\naxis='numjobs'\nvalues=['1']\n";
        let scenario = scenario(text);
        let point = &points(&scenario, Extent::Full)[0];
        let given = settings(&scenario, &scenario.arms[0], point);
        let of = |name: &str| given[name].as_str();
        assert_eq!((of("direct"), of("bs"), of("numjobs"), of("iodepth")), ("1", "128k", "1", "7"));
    }

    #[test]
    fn a_place_matches_only_points_that_have_its_axes() {
        let scenario = scenario(TWO_AXES);
        let point = &points(&scenario, Extent::Quick)[0];
        let at = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(axis, value)| ((*axis).to_owned(), (*value).to_owned())).collect()
        };
        assert!(matches(point, &at(&[])));
        assert!(matches(point, &at(&[("bs", "8k"), ("rw", "randread")])));
        assert!(!matches(point, &at(&[("bs", "4k")])));
        assert!(!matches(point, &at(&[("link", "1Gbit")])));
    }
}
