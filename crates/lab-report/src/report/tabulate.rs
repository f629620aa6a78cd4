//! The numbers of a figure as a table: a row for each arm at each point, or, for the tables of a publication, a row for each
//! metric and a column for each arm.

use lab_model::scenario::{FigureKind, Metric};
use lab_model::statistics::number::real_length;

use super::plan::Plan;
use super::series::{Group, values_of};
use super::table::{Cell, Table};
use super::{contributors, units};

/// More arms at points than this do not fit side by side.
const MOST_COLUMNS: usize = 6;

/// Every number of the figure.
pub(crate) fn table(plan: &Plan<'_>) -> Table {
    if let Some(metric) = plan.contributors() {
        return contributors::table(plan, metric);
    }
    let metrics = metrics(plan);
    if plan.figure.kind == FigureKind::Table && (1..=MOST_COLUMNS).contains(&plan.groups.len()) {
        side_by_side(plan, &metrics)
    } else {
        row_by_row(plan, &metrics)
    }
}

fn metrics(plan: &Plan<'_>) -> Vec<Metric> {
    let mut metrics = plan.figure.y.clone();
    if plan.figure.kind == FigureKind::Hockey && !metrics.contains(&plan.load()) {
        metrics.insert(0, plan.load());
    }
    metrics
}

fn row_by_row(plan: &Plan<'_>, metrics: &[Metric]) -> Table {
    let axes: Vec<&String> = plan.x.iter().chain(&plan.series).chain(&plan.panels).collect();
    let mut table = Table::new(axes.iter().map(|axis| axis.as_str()).chain(["arm", "name", "evidence"]));
    for metric in metrics {
        table.column(units::with_unit(*metric, plan.unit(*metric)));
        table.minor_column(format!("{}: 95 % from", metric.title()));
        table.minor_column(format!("{}: 95 % to", metric.title()));
    }
    table.minor_column("repetitions");
    for group in &plan.groups {
        let mut row: Vec<Cell> =
            axes.iter().map(|axis| Cell::text(group.at(axis).unwrap_or_default())).collect();
        row.extend([&*group.arm.key, &*group.arm.name, group.evidence()].map(Cell::text));
        row.extend(metrics.iter().flat_map(|metric| numbers(plan, group, *metric)));
        row.push(Cell::Number(real_length(group.results.len())));
        table.rows.push(row);
    }
    table
}

fn side_by_side(plan: &Plan<'_>, metrics: &[Metric]) -> Table {
    let mut table = Table::new(["measure"]);
    for group in &plan.groups {
        let name = head(plan, group);
        table.column(name.clone());
        table.minor_column(format!("{name}: 95 % from"));
        table.minor_column(format!("{name}: 95 % to"));
    }
    table.rows.push(row(plan, "system", |group| Cell::text(&*group.arm.name)));
    table.rows.push(row(plan, "evidence", |group| Cell::text(group.evidence())));
    for metric in metrics {
        let mut row = vec![Cell::Text(units::with_unit(*metric, plan.unit(*metric)))];
        row.extend(plan.groups.iter().flat_map(|group| numbers(plan, group, *metric)));
        table.rows.push(row);
    }
    table.rows.push(row(plan, "repetitions", |group| Cell::Number(real_length(group.results.len()))));
    table
}

/// `A`, and what tells it from the same arm at another point.
fn head(plan: &Plan<'_>, group: &Group<'_>) -> String {
    let axes: Vec<String> = plan.x.iter().chain(&plan.series).chain(&plan.panels).cloned().collect();
    format!("{} {}", group.arm.key, values_of(group, &axes)).trim().to_owned()
}

/// A row of what has no interval.
fn row(plan: &Plan<'_>, name: &str, cell: impl Fn(&Group<'_>) -> Cell) -> Vec<Cell> {
    let cells = plan.groups.iter().flat_map(|group| [cell(group), Cell::text(""), Cell::text("")]);
    std::iter::once(Cell::text(name)).chain(cells).collect()
}

/// The value and the ends of its interval.
fn numbers(plan: &Plan<'_>, group: &Group<'_>, metric: Metric) -> [Cell; 3] {
    let summary = plan.summary(group, metric);
    [summary.map(|one| one.value), summary.map(|one| one.low), summary.map(|one| one.high)].map(Cell::number)
}
