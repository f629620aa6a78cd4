//! What needs no measuring: reports of runs that are over, and cleaning up after those that were cut off.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Parser;
use lab::runner::ledger::{Ledger, TornDown};

use super::run::folder_of;
use crate::output;

/// Arguments of `lab report`.
#[derive(Debug, Parser)]
pub(crate) struct RunFolder {
    /// The run's folder
    #[arg(value_name = "RUN")]
    folder: PathBuf,
}

/// Arguments of `lab clean`.
#[derive(Debug, Parser)]
pub(crate) struct CleanArgs {
    /// Folder of runs, or one run's folder
    #[arg(value_name = "FOLDER", default_value = super::USUAL_RUNS)]
    folder: PathBuf,
}

/// Writes a report anew.
pub(crate) fn report(args: &RunFolder) -> Result<u8> {
    let report = lab::report::write(&folder_of(&args.folder))?;
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
