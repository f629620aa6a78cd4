//! `lab list` and `lab show`: what there is to run.

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use lab_model::scenario::catalogue::{self, Loaded};
use lab_model::scenario::describe;
use lab_model::scenario::feasibility::Feasibility;
use lab_model::scenario::sweep::{self, Extent};
use lab_runner::run::preflight::{self, Here};
use lab_runner::site::Site;

use crate::output;

/// Arguments of `lab list`.
#[derive(Debug, Parser)]
pub(crate) struct ListArgs {
    /// Scenario files below this folder, in place of those that are built in
    folder: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `lab show`.
#[derive(Debug, Parser)]
pub(crate) struct ScenarioArgs {
    /// The scenario: its identifier, or the path of a file
    scenario: String,
    /// The file itself
    #[arg(long)]
    toml: bool,
}

/// Lists the scenarios.
pub(crate) fn list(args: &ListArgs) -> Result<u8> {
    let site = Site::default();
    let present = preflight::present(&site);
    let scenarios: Vec<Loaded> = match &args.folder {
        Some(folder) => catalogue::list_folder(folder)?,
        None => catalogue::list()?,
    };
    let here = Here { site: &site, present: &present };
    let entries: Vec<_> =
        scenarios.iter().map(|loaded| describe::entry(loaded, &whole(here, loaded))).collect();
    if args.json {
        return output::line(&serde_json::to_string_pretty(&entries)?).map(|()| 0);
    }
    for entry in &entries {
        let here = if entry.runnable { "runs here" } else { "not here" };
        output::line(&format!("{:36} {here:10} {}", entry.id, entry.title))?;
    }
    let hint = "`linerate lab show SCENARIO` shows one; `linerate lab plan SCENARIO` says what is missing";
    output::line(hint).map(|()| 0)
}

/// Shows a scenario.
pub(crate) fn show(args: &ScenarioArgs) -> Result<u8> {
    let loaded = catalogue::load(&args.scenario)?;
    let site = Site::default();
    let present = preflight::present(&site);
    let here = Here { site: &site, present: &present };
    let text = if args.toml { loaded.text.clone() } else { describe::show(&loaded, &whole(here, &loaded)) };
    output::line(text.trim_end()).map(|()| 0)
}

/// What can be run here of a scenario's whole sweep.
fn whole(here: Here<'_>, loaded: &Loaded) -> Feasibility {
    here.feasible(&loaded.scenario, sweep::points(&loaded.scenario, Extent::Full))
}
