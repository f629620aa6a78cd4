//! What needs no measuring: reports, comparisons and imports, the environment, and cleaning up after runs that were cut off.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use lab_model::scenario::Metric;
use lab_report::compare::{self, Options, Threshold};
use lab_report::import::{self, Kind};
use lab_runner::machine::ledger::{Ledger, TornDown};
use lab_runner::measure::{Environment, environment};

use super::folder::{USUAL_RUNS, folder_of};
use super::program::own_program;
use crate::output;

/// Arguments of `lab report`.
#[derive(Debug, Parser)]
pub(crate) struct RunFolder {
    /// The run's folder
    #[arg(value_name = "RUN")]
    folder: PathBuf,
    /// Also print every arm at every point as a Markdown table, with ratios to the first arm
    #[arg(long)]
    table: bool,
}

/// Arguments of `lab clean`.
#[derive(Debug, Parser)]
pub(crate) struct CleanArgs {
    /// Folder of runs, or one run's folder
    #[arg(value_name = "FOLDER", default_value = USUAL_RUNS)]
    folder: PathBuf,
}

/// Arguments of `lab compare`.
#[derive(Debug, Parser)]
pub(crate) struct CompareArgs {
    /// A run's folder
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The folder of the run that it is compared with; the same folder compares its arms
    #[arg(value_name = "B")]
    b: PathBuf,
    #[command(flatten)]
    how: How,
}

/// Arguments of `lab regress`.
#[derive(Debug, Parser)]
pub(crate) struct RegressArgs {
    /// The run's folder
    #[arg(value_name = "RUN")]
    current: PathBuf,
    /// The folder of the run that it must not fall behind
    #[arg(long, value_name = "RUN")]
    baseline: PathBuf,
    /// What counts as a regression, such as 'iops<-5%' or 'latency_p99>+10%'; may be given several times
    #[arg(long, value_name = "THRESHOLD", required = true, allow_hyphen_values = true)]
    fail_on: Vec<Threshold>,
    #[command(flatten)]
    how: How,
}

/// How runs are compared.
#[derive(Debug, Parser)]
pub(crate) struct How {
    /// What is compared, such as iops or latency_p99; may be given several times
    #[arg(long = "metric", value_name = "METRIC")]
    metrics: Vec<String>,
    /// Also compare what was measured with what was emulated
    #[arg(long)]
    across_evidence: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `lab import`.
#[derive(Debug, Parser)]
pub(crate) struct ImportArgs {
    /// The tool: diskspd, vmfleet, iometer, jetstress, perfmon, iperf or sar
    kind: Kind,
    /// Its file
    file: PathBuf,
    /// The folder to make a run of it in
    #[arg(long, value_name = "RUN")]
    into: PathBuf,
}

/// Arguments of `lab env`.
#[derive(Debug, Parser)]
pub(crate) struct EnvArgs {
    #[command(subcommand)]
    command: Option<EnvCommand>,
}

#[derive(Debug, Subcommand)]
enum EnvCommand {
    /// Say what differs between the machines of two runs
    Diff {
        /// A run's folder, or a file that `lab env` wrote
        a: PathBuf,
        /// Another one
        b: PathBuf,
    },
}

impl How {
    fn options(&self) -> Result<Options> {
        let named = |name: &String| {
            Metric::named(name).with_context(|| {
                let all: Vec<&str> = Metric::ALL.into_iter().map(Metric::name).collect();
                format!("{name:?} is not a metric; say one of {}", all.join(", "))
            })
        };
        let metrics: Vec<Metric> = self.metrics.iter().map(named).collect::<Result<_>>()?;
        let usual = Options::default();
        let metrics = if metrics.is_empty() { usual.metrics } else { metrics };
        Ok(Options { metrics, across_evidence: self.across_evidence })
    }
}

/// Compares two runs.
pub(crate) fn compare(args: &CompareArgs) -> Result<u8> {
    let comparison = compare::compare(&folder_of(&args.a), &folder_of(&args.b), &args.how.options()?)?;
    let text = if args.how.json { comparison.json()? } else { comparison.text() };
    output::line(text.trim_end()).map(|()| 0)
}

/// Says whether a run fell behind another.
pub(crate) fn regress(args: &RegressArgs) -> Result<u8> {
    let (baseline, current) = (folder_of(&args.baseline), folder_of(&args.current));
    let found = compare::regress(&baseline, &current, &args.fail_on, &args.how.options()?)?;
    let text = if args.how.json { found.json()? } else { found.text() };
    output::line(text.trim_end())?;
    Ok(found.outcome().code())
}

/// Makes a run of another tool's file.
pub(crate) fn import(args: &ImportArgs) -> Result<u8> {
    import::into_run(args.kind, &args.file, &args.into)?;
    let report = lab_report::write(&args.into)?;
    output::line(&format!("report: {}", report.display())).map(|()| 0)
}

/// Tells of this machine, or of the difference between two.
pub(crate) fn env(args: &EnvArgs) -> Result<u8> {
    let Some(EnvCommand::Diff { a, b }) = &args.command else {
        let commit = own_program()?.parent().and_then(environment::commit_of);
        let text = serde_json::to_string_pretty(&Environment::capture(commit))?;
        return output::line(&text).map(|()| 0);
    };
    let lines = environment::diff(&environment_of(a)?, &environment_of(b)?)?;
    if lines.is_empty() {
        return output::line("no difference").map(|()| 0);
    }
    lines.iter().try_for_each(|line| output::line(line))?;
    Ok(0)
}

/// The environment of a run, or one that was written to a file.
fn environment_of(given: &Path) -> Result<Environment> {
    let given = folder_of(given);
    let path = if given.is_dir() { given.join("run.json") } else { given };
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut value: serde_json::Value =
        serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))?;
    if let Some(inner) = value.get_mut("environment") {
        value = inner.take();
    }
    serde_json::from_value(value).with_context(|| format!("{} describes no environment", path.display()))
}

/// Writes a report anew.
pub(crate) fn report(args: &RunFolder) -> Result<u8> {
    let folder = folder_of(&args.folder);
    let report = lab_report::write(&folder)?;
    if args.table {
        output::line(lab_report::table(&folder)?.trim_end())?;
    }
    output::line(&format!("report: {}", report.display())).map(|()| 0)
}

/// Tears down what ledgers list. Results stay.
pub(crate) fn clean(args: &CleanArgs) -> Result<u8> {
    let mut all = TornDown::default();
    for ledger in ledgers(&args.folder)? {
        let torn = Ledger::open(&ledger)?.tear_down();
        all.removed.extend(torn.removed);
        all.left.extend(torn.left);
    }
    for what in &all.removed {
        output::line(&format!("removed {what}"))?;
    }
    if let Some(what) = all.left.first() {
        bail!("{what} ({} in all)", all.left.len());
    }
    if all.removed.is_empty() {
        output::line("nothing was left behind")?;
    }
    Ok(0)
}

fn ledgers(folder: &Path) -> Result<Vec<PathBuf>> {
    let own = folder.join("ledger.jsonl");
    if own.exists() {
        return Ok(vec![own]);
    }
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let ledger = entry?.path().join("ledger.jsonl");
        if ledger.exists() {
            found.push(ledger);
        }
    }
    found.sort();
    Ok(found)
}
