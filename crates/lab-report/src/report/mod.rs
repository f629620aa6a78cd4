//! The report: one offline HTML file with every figure, its table and its CSV.
//!
//! [`write`] reads a run directory and nothing else, so a report can be made again from the raw results at any time. The
//! file fetches nothing: charts are drawn by a script inside it, and every number that a chart shows also stands in a
//! table, so that the report reads with scripts off. Names and remarks come from scenario files and tools: the template
//! escapes them all.
//!
//! A result becomes a picture in four steps: `series` sorts results into groups, `values` gives a group's number
//! and interval, `plan` says what goes where, `figure`, `trace` and `distribution` lay out charts and tables, `page` fills the template in.

mod chart;
mod claim;
mod compare;
mod contributors;
mod control;
mod distribution;
mod effectiveness;
pub(crate) mod environment;
mod extras;
mod figure;
mod kinds;
mod limiter;
mod load;
mod machines;
mod markdown;
mod nodes;
mod page;
mod plan;
mod recount;
pub(crate) mod run;
mod series;
mod summary;
mod svg;
mod table;
mod tabulate;
mod topology;
mod trace;
mod units;
mod values;
mod waiting;
mod words;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use lab_model::statistics::metric::main_metric;

/// Name of the report in its run directory.
pub const FILE: &str = "report.html";

/// A run's results as one Markdown table: every arm at every point, with its spread and its ratio to the first arm.
///
/// Fails as [`write`] does.
pub fn table(run_folder: &Path) -> Result<String> {
    let run = run::Run::read(run_folder)?;
    let metric = main_metric(run.scenario.workload.tool);
    Ok(markdown::table(&run.scenario, &run.points, metric))
}

/// Writes `report.html` into a run directory and returns its path. An earlier report is replaced whole or not at all.
///
/// Fails when the directory holds no `run.json` or `scenario.toml` that this lab reads, or cannot be written to. A
/// result that cannot be read does not fail it: the report names the file.
pub fn write(run_folder: &Path) -> Result<PathBuf> {
    let html = page::render(&run::Run::read(run_folder)?)?;
    let path = run_folder.join(FILE);
    let draft = run_folder.join(format!(".{FILE}.draft"));
    std::fs::write(&draft, html).with_context(|| format!("cannot write {}", draft.display()))?;
    std::fs::rename(&draft, &path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
