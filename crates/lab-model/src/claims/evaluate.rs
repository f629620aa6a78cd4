//! What a test comes to on what was measured: numbers with intervals, and yes, no or undecided.
//!
//! Arithmetic is that of intervals, which is never too sure; only ratios of two arms are paired by block, where what the
//! two share cancels. Truth is Kleene's: an undecided part leaves the whole undecided unless the rest decides it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::grammar::{Aggregate, Arms, Comparison, Node, Operator, Test};
use super::reasons::{NoNumber, NotMeasured};
use crate::result::{Coordinate, PointResult};
use crate::scenario::{Metric, Scenario};
use crate::statistics::bootstrap::{Bootstrap, median};
use crate::statistics::context::Contexts;
use crate::statistics::metric::{Scale, value_of};
use crate::statistics::number::real_length;
use crate::statistics::pairing::{ArmPair, pairs_with};
use crate::statistics::{MIN_PAIRS, SEED, little, verdict};

/// A number with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Number {
    /// The best guess.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Whether something holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Truth {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// The measurement does not say, for this reason.
    Open(String),
}

impl Truth {
    /// `None` when it is open.
    pub const fn holds(&self) -> Option<bool> {
        match self {
            Self::Yes => Some(true),
            Self::No => Some(false),
            Self::Open(_) => None,
        }
    }

    /// No if one is no, open if one is open, yes otherwise.
    pub fn all(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut all = Self::Yes;
        for part in parts {
            match part {
                Self::No => return Self::No,
                Self::Open(_) if all == Self::Yes => all = part,
                _ => {}
            }
        }
        all
    }

    fn not(self) -> Self {
        match self {
            Self::Yes => Self::No,
            Self::No => Self::Yes,
            open @ Self::Open(_) => open,
        }
    }
}

/// What a claim's test is evaluated on.
#[derive(Debug)]
pub struct Scope<'a> {
    results: &'a [PointResult],
    contexts: Contexts<'a>,
    /// Settings that are the same at every point.
    fixed: &'a BTreeMap<String, String>,
    points: Vec<Vec<Coordinate>>,
    bootstrap: RefCell<Bootstrap>,
}

/// A number, or why there is none.
type Evaluated = Result<Number, NoNumber>;

/// What a test came to at a point.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Whether it holds.
    pub truth: Truth,
    /// Its numbers, in words.
    pub detail: String,
}

impl<'a> Scope<'a> {
    /// The measured points that lie where `at` says.
    ///
    /// # Errors
    /// There are none.
    pub fn new(
        scenario: &'a Scenario,
        results: &'a [PointResult],
        at: &BTreeMap<String, String>,
    ) -> Result<Self, NotMeasured> {
        let mut scope = Self {
            results,
            contexts: Contexts::new(scenario, results),
            fixed: &scenario.workload.options,
            points: Vec::new(),
            bootstrap: RefCell::new(Bootstrap::new(SEED)),
        };
        for result in results {
            if !scope.points.contains(&result.point) && scope.lies(&result.point, at) {
                scope.points.push(result.point.clone());
            }
        }
        if scope.points.is_empty() {
            return Err(NotMeasured(at.clone()));
        }
        Ok(scope)
    }

    /// The points, in the order in which they were measured.
    pub fn points(&self) -> &[Vec<Coordinate>] {
        &self.points
    }

    /// Whether a test holds at a point, and its numbers in words.
    pub fn look(&self, test: &Test, point: &[Coordinate]) -> Seen {
        let truth = self.truth(&test.0, point);
        let mut details = Vec::new();
        self.describe(&test.0, point, &mut details);
        Seen { truth, detail: details.join(", ") }
    }

    /// The limits that arms of the test share at the points, in words: there, their equality says nothing about them.
    pub fn shared_limits(&self, test: &Test) -> Vec<String> {
        let named = test.arms();
        let within = |result: &&PointResult| {
            named.contains(result.arm.as_str()) && self.points.contains(&result.point)
        };
        let results: Vec<&PointResult> = self.results.iter().filter(within).collect();
        little::shared_limits(&results).iter().map(ToString::to_string).collect()
    }

    fn lies(&self, point: &[Coordinate], at: &BTreeMap<String, String>) -> bool {
        let own = |axis: &str| point.iter().find(|here| here.axis == axis).map(|here| &here.value);
        at.iter().all(|(axis, value)| own(axis).or_else(|| self.fixed.get(axis)) == Some(value))
    }

    fn truth(&self, node: &Node, point: &[Coordinate]) -> Truth {
        match node {
            Node::Compare(comparison, one, other) => {
                match (self.number(one, point), self.number(other, point)) {
                    (Ok(one), Ok(other)) => compare(*comparison, one, other),
                    (Err(reason), _) | (_, Err(reason)) => Truth::Open(reason.to_string()),
                }
            }
            Node::And(one, other) => Truth::all([self.truth(one, point), self.truth(other, point)]),
            Node::Or(one, other) => {
                Truth::all([self.truth(one, point).not(), self.truth(other, point).not()]).not()
            }
            Node::Not(one) => self.truth(one, point).not(),
            Node::Over(Aggregate::All, one) => {
                Truth::all(self.points.iter().map(|point| self.truth(one, point)))
            }
            Node::Over(Aggregate::Any, one) => {
                Truth::all(self.points.iter().map(|point| self.truth(one, point).not())).not()
            }
            _ => Truth::Open(format!("`{node}` is neither true nor false")),
        }
    }

    fn number(&self, node: &Node, point: &[Coordinate]) -> Evaluated {
        match node {
            Node::Number(number) => Ok(Number::exactly(*number)),
            Node::Value(metric, arm, at) => self.value(*metric, arm, &elsewhere(point, at)?),
            Node::Ratio(metric, arms, at) => self.ratio(*metric, arms, &elsewhere(point, at)?),
            Node::Negative(one) => self.number(one, point).map(Number::negative),
            Node::Arithmetic(operator, one, other) => {
                arithmetic(*operator, self.number(one, point)?, self.number(other, point)?)
            }
            Node::Over(Aggregate::Share, one) => Ok(self.share(one)),
            Node::Over(aggregate, one) => self.over(*aggregate, one),
            Node::First(axis, one) => self.first(axis, one),
            _ => Err(NoNumber::Truth(node.clone())),
        }
    }

    fn value(&self, metric: Metric, arm: &str, point: &[Coordinate]) -> Evaluated {
        let here = self.results.iter().filter(|result| result.arm == arm && result.point == point);
        let mut values: Vec<f64> =
            here.filter_map(|result| value_of(metric, result, &self.contexts.of(result))).collect();
        values.sort_by(f64::total_cmp);
        if values.len() < MIN_PAIRS {
            return Err(too_few(metric, arm, point, values.len()));
        }
        let ends = self.bootstrap.borrow_mut().interval(&values);
        let number =
            ends.zip(median(&values)).map(|(ends, value)| Number { value, low: ends.low, high: ends.high });
        number.ok_or_else(|| too_few(metric, arm, point, 0))
    }

    fn ratio(&self, metric: Metric, Arms { a, b }: &Arms, point: &[Coordinate]) -> Evaluated {
        let here = self.results.iter().filter(|result| result.point == point);
        let value = |result: &PointResult| value_of(metric, result, &self.contexts.of(result));
        let pairs = pairs_with(here, ArmPair { a, b }, &value).pop();
        let log_ratios = pairs.map(|pairs| pairs.log_ratios).unwrap_or_default();
        verdict::ratio(&mut self.bootstrap.borrow_mut(), &log_ratios)
            .map(|ratio| Number { value: ratio.median, low: ratio.low, high: ratio.high })
            .ok_or_else(|| too_few(metric, &format!("{a} and {b}"), point, log_ratios.len()))
    }

    fn over(&self, aggregate: Aggregate, node: &Node) -> Evaluated {
        let all: Vec<Number> =
            self.points.iter().map(|point| self.number(node, point)).collect::<Result<_, _>>()?;
        let join = |of: fn(&Number) -> f64| {
            let numbers = all.iter().map(of);
            match aggregate {
                Aggregate::Max => numbers.fold(f64::NEG_INFINITY, f64::max),
                Aggregate::Min => numbers.fold(f64::INFINITY, f64::min),
                _ => numbers.sum::<f64>() / real_length(all.len()),
            }
        };
        Ok(Number { value: join(|one| one.value), low: join(|one| one.low), high: join(|one| one.high) })
    }

    /// From the points at which it holds to those at which it may hold.
    fn share(&self, node: &Node) -> Number {
        let all: Vec<Option<bool>> =
            self.points.iter().map(|point| self.truth(node, point).holds()).collect();
        let share = |wanted: &[Option<bool>]| {
            real_length(all.iter().filter(|one| wanted.contains(one)).count()) / real_length(all.len())
        };
        let (low, high) = (share(&[Some(true)]), share(&[Some(true), None]));
        Number { value: f64::midpoint(low, high), low, high }
    }

    /// The least value on an axis at which it surely holds; less sure where a lesser one is open.
    fn first(&self, axis: &str, node: &Node) -> Evaluated {
        let mut points: Vec<(f64, &[Coordinate])> = Vec::new();
        for point in &self.points {
            let value = point.iter().find(|here| here.axis == axis).and_then(|here| size(&here.value));
            let value =
                value.ok_or_else(|| NoNumber::NoValue { axis: axis.to_owned(), point: point.clone() })?;
            points.push((value, point));
        }
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut low = None;
        for (value, point) in points {
            match self.truth(node, point) {
                Truth::Yes => return Ok(Number { value, low: low.unwrap_or(value), high: value }),
                Truth::Open(_) => low = low.or(Some(value)),
                Truth::No => {}
            }
        }
        Err(NoNumber::Nowhere { condition: node.clone(), axis: axis.to_owned() })
    }

    /// Both sides of every comparison, as far as they were measured.
    fn describe(&self, node: &Node, point: &[Coordinate], into: &mut Vec<String>) {
        let Node::Compare(_, one, other) = node else {
            for child in node.children() {
                match node {
                    Node::Over(..) | Node::First(..) => {}
                    _ => self.describe(child, point, into),
                }
            }
            return;
        };
        for side in [one, other] {
            if let (false, Ok(number)) = (matches!(**side, Node::Number(_)), self.number(side, point)) {
                into.push(format!("{side} = {}", number.words(side)));
            }
        }
    }
}

fn too_few(metric: Metric, arms: &str, point: &[Coordinate], pairs: usize) -> NoNumber {
    NoNumber::TooFew { metric, arms: arms.to_owned(), point: point.to_vec(), pairs }
}

/// A point with some coordinates replaced. An error names an axis that the point does not have.
fn elsewhere(point: &[Coordinate], at: &[Coordinate]) -> Result<Vec<Coordinate>, NoNumber> {
    if let Some(lost) = at.iter().find(|there| !point.iter().any(|here| here.axis == there.axis)) {
        return Err(NoNumber::NoAxis { axis: lost.axis.clone(), point: point.to_vec() });
    }
    let replaced =
        |here: &Coordinate| at.iter().find(|there| there.axis == here.axis).unwrap_or(here).clone();
    Ok(point.iter().map(replaced).collect())
}

/// Units of numeric axes, longer ones before those that end like them: times in ns, rates in bit/s, sizes in bytes as fio counts.
const UNITS: [(&str, f64); 10] = [
    ("Gbit", 1e9),
    ("Mbit", 1e6),
    ("kbit", 1e3),
    ("us", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("%", 0.01),
    ("k", 1024.0),
    ("m", 1_048_576.0),
    ("g", 1_073_741_824.0),
];

/// What a value of a numeric axis is worth: `512`, `4k`, `1m`, `100us`.
fn size(text: &str) -> Option<f64> {
    let unit = UNITS.iter().find_map(|(unit, worth)| Some((text.strip_suffix(unit)?, *worth)));
    let (digits, worth) = unit.unwrap_or((text, 1.0));
    Some(digits.trim().parse::<f64>().ok()? * worth)
}

fn compare(comparison: Comparison, one: Number, other: Number) -> Truth {
    let (surely, surely_not) = match comparison {
        Comparison::AtLeast => (one.low >= other.high, one.high < other.low),
        Comparison::Above => (one.low > other.high, one.high <= other.low),
        Comparison::AtMost => (one.high <= other.low, one.low > other.high),
        Comparison::Below => (one.high < other.low, one.low >= other.high),
    };
    match (surely, surely_not) {
        (true, _) => Truth::Yes,
        (_, true) => Truth::No,
        _ => Truth::Open("the interval lies on both sides".to_owned()),
    }
}

fn arithmetic(operator: Operator, one: Number, other: Number) -> Evaluated {
    let apply: fn(f64, f64) -> f64 = match operator {
        Operator::Plus => |a, b| a + b,
        Operator::Minus => |a, b| a - b,
        Operator::Times => |a, b| a * b,
        Operator::Over => |a, b| a / b,
    };
    if operator == Operator::Over && other.low <= 0.0 && other.high >= 0.0 {
        return Err(NoNumber::Divisor);
    }
    let corners =
        [(one.low, other.low), (one.low, other.high), (one.high, other.low), (one.high, other.high)];
    let ends = corners.map(|(a, b)| apply(a, b));
    Ok(Number {
        value: apply(one.value, other.value),
        low: ends.into_iter().fold(f64::INFINITY, f64::min),
        high: ends.into_iter().fold(f64::NEG_INFINITY, f64::max),
    })
}

impl Number {
    const fn exactly(value: f64) -> Self {
        Self { value, low: value, high: value }
    }

    const fn negative(self) -> Self {
        Self { value: -self.value, low: -self.high, high: -self.low }
    }

    /// In the unit of the metric that the node is about.
    fn words(self, node: &Node) -> String {
        let Scale { divisor, unit } = scale(node);
        let [value, low, high] =
            [self.value, self.low, self.high].map(|number| significant(number / divisor));
        let space = if unit.is_empty() { "" } else { " " };
        if low == high {
            format!("{value}{space}{unit}")
        } else {
            format!("{value}{space}{unit} (CI {low}–{high})")
        }
    }
}

/// What divides a node's numbers for the unit that they are told in: the unit of its metric, which factors, sums and means keep.
fn scale(node: &Node) -> Scale {
    let without = Scale { divisor: 1.0, unit: "" };
    match node {
        Node::Value(metric, ..) => metric.scale(),
        Node::Negative(one) | Node::Over(Aggregate::Mean | Aggregate::Max | Aggregate::Min, one) => {
            scale(one)
        }
        Node::Arithmetic(Operator::Times, factor, one) if is_plain(factor) => scale(one),
        Node::Arithmetic(Operator::Times | Operator::Over, one, factor) if is_plain(factor) => scale(one),
        Node::Arithmetic(Operator::Plus | Operator::Minus, one, other) => {
            let (own, others) = (scale(one), scale(other));
            if own.unit == others.unit { own } else { without }
        }
        _ => without,
    }
}

/// True for a number that has no unit.
fn is_plain(node: &Node) -> bool {
    match node {
        Node::Number(_) | Node::Ratio(..) => true,
        Node::Negative(one) => is_plain(one),
        Node::Arithmetic(_, one, other) => is_plain(one) && is_plain(other),
        _ => false,
    }
}

/// Three digits where they say something, whole numbers from 100 on.
fn significant(number: f64) -> String {
    match number.abs() {
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}
