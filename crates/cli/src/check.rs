//! `linerate check`: does a volume keep what it is given?

use anyhow::{Result, bail};
use clap::Parser;
use linerate::CheckPlan;
use names::{ByteSize, VolumeUrl};

use crate::output;

/// Arguments of `check`.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The volume, such as nvme+tcp://127.0.0.1/nqn.2026-11.org.linerate:disk/1
    url: VolumeUrl,
    /// How much of the volume's start to overwrite
    #[arg(long, default_value = "8M")]
    bytes: ByteSize,
    /// Seed of the patterns and of their order
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Yes: what the volume holds there may be lost
    #[arg(long)]
    overwrite: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    if !args.overwrite {
        bail!(
            "{}: the check would overwrite the first {} of the volume; add --overwrite if nothing there is needed",
            args.url,
            args.bytes
        );
    }
    let result = linerate::check(&args.url, CheckPlan { bytes: args.bytes.0, seed: args.seed })?;
    let mut kept = vec!["writes", "flushes"];
    kept.extend(result.zeroes.then_some("zeroes"));
    kept.extend(result.discards.then_some("discards"));
    output::line(&format!("{} bytes kept through {}", result.bytes, kept.join(", ")))
}
