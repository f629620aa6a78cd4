//! `linerate copy`: one volume onto another, or from or to a stream.

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Parser;
use linerate::{CopyPlan, CopyResult, Verify};
use names::VolumeUrl;

use crate::output;
use crate::place::Place;
use crate::watch::{EffortArgs, Watch, exit_code};

/// Arguments of `copy`.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The volume to read, or - for standard input
    source: Place,
    /// The volume to overwrite from its beginning, or - for standard output; a file that does not exist is created in the source's
    /// size
    target: Place,
    /// Read each chunk back and compare it
    #[arg(long)]
    verify: bool,
    /// Read holes too, and write zeros as data: the target then has all its space
    #[arg(long)]
    no_sparse: bool,
    #[command(flatten)]
    effort: EffortArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let verify = if args.verify { Verify::Yes } else { Verify::No };
    let plan = CopyPlan { verify, sparse: !args.no_sparse, effort: args.effort.effort() };
    match (&args.source, &args.target) {
        (Place::Stream, Place::Stream) => {
            bail!("- cannot be both source and target: name a volume for one of them")
        }
        (Place::Volume(_), Place::Stream) if args.verify => {
            bail!("--verify reads the target back, which a stream cannot give: leave it out")
        }
        (Place::Volume(source), Place::Stream) => export(source, plan),
        (Place::Stream, Place::Volume(target)) => {
            let watch = Watch::start()?;
            let result = linerate::import(Box::new(std::io::stdin()), target, plan, watch.control()?)?;
            watch.clear();
            tell(&result, target, plan)
        }
        (Place::Volume(source), Place::Volume(target)) => {
            let watch = Watch::start()?;
            let result = linerate::copy(source, target, plan, watch.control()?)?;
            watch.clear();
            tell(&result, target, plan)
        }
    }
}

fn tell(result: &CopyResult, target: &VolumeUrl, plan: CopyPlan) -> Result<ExitCode> {
    let CopyResult { bytes, zeros, holes, stopped } = *result;
    let verified = if plan.verify == Verify::Yes { ", read back and compared" } else { "" };
    let so_far =
        if stopped { format!("stopped; from the beginning of {target} on: ") } else { String::new() };
    output::line(&format!(
        "{so_far}{bytes} bytes copied ({zeros} of them zeros, {holes} in holes){verified}"
    ))?;
    Ok(exit_code(stopped))
}

fn export(source: &VolumeUrl, plan: CopyPlan) -> Result<ExitCode> {
    if std::io::stdout().is_terminal() {
        bail!("standard output is a terminal: send the volume's bytes to a file or to another program");
    }
    let watch = Watch::start()?;
    let result = linerate::export(source, Box::new(std::io::stdout()), plan, watch.control()?)?;
    watch.clear();
    if result.stopped {
        output::remark(&format!("stopped after {} bytes", result.bytes));
    }
    Ok(exit_code(result.stopped))
}
