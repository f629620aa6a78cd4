//! What goes where in a figure, and what all kinds of figures share: headings, legends, the labels of the evidence.

use lab_model::scenario::{Figure, FigureKind, Metric};

use super::chart::{Chart, Series, Shape, Vertical};
use super::compare::Comparison;
use super::series::{Group, Measured, values_of};
use super::summary::Summary;
use super::svg::COLOURS;
use super::table::Table;
use super::units::{self, Unit};
use super::values::summary;
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

    pub(crate) fn vertical(&self, metric: Metric) -> Vertical {
        let unit = self.unit(metric);
        Vertical {
            name: units::with_unit(metric, unit),
            unit: unit.name.to_owned(),
            better: units::better(metric).to_owned(),
            zero: true,
            marks: None,
        }
    }

    /// The metric of a stack that has one only: its parts are differences of arms.
    pub(crate) fn contributors(&self) -> Option<Metric> {
        let alone = self.figure.kind == FigureKind::Stacked && self.figure.y.len() == 1;
        self.figure.y.first().copied().filter(|_| alone)
    }

    /// What counts as load: transactions where there are some.
    pub(crate) fn load(&self) -> Metric {
        let has = |group: &&&Group<'_>| summary(self.measured, group, Metric::Iops).is_some();
        if self.groups.iter().any(|group| has(&group)) { Metric::Iops } else { Metric::Transactions }
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
    let before = charts.len();
    charts.retain(is_chart);
    if charts.len() < before {
        notes.push("A single number is no chart: it stands in the table.".to_owned());
    }
    *charts = charts.drain(..).flat_map(legible).collect();
    for chart in charts.iter_mut().filter(|chart| chart.shape == Shape::Lines) {
        if chart.x.categories.len() == 1 {
            chart.shape = Shape::Bars;
        }
    }
    if charts.len() > MOST_CHARTS {
        notes.push(format!("{} charts of {} are drawn; the table has them all.", MOST_CHARTS, charts.len()));
        charts.truncate(MOST_CHARTS);
    }
}

/// Whether there is more to see than numbers: a line takes two points of one series, other drawings two numbers in all.
fn is_chart(chart: &Chart) -> bool {
    let mut points = chart.series.iter().map(|series| series.points.len());
    match chart.shape {
        Shape::Trace | Shape::Steps | Shape::Path => points.any(|count| count > 1),
        _ => points.sum::<usize>() > 1,
    }
}

/// Several charts in place of one with more entries in its legend than can be told apart; what belongs to one arm stays together.
/// The parts
/// are of about one size and have one scale. Those of a stack mean something only upon each other.
fn legible(chart: Chart) -> Vec<Chart> {
    if chart.series.len() <= MOST_SERIES || chart.shape == Shape::Stacked {
        return vec![chart];
    }
    let mut lines: Vec<Vec<Series>> = Vec::new();
    for series in &chart.series {
        let own = (series.colour, series.variant);
        match lines.iter_mut().find(|line| line.iter().any(|one| (one.colour, one.variant) == own)) {
            Some(line) => line.push(series.clone()),
            None => lines.push(vec![series.clone()]),
        }
    }
    let widest = lines.iter().map(Vec::len).max().unwrap_or(1);
    let each = (MOST_SERIES / widest).max(1);
    let of = lines.len().div_ceil(each);
    let each = lines.len().div_ceil(of);
    let mut whole = chart;
    for (place, axis) in whole.y.iter_mut().enumerate() {
        let own = whole.series.iter().filter(|series| series.axis == place);
        let ends = own.flat_map(|series| &series.points).map(|[_, value, _, high]| value.max(*high));
        axis.end_behind(ends.fold(0.0, f64::max));
    }
    let parts = lines.chunks(each).zip(1..).map(|(lines, number)| Chart {
        heading: format!("{} ({number} of {of})", whole.heading).trim_start().to_owned(),
        series: lines.concat(),
        ..whole.clone()
    });
    parts.collect()
}

/// Arms keep their colours from chart to chart, of which there are fewer than a scenario may have arms: where two arms of a chart have the same, the later one takes one
/// that no other has there.
fn tell_apart(chart: &mut Chart) {
    let mut places: Vec<usize> = chart.series.iter().map(|series| series.colour).collect();
    places.sort_unstable();
    places.dedup();
    let mut taken = [false; COLOURS];
    let mut moved = Vec::new();
    for place in places {
        match taken.get_mut(place % COLOURS) {
            Some(own) if !*own => *own = true,
            _ => moved.push(place),
        }
    }
    for place in moved {
        let Some(free) = taken.iter().position(|taken| !taken) else { return };
        if let Some(own) = taken.get_mut(free) {
            *own = true;
        }
        chart
            .series
            .iter_mut()
            .filter(|series| series.colour == place)
            .for_each(|series| series.colour = free);
    }
}

/// Finishes the charts of a figure, each with an identifier of its own.
pub(crate) fn number(id: &str, charts: &mut [Chart]) {
    for (place, chart) in charts.iter_mut().enumerate() {
        tell_apart(chart);
        chart.finish(format!("{id}-{place}"));
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

#[cfg(test)]
mod tests {
    use super::super::chart::{Horizontal, Marks, Vertical};
    use super::*;

    /// A chart of so many series with so many points each, two of which share each arm's colour.
    fn chart(shape: Shape, series: usize, points: usize) -> Chart {
        let one = |place: usize| Series {
            name: format!("series {place}"),
            colour: place / 2,
            variant: 0,
            axis: place % 2,
            stack: String::new(),
            labels: Vec::new(),
            points: vec![[0.0, 1.0, 1.0, 1.0]; points],
        };
        Chart {
            id: String::new(),
            heading: "IOPS".to_owned(),
            shape,
            description: String::new(),
            watermark: String::new(),
            x: Horizontal { name: String::new(), categories: vec!["4k".to_owned()], log: false },
            y: Vec::new(),
            rules: Vec::new(),
            series: (0..series).map(one).collect(),
        }
    }

    fn shortened(chart: Chart) -> Vec<Chart> {
        let mut charts = vec![chart];
        shorten(&mut charts, &mut Vec::new());
        charts
    }

    #[test]
    fn arms_of_a_chart_have_colours_of_their_own() {
        let mut charts = vec![chart(Shape::Bars, 18, 1)];
        // All arms but the seventh, which was not measured.
        charts[0].series.retain(|series| series.colour != 6);
        number("x", &mut charts);
        let mut colours: Vec<usize> = charts[0].series.iter().map(|series| series.colour % COLOURS).collect();
        assert_eq!(colours[..2], [0, 0], "the first ones keep theirs");
        assert_eq!(colours[colours.len() - 1], 6);
        colours.dedup();
        let count = colours.len();
        colours.sort_unstable();
        colours.dedup();
        assert_eq!((count, colours.len()), (8, 8), "each arm has one, and no two have the same");
    }

    #[test]
    fn a_legend_has_eight_entries_at_most_and_keeps_an_arm_together() {
        let parts = shortened(chart(Shape::Dual, 18, 2));
        let counts: Vec<usize> = parts.iter().map(|part| part.series.len()).collect();
        assert_eq!(counts, [6, 6, 6]);
        assert_eq!(parts[1].heading, "IOPS (2 of 3)");
        assert!(parts.iter().all(|part| part.series.chunks(2).all(|arm| arm[0].colour == arm[1].colour)));
        assert_eq!(shortened(chart(Shape::Bars, 8, 1)).len(), 1);
        assert_eq!(shortened(chart(Shape::Stacked, 9, 2)).len(), 1, "a stack is one whole");
    }

    #[test]
    fn charts_in_the_place_of_one_have_its_scale() {
        let mut whole = chart(Shape::Bars, 9, 1);
        for (place, series) in (1_u32..).zip(&mut whole.series) {
            series.axis = 0;
            series.points = vec![[0.0, f64::from(place) * 1000.0, 0.0, f64::from(place) * 1010.0]];
        }
        whole.y = vec![Vertical {
            name: "IOPS".to_owned(),
            unit: String::new(),
            better: String::new(),
            zero: true,
            marks: None,
        }];
        let parts = shortened(whole);
        assert!(parts.iter().all(|part| part.series.len() > 1), "no arm stands alone");
        assert_eq!(
            parts.iter().map(|part| part.y[0].marks).collect::<Vec<_>>(),
            [Some(Marks { step: 2000.0, end: 10_000.0 }); 2]
        );
        let alone = shortened(chart(Shape::Bars, 2, 1));
        assert!(alone.iter().all(|part| part.y.iter().all(|axis| axis.marks.is_none())));
    }

    #[test]
    fn lone_dots_are_no_chart() {
        assert_eq!(shortened(chart(Shape::Bars, 1, 1)), []);
        assert_eq!(
            shortened(chart(Shape::Trace, 4, 1)),
            [],
            "four arms with a second each are no course of time"
        );
        assert_eq!(shortened(chart(Shape::Trace, 1, 2)).len(), 1);
        assert_eq!(shortened(chart(Shape::Bars, 2, 1)).len(), 1);
    }
}
