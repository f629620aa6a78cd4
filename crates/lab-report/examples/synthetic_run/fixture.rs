//! A run directory of numbers that nobody measured: every kind of figure, evidence and flag, always the same ones.
//!
//! Arms differ by their time per I/O and by the rate at which they saturate. Noise is seeded.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use lab_model::evidence::Evidence;
use lab_model::result::{
    Bucket, Coordinate, Cpu, CpuShare, Direction, Flag, Interval, Latency, Load, Network, Node, PointResult,
    SCHEMA, Tool,
};
use lab_model::scenario::sweep::{Extent, points};
use lab_model::scenario::{Scenario, ToolKind};
use lab_model::statistics::histogram::percentile;
use lab_model::statistics::random::Random;
use serde_json::json;

/// The scenario of the run.
pub(crate) const SCENARIO: &str = include_str!("scenario.toml");
/// Repetitions of each point.
const PAIRS: u32 = 5;
/// Seconds of a window.
const WINDOW: f64 = 20.0;
/// Seconds from the start of one window to that of the next.
const TURN: u32 = 22;
/// Points of the control block, and its pairs.
const CONTROLS: [&str; 2] = ["4k", "64k"];
const CONTROL_PAIRS: u32 = 8;

/// How an arm behaves: nanoseconds of latency without load, I/Os per second and bytes per second at most, and processor
/// seconds per million I/Os of host, adapter and target.
struct Behaviour {
    latency: f64,
    iops: f64,
    bytes: f64,
    cpu: [f64; 3],
}

fn behaviour(arm: &str) -> Behaviour {
    let (latency, iops, bytes, cpu) = match arm {
        "A" | "A2" => (28e3, 310e3, 600e6, [2.1, 0.0, 2.4]),
        "B" => (74e3, 118e3, 560e6, [5.2, 3.1, 6.0]),
        "L" => (9e3, 420e3, 2600e6, [1.4, 0.0, 0.0]),
        "S" => (20e3, 260e3, 610e6, [1.8, 0.0, 2.0]),
        "C" => (22e3, 280e3, 610e6, [1.9, 0.0, 2.1]),
        "D" => (7e3, 430e3, 2500e6, [1.3, 0.0, 0.0]),
        _ => (55e3, 150e3, 590e6, [4.0, 0.0, 0.0]),
    };
    Behaviour { latency, iops, bytes, cpu }
}

/// Writes the synthetic run, with a few results that are doubtful, invalid or cut off.
pub(crate) fn write(folder: &Path) -> Result<()> {
    write_scenario(folder, SCENARIO, Extent::Full)?;
    file(&folder.join("points/999-cut-off/A-1/result.json"), "{\"schema\": 1, \"run\":")
}

/// Writes a run of any scenario into a directory, which is made if there is none.
pub(crate) fn write_scenario(folder: &Path, text: &str, extent: Extent) -> Result<()> {
    let scenario: Scenario = toml::from_str(text).context("the fixture's scenario")?;
    file(&folder.join("scenario.toml"), text)?;
    file(&folder.join("run.json"), &run(&scenario).to_string())?;
    let mut random = Random::new(20_260_321);
    let mut turn = 0;
    for (number, point) in points(&scenario, extent).iter().enumerate() {
        for pair in 1..=PAIRS {
            for arm in &scenario.arms {
                let mut result = result(&scenario, (&arm.key, point, pair), &mut random);
                result.evidence = arm.evidence.clone();
                result.started = started(turn);
                turn += TURN;
                if text == SCENARIO {
                    blemish(&mut result, number);
                }
                save(&folder.join(format!("points/{number:03}/{}-{pair}", arm.key)), &result)?;
            }
        }
    }
    control(folder, &scenario, &mut random)
}

/// One arm against itself.
fn control(folder: &Path, scenario: &Scenario, random: &mut Random) -> Result<()> {
    for (number, bs) in CONTROLS.iter().enumerate() {
        let point = [("rw", "randread"), ("bs", bs), ("iodepth", "32")].map(|(axis, value)| at(axis, value));
        for pair in 1..=CONTROL_PAIRS {
            for arm in ["A", "A2"] {
                let mut result = result(scenario, (arm, &point, pair), random);
                result.evidence = Evidence::Scaled { factor: "link 25 Gbit/s to 5 Gbit/s: 0.2".to_owned() };
                save(&folder.join(format!("control/{number:03}/{arm}-{pair}")), &result)?;
            }
        }
    }
    Ok(())
}

fn run(scenario: &Scenario) -> serde_json::Value {
    json!({
        "schema": SCHEMA,
        "id": "synthetic",
        "scenario": scenario.id,
        "scenario_hash": "0".repeat(64),
        "started": started(0),
        "finished": "2026-03-21T11:00:00Z",
        "commit": "0000000",
        "evidence": ["real", "scaled", "emulated", "simulated", "imported"],
        "environment": {
            "cpu": {"model": "a processor that never was", "processors": 2, "governor": "performance"},
            "kernel": "6.1.0", "memory_bytes": 16_000_000_000_u64,
            "links": [{"name": "veth", "mtu": 9000}],
        },
        "design": {"pairs": PAIRS, "budget_s": 3600},
        "budget_dropped": ["bs=256k iodepth=32 rw=randread"],
        "ledger": [],
    })
}

fn started(second: u32) -> String {
    let (hours, rest) = (second / 3600, second % 3600);
    format!("2026-03-{:02}T{:02}:{:02}:{:02}Z", 21 + hours / 24, hours % 24, rest / 60, rest % 60)
}

fn at(axis: &str, value: &str) -> Coordinate {
    Coordinate { axis: axis.to_owned(), value: value.to_owned() }
}

fn value<'a>(point: &'a [Coordinate], axis: &str) -> &'a str {
    point.iter().find(|one| one.axis == axis).map_or("", |one| &one.value)
}

fn block_size(text: &str) -> u32 {
    let number = |text: &str, unit: u32| text.parse::<u32>().ok().map(|number| number * unit);
    let sized = text.strip_suffix('k').and_then(|text| number(text, 1 << 10));
    let sized = sized.or_else(|| text.strip_suffix('m').and_then(|text| number(text, 1 << 20)));
    sized.or_else(|| number(text, 1)).unwrap_or(4096)
}

/// About 1, with a deviation of about `share`.
fn noise(random: &mut Random, share: f64) -> f64 {
    let sum: f64 = (0..12).map(|_| random.unit()).sum();
    1.0 + (sum - 6.0) * share
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the fixture's counts are small and positive"
)]
const fn whole(number: f64) -> u64 {
    number as u64
}

fn result(scenario: &Scenario, place: (&str, &[Coordinate], u32), random: &mut Random) -> PointResult {
    let (arm, point, repetition) = place;
    let behaviour = behaviour(arm);
    let size = f64::from(block_size(value(point, "bs")));
    let depth: f64 = value(point, "iodepth").parse().unwrap_or(1.0);
    let most = behaviour.iops.min(behaviour.bytes / size);
    let free = depth / (behaviour.latency + size / behaviour.bytes * 1e9) * 1e9;
    let iops = most * free / (most.powi(4) + free.powi(4)).powf(0.25) * noise(random, 0.02);
    let latency = depth / iops * 1e9;
    let read_share = reads(value(point, "rw"));
    let loaded = |part: f64, latency: f64, random: &mut Random| {
        (part > 0.0).then(|| direction((iops * part, size), latency, random))
    };
    PointResult {
        schema: SCHEMA,
        run: "synthetic".to_owned(),
        scenario: scenario.id.clone(),
        scenario_hash: "0".repeat(64),
        arm: arm.to_owned(),
        point: point.to_vec(),
        repetition,
        order: 1,
        started: String::new(),
        seconds: WINDOW,
        evidence: Evidence::Real,
        tool: Tool { name: "fio".to_owned(), version: "3.33".to_owned(), argv: command(arm) },
        load: Load {
            read: loaded(read_share, latency, random),
            write: loaded(1.0 - read_share, latency * 1.4, random),
            ..Load::default()
        },
        intervals: intervals((iops, size), latency, random),
        cpu: processor(arm, &behaviour.cpu.map(|one| one * iops * WINDOW / 1e6 * noise(random, 0.03))),
        memory: [("host".to_owned(), 48 << 20), ("target".to_owned(), 96 << 20)].into(),
        network: Some(Network {
            sent: 1 << 20,
            received: whole(iops * size),
            kept: if scenario.topology.copies > 0 { 3 << 20 } else { 0 },
            ..Network::default()
        }),
        nodes: nodes(scenario),
        target_counters: caches(scenario, arm),
        neighbours: Vec::new(),
        hosts: [].into(),
        extra: database(scenario, iops),
        limiter: limiter(iops / most, size),
        flags: Vec::new(),
    }
}

/// A load of one job; of B, one of a job for each of 32 targets.
fn command(arm: &str) -> Vec<String> {
    let jobs = if arm == "B" { 32 } else { 1 };
    let job =
        |place: u32| format!("--name=load{place} --ioengine=libaio --filename=/a/volume{place} --bs=4096");
    std::iter::once("fio".to_owned()).chain((0..jobs).map(job)).collect()
}

/// What the nodes of a cluster spend and exchange.
fn nodes(scenario: &Scenario) -> Vec<Node> {
    let count = if scenario.topology.copies > 0 { scenario.topology.initiators } else { 0 };
    let share = |seconds: f64| CpuShare { user: seconds, system: seconds };
    let node = |number: u32| Node {
        host: share(0.1),
        adapter: share(0.2 * f64::from(number)),
        target: share(0.3),
        network: Network { sent: 1 << 18, received: 1 << 18, kept: 3 << 18, ..Network::default() },
    };
    (1..=count).map(node).collect()
}

/// What a target's cache counts, where an arm has one.
fn caches(scenario: &Scenario, arm: &str) -> BTreeMap<String, f64> {
    let arm = scenario.arms.iter().find(|one| one.key == arm);
    let cached = arm.and_then(|arm| arm.with.get("volume")).is_some_and(|url| url.contains("cache="));
    let figures = [("cache_hits", 9000.0), ("cache_misses", 1000.0), ("cache_dirty_bytes", 4e6)];
    let counted = figures.iter().filter(|_| cached);
    counted.map(|(name, figure)| ((*name).to_owned(), *figure)).collect()
}

/// What a database and the device below it, or a clock of the first I/O, tell of themselves.
fn database(scenario: &Scenario, iops: f64) -> BTreeMap<String, f64> {
    if scenario.workload.tool == ToolKind::FirstIo {
        let parts =
            [("ready_target_ns", 5e7), ("ready_initiator_ns", 4e7), ("first_io_ns", 4e12 / iops + 9e7)];
        return parts.map(|(name, figure)| (name.to_owned(), figure)).into();
    }
    if scenario.workload.tool != ToolKind::Pgbench {
        return BTreeMap::new();
    }
    let figures = [
        ("transactions_per_second", iops / 20.0),
        ("volume_read_ns", 2e9 / iops),
        ("volume_write_ns", 3e9 / iops),
    ];
    figures.map(|(name, figure)| (name.to_owned(), figure)).into()
}

/// The share of reads.
fn reads(access: &str) -> f64 {
    match access {
        _ if access.contains("rw") => 0.5,
        _ if access.contains("write") => 0.0,
        _ => 1.0,
    }
}

fn processor(arm: &str, [host, adapter, target]: &[f64; 3]) -> Cpu {
    let share = |seconds: f64| CpuShare { user: seconds * 0.3, system: seconds * 0.7 };
    Cpu {
        processors: 2,
        host: share(*host),
        adapter: (arm == "B").then(|| share(*adapter)),
        target: matches!(arm, "A" | "A2" | "B").then(|| share(*target)),
        softirq: 0.4,
        machine_percent: (40.0, 62.0, 81.0),
        method: "cgroup2".to_owned(),
        ..Cpu::default()
    }
}

fn direction((iops, size): (f64, f64), latency: f64, random: &mut Random) -> Direction {
    let count = iops * WINDOW;
    let histogram = histogram(count, latency, random);
    let percentiles = [("p50", 50.0), ("p95", 95.0), ("p99", 99.0), ("p99.9", 99.9), ("p99.99", 99.99)];
    let percentiles =
        percentiles.map(|(name, percent)| (name.to_owned(), percentile(&histogram, percent).unwrap_or(0.0)));
    let latency = Latency {
        min: latency * 0.5,
        mean: latency,
        deviation: latency * 0.25,
        max: latency * 40.0,
        percentiles: percentiles.into(),
        histogram,
    };
    Direction {
        ios: whole(count),
        bytes: whole(count * size),
        iops,
        bytes_per_second: iops * size,
        latency: Some(latency),
    }
}

/// A bell over the logarithm of latency, and a small second one where something waited.
fn histogram(count: f64, latency: f64, random: &mut Random) -> Vec<Bucket> {
    let step = |place: i32| -> (f64, f64) {
        let away = f64::from(place) / 100.0;
        let bell = (-(away * 4.5).powi(2)).exp() + 0.015 * (-((away - 1.1) * 6.0).powi(2)).exp();
        (latency * 10_f64.powf(away), bell * noise(random, 0.05).max(0.0))
    };
    let steps: Vec<(f64, f64)> = (-60..=170).map(step).collect();
    let sum: f64 = steps.iter().map(|(_, share)| share).sum();
    steps
        .into_iter()
        .map(|(bound, share)| Bucket { bound: whole(bound), count: whole(share / sum * count) })
        .filter(|bucket| bucket.count > 0)
        .collect()
}

fn intervals((iops, size): (f64, f64), latency: f64, random: &mut Random) -> Vec<Interval> {
    let second = |at: u32| {
        let iops = iops * noise(random, 0.03) * if at == 13 { 0.7 } else { 1.0 };
        Interval {
            at: f64::from(at),
            iops,
            bytes_per_second: iops * size,
            latency: Some(latency * noise(random, 0.03)),
            cpu_percent: Some(62.0 * noise(random, 0.03)),
            transactions: Some(iops / 20.0),
        }
    };
    (1..=20).map(second).collect()
}

fn limiter(load: f64, size: f64) -> Option<String> {
    let name = if size > 8192.0 { "link" } else { "target's core" };
    (load > 0.9).then(|| name.to_owned())
}

/// Flags on a few: two that a report shows beside the result, one that takes it out.
fn blemish(result: &mut PointResult, number: usize) {
    let flag = match (number, result.arm.as_str(), result.repetition) {
        (2, "B", 1 | 4) => Flag::Contended { detail: "7 % of the machine, 5 % allowed".to_owned() },
        (5, "I", 2) => Flag::NoSteadyState { detail: "the rate fell by 4 % a second".to_owned() },
        (8, "S", 5) => Flag::Errors { detail: "12 of 40,000, the first: I/O error".to_owned() },
        _ => return,
    };
    result.flags.push(flag);
}

fn save(folder: &Path, result: &PointResult) -> Result<()> {
    file(&folder.join("result.json"), &serde_json::to_string(result)?)
}

fn file(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
