//! What is looked at before anything is built: whether the scenario makes sense, what it needs is there, and nothing that
//! it would overwrite is of value.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::plan::Plan;
use super::present;
use crate::arm;
use crate::machine::{device, program};
use crate::site::{BoundArm, Site};
use crate::tool::first_io;
use lab_model::evidence::Evidence;
use lab_model::prices::Prices;
use lab_model::result::Coordinate;
use lab_model::scenario::feasibility::{Feasibility, Machine};
use lab_model::scenario::needs::{self, Present};
use lab_model::scenario::sweep::Point;
use lab_model::scenario::{Arm, Initiator, Scenario, Target, ToolKind, lint};

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
pub fn check(scenario: &Scenario, plan: &Plan, here: Here<'_>, destroy: &BTreeSet<String>) -> Result<()> {
    let errors = lint::errors(scenario);
    if !errors.is_empty() {
        let words: Vec<String> = errors.iter().map(ToString::to_string).collect();
        bail!("{} is not run, because its results would mislead:\n  - {}", scenario.id, words.join("\n  - "));
    }
    let site = here.site;
    let feasible = here.feasible(scenario, plan.points.clone());
    if !feasible.runs {
        return Err(NotTestable { scenario: scenario.id.clone(), missing: feasible.missing }.into());
    }
    if let Some(words) = same_thing(scenario, site) {
        bail!("{} is not run: {words}", scenario.id);
    }
    for bound in scenario.arms.iter().filter_map(|arm| site.bound(&scenario.id, &arm.key)) {
        // Devices of another host are its agent's to judge.
        let own = if bound.host.is_some() { &[] } else { bound.endpoints.as_slice() };
        for endpoint in own.iter().filter(|endpoint| endpoint.starts_with('/')) {
            device::may_overwrite(Path::new(endpoint), destroy)?;
        }
    }
    Ok(())
}

/// Refuses a site that asks for drives to be preconditioned which nobody declared expendable.
pub fn expendable(scenario: &Scenario, site: &Site, destroy: &BTreeSet<String>) -> Result<()> {
    for arm in &scenario.arms {
        let asked = site.bound(&scenario.id, &arm.key).filter(|bound| bound.precondition.is_some());
        for drive in asked.into_iter().flat_map(|bound| &bound.endpoints) {
            device::is_expendable(Path::new(drive), destroy).with_context(|| {
                format!("the site asks for the drives of arm {} to be preconditioned", arm.key)
            })?;
        }
    }
    Ok(())
}

/// Two arms that the site binds to one and the same thing: their ratio would be one, whatever is compared.
fn same_thing(scenario: &Scenario, site: &Site) -> Option<String> {
    let bound: Vec<(&Arm, &BoundArm)> =
        scenario.arms.iter().filter_map(|arm| Some((arm, site.bound(&scenario.id, &arm.key)?))).collect();
    bound.iter().enumerate().find_map(|(place, (one, of_one))| {
        let others = bound.iter().skip(place + 1).filter(|(_, of_other)| of_one.host == of_other.host);
        let mut pairs = others.flat_map(|(other, of_other)| {
            let of_one = of_one.endpoints.iter();
            of_one.flat_map(move |here| of_other.endpoints.iter().map(move |there| (other, here, there)))
        });
        let is_here = of_one.host.is_none();
        let (other, here, there) =
            pairs.find(|(_, here, there)| here == there || is_here && is_same_file(here, there))?;
        Some(format!(
            "the site binds arm {} to {here} and arm {} to {there}, which are the same, so they are one arm measured twice",
            one.key, other.key
        ))
    })
}

/// Whether two paths of this host lead to one file or device, by whatever names.
fn is_same_file(one: &str, other: &str) -> bool {
    let identity = |path: &str| {
        let found = fs::metadata(path).ok().filter(|_| path.starts_with('/'))?;
        let kind = found.file_type();
        let is_device = kind.is_block_device() || kind.is_char_device();
        Some(if is_device { (true, found.rdev(), 0) } else { (false, found.dev(), found.ino()) })
    };
    identity(one).is_some_and(|here| identity(other) == Some(here))
}

/// This machine with its site.
#[derive(Debug, Clone, Copy)]
pub struct Here<'a> {
    /// What arms are bound to.
    pub site: &'a Site,
    /// What is there ([`present`]).
    pub present: &'a Present,
}

impl Here<'_> {
    /// Whether any arm can be run at a point.
    pub fn can_run(&self, scenario: &Scenario, point: &Point) -> bool {
        let feasible = self.feasible(scenario, vec![point.clone()]);
        feasible.points.iter().any(|point| !point.arms.is_empty())
    }

    /// What can be run here of these points.
    pub fn feasible(&self, scenario: &Scenario, points: Vec<Point>) -> Feasibility {
        Feasibility::of(scenario, points, self)
    }

    /// The arms that lack nothing at a point.
    pub fn arms(&self, scenario: &Scenario, point: &[Coordinate]) -> Vec<Arm> {
        let whole = |arm: &&Arm| self.lacks(scenario, arm, point).is_empty();
        scenario.arms.iter().filter(whole).cloned().collect()
    }
}

impl Machine for Here<'_> {
    /// Needs of the machine, and programs with their packages. An arm that the site binds has what it needs; one that only a site can
    /// bind needs that, whatever else the site binds.
    fn lacks(&self, scenario: &Scenario, arm: &Arm, point: &[Coordinate]) -> Vec<String> {
        if self.site.bound(&scenario.id, &arm.key).is_some() {
            return Vec::new();
        }
        let mut lacks: Vec<String> = needs::missing_at(scenario, arm, point, self.present)
            .into_iter()
            .map(str::to_owned)
            .chain(arm::missing(arm.target, arm.initiator))
            .collect();
        let first_io = scenario.workload.tool == ToolKind::FirstIo;
        lacks.extend(
            Some(first_io::PROGRAM)
                .filter(|name| first_io && program::find(name).is_none())
                .map(program::not_there),
        );
        let is_the_site_s = arm.initiator == Initiator::Site || arm.target == Target::Site;
        if let Some(need) = needs::find("site").filter(|_| is_the_site_s && self.present.has("site")) {
            lacks.push(need.missing.to_owned());
        }
        lacks
    }

    fn evidence(&self, scenario: &Scenario, arm: &Arm) -> Evidence {
        let bound = self.site.bound(&scenario.id, &arm.key);
        bound.map_or_else(|| arm.evidence.clone(), |bound| bound.evidence.clone())
    }

    fn has(&self, need: &str) -> bool {
        self.present.has(need)
    }

    fn prices(&self) -> Option<&Prices> {
        Some(&self.site.prices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arm_that_only_a_site_can_bind_needs_that_whatever_else_the_site_binds() {
        let arm = |key: &str, target: &str| {
            format!(
                "[[arm]]\nkey='{key}'\nname='{key}'\ninitiator='linerate'\ntarget='{target}'\nevidence={{kind='real'}}\n"
            )
        };
        let text = format!(
            "id='f.n'\ntitle='t'\nquestion='q'\nsource={{publication='p'}}\n[workload]\ntool='fio'\n{}{}{}",
            arm("A", "linerate-iscsi"),
            arm("B", "site"),
            arm("C", "site")
        );
        let scenario: Scenario = toml::from_str(&text).unwrap();
        let site: Site =
            toml::from_str("[arm.B]\nendpoints=['iscsi://h/t/0']\nevidence={kind='real'}\n").unwrap();
        let mut present = Present::default();
        present.add("site");
        let here = Here { site: &site, present: &present };
        let feasible = here.feasible(&scenario, vec![Vec::new()]);
        assert_eq!(feasible.points[0].arms, ["A", "B"], "and `run` would otherwise end where C is built");
        assert_eq!(feasible.missing, [needs::find("site").unwrap().missing]);
        assert_eq!(here.arms(&scenario, &[]).len(), 2);
    }

    #[test]
    fn two_arms_on_the_same_device_are_not_compared() {
        let arm = |key: &str| {
            format!(
                "[[arm]]\nkey='{key}'\nname='{key}'\ninitiator='site'\ntarget='site'\nevidence={{kind='real'}}\n"
            )
        };
        let text = format!(
            "id='f.n'\ntitle='t'\nquestion='q'\nsource={{publication='p'}}\n[workload]\ntool='fio'\n{}{}",
            arm("A"),
            arm("B")
        );
        let scenario: Scenario = toml::from_str(&text).unwrap();
        let site = |a: &str, b: &str| -> Site {
            let bound = |key: &str, path: &str| {
                format!("[arm.{key}]\nendpoints=['{path}']\nevidence={{kind='real'}}\n")
            };
            toml::from_str(&(bound("A", a) + &bound("B", b))).unwrap()
        };
        let refused = |a: &str, b: &str| {
            let words = same_thing(&scenario, &site(a, b)).unwrap();
            let wanted = format!("the site binds arm A to {a} and arm B to {b}, which are the same");
            assert!(words.starts_with(&wanted), "{words}");
        };
        refused("iscsi://[::1]:1/iqn.2026-01.example:a/0", "iscsi://[::1]:1/iqn.2026-01.example:a/0");
        assert_eq!(same_thing(&scenario, &site("/dev/sdb", "/dev/sdc")), None);
        let folder = tempfile::tempdir().unwrap();
        let paths = ["disk", "by-id", "hard", "other"].map(|name| folder.path().join(name));
        let [disk, link, hard, other] = &paths;
        fs::write(disk, "").unwrap();
        fs::write(other, "").unwrap();
        std::os::unix::fs::symlink(disk, link).unwrap();
        fs::hard_link(disk, hard).unwrap();
        let [disk, link, hard, other] = [disk, link, hard, other].map(|path| path.to_str().unwrap());
        refused(disk, link);
        refused(hard, disk);
        refused("/dev/null", "/dev/../dev/null");
        assert_eq!(same_thing(&scenario, &site(disk, other)), None);
    }
}
