//! What is looked at before anything is built: whether the scenario makes sense, what it needs is there, and nothing that
//! it would overwrite is of value.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};

use super::plan::Plan;
use super::present;
use crate::arm;
use crate::machine::device;
use crate::site::Site;
use lab_model::result::Coordinate;
use lab_model::scenario::needs::{self, Present};
use lab_model::scenario::{Arm, Scenario, lint};

/// What is missing for a scenario to run here; an exit code of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotTestable {
    /// The scenario.
    pub scenario: String,
    /// What is missing, a sentence each.
    pub missing: Vec<String>,
}

impl fmt::Display for NotTestable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be run here:", self.scenario)?;
        self.missing.iter().try_for_each(|missing| write!(f, "\n  - {missing}"))
    }
}

impl std::error::Error for NotTestable {}

/// What is there: this machine's, and what the site declares.
pub fn present(site: &Site) -> Present {
    let mut present = present::look();
    if let Some(folder) = &site.engines {
        present::look_for_engines(&mut present, folder);
    }
    site.has.iter().for_each(|name| present.add(name));
    if !site.arm.is_empty() {
        present.add("site");
    }
    present
}

/// Refuses a scenario that is wrong, cannot be run here, or would overwrite something.
pub fn check(scenario: &Scenario, plan: &Plan, site: &Site, destroy: &BTreeSet<String>) -> Result<Present> {
    let errors = lint::errors(scenario);
    if !errors.is_empty() {
        let words: Vec<String> = errors.iter().map(ToString::to_string).collect();
        bail!("{} is not run, because its results would mislead:\n  - {}", scenario.id, words.join("\n  - "));
    }
    let present = present(site);
    // A comparison takes two arms; a scenario of one arm compares nothing and may still be measured.
    let wanted = scenario.arms.len().clamp(1, 2);
    let somewhere = plan.points.iter().any(|point| runnable(scenario, point, site, &present).len() >= wanted);
    if !somewhere {
        let mut missing = needs::of_scenario(scenario, &present);
        missing.extend(scenario.arms.iter().flat_map(|arm| arm::missing(arm.target, arm.initiator)));
        missing.dedup();
        if scenario.arms.is_empty() && missing.is_empty() {
            missing.push("an arm: the scenario names none".to_owned());
        }
        return Err(NotTestable { scenario: scenario.id.clone(), missing }.into());
    }
    for bound in scenario.arms.iter().filter_map(|arm| site.bound(&scenario.id, &arm.key)) {
        // Devices of another host are its agent's to judge.
        let own = if bound.host.is_some() { &[] } else { bound.endpoints.as_slice() };
        for endpoint in own.iter().filter(|endpoint| endpoint.starts_with('/')) {
            device::may_overwrite(Path::new(endpoint), destroy)?;
        }
    }
    Ok(present)
}

/// What an arm lacks at a point, a sentence each: needs of the machine, and programs with their packages.
pub fn missing(scenario: &Scenario, arm: &Arm, point: &[Coordinate], present: &Present) -> Vec<String> {
    let needs = needs::missing_at(scenario, arm, point, present).into_iter().map(str::to_owned);
    needs.chain(arm::missing(arm.target, arm.initiator)).collect()
}

/// The arms that lack nothing at a point.
pub fn runnable<'s>(
    scenario: &'s Scenario,
    point: &[Coordinate],
    site: &Site,
    present: &Present,
) -> Vec<&'s Arm> {
    let whole = |arm: &&Arm| {
        site.bound(&scenario.id, &arm.key).is_some() || missing(scenario, arm, point, present).is_empty()
    };
    scenario.arms.iter().filter(whole).collect()
}
