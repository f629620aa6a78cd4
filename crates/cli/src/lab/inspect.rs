//! `lab list` and `lab show`: what there is to run.

use anyhow::Result;
use clap::Parser;
use lab::runner::preflight;
use lab::scenario::catalogue::{self, Loaded};
use lab::scenario::needs;
use lab::scenario::sweep::Extent;
use lab::site::Site;
use serde::Serialize;

use crate::output;

/// Arguments of `lab list`.
#[derive(Debug, Parser)]
pub(crate) struct ListArgs {
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `lab show`.
#[derive(Debug, Parser)]
pub(crate) struct ScenarioArgs {
    /// The scenario: its identifier, or the path of a file
    scenario: String,
}

#[derive(Debug, Serialize)]
struct Row {
    id: String,
    title: String,
    publication: String,
    arms: Vec<String>,
    claims: usize,
    runnable: bool,
    missing: Vec<String>,
}

fn rows() -> Result<Vec<Row>> {
    let present = preflight::present(&Site::default());
    let row = |loaded: Loaded| {
        let scenario = loaded.scenario;
        Row {
            arms: scenario.arms.iter().map(|arm| format!("{}: {}", arm.key, arm.name)).collect(),
            claims: scenario.claims.len(),
            runnable: needs::runnable(&scenario, Extent::Full, &present),
            missing: needs::of_scenario(&scenario, &present),
            id: scenario.id,
            title: scenario.title,
            publication: scenario.source.publication,
        }
    };
    Ok(catalogue::list()?.into_iter().map(row).collect())
}

/// Lists the scenarios.
pub(crate) fn list(args: &ListArgs) -> Result<u8> {
    let rows = rows()?;
    if args.json {
        output::line(&serde_json::to_string_pretty(&rows)?)?;
        return Ok(0);
    }
    for row in rows {
        let here = if row.runnable { "runs here" } else { "not here" };
        output::line(&format!("{:36} {here:10} {}", row.id, row.title))?;
    }
    output::line("`linerate lab show SCENARIO` shows one; `linerate lab plan SCENARIO` says what is missing")
        .map(|()| 0)
}

/// Shows a scenario.
pub(crate) fn show(args: &ScenarioArgs) -> Result<u8> {
    let loaded = super::scenario(&args.scenario)?;
    output::line(&format!("# {}\n{}", loaded.origin, loaded.text)).map(|()| 0)
}
