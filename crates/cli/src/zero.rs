//! `linerate zero`: makes a volume, or a part of it, read as zeros.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use linerate::{Means, ZeroPlan};
use names::{ByteSize, VolumeUrl};
use serde::Serialize;

use crate::output;
use crate::overwrite::OverwriteArgs;
use crate::watch::{EffortArgs, Watch, exit_code};

/// Arguments of `zero`.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The volume, such as nvme+tcp://127.0.0.1/nqn.2026-11.org.linerate:disk/1
    url: VolumeUrl,
    #[command(flatten)]
    overwrite: OverwriteArgs,
    /// Discard instead of writing zeroes; refused where discarded blocks need not read as zeros
    #[arg(long)]
    discard: bool,
    /// The first byte, a multiple of the volume's block size
    #[arg(long, default_value = "0", value_name = "BYTES")]
    offset: ByteSize,
    /// How many bytes, a multiple of the volume's block size; to the end if not given
    #[arg(long, value_name = "BYTES")]
    length: Option<ByteSize>,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    effort: EffortArgs,
}

/// What was done. `docs/howto/data.md` has the keys, which stay.
#[derive(Debug, Serialize)]
struct Report {
    url: String,
    done: &'static str,
    offset: u64,
    bytes: u64,
    stopped: bool,
    seconds: f64,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    args.overwrite.permit(&args.url, "zeroing would overwrite the volume")?;
    let plan = ZeroPlan {
        means: if args.discard { Means::Discard } else { Means::Zero },
        offset: args.offset.0,
        length: args.length.map(|length| length.0),
        effort: args.effort.effort(),
    };
    let watch = Watch::start()?;
    let result = linerate::zero(&args.url, plan, watch.control()?)?;
    watch.clear();
    let done = match (args.discard, result.as_data) {
        (true, _) => "discarded",
        (false, true) => "overwritten with zeros",
        (false, false) => "zeroed",
    };
    if args.json {
        output::json(&Report {
            url: args.url.to_string(),
            done,
            offset: args.offset.0,
            bytes: result.bytes,
            stopped: result.stopped,
            seconds: watch.seconds(),
        })?;
        return Ok(exit_code(result.stopped));
    }
    let stopped = if result.stopped { "stopped; " } else { "" };
    output::line(&format!("{stopped}{} bytes {done} from byte {} on", result.bytes, args.offset.0))?;
    Ok(exit_code(result.stopped))
}
