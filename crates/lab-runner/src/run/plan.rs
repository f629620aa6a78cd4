//! What a run measures: points, pairs and the time that they take, within a budget.

use std::collections::BTreeSet;
use std::time::Duration;

use lab_model::result::point_name;
use lab_model::scenario::duration::Seconds;
use lab_model::scenario::sweep::{self, Extent, Point};
use lab_model::scenario::{Design, Scenario, calibration, primary};
use lab_model::statistics::number::real_length;

/// What a run measures.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The points, the most valuable first.
    pub points: Vec<Point>,
    /// Names of the points that the budget left out.
    pub dropped: Vec<String>,
    /// Repetitions and time.
    pub design: Design,
    /// Arms that run at each point.
    pub arms: usize,
    /// Measurements that find out what the arms do at most.
    pub calibration: usize,
    /// Pairs of each point at most.
    pub most_pairs: Vec<u32>,
    /// Pairs of a control block; there may be two.
    pub control_pairs: u32,
}

impl Plan {
    /// All points of the extent, or as many of them as fit into the budget with the least number of pairs, those that can be run before others.
    pub fn new(
        scenario: &Scenario,
        extent: Extent,
        budget: Option<Duration>,
        can_run: &dyn Fn(&Point) -> bool,
    ) -> Self {
        let arms = scenario.arms.len();
        let mut points = if arms == 0 { Vec::new() } else { sweep::points(scenario, extent) };
        let design = scenario.design.clone();
        let calibration = calibration::measurements(scenario, &points);
        let mut plan = Self {
            points: Vec::new(),
            dropped: Vec::new(),
            design,
            arms,
            calibration,
            most_pairs: Vec::new(),
            control_pairs: primary::control_pairs(scenario),
        };
        if let Some(budget) = budget {
            let left =
                budget.as_secs_f64() - plan.control_seconds() - plan.calibration_seconds() - START_SECONDS;
            let fit = (left / plan.point_seconds(plan.design.min_pairs)).floor().max(1.0);
            let fit = points.iter().zip(1_u32..).take_while(|(_, number)| f64::from(*number) <= fit).count();
            let dropped;
            (points, dropped) = choose(scenario, points, fit, can_run);
            plan.dropped = dropped.iter().map(|point| point_name(point)).collect();
        }
        plan.calibration = calibration::measurements(scenario, &points);
        plan.most_pairs = points.iter().map(|point| primary::design(scenario, point).max_pairs).collect();
        plan.points = points;
        plan
    }

    /// Seconds that `pairs` pairs of one point take.
    pub fn point_seconds(&self, pairs: u32) -> f64 {
        real_length(self.arms) * f64::from(pairs) * self.once()
    }

    /// Seconds of the A/A control block.
    pub fn control_seconds(&self) -> f64 {
        if self.arms == 0 { 0.0 } else { 2.0 * f64::from(self.control_pairs) * self.once() }
    }

    /// Seconds of the calibration.
    pub fn calibration_seconds(&self) -> f64 {
        real_length(self.calibration) * self.once()
    }

    /// Least and most seconds of all.
    pub fn seconds(&self) -> Seconds {
        let before = self.control_seconds() + self.calibration_seconds();
        let least = real_length(self.points.len()) * self.point_seconds(self.design.min_pairs);
        let most: f64 = self.most_pairs.iter().map(|&pairs| self.point_seconds(pairs)).sum();
        let second = if self.points.len() > 1 { self.control_seconds() } else { 0.0 };
        Seconds { least: least + before, most: most + second + before }
    }

    /// Measurements at least, those of the control and the calibration among them.
    pub fn measurements(&self) -> u64 {
        let pairs = u64::from(self.design.min_pairs);
        let (points, arms, calibration) =
            (self.points.len() as u64, self.arms as u64, self.calibration as u64);
        points
            .saturating_mul(arms)
            .saturating_mul(pairs)
            .saturating_add(2 * u64::from(self.control_pairs))
            .saturating_add(calibration)
    }

    /// Seconds of one measurement.
    pub fn once(&self) -> f64 {
        self.design.seconds_each()
    }
}

type Points = Vec<Point>;

/// The `fit` points that say most, in their order, and the others. First come those of whole primary claims, as a claim that misses a point is not tested; then the earlier ones.
fn choose(
    scenario: &Scenario,
    points: Points,
    fit: usize,
    can_run: &dyn Fn(&Point) -> bool,
) -> (Points, Points) {
    let runs: Vec<bool> = points.iter().map(can_run).collect();
    let mut chosen = BTreeSet::new();
    for claim in primary::claims(scenario) {
        let spoken_of = (0..points.len()).filter(|at| primary::speaks(scenario, claim, &points[*at]));
        let with_claim: BTreeSet<usize> = spoken_of.chain(chosen.iter().copied()).collect();
        if with_claim.len() <= fit && with_claim.iter().all(|at| runs[*at]) {
            chosen = with_claim;
        }
    }
    let mut others: Vec<usize> = (0..points.len()).filter(|at| !chosen.contains(at)).collect();
    others.sort_by_key(|at| !runs[*at]);
    let room = fit - chosen.len();
    chosen.extend(others.into_iter().take(room));
    let (kept, dropped): (Vec<_>, Vec<_>) =
        points.into_iter().enumerate().partition(|(at, _)| chosen.contains(at));
    let without_places = |points: Vec<(usize, Point)>| points.into_iter().map(|(_, point)| point).collect();
    (without_places(kept), without_places(dropped))
}

/// Seconds for starting targets, the integrity pass and the quiet gate.
const START_SECONDS: f64 = 10.0;

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = "id='f.n'\ntitle='t'\nquestion='q'\nsource={publication='p'}\n[workload]\ntool='fio'\n\
        [design]\nmin_pairs=5\nmax_pairs=10\nramp=0.5\nruntime=2.0\n\
        [[sweep]]\naxis='bs'\nvalues=['4k','8k','16k','32k']\nquick=['8k']\n\
        [[arm]]\nkey='A'\nname='a'\ninitiator='linerate'\ntarget='linerate-iscsi'\nevidence={kind='real'}\n\
        [[arm]]\nkey='B'\nname='b'\ninitiator='linerate'\ntarget='tgt'\nevidence={kind='real'}\n";

    #[test]
    fn a_budget_drops_the_least_valuable_points_and_names_them() {
        let scenario = toml::from_str(SCENARIO).unwrap();
        let whole = Plan::new(&scenario, Extent::Full, None, &|_| true);
        assert_eq!((whole.points.len(), whole.dropped.len()), (4, 0));
        assert_eq!(whole.seconds(), Seconds { least: 4.0 * 40.0 + 40.0, most: 4.0 * 80.0 + 2.0 * 40.0 });
        assert_eq!(whole.measurements(), 50);
        let short = Plan::new(&scenario, Extent::Full, Some(Duration::from_secs(135)), &|_| true);
        assert_eq!(short.points.len(), 2);
        assert_eq!(short.points[0][0].value, "8k");
        assert_eq!(short.dropped, ["bs=16k", "bs=32k"]);
        let least = Plan::new(&scenario, Extent::Full, Some(Duration::from_secs(1)), &|_| true);
        assert_eq!(least.points.len(), 1, "one point is measured in any case");
    }

    #[test]
    fn a_budget_keeps_the_points_of_whole_primary_claims() {
        let claim = |id: &str, at: &str, test: &str| {
            format!("[[claim]]\nid='{id}'\ntext='t'\nprimary=true\nat={{bs='{at}'}}\ntest='{test}'\n")
        };
        let text = SCENARIO.to_owned()
            + &claim("two", "16k", "ratio(iops, bs=4k) / ratio(iops) > 1")
            + &claim("one", "32k", "ratio(iops) > 1");
        let scenario = toml::from_str(&text).unwrap();
        let kept_of = |seconds, can_run: &dyn Fn(&Point) -> bool| {
            let plan = Plan::new(&scenario, Extent::Full, Some(Duration::from_secs(seconds)), can_run);
            assert_eq!(plan.points.len() + plan.dropped.len(), 4);
            plan.points.iter().map(|point| point[0].value.clone()).collect::<Vec<_>>()
        };
        let kept = |seconds| kept_of(seconds, &|_| true);
        assert_eq!(kept(1), ["32k"], "the other claim takes two points");
        let control = Plan::new(&scenario, Extent::Full, None, &|_| true).control_seconds();
        let budget =
            |points: f64| Duration::from_secs_f64(control + START_SECONDS + points * 40.0 + 1.0).as_secs();
        assert_eq!(kept(budget(2.0)), ["4k", "16k"]);
        assert_eq!(kept(budget(3.0)), ["4k", "16k", "32k"]);
        let without = |value: &'static str| move |point: &Point| point[0].value != value;
        assert_eq!(
            kept_of(budget(2.0), &without("16k")),
            ["8k", "32k"],
            "what cannot be run is kept for nothing"
        );
    }
}
