//! The claims that decide what a report says: named before anything is measured, and few.
//!
//! Whoever tests ninety claims finds some by chance alone. So a scenario names at most [`MOST`] as primary; their verdicts err in no
//! more than 5 % of all reports, all of them together, and the points that they speak of get as many pairs as that takes
//! ([`power`]). All other claims are shown as exploratory.

use super::{Claim, Design, Scenario, place};
use crate::claims::grammar::Test;
use crate::result::Coordinate;
use crate::statistics::number::real_length;
use crate::statistics::power;
use crate::statistics::verdict::LEVEL;

/// Primary claims of a scenario at most.
pub const MOST: usize = 5;

/// The primary claims that have a test.
pub fn claims(scenario: &Scenario) -> impl Iterator<Item = &Claim> {
    scenario.claims.iter().filter(|claim| claim.primary && claim.test.is_some())
}

/// The chance of an error with which one of `count` claims is judged so that all of them together err in at most 5 % of reports. What
/// pairs cost that were as many as it took, the control pays for: `claims/procedure.rs` shows what the whole holds.
pub fn level(count: usize) -> f64 {
    LEVEL / real_length(count.max(1))
}

/// Whether a primary claim speaks of the point.
pub fn decides(scenario: &Scenario, point: &[Coordinate]) -> bool {
    claims(scenario).any(|claim| speaks(scenario, claim, point))
}

/// Pairs and time at a point: where a primary claim is decided, as many pairs as it takes to show a tenth.
pub fn design(scenario: &Scenario, point: &[Coordinate]) -> Design {
    let design = scenario.design.clone();
    if !decides(scenario, point) {
        return design;
    }
    Design { max_pairs: design.max_pairs.max(pairs(scenario)), ..design }
}

/// The level at which a point's ratio will be judged.
pub fn level_at(scenario: &Scenario, point: &[Coordinate]) -> f64 {
    if decides(scenario, point) { level(claims(scenario).count()) } else { LEVEL }
}

/// Pairs at the points of the primary claims.
pub fn pairs(scenario: &Scenario) -> u32 {
    power::pairs(level(claims(scenario).count()))
}

/// Pairs of the control. It gates every verdict by how far it reaches, its own chance included, so that it takes a third more pairs
/// than what it gates.
pub fn control_pairs(scenario: &Scenario) -> u32 {
    let least = scenario.design.min_pairs;
    if claims(scenario).next().is_none() { least } else { least.max(pairs(scenario).div_ceil(3) * 4) }
}

/// Whether a claim speaks of a point: it lies where the claim says, or where its test says beside that.
pub fn speaks(scenario: &Scenario, claim: &Claim, point: &[Coordinate]) -> bool {
    let own = |axis: &str| point.iter().find(|here| here.axis == axis).map(|here| &here.value);
    let fixed = |axis: &str| scenario.workload.options.get(axis);
    let elsewhere: Vec<Coordinate> = claim
        .test
        .as_deref()
        .and_then(|test| Test::parse(test).ok())
        .map(|test| test.places().into_iter().cloned().collect())
        .unwrap_or_default();
    claim.at.iter().all(|(axis, value)| {
        let here = own(axis).or_else(|| fixed(axis));
        here.is_some_and(|here| place::lies(here, value))
            || elsewhere.iter().any(|at| at.axis == *axis && Some(&at.value) == here)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::synthetic::{point, scenario};

    #[test]
    fn points_of_primary_claims_get_the_pairs_that_they_take() {
        let claim = |id: &str, rest: &str| {
            format!("[[claim]]\nid='{id}'\ntext='t'\ntest='ratio(iops) > 1'\n{rest}\n")
        };
        let text = claim("p", "primary=true\nat={bs='4k'}") + &claim("e", "at={bs='8k'}");
        let scenario = scenario(&text);
        assert_eq!(claims(&scenario).count(), 1);
        assert_eq!(design(&scenario, &point("bs=4k")).max_pairs, pairs(&scenario));
        assert!(pairs(&scenario) > scenario.design.max_pairs);
        assert_eq!(design(&scenario, &point("bs=8k")), scenario.design);
        assert!(control_pairs(&scenario) > pairs(&scenario));
    }

    #[test]
    fn a_place_that_a_test_names_belongs_to_its_claim() {
        let text = "[[claim]]\nid='p'\ntext='t'\nprimary=true\nat={rw='randread'}\n\
            test='ratio(iops, rw=randwrite) / ratio(iops) > 1'\n";
        let scenario = scenario(text);
        for rw in ["randread", "randwrite"] {
            assert!(decides(&scenario, &point(&format!("rw={rw}"))), "{rw}");
        }
        assert!(!decides(&scenario, &point("rw=randrw")));
    }
}
