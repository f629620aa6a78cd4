//! `linerate bench`: a closed loop of requests on any volume, with latencies and the processor time it took.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use linerate::{LoadPlan, LoadResult, Pattern};
use names::{ByteSize, Span, VolumeUrl};
use serde::Serialize;

use crate::output;

/// Arguments of `bench`.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The volume, such as iscsi://127.0.0.1/iqn.2026-11.org.linerate:disk/0
    url: VolumeUrl,
    /// What to do; writes overwrite the volume's content
    #[arg(long, value_enum, default_value = "randread")]
    rw: Rw,
    /// Bytes in each request
    #[arg(long, default_value = "4k")]
    bs: ByteSize,
    /// Requests under way at a time
    #[arg(long, default_value_t = 32)]
    qd: usize,
    /// How long, in seconds
    #[arg(long, default_value_t = 5)]
    runtime: u64,
    /// Seed of the random offsets
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long to look for an answer before sleeping, such as 50us; 0 never does
    #[arg(long, value_name = "DURATION")]
    spin: Option<Span>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lowercase")]
enum Rw {
    Randread,
    Randwrite,
    Read,
    Write,
}

impl From<Rw> for Pattern {
    fn from(rw: Rw) -> Self {
        match rw {
            Rw::Randread => Self::RandRead,
            Rw::Randwrite => Self::RandWrite,
            Rw::Read => Self::Read,
            Rw::Write => Self::Write,
        }
    }
}

#[derive(Debug, Serialize)]
struct Report {
    iops: f64,
    mb_per_s: f64,
    latency_us: Latency,
    cpu_us_per_io: f64,
    errors: u64,
}

#[derive(Debug, Serialize)]
struct Latency {
    p50: f64,
    p99: f64,
    p999: f64,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let block = usize::try_from(args.bs.0)?;
    let plan = LoadPlan {
        pattern: args.rw.into(),
        block,
        depth: args.qd,
        runtime: Duration::from_secs(args.runtime),
        seed: args.seed,
        spin: args.spin.map(|span| span.0),
    };
    let bar = ProgressBar::new(args.runtime);
    bar.set_style(ProgressStyle::with_template("{elapsed} of {len} s {bar:30} {msg}")?);
    let shown = bar.clone();
    let progress = Arc::new(move |elapsed: Duration, completed: u64| {
        shown.set_position(elapsed.as_secs());
        shown.set_message(format!("{completed} requests"));
    });
    let before = cpu_time()?;
    let result = linerate::run_load(&args.url, plan, progress)?;
    let spent = cpu_time()?.saturating_sub(before);
    bar.finish_and_clear();
    if result.completed == 0 {
        match result.first_error {
            Some(kind) => bail!("{}: no request succeeded: {kind}", args.url),
            None => bail!("{}: no request completed in {} s", args.url, args.runtime),
        }
    }
    let report = report(&result, block, spent);
    if args.json { output::line(&serde_json::to_string(&report)?) } else { print(&report) }
}

#[expect(clippy::cast_precision_loss, reason = "counts of one run are far below 2^52")]
fn report(result: &LoadResult, block: usize, spent: Duration) -> Report {
    let seconds = result.elapsed.as_secs_f64();
    let quantile = |share: f64| result.latency.value_at_quantile(share) as f64 / 1000.0;
    let completed = result.completed as f64;
    Report {
        iops: completed / seconds,
        mb_per_s: completed * block as f64 / seconds / 1e6,
        latency_us: Latency { p50: quantile(0.5), p99: quantile(0.99), p999: quantile(0.999) },
        cpu_us_per_io: spent.as_secs_f64() * 1e6 / completed,
        errors: result.errors,
    }
}

fn print(report: &Report) -> Result<()> {
    output::line(&format!("{:.0} IOPS, {:.1} MB/s", report.iops, report.mb_per_s))?;
    let latency = &report.latency_us;
    output::line(&format!(
        "latency in µs: p50 {:.1}, p99 {:.1}, p99.9 {:.1}",
        latency.p50, latency.p99, latency.p999
    ))?;
    output::line(&format!("{:.2} µs of CPU per I/O, {} errors", report.cpu_us_per_io, report.errors))
}

/// Processor time of this process so far, user and system.
fn cpu_time() -> Result<Duration> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Ok(Duration::new(u64::try_from(now.tv_sec)?, u32::try_from(now.tv_nsec)?))
}
