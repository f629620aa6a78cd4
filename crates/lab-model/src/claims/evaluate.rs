//! What a test comes to on what was measured: numbers with intervals, and yes, no or undecided.
//!
//! Arithmetic is that of intervals, which is never too sure; only ratios of two arms are paired by block, where what the
//! two share cancels. Truth is Kleene's: an undecided part leaves the whole undecided unless the rest decides it.
//!
//! Nothing that compares arms passes the control: a ratio is as wide as the control at least, and so are the values of a comparison
//! that names two arms, whether as a quotient, a difference or on its two sides. Without a control they are not numbers.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::grammar::{Aggregate, Arms, Comparison, Node, Operator, Test};
use super::reasons::{NoNumber, NotMeasured};
use crate::prices::Prices;
use crate::result::{Coordinate, PointResult};
use crate::scenario::place;
pub(super) use crate::scenario::place::size;
use crate::scenario::{Metric, Scenario};
use crate::statistics::bootstrap::{Bootstrap, median};
use crate::statistics::context::Contexts;
use crate::statistics::control::Widths;
use crate::statistics::metric::{Scale, value_of};
use crate::statistics::number::real_length;
use crate::statistics::pairing::{ArmPair, pairs_with};
use crate::statistics::verdict::Restless;
use crate::statistics::{MIN_PAIRS, little};

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

/// Where a test is evaluated, and how sure its intervals are to be.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a> {
    /// The point; empty for a test of all points together.
    pub point: &'a [Coordinate],
    /// The chance with which an interval may miss.
    pub level: f64,
    /// What values are held against.
    pub(super) against: Against,
}

/// What an arm's value is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Against {
    /// A number, or the arm itself elsewhere.
    Numbers,
    /// Another arm's value.
    Arms,
}

impl<'a> Look<'a> {
    /// A test as a whole, so sure, at a point.
    pub const fn new(point: &'a [Coordinate], level: f64) -> Self {
        Self { point, level, against: Against::Numbers }
    }

    /// The same elsewhere.
    const fn at<'b>(self, point: &'b [Coordinate]) -> Look<'b>
    where
        'a: 'b,
    {
        Look { point, level: self.level, against: self.against }
    }

    /// The same within a comparison of these two.
    fn between(self, one: &Node, other: &Node) -> Self {
        let mut arms = BTreeSet::new();
        for side in [one, other] {
            side.visit(&mut |node| {
                if let Node::Value(_, arm, _) = node {
                    arms.insert(arm.as_str());
                }
            });
        }
        Self { against: if arms.len() > 1 { Against::Arms } else { self.against }, ..self }
    }
}

/// What claims are judged on.
#[derive(Debug, Clone, Copy)]
pub struct Evidenced<'a> {
    /// Results of the points.
    pub results: &'a [PointResult],
    /// What the control cannot tell apart.
    pub widths: &'a Widths,
    /// What the arms cost.
    pub prices: Option<&'a Prices>,
    /// Draws that were made before.
    pub bootstrap: &'a RefCell<Bootstrap>,
}

/// What a claim's test is evaluated on.
#[derive(Debug)]
pub struct Scope<'a> {
    results: &'a [PointResult],
    widths: &'a Widths,
    contexts: Contexts<'a>,
    /// Settings that are the same at every point.
    fixed: &'a BTreeMap<String, String>,
    points: Vec<Vec<Coordinate>>,
    bootstrap: &'a RefCell<Bootstrap>,
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
        evidence: Evidenced<'a>,
        at: &BTreeMap<String, String>,
    ) -> Result<Self, NotMeasured> {
        let Evidenced { results, widths, prices, bootstrap } = evidence;
        let mut scope = Self {
            results,
            widths,
            contexts: Contexts::new(scenario, results).priced(prices),
            fixed: &scenario.workload.options,
            points: Vec::new(),
            bootstrap,
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
    pub fn look(&self, test: &Test, look: Look<'_>) -> Seen {
        let truth = self.truth(&test.0, look);
        let mut details = Vec::new();
        self.describe(&test.0, look, &mut details);
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
        at.iter().all(|(axis, value)| {
            own(axis).or_else(|| self.fixed.get(axis)).is_some_and(|here| place::lies(here, value))
        })
    }

    fn truth(&self, node: &Node, look: Look<'_>) -> Truth {
        match node {
            Node::Compare(comparison, one, other) => {
                let look = look.between(one, other);
                match (self.number(one, look), self.number(other, look)) {
                    (Ok(one), Ok(other)) => compare(*comparison, one, other),
                    (Err(reason), _) | (_, Err(reason)) => Truth::Open(reason.to_string()),
                }
            }
            Node::And(one, other) => Truth::all([self.truth(one, look), self.truth(other, look)]),
            Node::Or(one, other) => {
                Truth::all([self.truth(one, look).not(), self.truth(other, look).not()]).not()
            }
            Node::Not(one) => self.truth(one, look).not(),
            Node::Over(Aggregate::All, one) => Truth::all(self.each(look).map(|look| self.truth(one, look))),
            Node::Over(Aggregate::Any, one) => {
                Truth::all(self.each(look).map(|look| self.truth(one, look).not())).not()
            }
            _ => Truth::Open(format!("`{node}` is neither true nor false")),
        }
    }

    fn number(&self, node: &Node, look: Look<'_>) -> Evaluated {
        match node {
            Node::Number(number) => Ok(Number::exactly(*number)),
            Node::Value(metric, arm, at) => self.value(*metric, arm, look.at(&elsewhere(look.point, at)?)),
            Node::Ratio(metric, arms, at) => self.ratio(*metric, arms, look.at(&elsewhere(look.point, at)?)),
            Node::Negative(one) => self.number(one, look).map(Number::negative),
            Node::Arithmetic(operator, one, other) => {
                arithmetic(*operator, self.number(one, look)?, self.number(other, look)?)
            }
            Node::Over(Aggregate::Share, one) => Ok(self.share(one, look)),
            Node::Over(aggregate, one) => self.over(*aggregate, one, look),
            Node::First(axis, one) => self.first(axis, one, look),
            _ => Err(NoNumber::Truth(node.clone())),
        }
    }

    /// Each of the claim's points, so sure that no point's interval misses more often than one alone would.
    fn each<'b>(&'b self, look: Look<'_>) -> impl Iterator<Item = Look<'b>> {
        let level = look.level / real_length(self.points.len());
        let against = look.against;
        self.points.iter().map(move |point| Look { point, level, against })
    }

    fn value(&self, metric: Metric, arm: &str, look: Look<'_>) -> Evaluated {
        let here = self.results.iter().filter(|result| result.arm == arm && result.point == look.point);
        let (doubtful, sound): (Vec<_>, Vec<_>) = here.partition(|result| result.doubt().is_some());
        let value = |result: &&PointResult| value_of(metric, result, &self.contexts.of(result));
        let mut values: Vec<f64> = sound.iter().filter_map(value).collect();
        values.sort_by(f64::total_cmp);
        let ends = self.bootstrap.borrow_mut().interval_at(&values, look.level);
        let number =
            ends.zip(median(&values)).map(|(ends, value)| Number { value, low: ends.low, high: ends.high });
        let number = number.filter(|_| values.len() >= MIN_PAIRS).ok_or_else(|| {
            let counted =
                Counted { sound: values.len(), doubtful: doubtful.iter().filter_map(value).count() };
            too_few(metric, arm, look.point, counted)
        })?;
        match (metric, look.against) {
            (Metric::AddedLatency, _) => Ok(number.give(self.added_strays(&sound)?)),
            (_, Against::Arms) => Ok(number.give(number.value.abs() * (self.gate(metric)? / 2.0).exp_m1())),
            (_, Against::Numbers) => Ok(number),
        }
    }

    /// How far latency added over local may be from what was measured, ns: it is the difference of two arms, and strays as far as the
    /// control lets a whole latency stray.
    fn added_strays(&self, sound: &[&PointResult]) -> Result<f64, NoNumber> {
        let mean = |result: &&PointResult| value_of(Metric::LatencyMean, result, &self.contexts.of(result));
        let mut means: Vec<f64> = sound.iter().filter_map(mean).collect();
        means.sort_by(f64::total_cmp);
        Ok(median(&means).unwrap_or_default() * self.gate(Metric::LatencyMean)?.exp_m1())
    }

    /// What a difference of arms has to exceed: a logarithm.
    fn gate(&self, metric: Metric) -> Result<f64, NoNumber> {
        self.widths.gate(metric).ok_or(NoNumber::NoControl)
    }

    /// Never surer than the control, in which the same arm stood on both sides.
    fn ratio(&self, metric: Metric, Arms { a, b }: &Arms, look: Look<'_>) -> Evaluated {
        let here = self.results.iter().filter(|result| result.point == look.point);
        let value = |result: &PointResult| value_of(metric, result, &self.contexts.of(result));
        let pairs = pairs_with(here, ArmPair { a, b }, &value).pop();
        let (mut log_ratios, doubtful) =
            pairs.map(|pairs| (pairs.log_ratios, pairs.doubtful)).unwrap_or_default();
        log_ratios.sort_by(f64::total_cmp);
        let ends = self.bootstrap.borrow_mut().interval_at(&log_ratios, look.level);
        let ratio = ends.zip(median(&log_ratios)).filter(|_| log_ratios.len() >= MIN_PAIRS);
        let (ends, middle) = ratio.ok_or_else(|| {
            let counted = Counted { sound: log_ratios.len(), doubtful: wire::saturate(doubtful) };
            too_few(metric, &format!("{a} and {b}"), look.point, counted)
        })?;
        let width = self.gate(metric)?;
        Ok(Number {
            value: middle.exp(),
            low: ends.low.min(middle - width).exp(),
            high: ends.high.max(middle + width).exp(),
        })
    }

    /// Extremes are those of as many intervals as there are points; a mean is as sure as each of its parts.
    fn over(&self, aggregate: Aggregate, node: &Node, look: Look<'_>) -> Evaluated {
        let all: Vec<Number> = match aggregate {
            Aggregate::Mean => self.points.iter().map(|point| self.number(node, look.at(point))).collect(),
            _ => self.each(look).map(|look| self.number(node, look)).collect::<Result<_, _>>(),
        }?;
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
    fn share(&self, node: &Node, look: Look<'_>) -> Number {
        let all: Vec<Option<bool>> = self.each(look).map(|look| self.truth(node, look).holds()).collect();
        let share = |wanted: &[Option<bool>]| {
            real_length(all.iter().filter(|one| wanted.contains(one)).count()) / real_length(all.len())
        };
        let (low, high) = (share(&[Some(true)]), share(&[Some(true), None]));
        Number { value: f64::midpoint(low, high), low, high }
    }

    /// The least value on an axis at which it surely holds; less sure where a lesser one is open. Infinite where it never does.
    fn first(&self, axis: &str, node: &Node, look: Look<'_>) -> Evaluated {
        let mut points: Vec<(f64, Look<'_>)> = Vec::new();
        for look in self.each(look) {
            let value = look.point.iter().find(|here| here.axis == axis).and_then(|here| size(&here.value));
            let lost = || NoNumber::NoValue { axis: axis.to_owned(), point: look.point.to_vec() };
            points.push((value.ok_or_else(lost)?, look));
        }
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut low = None;
        for (value, look) in points {
            match self.truth(node, look) {
                Truth::Yes => return Ok(Number { value, low: low.unwrap_or(value), high: value }),
                Truth::Open(_) => low = low.or(Some(value)),
                Truth::No => {}
            }
        }
        Ok(Number { value: f64::INFINITY, low: low.unwrap_or(f64::INFINITY), high: f64::INFINITY })
    }

    /// Both sides of every comparison, as far as they were measured.
    fn describe(&self, node: &Node, look: Look<'_>, into: &mut Vec<String>) {
        let Node::Compare(_, one, other) = node else {
            for child in node.children() {
                match node {
                    Node::Over(..) | Node::First(..) => {}
                    _ => self.describe(child, look, into),
                }
            }
            return;
        };
        let look = look.between(one, other);
        for side in [one, other] {
            if let (false, Ok(number)) = (matches!(**side, Node::Number(_)), self.number(side, look)) {
                into.push(format!("{side} = {}", number.words(side)));
            }
        }
    }
}

/// Measurements of something, or pairs of them.
#[derive(Clone, Copy)]
struct Counted {
    sound: usize,
    doubtful: usize,
}

fn too_few(metric: Metric, arms: &str, point: &[Coordinate], counted: Counted) -> NoNumber {
    let Counted { sound, doubtful } = counted;
    let (arms, point) = (arms.to_owned(), point.to_vec());
    if sound + doubtful >= MIN_PAIRS {
        let restless = Restless { doubtful: wire::saturate(doubtful), of: wire::saturate(sound + doubtful) };
        return NoNumber::Restless { metric, arms, point, restless };
    }
    NoNumber::TooFew { metric, arms, point, pairs: sound }
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

    /// Not surer than this to either side.
    const fn give(self, strays: f64) -> Self {
        Self {
            value: self.value,
            low: self.low.min(self.value - strays),
            high: self.high.max(self.value + strays),
        }
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
        size if size.is_infinite() => "never".to_owned(),
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}
