//! `linerate losses`: tells which volumes have lost acknowledged writes, and clears that once an operator knows.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Parser;
use daemon::{Config, LossAction};

use crate::output;

/// What a user should know.
const MEANING: &str = "A flush that fails says that acknowledged writes are gone. From then on the server refuses whatever writes or flushes the volume, also \
    after a restart, and reads go on. Compare, repair or restore what the clients have there before you accept the loss: no record of it remains afterwards.";

/// Arguments of `losses`.
#[derive(Debug, Parser)]
#[command(after_help = MEANING)]
pub(crate) struct Args {
    /// Volumes, as `serve` has them
    #[arg(value_name = "NAME=URL")]
    volumes: Vec<String>,
    /// Volumes from a configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the volumes' state is kept, as `serve` has it
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Accept the loss, and allow writes again. The server must have stopped
    #[arg(long)]
    accept: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut config = match &args.config {
        Some(path) => Config::read(path)?,
        None => Config::default(),
    };
    for text in &args.volumes {
        config.volumes.push(crate::serve::named_volume(text)?);
    }
    config.daemon.state = args.state.clone().or(config.daemon.state);
    if config.volumes.is_empty() {
        bail!("there is no volume: name it as for serve, such as disk=file:disk.img, or give --config FILE");
    }
    let action = if args.accept { LossAction::Accept } else { LossAction::Tell };
    daemon::losses(&config, action, &|line| {
        // Whoever closed standard output does not want to know.
        let _unheard = output::line(line);
    })
}
