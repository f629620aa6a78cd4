//! Writes a synthetic run with its report into a directory: what tests of the report look at.
//!
//! `cargo run -p lab --example synthetic_run -- FOLDER` writes the run that has every kind of figure. With the identifier of a
//! scenario behind it, it writes a run of that scenario; with `--all`, a run of every scenario, each into a
//! directory of its own.

mod fixture;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use lab_model::scenario::catalogue;
use lab_model::scenario::sweep::Extent;

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let folder = words.next().map(PathBuf::from);
    let folder = folder.context("no directory given: synthetic_run FOLDER [SCENARIO | --all]")?;
    match words.next().as_deref() {
        None => {
            fixture::write(&folder)?;
            lab_report::write(&folder)?;
        }
        Some("--all") => {
            for scenario in catalogue::list()? {
                of_scenario(&folder.join(&scenario.scenario.id), &scenario.text)?;
            }
        }
        Some(id) => of_scenario(&folder, &catalogue::load(id)?.text)?,
    }
    Ok(())
}

fn of_scenario(folder: &Path, text: &str) -> Result<()> {
    fixture::write_scenario(folder, text, Extent::Full)?;
    lab_report::write(folder)?;
    Ok(())
}
