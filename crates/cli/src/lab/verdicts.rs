//! What a run showed, in words: every comparison, the control, and what becomes of the claims.

use anyhow::Result;
use lab::runner::session::{Ended, main_metric};
use lab::scenario::{Arm, Scenario};
use lab::statistics;

use crate::output;

/// Prints the verdicts of a run.
pub(super) fn print(scenario: &Scenario, ended: &Ended) -> Result<()> {
    let Some((first, others)) = scenario.arms.split_first() else { return Ok(()) };
    for arm in &scenario.arms {
        output::line(&format!("{}: {} [{}]", arm.key, arm.name, arm.evidence.label()))?;
    }
    others.iter().try_for_each(|other| compare(scenario, ended, (first, other)))?;
    match &ended.control {
        Some(control) => output::line(&format!("control (A against A): {}", control.words()))?,
        None => output::line("control (A against A): not enough pairs to say anything")?,
    }
    for why in &ended.invalid {
        output::line(&format!("INVALID: {why}"))?;
    }
    Ok(())
}

fn compare(scenario: &Scenario, ended: &Ended, (a, b): (&Arm, &Arm)) -> Result<()> {
    let metric = main_metric(scenario.workload.tool);
    for verdict in statistics::analyse(&ended.results, &a.key, &b.key, metric) {
        let point = lab::result::point_name(&verdict.point);
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
