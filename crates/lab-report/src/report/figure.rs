//! A scenario's figures of metrics: bars, lines, two axes, stacks, latency against load, and plain tables.
//!
//! One table holds the figure's numbers. Charts are drawn from the same summaries; where a figure would have more series than a
//! reader can tell apart, it becomes several charts of one kind and one table.

use lab_model::scenario::{Figure, FigureKind, Metric};
use lab_model::statistics::number::real_length;

use super::chart::{Chart, Horizontal, Rule, Series, Shape};
use super::contributors;
use super::plan::{Drawn, Plan, arms, evidence, notes, number, shorten, split, watermark};
use super::series::{Group, Measured, values_of};
use super::tabulate;
use super::units;
use super::values::payload_rate;
use super::waiting;
use super::words;

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
    let latencies =
        figure.kind == FigureKind::Hockey || figure.y.iter().any(|metric| waiting::is_latency(*metric));
    notes.extend(latencies.then(|| waiting::note(measured.results())).flatten());
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
        real_length(categories.iter().position(|one| one == value).unwrap_or(0))
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

    /// The payload rates of the links, each once.
    fn rules(&self, groups: &[&Group<'_>], metric: Metric, axis: usize) -> Vec<Rule> {
        if !self.figure.line_rate {
            return Vec::new();
        }
        if metric == Metric::LineRate {
            return vec![Rule { value: 100.0, label: "line rate".to_owned(), axis }];
        }
        if metric != Metric::Bandwidth {
            return Vec::new();
        }
        let mut rates: Vec<(f64, Vec<&str>)> = Vec::new();
        for group in groups {
            let Some(rate) = payload_rate(self.measured.scenario, group) else { continue };
            let key = group.arm.key.as_str();
            match rates.iter_mut().find(|(other, _)| other.total_cmp(&rate).is_eq()) {
                Some((_, arms)) if arms.contains(&key) => {}
                Some((_, arms)) => arms.push(key),
                None => rates.push((rate, vec![key])),
            }
        }
        rates.sort_by(|one, other| one.0.total_cmp(&other.0));
        let unit = self.unit(metric);
        let several = rates.len() > 1;
        let label = |rate: f64, arms: &[&str]| {
            let of = if several { format!(" of {}", arms.join(", ")) } else { String::new() };
            format!("line rate{of} {} {}", super::table::rounded(rate), unit.name)
        };
        let rates = rates.into_iter().map(|(rate, arms)| (unit.of(rate), arms));
        rates.map(|(rate, arms)| Rule { value: rate, label: label(rate, &arms), axis }).collect()
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
                Some([real_length(place), summary.value, summary.low, summary.high])
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
}
