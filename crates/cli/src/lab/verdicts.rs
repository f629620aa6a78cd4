//! What a run showed, in words: every comparison, the control, and what becomes of the claims.

use std::collections::BTreeMap;

use anyhow::Result;
use lab_model::claims;
use lab_model::result::{Flag, PointResult, point_name};
use lab_model::scenario::{Arm, Scenario};
use lab_model::statistics;
use lab_model::statistics::control::Widths;
use lab_model::statistics::metric::main_metric;
use lab_runner::run::session::Ended;
use lab_runner::site::Site;

use crate::output;

/// Prints the verdicts of a run on a site.
pub(super) fn print(scenario: &Scenario, ended: &Ended, site: &Site) -> Result<()> {
    let Some((first, others)) = scenario.arms.split_first() else { return Ok(()) };
    for arm in &scenario.arms {
        output::line(&format!("{}: {} [{}]", arm.key, arm.name, arm.evidence))?;
    }
    others.iter().try_for_each(|other| compare(scenario, ended, first, other))?;
    match &ended.control {
        Some(control) => output::line(&format!("control (A against A): {}", control.words()))?,
        None => {
            output::line("control (A against A): too few undisturbed pairs, so that no difference is shown")?;
        }
    }
    let measured = claims::Measured {
        results: &ended.results,
        control: &ended.control_results,
        site_has: &site.has,
        prices: Some(&site.prices),
    };
    for judgement in claims::judge(scenario, measured) {
        let kind = if judgement.primary { "claim" } else { "exploratory claim" };
        output::line(&format!("{kind} \"{}\": {}", judgement.text, judgement.words()))?;
    }
    doubts(&ended.results)?;
    for why in &ended.invalid {
        output::line(&format!("INVALID: {why}"))?;
    }
    match ended.invalid.len() {
        0 => Ok(()),
        count => output::line(&format!(
            "{count} measurements failed or are invalid, and no verdict rests on them; the exit code is 2"
        )),
    }
}

fn compare(scenario: &Scenario, ended: &Ended, a: &Arm, b: &Arm) -> Result<()> {
    let metric = main_metric(scenario.workload.tool);
    let width = Widths::of(&ended.control_results).gate(metric);
    for verdict in statistics::analyse(&ended.results, &a.key, &b.key, metric) {
        let verdict = verdict.beside(width);
        let point = point_name(&verdict.point);
        output::line(&format!(
            "{point}: {}, {} against {}: {}",
            metric.title(),
            a.key,
            b.key,
            verdict.words()
        ))?;
    }
    Ok(())
}

/// How many results are doubtful, by kind.
fn doubts(results: &[PointResult]) -> Result<()> {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for flag in results.iter().flat_map(|result| &result.flags) {
        *kinds.entry(kind(flag)).or_default() += 1;
    }
    for (kind, count) in kinds {
        output::line(&format!("{count} of {} measurements: {kind}", results.len()))?;
    }
    Ok(())
}

const fn kind(flag: &Flag) -> &'static str {
    match flag {
        Flag::Contended { .. } => "contended, others used the processors",
        Flag::NoSteadyState { .. } => "no steady state",
        Flag::Throttled { .. } => "throttled processors",
        Flag::Errors { .. } => "failed I/Os",
        Flag::DelayedAck { .. } => "latencies of delayed acknowledgements",
        Flag::Corrupt { .. } => "wrong data",
        Flag::OutsideProfile { .. } => "not the load that the profile promises",
        Flag::SharedLimit { .. } => "arms on the same limit",
    }
}
