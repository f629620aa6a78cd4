//! Each claim of the publication with its verdict, as the page shows it.

use std::collections::BTreeSet;

use lab_model::claims::grammar::Test;
use lab_model::claims::{self, Judgement, Outcome, judge};
use lab_model::result::point_name;
use lab_model::scenario::{Claim, Initiator, Metric, place};

use super::run::Run;
use super::series::{Group, Measured};
use super::values::summary;

/// More points than this are not told one by one beside a claim.
const MOST_POINTS: usize = 3;

/// A claim and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Judged {
    /// As the scenario names it.
    pub(crate) id: String,
    /// The claim.
    pub(crate) text: String,
    /// `reproduced`, `contradicted`, `not enough`, `not testable here`.
    pub(crate) verdict: String,
    /// The verdict as a class of the style sheet.
    pub(crate) class: &'static str,
    /// Why, with the numbers.
    pub(crate) why: String,
    /// What is missing for a verdict on the claim itself.
    pub(crate) missing: Vec<String>,
    /// What was tested in its place.
    pub(crate) stand_in: Option<StandIn>,
    /// What else belongs to the numbers.
    pub(crate) beside: Vec<String>,
    /// `primary`, whose verdicts are corrected for each other, or `exploratory`.
    pub(crate) kind: &'static str,
    /// When it holds.
    pub(crate) test: String,
    /// Corrected by arithmetic.
    pub(crate) derived: String,
    /// A reading of it.
    pub(crate) inferred: String,
}

/// What was tested in a claim's place, with a verdict of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StandIn {
    /// What.
    pub(crate) what: String,
    /// The verdict on it.
    pub(crate) verdict: String,
    /// The verdict as a class of the style sheet.
    pub(crate) class: &'static str,
    /// Why, with the numbers.
    pub(crate) why: String,
}

/// Every claim, in the scenario's order.
pub(crate) fn judged(run: &Run, measured: &Measured<'_>) -> Vec<Judged> {
    let evidence = claims::Measured {
        results: &run.points,
        control: &run.control,
        site_has: &run.info.site.has,
        prices: Some(&run.info.site.prices),
    };
    let judgements = judge(&run.scenario, evidence);
    let claims = run.scenario.claims.iter().zip(judgements);
    claims.map(|(claim, judgement)| shown(judgement, added_latency(measured, claim))).collect()
}

fn shown(judgement: Judgement, beside: Vec<String>) -> Judged {
    let stand_in = judgement.stand_in.map(|stand_in| {
        let (verdict, class) = (stand_in.outcome.to_string(), class(stand_in.outcome));
        StandIn { what: stand_in.what, verdict, class, why: stand_in.why }
    });
    Judged {
        id: judgement.claim,
        text: judgement.text,
        verdict: judgement.outcome.to_string(),
        class: class(judgement.outcome),
        why: judgement.why,
        missing: judgement.missing,
        stand_in,
        beside,
        kind: if judgement.primary { "primary" } else { "exploratory" },
        test: judgement.test.unwrap_or_default(),
        derived: judgement.derived.unwrap_or_default(),
        inferred: judgement.inferred.unwrap_or_default(),
    }
}

const fn class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Reproduced => "reproduced",
        Outcome::Contradicted => "contradicted",
        Outcome::NotEnough => "unsure",
        Outcome::NotTestable => "untested",
    }
}

/// `1 reproduced, 2 not testable here; in the place of those: 1 contradicted`.
pub(crate) fn counted(claims: &[Judged]) -> String {
    let own = tally(claims.iter().map(|claim| claim.verdict.as_str()));
    let in_place = tally(claims.iter().filter_map(|claim| Some(claim.stand_in.as_ref()?.verdict.as_str())));
    if in_place.is_empty() { own } else { format!("{own}; in the place of those: {in_place}") }
}

/// How often each verdict was given, in the order of their weight.
fn tally<'a>(verdicts: impl Iterator<Item = &'a str>) -> String {
    let verdicts: Vec<&str> = verdicts.collect();
    let order = [Outcome::Reproduced, Outcome::Contradicted, Outcome::NotEnough, Outcome::NotTestable];
    let counts = order.into_iter().map(|outcome| {
        let word = outcome.to_string();
        (verdicts.iter().filter(|verdict| **verdict == word).count(), word)
    });
    let counts: Vec<String> =
        counts.filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
    counts.join(", ")
}

/// What all claims together miss, each once.
pub(crate) fn missing(claims: &[Judged]) -> Vec<String> {
    let all: BTreeSet<&String> = claims.iter().flat_map(|claim| &claim.missing).collect();
    all.into_iter().cloned().collect()
}

/// What the transport adds, for a claim that speaks of latency: a small share of a large latency may be a large share of what
/// the transport is to blame for.
fn added_latency(measured: &Measured<'_>, claim: &Claim) -> Vec<String> {
    let Some(test) = claim.test.as_deref().filter(|test| test.contains("latency")) else { return Vec::new() };
    let Ok(parsed) = Test::parse(test) else { return Vec::new() };
    if !measured.scenario.arms.iter().any(|arm| arm.initiator == Initiator::Local) {
        return vec!["No arm is local: how much of the latency the transport adds is not known.".to_owned()];
    }
    let named = parsed.arms();
    let here = |group: &&Group<'_>| {
        let fits =
            claim.at.iter().all(|(axis, value)| group.at(axis).is_none_or(|own| place::lies(own, value)));
        fits && named.contains(group.arm.key.as_str()) && group.arm.initiator != Initiator::Local
    };
    let mut points: Vec<(String, Vec<String>)> = Vec::new();
    for group in measured.groups.iter().filter(here) {
        let Some(added) = summary(measured, group, Metric::AddedLatency) else { continue };
        let words = format!("{} {}", group.arm.key, Metric::AddedLatency.format(added.value));
        let name = point_name(group.point);
        match points.iter_mut().find(|(known, _)| *known == name) {
            Some((_, arms)) => arms.push(words),
            None => points.push((name, vec![words])),
        }
    }
    let lines = points.iter().take(MOST_POINTS);
    lines.map(|(point, arms)| format!("Added over local at {point}: {}.", arms.join(", "))).collect()
}
