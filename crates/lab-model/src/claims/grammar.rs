//! The language of claims.
//!
//! ```text
//! test       = either { "or" either }
//! either     = negation { "and" negation }
//! negation   = "not" negation | comparison
//! comparison = sum [ ( ">=" | "<=" | ">" | "<" ) sum ]
//! sum        = product { ( "+" | "-" ) product }
//! product    = factor { ( "*" | "/" ) factor }
//! factor     = "-" factor | NUMBER | "(" test ")" | call
//! call       = METRIC "(" ARM { "," place } ")"     an arm's value at the point
//!            | "ratio" "(" METRIC { "," place } ")" A over B there, paired by block
//!            | "mean" "(" test ")"                  over the claim's points; "max" and "min" likewise
//!            | "share" "(" test ")"                 of the claim's points at which it holds, 0 to 1
//!            | "all" "(" test ")"                   whether it holds at all of them; "any" at one at least
//!            | "first" "(" AXIS "," test ")"        the least value of a numeric axis at which it holds
//! place      = AXIS "=" VALUE                       there instead of the point's own value on that axis
//! ```
//!
//! Values are in base units ([`crate::statistics::metric::value_of`]): bytes per second, nanoseconds, per cent. A test that speaks of a point
//! outside of any call over points must hold at every point of the claim. `iops(A) / iops(B)` is paired by block, too.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::{Context, Result, bail, ensure};

use crate::result::Coordinate;
use crate::scenario::Metric;

/// Brackets and signs within one another; a claim has two or three. Keeps a scenario file from using up the stack.
const MAX_DEPTH: usize = 32;

/// A claim's test.
#[derive(Debug, Clone, PartialEq)]
pub struct Test(pub(crate) Node);

/// Two arms, of which one is measured against the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arms {
    pub(crate) a: String,
    pub(crate) b: String,
}

/// A part of a test.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Number(f64),
    /// An arm's value.
    Value(Metric, String, Vec<Coordinate>),
    /// One arm over another, paired.
    Ratio(Metric, Arms, Vec<Coordinate>),
    Negative(Box<Node>),
    Arithmetic(Operator, Box<Node>, Box<Node>),
    Compare(Comparison, Box<Node>, Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Not(Box<Node>),
    /// Over the points of the claim.
    Over(Aggregate, Box<Node>),
    First(String, Box<Node>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Plus,
    Minus,
    Times,
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    AtLeast,
    AtMost,
    Above,
    Below,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aggregate {
    Mean,
    Max,
    Min,
    Share,
    All,
    Any,
}

const OPERATORS: [(&str, Operator); 4] =
    [("+", Operator::Plus), ("-", Operator::Minus), ("*", Operator::Times), ("/", Operator::Over)];

/// Longer ones first, so that `>=` is not read as `>`.
const COMPARISONS: [(&str, Comparison); 4] = [
    (">=", Comparison::AtLeast),
    ("<=", Comparison::AtMost),
    (">", Comparison::Above),
    ("<", Comparison::Below),
];

const AGGREGATES: [(&str, Aggregate); 6] = [
    ("mean", Aggregate::Mean),
    ("max", Aggregate::Max),
    ("min", Aggregate::Min),
    ("share", Aggregate::Share),
    ("all", Aggregate::All),
    ("any", Aggregate::Any),
];

impl Aggregate {
    /// Whether it takes a yes or no from each point, and not a number.
    const fn takes_truth(self) -> bool {
        matches!(self, Self::Share | Self::All | Self::Any)
    }

    /// Whether it is itself a yes or no.
    const fn is_truth(self) -> bool {
        matches!(self, Self::All | Self::Any)
    }
}

impl Test {
    /// Reads a test. An error says what was expected, and where.
    pub fn parse(text: &str) -> Result<Self> {
        let mut reader = Reader { text, at: 0, depth: 0 };
        let node = reader.test().and_then(|node| {
            reader.end()?;
            reader.truth(node)
        });
        node.map(Self).with_context(|| format!("the test `{text}`"))
    }

    /// The arms that it names.
    pub fn arms(&self) -> BTreeSet<&str> {
        let mut arms = BTreeSet::new();
        self.0.visit(&mut |node| match node {
            Node::Value(_, arm, _) => arms.extend([arm.as_str()]),
            Node::Ratio(_, Arms { a, b }, _) => arms.extend([a.as_str(), b.as_str()]),
            _ => {}
        });
        arms
    }

    /// The places that it names beside the claim's own points.
    pub fn places(&self) -> Vec<&Coordinate> {
        let mut places = Vec::new();
        self.0.visit(&mut |node| {
            if let Node::Value(_, _, at) | Node::Ratio(_, _, at) = node {
                places.extend(at);
            }
        });
        places
    }

    /// Whether it asks for what arms cost.
    pub fn needs_prices(&self) -> bool {
        let mut found = false;
        self.0.visit(&mut |node| {
            if let Node::Value(metric, ..) | Node::Ratio(metric, ..) = node {
                found |= metric.needs_price();
            }
        });
        found
    }

    /// Its numbers, without those of "more", "less" and "the same".
    pub fn thresholds(&self) -> Vec<f64> {
        let mut numbers = Vec::new();
        self.0.visit(&mut |node| {
            if let Node::Number(number) = node
                && ![0.0, 1.0].contains(number)
            {
                numbers.push(*number);
            }
        });
        numbers
    }

    /// How many comparisons it has.
    pub fn comparisons(&self) -> usize {
        let mut count = 0;
        self.0.visit(&mut |node| count += usize::from(matches!(node, Node::Compare(..))));
        count
    }

    /// Whether it may hold in more than one way.
    pub fn has_choices(&self) -> bool {
        let mut found = false;
        self.0.visit(&mut |node| found |= matches!(node, Node::Or(..) | Node::Not(_)));
        found
    }

    /// Whether it says something about a single point, and not only about all of them together.
    pub fn depends_on_point(&self) -> bool {
        self.0.depends_on_point()
    }
}

impl Node {
    pub(crate) fn visit<'a>(&'a self, look: &mut dyn FnMut(&'a Self)) {
        look(self);
        for child in self.children() {
            child.visit(look);
        }
    }

    pub(crate) fn children(&self) -> Vec<&Self> {
        match self {
            Self::Number(_) | Self::Value(..) | Self::Ratio(..) => Vec::new(),
            Self::Negative(one) | Self::Not(one) | Self::Over(_, one) | Self::First(_, one) => vec![one],
            Self::Arithmetic(_, one, other)
            | Self::Compare(_, one, other)
            | Self::And(one, other)
            | Self::Or(one, other) => vec![one, other],
        }
    }

    fn depends_on_point(&self) -> bool {
        match self {
            Self::Value(..) | Self::Ratio(..) => true,
            Self::Over(..) | Self::First(..) => false,
            _ => self.children().into_iter().any(Self::depends_on_point),
        }
    }

    fn is_truth(&self) -> bool {
        match self {
            Self::Compare(..) | Self::And(..) | Self::Or(..) | Self::Not(_) => true,
            Self::Over(aggregate, _) => aggregate.is_truth(),
            _ => false,
        }
    }
}

/// Reads a test from left to right.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn test(&mut self) -> Result<Node> {
        self.chain("or", Self::either, Node::Or)
    }

    fn either(&mut self) -> Result<Node> {
        self.chain("and", Self::negation, Node::And)
    }

    fn chain(
        &mut self,
        word: &str,
        part: fn(&mut Self) -> Result<Node>,
        join: fn(Box<Node>, Box<Node>) -> Node,
    ) -> Result<Node> {
        let mut all = part(self)?;
        while self.eat_word(word) {
            let left = self.truth(all)?;
            let right = part(self)?;
            all = join(Box::new(left), Box::new(self.truth(right)?));
        }
        Ok(all)
    }

    fn negation(&mut self) -> Result<Node> {
        if !self.eat_word("not") {
            return self.comparison();
        }
        let inner = self.deeper(Self::negation)?;
        Ok(Node::Not(Box::new(self.truth(inner)?)))
    }

    fn comparison(&mut self) -> Result<Node> {
        let left = self.sum()?;
        let Some(comparison) = self.eat_any(&COMPARISONS) else { return Ok(left) };
        let left = self.number_of(left)?;
        let right = self.sum()?;
        Ok(Node::Compare(comparison, Box::new(left), Box::new(self.number_of(right)?)))
    }

    fn sum(&mut self) -> Result<Node> {
        self.arithmetic(&OPERATORS[..2], Self::product)
    }

    fn product(&mut self) -> Result<Node> {
        self.arithmetic(&OPERATORS[2..], Self::factor)
    }

    fn arithmetic(
        &mut self,
        operators: &[(&str, Operator)],
        part: fn(&mut Self) -> Result<Node>,
    ) -> Result<Node> {
        let mut all = part(self)?;
        while let Some(operator) = self.eat_any(operators) {
            let left = self.number_of(all)?;
            let right = part(self)?;
            all = joined(operator, left, self.number_of(right)?);
        }
        Ok(all)
    }

    fn factor(&mut self) -> Result<Node> {
        if self.eat("-") {
            let inner = self.deeper(Self::factor)?;
            return Ok(Node::Negative(Box::new(self.number_of(inner)?)));
        }
        if self.eat("(") {
            let inner = self.deeper(Self::test)?;
            self.expect(")")?;
            return Ok(inner);
        }
        match self.rest().chars().next() {
            Some(first) if first.is_ascii_digit() || first == '.' => self.literal(),
            Some(first) if first.is_ascii_alphabetic() => self.deeper(Self::call),
            _ => bail!("a number, a metric or a function is expected {}", self.place()),
        }
    }

    fn literal(&mut self) -> Result<Node> {
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let in_exponent =
            |at: usize| at > 0 && bytes.get(at - 1).is_some_and(|before| before.eq_ignore_ascii_case(&b'e'));
        let belongs = |(at, letter): (usize, char)| {
            letter.is_ascii_digit()
                || matches!(letter, '.' | 'e' | 'E')
                || (matches!(letter, '+' | '-') && in_exponent(at))
        };
        let end = rest.char_indices().find(|&one| !belongs(one)).map_or(rest.len(), |(at, _)| at);
        let number =
            rest.get(..end).and_then(|digits| digits.parse::<f64>().ok()).filter(|number| number.is_finite());
        let number =
            number.with_context(|| format!("a number such as 2.13 or 1.9e6 is expected {}", self.place()))?;
        self.at += end;
        Ok(Node::Number(number))
    }

    fn call(&mut self) -> Result<Node> {
        let place = self.place();
        let name = self.word()?;
        self.expect("(")?;
        let node = match AGGREGATES.iter().find(|(known, _)| *known == name) {
            Some(&(_, aggregate)) => self.over(aggregate)?,
            None if name == "ratio" => {
                let metric = self.metric()?;
                let arms = Arms { a: "A".to_owned(), b: "B".to_owned() };
                Node::Ratio(metric, arms, self.coordinates()?)
            }
            None if name == "first" => self.first()?,
            None => {
                let metric = Metric::named(name).with_context(|| unknown(name, &place))?;
                let arm = self.word()?.to_owned();
                Node::Value(metric, arm, self.coordinates()?)
            }
        };
        self.expect(")")?;
        Ok(node)
    }

    fn over(&mut self, aggregate: Aggregate) -> Result<Node> {
        let inner = self.test()?;
        let inner = if aggregate.takes_truth() { self.truth(inner)? } else { self.number_of(inner)? };
        Ok(Node::Over(aggregate, Box::new(inner)))
    }

    fn first(&mut self) -> Result<Node> {
        let axis = self.word()?.to_owned();
        self.expect(",")?;
        let inner = self.test()?;
        Ok(Node::First(axis, Box::new(self.truth(inner)?)))
    }

    fn metric(&mut self) -> Result<Metric> {
        let place = self.place();
        let name = self.word()?;
        Metric::named(name).with_context(|| unknown(name, &place))
    }

    fn coordinates(&mut self) -> Result<Vec<Coordinate>> {
        let mut all = Vec::new();
        while self.eat(",") {
            let axis = self.word()?.to_owned();
            self.expect("=")?;
            let rest = self.rest();
            let end = rest.find([',', ')']).unwrap_or(rest.len());
            let value = rest.get(..end).unwrap_or_default().trim().to_owned();
            ensure!(!value.is_empty(), "a value of {axis} is expected {}", self.place());
            self.at += end;
            all.push(Coordinate { axis, value });
        }
        Ok(all)
    }

    fn deeper(&mut self, part: fn(&mut Self) -> Result<Node>) -> Result<Node> {
        ensure!(self.depth < MAX_DEPTH, "more than {MAX_DEPTH} brackets within one another {}", self.place());
        self.depth += 1;
        let node = part(self);
        self.depth -= 1;
        node
    }

    fn truth(&mut self, node: Node) -> Result<Node> {
        ensure!(node.is_truth(), "`{node}` is a number where a comparison is expected, {}", self.place());
        Ok(node)
    }

    fn number_of(&mut self, node: Node) -> Result<Node> {
        ensure!(!node.is_truth(), "`{node}` is a comparison where a number is expected, {}", self.place());
        Ok(node)
    }

    /// What is still to be read, without space before it.
    fn rest(&mut self) -> &'a str {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn eat_any<T: Copy>(&mut self, tokens: &[(&str, T)]) -> Option<T> {
        tokens.iter().find(|(token, _)| self.eat(token)).map(|(_, meaning)| *meaning)
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = leading_word(self.rest()) == word;
        if found {
            self.at += word.len();
        }
        found
    }

    fn word(&mut self) -> Result<&'a str> {
        let word = leading_word(self.rest());
        ensure!(!word.is_empty(), "a name is expected {}", self.place());
        self.at += word.len();
        Ok(word)
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        ensure!(self.eat(token), "`{token}` is expected {}", self.place());
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        ensure!(self.rest().is_empty(), "nothing more is expected {}", self.place());
        Ok(())
    }

    fn place(&mut self) -> String {
        let rest = self.rest();
        if rest.is_empty() { "at the end".to_owned() } else { format!("at `{rest}`") }
    }
}

/// One arm's value over another's is paired where both are of the same metric and place.
fn joined(operator: Operator, left: Node, right: Node) -> Node {
    match (operator, left, right) {
        (Operator::Over, Node::Value(metric, a, at), Node::Value(other, b, there))
            if metric == other && at == there =>
        {
            Node::Ratio(metric, Arms { a, b }, at)
        }
        (operator, left, right) => Node::Arithmetic(operator, Box::new(left), Box::new(right)),
    }
}

fn leading_word(text: &str) -> &str {
    let end =
        text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

fn unknown(name: &str, place: &str) -> String {
    let names: Vec<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
    let functions = AGGREGATES.map(|(name, _)| name).join(", ");
    format!(
        "`{name}` is unknown {place}; the metrics are {}; the functions ratio, first, {functions}",
        names.join(", ")
    )
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Value(metric, arm, at) => write!(f, "{}({arm}{})", metric.name(), places(at)),
            Self::Ratio(metric, Arms { a, b }, at) if (a.as_str(), b.as_str()) == ("A", "B") => {
                write!(f, "ratio({}{})", metric.name(), places(at))
            }
            Self::Ratio(metric, Arms { a, b }, at) => {
                let (name, places) = (metric.name(), places(at));
                write!(f, "{name}({a}{places}) / {name}({b}{places})")
            }
            Self::Negative(one) => write!(f, "-({one})"),
            Self::Arithmetic(operator, one, other) => {
                write!(f, "({one} {} {other})", named(&OPERATORS, *operator))
            }
            Self::Compare(comparison, one, other) => {
                write!(f, "{one} {} {other}", named(&COMPARISONS, *comparison))
            }
            Self::And(one, other) => write!(f, "({one} and {other})"),
            Self::Or(one, other) => write!(f, "({one} or {other})"),
            Self::Not(one) => write!(f, "not ({one})"),
            Self::Over(aggregate, one) => write!(f, "{}({one})", named(&AGGREGATES, *aggregate)),
            Self::First(axis, one) => write!(f, "first({axis}, {one})"),
        }
    }
}

fn named<'a, T: PartialEq + Copy>(names: &[(&'a str, T)], meaning: T) -> &'a str {
    names.iter().find(|(_, known)| *known == meaning).map_or("", |(name, _)| name)
}

fn places(at: &[Coordinate]) -> String {
    at.iter().fold(String::new(), |all, place| all + ", " + &place.axis + "=" + &place.value)
}

#[cfg(test)]
#[path = "grammar_tests.rs"]
mod tests;
