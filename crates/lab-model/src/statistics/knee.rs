//! Whether the slowest arm's knee lies inside the sweep: a comparison in which the link is full everywhere shows the link, and
//! one in which it is full nowhere shows nothing of it.
//!
//! Scenarios on a shaped link choose its rate so that the knee lies inside. The machine decides whether it does.

use crate::claims::grammar::Test;
use crate::result::PointResult;
use crate::scenario::sweep::Point;
use crate::scenario::{Metric, Scenario, ToolKind};
use crate::statistics::context::Contexts;
use crate::statistics::metric::value_of;

/// Per cent of the link's payload rate from which on it is full.
const FULL: f64 = 90.0;

/// A sentence for every arm whose knee lies outside of what was measured. Nothing for links without a rate, and for a
/// single point.
pub fn outside(scenario: &Scenario, points: &[Point], results: &[PointResult]) -> Vec<String> {
    let judge = |(key, (least, most)): (&str, (f64, f64))| {
        let words = if least >= FULL {
            "filled the link at every point: what was compared is the link; raise its rate"
        } else if most < FULL {
            "filled the link at no point: its knee lies outside of the sweep; lower the link's rate"
        } else {
            return None;
        };
        Some(format!("arm {key} {words} ({least:.0} to {most:.0} % of its payload rate)"))
    };
    shares(scenario, points, results).into_iter().filter_map(judge).collect()
}

/// Why a run is worth nothing whose arms all sat on the link at every point: it compared the link with itself. Streams are
/// there to fill it, and so is a load whose claims ask of each arm by itself whether it does; [`outside`] still says which arms did.
pub fn refusal(scenario: &Scenario, points: &[Point], results: &[PointResult]) -> Option<String> {
    let shares = shares(scenario, points, results);
    let link_alone = scenario.workload.tool != ToolKind::Iperf3
        && compares_arms(scenario)
        && shares.len() > 1
        && shares.iter().all(|(_, (least, _))| *least >= FULL);
    let arms: Vec<&str> = shares.iter().map(|(key, _)| *key).collect();
    link_alone.then(|| {
        format!(
            "arms {} sat on the link at every point, so the link was compared with itself: give the scenario a faster link, or smaller I/Os",
            arms.join(", ")
        )
    })
}

/// Whether a claim holds one arm against another. Without claims that can be tested, comparing arms is all that a scenario does.
fn compares_arms(scenario: &Scenario) -> bool {
    let tests = scenario.claims.iter().filter_map(|claim| Test::parse(claim.test.as_deref()?).ok());
    let mut arms = tests.map(|test| test.arms().len()).peekable();
    arms.peek().is_none() || arms.any(|arms| arms > 1)
}

/// The least and the most of the link's payload rate, per cent, that each arm had over the points; only arms with several.
fn shares<'s>(
    scenario: &'s Scenario,
    points: &[Point],
    results: &[PointResult],
) -> Vec<(&'s str, (f64, f64))> {
    let contexts = Contexts::new(scenario, results);
    let share = |arm: &str, point: &Point| {
        let here = results.iter().filter(|result| result.arm == arm && result.point == *point);
        let shares = here.filter_map(|result| value_of(Metric::LineRate, result, &contexts.of(result)));
        shares.reduce(f64::max)
    };
    let range = |key: &str| {
        let shares: Vec<f64> = points.iter().filter_map(|point| share(key, point)).collect();
        let least = shares.iter().copied().reduce(f64::min).filter(|_| shares.len() > 1)?;
        Some((least, shares.iter().copied().reduce(f64::max)?))
    };
    scenario.arms.iter().filter_map(|arm| Some((arm.key.as_str(), range(&arm.key)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Direction, Load};
    use crate::statistics::synthetic;

    fn points() -> Vec<Point> {
        ["bs=4k", "bs=64k"].map(synthetic::point).to_vec()
    }

    fn scenario(arms: &str) -> Scenario {
        let head = "id='f.n'\ntitle='t'\nquestion='q'\nsource={publication='p'}\n[workload]\ntool='fio'\n\
            [topology]\nlink={kind='veth',mtu=1500,rate='1Gbit'}\n";
        let arm = |key: char| {
            format!(
                "[[arm]]\nkey='{key}'\nname='{key}'\ninitiator='linerate'\ntarget='linerate-iscsi'\n\
                 evidence={{kind='emulated',stands_for='x'}}\n"
            )
        };
        toml::from_str(&format!("{head}{}", arms.chars().map(arm).collect::<String>())).unwrap()
    }

    fn results(arm: &str, rates: [f64; 2]) -> Vec<PointResult> {
        let result = |(point, rate): (Point, f64)| PointResult {
            point,
            load: Load {
                read: Some(Direction { bytes_per_second: rate, ..Direction::default() }),
                ..Load::default()
            },
            ..synthetic::result(arm, 1, 1.0)
        };
        points().into_iter().zip(rates).map(result).collect()
    }

    fn words(rates: [f64; 2]) -> Vec<String> {
        outside(&scenario("A"), &points(), &results("A", rates))
    }

    #[test]
    fn a_run_in_which_all_arms_sat_on_the_link_is_refused() {
        let full = || results("A", [117e6, 118e6]);
        let judged = |arms: &str, other: Vec<PointResult>| {
            let all: Vec<PointResult> = full().into_iter().chain(other).collect();
            refusal(&scenario(arms), &points(), &all)
        };
        assert!(judged("AB", results("B", [116e6, 118e6])).unwrap().contains("arms A, B sat on the link"));
        assert_eq!(judged("AB", results("B", [60e6, 118e6])), None);
        assert_eq!(judged("A", Vec::new()), None, "one arm is not a comparison");
    }

    #[test]
    fn a_run_whose_claims_ask_of_each_arm_by_itself_whether_it_fills_the_link_is_not_refused() {
        let all: Vec<PointResult> = ["A", "B"].iter().flat_map(|arm| results(arm, [117e6, 118e6])).collect();
        let judged = |tests: &[&str]| {
            let claim = |(number, test): (usize, &&str)| {
                toml::from_str(&format!("id='c{number}'\ntext='t'\ntest='{test}'")).unwrap()
            };
            let claims = tests.iter().enumerate().map(claim).collect();
            refusal(&Scenario { claims, ..scenario("AB") }, &points(), &all)
        };
        let alone = ["line_rate(A) >= 90", "bandwidth(B) / bandwidth(B, bs=4k) >= 0.9"];
        assert_eq!(judged(&alone), None);
        assert!(judged(&[alone[0], "bandwidth(A) / bandwidth(B) >= 0.9"]).is_some());
        assert!(judged(&[]).is_some());
    }

    #[test]
    fn only_a_knee_inside_the_sweep_is_passed_over_in_silence() {
        assert_eq!(words([20e6, 118e6]), Vec::<String>::new());
        assert!(words([117e6, 118e6])[0].contains("at every point"));
        assert!(words([20e6, 60e6])[0].contains("at no point"));
    }
}
