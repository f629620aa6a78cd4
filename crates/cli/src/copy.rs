//! `linerate copy`: one volume onto another.

use std::sync::Arc;

use anyhow::Result;
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use linerate::Verify;
use names::VolumeUrl;

use crate::output;

/// Arguments of `copy`.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The volume to read
    source: VolumeUrl,
    /// The volume to overwrite; a file that does not exist is created in the source's size
    target: VolumeUrl,
    /// Read each chunk back and compare it
    #[arg(long)]
    verify: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let bar = ProgressBar::new(0);
    bar.set_style(ProgressStyle::with_template(
        "{bytes} of {total_bytes} {bar:30} {bytes_per_sec}, {eta} left",
    )?);
    let shown = bar.clone();
    let progress = Arc::new(move |done: u64, total: u64| {
        shown.set_length(total);
        shown.set_position(done);
    });
    let verify = if args.verify { Verify::Yes } else { Verify::No };
    let result = linerate::copy(&args.source, &args.target, verify, progress)?;
    bar.finish_and_clear();
    let verified = if args.verify { ", read back and compared" } else { "" };
    output::line(&format!("{} bytes copied ({} of them zeros){verified}", result.bytes, result.zeros))
}
