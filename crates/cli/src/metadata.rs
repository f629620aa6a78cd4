//! `linerate metadata`: mdtest's pattern of names on a directory of an NFS server.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use linerate::{MOST_IN_FLIGHT, MetadataPhase, MetadataPlan, MetadataResult};
use names::NfsUrl;
use serde::Serialize;

use crate::directory::directory;
use crate::output;
use crate::watch;

/// What a user should know.
const MEANING: &str = "It makes one new directory in the one of the URL, a tree in it with empty files in each directory, asks for the attributes of each file, lists each \
    directory, and removes everything. Each phase is timed by itself. One connection carries all; nothing is mounted, and no cache stands between.\n\n\
    Exit codes: 0 when everything was done, 1 when something failed (what was made may then be left), 130 when Ctrl-C ended it, which removes what was made.";

/// Arguments of `metadata`.
#[derive(Debug, Parser)]
#[command(after_help = MEANING)]
pub(crate) struct Args {
    /// The directory to work in, such as nfs://127.0.0.1/files
    #[arg(value_name = "URL", value_parser = directory)]
    url: NfsUrl,
    /// Levels of directories below the first
    #[arg(long, default_value_t = 1, value_name = "N")]
    depth: u32,
    /// Directories in each directory, down to the last level
    #[arg(long, default_value_t = 10, value_name = "N")]
    branch: u32,
    /// Files in each directory
    #[arg(long, default_value_t = 1000, value_name = "N")]
    files: u32,
    /// Operations under way at a time, as far as the server's session has room
    #[arg(long, visible_alias = "iodepth", default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MOST_IN_FLIGHT as i64))]
    qd: u16,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The result as JSON.
#[derive(Debug, Serialize)]
struct Report<'a> {
    version: &'static str,
    /// Of NFS, such as `4.2`.
    nfs: String,
    /// Operations under way at a time.
    qd: usize,
    phases: Vec<PhaseReport<'a>>,
    stopped: bool,
}

#[derive(Debug, Serialize)]
struct PhaseReport<'a> {
    phase: &'a str,
    operations: u64,
    seconds: f64,
    per_second: f64,
    /// Microseconds.
    latency_us: LatencyReport,
}

#[derive(Debug, Serialize)]
struct LatencyReport {
    p50: f64,
    p99: f64,
}

impl<'a> PhaseReport<'a> {
    #[expect(clippy::cast_precision_loss, reason = "counts of one run are far below 2^52")]
    fn new(phase: &'a MetadataPhase) -> Self {
        let seconds = phase.elapsed.as_secs_f64();
        let quantile = |share| phase.latency.value_at_quantile(share) as f64 / 1000.0;
        Self {
            phase: phase.name,
            operations: phase.operations,
            seconds,
            per_second: phase.operations as f64 / seconds.max(1e-9),
            latency_us: LatencyReport { p50: quantile(0.5), p99: quantile(0.99) },
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let Args { depth, branch, files, qd, .. } = *args;
    let plan = MetadataPlan { depth, branch, files, in_flight: qd.into() };
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{elapsed} {msg}")?);
    let stop = watch::stop_on_signal(&bar)?;
    let shown = bar.clone();
    let progress = move |phase: &str, done: u64| {
        shown.set_message(format!("{phase}: {done}"));
        shown.tick();
    };
    let result = linerate::run_metadata(&args.url, &plan, &stop, &progress);
    bar.finish_and_clear();
    let result = result?;
    print(args, &result)?;
    if result.stopped {
        output::remark("stopped, and what was made is removed");
    }
    Ok(watch::exit_code(result.stopped))
}

fn print(args: &Args, result: &MetadataResult) -> Result<()> {
    let phases: Vec<PhaseReport> = result.phases.iter().map(PhaseReport::new).collect();
    if args.json {
        let MetadataResult { minor, in_flight, stopped, .. } = *result;
        let version = env!("CARGO_PKG_VERSION");
        return output::json(&Report { version, nfs: format!("4.{minor}"), qd: in_flight, phases, stopped });
    }
    phases.iter().try_for_each(|phase| {
        let PhaseReport { phase, operations, seconds, per_second, latency_us: LatencyReport { p50, p99 } } = phase;
        output::line(&format!(
            "{phase:20} {operations:>9} in {seconds:>7.2} s {per_second:>10.0}/s  p50 {p50:>8.1} us  p99 {p99:>8.1} us"
        ))
    })
}
