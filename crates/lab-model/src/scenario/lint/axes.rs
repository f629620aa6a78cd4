//! The sweep, the load and the design: options that exist, values that mean something, and the traps of both.

use super::finding::{Finding, doubles, warns_of};
use crate::scenario::{Axis, Calibration, Initiator, Scenario, ToolKind, calibration, options, sweep};

/// Fewer pairs than this say nothing of a difference: a sign test of four cannot fall below 6 %.
const LEAST_PAIRS: u32 = 5;
/// More points than this no run finishes.
const MOST_POINTS: usize = 1000;

/// What is wrong with the sweep, the workload, the topology and the design.
pub(super) fn findings(scenario: &Scenario) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in doubles(scenario.sweep.iter().map(|axis| axis.axis.as_str())) {
        findings.push(Finding::new(format!("axis {name}"), "there are two"));
    }
    for axis in &scenario.sweep {
        let place = format!("axis {}", axis.axis);
        findings.extend(
            self::axis(scenario, axis).into_iter().map(|message| Finding::new(place.clone(), message)),
        );
    }
    findings.extend(load(scenario));
    findings.extend(design(scenario));
    findings.extend(topology(scenario));
    findings.extend(buffered(scenario));
    findings.extend(shares(scenario));
    findings
}

fn axis(scenario: &Scenario, axis: &Axis) -> Vec<String> {
    let tool = scenario.workload.tool;
    let mut messages = Vec::new();
    if options::find(tool, &axis.axis).is_none() {
        messages.push(format!("{tool:?} has no such option; it may be one of {}", options::names(tool)));
    }
    if axis.values.is_empty() {
        messages.push("it has no values".to_owned());
    }
    for value in doubles(axis.values.iter().map(String::as_str)) {
        messages.push(format!("it has the value {value:?} twice"));
    }
    for value in axis.quick.iter().filter(|value| !axis.values.contains(value)) {
        messages.push(format!("its quick value {value:?} is not among its values"));
    }
    if axis.axis == "job" {
        let unknown = axis.values.iter().filter(|value| !scenario.workload.jobs.contains_key(*value));
        messages.extend(unknown.map(|value| format!("there is no [workload.jobs.{value}]")));
    }
    messages
}

fn load(scenario: &Scenario) -> Vec<Finding> {
    let tool = scenario.workload.tool;
    let own = scenario.workload.options.keys().map(|name| ("workload.options".to_owned(), name));
    let jobs = scenario.workload.jobs.iter();
    let of_jobs =
        jobs.flat_map(|(job, set)| set.keys().map(move |name| (format!("workload.jobs.{job}"), name)));
    let unknown = own.chain(of_jobs).filter(|(_, name)| options::find(tool, name).is_none());
    unknown
        .map(|(place, name)| {
            Finding::new(
                place,
                format!("{tool:?} has no option {name:?}; it may be one of {}", options::names(tool)),
            )
        })
        .collect()
}

fn design(scenario: &Scenario) -> Vec<Finding> {
    let design = &scenario.design;
    let points = sweep::points(scenario, sweep::Extent::Full).len();
    let wrong = [
        (design.min_pairs < LEAST_PAIRS, format!("min_pairs is below {LEAST_PAIRS}, which can show nothing")),
        (design.max_pairs < design.min_pairs, "max_pairs is below min_pairs".to_owned()),
        (!(0.0..1.0).contains(&design.half_width), "half_width is not a share between 0 and 1".to_owned()),
        (
            !(design.ramp >= 0.0 && design.runtime > 0.0),
            "ramp and runtime are not lengths of time".to_owned(),
        ),
        (points > MOST_POINTS, format!("{points} points are more than {MOST_POINTS}")),
    ];
    wrong.into_iter().filter(|(is, _)| *is).map(|(_, message)| Finding::new("design", message)).collect()
}

fn topology(scenario: &Scenario) -> Vec<Finding> {
    let topology = &scenario.topology;
    let mut findings = Vec::new();
    if topology.initiators == 0 || topology.targets == 0 || topology.luns == 0 {
        findings.push(Finding::new("topology", "initiators, targets and luns are at least one each"));
    } else if !topology.targets.is_multiple_of(topology.initiators) && !scenario.arms.is_empty() {
        let message = format!(
            "{} targets cannot be spread evenly over {} initiators",
            topology.targets, topology.initiators
        );
        findings.push(Finding::new("topology", message));
    }
    findings
}

/// Rates that are shares, and what they are shares of.
fn shares(scenario: &Scenario) -> Vec<Finding> {
    let points = sweep::points(scenario, sweep::Extent::Full);
    let given = scenario.arms.iter().flat_map(|arm| {
        points.iter().filter_map(|point| sweep::settings(scenario, arm, point).remove(calibration::RATE))
    });
    let mut shares: Vec<String> = given.filter(|rate| rate.ends_with('%')).collect();
    shares.dedup();
    let mut messages: Vec<String> = Vec::new();
    for text in &shares {
        let settings = [(calibration::RATE.to_owned(), text.clone())].into();
        if !calibration::share(&settings).is_some_and(|share| share > 0.0 && share <= 1.0) {
            messages.push(format!("rate_iops = {text:?} is not a share above 0% and up to 100%"));
        }
    }
    match &scenario.calibration {
        None if !shares.is_empty() => {
            messages.push("rates are shares, and no [calibration] says of what".to_owned());
        }
        Some(_) if shares.is_empty() => messages.push("no rate is a share of what it finds".to_owned()),
        Some(plan) => messages.extend(plan_of(scenario, plan)),
        None => {}
    }
    messages.into_iter().map(|message| Finding::new("calibration", message)).collect()
}

fn plan_of(scenario: &Scenario, plan: &Calibration) -> Vec<String> {
    let tool = scenario.workload.tool;
    let mut messages = Vec::new();
    if plan.runs == 0 {
        messages.push("it takes at least one run".to_owned());
    }
    if let Some(key) = plan.of.as_ref().filter(|key| !scenario.arms.iter().any(|arm| arm.key == **key)) {
        messages.push(format!("no arm has the key {key:?}"));
    }
    let closed = |name: &&String| options::find(tool, name).is_none() || *name == calibration::RATE;
    messages.extend(
        plan.with.keys().filter(closed).map(|name| format!("{name:?} is not an option of a closed loop")),
    );
    messages
}

/// Writes through a page cache, swept by their size: what reaches the network has another size.
fn buffered(scenario: &Scenario) -> Option<Finding> {
    let swept = scenario.sweep.iter().any(|axis| axis.axis == "bs" && axis.values.len() > 1);
    let cached = |settings: &std::collections::BTreeMap<String, String>| {
        let of = |name: &str| settings.get(name).map(String::as_str);
        match scenario.workload.tool {
            ToolKind::Dd => of("oflag") != Some("direct"),
            ToolKind::Fio => of("direct") == Some("0"),
            _ => false,
        }
    };
    let arms = scenario.arms.iter().filter(|arm| arm.initiator != Initiator::Stream);
    let points = sweep::points(scenario, sweep::Extent::Full);
    let mut each = arms.flat_map(|arm| points.iter().map(move |point| sweep::settings(scenario, arm, point)));
    let trapped = swept && each.any(|settings| cached(&settings)) && !warns_of(scenario, "buffered writes");
    trapped.then(|| {
        let message = "block sizes are swept through a page cache, which joins small writes: write past it, or name \
                       the trap \"buffered writes\"";
        Finding::new("axis bs", message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(rest: &str, part: &str) {
        let text = format!("id='f.n'\ntitle='t'\nquestion='q'\nsource={{publication='p'}}\n{rest}");
        let found: Vec<String> =
            findings(&toml::from_str(&text).unwrap()).iter().map(ToString::to_string).collect();
        assert!(found.iter().any(|one| one.contains(part)), "{part:?} is not in {found:?}");
    }

    const ARM: &str =
        "[[arm]]\nkey='A'\nname='a'\ninitiator='local'\ntarget='none'\nevidence={kind='real'}\n";

    #[test]
    fn options_that_no_tool_has() {
        refused("[workload]\ntool='fio'\noptions={iodept='64'}", "iodept");
        refused("[workload]\ntool='fio'\n[workload.jobs.x]\nthreads='4'", "threads");
        refused("[workload]\ntool='iperf3'\n[[sweep]]\naxis='rw'\nvalues=['read']", "axis rw");
        refused("[workload]\ntool='fio'\n[[sweep]]\naxis='job'\nvalues=['y']", "workload.jobs.y");
    }

    #[test]
    fn values_that_make_no_sense() {
        let axis = |rest: &str| format!("[workload]\ntool='fio'\n[[sweep]]\naxis='bs'\n{rest}");
        refused(&axis("values=[]"), "no values");
        refused(&axis("values=['4k','4k']"), "twice");
        refused(&axis("values=['4k']\nquick=['8k']"), "quick value");
        refused(&axis("values=['4k']\n[[sweep]]\naxis='bs'\nvalues=['8k']"), "there are two");
        refused(&axis("values=['4k']\n[design]\nmin_pairs=2"), "min_pairs");
        refused(&axis("values=['4k']\n[design]\nmax_pairs=4"), "max_pairs");
        refused(&axis("values=['4k']\n[design]\nruntime=0.0"), "lengths of time");
    }

    #[test]
    fn shares_of_nothing() {
        let rates = |rates: &str, rest: &str| {
            format!("[workload]\ntool='fio'\n{rest}\n[[sweep]]\naxis='rate_iops'\nvalues=[{rates}]\n{ARM}")
        };
        refused(&rates("'50%'", ""), "says of what");
        refused(&rates("'500'", "[calibration]"), "no rate is a share");
        for share in ["'0%'", "'101%'", "'half%'"] {
            refused(&rates(share, "[calibration]"), "is not a share");
        }
        refused(&rates("'50%'", "[calibration]\nof='Z'"), "\"Z\"");
        refused(&rates("'50%'", "[calibration]\nruns=0"), "at least one run");
        refused(&rates("'50%'", "[calibration]\nwith={iodept='1'}"), "iodept");
        refused(&rates("'50%'", "[calibration]\nwith={rate_iops='1'}"), "closed loop");
    }

    #[test]
    fn a_sweep_through_a_page_cache() {
        let sweep = "[[sweep]]\naxis='bs'\nvalues=['1k','64k']\n";
        refused(&format!("[workload]\ntool='dd'\n{sweep}{ARM}"), "page cache");
        refused(&format!("[workload]\ntool='fio'\noptions={{direct='0'}}\n{sweep}{ARM}"), "page cache");
        let warned = format!(
            "id='f.n'\ntitle='t'\nquestion='q'\ntraps=['buffered writes: so it is']\nsource={{publication='p'}}\n\
             [workload]\ntool='dd'\n{sweep}{ARM}"
        );
        assert_eq!(findings(&toml::from_str(&warned).unwrap()), []);
    }
}
