//! One measurement: the load of one arm at one point, once, with everything that is counted meanwhile.

use std::process::ExitStatus;

use anyhow::{Context, Result, bail};

use super::merge::merge;
use super::progress::Busy;
use super::stage::Stage;
use super::task::{Preparation, Taken, Task};
use crate::arm::caches::since;
use crate::machine::clock::{Clocks, Period, now};
use crate::machine::process::Running;
use crate::measure::{Counted, Role, Window};
use crate::tool::first_io::clocked;
use crate::tool::timing::{limit, span};
use crate::tool::{self, Assignment, Measured};
use lab_model::result::{Cpu, Direction, Flag, Network};
use lab_model::scenario::ToolKind;
use lab_model::statistics::number::real;

/// Measures once. The load of every initiating host runs at the same time.
pub fn take(stage: &mut Stage, task: &Task<'_>) -> Result<Taken> {
    if stage.afar.loads() {
        if task.kind == ToolKind::FirstIo {
            bail!("the clock of the first I/O is this machine's: let the load come from here (no `host`)");
        }
        let preparation = stage.preparation(task.settings);
        return stage.afar.take(task, preparation);
    }
    let initiators = stage.initiators.clone();
    let many = initiators.len() > 1;
    let folders: Vec<_> = (0..initiators.len())
        .map(
            |number| if many { task.folder.join(format!("host{number}")) } else { task.folder.to_path_buf() },
        )
        .collect();
    let mut assignments = Vec::new();
    for ((_, endpoints), folder) in initiators.iter().zip(&folders) {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        assignments.push(Assignment {
            settings: task.settings,
            endpoints,
            folder,
            ramp: task.design.ramp,
            runtime: task.design.runtime,
            linerate: task.linerate,
            engines: task.engines,
            initiator: task.arm.initiator,
        });
    }
    if stage.preparation(task.settings) == Preparation::Due {
        prepare(stage, task, &assignments)?;
    }
    stage.afar.open()?;
    let before = stage.counters()?;
    let window = Window::open_with(&stage.sides, stage.watched()?)?;
    let mut beside = stage.disturb(task)?;
    let clocks = Clocks::read();
    let started = now();
    let statuses = run(stage, task, &assignments)?;
    let ended = now();
    let target_counters = since(&stage.counters()?, &before);
    let set = clocks.set_since();
    beside.still_run()?;
    let parts: Vec<Measured> = assignments
        .iter()
        .zip(statuses)
        .map(|(one, status)| tool::outcome(task.kind, one, status))
        .collect::<Result<_>>()?;
    let Some(mut measured) = merge(parts) else { bail!("the arm has no initiating host") };
    if task.kind == ToolKind::FirstIo {
        clocked(&mut measured, stage.built, ended - started);
    }
    let period = span(&measured, Period { from: started, to: ended }, task.design.ramp);
    let neighbours = beside.finish(period)?;
    let mut counted = window.close_over(period.from, period.to)?;
    counted.flags.extend(set.map(|detail| Flag::NoSteadyState { detail }));
    let hosts = stage.afar.close(&mut counted, period)?;
    if let Some(words) = stage.ended() {
        bail!("{words}");
    }
    Ok(Taken { measured, counted, started, hosts, neighbours, target_counters })
}

/// Lets the tool lay out what it works on: tables, files.
fn prepare(stage: &Stage, task: &Task<'_>, assignments: &[Assignment<'_>]) -> Result<()> {
    for (assignment, (host, _)) in assignments.iter().zip(&stage.initiators) {
        for line in tool::prepare(task.kind, assignment)? {
            Running::start(&line, &stage.load_placement(host))?
                .finish(limit(task.design.ramp, task.design.runtime) * 4)?;
        }
    }
    Ok(())
}

/// Runs the loads of all hosts side by side to their ends.
fn run(stage: &Stage, task: &Task<'_>, assignments: &[Assignment<'_>]) -> Result<Vec<ExitStatus>> {
    let mut running = Vec::new();
    for (assignment, (host, _)) in assignments.iter().zip(&stage.initiators) {
        let line = tool::command(task.kind, assignment)?;
        let started = Running::start(&line, &stage.load_placement(host))?;
        if let Some(side) = stage.sides.get(Role::Host) {
            side.started(started.pid());
        }
        running.push(started);
    }
    running.iter_mut().map(|one| one.wait(limit(task.design.ramp, task.design.runtime))).collect()
}

/// What makes a result doubtful or worthless: the tool's own flags, the machine's, and failed I/Os.
pub fn flags(measured: &Measured, counted: &Counted) -> Vec<Flag> {
    let mut flags = measured.flags.clone();
    let told = flags.iter().any(|flag| matches!(flag, Flag::Errors { .. }));
    if measured.load.errors > 0 && !told {
        flags.push(Flag::Errors { detail: format!("{} I/Os failed", measured.load.errors) });
    }
    flags.extend(counted.flags.iter().cloned());
    // A node reads its own parts without the link.
    let linked = counted.network.filter(|_| counted.nodes.is_empty());
    flags.extend(linked.and_then(|network| short_cut(measured, network)));
    flags
}

/// Share of a tool's bytes that must have crossed the link; less means that something answered on this side of it. On a busy
/// machine the windows of several hosts do not quite meet, so it is far below one.
const ON_THE_WIRE: f64 = 0.5;

/// Data that a tool counted and the link did not carry: an initiator that knows blocks to be unmapped fills them in by itself.
fn short_cut(measured: &Measured, network: Network) -> Option<Flag> {
    let moved = |direction: Option<&Direction>| direction.map_or(0, |direction| direction.bytes);
    let (read, written) = (moved(measured.load.read.as_ref()), moved(measured.load.write.as_ref()));
    let missing = |bytes: u64, carried: u64| real(carried) < ON_THE_WIRE * real(bytes);
    (missing(read, network.received) || missing(written, network.sent)).then(|| Flag::OutsideProfile {
        detail: format!(
            "{read} bytes read and {written} written, but the link carried only {} and {}: something answered on this side of it",
            network.received, network.sent
        ),
    })
}

/// How busy the machine was over the window.
pub fn busy(cpu: &Cpu) -> Busy {
    let (least, mean, most) = cpu.machine_percent;
    Busy { mean, half_range: (most - least) / 2.0 }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use lab_model::result::{Load, Tool};

    fn measured(window_start: Option<f64>, seconds: f64) -> Measured {
        Measured {
            tool: Tool { name: String::new(), version: String::new(), argv: Vec::new() },
            load: Load { errors: 3, ..Load::default() },
            intervals: Vec::new(),
            extra: BTreeMap::new(),
            seconds,
            window_start,
            flags: Vec::new(),
        }
    }

    #[test]
    fn data_that_never_crossed_the_link_is_noticed() {
        let mut measured = measured(None, 1.0);
        measured.load.read = Some(Direction { bytes: 1_000_000, ..Direction::default() });
        let network = |received| Network { received, ..Network::default() };
        assert_eq!(short_cut(&measured, network(1_020_000)), None);
        assert!(short_cut(&measured, network(20_000)).unwrap().invalidates());
    }
}
