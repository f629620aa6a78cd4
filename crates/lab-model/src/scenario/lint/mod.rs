//! What is wrong with a scenario before anything is measured.
//!
//! A misspelt option, a figure of an axis that does not exist, an arm called "offload" on a machine without one: each would
//! give a report that looks right. So a scenario with a finding is not run. The traps of the published evaluations
//! ([`TRAPS`]) are named where they apply, and those that can be seen in a scenario are looked for.

mod arms;
mod axes;
mod compared;
mod finding;
mod report;

pub use finding::Finding;

use super::Scenario;

/// A way in which a published evaluation misleads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trap {
    /// What a scenario's `traps` begin with.
    pub name: &'static str,
    /// Why it misleads.
    pub why: &'static str,
}

const fn trap(name: &'static str, why: &'static str) -> Trap {
    Trap { name, why }
}

/// The traps that the publications hold, by name.
pub const TRAPS: &[Trap] = &[
    trap("no repeats", "without repetitions nobody knows how much of a difference is chance"),
    trap(
        "cpu sampling",
        "a per cent of processor means nothing without what was sampled, where and how often",
    ),
    trap("truncated axis", "bars that do not begin at zero show small differences as large ones"),
    trap("mislabelled", "a heading or a header cell names another configuration than the one measured"),
    trap("saturated drive", "arms that wait for the same drive are equal whatever carries their I/O"),
    trap("shared limit", "arms that sit on the same limit are equal whatever lies between"),
    trap("parity", "words say equal where the numbers show a difference"),
    trap(
        "buffered writes",
        "a page cache makes large I/Os of small ones: the size on the axis is not the size on the wire",
    ),
    trap("minimum cpu", "least and average processor time move in different directions"),
    trap("minimum latency", "the least latency is not what applications see"),
    trap("tuned target", "a target tuned alike in all arms hides its own share"),
    trap("two changes at once", "when two things differ, neither's effect is known"),
    trap("no control arm", "a benefit is claimed and the arm without it was not measured"),
    trap("more than the link", "more was carried than the link can: part of it never crossed"),
    trap("ambiguous per cent", "per cent and percentage points are not told apart"),
    trap("contradiction", "two statements of the same publication exclude each other"),
    trap("no numbers", "a claim stands without any figure that could be tested"),
];

/// Everything that is wrong with a scenario; empty when it may be run.
pub fn errors(scenario: &Scenario) -> Vec<Finding> {
    let mut findings = head(scenario);
    findings.extend(arms::findings(scenario));
    findings.extend(compared::findings(scenario));
    findings.extend(axes::findings(scenario));
    findings.extend(report::findings(scenario));
    findings
}

fn head(scenario: &Scenario) -> Vec<Finding> {
    let mut findings = Vec::new();
    let plain =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if !(scenario.id.contains('.') && plain(&scenario.id)) {
        let message = format!("{:?} is not FAMILY.NAME of letters, digits, '-', '_' and '.'", scenario.id);
        findings.push(Finding::new("id", message));
    }
    for (place, text) in [("title", &scenario.title), ("question", &scenario.question)] {
        if text.trim().is_empty() {
            findings.push(Finding::new(place, "is empty"));
        }
    }
    for text in &scenario.traps {
        let name = text.split_once(':').map(|(name, _)| name);
        if !TRAPS.iter().any(|trap| Some(trap.name) == name) {
            let known: Vec<&str> = TRAPS.iter().map(|trap| trap.name).collect();
            let message = format!("{text:?} does not begin with one of {} and a colon", known.join(", "));
            findings.push(Finding::new("traps", message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::catalogue;

    #[test]
    fn every_built_in_scenario_is_without_a_finding() {
        let mut all = Vec::new();
        for loaded in catalogue::list().unwrap() {
            all.extend(errors(&loaded.scenario).iter().map(|found| format!("{}: {found}", loaded.origin)));
        }
        assert!(all.is_empty(), "{}", all.join("\n"));
    }

    #[test]
    fn the_head_must_say_something() {
        let text = "id='nodot'\ntitle=''\nquestion='q'\ntraps=['luck: none']\nmissing=['m']\n\
                    source={publication='p'}\n[workload]\ntool='fio'\n";
        let places: Vec<String> =
            errors(&toml::from_str(text).unwrap()).into_iter().map(|found| found.place).collect();
        assert_eq!(places, ["id", "title", "traps"]);
    }
}
