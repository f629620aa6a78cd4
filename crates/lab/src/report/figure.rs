//! A scenario's figures of metrics: bars, lines, two axes, stacks, latency against load, and plain tables.
//!
//! One table holds the figure's numbers. Charts are drawn from the same summaries; where a figure would have more series than a
//! reader can tell apart, it becomes several charts of one kind and one table.

use crate::scenario::{Figure, FigureKind, Metric};

use super::chart::{Chart, Horizontal, Rule, Series, Shape, Vertical};
use super::compare::Comparison;
use super::contributors;
use super::link;
use super::series::{Group, Measured, values_of};
use super::table::Table;
use super::tabulate;
use super::units::{self, Unit};
use super::values::{Summary, summary};
use super::words;

/// More series than this in one chart cannot be told apart.
pub(crate) const MOST_SERIES: usize = 8;
/// More charts than this in one figure nobody reads; the table has the rest.
pub(crate) const MOST_CHARTS: usize = 12;

/// A figure ready for the page.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Drawn {
    /// Unique on the page, and the CSV file's name.
    pub(crate) id: String,
    /// Heading.
    pub(crate) title: String,
    /// Said under the heading.
    pub(crate) notes: Vec<String>,
    /// What the script draws.
    pub(crate) charts: Vec<Chart>,
    /// What is drawn already.
    pub(crate) svg: String,
    /// Its numbers.
    pub(crate) table: Table,
    /// Comparisons of the arms, a line for each point.
    pub(crate) comparisons: Vec<Comparison>,
}

/// A figure in the making.
pub(crate) struct Plan<'a> {
    pub(crate) measured: &'a Measured<'a>,
    pub(crate) figure: &'a Figure,
    pub(crate) groups: Vec<&'a Group<'a>>,
    /// The axis along x, if one varies.
    pub(crate) x: Option<String>,
    /// Axes that make a chart each.
    pub(crate) panels: Vec<String>,
    /// Axes that make a series each.
    pub(crate) series: Vec<String>,
}

impl<'a> Plan<'a> {
    /// Decides what goes where.
    pub(crate) fn new(measured: &'a Measured<'a>, figure: &'a Figure) -> Self {
        let groups = measured.of(figure);
        let mut series = measured.series_axes(figure, &groups);
        let mut x = figure.x.clone();
        if x.is_none() && !series.is_empty() {
            let unnamed = series.iter().position(|axis| !figure.series.contains(axis));
            x = Some(series.remove(unnamed.unwrap_or(series.len() - 1)));
        }
        let mut plan = Self { measured, figure, groups, x, panels: Vec::new(), series };
        while plan.series_count() > MOST_SERIES {
            let Some(axis) = plan.series.pop() else { break };
            plan.panels.insert(0, axis);
        }
        plan
    }

    fn series_count(&self) -> usize {
        let mut keys: Vec<(usize, String)> =
            self.groups.iter().map(|group| (group.index, values_of(group, &self.series))).collect();
        keys.sort();
        keys.dedup();
        keys.len() * if self.figure.kind == FigureKind::DualAxis { 2 } else { 1 }
    }

    /// The groups of each chart, with its heading.
    pub(crate) fn split(&self) -> Vec<(String, Vec<&'a Group<'a>>)> {
        split(&self.groups, |group| values_of(group, &self.panels))
    }

    pub(crate) fn unit(&self, metric: Metric) -> Unit {
        Unit::new(metric, self.measured.scenario)
    }

    pub(crate) fn summary(&self, group: &Group<'_>, metric: Metric) -> Option<Summary> {
        let unit = self.unit(metric);
        summary(self.measured, group, metric).map(|summary| summary.map(|value| unit.of(value)))
    }

    fn vertical(&self, metric: Metric) -> Vertical {
        let unit = self.unit(metric);
        Vertical {
            name: units::with_unit(metric, unit),
            unit: unit.name.to_owned(),
            better: units::better(metric).to_owned(),
            zero: true,
        }
    }

    pub(crate) fn legend(&self, group: &Group<'_>) -> String {
        legend(group, &values_of(group, &self.series))
    }
}

/// `A linerate initiator · randread (scaled)`.
pub(crate) fn legend(group: &Group<'_>, values: &str) -> String {
    let arm = words::arm(&group.arm.key, &group.arm.name);
    let values = if values.is_empty() { String::new() } else { format!(" · {values}") };
    format!("{arm}{values} ({})", group.evidence())
}

/// Groups with one key each, in order of first appearance.
pub(crate) fn split<'a>(
    groups: &[&'a Group<'a>],
    key: impl Fn(&Group<'_>) -> String,
) -> Vec<(String, Vec<&'a Group<'a>>)> {
    let mut parts: Vec<(String, Vec<&Group<'_>>)> = Vec::new();
    for group in groups {
        let own = key(group);
        match parts.iter_mut().find(|(known, _)| *known == own) {
            Some((_, members)) => members.push(group),
            None => parts.push((own, vec![group])),
        }
    }
    parts
}

/// Draws a figure of metrics.
pub(crate) fn draw(measured: &Measured<'_>, figure: &Figure) -> Drawn {
    let plan = Plan::new(measured, figure);
    let mut charts = Vec::new();
    if figure.kind != FigureKind::Table {
        for (heading, groups) in plan.split() {
            charts.extend(plan.charts(&heading, &groups));
        }
    }
    let mut notes = notes(figure);
    notes.extend(plan.contributors().map(|_| contributors::note(&plan)));
    shorten(&mut charts, &mut notes);
    let id = figure.id.clone();
    number(&id, &mut charts);
    Drawn {
        id,
        title: figure.title.clone(),
        notes,
        charts,
        svg: String::new(),
        table: tabulate::table(&plan),
        comparisons: Vec::new(),
    }
}

/// What is said of a figure as such.
pub(crate) fn notes(figure: &Figure) -> Vec<String> {
    let lost = figure
        .title_lost
        .then(|| "The publication's own title did not survive; this one is ours.".to_owned());
    lost.into_iter().collect()
}

/// Leaves out what is too much, and says so.
pub(crate) fn shorten(charts: &mut Vec<Chart>, notes: &mut Vec<String>) {
    for chart in charts.iter_mut() {
        chart.series.retain(|series| !series.points.is_empty());
    }
    charts.retain(|chart| !chart.series.is_empty());
    if charts.len() > MOST_CHARTS {
        notes.push(format!("{} charts of {} are drawn; the table has them all.", MOST_CHARTS, charts.len()));
        charts.truncate(MOST_CHARTS);
    }
}

/// Finishes the charts of a figure, each with an identifier of its own.
pub(crate) fn number(id: &str, charts: &mut [Chart]) {
    for (place, chart) in charts.iter_mut().enumerate() {
        chart.finish(format!("{id}-{place}"));
    }
}

impl Plan<'_> {
    fn charts(&self, heading: &str, groups: &[&Group<'_>]) -> Vec<Chart> {
        let figure = self.figure;
        match figure.kind {
            FigureKind::DualAxis => {
                figure.y.chunks(2).map(|metrics| self.categorical(heading, groups, metrics)).collect()
            }
            FigureKind::Stacked => vec![match self.contributors() {
                Some(metric) => {
                    contributors::chart(self, self.empty(heading, groups, &[metric]), metric, groups)
                }
                None => self.stacked(heading, groups),
            }],
            FigureKind::Hockey => {
                figure.y.iter().map(|metric| self.hockey(heading, groups, *metric)).collect()
            }
            _ => figure.y.iter().map(|metric| self.categorical(heading, groups, &[*metric])).collect(),
        }
    }

    fn empty(&self, heading: &str, groups: &[&Group<'_>], metrics: &[Metric]) -> Chart {
        let what: Vec<&str> = metrics.iter().map(|metric| metric.title()).collect();
        let several = self.figure.y.len() > 1 && self.figure.kind != FigureKind::Stacked;
        let heading = match (heading.is_empty(), several) {
            (true, false) => String::new(),
            (true, true) => what.join(" and "),
            (false, false) => heading.to_owned(),
            (false, true) => format!("{heading}: {}", what.join(" and ")),
        };
        let arms: Vec<String> = arms(groups);
        Chart {
            id: String::new(),
            heading,
            shape: match self.figure.kind {
                FigureKind::Bars => Shape::Bars,
                FigureKind::Stacked => Shape::Stacked,
                FigureKind::DualAxis => Shape::Dual,
                FigureKind::Hockey => Shape::Path,
                _ => Shape::Lines,
            },
            description: format!("{}: {} of {}", self.figure.title, what.join(" and "), arms.join(", ")),
            watermark: watermark(groups),
            x: Horizontal {
                name: self.x.as_deref().map_or("", units::axis).to_owned(),
                categories: self.categories(groups),
                log: false,
            },
            y: metrics.iter().map(|metric| self.vertical(*metric)).collect(),
            rules: Vec::new(),
            series: Vec::new(),
        }
    }

    fn categories(&self, groups: &[&Group<'_>]) -> Vec<String> {
        let values =
            self.x.as_ref().map(|axis| self.measured.values_in_order(groups, axis)).unwrap_or_default();
        if values.is_empty() { vec!["all".to_owned()] } else { values }
    }

    fn place(&self, categories: &[String], group: &Group<'_>) -> f64 {
        let value = self.x.as_ref().and_then(|axis| group.at(axis)).unwrap_or("all");
        real(categories.iter().position(|one| one == value).unwrap_or(0))
    }

    /// Bars or lines over the values of the axis along x.
    fn categorical(&self, heading: &str, groups: &[&Group<'_>], metrics: &[Metric]) -> Chart {
        let mut chart = self.empty(heading, groups, metrics);
        for (axis, metric) in metrics.iter().enumerate() {
            for (variant, groups) in self.lines(groups) {
                let Some(first) = groups.first() else { continue };
                let points = groups.iter().filter_map(|group| {
                    let summary = self.summary(group, *metric)?;
                    Some([self.place(&chart.x.categories, group), summary.value, summary.low, summary.high])
                });
                let points: Vec<[f64; 4]> = points.collect();
                let what =
                    if metrics.len() > 1 { format!(", {}", self.unit(*metric).name) } else { String::new() };
                let name = format!("{}{what}", self.legend(first));
                chart.series.push(Series {
                    name,
                    colour: first.index,
                    variant,
                    axis,
                    stack: String::new(),
                    labels: Vec::new(),
                    points,
                });
            }
            chart.rules.extend(self.rules(groups, *metric, axis));
        }
        chart
    }

    /// The groups of each series, with its place among those of its arm.
    fn lines<'g>(&self, groups: &[&'g Group<'g>]) -> Vec<(usize, Vec<&'g Group<'g>>)> {
        let variants: Vec<String> =
            split(groups, |group| values_of(group, &self.series)).into_iter().map(|(key, _)| key).collect();
        let mut lines: Vec<(usize, usize, Vec<&Group<'_>>)> = Vec::new();
        for group in groups {
            let own = values_of(group, &self.series);
            let variant = variants.iter().position(|key| *key == own).unwrap_or(0);
            match lines.iter_mut().find(|line| (line.0, line.1) == (group.index, variant)) {
                Some(line) => line.2.push(group),
                None => lines.push((group.index, variant, vec![group])),
            }
        }
        lines.sort_by_key(|line| (line.0, line.1));
        lines.into_iter().map(|(_, variant, groups)| (variant, groups)).collect()
    }

    /// The metric of a stack that has one only: its parts are differences of arms.
    pub(crate) fn contributors(&self) -> Option<Metric> {
        let alone = self.figure.kind == FigureKind::Stacked && self.figure.y.len() == 1;
        self.figure.y.first().copied().filter(|_| alone)
    }

    /// The payload rates of the links, each once.
    fn rules(&self, groups: &[&Group<'_>], metric: Metric, axis: usize) -> Vec<Rule> {
        if !self.figure.line_rate {
            return Vec::new();
        }
        if metric == Metric::LineRate {
            return vec![Rule { value: 100.0, label: "line rate".to_owned(), axis }];
        }
        let unit = self.unit(metric);
        let mut rates: Vec<f64> =
            groups.iter().filter_map(|group| link::payload_rate(self.measured.scenario, group)).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        let rates = rates.into_iter().filter(|_| metric == Metric::Bandwidth).map(|rate| unit.of(rate));
        let label = |rate: f64| format!("line rate {} {}", super::table::rounded(rate), unit.name);
        rates.map(|rate| Rule { value: rate, label: label(rate), axis }).collect()
    }

    /// A bar for each arm and value along x, of the metrics upon each other.
    fn stacked(&self, heading: &str, groups: &[&Group<'_>]) -> Chart {
        let mut chart = self.empty(heading, groups, self.figure.y.get(..1).unwrap_or_default());
        let unit = self.figure.y.first().map_or("", |metric| self.unit(*metric).name);
        for axis in &mut chart.y {
            unit.clone_into(&mut axis.name);
        }
        let name = |group: &Group<'_>| {
            let x =
                self.x.as_ref().and_then(|axis| group.at(axis).map(|value| words::coordinate(axis, value)));
            let parts = [x.unwrap_or_default(), values_of(group, &self.series), group.arm.key.clone()];
            parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
        };
        chart.x.categories = groups.iter().map(|group| name(group)).collect();
        for (part, metric) in self.figure.y.iter().enumerate() {
            let points = groups.iter().enumerate().filter_map(|(place, group)| {
                let summary = self.summary(group, *metric)?;
                Some([real(place), summary.value, summary.low, summary.high])
            });
            let name = format!("{} ({})", metric.title(), evidence(groups).join(", "));
            let series = Series {
                name,
                colour: part,
                variant: 0,
                axis: 0,
                stack: "parts".to_owned(),
                labels: Vec::new(),
                points: points.collect(),
            };
            chart.series.push(series);
        }
        chart
    }

    /// Latency against the load that was reached, from point to point of the axis along x.
    fn hockey(&self, heading: &str, groups: &[&Group<'_>], metric: Metric) -> Chart {
        let mut chart = self.empty(heading, groups, &[metric]);
        let load = self.load();
        chart.x =
            Horizontal { name: units::with_unit(load, self.unit(load)), categories: Vec::new(), log: false };
        for (variant, groups) in self.lines(groups) {
            let Some(first) = groups.first() else { continue };
            let points = groups.iter().filter_map(|group| {
                let (load, latency) = (self.summary(group, load)?, self.summary(group, metric)?);
                Some([load.value, latency.value, latency.low, latency.high])
            });
            let (name, points) = (self.legend(first), points.collect());
            let label = |group: &&Group<'_>| {
                let axis = self.x.as_ref()?;
                Some(words::coordinate(axis, group.at(axis)?))
            };
            chart.series.push(Series {
                name,
                colour: first.index,
                variant,
                axis: 0,
                stack: String::new(),
                labels: groups.iter().filter_map(label).collect(),
                points,
            });
        }
        chart
    }

    /// What counts as load: transactions where there are some.
    pub(crate) fn load(&self) -> Metric {
        let has = |group: &&&Group<'_>| summary(self.measured, group, Metric::Iops).is_some();
        if self.groups.iter().any(|group| has(&group)) { Metric::Iops } else { Metric::Transactions }
    }
}

/// The labels of the evidence in some groups, each once.
pub(crate) fn evidence(groups: &[&Group<'_>]) -> Vec<&'static str> {
    let mut labels: Vec<&str> = groups.iter().map(|group| group.evidence()).collect();
    labels.sort_unstable();
    labels.dedup();
    labels
}

/// What stands behind the data of a chart.
pub(crate) fn watermark(groups: &[&Group<'_>]) -> String {
    evidence(groups).join(" · ")
}

/// The arms in some groups, each once.
pub(crate) fn arms(groups: &[&Group<'_>]) -> Vec<String> {
    split(groups, |group| words::arm(&group.arm.key, &group.arm.name))
        .into_iter()
        .map(|(name, _)| name)
        .collect()
}

/// A count as a number to draw with.
pub(crate) fn real(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}
