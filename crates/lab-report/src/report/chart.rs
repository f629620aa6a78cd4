//! What the page's script draws: plain data, in the units that stand on the axes.
//!
//! The script decides nothing about the numbers. What a chart shows is here and in the table beside it, made from the same
//! summaries.

use serde::Serialize;

/// Parts of an axis between its marks.
const TICKS: f64 = 5.0;

/// How a chart is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Shape {
    /// Bars from zero over categories, whiskers.
    Bars,
    /// Lines over categories, whiskers.
    Lines,
    /// Bars of parts upon each other, a whisker at the end of each.
    Stacked,
    /// Bars on the left axis, lines on the right one.
    Dual,
    /// Lines over numbers, with bands.
    Trace,
    /// Steps over numbers, with bands.
    Steps,
    /// Lines from point to point over numbers, with whiskers.
    Path,
    /// Dots over categories about a rule at zero, with whiskers.
    Dots,
}

/// One drawing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Chart {
    /// Unique on the page.
    pub(crate) id: String,
    /// Heading above it, where a figure has several.
    pub(crate) heading: String,
    /// How.
    pub(crate) shape: Shape,
    /// What it shows, for those who cannot see it.
    pub(crate) description: String,
    /// The labels of the evidence in it, drawn behind the data.
    pub(crate) watermark: String,
    /// The axis along x.
    pub(crate) x: Horizontal,
    /// One axis along y, or two.
    pub(crate) y: Vec<Vertical>,
    /// Rules across.
    pub(crate) rules: Vec<Rule>,
    /// What is drawn.
    pub(crate) series: Vec<Series>,
}

impl Chart {
    /// Gives the chart its identifier and lets its axes begin where they must.
    pub(crate) fn finish(&mut self, id: String) {
        self.id = id;
        for (place, axis) in self.y.iter_mut().enumerate() {
            let mut own =
                self.series.iter().filter(|series| series.axis == place).flat_map(|series| &series.points);
            axis.zero = own.all(|[_, value, low, _]| *value >= 0.0 && *low >= 0.0);
        }
    }
}

/// The axis along x.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Horizontal {
    /// With its unit.
    pub(crate) name: String,
    /// The categories; empty for an axis of numbers.
    pub(crate) categories: Vec<String>,
    /// An axis of numbers is logarithmic.
    pub(crate) log: bool,
}

/// An axis along y.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Vertical {
    /// With its unit.
    pub(crate) name: String,
    /// The unit alone.
    pub(crate) unit: String,
    /// `higher is better`, or nothing.
    pub(crate) better: String,
    /// It begins at zero: always, unless something lies below. A chart that begins elsewhere makes small differences large.
    pub(crate) zero: bool,
    /// Its marks, if they are given: charts that stand in the place of one have the same scale. Nothing lets it end behind its data.
    pub(crate) marks: Option<Marks>,
}

/// Where an axis has its marks: at every `step` from zero to `end`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Marks {
    pub(crate) step: f64,
    /// A multiple of `step`; else the last two marks run into each other.
    pub(crate) end: f64,
}

impl Vertical {
    /// Lets the axis end at the first round number that is not below a value.
    pub(crate) fn end_behind(&mut self, most: f64) {
        if !most.is_finite() || most <= 0.0 {
            return;
        }
        let rough = most / TICKS;
        let power = 10_f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 2.5, 5.0, 10.0].map(|round| round * power).into_iter().find(|step| *step >= rough);
        self.marks = step.map(|step| Marks { step, end: (most / step).ceil() * step });
    }
}

/// A rule across a chart.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Rule {
    /// Where, in the unit of its axis.
    pub(crate) value: f64,
    /// What it is.
    pub(crate) label: String,
    /// Place of its axis along y.
    pub(crate) axis: usize,
}

/// A line, a set of bars, a band.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Series {
    /// For the legend, with the label of its evidence.
    pub(crate) name: String,
    /// Which colour: the arm's place.
    pub(crate) colour: usize,
    /// Which dash, symbol and pattern: what tells series of one arm apart.
    pub(crate) variant: usize,
    /// Place of its axis along y.
    pub(crate) axis: usize,
    /// Which bars stand upon each other; those of one name do.
    pub(crate) stack: String,
    /// What stands beside each of the points; empty for nothing.
    pub(crate) labels: Vec<String>,
    /// The data: place or number along x, value, lower and upper end of its interval.
    pub(crate) points: Vec<[f64; 4]>,
}
