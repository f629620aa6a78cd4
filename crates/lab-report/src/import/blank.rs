//! What every imported result begins as, and the pieces that several tools' results share.

use std::collections::BTreeMap;

use super::number::{ratio, size};
use super::source::Source;
use lab_model::evidence::Evidence;
use lab_model::result::{Coordinate, Cpu, CpuShare, Direction, Latency, Load, PointResult, SCHEMA, Tool};

/// Nanoseconds of a millisecond.
pub(super) const MILLISECOND: f64 = 1e6;

/// A result that says nothing yet but where it comes from.
pub(super) fn blank(source: &Source, tool: &str) -> PointResult {
    PointResult {
        schema: SCHEMA,
        run: String::new(),
        scenario: String::new(),
        scenario_hash: String::new(),
        arm: "A".to_owned(),
        point: Vec::new(),
        repetition: 1,
        order: 1,
        started: source.modified.clone(),
        seconds: 0.0,
        evidence: Evidence::Imported { from: format!("{tool}: {}", source.name) },
        tool: Tool { name: tool.to_owned(), version: "unknown".to_owned(), argv: Vec::new() },
        load: Load::default(),
        intervals: Vec::new(),
        cpu: Cpu { method: format!("imported from {tool}"), ..Cpu::default() },
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

/// A place on an axis.
pub(super) fn at(axis: &str, value: impl Into<String>) -> Coordinate {
    Coordinate { axis: axis.to_owned(), value: value.into() }
}

/// What a load generator was told, in fio's words.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Shape {
    /// Bytes of an I/O.
    pub(super) block: Option<u64>,
    /// Per cent of the I/Os that write.
    pub(super) write_percent: Option<f64>,
    /// Random, not sequential.
    pub(super) random: Option<bool>,
    /// I/Os outstanding per thread.
    pub(super) depth: Option<u64>,
    /// Threads.
    pub(super) threads: Option<u64>,
}

impl Shape {
    /// As coordinates, as far as they are known.
    pub(super) fn coordinates(&self) -> Vec<Coordinate> {
        let mut all = Vec::new();
        if let Some(block) = self.block {
            all.push(at("bs", size(block)));
        }
        if let Some(write) = self.write_percent {
            let random = if self.random == Some(true) { "rand" } else { "" };
            if write <= 0.0 {
                all.push(at("rw", format!("{random}read")));
            } else if write >= 100.0 {
                all.push(at("rw", format!("{random}write")));
            } else {
                all.push(at("rw", format!("{random}rw")));
                all.push(at("rwmixread", format!("{}", 100.0 - write)));
            }
        }
        if let Some(depth) = self.depth {
            all.push(at("iodepth", depth.to_string()));
        }
        if let Some(threads) = self.threads {
            all.push(at("numjobs", threads.to_string()));
        }
        all
    }
}

/// Processor time of a whole machine, from percentages of it.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) struct Machine {
    /// Processors; 0 when unknown, and then there are no seconds, only per cent.
    pub(super) processors: u32,
    /// Busy per cent.
    pub(super) busy: f64,
    /// Of it in user mode.
    pub(super) user: f64,
    /// Of it in the kernel.
    pub(super) system: f64,
}

impl Machine {
    /// As the host's share of a window.
    pub(super) fn cpu(self, seconds: f64, method: String) -> Cpu {
        let scale = f64::from(self.processors) * seconds / 100.0;
        Cpu {
            processors: self.processors,
            host: CpuShare { user: self.user * scale, system: self.system * scale },
            machine_percent: (self.busy, self.busy, self.busy),
            method,
            ..Cpu::default()
        }
    }
}

/// A direction of which counts and time are known; `None` when nothing happened.
pub(super) fn direction(ios: u64, bytes: u64, seconds: f64, latency: Option<Latency>) -> Option<Direction> {
    let per_second = |count: u64| ratio(super::number::float(count), seconds);
    (ios > 0 || bytes > 0).then(|| Direction {
        ios,
        bytes,
        iops: per_second(ios),
        bytes_per_second: per_second(bytes),
        latency,
    })
}

/// A direction of which only rates are known; `None` when they are zero.
pub(super) fn rates(iops: f64, bytes_per_second: f64, seconds: f64) -> Option<Direction> {
    (iops > 0.0 || bytes_per_second > 0.0).then(|| Direction {
        ios: super::number::whole(iops * seconds),
        bytes: super::number::whole(bytes_per_second * seconds),
        iops,
        bytes_per_second,
        latency: None,
    })
}
