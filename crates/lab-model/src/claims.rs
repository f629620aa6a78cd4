//! Headline claims of the publications, tested one by one.
//!
//! A claim's `test` is an expression over measured points ([`grammar`] has the language); [`judge`] evaluates it with the
//! intervals of what was measured and says `reproduced`, `contradicted`, `not enough` or `not testable here`, and why. A number
//! without an interval decides nothing: a claim is reproduced when the whole interval is on its side, contradicted when
//! the whole interval is on the other.
//!
//! What was published of an offload adapter cannot be reproduced by two programs. Such a claim is not testable here,
//! whatever is measured; what its `here` names is tested in its place, and its verdict stands apart ([`StandIn`]).

pub mod evaluate;
pub mod grammar;
mod reasons;

use std::cell::RefCell;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::evidence::Evidence;
use crate::prices::Prices;
use crate::result::{Coordinate, PointResult, point_name};
use crate::scenario::{Claim, Scenario, needs, primary};
use crate::statistics::SEED;
use crate::statistics::bootstrap::Bootstrap;
use crate::statistics::control::Widths;
use crate::statistics::number::real_length;
use crate::statistics::verdict::LEVEL;
use evaluate::{Evidenced, Look, Scope, Seen, Truth};
use grammar::Test;
pub use reasons::NotMeasured;
use reasons::{ArmEvidence, Incomparable, NotTestable};

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The claim's identifier.
    pub claim: String,
    /// As published.
    pub text: String,
    /// When it holds, as the scenario writes it.
    pub test: Option<String>,
    /// Added or corrected by arithmetic.
    pub derived: Option<String>,
    /// A reading of the claim that its own words do not settle.
    pub inferred: Option<String>,
    /// The verdict on the claim itself.
    pub outcome: Outcome,
    /// Why, with the numbers.
    pub why: String,
    /// What is missing for a verdict on the claim itself, a sentence each.
    pub missing: Vec<String>,
    /// What was tested in its place, because something is missing.
    pub stand_in: Option<StandIn>,
    /// Whether it is one of the few that the report stands for; its verdict is corrected for all of those.
    pub primary: bool,
    /// The points that were looked at, for the claim or its stand-in; empty when the test speaks of all points together.
    pub checks: Vec<Check>,
}

/// The claim's test applied to what there is in place of what the claim speaks of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StandIn {
    /// What was tested, as the scenario's `here` says it: `two shaped links of the same ratio`.
    pub what: String,
    /// The verdict on that.
    pub outcome: Outcome,
    /// Why, with the numbers.
    pub why: String,
}

/// A verdict on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It holds, whole intervals included.
    Reproduced,
    /// It does not hold, whole intervals included.
    Contradicted,
    /// An interval lies on both sides, or there are too few pairs.
    NotEnough,
    /// Something is missing that measuring longer would not bring.
    NotTestable,
}

/// A claim at one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// The point.
    pub point: Vec<Coordinate>,
    /// Whether the test holds there; `None` when the measurement does not decide it.
    pub holds: Option<bool>,
    /// The numbers.
    pub detail: String,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reproduced => "reproduced",
            Self::Contradicted => "contradicted",
            Self::NotEnough => "not enough",
            Self::NotTestable => "not testable here",
        })
    }
}

impl Judgement {
    /// The verdict in words: `reproduced: ratio(bandwidth) = 2.49 (CI 2.47–2.51)`, or `not testable here: it needs 25GbE; in its
    /// place, two shaped links of the same ratio: reproduced: ratio(bandwidth) = 2.49 (CI 2.47–2.51)`.
    pub fn words(&self) -> String {
        let own = format!("{}: {}", self.outcome, self.why);
        match &self.stand_in {
            Some(StandIn { what, outcome, why }) => format!("{own}; in its place, {what}: {outcome}: {why}"),
            None => own,
        }
    }
}

/// What a run measured, as far as claims ask.
#[derive(Debug, Clone, Copy, Default)]
pub struct Measured<'a> {
    /// Results of the points.
    pub results: &'a [PointResult],
    /// Results of the control block.
    pub control: &'a [PointResult],
    /// What is there of what claims may need ([`needs::NEEDS`]).
    pub site_has: &'a [String],
    /// What the arms cost there.
    pub prices: Option<&'a Prices>,
}

/// The verdict on each claim of a scenario, in its order.
///
/// Primary claims are corrected for each other by Holm's method: all are judged so surely that their number is paid for; those that
/// are decided leave the family, and the others are judged again with what is left to pay. Each of the others is judged by itself,
/// and may be wrong in one of twenty reports.
pub fn judge(scenario: &Scenario, measured: Measured<'_>) -> Vec<Judgement> {
    judge_with(&RefCell::new(Bootstrap::new(SEED)), scenario, measured)
}

/// The same with draws that were made before.
pub(crate) fn judge_with(
    bootstrap: &RefCell<Bootstrap>,
    scenario: &Scenario,
    measured: Measured<'_>,
) -> Vec<Judgement> {
    let widths = Widths::of_with(&mut bootstrap.borrow_mut(), measured.control);
    let bench = Bench { scenario, measured, widths: &widths, bootstrap };
    let mut judged: Vec<Option<Judgement>> = vec![None; scenario.claims.len()];
    let mut open: Vec<usize> = Vec::new();
    for (place, claim) in scenario.claims.iter().enumerate() {
        let judgement = bench.judge(claim, LEVEL);
        if claim.primary && judgement.is_tested() {
            open.push(place);
        } else if let Some(slot) = judged.get_mut(place) {
            *slot = Some(judgement);
        }
    }
    while !open.is_empty() {
        let level = primary::level(open.len());
        for &place in &open {
            let claim = scenario.claims.get(place);
            if let (Some(slot), Some(claim)) = (judged.get_mut(place), claim) {
                *slot = Some(bench.judge(claim, level));
            }
        }
        let before = open.len();
        open.retain(|&place| !judged.get(place).and_then(Option::as_ref).is_some_and(Judgement::is_decided));
        if open.len() == before {
            break;
        }
    }
    judged.into_iter().flatten().collect()
}

/// What every claim of a run is judged with.
#[derive(Clone, Copy)]
struct Bench<'a> {
    scenario: &'a Scenario,
    measured: Measured<'a>,
    widths: &'a Widths,
    bootstrap: &'a RefCell<Bootstrap>,
}

impl Judgement {
    /// The verdict on what was tested: the claim itself, or what stands in for it.
    fn tested(&self) -> Outcome {
        self.stand_in.as_ref().map_or(self.outcome, |stand_in| stand_in.outcome)
    }

    /// Whether anything was tested.
    fn is_tested(&self) -> bool {
        self.tested() != Outcome::NotTestable
    }

    /// Whether that came out one way or the other.
    fn is_decided(&self) -> bool {
        matches!(self.tested(), Outcome::Reproduced | Outcome::Contradicted)
    }
}

impl Bench<'_> {
    fn judge(self, claim: &Claim, level: f64) -> Judgement {
        let results = self.measured.results;
        let missing: Vec<&str> = claim
            .needs
            .iter()
            .filter(|need| !self.measured.site_has.contains(need))
            .map(String::as_str)
            .collect();
        let tested =
            || self.test(claim, level).unwrap_or_else(|reason| Verdict::not_testable(reason.to_string()));
        let needs = || Verdict::not_testable(format!("it needs {}", missing.join(", ")));
        let (own, in_place) = match (&claim.here, substitute(claim, results)) {
            (_, None) if missing.is_empty() => (tested(), None),
            (here, Some(why)) if missing.is_empty() => {
                (Verdict::not_testable(why.clone()), Some((here.clone().unwrap_or(why), tested())))
            }
            (Some(here), _) => (needs(), Some((here.clone(), tested()))),
            (None, _) => (needs(), None),
        };
        let stand_in = in_place.as_ref().map(|(what, verdict)| StandIn {
            what: what.clone(),
            outcome: verdict.outcome,
            why: verdict.why.clone(),
        });
        Judgement {
            claim: claim.id.clone(),
            text: claim.text.clone(),
            test: claim.test.clone(),
            derived: claim.derived.clone(),
            inferred: claim.inferred.clone(),
            outcome: own.outcome,
            why: own.why,
            missing: missing.iter().map(|name| sentence(name)).collect(),
            stand_in,
            primary: claim.primary,
            checks: in_place.map_or(own.checks, |(_, verdict)| verdict.checks),
        }
    }

    fn test(self, claim: &Claim, level: f64) -> Result<Verdict, NotTestable> {
        let written = claim.test.as_deref().ok_or(NotTestable::NoTest)?;
        let test = Test::parse(written).map_err(NotTestable::Grammar)?;
        if self.scenario.arms.is_empty() {
            return Err(NotTestable::NothingRuns(self.scenario.missing.clone()));
        }
        let Measured { results, prices, .. } = self.measured;
        if test.needs_prices() {
            let none = Prices::default();
            let lacking = prices.unwrap_or(&none).lacking(&self.scenario.id, &test.arms());
            if !lacking.is_empty() {
                return Err(NotTestable::Unpriced(lacking));
            }
        }
        comparable(&test, results)?;
        let evidence = Evidenced { results, widths: self.widths, prices, bootstrap: self.bootstrap };
        let scope = Scope::new(self.scenario, evidence, &claim.at)?;
        let mut verdict = if test.depends_on_point() {
            over_points(
                scope.points().iter().map(|point| check(&scope, &test, Look::new(point, level))).collect(),
            )
        } else {
            let Seen { truth, detail } = scope.look(&test, Look::new(&[], level / parts(&test)));
            Verdict { outcome: outcome(truth.holds()), why: because(&truth, &detail), checks: Vec::new() }
        };
        for limit in scope.shared_limits(&test) {
            verdict.why = format!("{}; {limit}", verdict.why);
        }
        Ok(verdict)
    }
}

/// Comparisons of a test: each is a chance to err.
fn parts(test: &Test) -> f64 {
    real_length(test.comparisons().max(1))
}

/// A claim that needs something speaks of the thing itself: whatever a site declares, arms that are not labelled real only stand
/// in for it. `None` when all arms of the test are, or the claim needs nothing.
fn substitute(claim: &Claim, results: &[PointResult]) -> Option<String> {
    if claim.needs.is_empty() {
        return None;
    }
    let test = Test::parse(claim.test.as_deref()?).ok()?;
    let named = test.arms();
    let stands_in = |result: &&PointResult| {
        named.contains(result.arm.as_str()) && !matches!(result.evidence, Evidence::Real)
    };
    let result = results.iter().find(stands_in)?;
    Some(format!("arm {} is {}, not the thing itself", result.arm, result.evidence.label()))
}

/// What a missing need is, and what would mend it.
fn sentence(name: &str) -> String {
    needs::find(name).map_or_else(|| name.to_owned(), |need| format!("{name}: {}", need.missing))
}

/// A verdict before it is known whether it speaks of the claim itself.
struct Verdict {
    outcome: Outcome,
    why: String,
    checks: Vec<Check>,
}

impl Verdict {
    const fn not_testable(why: String) -> Self {
        Self { outcome: Outcome::NotTestable, why, checks: Vec::new() }
    }
}

/// A test that must hold everywhere is reproduced when it surely holds at each point, which needs no correction; one point at which
/// it surely does not contradicts it, and for that every point and every part of the test has had its chance.
fn check(scope: &Scope<'_>, test: &Test, look: Look<'_>) -> (Truth, Check) {
    let level = look.level / if test.has_choices() { parts(test) } else { 1.0 };
    let Seen { truth, detail } = scope.look(test, Look { level, ..look });
    let truth = match truth {
        Truth::No => {
            let every = look.level / parts(test) / real_length(scope.points().len());
            match scope.look(test, Look { level: every, ..look }).truth {
                Truth::No => Truth::No,
                _ => Truth::Open("too close to say so of one of several points".to_owned()),
            }
        }
        other => other,
    };
    let check = Check { point: look.point.to_vec(), holds: truth.holds(), detail: because(&truth, &detail) };
    (truth, check)
}

/// A test without an aggregate must hold at every point.
fn over_points(looked: Vec<(Truth, Check)>) -> Verdict {
    let holds = Truth::all(looked.iter().map(|(truth, _)| truth.clone())).holds();
    let checks: Vec<Check> = looked.into_iter().map(|(_, check)| check).collect();
    let telling: Vec<&Check> = checks.iter().filter(|check| check.holds == holds).collect();
    let mut why: Vec<String> = telling
        .iter()
        .take(TOLD)
        .map(|check| {
            let at = format!(" at {}", point_name(&check.point));
            // Why there is no number names the point itself.
            if check.detail.ends_with(&at) { check.detail.clone() } else { format!("{}{at}", check.detail) }
        })
        .collect();
    if telling.len() > TOLD {
        why.push(format!("and so at {} more of {} points", telling.len() - TOLD, checks.len()));
    } else if telling.len() < checks.len() {
        why.push(format!(
            "the other {} of {} points do not say so",
            checks.len() - telling.len(),
            checks.len()
        ));
    }
    Verdict { outcome: outcome(holds), why: why.join("; "), checks }
}

/// Points that a sentence tells one by one.
const TOLD: usize = 3;

const fn outcome(holds: Option<bool>) -> Outcome {
    match holds {
        Some(true) => Outcome::Reproduced,
        Some(false) => Outcome::Contradicted,
        None => Outcome::NotEnough,
    }
}

fn because(truth: &Truth, detail: &str) -> String {
    match truth {
        Truth::Open(reason) if detail.is_empty() => reason.clone(),
        Truth::Open(reason) => format!("{detail}: {reason}"),
        Truth::Yes | Truth::No => detail.to_owned(),
    }
}

/// What was measured on the thing itself is not compared with what stood in for it.
fn comparable(test: &Test, results: &[PointResult]) -> Result<(), Incomparable> {
    let named = test.arms();
    let mut seen: Vec<ArmEvidence<'_>> = Vec::new();
    for result in results.iter().filter(|result| named.contains(result.arm.as_str())) {
        if !seen.iter().any(|arm| arm.key == result.arm) {
            seen.push(ArmEvidence { key: &result.arm, evidence: &result.evidence });
        }
    }
    let clash =
        seen.iter().zip(seen.iter().skip(1)).find(|(one, other)| !one.evidence.comparable(other.evidence));
    clash.map_or(Ok(()), |(one, other)| Err(Incomparable::new(*one, *other)))
}

#[cfg(test)]
mod procedure;
#[cfg(test)]
mod synthetic_pairs;
#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
