//! Every claim of every scenario can come out both ways: for each, a made-up run that reproduces it and one that contradicts it.
//!
//! A claim that cannot be contradicted is no claim, and one that the scenario's own settings forbid to be reproduced is not tested by
//! it. So the made-up runs keep to what the scenario builds: no arm carries more than its link, no volume does more than its limit, no
//! load more than its rate, nothing answers before its delay, and no machine is more than wholly busy. A claim that nothing here stands
//! in for (no `here`) speaks of the published systems, which those settings do not bind.

use std::cell::RefCell;

use names::{Filter, Source, VolumeUrl};

use super::*;
use crate::evidence::Evidence;
use crate::result::{Bucket, Cpu, CpuShare, Direction, Latency, Load, Neighbour, Network, Node};
use crate::scenario::{Arm, Initiator, Target, ToolKind, catalogue, primary, sweep, topology};
use crate::statistics::context::payload_rate;
use crate::statistics::metric::{CACHE_DIRTY, CACHE_HITS, CACHE_MISSES, FIRST_IO};
use crate::statistics::number::real;
use crate::statistics::random::Random;
use crate::statistics::synthetic::result;

/// Made-up runs that are tried for each claim.
const TRIED: u64 = 6_000;
/// Repetitions of each; they scatter by a thousandth.
const REPETITIONS: u32 = 5;
/// Seconds of a window.
const SECONDS: f64 = 10.0;
/// Processors of the made-up machine.
const PROCESSORS: u32 = 2;
/// What an arm may do, of what is possible or usual.
const SHARES: [f64; 25] = [
    0.02, 0.1, 0.2, 0.3, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 0.94, 0.955, 0.97, 0.985, 0.995, 1.0, 1.0, 1.005,
    1.03, 1.1, 1.3, 1.7, 2.5, 4.0, 8.0,
];

#[derive(Clone, Copy)]
struct Dice<'a>(&'a RefCell<Random>);

impl Dice<'_> {
    fn unit(self) -> f64 {
        self.0.borrow_mut().unit()
    }

    fn share(self) -> f64 {
        let place = self.0.borrow_mut().below(SHARES.len());
        SHARES[place]
    }
}

/// What an arm is like in one made-up run.
#[derive(Clone, Copy)]
struct Nature {
    speed: f64,
    cpu: [f64; 3],
    mixed: f64,
    latency: f64,
    least: f64,
    tail: f64,
    memory: f64,
}

impl Nature {
    fn of(dice: Dice<'_>) -> Self {
        Self {
            speed: dice.share(),
            cpu: [dice.share(), dice.share(), dice.share()],
            mixed: dice.unit(),
            latency: dice.share(),
            least: dice.share(),
            tail: 1.0 + 20.0 * dice.unit(),
            memory: dice.share(),
        }
    }
}

/// What bounds an arm at a point, I/Os per second, bytes per second and nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Bounds {
    iops: Option<f64>,
    each_way: Option<f64>,
    volumes: Option<f64>,
    delay: f64,
    open_loop: bool,
    /// Nodes, and how many of them hold each block.
    nodes: Option<[f64; 2]>,
}

impl Bounds {
    fn of(scenario: &Scenario, arm: &Arm, point: &[Coordinate]) -> Self {
        let settings = sweep::settings(scenario, arm, point);
        let built = topology::at(scenario, arm, point).unwrap();
        let count = f64::from(built.targets) * f64::from(built.luns);
        let mut bounds = Self { each_way: payload_rate(&built.link), ..Self::default() };
        if arm.initiator == Initiator::Local {
            bounds.each_way = None;
        }
        if built.copies > 0 {
            bounds.nodes = Some([f64::from(built.initiators), f64::from(built.copies)]);
        }
        let volume = Most::of(&built.volume.replace("{n}", "0").replace("{folder}", "/f").parse().unwrap());
        bounds.iops = volume.iops.map(|rate| rate * count);
        bounds.volumes = volume.bytes.map(|rate| rate * count);
        bounds.delay = volume.delay;
        if let Some(rate) = settings.get("rate_iops").and_then(|rate| rate.parse::<f64>().ok()) {
            bounds.iops = Some(bounds.iops.map_or(rate, |known| known.min(rate)));
            bounds.open_loop = true;
        }
        bounds
    }

    /// The most I/Os a second of so many bytes, of which this share are reads.
    fn most(self, size: f64, reads: f64) -> Option<f64> {
        let link = self.each_way.map(|rate| match self.nodes {
            // All nodes' links carry what a node does not read of its own part, and every copy but its own.
            Some([nodes, copies]) => {
                rate * nodes
                    / size
                    / (reads * (1.0 - copies / nodes) + (1.0 - reads) * copies * (1.0 - 1.0 / nodes))
            }
            None => rate / size / reads.max(1.0 - reads),
        });
        let volumes = self.volumes.map(|rate| rate / size);
        [self.iops, link, volumes].into_iter().flatten().reduce(f64::min)
    }
}

/// The most that one volume does.
#[derive(Clone, Copy, Default)]
struct Most {
    iops: Option<f64>,
    bytes: Option<f64>,
    delay: f64,
}

impl Most {
    /// A cache answers each request from the fast volume or from the other: both together bound it, and the faster one's delay.
    fn of(url: &VolumeUrl) -> Self {
        let mut most = match &url.source {
            Source::Composite(made) if made.kind == "cache" => made
                .children
                .iter()
                .map(Self::of)
                .reduce(|one, other| {
                    let sum = |one: Option<f64>, other: Option<f64>| Some(one? + other?);
                    Self {
                        iops: sum(one.iops, other.iops),
                        bytes: sum(one.bytes, other.bytes),
                        delay: one.delay.min(other.delay),
                    }
                })
                .unwrap_or_default(),
            _ => Self::default(),
        };
        let less = |known: Option<f64>, rate: Option<u64>| {
            [known, rate.map(real)].into_iter().flatten().reduce(f64::min)
        };
        for filter in &url.filters {
            match filter {
                Filter::Limit(limit) => {
                    most.iops = less(most.iops, limit.iops);
                    most.bytes = less(most.bytes, limit.bandwidth.map(|rate| rate.0));
                }
                Filter::Delay(delay) => most.delay += delay.time.0.as_secs_f64() * 1e9,
                _ => {}
            }
        }
        most
    }
}

/// One made-up run of the arms of a claim.
struct World<'a> {
    scenario: &'a Scenario,
    claim: &'a Claim,
    dice: Dice<'a>,
}

impl World<'_> {
    fn results(&self) -> Vec<PointResult> {
        let test = Test::parse(self.claim.test.as_deref().unwrap()).unwrap();
        let named = test.arms();
        let arms: Vec<&Arm> = self
            .scenario
            .arms
            .iter()
            .filter(|arm| named.contains(arm.key.as_str()) || arm.initiator == Initiator::Local)
            .collect();
        let usual = 10_f64.powf(2.0 + 5.0 * self.dice.unit());
        let cost = 10_f64.powf(-6.5 + 3.0 * self.dice.unit());
        let uneven = self.dice.unit() < 0.5;
        let natures: Vec<Nature> = arms.iter().map(|_| Nature::of(self.dice)).collect();
        let mut results = Vec::new();
        for point in sweep::points(self.scenario, sweep::Extent::Full) {
            if !primary::speaks(self.scenario, self.claim, &point) {
                continue;
            }
            for (arm, nature) in arms.iter().zip(&natures) {
                let nature = if uneven { Nature::of(self.dice) } else { *nature };
                results.extend(self.of(arm, &point, nature, [usual, cost]));
            }
        }
        results
    }

    fn of(&self, arm: &Arm, point: &[Coordinate], nature: Nature, usual: [f64; 2]) -> Vec<PointResult> {
        let settings = sweep::settings(self.scenario, arm, point);
        let number = |name: &str| settings.get(name).and_then(|text| evaluate::size(text));
        let bounded = self.claim.here.is_some() && arm.initiator != Initiator::Imported;
        let bounds = if bounded { Bounds::of(self.scenario, arm, point) } else { Bounds::default() };
        let size = number("bs").unwrap_or(4096.0);
        let both = settings.get("direction").is_some_and(|way| way == "bidi");
        let reads = match settings.get("rw").map(String::as_str) {
            Some("randwrite" | "write") => 0.0,
            Some("randrw" | "rw") => number("rwmixread").unwrap_or(50.0) / 100.0,
            _ if both => 0.2 + 0.6 * nature.mixed,
            _ => 1.0,
        };
        let most = bounds.most(size, reads);
        let depth = number("iodepth").unwrap_or(1.0) * number("numjobs").unwrap_or(1.0);
        let within = most.unwrap_or(f64::INFINITY).min(if bounds.delay > 0.0 {
            depth / bounds.delay * 1e9
        } else {
            f64::INFINITY
        });
        let [usual, cost] = usual;
        let iops = (within.min(1e12).min(if most.is_some() { f64::INFINITY } else { usual }) * nature.speed)
            .min(within);
        let idle = if bounds.open_loop { nature.latency.min(1.0) } else { 1.0 };
        let mean = (depth / iops * 1e9 * idle).max(bounds.delay);
        let cpu = nature
            .cpu
            .map(|share| (iops * cost * share * SECONDS).min(f64::from(PROCESSORS) * SECONDS / 3.0));
        (1..=REPETITIONS)
            .map(|repetition| {
                let wobble = 1.0 + 0.001 * (self.dice.unit() - 0.5);
                let figures = Figures { iops: iops * wobble, size, reads, mean: mean / wobble, nature, cpu };
                PointResult { point: point.to_vec(), ..figures.result(self.scenario, &arm.key, repetition) }
            })
            .collect()
    }
}

/// What one made-up measurement shows.
#[derive(Clone, Copy)]
struct Figures {
    iops: f64,
    size: f64,
    reads: f64,
    mean: f64,
    nature: Nature,
    cpu: [f64; 3],
}

impl Figures {
    fn result(self, scenario: &Scenario, arm: &str, repetition: u32) -> PointResult {
        let tool = scenario.workload.tool;
        let share = |seconds: f64| CpuShare { user: seconds, system: 0.0 };
        let [host, adapter, target] = self.cpu.map(share);
        let mut made = result(arm, repetition, self.iops);
        made.evidence = Evidence::Real;
        made.seconds = SECONDS;
        made.load = Load {
            read: self.direction(self.reads, tool),
            write: self.direction(1.0 - self.reads, tool),
            log: scenario.workload.options.contains_key("log_rw").then(|| Direction {
                ios: 100,
                iops: 10.0,
                latency: Some(self.latency(self.mean * self.nature.least)),
                ..Direction::default()
            }),
            ..Load::default()
        };
        if tool == ToolKind::Pgbench {
            made.load = Load { transactions: Some(self.latency(self.mean)), ..Load::default() };
        }
        made.cpu = Cpu {
            processors: PROCESSORS,
            host,
            adapter: Some(adapter),
            target: Some(target),
            ..Cpu::default()
        };
        made.extra = [
            ("transactions_per_second".to_owned(), self.iops),
            ("volume_read_ns".to_owned(), self.mean),
            ("volume_write_ns".to_owned(), self.mean * self.nature.least),
            ("volume_reads_per_second".to_owned(), self.iops * self.nature.latency),
            ("volume_writes_per_second".to_owned(), self.iops),
            ("volume_bytes_per_second".to_owned(), self.iops * self.size * self.nature.latency),
            (FIRST_IO.to_owned(), self.mean),
        ]
        .into();
        made.target_counters = [
            (CACHE_HITS.to_owned(), self.nature.mixed),
            (CACHE_MISSES.to_owned(), 1.0 - self.nature.mixed),
            (CACHE_DIRTY.to_owned(), 1e7 * self.nature.memory),
        ]
        .into();
        made.network = Some(Network {
            sent: whole(1e9 * self.nature.memory),
            kept: whole(1e9 * self.nature.mixed),
            ..Network::default()
        });
        made.nodes = vec![Node::default(); if scenario.topology.copies > 0 { 4 } else { 0 }];
        made.memory = [("host".to_owned(), whole(1e9 * self.nature.memory))].into();
        made.neighbours = vec![Neighbour {
            name: "stream".to_owned(),
            bytes_per_second: 1e8 * self.nature.latency,
            tool: made.tool.clone(),
            load: Load::default(),
            seconds: SECONDS,
        }];
        made
    }

    fn direction(self, share: f64, tool: ToolKind) -> Option<Direction> {
        let iops = self.iops * share;
        (share > 0.0).then(|| Direction {
            ios: whole(iops * SECONDS),
            bytes: whole(iops * SECONDS * self.size),
            iops: if tool == ToolKind::Iperf3 { 0.0 } else { iops },
            bytes_per_second: iops * self.size,
            latency: Some(self.latency(self.mean)),
        })
    }

    fn latency(self, mean: f64) -> Latency {
        let names = [
            ("p50", 1.0),
            ("p95", 1.0),
            ("p99", 1.0),
            ("p99.9", self.nature.tail),
            ("p99.99", self.nature.tail),
        ];
        Latency {
            min: mean * self.nature.least.min(1.0),
            mean,
            max: mean * 2.0 * self.nature.tail,
            percentiles: names.into_iter().map(|(name, times)| (name.to_owned(), mean * times)).collect(),
            histogram: vec![
                Bucket { bound: whole(mean), count: 998 },
                Bucket { bound: whole(mean * self.nature.tail), count: 2 },
            ],
            ..Latency::default()
        }
    }
}

/// A made-up count.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "made-up counts are small and positive"
)]
const fn whole(number: f64) -> u64 {
    number as u64
}

/// The scenario with this claim alone; where nothing runs here, with an imported arm for each published system.
fn alone(scenario: &Scenario, claim: &Claim) -> Scenario {
    let mut alone = scenario.clone();
    alone.claims = vec![Claim { primary: false, ..claim.clone() }];
    if alone.arms.is_empty() {
        alone.arms = scenario
            .systems
            .iter()
            .map(|system| Arm {
                key: system.key.clone(),
                name: system.name.clone(),
                initiator: Initiator::Imported,
                target: Target::Site,
                stands_for: None,
                evidence: Evidence::Real,
                with: std::collections::BTreeMap::new(),
            })
            .collect();
    }
    alone
}

/// A bench on which an arm is like itself.
fn control() -> Vec<PointResult> {
    let both = |repetition| ["A", "A2"].map(|arm| result(arm, repetition, 1000.0));
    (1..=REPETITIONS).flat_map(both).collect()
}

/// The numbers of the made-up runs that came out reproduced and contradicted.
fn pair(bootstrap: &RefCell<Bootstrap>, scenario: &Scenario, claim: &Claim) -> [Option<u64>; 2] {
    let (mut found, control) = ([None, None], control());
    let part = || [("host".to_owned(), 1.0)].into();
    let prices = Prices {
        each: [("host".to_owned(), 4000.0)].into(),
        parts: scenario.arms.iter().map(|arm| (arm.key.clone(), part())).collect(),
        ..Prices::default()
    };
    for number in 0..TRIED {
        let random = RefCell::new(Random::part(92, number));
        let results = World { scenario, claim, dice: Dice(&random) }.results();
        let measured =
            Measured { results: &results, site_has: &claim.needs, control: &control, prices: Some(&prices) };
        let judged = judge_with(bootstrap, scenario, measured).remove(0);
        match judged.tested() {
            Outcome::Reproduced => found[0] = found[0].or(Some(number)),
            Outcome::Contradicted => found[1] = found[1].or(Some(number)),
            _ => {}
        }
        if found.iter().all(Option::is_some) {
            break;
        }
    }
    found
}

#[test]
fn every_claim_has_a_run_that_reproduces_it_and_one_that_contradicts_it() {
    let bootstrap = RefCell::new(Bootstrap::new(SEED));
    let (mut one_sided, mut pairs) = (Vec::new(), 0);
    for loaded in catalogue::list().unwrap() {
        for claim in &loaded.scenario.claims {
            let name = format!("{} {}", loaded.scenario.id, claim.id);
            assert!(
                claim.test.is_some(),
                "{name} has no test: a claim without a number takes a reading, and says so in `inferred`"
            );
            pairs += 1;
            match pair(&bootstrap, &alone(&loaded.scenario, claim), claim) {
                [Some(_), Some(_)] => {}
                [None, Some(_)] => one_sided.push(format!("{name} is never reproduced")),
                [Some(_), None] => one_sided.push(format!("{name} is never contradicted")),
                [None, None] => one_sided.push(format!("{name} is never decided")),
            }
        }
    }
    assert!(one_sided.is_empty(), "of {pairs} claims: {}", one_sided.join("; "));
}

#[test]
fn a_ratio_behind_a_rate_and_a_limit_that_nothing_passes_are_noticed() {
    let bootstrap = RefCell::new(Bootstrap::new(SEED));
    let text = |test: &str, more: &str| {
        format!(
            "[[claim]]\nid='c'\ntext='t'\nhere='h'\ntest='{test}'\n[topology]\nvolume='limit=1000iops+ram:64M'\n{more}"
        )
    };
    let of = |text: String| {
        let scenario = crate::statistics::synthetic::scenario(&text);
        let claim = scenario.claims[0].clone();
        pair(&bootstrap, &scenario, &claim)
    };
    let [reproduced, contradicted] = of(text("iops(A) >= 1100", ""));
    assert!(reproduced.is_none() && contradicted.is_some());
    let [reproduced, contradicted] = of(text("iops(A) <= 1100", ""));
    assert!(reproduced.is_some() && contradicted.is_none());
}
