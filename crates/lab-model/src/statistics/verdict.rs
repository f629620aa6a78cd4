//! What may be said of two arms at each point of a sweep, in words.
//!
//! A difference is shown when two independent safeguards agree: the 95 % interval of the median ratio leaves out "no
//! difference", and the p-value stays below 5 % after Holm's correction over all points of the sweep. Each p-value counts
//! twice ([`STOPPING`]), because measuring stopped when the interval happened to be narrow.

use crate::statistics::interval::Interval;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::bootstrap::{Bootstrap, median};
use super::number::count;
use super::pairing::{ArmPair, Pairs, pairs};
use super::{MIN_PAIRS, SEED, holm, student};
use crate::result::{Coordinate, PointResult};
use crate::scenario::Metric;

/// Greatest chance of a false finding among all points of a sweep.
pub const LEVEL: f64 = 0.05;

/// How much more often small p-values come when [`super::stopping`] decides the number of pairs: up to 1.8 times with 5 to
/// 12 pairs, at any noise, by 200,000 simulated points without a difference for each of six noise levels.
pub const STOPPING: f64 = 2.0;

/// What stands in place of a verdict where the control has too few undisturbed pairs to say what the bench makes up.
pub const NO_CONTROL: &str = "not shown: the control has too few undisturbed pairs";

/// The comparison of two arms at a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PointVerdict {
    /// The point.
    pub point: Vec<Coordinate>,
    /// The arm that is compared.
    pub a: String,
    /// The arm that it is compared with.
    pub b: String,
    /// What is compared.
    pub metric: Metric,
    /// Usable pairs.
    pub pairs: u32,
    /// Pairs that were left out: a side missing, invalid, doubtful, or without the metric.
    pub unusable: u32,
    /// Of those, pairs of which a side was contended, unsteady or throttled.
    pub doubtful: u32,
    /// The ratio; absent with fewer than [`MIN_PAIRS`] usable pairs.
    pub ratio: Option<Ratio>,
    /// What it shows.
    pub finding: Finding,
}

/// A over B.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Median of the pairs' ratios.
    pub median: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// How likely so much would be without a difference, with [`STOPPING`], before the correction.
    pub p_value: f64,
    /// The same, corrected for all points that were analysed together.
    pub adjusted: f64,
}

/// What a comparison shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// A is above B, whether that is better or not ([`Metric::better`]).
    Higher,
    /// A is below B.
    Lower,
    /// There may be a difference inside the interval, or none.
    NoDifference,
    /// Too few usable pairs.
    NotEnough,
    /// The control cannot say what the bench makes up.
    NoControl,
}

/// The verdict at every point, in the order in which the points first appear; A over B, corrected over all of them together.
///
/// Results of other arms are ignored. Runs that were not paired by block (two commits on two days) may be given too, one as `a`
/// and one as `b`: repetitions are then paired by number, which costs precision and stays honest.
pub fn analyse(results: &[PointResult], a: &str, b: &str, metric: Metric) -> Vec<PointVerdict> {
    let arms = ArmPair { a, b };
    analyse_pairs(&mut Bootstrap::new(SEED), pairs(results, arms, metric), arms, metric)
}

/// The same of pairs, which [`super::pairing::pairs_with`] makes of any value, and with draws that were made before.
pub fn analyse_pairs(
    bootstrap: &mut Bootstrap,
    points: Vec<Pairs>,
    arms: ArmPair<'_>,
    metric: Metric,
) -> Vec<PointVerdict> {
    let ratios: Vec<Option<Ratio>> = points.iter().map(|pairs| ratio(bootstrap, &pairs.log_ratios)).collect();
    let p_values: Vec<f64> = ratios.iter().flatten().map(|ratio| ratio.p_value).collect();
    let mut adjusted = holm::adjust(&p_values).into_iter();
    let mut verdict = |(pairs, ratio): (Pairs, Option<Ratio>)| {
        let ratio = ratio.and_then(|ratio| Some(Ratio { adjusted: adjusted.next()?, ..ratio }));
        PointVerdict {
            point: pairs.point,
            a: arms.a.to_owned(),
            b: arms.b.to_owned(),
            metric,
            pairs: count(pairs.log_ratios.len()),
            unusable: pairs.unusable,
            doubtful: pairs.doubtful,
            ratio,
            finding: ratio.map_or(Finding::NotEnough, finding),
        }
    };
    points.into_iter().zip(ratios).map(&mut verdict).collect()
}

/// The median ratio of pairs with its interval, uncorrected. `None` for fewer than [`MIN_PAIRS`].
pub fn ratio(bootstrap: &mut Bootstrap, log_ratios: &[f64]) -> Option<Ratio> {
    let mut sorted = log_ratios.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Interval { low, high } = bootstrap.interval(&sorted).filter(|_| sorted.len() >= MIN_PAIRS)?;
    let p_value = (student::p_value(&sorted) * STOPPING).min(1.0);
    Some(Ratio {
        median: median(&sorted)?.exp(),
        low: low.exp(),
        high: high.exp(),
        p_value,
        adjusted: p_value,
    })
}

/// What a ratio with its corrected p-value shows.
pub fn finding(ratio: Ratio) -> Finding {
    match ratio {
        _ if ratio.adjusted > LEVEL => Finding::NoDifference,
        _ if ratio.low > 1.0 => Finding::Higher,
        _ if ratio.high < 1.0 => Finding::Lower,
        _ => Finding::NoDifference,
    }
}

impl PointVerdict {
    /// The same beside a control that reached `width` from "no difference" (a logarithm): a smaller difference is not shown, and none
    /// at all where the control has too few undisturbed pairs for a width.
    #[must_use]
    pub fn beside(self, width: Option<f64>) -> Self {
        let size = self.ratio.map(|ratio| ratio.median.ln().abs());
        let finding = match (self.finding, size, width) {
            (_, Some(_), None) => Finding::NoControl,
            (Finding::Higher | Finding::Lower, Some(size), Some(width)) if size < width => {
                Finding::NoDifference
            }
            (other, ..) => other,
        };
        Self { finding, ..self }
    }

    /// `A higher by 12 % (CI 7–18, 8 pairs)`, `no difference shown (CI −6…+9)` or `not enough`.
    pub fn words(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for PointVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(ratio) = self.ratio else {
            return match self.doubtful {
                0 => f.write_str("not enough"),
                doubtful => write!(f, "{}", Restless { doubtful, of: self.pairs + self.unusable }),
            };
        };
        let [median, low, high] = [ratio.median, ratio.low, ratio.high].map(|ratio| (ratio - 1.0) * 100.0);
        let digits = digits([median, low, high]);
        let (word, median, from, to) = match self.finding {
            Finding::NotEnough => return f.write_str("not enough"),
            Finding::NoControl => return f.write_str(NO_CONTROL),
            Finding::NoDifference => {
                return write!(
                    f,
                    "no difference shown (CI {}…{})",
                    signed(low, digits),
                    signed(high, digits)
                );
            }
            Finding::Higher => ("higher", median, low, high),
            Finding::Lower => ("lower", -median, -high, -low),
        };
        let (a, pairs) = (&self.a, self.pairs);
        write!(f, "{a} {word} by {median:.digits$} % (CI {from:.digits$}–{to:.digits$}, {pairs} pairs)")
    }
}

/// Why a machine showed nothing: too few pairs were undisturbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restless {
    /// Pairs of which a side was disturbed.
    pub doubtful: u32,
    /// All pairs.
    pub of: u32,
}

impl fmt::Display for Restless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "not shown: machine too restless ({} of {} pairs contended, unsteady or throttled)",
            self.doubtful, self.of
        )
    }
}

/// Whole per cent, or tenths where whole ones would hide something below one.
fn digits(percents: [f64; 3]) -> usize {
    usize::from(percents.iter().any(|percent| percent.abs() < 1.0))
}

/// With a sign, unless it rounds to zero.
fn signed(percent: f64, digits: usize) -> String {
    let text = format!("{:.digits$}", percent.abs());
    let sign = match percent {
        _ if text.chars().all(|letter| matches!(letter, '0' | '.')) => "",
        _ if percent < 0.0 => "−",
        _ => "+",
    };
    format!("{sign}{text}")
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
