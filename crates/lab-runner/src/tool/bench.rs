//! `linerate bench`: Linerate's initiators and local volumes, in a closed or an open loop.
//!
//! It takes fio's names. An open loop (`rate_iops`) measures from the moment at which an I/O was due, so a stall shows in
//! the percentiles.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Deserialize;

use super::assignment::{Assignment, Measured, command_line, tool};
use super::doubt;
use super::raw;
use super::sample::{self, LOOKED_AT, VERIFIED, VERIFIED_BYTES, astray, corrupt};
use super::settings::{DATA, LOG, Settings};
use super::spread;
use crate::machine::process::CommandLine;
use lab_model::offsets::{Region, Seen};
use lab_model::result::{Bucket, Direction, Flag, Interval, Latency, Load};
use lab_model::statistics::number::real;

const OUTPUT: &str = "bench.json";
/// Options of fio that would change what is measured and that `linerate bench` does not have.
const NOT_HERE: &[&str] = &["bssplit", "random_distribution", "fsync", "rate_iops_per_job", LOG];

/// How it is started.
pub(super) fn command(assignment: &Assignment<'_>) -> Result<CommandLine> {
    let settings = Settings(assignment.settings);
    settings.refuse("linerate bench", NOT_HERE)?;
    let shares = spread::over(settings, assignment.endpoints)?;
    let mut argv = vec![assignment.linerate.display().to_string(), "bench".to_owned()];
    argv.extend(assignment.endpoints.iter().map(|endpoint| endpoint.url.clone()));
    let mut add = |name: &str, value: String| argv.extend([format!("--{name}"), value]);
    add("rw", settings.text("rw", "randread").to_owned());
    add("rwmixread", settings.percent("rwmixread", 50)?.to_string());
    add("bs", settings.bytes("bs", 4096)?.to_string());
    add("qd", spread::total(&shares).to_string());
    if settings.get("size").is_some() {
        add("size", settings.bytes("size", 1)?.to_string());
    }
    if settings.get("rate_iops").is_some() {
        add("rate", settings.count("rate_iops", 1)?.to_string());
    }
    if let Some(spin) = settings.get("spin") {
        add("spin", spin.to_owned());
    }
    let fits = |one| sample::size_of(one).is_none() || sample::verified_from(settings, one).is_some();
    if settings.get(DATA).is_some() && assignment.endpoints.iter().all(fits) {
        argv.push("--verify".to_owned());
    }
    let mut add = |name: &str, value: String| argv.extend([format!("--{name}"), value]);
    add("ramp", assignment.ramp.to_string());
    add("runtime", assignment.runtime.to_string());
    // What fails is counted and flagged, as with fio; the lab's volumes are there to be written.
    argv.extend(["--continue-on-error", "--overwrite", "--json"].map(str::to_owned));
    Ok(command_line(assignment, argv, OUTPUT))
}

/// Its JSON.
#[derive(Debug, Deserialize)]
struct Output {
    version: String,
    /// When counting began, seconds since 1970.
    started: f64,
    seconds: f64,
    cpu_us_per_io: f64,
    errors: u64,
    missed: u64,
    read: Option<Side>,
    write: Option<Side>,
    intervals: Vec<Line>,
    #[serde(default)]
    spread: Vec<Spread>,
    #[serde(default)]
    verified: Option<u64>,
    #[serde(default)]
    wrong_data: Option<String>,
}

/// Where I/Os of a volume went.
#[derive(Debug, Deserialize)]
struct Spread {
    bytes: u64,
    ios: Vec<u64>,
}

#[derive(Debug, Deserialize)]
struct Side {
    ios: u64,
    bytes: u64,
    iops: f64,
    bytes_per_second: f64,
    latency_ns: Distribution,
}

#[derive(Debug, Deserialize)]
struct Distribution {
    min: f64,
    mean: f64,
    deviation: f64,
    max: f64,
    percentiles: BTreeMap<String, f64>,
    histogram: Vec<Bucket>,
}

#[derive(Debug, Deserialize)]
struct Line {
    end: f64,
    iops: f64,
    bytes_per_second: f64,
    latency_us: f64,
}

/// What it measured.
pub(super) fn read(assignment: &Assignment<'_>) -> Result<Measured> {
    let output: Output = raw::json(&assignment.folder.join(OUTPUT))?;
    let load = Load {
        read: output.read.map(Side::into_direction),
        write: output.write.map(Side::into_direction),
        errors: output.errors,
        ..Load::default()
    };
    let mut flags = doubt::flags(&load, assignment.initiator);
    flags.extend(doubt::errors(output.errors, "requests of linerate bench"));
    let mut extra = BTreeMap::from([("tool_cpu_us_per_io".to_owned(), output.cpu_us_per_io)]);
    if let Some(rate) = Settings(assignment.settings).get("rate_iops").and_then(|rate| rate.parse().ok()) {
        extra.insert("rate_iops".to_owned(), rate);
        extra.insert("missed".to_owned(), real(output.missed));
    }
    flags.extend(output.wrong_data.as_deref().map(corrupt));
    flags.extend(strays(assignment, &output.spread)?);
    extra.extend(output.verified.map(|reads| (VERIFIED.to_owned(), real(reads))));
    let seen: u64 = output.spread.iter().flat_map(|spread| &spread.ios).sum();
    extra.extend((seen > 0).then(|| (LOOKED_AT.to_owned(), real(seen))));
    Ok(Measured {
        tool: tool("linerate bench", &output.version, &command(assignment)?),
        load,
        intervals: output.intervals.iter().map(Line::interval).collect(),
        extra,
        seconds: output.seconds,
        window_start: Some(output.started),
        flags,
    })
}

/// Volumes of which the load used another part than it was told to. Every I/O of the window is looked at.
fn strays(assignment: &Assignment<'_>, spread: &[Spread]) -> Result<Vec<Flag>> {
    let settings = Settings(assignment.settings);
    let depth = spread::total(&spread::over(settings, assignment.endpoints)?);
    let verified = if settings.get(DATA).is_some() { VERIFIED_BYTES } else { 0 };
    let bounded = settings.get("size").is_some();
    let mut flags = Vec::new();
    for (volume, (endpoint, Spread { bytes, ios })) in assignment.endpoints.iter().zip(spread).enumerate() {
        let asked = sample::used(settings, endpoint).unwrap_or(*bytes);
        let Some(region) = sample::region(settings, asked, depth) else { continue };
        // The volume may keep a little more back than the arm's size tells, and a peer's target may serve a larger one.
        if *bytes + region.block + verified < region.bytes || (bounded && *bytes > region.bytes + verified) {
            let asked = region.bytes;
            flags.push(astray(volume, &format!("{asked} bytes were to be used, and {bytes} were")));
            continue;
        }
        let seen = Seen { ios: ios.clone(), places: None, outside: 0 };
        let counted = Region { bytes: *bytes, ..region };
        flags.extend(counted.doubt(&seen).map(|doubt| astray(volume, &doubt)));
    }
    Ok(flags)
}

impl Side {
    fn into_direction(self) -> Direction {
        let from = self.latency_ns;
        let latency = Latency {
            min: from.min,
            mean: from.mean,
            deviation: from.deviation,
            max: from.max,
            percentiles: from.percentiles,
            histogram: from.histogram,
        };
        Direction {
            ios: self.ios,
            bytes: self.bytes,
            iops: self.iops,
            bytes_per_second: self.bytes_per_second,
            latency: Some(latency),
        }
    }
}

impl Line {
    fn interval(&self) -> Interval {
        Interval {
            at: self.end,
            iops: self.iops,
            bytes_per_second: self.bytes_per_second,
            latency: Some(self.latency_us * 1000.0),
            ..Interval::default()
        }
    }
}
