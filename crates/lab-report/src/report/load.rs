//! The load, before anything that came of it: what was asked for, by which commands, and which arms took no part.
//!
//! A storage engineer reads this first. A figure means nothing without the pattern, the block sizes, the depth and the volumes behind
//! it, and an arm that is missing from a chart must not look like one that did nothing.

use std::collections::{BTreeMap, BTreeSet};

use lab_model::result::PointResult;
use lab_model::scenario::{Arm, Scenario, ToolKind};

use super::environment::Fact;
use super::run::Run;
use super::waiting;

/// Options of a load in the order in which one speaks of them, with their names in words.
const OPTIONS: [(&str, &str); 12] = [
    ("rw", "pattern"),
    ("rwmixread", "reads of a mixed pattern, %"),
    ("bs", "block size"),
    ("bssplit", "block sizes and their shares"),
    ("iodepth", "I/Os under way of each job"),
    ("numjobs", "jobs"),
    ("threads", "streams"),
    ("client", "clients"),
    ("rate_iops", "rate, I/Os per second"),
    ("direct", "past the page cache"),
    ("direction", "direction"),
    ("job", "job"),
];
/// Intervals of a window from which on it can be seen whether a rate was steady.
const STEADY_INTERVALS: usize = 5;

/// Kernel threads that took less of the machine than this are not named.
const LEAST_PERCENT: f64 = 0.05;

/// What was put on.
pub(crate) fn facts(run: &Run) -> Vec<Fact> {
    let scenario = &run.scenario;
    let mut facts = vec![fact("tool", tool(scenario.workload.tool))];
    facts.extend(OPTIONS.iter().filter_map(|(name, words)| Some(fact(words, &values(scenario, name)?))));
    for (job, options) in &scenario.workload.jobs {
        let options: Vec<String> = options.iter().map(|(name, value)| format!("{name}={value}")).collect();
        facts.push(fact(&format!("job {job}"), &options.join(" ")));
    }
    let design = &scenario.design;
    facts.push(fact("runtime", &format!("{} s, after {} s that do not count", design.runtime, design.ramp)));
    let built = &scenario.topology;
    let volumes = format!(
        "{} on each of {} targets, from {} initiating hosts: {}",
        built.luns, built.targets, built.initiators, built.volume
    );
    facts.push(fact("volumes", &volumes));
    facts.extend(prices(run));
    facts.extend(scenario.workload.published_command.as_deref().map(|line| fact("published command", line)));
    for arm in &scenario.arms {
        let first = run.points.iter().find(|result| result.arm == arm.key && !result.tool.argv.is_empty());
        facts.extend(first.map(|result| fact(&format!("command of arm {}", arm.key), &command(result))));
    }
    facts
}

/// What the arms cost, where the site says anything of it.
fn prices(run: &Run) -> Vec<Fact> {
    let prices = &run.info.site.prices;
    let words = |arm: &Arm| match prices.words(&run.scenario.id, &arm.key) {
        Ok(words) => words,
        Err(reason) => format!("not known: {reason}"),
    };
    let arms = run.scenario.arms.iter().filter(|_| !prices.each.is_empty());
    arms.map(|arm| fact(&format!("price of arm {}", arm.key), &words(arm))).collect()
}

/// Arms without a result, and why.
pub(crate) fn absent(run: &Run) -> Vec<String> {
    let arms = run.scenario.arms.iter();
    let silent = arms.filter(|arm| !run.points.iter().any(|result| result.arm == arm.key && result.valid()));
    silent
        .map(|arm| {
            let said = format!("arm {} is left out: ", arm.key);
            let why = run.info.warnings.iter().find_map(|warning| Some(warning.split_once(&said)?.1));
            let failed = run.points.iter().find(|result| result.arm == arm.key);
            let invalid = failed.and_then(PointResult::invalidity);
            let why = why.or(invalid).unwrap_or("no measurement of it was taken");
            format!("Arm {} ({}) did not run: {why}.", arm.key, arm.name)
        })
        .collect()
}

/// How much of the run counts for verdicts.
pub(crate) fn disturbed(run: &Run) -> Vec<Fact> {
    let valid: Vec<&PointResult> = run.points.iter().filter(|result| result.valid()).collect();
    let disturbed = valid.iter().filter(|result| result.doubt().is_some()).count();
    let short = valid.iter().filter(|result| result.intervals.len() < STEADY_INTERVALS).count();
    let mut facts = vec![fact(
        "disturbed",
        &format!(
            "{disturbed} of {} measurements were contended, unsteady or throttled; no verdict rests on them",
            valid.len()
        ),
    )];
    if short > 0 {
        let words = format!(
            "unchecked in {short} of {} measurements, whose windows have fewer than {STEADY_INTERVALS} intervals",
            valid.len()
        );
        facts.push(fact("steady state", &words));
    }
    facts.extend(kernel(&valid));
    facts.extend(waiting::note(valid.iter().copied()).map(|words| fact("latency at a rate", &words)));
    facts.extend(kept(&valid));
    facts
}

/// How many measurements were looked at while their load ran.
fn kept(results: &[&PointResult]) -> Option<Fact> {
    let with = |name: &str| {
        results.iter().filter(|result| result.extra.get(name).is_some_and(|count| *count > 0.0)).count()
    };
    let (offsets, data) = (with("sampled_offsets"), with("verified_reads"));
    (offsets + data > 0).then(|| {
        let words = format!(
            "in {offsets} of {} measurements where I/Os went was looked at, and in {data} data was written, read back and compared while the load ran",
            results.len()
        );
        fact("looked at", &words)
    })
}

/// What the kernel's threads took of the machine, kind by kind: no side accounts for it.
fn kernel(results: &[&PointResult]) -> Option<Fact> {
    let mut kinds: BTreeMap<&str, f64> = BTreeMap::new();
    let mut capacity = 0.0;
    for result in results {
        capacity += f64::from(result.cpu.processors) * result.seconds;
        for (name, seconds) in &result.extra {
            let kind = name.strip_prefix("kernel_").and_then(|rest| rest.strip_suffix("_seconds"));
            if let Some(kind) = kind {
                *kinds.entry(kind).or_default() += seconds;
            }
        }
    }
    let percents = kinds.into_iter().map(|(kind, seconds)| (kind, seconds / capacity * 100.0));
    let mut shown: Vec<(&str, f64)> = percents.filter(|(_, percent)| *percent >= LEAST_PERCENT).collect();
    shown.sort_by(|one, other| other.1.total_cmp(&one.1));
    let words: Vec<String> = shown.iter().map(|(kind, percent)| format!("{kind} {percent:.1} %")).collect();
    (!words.is_empty()).then(|| {
        fact(
            "kernel threads",
            &format!("{} of the machine's processors, attributed to no side", words.join(", ")),
        )
    })
}

fn fact(name: &str, value: &str) -> Fact {
    Fact { name: name.to_owned(), value: value.to_owned() }
}

/// An option's values: those that were swept, those of the arms, or the one for all.
fn values(scenario: &Scenario, name: &str) -> Option<String> {
    let swept = scenario.sweep.iter().filter(|axis| axis.axis == name).flat_map(|axis| &axis.values);
    let own = scenario.arms.iter().filter_map(|arm| arm.with.get(name));
    let mut seen = BTreeSet::new();
    let mut all: Vec<&str> =
        swept.chain(own).map(String::as_str).filter(|value| seen.insert(*value)).collect();
    if all.is_empty() {
        all.extend(scenario.workload.options.get(name).map(String::as_str));
    }
    (!all.is_empty()).then(|| all.join(", "))
}

fn command(result: &PointResult) -> String {
    let version = if result.tool.version.is_empty() {
        String::new()
    } else {
        format!("  ({} {})", result.tool.name, result.tool.version)
    };
    format!("{}{version}", result.tool.argv.join(" "))
}

const fn tool(kind: ToolKind) -> &'static str {
    match kind {
        ToolKind::Fio => "fio, or the initiator's own load generator with fio's options",
        ToolKind::Iperf3 => "iperf3",
        ToolKind::Dd => "dd",
        ToolKind::Pgbench => "pgbench on PostgreSQL",
        ToolKind::FirstIo => {
            "one block of 4 KiB, written, read back and compared, on arms of which nothing was set up"
        }
        ToolKind::Vmfleet => "VMFleet (DiskSpd in virtual machines)",
        ToolKind::Diskspd => "DiskSpd",
        ToolKind::Analysis => "none: computed from other results",
    }
}
