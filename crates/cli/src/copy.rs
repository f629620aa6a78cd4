//! `linerate copy`: one volume onto another, or from or to a stream.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::{Result, bail};
use clap::Parser;
use linerate::{CopyPlan, CopyResult, Verify};
use names::VolumeUrl;
use serde::Serialize;

use crate::endpoint::Endpoint;
use crate::output;
use crate::overwrite::OverwriteArgs;
use crate::watch::{EffortArgs, Watch, exit_code};

/// Arguments of `copy`.
#[derive(Debug, Parser)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct Args {
    /// The volume to read, or - for standard input
    source: Endpoint,
    /// The volume to write from its beginning, or - for standard output; a file that does not exist is created in the source's
    /// size, whatever exists needs --overwrite
    target: Endpoint,
    /// Read each chunk back and compare it
    #[arg(long)]
    verify: bool,
    /// Read holes too, and write zeros as data: the target then has all its space
    #[arg(long)]
    no_sparse: bool,
    #[command(flatten)]
    overwrite: OverwriteArgs,
    /// Print the totals as one JSON object: on standard output, or on standard error where that takes the data
    #[arg(long)]
    json: bool,
    /// Do not print the totals
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    #[command(flatten)]
    effort: EffortArgs,
}

/// What came of a copy. `docs/howto/data.md` has the keys, which stay.
#[derive(Debug, Serialize)]
struct Totals {
    source: String,
    target: String,
    bytes: u64,
    zeros: u64,
    holes: u64,
    verified: bool,
    stopped: bool,
    seconds: f64,
    mb_per_s: f64,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let verify = if args.verify { Verify::Yes } else { Verify::No };
    let plan = CopyPlan { verify, sparse: !args.no_sparse, effort: args.effort.effort() };
    if let Endpoint::Volume(target) = &args.target {
        args.overwrite.permit(target, "the copy would overwrite the volume from its beginning")?;
    }
    let watch = Watch::start()?;
    let result = match (&args.source, &args.target) {
        (Endpoint::Stream, Endpoint::Stream) => {
            bail!("- cannot be both source and target: name a volume for one of them")
        }
        (Endpoint::Volume(_), Endpoint::Stream) if args.verify => {
            bail!("--verify reads the target back, which a stream cannot give: leave it out")
        }
        (Endpoint::Volume(source), Endpoint::Stream) => export(source, plan, &watch)?,
        (Endpoint::Stream, Endpoint::Volume(target)) => {
            linerate::import(Box::new(std::io::stdin()), target, plan, watch.control()?)?
        }
        (Endpoint::Volume(source), Endpoint::Volume(target)) => {
            linerate::copy(source, target, plan, watch.control()?)?
        }
    };
    watch.clear();
    tell(args, &result, &watch)?;
    Ok(exit_code(result.stopped))
}

/// Says what was copied.
fn tell(args: &Args, result: &CopyResult, watch: &Watch) -> Result<()> {
    let totals = Totals::new(args, result, watch.seconds());
    match (args.json, &args.target) {
        (false, _) if args.quiet => {}
        (false, _) => output::print_to_stderr(&totals.words()),
        (true, Endpoint::Stream) => output::print_to_stderr(&serde_json::to_string(&totals)?),
        (true, Endpoint::Volume(_)) => output::json(&totals)?,
    }
    Ok(())
}

impl Totals {
    #[expect(clippy::cast_precision_loss, reason = "a rate needs no more digits")]
    fn new(args: &Args, result: &CopyResult, seconds: f64) -> Self {
        let CopyResult { bytes, zeros, holes, stopped } = *result;
        Self {
            source: args.source.to_string(),
            target: args.target.to_string(),
            bytes,
            zeros,
            holes,
            verified: args.verify,
            stopped,
            seconds,
            mb_per_s: if seconds > 0.0 { bytes as f64 / seconds / 1e6 } else { 0.0 },
        }
    }

    fn words(&self) -> String {
        let Self { target, bytes, zeros, holes, seconds, mb_per_s, .. } = self;
        let verified = if self.verified { ", read back and compared" } else { "" };
        let so_far = if self.stopped {
            format!("stopped; from the beginning of {target} on: ")
        } else {
            String::new()
        };
        format!(
            "{so_far}{bytes} bytes copied ({zeros} of them zeros, {holes} in holes) in {seconds:.3} s, {mb_per_s:.1} MB/s{verified}"
        )
    }
}

fn export(source: &VolumeUrl, plan: CopyPlan, watch: &Watch) -> Result<CopyResult> {
    if std::io::stdout().is_terminal() {
        bail!("standard output is a terminal: send the volume's bytes to a file or to another program");
    }
    let stream = output::Stream::default();
    let unread = stream.unread();
    let result = linerate::export(source, Box::new(stream), plan, watch.control()?);
    if result.is_err() && unread.load(Ordering::SeqCst) {
        watch.clear();
        return Err(output::Unread.into());
    }
    let result = result?;
    Ok(CopyResult { bytes: result.bytes, zeros: result.holes, holes: result.holes, stopped: result.stopped })
}
