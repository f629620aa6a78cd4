//! Other loads on the link of the one that is measured: what a converged network carries beside storage.
//!
//! A neighbour is a target of its own beside the arm's and a load of its own beside the measured one, on the same two hosts and
//! the same link, and in the same direction. It runs from before the measured load until after it; one that ends early makes the
//! measurement fail, because nobody would have been beside its end. Its figures and its processor time go into the result.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::task::Task;
use crate::arm::sides::{enrol, placement};
use crate::arm::{self, Endpoint, ServeSpec, Served, Volumes};
use crate::machine::clock::{Period, now};
use crate::machine::ledger::Ledger;
use crate::machine::process::{Placement, Running};
use crate::machine::topology::Hosts;
use crate::measure::{Role, Sides};
use crate::site::Processors;
use crate::tool::timing::limit;
use crate::tool::{self, Assignment, Measured};
use lab_model::result::Neighbour as Figures;
use lab_model::scenario::{Initiator, Neighbour, Target, ToolKind, needs};

/// Seconds that a neighbour's load lasts beyond ramp and window: what the measured load may take to start and to end.
pub const MARGIN: f64 = 3.0;
/// What block neighbours serve: nothing of it is kept, so that they cost the link and not memory.
const VOLUME: &str = "null:1G";
/// What one of files serves: a file in memory.
const FILE: &str = "ram:64M";
/// Bytes of their I/Os, and how many are under way.
const BLOCK: &str = "64k";
const DEPTH: &str = "16";

/// A neighbour whose servers run.
#[derive(Debug)]
struct RunningNeighbour {
    kind: Neighbour,
    served: Served,
}

/// The neighbours of an arm.
#[derive(Debug, Default)]
pub struct Neighbours {
    running: Vec<RunningNeighbour>,
}

/// What neighbours are built on.
#[derive(Debug, Clone, Copy)]
pub struct Site<'a> {
    /// The hosts of the arm.
    pub hosts: &'a Hosts,
    /// Which processors do what.
    pub processors: &'a Processors,
    /// The arm's sides, that of its neighbours among them.
    pub sides: &'a Sides,
    /// Where their files go.
    pub folder: &'a Path,
    /// The `linerate` program.
    pub linerate: &'a Path,
}

impl Neighbours {
    /// Starts what the neighbours' loads go to.
    pub fn build(kind: Neighbour, site: &Site<'_>, ledger: &mut Ledger) -> Result<Self> {
        let mut neighbours = Self::default();
        for kind in kind.each() {
            let folder = site.folder.join(kind.name());
            std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
            let host = &site.hosts.target;
            let place = placement(host, &site.processors.target, site.sides, Role::Neighbour);
            let volumes = Volumes { targets: 1, luns: 1, url: volume(*kind).to_owned() };
            let spec = ServeSpec {
                volumes: &volumes,
                host,
                folder: &folder,
                placement: &place,
                linerate: site.linerate,
                cores: 1,
                spin: None,
            };
            let served = arm::serve(parts(*kind).0, &spec, ledger)
                .with_context(|| format!("neighbour {} does not start", kind.name()))?;
            enrol(site.sides, Role::Neighbour, &served);
            neighbours.running.push(RunningNeighbour { kind: *kind, served });
        }
        Ok(neighbours)
    }

    /// Their servers.
    pub fn served(&mut self) -> impl Iterator<Item = &mut Served> {
        self.running.iter_mut().map(|one| &mut one.served)
    }

    /// Starts their loads, each for longer than the measured one can last.
    pub fn load(&self, task: &Task<'_>, place: &Placement, sides: &Sides) -> Result<Loads> {
        let mut loads = Loads::default();
        for one in &self.running {
            let load = Load {
                kind: one.kind,
                endpoints: one.served.endpoints.clone(),
                settings: settings(one.kind, Direction::of(task.settings)),
                folder: task.folder.join(format!("neighbour-{}", one.kind.name())),
                linerate: task.linerate.to_path_buf(),
                seconds: (task.design.ramp + task.design.runtime + MARGIN).ceil(),
                started: now(),
            };
            std::fs::create_dir_all(&load.folder)
                .with_context(|| format!("cannot make {}", load.folder.display()))?;
            let line = tool::command(parts(load.kind).2, &load.assignment())?;
            let running = Running::start(&line, place)?;
            if let Some(side) = sides.get(Role::Neighbour) {
                side.started(running.pid());
            }
            loads.0.push((load, running));
        }
        Ok(loads)
    }
}

/// What serves, what puts the load on, and by which tool.
const fn parts(kind: Neighbour) -> (Target, Initiator, ToolKind) {
    match kind {
        Neighbour::Iscsi => (Target::LinerateIscsi, Initiator::Linerate, ToolKind::Fio),
        Neighbour::Nvme => (Target::LinerateNvme, Initiator::Linerate, ToolKind::Fio),
        Neighbour::Nfs => (Target::LinerateNfs, Initiator::Linerate, ToolKind::Fio),
        Neighbour::None | Neighbour::Stream | Neighbour::All => {
            (Target::Stream, Initiator::Stream, ToolKind::Iperf3)
        }
    }
}

/// What its target serves.
const fn volume(kind: Neighbour) -> &'static str {
    match kind {
        Neighbour::Nfs => FILE,
        Neighbour::None | Neighbour::Stream | Neighbour::Iscsi | Neighbour::Nvme | Neighbour::All => VOLUME,
    }
}

/// Which way the measured load moves its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Reads,
    Writes,
}

impl Direction {
    /// That of a load with these settings.
    fn of(settings: &BTreeMap<String, String>) -> Self {
        if needs::writes(settings) { Self::Writes } else { Self::Reads }
    }
}

/// Options of a neighbour's load, in the direction of the measured one.
fn settings(kind: Neighbour, direction: Direction) -> BTreeMap<String, String> {
    let pairs: &[(&str, &str)] = match (kind, direction) {
        (Neighbour::Iscsi | Neighbour::Nvme | Neighbour::Nfs, Direction::Reads) => {
            &[("rw", "randread"), ("bs", BLOCK), ("iodepth", DEPTH), ("numjobs", "1")]
        }
        (Neighbour::Iscsi | Neighbour::Nvme | Neighbour::Nfs, Direction::Writes) => {
            &[("rw", "randwrite"), ("bs", BLOCK), ("iodepth", DEPTH), ("numjobs", "1")]
        }
        (_, Direction::Reads) => &[("direction", "reverse")],
        (_, Direction::Writes) => &[("direction", "uni")],
    };
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A neighbour's load and what is needed to read it.
#[derive(Debug)]
struct Load {
    kind: Neighbour,
    endpoints: Vec<Endpoint>,
    settings: BTreeMap<String, String>,
    folder: PathBuf,
    linerate: PathBuf,
    seconds: f64,
    /// Seconds since 1970.
    started: f64,
}

impl Load {
    fn assignment(&self) -> Assignment<'_> {
        Assignment {
            settings: &self.settings,
            endpoints: &self.endpoints,
            folder: &self.folder,
            ramp: 0.0,
            runtime: self.seconds,
            linerate: &self.linerate,
            engines: &self.folder,
            initiator: parts(self.kind).1,
        }
    }
}

/// Loads that run. Dropping them ends them.
#[derive(Debug, Default)]
pub struct Loads(Vec<(Load, Running)>);

impl Loads {
    /// Fails if a load has ended already. Call it when the measured load ends.
    pub fn still_run(&mut self) -> Result<()> {
        for (load, running) in &mut self.0 {
            ensure!(
                running.is_alive(),
                "neighbour {} ended before the load that it was to run beside{}",
                load.kind.name(),
                running.last_words()
            );
        }
        Ok(())
    }

    /// Waits until they end, and returns what each carried in a period.
    pub fn finish(self, period: Period) -> Result<Vec<Figures>> {
        let mut figures = Vec::new();
        for (load, mut running) in self.0 {
            let name = load.kind.name();
            let status = running.wait(limit(0.0, load.seconds))?;
            let measured = tool::outcome(parts(load.kind).2, &load.assignment(), status)
                .with_context(|| format!("neighbour {name}"))?;
            if measured.load.errors > 0 {
                bail!("neighbour {name}: {} of its I/Os failed", measured.load.errors);
            }
            let bytes_per_second = within(&measured, load.started, period);
            figures.push(Figures {
                name: name.to_owned(),
                bytes_per_second,
                tool: measured.tool,
                load: measured.load,
                seconds: measured.seconds,
            });
        }
        Ok(figures)
    }
}

/// Mean bytes per second of a load in a period, by its own seconds; over all of its time where it has none there.
fn within(measured: &Measured, started: f64, period: Period) -> f64 {
    let begin = measured.window_start.unwrap_or(started);
    let (mut bytes, mut covered, mut last) = (0.0, 0.0, 0.0);
    for second in &measured.intervals {
        let (start, end) = ((begin + last).max(period.from), (begin + second.at).min(period.to));
        let overlap = (end - start).max(0.0);
        bytes += second.bytes_per_second * overlap;
        covered += overlap;
        last = second.at;
    }
    if covered > 0.0 {
        return bytes / covered;
    }
    measured.load.read.iter().chain(&measured.load.write).map(|direction| direction.bytes_per_second).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_model::result::{Direction as Moved, Interval, Load as Loaded, Tool};

    fn measured(seconds: &[f64]) -> Measured {
        let intervals = (1..).zip(seconds).map(|(at, rate)| Interval {
            at: f64::from(at),
            bytes_per_second: *rate,
            ..Interval::default()
        });
        let read = Moved { bytes_per_second: 7.0, ..Moved::default() };
        Measured {
            tool: Tool { name: "t".to_owned(), version: "1".to_owned(), argv: Vec::new() },
            load: Loaded { read: Some(read), ..Loaded::default() },
            intervals: intervals.collect(),
            extra: BTreeMap::new(),
            seconds: 4.0,
            window_start: Some(100.0),
            flags: Vec::new(),
        }
    }

    #[test]
    fn only_what_lies_in_the_window_counts() {
        // Alone in its first and last second, disturbed in between.
        let load = measured(&[900.0, 300.0, 300.0, 900.0]);
        let rate = within(&load, 0.0, Period { from: 101.0, to: 103.0 });
        assert!((rate - 300.0).abs() < 1e-9, "{rate}");
        let half = within(&load, 0.0, Period { from: 100.5, to: 101.5 });
        assert!((half - 600.0).abs() < 1e-9, "{half}");
        let none = within(&measured(&[]), 0.0, Period { from: 101.0, to: 103.0 });
        assert!((none - 7.0).abs() < 1e-9, "{none}");
    }

    #[test]
    fn a_neighbour_goes_the_way_of_the_measured_load() {
        assert_eq!(settings(Neighbour::Stream, Direction::Reads)["direction"], "reverse");
        assert_eq!(settings(Neighbour::Stream, Direction::Writes)["direction"], "uni");
        assert_eq!(settings(Neighbour::Nvme, Direction::Writes)["rw"], "randwrite");
    }

    #[test]
    fn all_are_all() {
        assert_eq!(Neighbour::All.each().len(), 4);
        assert!(Neighbour::None.each().is_empty());
    }
}
