//! `linerate docs`: shell completions and manual pages, generated from the arguments themselves.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser};
use clap_complete::Shell;

use crate::Cli;

/// Arguments of `docs`.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Print completions for this shell
    #[arg(long, value_enum, conflicts_with = "man")]
    completions: Option<Shell>,
    /// Write one manual page per command into this folder
    #[arg(long, value_name = "FOLDER", required_unless_present = "completions")]
    man: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut command = Cli::command();
    if let Some(shell) = args.completions {
        clap_complete::generate(shell, &mut command, "linerate", &mut std::io::stdout());
    }
    if let Some(folder) = &args.man {
        std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        clap_mangen::generate_to(command, folder)
            .with_context(|| format!("manual pages cannot be written to {}", folder.display()))?;
    }
    Ok(())
}
