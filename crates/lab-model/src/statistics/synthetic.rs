//! Made-up measurements with a known truth, for the tests of everything that judges measurements.

use std::collections::BTreeMap;

use super::random::Random;
use crate::evidence::Evidence;
use crate::result::{Coordinate, Cpu, Direction, Load, PointResult, SCHEMA, Tool};
#[cfg(test)]
use crate::scenario::Scenario;

/// A result of a scenario without axes that read with so many I/Os per second of 4 KiB for ten seconds.
pub fn result(arm: &str, repetition: u32, iops: f64) -> PointResult {
    let read = Direction { iops, bytes_per_second: iops * 4096.0, ..Direction::default() };
    PointResult {
        schema: SCHEMA,
        run: "run".to_owned(),
        scenario: "family.name".to_owned(),
        scenario_hash: String::new(),
        arm: arm.to_owned(),
        point: Vec::new(),
        repetition,
        order: 1,
        started: String::new(),
        seconds: 10.0,
        evidence: Evidence::Real,
        tool: Tool { name: "fio".to_owned(), version: "3.33".to_owned(), argv: Vec::new() },
        load: Load { read: Some(read), ..Load::default() },
        intervals: Vec::new(),
        cpu: Cpu::default(),
        memory: BTreeMap::new(),
        network: None,
        nodes: Vec::new(),
        target_counters: BTreeMap::new(),
        neighbours: Vec::new(),
        hosts: BTreeMap::new(),
        extra: BTreeMap::new(),
        limiter: None,
        flags: Vec::new(),
    }
}

/// Coordinates from `axis=value` words.
pub fn point(text: &str) -> Vec<Coordinate> {
    let words = text.split_whitespace().filter_map(|word| word.split_once('='));
    words.map(|(axis, value)| Coordinate { axis: axis.to_owned(), value: value.to_owned() }).collect()
}

/// A scenario with arms A and B, workload options `rw=randread`, and whatever else `text` says in TOML.
#[cfg(test)]
pub(crate) fn scenario(text: &str) -> Scenario {
    let arm = |key: &str| {
        format!(
            "[[arm]]\nkey='{key}'\nname='{key}'\ninitiator='linerate'\ntarget='linerate-iscsi'\nevidence={{kind='real'}}\n"
        )
    };
    let head = "id='family.name'\ntitle='t'\nquestion='q'\nsource={publication='p'}\n[workload]\ntool='fio'\n\
        options={rw='randread'}\n";
    toml::from_str(&format!("{head}{}{}{text}", arm("A"), arm("B"))).unwrap()
}

/// A bench whose figures scatter log-normally: each run by itself, and each block as a whole.
#[derive(Debug, Clone, Copy)]
pub struct Bench {
    /// Standard deviation of the logarithm of a single run.
    pub noise: f64,
    /// Standard deviation of what both runs of a block share: the machine's mood of that minute.
    pub drift: f64,
}

/// The bench of the acceptance: runs scatter by 4 %, blocks by 10 %, so that identical runs of different minutes easily
/// differ by 20 %, as they did where the lab was built.
pub const REALISTIC: Bench = Bench { noise: 0.04, drift: 0.10 };

/// The rates of one block, I/Os per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Block {
    /// Of arm A.
    pub a: f64,
    /// Of arm B.
    pub b: f64,
}

impl Bench {
    /// A and B of one block, when A is really `effect` times as fast.
    pub fn block(self, random: &mut Random, effect: f64) -> Block {
        let shared = self.drift * normal(random);
        let mut run = |speed: f64| 40_000.0 * speed * (shared + self.noise * normal(random)).exp();
        Block { a: run(effect), b: run(1.0) }
    }
}

/// A standard normal number, by Box and Muller.
fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * random.unit()).cos()
}
