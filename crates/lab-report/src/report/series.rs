//! Results sorted into groups: one arm at one point, all its repetitions.
//!
//! An invalid result is in no group. It is kept with the reason, so that the report can say why a row is not there.

use std::collections::BTreeSet;

use lab_model::prices::Prices;
use lab_model::result::{Coordinate, PointResult, point_name};
use lab_model::scenario::{Arm, Axis, Figure, Scenario, place};
use lab_model::statistics::control::Widths;

use super::summary::Draws;

/// The valid repetitions of one arm at one point.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    /// Place of the arm in the scenario: its colour.
    pub(crate) index: usize,
    /// The arm.
    pub(crate) arm: &'a Arm,
    /// The point.
    pub(crate) point: &'a [Coordinate],
    /// In the order in which they were found.
    pub(crate) results: Vec<&'a PointResult>,
}

impl Group<'_> {
    /// The value on an axis: of the point, or the arm's own setting.
    pub(crate) fn at(&self, axis: &str) -> Option<&str> {
        let own = self.point.iter().find(|at| at.axis == axis).map(|at| at.value.as_str());
        own.or_else(|| self.arm.with.get(axis).map(String::as_str))
    }

    /// The label of its figures, from the results themselves.
    pub(crate) fn evidence(&self) -> &'static str {
        self.results.first().map_or(self.arm.evidence.label(), |result| result.evidence.label())
    }
}

/// A result that has no row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Excluded {
    /// Key of the arm.
    pub(crate) arm: String,
    /// As `bs=4k rw=randread`.
    pub(crate) point: String,
    /// The pair's number.
    pub(crate) repetition: u32,
    /// In words.
    pub(crate) why: String,
}

/// All that was measured, sorted.
#[derive(Debug)]
pub(crate) struct Measured<'a> {
    /// What was to be measured.
    pub(crate) scenario: &'a Scenario,
    /// Every result, as it was read.
    pub(crate) points: &'a [PointResult],
    /// By point in the order of the sweep, then by arm.
    pub(crate) groups: Vec<Group<'a>>,
    /// What the control cannot tell apart.
    pub(crate) widths: Widths,
    /// For the intervals.
    pub(crate) draws: Draws,
    /// What has no row.
    pub(crate) excluded: Vec<Excluded>,
    /// What the arms cost.
    pub(crate) prices: Option<&'a Prices>,
}

impl<'a> Measured<'a> {
    /// The results that have a row.
    pub(crate) fn results(&self) -> impl Iterator<Item = &'a PointResult> + '_ {
        self.groups.iter().flat_map(|group| group.results.iter().copied())
    }

    /// Sorts a run's results.
    pub(crate) fn new(scenario: &'a Scenario, points: &'a [PointResult], control: &[PointResult]) -> Self {
        let mut sorted = Self {
            scenario,
            points,
            groups: Vec::new(),
            widths: Widths::of(control),
            draws: Draws::default(),
            excluded: Vec::new(),
            prices: None,
        };
        for result in points {
            sorted.add(result);
        }
        sorted.groups.sort_by_key(|group| (rank_of_point(&scenario.sweep, group.point), group.index));
        sorted
    }

    /// The same with what arms cost.
    pub(crate) fn priced(self, prices: &'a Prices) -> Self {
        Self { prices: Some(prices), ..self }
    }

    fn add(&mut self, result: &'a PointResult) {
        let arm = self.scenario.arms.iter().enumerate().find(|(_, arm)| arm.key == result.arm);
        let why = match arm {
            None => Some("the scenario has no such arm".to_owned()),
            Some(_) if result.valid() => None,
            Some(_) => Some(reasons(result)),
        };
        if let Some(why) = why {
            let (arm, point) = (result.arm.clone(), result.point_name());
            self.excluded.push(Excluded { arm, point, repetition: result.repetition, why });
        } else if let Some((index, arm)) = arm {
            let place =
                self.groups.iter_mut().find(|group| group.index == index && group.point == result.point);
            match place {
                Some(group) => group.results.push(result),
                None => self.groups.push(Group { index, arm, point: &result.point, results: vec![result] }),
            }
        }
    }

    /// The groups at which the figure's fixed axes have their values.
    pub(crate) fn of(&self, figure: &Figure) -> Vec<&Group<'a>> {
        let fits = |group: &&Group<'_>| {
            figure.at.iter().all(|(axis, value)| group.at(axis).is_none_or(|own| place::lies(own, value)))
        };
        self.groups.iter().filter(fits).collect()
    }

    /// The axes that make a series each: those that the figure names, and every other one that varies, so that
    /// no point is averaged with another.
    pub(crate) fn series_axes(&self, figure: &Figure, groups: &[&Group<'_>]) -> Vec<String> {
        let named = figure.series.iter().cloned();
        let swept = self.scenario.sweep.iter().map(|axis| axis.axis.clone());
        let mut axes: Vec<String> = Vec::new();
        for axis in named.chain(swept) {
            let drawn = figure.x.as_ref() == Some(&axis) || axes.contains(&axis);
            if !drawn && values(groups, &axis).len() > 1 {
                axes.push(axis);
            }
        }
        axes
    }

    /// The values of an axis that occur, in the order of the sweep.
    pub(crate) fn values_in_order(&self, groups: &[&Group<'_>], axis: &str) -> Vec<String> {
        let found = values(groups, axis);
        let order = self.scenario.sweep.iter().find(|one| one.axis == axis).map(|one| one.values.as_slice());
        let listed = order.unwrap_or_default().iter().filter(|value| found.contains(value));
        let mut all: Vec<String> = listed.cloned().collect();
        all.extend(found.iter().filter(|value| !order.unwrap_or_default().contains(value)).cloned());
        all
    }
}

fn values(groups: &[&Group<'_>], axis: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let all = groups.iter().filter_map(|group| group.at(axis));
    all.filter(|value| seen.insert(*value)).map(str::to_owned).collect()
}

/// The place of a point in the sweep: an index for each axis.
fn rank_of_point(sweep: &[Axis], point: &[Coordinate]) -> Vec<usize> {
    let rank = |axis: &Axis| {
        let value = point.iter().find(|at| at.axis == axis.axis).map(|at| &at.value);
        value.and_then(|value| axis.values.iter().position(|one| one == value)).unwrap_or(axis.values.len())
    };
    sweep.iter().map(rank).collect()
}

/// Why a result is invalid, in words.
fn reasons(result: &PointResult) -> String {
    let words: Vec<String> =
        result.flags.iter().filter(|flag| flag.invalidates()).map(super::words::flag).collect();
    words.join("; ")
}

/// `A at bs=4k rw=randread, pair 3`.
impl std::fmt::Display for Excluded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { arm, point, repetition, why } = self;
        write!(f, "{arm} at {point}, pair {repetition}: {why}")
    }
}

/// `randread · 4k`: the values of some axes, for a series' or a panel's name.
pub(crate) fn values_of(group: &Group<'_>, axes: &[String]) -> String {
    let parts: Vec<String> = axes
        .iter()
        .filter_map(|axis| group.at(axis).map(|value| super::words::coordinate(axis, value)))
        .collect();
    parts.join(" · ")
}

/// The point's name, as on the command line.
pub(crate) fn name(group: &Group<'_>) -> String {
    point_name(group.point)
}
