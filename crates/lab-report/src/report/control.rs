//! The A/A control: one arm against itself, in pairs like any other. What it finds is the smallest difference that this
//! bench can show.

use lab_model::result::point_name;
use lab_model::scenario::Metric;
use lab_model::statistics::control::{Control, control};
use lab_model::statistics::number::real_length;

use super::chart::{Chart, Horizontal, Rule, Series, Shape, Vertical};
use super::plan::{Drawn, number};
use super::run::Run;
use super::table::{Cell, Table};

/// What is compared: the first that the block has.
const METRICS: [Metric; 3] = [Metric::Transactions, Metric::Iops, Metric::Bandwidth];

/// What the control block showed, and in which metric.
pub(crate) fn found(run: &Run) -> Option<(Metric, Control)> {
    METRICS.into_iter().find_map(|metric| Some((metric, control(&run.control, metric)?)))
}

/// Draws the control.
pub(crate) fn draw(run: &Run) -> Drawn {
    let found = found(run);
    let evidence = run.control.first().map_or("", |result| result.evidence.label());
    let mut table = Table::new([
        "point",
        "metric",
        "evidence",
        "difference (%)",
        "95 % from",
        "95 % to",
        "pairs",
        "verdict",
    ]);
    let (mut categories, mut points) = (Vec::new(), Vec::new());
    for verdict in found.iter().flat_map(|(_, control)| &control.points) {
        let percent =
            verdict.ratio.map(|ratio| [ratio.median, ratio.low, ratio.high].map(|one| (one - 1.0) * 100.0));
        if let Some([value, low, high]) = percent {
            points.push([real_length(categories.len()), value, low, high]);
            categories.push(point_name(&verdict.point));
        }
        let numbers = [0, 1, 2].map(|place| percent.and_then(|all| all.get(place).copied()));
        let mut row: Vec<Cell> =
            [point_name(&verdict.point).as_str(), verdict.metric.title(), evidence].map(Cell::text).into();
        row.extend(numbers.map(Cell::number));
        row.extend([Cell::Number(f64::from(verdict.pairs)), Cell::Text(verdict.words())]);
        table.rows.push(row);
    }
    let mut charts: Vec<Chart> =
        if points.len() < 2 { Vec::new() } else { vec![chart(evidence, categories, points)] };
    let id = "lab-control".to_owned();
    number(&id, &mut charts);
    Drawn {
        id,
        title: "A/A control: one arm against itself".to_owned(),
        notes: vec![words(found.as_ref())],
        charts,
        svg: String::new(),
        table,
        comparisons: Vec::new(),
    }
}

/// What the control means for every other figure.
pub(crate) fn words(found: Option<&(Metric, Control)>) -> String {
    match found {
        Some((metric, control)) => format!("{}: {}.", metric.title(), control.words()),
        None => "The A/A control has too few undisturbed pairs: what this bench can tell apart is not known, and no difference of arms is shown.".to_owned(),
    }
}

fn chart(evidence: &str, categories: Vec<String>, points: Vec<[f64; 4]>) -> Chart {
    Chart {
        id: String::new(),
        heading: String::new(),
        shape: Shape::Dots,
        description: "Difference between two runs of one arm at each point, in per cent".to_owned(),
        watermark: evidence.to_owned(),
        x: Horizontal { name: String::new(), categories, log: false },
        y: vec![Vertical {
            name: "first run over second (%)".to_owned(),
            unit: "%".to_owned(),
            better: String::new(),
            zero: true,
            marks: None,
        }],
        rules: vec![Rule { value: 0.0, label: "no difference".to_owned(), axis: 0 }],
        series: vec![Series {
            name: format!("A against A ({evidence})"),
            colour: 0,
            variant: 0,
            axis: 0,
            stack: String::new(),
            labels: Vec::new(),
            points,
        }],
    }
}
