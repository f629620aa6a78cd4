//! What each machine of a run over several did meanwhile: processors, memory, its end of the link, interrupts, energy.
//!
//! Only runs with an agent have this. It is drawn here, without the script: a bar for each machine and arm, as busy as it was.

use std::collections::BTreeMap;
use std::fmt::Write;

use lab_model::result::{Machine, PointResult, point_name};
use lab_model::statistics::number::real;

use super::plan::Drawn;
use super::run::Run;
use super::svg::{colour, escaped};
use super::table::{Cell, Table};

/// Where the bars begin and how wide a wholly busy machine is.
const LEFT: f64 = 220.0;
const WIDTH: f64 = 600.0;
/// Height of a bar, and from one to the next.
const HEIGHT: f64 = 18.0;
const STEP: f64 = 26.0;
/// Bytes in a mebibyte.
const MIB: f64 = 1_048_576.0;

/// A machine's figures at one point for one arm, over its repetitions.
type Windows<'a> = BTreeMap<Place<'a>, Vec<(&'a PointResult, &'a Machine)>>;

/// Whose figures they are; in the order of the table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place<'a> {
    arm: &'a str,
    point: String,
    machine: &'a str,
}

/// Draws the machines; nothing where all ran on one without an agent.
pub(crate) fn draw(run: &Run) -> Option<Drawn> {
    let windows = windows(&run.points);
    let note = "The mean of the windows. A machine is counted by its agent; the sides that ran there are in the figures above.";
    (!windows.is_empty()).then(|| Drawn {
        id: "lab-machines".to_owned(),
        title: "Machines".to_owned(),
        notes: vec![note.to_owned()],
        charts: Vec::new(),
        svg: bars(&run.points),
        table: table(&windows),
        comparisons: Vec::new(),
    })
}

fn windows(points: &[PointResult]) -> Windows<'_> {
    let mut windows = Windows::new();
    for result in points.iter().filter(|result| result.valid()) {
        for (name, machine) in &result.hosts {
            let place = Place { arm: &result.arm, point: point_name(&result.point), machine: name };
            windows.entry(place).or_default().push((result, machine));
        }
    }
    windows
}

/// The mean of what some of the windows have.
fn mean(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = figures.fold((0.0, 0.0), |(sum, count), figure| (sum + figure, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

fn busy(machine: &Machine) -> f64 {
    machine.cpu.machine_percent.1
}

fn bars(points: &[PointResult]) -> String {
    let mut rows: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
    for result in points.iter().filter(|result| result.valid()) {
        for (name, machine) in &result.hosts {
            rows.entry((&result.arm, name)).or_default().push(busy(machine));
        }
    }
    let (mut svg, mut top) = (String::new(), 4.0);
    let names: Vec<&str> = rows.keys().map(|(_, name)| *name).collect();
    for ((arm, name), figures) in &rows {
        let percent = mean(figures.iter().copied()).unwrap_or_default();
        let words = escaped(&format!("{arm}: {name}"));
        let (baseline, width) = (top + HEIGHT / 2.0 + 5.0, WIDTH * percent.clamp(0.0, 100.0) / 100.0);
        let place = names.iter().position(|known| known == name).unwrap_or_default();
        let fill = colour(place);
        let _ = write!(
            svg,
            "<text class=\"title\" x=\"{}\" y=\"{baseline}\" text-anchor=\"end\">{words}</text>\
             <rect class=\"ground\" x=\"{LEFT}\" y=\"{top}\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\
             <rect x=\"{LEFT}\" y=\"{top}\" width=\"{width:.1}\" height=\"{HEIGHT}\" style=\"fill:{fill}\"/>\
             <text class=\"fine\" x=\"{}\" y=\"{baseline}\">{percent:.0} % busy</text>",
            LEFT - 12.0,
            LEFT + WIDTH + 8.0,
        );
        top += STEP;
    }
    let (width, height) = (LEFT + WIDTH + 90.0, top + 4.0);
    format!(
        "<svg class=\"machines\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"How busy each machine was, by arm\">{svg}</svg>"
    )
}

fn table(windows: &Windows<'_>) -> Table {
    let mut table = Table::new([
        "point",
        "arm",
        "evidence",
        "machine",
        "busy per cent",
        "soft interrupts per cent",
        "most resident MiB",
        "MiB/s sent",
        "MiB/s received",
        "segments sent again",
        "interrupts per second",
        "watts",
    ]);
    table.rows = windows.iter().map(|(place, results)| row(place, results)).collect();
    table
}

fn row(place: &Place<'_>, results: &[(&PointResult, &Machine)]) -> Vec<Cell> {
    let of = |figure: &dyn Fn(&PointResult, &Machine) -> Option<f64>| {
        mean(results.iter().filter_map(|(result, machine)| figure(result, machine)))
            .map_or_else(|| Cell::Text(String::new()), Cell::Number)
    };
    let evidence = results.first().map(|(result, _)| result.evidence.label().to_owned()).unwrap_or_default();
    let text = [place.point.clone(), place.arm.to_owned(), evidence, place.machine.to_owned()];
    let figures = [
        of(&|_, machine| Some(busy(machine))),
        of(&|result, machine| {
            let capacity = f64::from(machine.cpu.processors) * result.seconds;
            (capacity > 0.0).then(|| 100.0 * machine.cpu.softirq / capacity)
        }),
        of(&|_, machine| (!machine.memory.is_empty()).then(|| real(machine.memory.values().sum()) / MIB)),
        of(&|result, machine| rate(machine.network.as_ref()?.sent, result.seconds)),
        of(&|result, machine| rate(machine.network.as_ref()?.received, result.seconds)),
        of(&|_, machine| Some(real(machine.network.as_ref()?.retransmitted))),
        of(&|_, machine| interrupts(machine)),
        of(&|_, machine| watts(machine)),
    ];
    text.into_iter().map(Cell::Text).chain(figures).collect()
}

/// MiB per second.
fn rate(bytes: u64, seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| real(bytes) / MIB / seconds)
}

/// Hardware interrupts per second.
fn interrupts(machine: &Machine) -> Option<f64> {
    let hardware = &machine.hardware;
    let hard = hardware.interrupts.iter().filter(|(source, _)| !source.starts_with("soft "));
    let counted = !hardware.interrupts.is_empty() && hardware.seconds > 0.0;
    counted.then(|| real(hard.map(|(_, count)| count).sum()) / hardware.seconds)
}

/// Power over all domains that can be read.
fn watts(machine: &Machine) -> Option<f64> {
    let hardware = &machine.hardware;
    let counted = !hardware.energy.is_empty() && hardware.seconds > 0.0;
    counted.then(|| hardware.energy.values().sum::<f64>() / hardware.seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_model::result::Hardware;

    #[test]
    fn a_row_holds_the_mean_of_its_windows() {
        let machine = |percent, interrupts| Machine {
            cpu: lab_model::result::Cpu {
                processors: 2,
                machine_percent: (0.0, percent, 100.0),
                ..Default::default()
            },
            hardware: Hardware {
                seconds: 2.0,
                interrupts: BTreeMap::from([("eth0".to_owned(), interrupts), ("soft NET_RX".to_owned(), 9)]),
                ..Hardware::default()
            },
            ..Machine::default()
        };
        let machines = [machine(20.0, 100), machine(40.0, 300)];
        let mean_of = |figure: &dyn Fn(&Machine) -> Option<f64>| mean(machines.iter().filter_map(figure));
        assert_eq!(mean_of(&|machine| Some(busy(machine))), Some(30.0));
        assert_eq!(mean_of(&interrupts), Some(100.0));
        assert_eq!(mean_of(&watts), None);
    }
}
