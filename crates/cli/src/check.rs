//! `linerate check`: does a volume keep what it is given?

use std::time::Instant;

use anyhow::Result;
use clap::Parser;
use linerate::{CheckPlan, CheckResult, Error};
use names::{ByteSize, VolumeUrl};
use serde::Serialize;

use crate::output;
use crate::overwrite::OverwriteArgs;

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
    #[command(flatten)]
    overwrite: OverwriteArgs,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

/// What was found. `docs/howto/data.md` has the keys, which stay.
#[derive(Debug, Serialize)]
struct Report {
    url: String,
    seed: u64,
    passed: bool,
    /// What was wrong, if it did not pass.
    failure: Option<String>,
    bytes: u64,
    kept: Vec<&'static str>,
    seconds: f64,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let deed = format!("the check would overwrite the first {} of the volume", args.bytes);
    args.overwrite.permit(&args.url, &deed)?;
    let begun = Instant::now();
    let plan = CheckPlan { bytes: args.bytes.0, seed: args.seed };
    let result = linerate::check(&args.url, plan);
    if args.json {
        print(args, &result, begun.elapsed().as_secs_f64())?;
    }
    let result = result?;
    if args.json {
        return Ok(());
    }
    output::line(&format!("{} bytes kept through {}", result.bytes, kept(&result).join(", ")))
}

/// What a volume kept its data through.
fn kept(result: &CheckResult) -> Vec<&'static str> {
    let mut kept = vec!["writes", "flushes"];
    kept.extend(result.zeroes.then_some("zeroes"));
    kept.extend(result.discards.then_some("discards"));
    kept
}

/// Prints a verdict as JSON; a volume that could not be checked at all has none.
fn print(args: &Args, result: &Result<CheckResult, Error>, seconds: f64) -> Result<()> {
    let (failure, bytes, kept) = match result {
        Ok(found) => (None, found.bytes, kept(found)),
        Err(Error::Check { error, .. }) => (Some(error.to_string()), 0, Vec::new()),
        Err(_) => return Ok(()),
    };
    let (url, passed) = (args.url.to_string(), failure.is_none());
    output::json(&Report { url, seed: args.seed, passed, failure, bytes, kept, seconds })
}
