//! What can be run of a scenario: which arms at which points, which claims are testable, and what is missing for the rest.
//!
//! `lab list`, `show`, `plan` and `run` all ask [`Feasibility::of`], so that none of them promises what another refuses. This crate
//! looks at no machine: [`Machine`] says what is there.

use super::needs::{self, Present};
use super::sweep::Point;
use super::{Arm, Claim, Scenario, primary};
use crate::claims::grammar::Test;
use crate::evidence::Evidence;
use crate::prices::Prices;
use crate::result::Coordinate;

/// Where a scenario is to run.
pub trait Machine {
    /// What an arm lacks at a point, a sentence each; empty when it can run.
    fn lacks(&self, scenario: &Scenario, arm: &Arm, point: &[Coordinate]) -> Vec<String>;

    /// What the arm's figures will be evidence of.
    fn evidence(&self, scenario: &Scenario, arm: &Arm) -> Evidence;

    /// Whether what a claim needs is there.
    fn has(&self, need: &str) -> bool;

    /// What arms cost there.
    fn prices(&self) -> Option<&Prices> {
        None
    }
}

/// What can be run of a scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Feasibility {
    /// The points, in their order.
    pub points: Vec<FeasiblePoint>,
    /// The scenario's claims, in its order.
    pub claims: Vec<FeasibleClaim>,
    /// What is missing for anything of it, a sentence each, each once.
    pub missing: Vec<String>,
    /// Whether as many arms as a comparison takes run at one point at least: two, or the only one that there is.
    pub runs: bool,
}

/// A point.
#[derive(Debug, Clone, PartialEq)]
pub struct FeasiblePoint {
    /// Its coordinates.
    pub point: Point,
    /// Keys of the arms that run.
    pub arms: Vec<String>,
    /// The others.
    pub left_out: Vec<LeftOut>,
}

/// An arm that does not run at a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Its key.
    pub arm: String,
    /// Why, a sentence each.
    pub lacks: Vec<String>,
}

/// A claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeasibleClaim {
    /// Its identifier.
    pub id: String,
    /// What a verdict would speak of.
    pub testable: Testable,
}

/// What a verdict on a claim would speak of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Testable {
    /// The claim itself.
    Itself,
    /// What stands in for it, because of what is missing.
    InPlace {
        /// What is tested, as the scenario's `here` says it.
        what: String,
    },
    /// Nothing: there is no verdict, for these reasons.
    No(Vec<String>),
}

impl Feasibility {
    /// What can be run of these points of a scenario.
    pub fn of(scenario: &Scenario, points: Vec<Point>, machine: &dyn Machine) -> Self {
        let points: Vec<FeasiblePoint> =
            points.into_iter().map(|point| FeasiblePoint::of(scenario, point, machine)).collect();
        let wanted = scenario.arms.len().clamp(1, 2);
        let mut missing = scenario.missing.clone();
        for sentence in points.iter().flat_map(|point| &point.left_out).flat_map(|arm| &arm.lacks) {
            if !missing.contains(sentence) {
                missing.push(sentence.clone());
            }
        }
        if scenario.arms.is_empty() && missing.is_empty() {
            missing.push("an arm: the scenario names none".to_owned());
        }
        let claims = scenario.claims.iter().map(|claim| FeasibleClaim {
            id: claim.id.clone(),
            testable: testable(scenario, claim, &points, machine),
        });
        Self {
            claims: claims.collect(),
            runs: points.iter().any(|point| point.arms.len() >= wanted),
            points,
            missing,
        }
    }

    /// Claims on which there will be a verdict, of themselves or of what stands in for them.
    pub fn testable(&self) -> usize {
        self.claims.iter().filter(|claim| !matches!(claim.testable, Testable::No(_))).count()
    }
}

impl FeasiblePoint {
    fn of(scenario: &Scenario, point: Point, machine: &dyn Machine) -> Self {
        let (mut arms, mut left_out) = (Vec::new(), Vec::new());
        for arm in &scenario.arms {
            match machine.lacks(scenario, arm, &point) {
                lacks if lacks.is_empty() => arms.push(arm.key.clone()),
                lacks => left_out.push(LeftOut { arm: arm.key.clone(), lacks }),
            }
        }
        Self { point, arms, left_out }
    }
}

/// The order is that of [`crate::claims`]: what has no test, then what is not measured, then what the claim needs.
fn testable(scenario: &Scenario, claim: &Claim, points: &[FeasiblePoint], machine: &dyn Machine) -> Testable {
    let no = |why: String| Testable::No(vec![why]);
    let Some(test) = claim.test.as_deref() else {
        return no("the scenario has no test in numbers for it".to_owned());
    };
    let test = match Test::parse(test) {
        Ok(test) => test,
        Err(error) => return no(format!("{error:#}")),
    };
    if test.needs_prices() {
        let none = Prices::default();
        let lacking = machine.prices().unwrap_or(&none).lacking(&scenario.id, &test.arms());
        if !lacking.is_empty() {
            return Testable::No(lacking);
        }
    }
    let lacks: Vec<&str> = claim.needs.iter().map(String::as_str).filter(|need| !machine.has(need)).collect();
    if scenario.arms.is_empty() {
        return no("no arm of the scenario can be run".to_owned());
    }
    let spoken: Vec<&FeasiblePoint> =
        points.iter().filter(|here| primary::speaks(scenario, claim, &here.point)).collect();
    if spoken.is_empty() {
        return no("no point that it speaks of is measured".to_owned());
    }
    let named = test.arms();
    let runs = |here: &&FeasiblePoint| named.iter().all(|arm| here.arms.iter().any(|there| there == arm));
    if !spoken.iter().any(runs) {
        let absent = spoken.iter().flat_map(|here| &here.left_out);
        let absent = absent.filter(|left_out| named.contains(left_out.arm.as_str()));
        let mut why: Vec<String> =
            absent.map(|left_out| format!("arm {}: {}", left_out.arm, left_out.lacks.join("; "))).collect();
        why.dedup();
        return Testable::No(why);
    }
    let stands_in = scenario
        .arms
        .iter()
        .filter(|arm| !claim.needs.is_empty() && named.contains(arm.key.as_str()))
        .map(|arm| (arm, machine.evidence(scenario, arm)))
        .find(|(_, evidence)| !matches!(evidence, Evidence::Real))
        .map(|(arm, evidence)| format!("arm {} is {}, not the thing itself", arm.key, evidence.label()));
    match (&claim.here, stands_in) {
        (_, None) if lacks.is_empty() => Testable::Itself,
        (Some(here), _) => Testable::InPlace { what: here.clone() },
        (None, Some(what)) if lacks.is_empty() => Testable::InPlace { what },
        (None, _) => Testable::No(
            lacks
                .into_iter()
                .map(|name| needs::find(name).map_or(name, |need| need.missing).to_owned())
                .collect(),
        ),
    }
}

/// A machine of which it is only known what it has, and on which every program is installed.
impl Machine for Present {
    fn lacks(&self, scenario: &Scenario, arm: &Arm, point: &[Coordinate]) -> Vec<String> {
        needs::missing_at(scenario, arm, point, self).into_iter().map(str::to_owned).collect()
    }

    fn evidence(&self, _: &Scenario, arm: &Arm) -> Evidence {
        arm.evidence.clone()
    }

    fn has(&self, need: &str) -> bool {
        Self::has(self, need)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::sweep::{self, Extent};
    use crate::statistics::synthetic::scenario;

    /// A machine on which arm B runs at 4k alone.
    struct Half;

    impl Machine for Half {
        fn lacks(&self, _: &Scenario, arm: &Arm, point: &[Coordinate]) -> Vec<String> {
            let lacks = arm.key == "B" && point.iter().any(|at| at.value != "4k");
            lacks.then(|| "tgtd is not installed: apt install tgt".to_owned()).into_iter().collect()
        }

        fn evidence(&self, _: &Scenario, arm: &Arm) -> Evidence {
            arm.evidence.clone()
        }

        fn has(&self, need: &str) -> bool {
            need == "25GbE"
        }
    }

    #[test]
    fn points_arms_and_claims_say_what_runs_and_why_the_rest_does_not() {
        let claim = |id: &str, rest: &str| format!("[[claim]]\nid='{id}'\ntext='t'\n{rest}\n");
        let text = format!(
            "[[sweep]]\naxis='bs'\nvalues=['4k','8k']\n{}{}{}{}{}{}{}{}",
            claim("here", "test='ratio(iops) > 1'\nat={bs='4k'}"),
            claim("there", "test='ratio(iops) > 1'\nat={bs='8k'}"),
            claim("nowhere", "test='ratio(iops) > 1'\nat={bs='1m'}"),
            claim("one-arm", "test='iops(A) > 1'\nat={bs='8k'}\nneeds=['25GbE']"),
            claim("adapter", "test='iops(A) > 1'\nneeds=['offload adapter']"),
            claim("in-place", "test='iops(A) > 1'\nneeds=['offload adapter']\nhere='two programs'"),
            claim("words", ""),
            claim("price", "test='ratio(iops_per_price) > 1'\nat={bs='4k'}"),
        );
        let scenario = scenario(&text);
        let found = Feasibility::of(&scenario, sweep::points(&scenario, Extent::Full), &Half);
        assert!(found.runs);
        assert_eq!((found.points[0].arms.len(), found.points[1].arms.len()), (2, 1));
        assert_eq!(found.missing, ["tgtd is not installed: apt install tgt"]);
        let of = |id: &str| &found.claims.iter().find(|claim| claim.id == id).unwrap().testable;
        let no = |why: &str| Testable::No(vec![why.to_owned()]);
        assert_eq!(of("here"), &Testable::Itself);
        assert_eq!(of("there"), &no("arm B: tgtd is not installed: apt install tgt"));
        assert_eq!(of("nowhere"), &no("no point that it speaks of is measured"));
        assert_eq!(of("one-arm"), &Testable::Itself);
        assert_eq!(of("adapter"), &no(needs::find("offload adapter").unwrap().missing));
        assert_eq!(of("in-place"), &Testable::InPlace { what: "two programs".to_owned() });
        assert_eq!(of("words"), &no("the scenario has no test in numbers for it"));
        assert_eq!(
            of("price"),
            &no("no prices in the site file: [prices.each] says what a host, an adapter or a drive costs")
        );
        assert_eq!(found.testable(), 3);
    }

    #[test]
    fn one_arm_left_is_no_comparison() {
        let scenario = scenario("[[sweep]]\naxis='bs'\nvalues=['8k','16k']\n");
        let found = Feasibility::of(&scenario, sweep::points(&scenario, Extent::Full), &Half);
        assert!(!found.runs, "{found:?}");
        assert_eq!(found.missing.len(), 1);
    }
}
