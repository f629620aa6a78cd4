//! `linerate cluster demo`: four nodes on this machine, three copies of every block, a node that dies under load.
//!
//! What is shown is what the nodes do, not how fast they would be: four nodes share this machine's processors, and their links are emulated.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use linerate::Stop;
use names::ByteSize;
use serde::Serialize;

use super::load::Load;
use super::nodes::{Cluster, NODES, Settings, Transport, name};
use crate::{output, signals};

/// Arguments of `cluster demo`.
#[derive(Debug, Parser)]
#[command(
    after_help = "It needs root, for network namespaces, and the programs ip, tc and nsenter. It leaves nothing behind but the folder, \
                        where --keep names one."
)]
pub(crate) struct Args {
    /// What the nodes speak to each other
    #[arg(long, value_enum, default_value = "tcp")]
    transport: Transport,
    /// The rate of each node's link, emulated
    #[arg(long, default_value = "10Gbit", value_name = "RATE")]
    link: String,
    /// Bytes that each node stores of each volume
    #[arg(long, default_value = "32M", value_name = "BYTES")]
    part: ByteSize,
    /// How long the load runs, in seconds
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(20..=3600))]
    runtime: u64,
    /// Keep the nodes' data and logs in this folder, which must not exist yet
    #[arg(long, value_name = "FOLDER")]
    keep: Option<std::path::PathBuf>,
    /// Print one JSON object at the end, and nothing else
    #[arg(long)]
    json: bool,
}

/// What was seen, for programs.
#[derive(Debug, Serialize)]
struct Report {
    /// How long an I/O may take when a node dies, in seconds.
    bound_s: f64,
    /// How long the other node took to own the volume of the one that was killed, in seconds.
    takeover_s: f64,
    loads: Vec<LoadReport>,
    /// Requests of the old owner that met a reservation conflict.
    fenced: u64,
    /// Requests of the old owner that began after all others had ended. Each of them met one.
    refused: u64,
    volumes: Vec<VolumeReport>,
}

/// A load that nothing was to happen to.
#[derive(Debug, Serialize)]
struct LoadReport {
    volume: String,
    /// Its reads and writes, each compared with what had been written.
    ios: u64,
    errors: u64,
    /// The longest of them, in seconds.
    longest_s: f64,
}

/// A volume, read by each node from the copies that are near to it.
#[derive(Debug, Serialize)]
struct VolumeReport {
    volume: String,
    /// SHA-256 of the whole volume, by each node.
    sums: Vec<String>,
}

/// The node that is killed, and the one that takes its volume over.
const VICTIM: usize = NODES - 1;
const HEIR: usize = 0;
/// The load's seconds before the node is killed, and the time that it is away.
const UNDISTURBED: Duration = Duration::from_secs(4);
const AWAY: Duration = Duration::from_secs(4);
/// Seconds for which the old owner is asked once more when all is over.
const AFTERWARDS: u64 = 2;
/// docs/howto/cluster.md: how long an I/O may take when a node dies: `timeout=` of the mirror for the leg that does not answer, and as long again for the
/// record of it.
const STALL: Duration = Duration::from_secs(10);
/// How long copying what a node missed may take.
const RESYNC: Duration = Duration::from_mins(3);
/// How long reading a whole volume may take.
const READ: Duration = Duration::from_mins(2);

/// Shows it.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let root = rustix::process::geteuid().is_root();
    ensure!(
        root,
        "four nodes need network namespaces, and those need root: run `sudo linerate cluster demo`"
    );
    let stop = Stop::new();
    let wish = stop.clone();
    signals::listen(move || wish.set(), |_| {})?;
    let scratch;
    let folder = if let Some(folder) = &args.keep {
        std::fs::create_dir(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        std::fs::canonicalize(folder)?
    } else {
        scratch = Scratch::make()?;
        scratch.0.clone()
    };
    let settings = Settings { transport: args.transport, rate: args.link.clone(), part: args.part.0 };
    let mut cluster = Cluster::build(settings, &folder, stop)?;
    let teller = Teller { silent: args.json };
    let report = show(&mut cluster, args, teller)?;
    if args.json {
        output::json(&report)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Tells people what happens; says nothing to programs, which want the report.
#[derive(Debug, Clone, Copy)]
struct Teller {
    silent: bool,
}

impl Teller {
    fn line(self, words: &str) -> Result<()> {
        if self.silent { Ok(()) } else { output::line(words) }
    }

    /// What comes next.
    fn say(self, words: &str) -> Result<()> {
        self.line(&format!("\n{words}"))
    }
}

/// A temporary folder that goes with this.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn make() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("linerate-cluster-{}", std::process::id()));
        std::fs::create_dir(&folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

fn show(cluster: &mut Cluster, args: &Args, teller: Teller) -> Result<Report> {
    bring_up(cluster, args, teller)?;
    let begun = Instant::now();
    let mut loads = Vec::new();
    for node in 0..VICTIM {
        loads.push(Load::start(cluster, node, node, args.runtime)?);
    }
    let preempted = Load::start_preempted(cluster, VICTIM, VICTIM, args.runtime)?;
    teller.say(&format!(
        "Load on all four volumes for {} s: reads, writes, and blocks that are compared",
        args.runtime
    ))?;
    pause(cluster, UNDISTURBED)?;

    teller.say(&format!(
        "Node {} is cut off, and what served its disks is killed; {}'s owner on it runs on",
        VICTIM + 1,
        name(VICTIM)
    ))?;
    cluster.cut_off(VICTIM)?;
    let taken = Instant::now();
    cluster.start_owner(HEIR, VICTIM, true)?;
    let takeover_s = taken.elapsed().as_secs_f64();
    teller.line(&format!("  node {} owns {} now, {takeover_s:.1} s later", HEIR + 1, name(VICTIM)))?;
    let left = Duration::from_secs(args.runtime).saturating_sub(begun.elapsed()).as_secs().max(5);
    loads.push(Load::start(cluster, HEIR, VICTIM, left)?);
    pause(cluster, AWAY)?;

    teller.say(&format!("Node {} is back, with what it had on its disk", VICTIM + 1))?;
    cluster.connect(VICTIM)?;
    cluster.start_storage(VICTIM)?;
    let loads = finish(loads, teller)?;
    let fenced = preempted.finish_fenced()?;
    let refused = Load::start_preempted(cluster, VICTIM, VICTIM, AFTERWARDS)?.finish_refused()?;
    teller.line(&format!(
        "  {}'s old owner is fenced: {fenced} of its requests met a reservation conflict, and so did all {refused} later ones",
        name(VICTIM)
    ))?;
    cluster.stop_owner(VICTIM, VICTIM)?;
    for volume in 0..NODES {
        cluster.await_sync(owner(volume), volume, RESYNC)?;
    }
    teller.line("  all copies are in sync again")?;
    let volumes = compare(cluster, teller)?;
    Ok(Report { bound_s: STALL.as_secs_f64(), takeover_s, loads, fenced, refused, volumes })
}

/// Waits for the loads that nothing was to happen to.
fn finish(loads: Vec<Load>, teller: Teller) -> Result<Vec<LoadReport>> {
    let mut reports = Vec::new();
    for load in loads {
        let outcome = load.finish()?;
        let (volume, longest_s) = (name(outcome.volume), outcome.longest.as_secs_f64());
        teller.line(&format!(
            "  {volume}: {} I/Os, none failed, no wrong data; the longest took {longest_s:.2} s",
            outcome.ios
        ))?;
        ensure!(
            outcome.longest <= STALL,
            "{volume}: an I/O took {longest_s:.1} s, and {} s is the bound",
            STALL.as_secs()
        );
        reports.push(LoadReport { volume, ios: outcome.ios, errors: outcome.errors, longest_s });
    }
    Ok(reports)
}

/// Starts the nodes and the volumes, and says what there is.
fn bring_up(cluster: &mut Cluster, args: &Args, teller: Teller) -> Result<()> {
    teller.say(&format!("Four nodes, each on an emulated link of {}", args.link))?;
    for node in 0..NODES {
        cluster.start_storage(node)?;
        teller.line(&format!("  node {}: {}", node + 1, cluster.describe(node)?))?;
    }
    teller.say("Four volumes, each with three copies over the four nodes; each node owns one")?;
    for node in 0..NODES {
        cluster.start_owner(node, node, false)?;
        teller.line(&format!("  {}={}", name(node), cluster.mirror(node, node, false)))?;
    }
    Ok(())
}

/// Who owns a volume after the node was killed.
const fn owner(volume: usize) -> usize {
    if volume == VICTIM { HEIR } else { volume }
}

/// Reads each volume four times, each time from another node's copy where that has one: so every copy is read.
fn compare(cluster: &mut Cluster, teller: Teller) -> Result<Vec<VolumeReport>> {
    teller.say("Every copy is read and compared")?;
    let mut reports = Vec::new();
    for volume in 0..NODES {
        cluster.stop_owner(owner(volume), volume)?;
        let mut sums = Vec::new();
        for reader in 0..NODES {
            let url = cluster.mirror(volume, reader, true);
            let job = cluster.spawn(reader, &format!("read-{}", name(volume)), &["checksum", &url])?;
            let text = job.output(READ)?;
            sums.push(text.split_whitespace().next().unwrap_or_default().to_owned());
        }
        let Some(first) = sums.first().filter(|sum| !sum.is_empty()) else {
            bail!("no checksum was printed")
        };
        ensure!(sums.iter().all(|sum| sum == first), "the copies of {} differ: {sums:?}", name(volume));
        teller.line(&format!("  {}: {} from every node", name(volume), first.get(..16).unwrap_or(first)))?;
        reports.push(VolumeReport { volume: name(volume), sums });
    }
    teller.say("Nothing was lost, and every copy is the same.")?;
    Ok(reports)
}

fn pause(cluster: &Cluster, time: Duration) -> Result<()> {
    let end = Instant::now() + time;
    cluster.wait(time * 2, || Ok((Instant::now() >= end).then_some(())))
}
