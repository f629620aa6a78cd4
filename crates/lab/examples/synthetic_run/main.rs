//! Writes a synthetic run with its report into a new directory: what tests of the report look at.
//!
//! `cargo run -p lab --example synthetic_run -- FOLDER`

mod fixture;

use std::path::PathBuf;

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.context("no directory given: synthetic_run FOLDER writes a run into a new FOLDER")?;
    fixture::write(&folder)?;
    lab::report::write(&folder)?;
    Ok(())
}
