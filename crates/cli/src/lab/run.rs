//! `lab plan`, `lab run` and `lab resume`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use lab_model::scenario::Scenario;
use lab_model::scenario::catalogue::{self, Loaded};
use lab_model::scenario::describe;
use lab_model::scenario::sweep::{Extent, Point};
use lab_runner::run::plan::Plan;
use lab_runner::run::preflight::{self, Here, NotTestable};
use lab_runner::run::progress::{Event, Observer};
use lab_runner::run::session::{self, Ended, Options};
use lab_runner::run::store::{Opened, Store};
use lab_runner::site::Site;
use names::Span;

use super::display::Display;
use super::exit_code::{INVALID, NOT_TESTABLE};
use super::folder::USUAL_RUNS;
use super::program::{own_program, stop_by_signal};
use super::verdicts;
use crate::output;

/// What is measured, and where.
#[derive(Debug, Parser)]
pub(crate) struct What {
    /// The scenario: its identifier, or the path of a file
    #[arg(value_name = "SCENARIO")]
    scenario: String,
    /// Only the points that the scenario names for a quick look
    #[arg(long)]
    quick: bool,
    /// Longest time that the run may take, such as 10m; points that do not fit are dropped and named
    #[arg(long, value_name = "DURATION")]
    budget: Option<Span>,
    /// File that binds arms to machines and devices
    #[arg(long, value_name = "FILE")]
    site: Option<PathBuf>,
}

/// Arguments of `lab plan`.
#[derive(Debug, Parser)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    what: What,
}

/// Arguments of `lab run`.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    what: What,
    /// Folder in which the run gets a folder of its own
    #[arg(long, value_name = "FOLDER", default_value = USUAL_RUNS)]
    runs: PathBuf,
    /// Serial number of a device whose content may be lost; may be given several times
    #[arg(long, value_name = "SERIAL")]
    destroy: Vec<String>,
    /// Tell of the progress as JSON, one event per line
    #[arg(long)]
    json_progress: bool,
    /// In the end, print every arm at every point as a Markdown table, with ratios to the first arm
    #[arg(long, conflicts_with = "json_progress")]
    table: bool,
}

/// Arguments of `lab resume`.
#[derive(Debug, Parser)]
pub(crate) struct ResumeArgs {
    /// The run's folder
    #[arg(value_name = "RUN")]
    folder: PathBuf,
    /// Tell of the progress as JSON, one event per line
    #[arg(long)]
    json_progress: bool,
}

impl What {
    fn load(&self) -> Result<(Loaded, Site)> {
        let site = self.site.as_deref().map_or_else(|| Ok(Site::default()), Site::read)?;
        Ok((catalogue::load(&self.scenario)?, site))
    }

    const fn extent(&self) -> Extent {
        if self.quick { Extent::Quick } else { Extent::Full }
    }
}

/// Says what a run would measure.
pub(crate) fn plan(args: &PlanArgs) -> Result<u8> {
    let (loaded, site) = args.what.load()?;
    let scenario = &loaded.scenario;
    let present = preflight::present(&site);
    let here = Here { site: &site, present: &present };
    let can_run = |point: &Point| here.can_run(scenario, point);
    let plan = Plan::new(scenario, args.what.extent(), args.what.budget.map(|span| span.0), &can_run);
    let feasible = here.feasible(scenario, plan.points.clone());
    output::line(describe::plan(&loaded, &feasible)?.trim_end())?;
    if let Some(budget) = args.what.budget {
        output::line(&format!(
            "\nWithin {budget}: {} of {} points",
            plan.points.len(),
            plan.points.len() + plan.dropped.len()
        ))?;
        plan.dropped.iter().try_for_each(|name| output::line(&format!("  dropped: {name}")))?;
    }
    match preflight::check(scenario, &plan, here, &BTreeSet::new()) {
        Ok(()) => output::line("\nIt can be run here.").map(|()| 0),
        Err(error) if error.downcast_ref::<NotTestable>().is_some() => {
            output::line(&format!("\n{error}")).map(|()| NOT_TESTABLE)
        }
        Err(error) => Err(error),
    }
}

/// Runs a scenario.
pub(crate) fn run(args: &Args) -> Result<u8> {
    let (scenario, site) = args.what.load()?;
    let (spoken, place) = (scenario.scenario.clone(), site.clone());
    let options = Options {
        scenario,
        site,
        extent: args.what.extent(),
        budget: args.what.budget.map(|span| span.0),
        runs: args.runs.clone(),
        linerate: own_program()?,
        destroy: args.destroy.iter().cloned().collect(),
    };
    let mut display = Display::new(args.json_progress);
    let ended = session::run(options, &mut display, &*stop_by_signal()?)?;
    let code = finish(&spoken, &place, &ended, &mut display)?;
    if args.table {
        output::line(lab_report::table(&ended.folder)?.trim_end())?;
    }
    Ok(code)
}

/// Goes on with a run.
pub(crate) fn resume(args: &ResumeArgs) -> Result<u8> {
    let mut display = Display::new(args.json_progress);
    let ended = session::resume(&args.folder, own_program()?, &mut display, &*stop_by_signal()?)?;
    let Opened { record, scenario, .. } = Store::open(&args.folder)?;
    finish(&scenario.scenario, &record.site, &ended, &mut display)
}

fn finish(scenario: &Scenario, site: &Site, ended: &Ended, display: &mut Display) -> Result<u8> {
    let report = lab_report::write(&ended.folder)?;
    display
        .tell(&Event::Ended { report: Some(report.display().to_string()), invalid: ended.invalid.clone() });
    if !matches!(display, Display::Json) {
        verdicts::print(scenario, ended, site)?;
        output::line(&format!("report: {}", report.display()))?;
    }
    if ended.stopped {
        output::line(&format!("stopped; `linerate lab resume {}` goes on", ended.folder.display()))?;
        return Ok(INVALID);
    }
    Ok(if ended.invalid.is_empty() { 0 } else { INVALID })
}
