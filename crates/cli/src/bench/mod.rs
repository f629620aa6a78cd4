//! `linerate bench`: a closed or open loop of requests on any volumes, with latencies and the processor time it took.

mod report;
pub(crate) mod words;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use linerate::{Congestion, LoadEnd, LoadPlan, LoadResult, Pattern};
use names::{ByteSize, Span, VolumeUrl};

use crate::output;
use crate::overwrite::OverwriteArgs;
use crate::watch;
use report::Report;

/// What a script should know of the end.
const EXIT_CODES: &str = "Exit codes: 0 when every request succeeded, 1 when one failed, --verify found wrong data or nothing could be measured, 130 when Ctrl-C ended the \
    load. Either way the result so far is printed.";

/// Arguments of `bench`.
#[derive(Debug, Parser)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Args {
    /// The volumes, such as iscsi://127.0.0.1/iqn.2026-11.org.linerate:disk/0
    #[arg(required = true, value_name = "URL", value_parser = volume)]
    urls: Vec<VolumeUrl>,
    /// What to do; all but reads overwrite the volumes' content and need --overwrite
    #[arg(long, visible_alias = "readwrite", value_enum, default_value = "randread")]
    rw: Rw,
    /// Reads among a hundred requests of readwrite and randrw
    #[arg(long, default_value_t = 50, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    rwmixread: u8,
    /// Bytes in each request
    #[arg(long, visible_alias = "blocksize", default_value = "4k")]
    bs: ByteSize,
    /// Bytes of each volume to use, from its beginning; all of it if not given
    #[arg(long)]
    size: Option<ByteSize>,
    /// Requests under way at a time, over all volumes: each has its share, or its turn where there are fewer than volumes
    #[arg(long, visible_alias = "iodepth", default_value_t = 32)]
    qd: usize,
    /// Count requests that fail and go on; without it the first one ends the load
    #[arg(long)]
    continue_on_error: bool,
    #[command(flatten)]
    overwrite: OverwriteArgs,
    /// Requests to start per second whatever the volume does (an open loop), instead of one for each that ends
    #[arg(long, visible_alias = "rate_iops", value_name = "IOPS")]
    rate: Option<u32>,
    /// How long to run before anything is counted, in seconds
    #[arg(long, visible_alias = "ramp_time", default_value_t = 0.0, value_name = "SECONDS", value_parser = seconds)]
    ramp: f64,
    /// How long to count, in seconds
    #[arg(long, default_value_t = 5.0, value_name = "SECONDS", value_parser = seconds)]
    runtime: f64,
    /// Seed of the random offsets
    #[arg(long, visible_alias = "randseed", default_value_t = 1)]
    seed: u64,
    /// How long to look for an answer before sleeping, such as 50us; 0 never does
    #[arg(long, value_name = "DURATION")]
    spin: Option<Span>,
    /// TCP congestion control of the connections, such as dctcp; system for the system's own [default: cubic, where that is permitted]
    #[arg(long, value_name = "NAME", value_parser = Congestion::named)]
    congestion: Option<Congestion>,
    /// Write, read back and compare blocks of the last 64 KiB of each volume beside the load, ten requests a second; the load leaves them alone. Needs --overwrite
    #[arg(long)]
    verify: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The longest run: a day.
const LONGEST_SECONDS: f64 = 86_400.0;

fn seconds(text: &str) -> Result<f64> {
    let with_unit = text.parse::<Span>().map(|span| span.0.as_secs_f64());
    match text.parse::<f64>().or(with_unit) {
        Ok(seconds) if (0.0..=LONGEST_SECONDS).contains(&seconds) => Ok(seconds),
        _ => bail!("{text:?} is not a number of seconds from 0 to {LONGEST_SECONDS}"),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lowercase")]
enum Rw {
    Randread,
    Randwrite,
    Randrw,
    Read,
    Write,
    #[value(alias = "rw")]
    Readwrite,
}

impl From<Rw> for Pattern {
    fn from(rw: Rw) -> Self {
        match rw {
            Rw::Randread => Self::RandRead,
            Rw::Randwrite => Self::RandWrite,
            Rw::Randrw => Self::RandRw,
            Rw::Read => Self::Read,
            Rw::Write => Self::Write,
            Rw::Readwrite => Self::ReadWrite,
        }
    }
}

/// A volume; the word for what to do belongs behind an option.
fn volume(text: &str) -> Result<VolumeUrl> {
    match Rw::from_str(text, false) {
        Ok(_) => bail!("did you mean --rw {text}?"),
        Err(_) => Ok(text.parse()?),
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if Pattern::from(args.rw).writes() || args.verify {
        for url in &args.urls {
            args.overwrite.permit(url, "the load would overwrite the volume")?;
        }
    }
    let block = usize::try_from(args.bs.0)?;
    let plan = LoadPlan {
        pattern: args.rw.into(),
        read_percent: args.rwmixread,
        block,
        size: args.size.map(|size| size.0),
        depth: args.qd,
        continue_on_error: args.continue_on_error,
        rate: args.rate,
        ramp: Duration::from_secs_f64(args.ramp),
        runtime: Duration::from_secs_f64(args.runtime),
        seed: args.seed,
        spin: args.spin.map(|span| span.0),
        congestion: args.congestion.unwrap_or_default(),
        verify: args.verify,
    };
    let result = measure(args, plan)?;
    let report = Report::new(&result, &args.urls, &plan);
    if args.json {
        output::json(&report)?;
    } else if result.completed() > 0 {
        report.print()?;
    }
    Ok(verdict(args, &result, &report))
}

/// Says what went wrong, and what the exit code is.
fn verdict(args: &Args, result: &LoadResult, report: &Report) -> ExitCode {
    let failures = [report.describe_failures(), report.describe_wrong_data()];
    let failures: Vec<String> = failures.into_iter().flatten().collect();
    if !failures.is_empty() {
        output::remark(&failures.join("; "));
        return ExitCode::FAILURE;
    }
    if result.end == LoadEnd::Stopped {
        output::remark(&format!("stopped after {:.1} s of {} s", result.elapsed.as_secs_f64(), args.runtime));
        return watch::stopped();
    }
    if result.completed() == 0 {
        let urls: Vec<String> = args.urls.iter().map(ToString::to_string).collect();
        output::remark(&format!("{}: no request completed in {} s", urls.join(", "), args.runtime));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Runs the load behind a progress bar.
fn measure(args: &Args, plan: LoadPlan) -> Result<LoadResult> {
    let bar = ProgressBar::new(plan.runtime.as_secs());
    bar.set_style(ProgressStyle::with_template("{elapsed} of {len} s {bar:30} {msg}")?);
    let shown = bar.clone();
    let progress = Arc::new(move |elapsed: Duration, completed: u64| {
        shown.set_position(elapsed.as_secs());
        shown.set_message(format!("{completed} requests"));
    });
    let result = linerate::run_load(&args.urls, plan, progress, watch::stop_on_signal(&bar)?);
    bar.finish_and_clear();
    Ok(result?)
}
