//! `linerate cluster`: several nodes that hold each other's copies, shown on one machine.

mod demo;
mod load;
mod nodes;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Arguments of `cluster`.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Bring up four nodes in network namespaces, kill one under load, and show that nothing is lost
    Demo(demo::Args),
}

/// Runs what was asked for.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Demo(args) => demo::run(args),
    }
}
