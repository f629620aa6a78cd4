//! The topology as a drawing: who initiates, what lies between, who serves, and where.

use std::fmt::Write;

use lab_model::scenario::{Initiator, LinkKind, Placement, Scenario, Target, Topology};

use super::svg::escaped;
use super::words;

/// More hosts than this are drawn as one box that says how many.
const MOST_BOXES: u32 = 4;
/// Size of a box, and from one to the next.
const WIDTH: u32 = 230;
const HEIGHT: u32 = 64;
const STEP: u32 = HEIGHT + 16;
/// Where the columns begin.
const LEFT: u32 = 16;
const RIGHT: u32 = 534;
/// Width of the drawing.
const WHOLE: u32 = RIGHT + WIDTH + 16;

/// The drawing, as an `svg` element; empty when nothing runs here.
pub(crate) fn draw(scenario: &Scenario) -> String {
    if scenario.arms.is_empty() {
        return String::new();
    }
    let topology = &scenario.topology;
    if topology.copies > 0 {
        return nodes(topology);
    }
    let local =
        scenario.arms.iter().all(|arm| arm.target == Target::None || arm.initiator == Initiator::Local);
    if local { one_host(topology) } else { several_hosts(scenario) }
}

fn one_host(topology: &Topology) -> String {
    let mut svg = open(HEIGHT + 32, "One host with local volumes");
    rectangle(
        &mut svg,
        At { x: LEFT, y: 16 },
        "host",
        &["one host, no network".to_owned(), volumes(topology)],
    );
    close(svg)
}

fn several_hosts(scenario: &Scenario) -> String {
    let topology = &scenario.topology;
    let boxes = if topology.initiators <= MOST_BOXES { topology.initiators.max(1) } else { 1 };
    let height = boxes * STEP - (STEP - HEIGHT);
    let first = 16;
    let middle = first + height / 2;
    let mut svg = open(height + 48, &description(scenario));
    let each = topology.targets.checked_div(topology.initiators).unwrap_or(0);
    for place in 0..boxes {
        let top = first + place * STEP;
        let title = if boxes == topology.initiators.max(1) {
            format!("initiator {}", place + 1)
        } else {
            words::count(topology.initiators as usize, "initiator")
        };
        let reach = if each > 1 { format!("{each} targets each") } else { "1 target each".to_owned() };
        let reach =
            if topology.initiators == 1 { words::count(topology.targets as usize, "target") } else { reach };
        rectangle(&mut svg, At { x: LEFT, y: top }, "host", &[title, format!("logs in to {reach}")]);
        line(&mut svg, At { x: LEFT + WIDTH, y: top + HEIGHT / 2 }, At { x: RIGHT, y: middle });
    }
    let target = format!(
        "{} × {}",
        words::count(topology.targets as usize, "target"),
        words::count(topology.luns as usize, "unit")
    );
    rectangle(&mut svg, At { x: RIGHT, y: middle - HEIGHT / 2 }, "host target", &[target, volumes(topology)]);
    label(&mut svg, middle, &link(topology));
    let cores = match topology.placement {
        Placement::Other => "initiator and target on different cores",
        Placement::Same => "initiator and target on the same core",
    };
    let _ = write!(
        svg,
        "<text class=\"fine\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{cores}</text>",
        WHOLE / 2,
        height + 40
    );
    close(svg)
}

/// Nodes, each of which uses volumes and stores parts of all of them, around a switch.
fn nodes(topology: &Topology) -> String {
    let count = if topology.initiators <= MOST_BOXES { topology.initiators.max(1) } else { 1 };
    let height = count * STEP - (STEP - HEIGHT);
    let (first, middle) = (16, 16 + height / 2);
    let all = words::count(topology.targets as usize, "volume");
    let copies = format!("{} copies", topology.copies);
    let [link, numbers] = link(topology);
    let mut svg = open(
        height + 32,
        &format!(
            "{} with {copies} of {all} over {link}, {numbers}",
            words::count(topology.initiators as usize, "node")
        ),
    );
    let each = topology.targets.checked_div(topology.initiators).unwrap_or(0);
    for place in 0..count {
        let top = first + place * STEP;
        let title = if count == topology.initiators.max(1) {
            format!("node {}", place + 1)
        } else {
            words::count(topology.initiators as usize, "node")
        };
        let holds = format!("uses {}, stores parts of all", words::count(each as usize, "volume"));
        rectangle(&mut svg, At { x: LEFT, y: top }, "host", &[title, holds]);
        line(&mut svg, At { x: LEFT + WIDTH, y: top + HEIGHT / 2 }, At { x: RIGHT, y: middle });
    }
    rectangle(
        &mut svg,
        At { x: RIGHT, y: middle - HEIGHT / 2 },
        "host target",
        &["switch".to_owned(), format!("{all}, {copies} each")],
    );
    label(&mut svg, middle, &[link, numbers]);
    close(svg)
}

/// The volume's URL, without the run's own folder, for which a box has no room.
fn volumes(topology: &Topology) -> String {
    format!("volume {}", topology.volume.replace("{folder}/", ""))
}

/// Two lines: what carries the packets, and its numbers.
fn link(topology: &Topology) -> [String; 2] {
    let link = &topology.link;
    let rate = link.rate.as_deref().unwrap_or("unshaped");
    match link.kind {
        LinkKind::Loopback => ["loopback".to_owned(), "127.0.0.1, MTU 65,536".to_owned()],
        LinkKind::Veth if topology.initiators > 1 => {
            ["veth pairs and a bridge".to_owned(), format!("{rate}, MTU {}", link.mtu)]
        }
        LinkKind::Veth => ["veth pair".to_owned(), format!("{rate}, MTU {}", link.mtu)],
        LinkKind::Physical => ["the site's link".to_owned(), format!("{rate}, MTU {}", link.mtu)],
    }
}

fn description(scenario: &Scenario) -> String {
    let topology = &scenario.topology;
    let [link, numbers] = link(topology);
    format!(
        "{} reach {} over {link}, {numbers}",
        words::count(topology.initiators as usize, "initiator"),
        words::count(topology.targets as usize, "target")
    )
}

fn open(height: u32, description: &str) -> String {
    format!(
        "<svg class=\"topology\" viewBox=\"0 0 {WHOLE} {height}\" role=\"img\" aria-label=\"{}\">",
        escaped(description)
    )
}

fn close(mut svg: String) -> String {
    svg.push_str("</svg>");
    svg
}

/// A place in the drawing.
#[derive(Clone, Copy)]
struct At {
    x: u32,
    y: u32,
}

fn rectangle(svg: &mut String, At { x: left, y: top }: At, class: &str, lines: &[String; 2]) {
    let middle = left + WIDTH / 2;
    let _ = write!(
        svg,
        "<rect class=\"{class}\" x=\"{left}\" y=\"{top}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"8\"/>"
    );
    for (place, text) in (0_u32..).zip(lines) {
        let (class, baseline) = if place == 0 { ("title", top + 27) } else { ("fine", top + 48) };
        let text = escaped(&shortened(text));
        let _ = write!(
            svg,
            "<text class=\"{class}\" x=\"{middle}\" y=\"{baseline}\" text-anchor=\"middle\">{text}</text>"
        );
    }
}

/// What fits into a box.
fn shortened(text: &str) -> String {
    const MOST: usize = 29;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    let start: String = text.chars().take(MOST - 1).collect();
    format!("{start}…")
}

fn line(svg: &mut String, from: At, to: At) {
    let bend = u32::midpoint(from.x, to.x);
    let _ = write!(
        svg,
        "<path class=\"wire\" d=\"M{} {} H{} V{} H{}\"/>",
        from.x,
        from.y,
        LEFT + WIDTH + 24,
        to.y,
        bend
    );
    let _ = write!(svg, "<path class=\"wire\" d=\"M{bend} {} H{}\"/>", to.y, to.x);
}

fn label(svg: &mut String, middle: u32, lines: &[String; 2]) {
    let centre = u32::midpoint(LEFT + WIDTH, RIGHT);
    let [above, below] = lines.each_ref().map(|text| escaped(text));
    let _ = write!(
        svg,
        "<text class=\"title\" x=\"{centre}\" y=\"{}\" text-anchor=\"middle\">{above}</text>",
        middle - 10
    );
    let _ = write!(
        svg,
        "<text class=\"fine\" x=\"{centre}\" y=\"{}\" text-anchor=\"middle\">{below}</text>",
        middle + 20
    );
}
