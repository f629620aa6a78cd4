//! Why a claim has no verdict, or a part of its test no number: what a report prints in place of one.

use std::collections::BTreeMap;
use std::fmt;

use super::grammar::Node;
use crate::evidence::Evidence;
use crate::result::{Coordinate, point_name};
use crate::scenario::Metric;
use crate::statistics::MIN_PAIRS;
use crate::statistics::verdict::NO_CONTROL;
use crate::statistics::verdict::Restless;

/// Why a claim cannot be tested.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotTestable {
    #[error("the scenario has no test in numbers for it")]
    NoTest,
    #[error("{0:#}")]
    Grammar(anyhow::Error),
    /// No arm of the scenario can be run, for these reasons.
    #[error("nothing of this scenario can be run here: {}", .0.join("; "))]
    NothingRuns(Vec<String>),
    /// Arms of the test have no price, for these reasons.
    #[error("{}", .0.join("; "))]
    Unpriced(Vec<String>),
    #[error(transparent)]
    Incomparable(#[from] Incomparable),
    #[error(transparent)]
    NotMeasured(#[from] NotMeasured),
}

/// Two arms of a test, one the thing itself and one that stands in for it.
#[derive(Debug, thiserror::Error)]
#[error("{} is {} and {} is {}: they are not compared", .one.arm, .one.label, .other.arm, .other.label)]
pub(crate) struct Incomparable {
    one: Labelled,
    other: Labelled,
}

/// An arm, and what it is evidence of.
#[derive(Clone, Copy)]
pub(super) struct ArmEvidence<'a> {
    pub(super) key: &'a str,
    pub(super) evidence: &'a Evidence,
}

#[derive(Debug)]
struct Labelled {
    arm: String,
    label: &'static str,
}

impl Incomparable {
    /// These two arms.
    pub(super) fn new(one: ArmEvidence<'_>, other: ArmEvidence<'_>) -> Self {
        let labelled =
            |arm: ArmEvidence<'_>| Labelled { arm: arm.key.to_owned(), label: arm.evidence.label() };
        Self { one: labelled(one), other: labelled(other) }
    }
}

/// No measured point lies where the claim says.
#[derive(Debug, PartialEq, Eq)]
pub struct NotMeasured(pub(super) BTreeMap<String, String>);

impl fmt::Display for NotMeasured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing was measured")?;
        for (index, (axis, value)) in self.0.iter().enumerate() {
            let before = if index == 0 { " at" } else { "" };
            write!(f, "{before} {axis}={value}")?;
        }
        Ok(())
    }
}

impl std::error::Error for NotMeasured {}

/// Why a part of a test has no number at a point.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum NoNumber {
    /// The part is true or false.
    #[error("`{0}` is not a number")]
    Truth(Node),
    /// Too few pairs for an interval.
    #[error(
        "{} of {arms} at {} was measured {pairs} times, and an interval takes {MIN_PAIRS}",
        .metric.name(),
        point_name(.point)
    )]
    TooFew { metric: Metric, arms: String, point: Vec<Coordinate>, pairs: usize },
    /// The point has no number on the axis.
    #[error("{axis} has no numbers at {}", point_name(.point))]
    NoValue { axis: String, point: Vec<Coordinate> },
    /// Too few pairs were undisturbed.
    #[error("{restless}, {} of {arms} at {}", .metric.name(), point_name(.point))]
    Restless { metric: Metric, arms: String, point: Vec<Coordinate>, restless: Restless },
    /// Arms are compared, and the control cannot say what the bench makes up.
    #[error("{NO_CONTROL}")]
    NoControl,
    #[error("a divisor may be zero")]
    Divisor,
    /// The test names a value on an axis that the point does not have.
    #[error("{} has no axis {axis}, of which the test names a value", point_name(.point))]
    NoAxis { axis: String, point: Vec<Coordinate> },
}
