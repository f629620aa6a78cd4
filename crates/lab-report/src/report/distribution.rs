//! Latency histograms: the share of the I/Os in each step of latency, from merged histograms, with a band over the repetitions.
//!
//! The whole is drawn over a logarithmic axis in steps of an eighth of a decade, the zoom over a plain one up to the largest
//! 99th percentile of any series.

use lab_model::result::{Bucket, Latency, ONLY_POINT};
use lab_model::scenario::{Figure, FigureKind, Metric};
use lab_model::statistics::histogram::percentile_of_all;
use lab_model::statistics::number::real_length;

use super::chart::{Chart, Horizontal, Series, Shape, Vertical};
use super::plan::{Drawn, arms, legend, notes, number, shorten, split, watermark};
use super::series::{Group, Measured, name};
use super::summary::{Draws, Summary};
use super::table::{Cell, Table};
use super::values::latencies;
use super::waiting;

/// Steps of a factor of ten.
const PER_DECADE: f64 = 8.0;
/// Steps of the zoom.
const ZOOM_STEPS: u32 = 48;
/// Nanoseconds of a microsecond.
const MICROSECOND: f64 = 1e3;

/// Where the steps of latency lie, in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
struct Steps {
    /// Upper ends, ascending; the first step begins at `start`.
    ends: Vec<f64>,
    start: f64,
    scale: Scale,
}

/// How the axis of latency is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    Linear,
    Logarithmic,
}

/// Lower and upper end of a step, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Span {
    low: f64,
    high: f64,
}

impl Steps {
    /// Steps of equal ratio from the least to the largest latency that occurred.
    fn whole(histograms: &[&Latency]) -> Option<Self> {
        let bounds =
            histograms.iter().flat_map(|latency| &latency.histogram).filter(|bucket| bucket.count > 0);
        let bounds = bounds.map(|bucket| bound_of(bucket.bound).max(1.0));
        let (least, most) = (bounds.clone().reduce(f64::min)?, bounds.reduce(f64::max)?);
        let first = (least.log10() * PER_DECADE).ceil() - 1.0;
        let steps = ((most.log10() * PER_DECADE).ceil() - first).max(1.0);
        let end = |step: u32| 10_f64.powf((first + f64::from(step)) / PER_DECADE);
        let ends = (1..u32::MAX).take_while(|step| f64::from(*step) <= steps).map(end).collect();
        Some(Self { ends, start: end(0), scale: Scale::Logarithmic })
    }

    /// Equal steps from zero to `end`.
    fn zoom(end: f64) -> Self {
        let width = end / f64::from(ZOOM_STEPS);
        let ends = (1..=ZOOM_STEPS).map(|step| width * f64::from(step)).collect();
        Self { ends, start: 0.0, scale: Scale::Linear }
    }

    /// Per cent of the I/Os in each step. What lies above the last is in none.
    fn shares(&self, histograms: &[&Latency]) -> Vec<f64> {
        let mut counts = vec![0.0; self.ends.len()];
        let mut total = 0.0;
        for Bucket { bound, count } in histograms.iter().flat_map(|latency| &latency.histogram) {
            let count = bound_of(*count);
            total += count;
            let step = self.ends.partition_point(|end| *end < bound_of(*bound) * (1.0 - f64::EPSILON));
            if let Some(own) = counts.get_mut(step) {
                *own += count;
            }
        }
        counts.into_iter().map(|count| if total > 0.0 { count / total * 100.0 } else { 0.0 }).collect()
    }

    /// Lower and upper end of each step.
    fn spans(&self) -> impl Iterator<Item = Span> {
        let starts = std::iter::once(self.start).chain(self.ends.iter().copied());
        starts.zip(self.ends.iter().copied()).map(|(low, high)| Span { low, high })
    }

    /// Where a step is drawn.
    fn middle(&self, Span { low, high }: Span) -> f64 {
        match self.scale {
            Scale::Logarithmic => (low * high).sqrt(),
            Scale::Linear => f64::midpoint(low, high),
        }
    }
}

/// A bucket's bound or count as a number; exact below 2^53.
#[expect(
    clippy::cast_precision_loss,
    reason = "104 days in ns, and more I/Os than a window holds, are still exact"
)]
const fn bound_of(bound: u64) -> f64 {
    bound as f64
}

/// Draws a histogram or its zoom: a chart for each point, a line for each arm and direction.
pub(crate) fn draw(measured: &Measured<'_>, figure: &Figure) -> Drawn {
    let zoom = figure.kind == FigureKind::HistogramZoom;
    let mut table =
        Table::new(["point", "arm", "name", "evidence", "I/Os", "from (µs)", "to (µs)", "share (%)"]);
    for name in ["share: 95 % from", "share: 95 % to", "repetitions"] {
        table.minor_column(name);
    }
    let mut charts = Vec::new();
    let draws = &measured.draws;
    let mut notes = notes(figure);
    notes.extend(waiting::note(measured.results()));
    for (point, groups) in split(&measured.of(figure), name) {
        let lines = lines(figure, &groups);
        let all: Vec<&Latency> = lines.iter().flat_map(|line| line.latencies()).collect();
        let steps = if zoom { zoom_end(&lines).map(Steps::zoom) } else { Steps::whole(&all) };
        let Some(steps) = steps else {
            notes.push(format!("No histogram at {point}: the tool gives none."));
            continue;
        };
        let mut chart = chart(figure, &point, &groups, steps.scale);
        for line in &lines {
            chart.series.push(line.series(&steps, draws));
            table.rows.extend(line.rows(&point, &steps, draws));
        }
        charts.push(chart);
    }
    if zoom {
        notes.push("Up to the largest 99th percentile of any series; shares are of all I/Os.".to_owned());
    }
    shorten(&mut charts, &mut notes);
    number(&figure.id, &mut charts);
    let (id, title) = (figure.id.clone(), figure.title.clone());
    Drawn { id, title, notes, charts, svg: String::new(), table, comparisons: Vec::new() }
}

/// The 99th percentile up to which the zoom goes.
fn zoom_end(lines: &[Line<'_>]) -> Option<f64> {
    let ends = lines.iter().filter_map(|line| percentile_of_all(&line.latencies(), "p99"));
    ends.reduce(f64::max).filter(|end| *end > 0.0)
}

/// One arm and direction.
struct Line<'a> {
    group: &'a Group<'a>,
    /// Reads, writes, or both.
    metric: Metric,
    variant: usize,
}

fn lines<'a>(figure: &Figure, groups: &[&'a Group<'a>]) -> Vec<Line<'a>> {
    let directions =
        groups.iter().flat_map(|group| &group.results).any(|result| result.directions().next().is_some());
    let named = figure.y.iter().any(|metric| matches!(metric, Metric::LatencyRead | Metric::LatencyWrite));
    // A database tells the latency of its transactions, which have no direction.
    let split = named && directions;
    let metrics: &[Metric] =
        if split { &[Metric::LatencyRead, Metric::LatencyWrite] } else { &[Metric::LatencyP50] };
    let lines = groups.iter().flat_map(|group| {
        metrics.iter().enumerate().map(|(variant, metric)| Line { group, metric: *metric, variant })
    });
    lines.filter(|line| !line.latencies().is_empty()).collect()
}

impl Line<'_> {
    fn latencies(&self) -> Vec<&Latency> {
        self.group.results.iter().flat_map(|result| latencies(result, self.metric)).collect()
    }

    const fn direction(&self) -> &'static str {
        match self.metric {
            Metric::LatencyRead => "reads",
            Metric::LatencyWrite => "writes",
            _ => "",
        }
    }

    /// The share in each step: of all repetitions together, with the interval of the repetitions.
    fn shares(&self, steps: &Steps, draws: &Draws) -> Vec<Summary> {
        let together = steps.shares(&self.latencies());
        let apart: Vec<Vec<f64>> =
            self.group.results.iter().map(|result| steps.shares(&latencies(result, self.metric))).collect();
        let at = |(place, value): (usize, f64)| {
            let each = Summary::of(apart.iter().filter_map(|shares| shares.get(place).copied()), draws);
            each.map_or(Summary { value, low: value, high: value, count: 1 }, |each| each.around(value))
        };
        together.into_iter().enumerate().map(at).collect()
    }

    fn series(&self, steps: &Steps, draws: &Draws) -> Series {
        let shares = self.shares(steps, draws).into_iter().zip(steps.spans());
        let points = shares
            .map(|(share, span)| [steps.middle(span) / MICROSECOND, share.value, share.low, share.high]);
        let (name, points) = (legend(self.group, self.direction()), points.collect());
        Series {
            name,
            colour: self.group.index,
            variant: self.variant,
            axis: 0,
            stack: String::new(),
            labels: Vec::new(),
            points,
        }
    }

    fn rows(&self, point: &str, steps: &Steps, draws: &Draws) -> Vec<Vec<Cell>> {
        let shares =
            self.shares(steps, draws).into_iter().zip(steps.spans()).filter(|(share, _)| share.high > 0.0);
        let rows = shares.map(|(share, Span { low: from, high: to })| {
            let arm = &self.group.arm;
            let direction = if self.direction().is_empty() { "all" } else { self.direction() };
            let texts = [point, &arm.key, &arm.name, self.group.evidence(), direction].map(Cell::text);
            let numbers = [
                from / MICROSECOND,
                to / MICROSECOND,
                share.value,
                share.low,
                share.high,
                real_length(share.count),
            ];
            texts.into_iter().chain(numbers.map(Cell::Number)).collect()
        });
        rows.collect()
    }
}

fn chart(figure: &Figure, point: &str, groups: &[&Group<'_>], scale: Scale) -> Chart {
    Chart {
        id: String::new(),
        heading: if point == ONLY_POINT { String::new() } else { point.to_owned() },
        shape: Shape::Steps,
        description: format!("{}: distribution of latency of {}", figure.title, arms(groups).join(", ")),
        watermark: watermark(groups),
        x: Horizontal {
            name: "latency (µs)".to_owned(),
            categories: Vec::new(),
            log: scale == Scale::Logarithmic,
        },
        y: vec![Vertical {
            name: "share of I/Os (%)".to_owned(),
            unit: "%".to_owned(),
            better: String::new(),
            zero: true,
            marks: None,
        }],
        rules: Vec::new(),
        series: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency(histogram: &[(u64, u64)]) -> Latency {
        Latency { histogram: histogram.iter().copied().map(Bucket::from).collect(), ..Latency::default() }
    }

    #[test]
    fn every_io_is_in_one_step_of_the_whole() {
        let latency = latency(&[(1, 1), (999, 10), (1_000, 20), (50_000, 60), (1_000_000_000, 9)]);
        let steps = Steps::whole(&[&latency]).unwrap();
        let shares = steps.shares(&[&latency]);
        assert!((shares.iter().sum::<f64>() - 100.0).abs() < 1e-9, "{shares:?}");
        let spans: Vec<Span> = steps.spans().collect();
        assert!(spans.windows(2).all(|pair| pair[0].high <= pair[1].low && pair[0].low < pair[0].high));
    }

    #[test]
    fn the_zoom_leaves_the_tail_out_of_its_steps_but_not_out_of_the_whole() {
        let latency = latency(&[(10, 50), (20, 49), (1_000, 1)]);
        let shares = Steps::zoom(20.0).shares(&[&latency]);
        assert!((shares.iter().sum::<f64>() - 99.0).abs() < 1e-9, "{shares:?}");
        assert!((shares[shares.len() - 1] - 49.0).abs() < 1e-9);
    }
}
