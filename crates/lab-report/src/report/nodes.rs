//! What each node of a cluster spent and sent: processor seconds per GiB by side, and what crossed the link.
//!
//! Only scenarios whose hosts are nodes (`copies`) have this. A node works for the others' loads too, so its time is set against what all of them read and
//! wrote: the nodes' seconds per GiB add up to the cluster's.

use std::collections::BTreeMap;

use lab_model::effectiveness::seconds_per_gib;
use lab_model::result::{Node, PointResult, point_name};
use lab_model::statistics::number::real;

use super::plan::Drawn;
use super::run::Run;
use super::table::{Cell, Table};

/// Bytes in a mebibyte.
const MIB: f64 = 1_048_576.0;

/// A node's figures at one point for one arm, over its repetitions.
type Windows<'a> = BTreeMap<Place<'a>, Vec<(&'a PointResult, &'a Node)>>;

/// Whose figures they are; in the order of the table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place<'a> {
    point: String,
    arm: &'a str,
    node: usize,
}

/// Draws the nodes; nothing where no host is one.
pub(crate) fn draw(run: &Run) -> Option<Drawn> {
    let windows = windows(&run.points);
    let note = "The mean of the windows. Seconds are per GiB that all nodes together read and wrote: host is the load itself, adapter what makes volumes of \
                all nodes' parts, target what serves the node's parts to all.";
    (!windows.is_empty()).then(|| Drawn {
        id: "lab-nodes".to_owned(),
        title: "Nodes: processor seconds per GiB, and the link".to_owned(),
        notes: vec![note.to_owned()],
        charts: Vec::new(),
        svg: String::new(),
        table: table(&windows),
        comparisons: Vec::new(),
    })
}

fn windows(points: &[PointResult]) -> Windows<'_> {
    let mut windows = Windows::new();
    for result in points.iter().filter(|result| result.valid()) {
        for (number, node) in result.nodes.iter().enumerate() {
            let place = Place { point: point_name(&result.point), arm: &result.arm, node: number + 1 };
            windows.entry(place).or_default().push((result, node));
        }
    }
    windows
}

fn table(windows: &Windows<'_>) -> Table {
    let mut table = Table::new([
        "point",
        "arm",
        "evidence",
        "node",
        "host s/GiB",
        "adapter s/GiB",
        "target s/GiB",
        "all s/GiB",
        "MiB/s sent",
        "MiB/s received",
        "MiB/s kept",
    ]);
    table.rows = windows.iter().map(|(place, results)| row(place, results)).collect();
    table
}

fn row(place: &Place<'_>, results: &[(&PointResult, &Node)]) -> Vec<Cell> {
    let mean = |figure: &dyn Fn(&PointResult, &Node) -> Option<f64>| {
        let (sum, count) = results
            .iter()
            .filter_map(|(result, node)| figure(result, node))
            .fold((0.0, 0.0), |(sum, count), figure| (sum + figure, count + 1.0));
        Cell::number(Some(sum / count))
    };
    let spent = |of: fn(&Node) -> f64| {
        mean(&|result, node| {
            let bytes = result.directions().map(|direction| direction.bytes).sum();
            seconds_per_gib(of(node), real(bytes))
        })
    };
    let moved = |of: fn(&Node) -> u64| {
        mean(&|result, node| (result.seconds > 0.0).then(|| real(of(node)) / MIB / result.seconds))
    };
    let evidence = results.first().map_or("", |(result, _)| result.evidence.label());
    let number = place.node.to_string();
    let text = [place.point.as_str(), place.arm, evidence, number.as_str()].map(Cell::text);
    let figures = [
        spent(|node| node.host.seconds()),
        spent(|node| node.adapter.seconds()),
        spent(|node| node.target.seconds()),
        spent(Node::seconds),
        moved(|node| node.network.sent),
        moved(|node| node.network.received),
        moved(|node| node.network.kept),
    ];
    text.into_iter().chain(figures).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_model::result::{CpuShare, Network};
    use lab_model::statistics::synthetic::result;

    #[test]
    fn a_node_s_seconds_are_per_gib_of_all() {
        let of = |repetition, user| {
            let mut made = result("A", repetition, 1000.0);
            made.seconds = 2.0;
            for direction in made.load.read.iter_mut().chain(&mut made.load.write) {
                direction.bytes = 0;
            }
            made.load.read.get_or_insert_default().bytes = 1 << 30;
            let host = CpuShare { user, system: 0.0 };
            let network = Network { sent: 4 << 20, ..Network::default() };
            made.nodes = vec![Node::default(), Node { host, target: host, network, ..Node::default() }];
            made
        };
        let results = [of(1, 1.0), of(2, 3.0)];
        let windows = windows(&results);
        assert_eq!(windows.len(), 2);
        let row = row(windows.keys().last().unwrap(), windows.values().last().unwrap());
        assert_eq!(row[1..3], [Cell::text("A"), Cell::text("real")]);
        assert_eq!(row[3], Cell::text("2"));
        let figures = [2.0, 0.0, 2.0, 4.0, 2.0, 0.0, 0.0].map(Cell::Number);
        assert_eq!(row[4..], figures);
    }
}
