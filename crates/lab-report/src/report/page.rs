//! The page: what the template shows, put together from a run.

use std::fmt::Write;

use anyhow::{Context, Result};
use askama::Template;

use lab_model::evidence::Evidence;
use lab_model::precondition::Preconditioned;
use lab_model::result::point_name;
use lab_model::scenario::calibration::Calibrated;
use lab_model::scenario::{Metric, Published, PublishedStatus, Scenario, Source};

use super::chart::{Chart, Series, Shape, Vertical};
use super::claim::{self, Judged};
use super::compare::Comparison;
use super::environment::{self, Fact};
use super::plan::Drawn;
use super::run::Run;
use super::series::Measured;
use super::table::{Cell, Table, grouped};
use super::{control, extras, kinds, load, svg, topology, words};

/// The charts library, bundled by `crates/lab-report/echarts`.
const LIBRARY: &str = include_str!("assets/echarts.js");
/// Draws the charts from the page's data.
const SCRIPT: &str = include_str!("assets/report.js");
/// Both colour schemes.
const STYLE: &str = include_str!("assets/report.css");
/// More rows than this are read in a spreadsheet, not on a page.
const MOST_ROWS: usize = 250;

/// Everything the template needs.
#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    scenario: &'a Scenario,
    labels: Vec<Label>,
    load: Vec<Fact>,
    absent: Vec<String>,
    facts: Vec<Fact>,
    claims: Vec<Judged>,
    counted: String,
    missing: Vec<String>,
    control: String,
    arms: Vec<ArmRow>,
    topology: String,
    environment: Vec<Fact>,
    sections: Vec<Section>,
    published: Vec<PublishedPanel>,
    concerns: Vec<Concern>,
    data: String,
    library: &'static str,
    script: &'static str,
    style: &'static str,
}

/// A label of evidence with what it stands for.
struct Label {
    word: &'static str,
    detail: String,
    arms: String,
}

/// What an arm is.
struct ArmRow {
    key: String,
    name: String,
    initiator: String,
    target: String,
    stands_for: String,
    evidence: &'static str,
    with: String,
}

/// Figures under one heading.
struct Section {
    id: &'static str,
    title: &'static str,
    introduction: &'static str,
    figures: Vec<FigureView>,
}

/// A figure as the template shows it.
struct FigureView {
    id: String,
    title: String,
    notes: Vec<String>,
    comparisons: Vec<Comparison>,
    charts: Vec<ChartView>,
    svg: String,
    table: TableView,
}

/// Where a chart is drawn, and its legend.
struct ChartView {
    id: String,
    heading: String,
    description: String,
    wide: bool,
    x: String,
    axes: Vec<String>,
    legend: Vec<Entry>,
}

/// A line of a legend.
struct Entry {
    name: String,
    key: String,
}

/// A table as rows of text, and as a file.
struct TableView {
    columns: Vec<(String, &'static str)>,
    rows: Vec<Vec<(String, &'static str)>>,
    total: usize,
    count: String,
    file: String,
    url: String,
}

/// Published numbers, which were not measured here.
struct PublishedPanel {
    title: String,
    status: &'static str,
    explanation: &'static str,
    unit: String,
    note: String,
    table: TableView,
}

/// What a reader must know before trusting a number.
struct Concern {
    title: &'static str,
    lines: Vec<String>,
}

/// The whole file.
pub(crate) fn render(run: &Run) -> Result<String> {
    let measured = Measured::new(&run.scenario, &run.points, &run.control).priced(&run.info.site.prices);
    let published = drawn(&measured);
    let ours = extras::draw(run, &measured);
    let charts: Vec<&Chart> = published.iter().chain(&ours).flat_map(|one| &one.charts).collect();
    let data = serde_json::to_string(&charts).context("cannot write the charts' data")?;
    let claims = claim::judged(run, &measured);
    let page = Page {
        scenario: &run.scenario,
        labels: labels(run),
        load: load::facts(run),
        absent: load::absent(run),
        facts: load::disturbed(run).into_iter().chain(environment::facts(run, &measured)).collect(),
        counted: claim::counted(&claims),
        missing: claim::missing(&claims),
        claims,
        control: control::words(control::found(run).as_ref()),
        arms: run.scenario.arms.iter().map(arm_row).collect(),
        topology: topology::draw(&run.scenario),
        environment: environment::flat(&run.info.environment),
        sections: sections(&run.scenario.source, &published, &ours),
        published: run.scenario.published.iter().map(published_panel).collect(),
        concerns: concerns(run, &measured),
        data: for_script(&data),
        library: LIBRARY,
        script: SCRIPT,
        style: STYLE,
    };
    page.render().context("cannot fill in the report's template")
}

/// Every figure of the scenario.
fn drawn(measured: &Measured<'_>) -> Vec<Drawn> {
    measured.scenario.figures.iter().map(|figure| kinds::draw(measured, figure)).collect()
}

fn sections(source: &Source, published: &[Drawn], ours: &[Drawn]) -> Vec<Section> {
    let [figures, beside] = if source.is_own() {
        ["Figures of the experiment", "Figures of every run"]
    } else {
        ["Figures of the publication, measured here", "What the publication does not show"]
    };
    vec![
        Section {
            id: "figures",
            title: figures,
            introduction: "Whiskers and bands are intervals over the repetitions. Bars begin at zero.",
            figures: published.iter().map(figure_view).collect(),
        },
        Section {
            id: "ours",
            title: beside,
            introduction: "Drawn for every run: latency against load, whether the load was steady, what this bench can \
                           tell apart at all, and which resource was exhausted.",
            figures: ours.iter().map(figure_view).collect(),
        },
    ]
}

fn figure_view(drawn: &Drawn) -> FigureView {
    FigureView {
        id: drawn.id.clone(),
        title: drawn.title.clone(),
        notes: drawn.notes.clone(),
        comparisons: drawn.comparisons.clone(),
        charts: drawn.charts.iter().map(chart_view).collect(),
        svg: drawn.svg.clone(),
        table: table_view(&drawn.table, &drawn.id),
    }
}

fn chart_view(chart: &Chart) -> ChartView {
    let key = |series: &Series| match chart.shape {
        Shape::Bars | Shape::Stacked => svg::bar_key(series.colour, series.variant),
        Shape::Dual if series.axis == 0 => svg::bar_key(series.colour, series.variant),
        _ => svg::line_key(series.colour, series.variant),
    };
    let axis = |axis: &Vertical| match axis.better.as_str() {
        "" => axis.name.clone(),
        better => format!("{}, {better}", axis.name),
    };
    ChartView {
        id: chart.id.clone(),
        heading: chart.heading.clone(),
        description: chart.description.clone(),
        wide: chart.x.categories.len() > 8,
        x: chart.x.name.clone(),
        axes: chart.y.iter().map(axis).collect(),
        legend: chart
            .series
            .iter()
            .map(|series| Entry { name: series.name.clone(), key: key(series) })
            .collect(),
    }
}

fn table_view(table: &Table, id: &str) -> TableView {
    let class = |number: bool, minor: bool| match (number, minor) {
        (true, true) => "number minor",
        (true, false) => "number",
        _ => "",
    };
    let numeric = |place: usize| table.rows.iter().any(|row| row.get(place).is_some_and(Cell::is_number));
    let minor = |place: usize| table.columns.get(place).is_some_and(|column| column.minor);
    let columns = table.columns.iter().enumerate();
    let row = |row: &Vec<Cell>| {
        let cells = row.iter().enumerate();
        cells.map(|(place, cell)| (cell.shown(), class(cell.is_number(), minor(place)))).collect()
    };
    TableView {
        columns: columns
            .map(|(place, column)| (column.name.clone(), class(numeric(place), column.minor)))
            .collect(),
        rows: table.rows.iter().take(MOST_ROWS).map(row).collect(),
        total: table.rows.len(),
        count: grouped(&table.rows.len().to_string()),
        file: format!("{id}.csv"),
        url: data_url(&table.csv()),
    }
}

/// A CSV file as an address that needs no network (RFC 2397); everything but unreserved letters is escaped (RFC 3986 §2.3).
fn data_url(csv: &str) -> String {
    let mut url = "data:text/csv;charset=utf-8,".to_owned();
    for byte in csv.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            let _ = write!(url, "%{byte:02X}");
        }
    }
    url
}

/// JSON that may stand inside a script element: nothing in it closes the element or opens a comment.
fn for_script(json: &str) -> String {
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// Every kind of evidence in the run with the arms that have it, as the results say; as the scenario says where none came.
fn labels(run: &Run) -> Vec<Label> {
    let mut labels: Vec<Label> = Vec::new();
    for arm in &run.scenario.arms {
        let mut own: Vec<&Evidence> = Vec::new();
        for result in run.points.iter().filter(|result| result.arm == arm.key) {
            if !own.contains(&&result.evidence) {
                own.push(&result.evidence);
            }
        }
        if own.is_empty() {
            own.push(&arm.evidence);
        }
        for evidence in own {
            label(&mut labels, evidence, &arm.key);
        }
    }
    labels
}

fn label(labels: &mut Vec<Label>, evidence: &Evidence, arm: &str) {
    let (word, detail) = (evidence.label(), evidence.detail().unwrap_or_default());
    match labels.iter_mut().find(|label| label.word == word && label.detail == detail) {
        Some(label) => label.arms = format!("{}, {arm}", label.arms),
        None => labels.push(Label { word, detail: detail.to_owned(), arms: arm.to_owned() }),
    }
}

fn arm_row(arm: &lab_model::scenario::Arm) -> ArmRow {
    let with: Vec<String> = arm.with.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    ArmRow {
        key: arm.key.clone(),
        name: arm.name.clone(),
        initiator: words::initiator(arm.initiator).to_owned(),
        target: words::target(arm.target).to_owned(),
        stands_for: arm.stands_for.clone().unwrap_or_default(),
        evidence: arm.evidence.label(),
        with: with.join(", "),
    }
}

fn published_panel(published: &Published) -> PublishedPanel {
    let (status, explanation) = match published.status {
        PublishedStatus::Published => ("published", "as the publication states them"),
        PublishedStatus::Derived => ("derived", "computed from the publication's numbers"),
        PublishedStatus::Inferred => ("inferred", "a reading of the publication, not its words"),
        PublishedStatus::Lost => ("lost", "the publication had them; the values are not known"),
    };
    let mut table = Table::new(std::iter::once("").chain(published.columns.iter().map(String::as_str)));
    for row in &published.rows {
        let cells = std::iter::once(&row.label).chain(&row.values);
        table.rows.push(cells.map(Cell::text).collect());
    }
    let file = format!("published-{}", words::slug(&published.title));
    PublishedPanel {
        title: published.title.clone(),
        status,
        explanation,
        unit: published.unit.clone().unwrap_or_default(),
        note: published.note.clone().unwrap_or_default(),
        table: table_view(&table, &file),
    }
}

fn concerns(run: &Run, measured: &Measured<'_>) -> Vec<Concern> {
    let scenario = &run.scenario;
    let scaled = scenario.scales.iter().map(|scale| {
        format!("{}: {} there, {} here. {}", scale.what, scale.published, scale.here, scale.effect)
    });
    let excluded: Vec<String> = measured.excluded.iter().map(ToString::to_string).collect();
    let source = &scenario.source;
    let all = [
        ("What vouches for the evidence", vec![evidence(run)]),
        ("What is smaller here", scaled.collect()),
        ("What the arms do at most, of which rates in per cent are shares", calibrated(run)),
        ("How drives were made ready", preconditioned(run)),
        (if source.is_own() { "Traps" } else { "Traps of the publication" }, scenario.traps.clone()),
        ("What went wrong on the way", run.info.warnings.clone()),
        ("Results that count for nothing here", excluded),
        ("Results with a flag", environment::flagged(run)),
        ("Results that were changed since, or could not be read", run.unreadable.clone()),
        ("Points that the time budget left out", run.info.budget_dropped.clone()),
        ("What is missing to run the rest", scenario.missing.clone()),
        ("What the publication does not say, or what did not survive", source.lost.clone()),
        ("What is read into it here", source.inferred.clone()),
        ("The publication's machines and settings", source.environment.clone()),
    ];
    let all = all.into_iter().map(|(title, lines)| Concern { title, lines });
    all.filter(|concern| !concern.lines.is_empty()).collect()
}

/// Whether the run's files are those that were measured.
fn evidence(run: &Run) -> String {
    let again = match (run.recounted, run.points.len() + run.control.len()) {
        (0, _) => String::new(),
        (again, all) => format!("; {again} of {all} results were counted again from the tools' raw output"),
    };
    format!("{}{again}", sealed(run))
}

fn sealed(run: &Run) -> String {
    match &run.sealed.digest {
        Some(digest) if run.sealed.broken.is_empty() => {
            format!(
                "all {} files are as the run sealed them; digest of the seals: {digest}",
                run.sealed.intact
            )
        }
        Some(digest) => format!(
            "{} files are as the run sealed them, others are not and do not count; digest of the seals: {digest}",
            run.sealed.intact
        ),
        None => {
            "this run has no seals: nothing shows whether its files are those that were measured".to_owned()
        }
    }
}

/// The preconditioning, an arm and a point each.
fn preconditioned(run: &Run) -> Vec<String> {
    let words = |one: &Preconditioned| {
        let end = one.unsteady.as_deref().unwrap_or("the last five were steady (SNIA PTS)");
        format!(
            "arm {} at {}: purged ({}), twice the capacity written in order, then {} rounds of the point's own load; {end}",
            one.arm,
            point_name(&one.point),
            one.purged,
            one.rounds.len()
        )
    };
    run.info.preconditioned.iter().map(words).collect()
}

/// The calibration, an arm and a place each.
fn calibrated(run: &Run) -> Vec<String> {
    let words = |one: &Calibrated| {
        let runs: Vec<String> = one.runs.iter().map(|iops| Metric::Iops.format(*iops)).collect();
        let place =
            if one.point.is_empty() { String::new() } else { format!(" at {}", point_name(&one.point)) };
        format!("arm {}{place}: {} (median of {})", one.arm, Metric::Iops.format(one.iops), runs.join(", "))
    };
    run.info.calibrated.iter().map(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_cannot_leave_its_script_element() {
        let text = for_script("[\"</script><!-- \u{2028}\"]");
        assert!(!text.contains('<') && !text.contains('\u{2028}'));
        let back: Vec<String> = serde_json::from_str(&text).unwrap();
        assert_eq!(back, ["</script><!-- \u{2028}"]);
    }

    #[test]
    fn a_data_url_has_only_what_an_address_may_hold() {
        assert_eq!(data_url("a,\"µ\"\r\n"), "data:text/csv;charset=utf-8,a%2C%22%C2%B5%22%0D%0A");
    }
}
