//! Two runs side by side: `lab compare` and `lab regress`.
//!
//! Points are matched by arm and coordinates. Runs with the same identity were measured in interleaved blocks, so their
//! repetitions are pairs and drift cancels; others are not paired ([`unpaired`]), and the comparison says so. What was
//! measured on the thing itself is not set against a stand-in unless that is asked for by name. Arms of one run are compared beside
//! that run's control, as in its report, and two runs beside the controls of both, of which the wider one gates.

mod table;
mod threshold;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde::Serialize;

pub use threshold::{Side, Threshold};

use crate::report::environment::flat;
use crate::report::run::Run;
use lab_model::result::{Coordinate, PointResult, point_name};
use lab_model::scenario::Metric;
use lab_model::statistics::bootstrap::{Bootstrap, median};
use lab_model::statistics::control::Widths;
use lab_model::statistics::metric::{Context, value_of};
use lab_model::statistics::number::count;
use lab_model::statistics::pairing::ArmPair;
use lab_model::statistics::verdict::{Ratio, finding, ratio};
use lab_model::statistics::{Finding, PointVerdict, SEED, holm, unpaired};

/// What is compared when neither the caller nor the scenarios say.
const USUAL: [Metric; 5] =
    [Metric::Iops, Metric::Bandwidth, Metric::LatencyP50, Metric::LatencyP99, Metric::CpuHost];

/// How to compare.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// What to compare; the metrics of the scenarios' figures when empty.
    pub metrics: Vec<Metric>,
    /// Set measurements against stand-ins (emulated, simulated) all the same.
    pub across_evidence: bool,
}

/// One of two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Party {
    /// How verdicts call it.
    pub name: String,
    /// Its folder.
    pub folder: String,
    /// Its identity.
    pub run: String,
    /// What was built.
    pub commit: Option<String>,
    /// Its scenario.
    pub scenario: String,
    /// When it began.
    pub started: String,
    /// The labels of its results, each once.
    pub evidence: Vec<String>,
}

/// How repetitions belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pairing {
    /// By block, within one run.
    Paired,
    /// Not at all: two runs.
    Unpaired,
}

/// A fact of the environment that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What, with the path to it: `cpu.model`.
    pub name: String,
    /// In the first run.
    pub a: Option<String>,
    /// In the second.
    pub b: Option<String>,
}

/// A metric at a point of both.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The arm, or the two arms of one run.
    pub arm: String,
    /// Median of the first, in the metric's base unit.
    pub a: Option<f64>,
    /// Median of the second.
    pub b: Option<f64>,
    /// What it shows: A over B.
    pub verdict: PointVerdict,
    /// The smallest difference that the controls let be shown, per cent; absent where a run has no control.
    pub smallest_percent: Option<f64>,
    /// The verdict in words.
    pub words: String,
}

impl Row {
    /// The ratio, no surer than the control: its interval reaches as far to either side at least. `None` without a control.
    fn gated(&self) -> Option<Ratio> {
        let (ratio, beyond) = (self.verdict.ratio?, 1.0 + self.smallest_percent? / 100.0);
        let (low, high) = (ratio.low.min(ratio.median / beyond), ratio.high.max(ratio.median * beyond));
        Some(Ratio { low, high, ..ratio })
    }
}

/// What a comparison shows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The first run.
    pub a: Party,
    /// The second.
    pub b: Party,
    /// Whether pairs cancel what drifts.
    pub pairing: Pairing,
    /// What differs around the measurements.
    pub environment: Vec<Difference>,
    /// Every metric at every point that both have.
    pub rows: Vec<Row>,
    /// Arms and points that only one of them has.
    pub unmatched: Vec<String>,
    /// What makes the comparison or one of its runs doubtful.
    pub notes: Vec<String>,
}

/// What `regress` found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Regression {
    /// The rows whose whole interval lies beyond a threshold.
    pub failed: Vec<Failure>,
    /// Thresholds that no point could be held against.
    pub untested: Vec<Threshold>,
    /// Why the runs are not to be trusted: results with errors or wrong data, and files that cannot be read.
    pub invalid: Vec<String>,
    /// Everything that was compared; `a` is the current run, `b` the baseline.
    pub comparison: Comparison,
}

/// A point that got worse by more than is allowed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Failure {
    /// What it broke.
    pub threshold: Threshold,
    /// The arm.
    pub arm: String,
    /// The point.
    pub point: String,
    /// The verdict in words.
    pub words: String,
}

/// What a regression run means for whoever called it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// No threshold was broken.
    Fine,
    /// One was.
    Regression,
    /// A run has results that are worthless.
    Invalid,
    /// Nothing could be held against a threshold.
    NotTestable,
}

impl Outcome {
    /// The exit code of the command: 0, 1, 2, 3.
    pub const fn code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Regression => 1,
            Self::Invalid => 2,
            Self::NotTestable => 3,
        }
    }
}

impl Regression {
    /// Worthless results come before a regression, which may be their doing, and a regression before what was not tested.
    pub const fn outcome(&self) -> Outcome {
        if !self.invalid.is_empty() {
            Outcome::Invalid
        } else if !self.failed.is_empty() {
            Outcome::Regression
        } else if !self.untested.is_empty() {
            Outcome::NotTestable
        } else {
            Outcome::Fine
        }
    }
}

/// Compares two run directories, or the first arm of one with its others when both are the same directory.
pub fn compare(a: &Path, b: &Path, options: &Options) -> Result<Comparison> {
    let (first, second) = (Run::read(a)?, Run::read(b)?);
    let a = Compared { name: "A", folder: a, run: &first };
    let b = Compared { name: "B", folder: b, run: &second };
    compared(a, b, options)
}

/// Holds a run against a baseline. Only a whole interval beyond a threshold is a regression, and no interval is narrower than the
/// wider control of both runs.
pub fn regress(
    baseline: &Path,
    current: &Path,
    thresholds: &[Threshold],
    options: &Options,
) -> Result<Regression> {
    if thresholds.is_empty() {
        bail!("nothing can fail: say what does, such as --fail-on \"iops<-5%\" \"latency_p99>+10%\"");
    }
    let (old, new) = (Run::read(baseline)?, Run::read(current)?);
    let metrics: BTreeSet<Metric> = thresholds.iter().map(|threshold| threshold.metric).collect();
    let options = Options { metrics: metrics.into_iter().collect(), ..options.clone() };
    if same(baseline, current) {
        bail!("baseline and current are the same folder, {}: name two runs", current.display());
    }
    let after = Compared { name: "current", folder: current, run: &new };
    let before = Compared { name: "baseline", folder: baseline, run: &old };
    let comparison = compared(after, before, &options)?;
    let invalid = worthless("baseline", &old).chain(worthless("current", &new)).collect();
    let (mut failed, mut untested) = (Vec::new(), Vec::new());
    for threshold in thresholds {
        let rows = comparison.rows.iter().filter(|row| row.verdict.metric == threshold.metric);
        let mut ratios = rows.filter_map(|row| Some((row, row.gated()?))).peekable();
        if ratios.peek().is_none() {
            untested.push(*threshold);
        }
        failed.extend(ratios.filter(|(_, ratio)| threshold.fails(ratio)).map(|(row, ratio)| Failure {
            threshold: *threshold,
            arm: row.arm.clone(),
            point: point_name(&row.verdict.point),
            words: format!("{}{}", row.words, outside(&row.verdict, &ratio)),
        }));
    }
    Ok(Regression { failed, untested, invalid, comparison })
}

/// Many points together raise the chance that one looks bad; what Holm's correction takes back is said.
fn outside(verdict: &PointVerdict, ratio: &Ratio) -> String {
    match verdict.finding {
        Finding::Higher | Finding::Lower => String::new(),
        _ => format!(
            "; by itself {:.1} to {:.1} %, among all points together not shown",
            (ratio.low - 1.0) * 100.0,
            (ratio.high - 1.0) * 100.0
        ),
    }
}

fn worthless<'a>(name: &'a str, run: &'a Run) -> impl Iterator<Item = String> + 'a {
    let invalid = run.points.iter().filter(|result| !result.valid()).map(move |result| {
        format!(
            "{name}: arm {} at {}, repetition {}, is invalid",
            result.arm,
            result.point_name(),
            result.repetition
        )
    });
    let unreadable = run.unreadable.iter().map(move |file| format!("{name}: cannot read {file}"));
    let empty = run.points.is_empty().then(|| format!("{name}: the run has no results"));
    invalid.chain(unreadable).chain(empty)
}

fn same(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

/// Results of one arm at one point in both runs.
struct Group<'a> {
    arm: String,
    point: &'a [Coordinate],
    a: Vec<&'a PointResult>,
    b: Vec<&'a PointResult>,
}

/// A run that is compared.
#[derive(Clone, Copy)]
struct Compared<'a> {
    /// What the comparison calls it.
    name: &'a str,
    folder: &'a Path,
    run: &'a Run,
}

/// How the rows of a comparison are made.
#[derive(Clone, Copy)]
struct How<'a> {
    /// What the runs are called.
    names: ArmPair<'a>,
    pairing: Pairing,
    /// What the controls cannot tell apart, of each run that is compared.
    widths: &'a [Widths],
}

fn compared(one: Compared<'_>, other: Compared<'_>, options: &Options) -> Result<Comparison> {
    let (a, b) = (one.run, other.run);
    let names = ArmPair { a: one.name, b: other.name };
    let own = same(one.folder, other.folder);
    let groups = if own { arms(a)? } else { groups(a, b) };
    let pairing = if own || same_run(a, b) { Pairing::Paired } else { Pairing::Unpaired };
    if !options.across_evidence {
        groups.iter().try_for_each(evidence)?;
    }
    let (matched, single): (Vec<Group<'_>>, Vec<Group<'_>>) =
        groups.into_iter().partition(|group| !group.a.is_empty() && !group.b.is_empty());
    let mut comparison = Comparison {
        a: party(one),
        b: party(other),
        pairing,
        environment: differences(a, b),
        rows: Vec::new(),
        unmatched: single.iter().map(|group| only(group, names)).collect(),
        notes: notes(a, b, pairing, &matched),
    };
    let mut bootstrap = Bootstrap::new(SEED);
    let runs = if own { &[one][..] } else { &[one, other] };
    let widths: Vec<Widths> = runs.iter().map(|of| Widths::of(&of.run.control)).collect();
    let lacking = runs.iter().zip(&widths).filter(|(_, widths)| widths.is_empty());
    comparison.notes.extend(lacking.map(|(of, _)| {
        format!("{} has no control with enough undisturbed pairs, so that no difference is shown", of.name)
    }));
    let how = How { names, pairing, widths: &widths };
    for metric in metrics(options, a, b) {
        comparison.rows.extend(rows(&mut bootstrap, &matched, how, metric));
    }
    Ok(comparison)
}

fn party(Compared { name, folder, run }: Compared<'_>) -> Party {
    let labels: BTreeSet<String> = run.points.iter().map(|result| result.evidence.to_string()).collect();
    Party {
        name: name.to_owned(),
        folder: folder.display().to_string(),
        run: run.info.id.clone(),
        commit: run.info.commit.clone(),
        scenario: run.scenario.id.clone(),
        started: run.info.started.clone(),
        evidence: labels.into_iter().collect(),
    }
}

fn same_run(a: &Run, b: &Run) -> bool {
    !a.info.id.is_empty() && a.info.id == b.info.id && a.info.started == b.info.started
}

/// Every arm and point of either run, as they first occur.
fn groups<'a>(a: &'a Run, b: &'a Run) -> Vec<Group<'a>> {
    let mut places: BTreeMap<(&str, &[Coordinate]), usize> = BTreeMap::new();
    let mut groups: Vec<Group<'a>> = Vec::new();
    let both =
        a.points.iter().map(|result| (result, true)).chain(b.points.iter().map(|result| (result, false)));
    for (result, first) in both {
        let place = *places.entry((&result.arm, &result.point)).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Group {
                arm: result.arm.clone(),
                point: &result.point,
                a: Vec::new(),
                b: Vec::new(),
            });
        }
        if let Some(group) = groups.get_mut(place) {
            if first { group.a.push(result) } else { group.b.push(result) }
        }
    }
    groups
}

/// The first arm of a run against each of its others.
fn arms(run: &Run) -> Result<Vec<Group<'_>>> {
    let keys: Vec<&str> = run.scenario.arms.iter().map(|arm| arm.key.as_str()).collect();
    let (first, others) = keys.split_first().filter(|(_, others)| !others.is_empty()).with_context(|| {
        format!("the run {} has one arm only: name a second run to compare it with", run.info.id)
    })?;
    let mut points: Vec<&[Coordinate]> = Vec::new();
    for result in &run.points {
        if !points.contains(&result.point.as_slice()) {
            points.push(&result.point);
        }
    }
    let of = |arm: &str, point: &[Coordinate]| {
        run.points.iter().filter(|result| result.arm == arm && result.point == point).collect()
    };
    let pairs = points.iter().flat_map(|point| others.iter().map(move |other| (*point, *other)));
    Ok(pairs
        .map(|(point, other)| Group {
            arm: format!("{first} as A, {other} as B"),
            point,
            a: of(first, point),
            b: of(other, point),
        })
        .collect())
}

fn evidence(group: &Group<'_>) -> Result<()> {
    let (Some(a), Some(b)) = (group.a.first(), group.b.first()) else { return Ok(()) };
    if !a.evidence.comparable(&b.evidence) {
        bail!(
            "arm {} at {}: one is {}, the other {}; a stand-in is no measurement of the thing. Pass --across-evidence to \
             see them side by side all the same",
            group.arm,
            point_name(group.point),
            a.evidence,
            b.evidence
        );
    }
    Ok(())
}

fn only(group: &Group<'_>, names: ArmPair<'_>) -> String {
    let name = if group.b.is_empty() { names.a } else { names.b };
    format!("{} at {}: only in {name}", group.arm, point_name(group.point))
}

fn notes(a: &Run, b: &Run, pairing: Pairing, matched: &[Group<'_>]) -> Vec<String> {
    let mut notes = Vec::new();
    if pairing == Pairing::Unpaired {
        notes.push(
            "two runs, not interleaved: repetitions are not paired, intervals are wider, and what changed once between the \
             runs looks like a difference"
                .to_owned(),
        );
    }
    if a.info.scenario_hash != b.info.scenario_hash {
        notes.push("the scenarios differ: only points of the same name were matched".to_owned());
    }
    if matched.is_empty() {
        notes.push("no arm and point is in both".to_owned());
    }
    let labels: BTreeSet<(&str, &str)> = matched
        .iter()
        .filter_map(|group| Some((group.a.first()?.evidence.label(), group.b.first()?.evidence.label())))
        .filter(|(a, b)| a != b)
        .collect();
    notes.extend(labels.iter().map(|(a, b)| format!("{a} stands against {b}")));
    for run in [a, b] {
        notes.extend(run.unreadable.iter().map(|file| format!("{}: cannot read {file}", run.info.id)));
    }
    notes
}

/// Facts of the environment that are not the same, and with them commit and tools.
fn differences(a: &Run, b: &Run) -> Vec<Difference> {
    let facts = |run: &Run| -> BTreeMap<String, String> {
        let tools: BTreeMap<String, String> = run
            .points
            .iter()
            .map(|result| (format!("tool.{}", result.tool.name), result.tool.version.clone()))
            .collect();
        let commit = run.info.commit.clone().map(|commit| ("commit".to_owned(), commit));
        let environment = flat(&run.info.environment).into_iter().map(|fact| (fact.name, fact.value));
        environment.chain(tools).chain(commit).collect()
    };
    let (a, b) = (facts(a), facts(b));
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let pairs = names.into_iter().map(|name| (name, a.get(name), b.get(name)));
    pairs
        .filter(|(_, a, b)| a != b)
        .map(|(name, a, b)| Difference { name: name.clone(), a: a.cloned(), b: b.cloned() })
        .collect()
}

/// As asked for, or those of the scenarios' figures that some result has.
fn metrics(options: &Options, a: &Run, b: &Run) -> Vec<Metric> {
    if !options.metrics.is_empty() {
        return options.metrics.clone();
    }
    let figures = a.scenario.figures.iter().chain(&b.scenario.figures).flat_map(|figure| &figure.y);
    let mut wanted: BTreeSet<Metric> = figures.copied().collect();
    if wanted.is_empty() {
        wanted.extend(USUAL);
    }
    let told = |metric: &Metric| a.points.iter().any(|result| value(*metric, result).is_some());
    wanted.into_iter().filter(told).collect()
}

fn value(metric: Metric, result: &PointResult) -> Option<f64> {
    value_of(metric, result, &Context::default()).filter(|value| *value > 0.0)
}

/// A metric at every group, corrected over all of them together.
fn rows(
    bootstrap: &mut Bootstrap,
    groups: &[Group<'_>],
    How { names, pairing, widths }: How<'_>,
    metric: Metric,
) -> Vec<Row> {
    let sides: Vec<Sides> = groups.iter().map(|group| Sides::of(group, metric)).collect();
    let ratios: Vec<Option<Ratio>> = sides
        .iter()
        .map(|sides| match pairing {
            Pairing::Paired => ratio(bootstrap, &sides.pairs()),
            Pairing::Unpaired => unpaired::ratio(bootstrap, &logs(&sides.a), &logs(&sides.b)),
        })
        .collect();
    let p_values: Vec<f64> = ratios.iter().flatten().map(|ratio| ratio.p_value).collect();
    let mut adjusted = holm::adjust(&p_values).into_iter();
    let gate = Widths::wider(widths, metric);
    let mut rows = Vec::new();
    for ((group, sides), ratio) in groups.iter().zip(&sides).zip(ratios) {
        let ratio = ratio.and_then(|ratio| Some(Ratio { adjusted: adjusted.next()?, ..ratio }));
        if sides.a.is_empty() && sides.b.is_empty() {
            continue;
        }
        let (pairs, unusable) = sides.counts(group, pairing);
        let verdict = PointVerdict {
            point: group.point.to_vec(),
            a: names.a.to_owned(),
            b: names.b.to_owned(),
            metric,
            pairs,
            unusable,
            doubtful: 0,
            ratio,
            finding: ratio.map_or(Finding::NotEnough, finding),
        };
        let verdict = verdict.beside(gate);
        rows.push(Row {
            smallest_percent: gate.map(|width| width.exp_m1() * 100.0),
            arm: group.arm.clone(),
            a: middle(&sides.a),
            b: middle(&sides.b),
            words: words(&verdict, pairing),
            verdict,
        });
    }
    rows
}

/// A metric's values by repetition.
struct Sides {
    a: BTreeMap<u32, f64>,
    b: BTreeMap<u32, f64>,
}

impl Sides {
    fn of(group: &Group<'_>, metric: Metric) -> Self {
        let values = |results: &[&PointResult]| {
            results.iter().filter_map(|result| Some((result.repetition, value(metric, result)?))).collect()
        };
        Self { a: values(&group.a), b: values(&group.b) }
    }

    fn pairs(&self) -> Vec<f64> {
        self.a.iter().filter_map(|(repetition, a)| Some((a / self.b.get(repetition)?).ln())).collect()
    }

    /// Pairs (unpaired: the smaller run's repetitions) that count, and results that do not.
    fn counts(&self, group: &Group<'_>, pairing: Pairing) -> (u32, u32) {
        let usable = match pairing {
            Pairing::Paired => self.pairs().len(),
            Pairing::Unpaired => self.a.len().min(self.b.len()),
        };
        let all = group.a.len().max(group.b.len());
        (count(usable), count(all.saturating_sub(usable)))
    }
}

fn logs(values: &BTreeMap<u32, f64>) -> Vec<f64> {
    values.values().map(|value| value.ln()).collect()
}

fn middle(values: &BTreeMap<u32, f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.values().copied().collect();
    sorted.sort_by(f64::total_cmp);
    median(&sorted)
}

/// The verdict, and that it rests on no pairs where it does not.
fn words(verdict: &PointVerdict, pairing: Pairing) -> String {
    let words = verdict.words();
    match (pairing, verdict.finding) {
        (Pairing::Paired, _) | (_, Finding::NoControl) => words,
        (Pairing::Unpaired, Finding::Higher | Finding::Lower) => {
            words.replace(" pairs)", " repetitions of each, unpaired)")
        }
        (Pairing::Unpaired, Finding::NoDifference) => words.replace(')', ", unpaired)"),
        (Pairing::Unpaired, Finding::NotEnough) => format!("{words} repetitions"),
    }
}

#[cfg(test)]
mod tests;
