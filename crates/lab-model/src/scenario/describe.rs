//! What `linerate lab list`, `show` and `plan` say of a scenario.

use std::fmt::Write as _;

use anyhow::Result;
use serde::Serialize;

use super::calibration::Wanted;
use super::catalogue::Loaded;
use super::duration::{self, Seconds};
use super::feasibility::{Feasibility, FeasiblePoint, Testable};
use super::sweep::{self, Extent};
use super::{
    Arm, Gateway, LinkKind, Published, PublishedStatus, Scenario, Topology, calibration, primary, topology,
};
use crate::result::{Coordinate, point_name};
use crate::statistics::power;

/// A scenario in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// Its identifier.
    pub id: String,
    /// One line.
    pub title: String,
    /// The publication.
    pub publication: String,
    /// `scenarios/FAMILY/NAME.toml`, or a path.
    pub origin: String,
    /// SHA-256 of its text.
    pub hash: String,
    /// Keys and names of its arms.
    pub arms: Vec<String>,
    /// Points of its whole sweep.
    pub points: usize,
    /// Points of its quick extent.
    pub quick_points: usize,
    /// Claims that it tests or names.
    pub claims: usize,
    /// Of those, claims on which there would be a verdict here, of themselves or of what stands in for them.
    pub testable_claims: usize,
    /// Least seconds of a quick run, estimated.
    pub quick_seconds: f64,
    /// Least seconds of a whole run, estimated.
    pub seconds: f64,
    /// Whether it can be run on this machine.
    pub runnable: bool,
    /// What is missing, a sentence each.
    pub missing: Vec<String>,
}

/// A scenario as a list shows it, and what can be run of its whole sweep.
pub fn entry(loaded: &Loaded, feasible: &Feasibility) -> Entry {
    let scenario = &loaded.scenario;
    Entry {
        id: scenario.id.clone(),
        title: scenario.title.clone(),
        publication: scenario.source.publication.clone(),
        origin: loaded.origin.clone(),
        hash: loaded.hash.clone(),
        arms: scenario.arms.iter().map(|arm| format!("{} {}", arm.key, arm.name)).collect(),
        points: sweep::points(scenario, Extent::Full).len(),
        quick_points: sweep::points(scenario, Extent::Quick).len(),
        claims: scenario.claims.len(),
        testable_claims: feasible.testable(),
        quick_seconds: duration::seconds(scenario, Extent::Quick).least,
        seconds: duration::seconds(scenario, Extent::Full).least,
        runnable: feasible.runs,
        missing: feasible.missing.clone(),
    }
}

/// What the experiment is: question, systems, arms, claims, published numbers, traps, what is scaled and what is missing.
pub fn show(loaded: &Loaded, feasible: &Feasibility) -> String {
    let scenario = &loaded.scenario;
    let mut out = Text::default();
    out.line(&format!("{}: {}", scenario.id, scenario.title));
    out.line(&scenario.question);
    let part = scenario.source.part.as_ref().map(|part| format!(", {part}")).unwrap_or_default();
    out.line(&format!(
        "From {}{part}. {} (SHA-256 {:.12}).",
        scenario.source.publication, loaded.origin, loaded.hash
    ));
    out.section(
        "Published systems",
        scenario.systems.iter().map(|system| format!("{}  {}", system.key, system.name)),
    );
    out.section("Compared here", scenario.arms.iter().map(arm));
    out.section("In which they differ", scenario.compares.iter().map(|aspect| aspect.name().to_owned()));
    out.section("Missing here", feasible.missing.clone());
    out.section(
        "Smaller here",
        scenario.scales.iter().map(|scale| {
            format!("{}: {} in place of {}. {}", scale.what, scale.here, scale.published, scale.effect)
        }),
    );
    out.section(
        "Swept",
        scenario.sweep.iter().map(|axis| {
            let inferred = if axis.inferred { " (inferred: the publication's own list is lost)" } else { "" };
            format!("{}: {}{inferred}", axis.axis, axis.values.join(", "))
        }),
    );
    out.section("Calibrated first", calibrated(scenario, &sweep::points(scenario, Extent::Full)));
    out.section(
        "Figures",
        scenario.figures.iter().map(|figure| {
            format!(
                "{}{}",
                figure.title,
                if figure.title_lost { " (title not the publication's)" } else { "" }
            )
        }),
    );
    out.section(
        "Claims",
        scenario.claims.iter().zip(&feasible.claims).map(|(claim, here)| {
            let test = claim
                .test
                .as_ref()
                .map_or_else(|| "not testable by numbers".to_owned(), |test| format!("tested as {test}"));
            let lacks = match here.testable {
                Testable::Itself => String::new(),
                _ if claim.needs.is_empty() => String::new(),
                _ => format!(" Needs {}.", claim.needs.join(", ")),
            };
            let kind = if claim.primary { "primary" } else { "exploratory" };
            let reading =
                claim.inferred.as_ref().map(|reading| format!(" Inferred: {reading}.")).unwrap_or_default();
            format!("{} ({kind}); {test}.{reading}{lacks}", claim.text)
        }),
    );
    for table in &scenario.published {
        out.section(
            &format!("Published, not run here ({}): {}", status(table.status), table.title),
            rows(table),
        );
    }
    out.section("Lost", scenario.source.lost.clone());
    out.section("Read into it", scenario.source.inferred.clone());
    out.section("Traps", scenario.traps.clone());
    out.section("Environment as published", scenario.source.environment.clone());
    out.0
}

/// What a run would do: points in their order, arms, pairs, seconds, the claims that get a verdict, and what would not be run and why.
pub fn plan(loaded: &Loaded, feasible: &Feasibility) -> Result<String> {
    let scenario = &loaded.scenario;
    let points: Vec<sweep::Point> = feasible.points.iter().map(|here| here.point.clone()).collect();
    let mut out = Text::default();
    out.line(&format!("{}: {}", scenario.id, scenario.question));
    if scenario.arms.is_empty() {
        out.line("Nothing of it can be run here.");
        out.section("Missing", feasible.missing.clone());
        return Ok(out.0);
    }
    let Seconds { least, most } = duration::of_points(scenario, &points);
    let design = &scenario.design;
    let mut counts = vec![
        format!(
            "{} points, {} arms, {} to {} pairs each",
            points.len(),
            scenario.arms.len(),
            design.min_pairs,
            design.max_pairs
        ),
        format!("{} s before each window, {} s in it", design.ramp, design.runtime),
        format!(
            "about {} to {}, with {} pairs of an arm against itself as control",
            time(least),
            time(most),
            primary::control_pairs(scenario)
        ),
    ];
    if points.iter().any(|point| primary::decides(scenario, point)) {
        counts.push(format!(
            "up to {} pairs where a primary claim is decided: so many show a difference of {:.0} % in nine of ten runs that scatter by {:.0} %",
            primary::design(scenario, decisive(scenario, &points)).max_pairs,
            power::EFFECT * 100.0,
            power::NOISE * 100.0
        ));
    }
    counts.push(format!("a point ends early when its ratio is known to ±{:.0} %", design.half_width * 100.0));
    out.section("Design", counts);
    out.section("Calibrated first", calibrated(scenario, &points));
    out.section("Arms", scenario.arms.iter().map(arm));
    let mut built = Vec::new();
    for arm in &scenario.arms {
        let first = points.first().map(Vec::as_slice).unwrap_or_default();
        built.push(format!("{}  {}", arm.key, built_as(&topology::at(scenario, arm, first)?)));
    }
    out.section("Built for the first point", built);
    out.section("Points, in order", feasible.points.iter().map(of_point));
    out.section(
        "Claims",
        scenario.claims.iter().zip(&feasible.claims).map(|(claim, here)| {
            let verdict = match &here.testable {
                Testable::Itself => "tested".to_owned(),
                Testable::InPlace { what } => format!("in its place: {what}"),
                Testable::No(why) => format!("not testable here: {}", why.join("; ")),
            };
            format!("{}: {verdict}", claim.text)
        }),
    );
    out.section("Missing", feasible.missing.clone());
    Ok(out.0)
}

/// A point at which a primary claim is decided.
fn decisive<'a>(scenario: &Scenario, points: &'a [sweep::Point]) -> &'a [Coordinate] {
    points.iter().find(|point| primary::decides(scenario, point)).map(Vec::as_slice).unwrap_or_default()
}

fn arm(arm: &Arm) -> String {
    let stands = arm.stands_for.as_ref().map(|key| format!(", in place of system {key}")).unwrap_or_default();
    format!("{}  {}{stands}: {}", arm.key, arm.name, arm.evidence)
}

/// What is found out before the first point, where loads are shares of it.
fn calibrated(scenario: &Scenario, points: &[sweep::Point]) -> Option<String> {
    let plan = scenario.calibration.as_ref()?;
    let wanted = calibration::wanted(scenario, points);
    let with: Vec<String> = plan.with.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let each = wanted.iter().map(|Wanted { arm, place }| {
        if place.is_empty() { arm.key.clone() } else { format!("{} at {}", arm.key, point_name(place)) }
    });
    Some(format!(
        "what {} does at most: the median of {} closed loops with {}; rates in per cent are shares of {}",
        each.collect::<Vec<_>>().join(", "),
        plan.runs,
        if with.is_empty() { "the point's own settings".to_owned() } else { with.join(", ") },
        plan.of.as_ref().map_or_else(|| "the arm's own".to_owned(), |key| format!("arm {key}'s")),
    ))
}

fn built_as(topology: &Topology) -> String {
    let rate = topology.link.rate.as_deref().unwrap_or("unshaped");
    let link = match topology.link.kind {
        LinkKind::Loopback => "loopback".to_owned(),
        LinkKind::Veth => format!("veth, MTU {}, {rate}", topology.link.mtu),
        LinkKind::Physical => format!("the site's link, MTU {}, {rate}", topology.link.mtu),
    };
    let gateway = match topology.link.gateway {
        Gateway::None => "",
        Gateway::Nat => " behind a router that translates addresses",
    };
    let Topology { initiators, targets, luns, volume, cores, digests, .. } = topology;
    let cores = if *cores == 1 { String::new() } else { format!(" in {cores} event loops") };
    let spin = topology.target_spin.as_ref().map(|span| format!(", a target that spins for {span}"));
    let digests = if *digests { ", digests" } else { "" };
    let anew = if topology.anew { ", each measurement with a new arm" } else { "" };
    if topology.copies > 0 {
        let copies = topology.copies;
        return format!(
            "{initiators} nodes that hold {copies} copies of {targets} targets with {luns} volumes each (parts {volume}){cores}, {link}{digests}{}{anew}",
            spin.unwrap_or_default()
        );
    }
    format!(
        "{initiators} initiators, {targets} targets with {luns} volumes each ({volume}){cores}, {link}{gateway}{digests}{}{anew}",
        spin.unwrap_or_default()
    )
}

fn of_point(here: &FeasiblePoint) -> String {
    let lacking: Vec<String> =
        here.left_out.iter().map(|arm| format!("not {}: {}", arm.arm, arm.lacks.join("; "))).collect();
    let lacking = if lacking.is_empty() { String::new() } else { format!("  ({})", lacking.join("; ")) };
    format!("{}{lacking}", point_name(&here.point))
}

fn rows(table: &Published) -> Vec<String> {
    let mut rows: Vec<String> = table
        .rows
        .iter()
        .map(|row| {
            let cells = table.columns.iter().zip(&row.values).filter(|(_, value)| !value.is_empty());
            let cells: Vec<String> = cells.map(|(column, value)| format!("{column} {value}")).collect();
            format!("{}: {}", row.label, cells.join(" · "))
        })
        .collect();
    rows.extend(table.note.clone());
    rows
}

const fn status(status: PublishedStatus) -> &'static str {
    match status {
        PublishedStatus::Published => "stated there",
        PublishedStatus::Derived => "computed from its numbers",
        PublishedStatus::Inferred => "a reading of it",
        PublishedStatus::Lost => "lost",
    }
}

/// `95 s`, `12 min` or `3.5 h`.
pub fn time(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// Lines with headed lists.
#[derive(Debug, Default)]
struct Text(String);

impl Text {
    fn line(&mut self, line: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{line}");
    }

    fn section(&mut self, heading: &str, lines: impl IntoIterator<Item = String>) {
        let mut lines = lines.into_iter().peekable();
        if lines.peek().is_some() {
            self.line(&format!("\n{heading}:"));
        }
        for line in lines {
            self.line(&format!("  {line}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::catalogue;
    use crate::scenario::needs::Present;

    fn feasible(loaded: &Loaded, extent: Extent, present: &Present) -> Feasibility {
        Feasibility::of(&loaded.scenario, sweep::points(&loaded.scenario, extent), present)
    }

    /// A plan on a machine that has nothing.
    fn planned(id: &str, extent: Extent) -> String {
        let loaded = of(id);
        plan(&loaded, &feasible(&loaded, extent, &Present::default())).unwrap()
    }

    fn of(id: &str) -> Loaded {
        catalogue::load(id).unwrap()
    }

    #[test]
    fn every_scenario_is_listed_shown_and_planned() {
        let present = Present::default();
        for loaded in catalogue::list().unwrap() {
            let here = feasible(&loaded, Extent::Full, &present);
            let entry = entry(&loaded, &here);
            assert!(entry.runnable || !entry.missing.is_empty(), "{} says not why", entry.id);
            let shown = show(&loaded, &here);
            let claims = &loaded.scenario.claims;
            assert!(shown.contains(&loaded.scenario.question), "{shown}");
            assert!(claims.iter().all(|claim| shown.contains(&claim.text)), "{shown}");
            let planned = plan(&loaded, &here).unwrap();
            assert!(entry.missing.iter().all(|missing| planned.contains(missing)), "{planned}");
        }
    }

    #[test]
    fn a_plan_says_which_arm_does_not_run_and_why() {
        let planned = planned("quick", Extent::Full);
        assert!(planned.contains("bs=4k  (not C: root"), "{planned}");
        assert!(planned.contains("2 points, 4 arms, 5 to 5 pairs each"), "{planned}");
        let windows = self::planned("marvell-41000.iscsi.windows", Extent::Quick);
        assert!(windows.contains("Nothing of it can be run here") && windows.contains("Windows Server 2019"));
    }

    #[test]
    fn the_gateway_is_part_of_a_plan_and_needs_what_translates_addresses() {
        let loaded = of("linerate.nat");
        let mut present = Present::default();
        present.add("root");
        let without = feasible(&loaded, Extent::Full, &present);
        let lacking =
            |here: &FeasiblePoint| here.left_out.iter().any(|arm| arm.lacks[0].contains("nftables"));
        for here in &without.points {
            assert_eq!(lacking(here), here.point.iter().any(|at| at.value == "nat"), "{here:?}");
        }
        present.add("nftables");
        let whole = feasible(&loaded, Extent::Full, &present);
        assert!(whole.runs && whole.missing.is_empty(), "{:?}", whole.missing);
        let nat: Vec<_> = whole.points[1..].iter().map(|here| here.point.clone()).collect();
        let planned = plan(&loaded, &Feasibility::of(&loaded.scenario, nat, &present)).unwrap();
        assert!(planned.contains("1Gbit behind a router that translates addresses"), "{planned}");
    }

    #[test]
    fn a_plan_says_what_is_calibrated() {
        let planned = planned("linerate.cores", Extent::Quick);
        assert!(planned.contains("what C does at most: the median of 3 closed loops"), "{planned}");
        assert!(planned.contains("shares of arm C's"), "{planned}");
        let plain = self::planned("linerate.bench", Extent::Quick);
        assert!(!plain.contains("Calibrated"), "{plain}");
    }

    #[test]
    fn the_quick_lab_stays_under_three_minutes() {
        let quick = of("quick");
        assert!(duration::seconds(&quick.scenario, Extent::Full).most < 180.0);
        let mut root = Present::default();
        assert!(feasible(&quick, Extent::Full, &root).runs, "two arms need nothing");
        root.add("root");
        assert!(entry(&quick, &feasible(&quick, Extent::Full, &root)).missing.is_empty());
    }

    #[test]
    fn times_are_for_people() {
        assert_eq!([time(95.4), time(720.0), time(12_600.0)], ["95 s", "12 min", "3.5 h"]);
    }
}
