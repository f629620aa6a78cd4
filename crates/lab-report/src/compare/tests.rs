//! Comparisons of made-up run directories with a known truth.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::*;
use lab_model::evidence::Evidence;
use lab_model::result::Flag;
use lab_model::statistics::random::Random;
use lab_model::statistics::synthetic::{Bench, Block, REALISTIC, point, result};

/// A bench quieter than the acceptance's, on which unpaired runs can show 10 % at all.
const QUIET: Bench = Bench { noise: 0.01, drift: 0.01 };

const SCENARIO: &str = r#"
id = "family.name"
title = "t"
question = "q"
[source]
publication = "p"
[[arm]]
key = "A"
name = "one"
initiator = "linerate"
target = "none"
evidence = { kind = "real" }
[[arm]]
key = "B"
name = "other"
initiator = "local"
target = "none"
evidence = { kind = "real" }
[workload]
tool = "fio"
[[figure]]
id = "f"
title = "f"
kind = "bars"
y = ["iops", "latency_p99"]
"#;

/// Run directories below a folder that goes with it.
struct Bed {
    folder: tempfile::TempDir,
}

impl Bed {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A run with a control in which the first arm was as fast as itself.
    fn run(&self, name: &str, id: &str, results: &[PointResult]) -> PathBuf {
        let run = self.without_control(name, id, results);
        Self::control(&run, 1.0);
        run
    }

    fn without_control(&self, name: &str, id: &str, results: &[PointResult]) -> PathBuf {
        let run = self.folder.path().join(name);
        fs::create_dir_all(run.join("points")).unwrap();
        fs::write(run.join("scenario.toml"), SCENARIO).unwrap();
        let environment = json!({"cpu": {"model": format!("model of {name}"), "count": 2}});
        let about = json!({"schema": 1, "id": id, "started": "2026-01-01T00:00:00Z", "commit": name, "environment": environment});
        fs::write(run.join("run.json"), about.to_string()).unwrap();
        for (number, result) in results.iter().enumerate() {
            let folder = run.join("points").join(format!("{number:03}"));
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("result.json"), serde_json::to_string(result).unwrap()).unwrap();
        }
        run
    }

    /// Adds a control block to a run: the first arm against itself, ten times, in every other pair `uneven` times as fast.
    fn control(run: &Path, uneven: f64) {
        for (number, (arm, repetition)) in
            ["A", "A2"].into_iter().flat_map(|arm| (1..=10).map(move |one| (arm, one))).enumerate()
        {
            let folder = run.join("control").join(format!("{number:03}"));
            fs::create_dir_all(&folder).unwrap();
            let iops = if arm == "A" && repetition % 2 == 0 { 1000.0 * uneven } else { 1000.0 };
            let result = serde_json::to_string(&result(arm, repetition, iops)).unwrap();
            fs::write(folder.join("result.json"), result).unwrap();
        }
    }
}

/// Repetitions of an arm at two points; at the second, `effect` times as fast as it should be.
fn arm(random: &mut Random, bench: Bench, name: &str, effect: f64) -> Vec<PointResult> {
    (1..=10)
        .flat_map(|repetition| {
            [("bs=4k", 1.0), ("bs=8k", effect)].map(|(place, effect)| {
                let iops = bench.block(random, effect).a;
                PointResult { point: point(place), ..result(name, repetition, iops) }
            })
        })
        .collect()
}

fn thresholds(all: &[&str]) -> Vec<Threshold> {
    all.iter().map(|text| text.parse().unwrap()).collect()
}

fn regressed(baseline: &Path, current: &Path, all: &[&str]) -> Regression {
    regress(baseline, current, &thresholds(all), &Options::default()).unwrap()
}

#[test]
fn a_loss_of_ten_per_cent_is_caught_where_it_is() {
    for seed in 0..20 {
        let (bed, mut random) = (Bed::new(), Random::new(seed));
        let baseline = bed.run("old", "1", &arm(&mut random, QUIET, "A", 1.0));
        let current = bed.run("new", "2", &arm(&mut random, QUIET, "A", 0.9));
        let found = regressed(&baseline, &current, &["iops<-5%"]);
        assert_eq!(found.outcome(), Outcome::Regression, "seed {seed}: {}", found.text());
        let points: Vec<&str> = found.failed.iter().map(|failure| failure.point.as_str()).collect();
        assert_eq!(points, ["bs=8k"], "seed {seed}");
        assert!(found.failed[0].words.starts_with("current lower by"), "{}", found.failed[0].words);
        assert!(
            found.failed[0].words.ends_with("10 repetitions of each, unpaired)"),
            "{}",
            found.failed[0].words
        );
    }
}

#[test]
fn nothing_is_invented_on_equal_runs() {
    for seed in 0..40 {
        let (bed, mut random) = (Bed::new(), Random::new(1_000 + seed));
        let bench = if seed % 2 == 0 { QUIET } else { REALISTIC };
        let baseline = bed.run("old", "1", &arm(&mut random, bench, "A", 1.0));
        let current = bed.run("new", "2", &arm(&mut random, bench, "A", 1.0));
        let found = regressed(&baseline, &current, &["iops<-5%", "iops>+5%"]);
        assert_eq!(found.outcome(), Outcome::Fine, "seed {seed}: {}", found.text());
        assert_eq!(found.outcome().code(), 0);
    }
}

/// What two runs cannot show because blocks drift by 10 %, pairs of one run do.
#[test]
fn pairs_of_one_run_see_through_drift() {
    let (bed, mut random) = (Bed::new(), Random::new(9));
    let (mut slow, mut fast) = (Vec::new(), Vec::new());
    for repetition in 1..=12 {
        let Block { a, b } = REALISTIC.block(&mut random, 0.9);
        slow.push(result("A", repetition, a));
        fast.push(result("A", repetition, b));
    }
    let paired = compare(&bed.run("a", "1", &slow), &bed.run("b", "1", &fast), &Options::default()).unwrap();
    assert_eq!(paired.pairing, Pairing::Paired);
    assert_eq!(paired.rows[0].verdict.finding, Finding::Lower, "{}", paired.text());
    assert!(paired.rows[0].words.starts_with("A lower by") && paired.rows[0].words.ends_with("12 pairs)"));
    let unpaired =
        compare(&bed.run("c", "1", &slow), &bed.run("d", "2", &fast), &Options::default()).unwrap();
    assert_eq!(unpaired.pairing, Pairing::Unpaired);
    let width = |comparison: &Comparison| {
        let ratio = comparison.rows[0].verdict.ratio.unwrap();
        (ratio.high / ratio.low).ln()
    };
    assert!(width(&unpaired) > 1.5 * width(&paired), "{} {}", width(&unpaired), width(&paired));
    assert!(unpaired.text().contains("not paired"), "{}", unpaired.text());
}

#[test]
fn arms_of_one_folder_are_pairs() {
    let (bed, mut random) = (Bed::new(), Random::new(3));
    let results: Vec<PointResult> = (1..=10)
        .flat_map(|repetition| {
            let Block { a, b } = QUIET.block(&mut random, 1.2);
            [result("A", repetition, a), result("B", repetition, b)]
        })
        .collect();
    let run = bed.without_control("run", "1", &results);
    let comparison = compare(&run, &run, &Options::default()).unwrap();
    assert_eq!(comparison.rows[0].words, "not shown: the control has too few undisturbed pairs");
    Bed::control(&run, 1.0);
    let comparison = compare(&run, &run, &Options::default()).unwrap();
    assert_eq!((comparison.pairing, comparison.rows.len()), (Pairing::Paired, 1));
    assert_eq!(comparison.rows[0].arm, "A as A, B as B");
    assert!(comparison.rows[0].words.starts_with("A higher by"), "{}", comparison.text());
    let error = regress(&run, &run, &thresholds(&["iops<-5%"]), &Options::default()).unwrap_err().to_string();
    assert!(error.contains("the same folder"), "{error}");
}

/// A tenth is lost at one point; the controls say whether either bench could show that.
#[test]
fn the_wider_control_of_two_runs_gates_them_and_without_one_nothing_is_shown() {
    let (bed, mut random) = (Bed::new(), Random::new(11));
    let (before, after) = (arm(&mut random, QUIET, "A", 1.0), arm(&mut random, QUIET, "A", 0.9));
    let baseline = bed.run("old", "1", &before);
    let found = |current: &Path| regressed(&baseline, current, &["iops<-5%"]);
    assert_eq!(found(&bed.run("calm", "2", &after)).outcome(), Outcome::Regression);
    let restless = bed.without_control("restless", "3", &after);
    Bed::control(&restless, 1.3);
    let beside = found(&restless);
    assert_eq!(beside.outcome(), Outcome::Fine, "{}", beside.text());
    let row = beside.comparison.rows.iter().find(|row| row.verdict.point == point("bs=8k")).unwrap();
    assert!(row.words.starts_with("no difference shown"), "{}", row.words);
    assert!(row.smallest_percent.unwrap() > 25.0, "{row:?}");
    let without = found(&bed.without_control("none", "4", &after));
    assert_eq!((without.outcome(), without.untested.len()), (Outcome::NotTestable, 1));
    let text = without.text();
    assert!(text.contains("not shown: the control has too few undisturbed pairs"), "{text}");
    assert!(text.contains("note: current has no control"), "{text}");
    let swapped = regressed(&bed.without_control("none-old", "5", &before), &restless, &["iops<-5%"]);
    assert_eq!(swapped.outcome(), Outcome::NotTestable, "one control does not gate two runs");
}

#[test]
fn a_stand_in_against_the_thing_needs_permission() {
    let (bed, mut random) = (Bed::new(), Random::new(3));
    let real = bed.run("real", "1", &arm(&mut random, QUIET, "A", 1.0));
    let mut emulated = arm(&mut random, QUIET, "A", 1.0);
    for result in &mut emulated {
        result.evidence = Evidence::Emulated { stands_for: "veth in place of 25GbE".to_owned() };
    }
    let emulated = bed.run("emulated", "2", &emulated);
    let error = compare(&real, &emulated, &Options::default()).unwrap_err().to_string();
    assert!(error.contains("veth in place of 25GbE") && error.contains("--across-evidence"), "{error}");
    let allowed = Options { across_evidence: true, ..Options::default() };
    let comparison = compare(&real, &emulated, &allowed).unwrap();
    assert!(comparison.notes.contains(&"real stands against emulated".to_owned()), "{:?}", comparison.notes);
}

#[test]
fn differences_of_the_environment_are_told() {
    let (bed, mut random) = (Bed::new(), Random::new(3));
    let a = bed.run("a", "1", &arm(&mut random, QUIET, "A", 1.0));
    let mut newer = arm(&mut random, QUIET, "A", 1.0);
    for result in &mut newer {
        "3.36".clone_into(&mut result.tool.version);
    }
    let b = bed.run("b", "2", &newer);
    let comparison = compare(&a, &b, &Options::default()).unwrap();
    let names: Vec<&str> = comparison.environment.iter().map(|fact| fact.name.as_str()).collect();
    assert_eq!(names, ["commit", "cpu.model", "tool.fio"]);
    let text = comparison.text();
    for part in ["model of a", "model of b", "3.33", "3.36", "A: ", "no difference shown"] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    let json: serde_json::Value = serde_json::from_str(&comparison.json().unwrap()).unwrap();
    assert_eq!(json["pairing"], "unpaired");
    assert_eq!(json["rows"].as_array().map(Vec::len), Some(2), "no latencies, so no rows of them");
}

#[test]
fn outcomes_have_their_codes() {
    let (bed, mut random) = (Bed::new(), Random::new(4));
    let baseline = bed.run("old", "1", &arm(&mut random, QUIET, "A", 1.0));
    let slow = arm(&mut random, QUIET, "A", 0.8);
    let broken = regressed(&baseline, &bed.run("slow", "2", &slow), &["iops<-5%"]);
    assert_eq!(broken.outcome().code(), 1);
    let mut failing = slow.clone();
    failing[3].flags.push(Flag::Errors { detail: "5 I/Os failed".to_owned() });
    let invalid = regressed(&baseline, &bed.run("failing", "3", &failing), &["iops<-5%"]);
    assert_eq!(invalid.outcome().code(), 2);
    assert!(invalid.text().contains("invalid: current: arm A at bs=8k, repetition 2"), "{}", invalid.text());
    let few = regressed(&baseline, &bed.run("few", "4", &slow[..6]), &["iops<-5%"]);
    assert_eq!((few.outcome().code(), few.untested.len()), (3, 1));
    assert!(few.comparison.rows.iter().all(|row| row.words == "not enough repetitions"));
    let untold = regressed(&baseline, &bed.run("same", "5", &slow), &["latency_p99>+10%"]);
    assert_eq!(untold.outcome(), Outcome::NotTestable);
    let empty = regressed(&baseline, &bed.run("empty", "6", &[]), &["iops<-5%"]);
    assert_eq!(empty.outcome(), Outcome::Invalid);
    let json: serde_json::Value = serde_json::from_str(&broken.json().unwrap()).unwrap();
    assert_eq!(
        (&json["outcome"], &json["failed"][0]["threshold"]["metric"]),
        (&json!("regression"), &json!("iops"))
    );
}

#[test]
fn an_unreadable_result_makes_a_run_invalid() {
    let (bed, mut random) = (Bed::new(), Random::new(4));
    let baseline = bed.run("old", "1", &arm(&mut random, QUIET, "A", 1.0));
    let current = bed.run("new", "2", &arm(&mut random, QUIET, "A", 1.0));
    fs::write(current.join("points/000/result.json"), "{").unwrap();
    let found = regressed(&baseline, &current, &["iops<-5%"]);
    assert_eq!(found.outcome(), Outcome::Invalid);
    assert!(found.invalid[0].contains("points/000/result.json"), "{:?}", found.invalid);
}

#[test]
fn points_of_one_run_only_are_named() {
    let (bed, mut random) = (Bed::new(), Random::new(4));
    let all = arm(&mut random, QUIET, "A", 1.0);
    let some: Vec<PointResult> =
        all.iter().filter(|result| result.point == point("bs=4k")).cloned().collect();
    let comparison =
        compare(&bed.run("a", "1", &all), &bed.run("b", "2", &some), &Options::default()).unwrap();
    assert_eq!(comparison.unmatched, ["A at bs=8k: only in A"]);
    assert_eq!(comparison.rows.len(), 1);
}

#[test]
fn what_is_no_run_is_explained() {
    let (bed, mut random) = (Bed::new(), Random::new(4));
    let run = bed.run("a", "1", &arm(&mut random, QUIET, "A", 1.0));
    let nowhere = bed.folder.path().join("nowhere");
    let error = format!("{:#}", compare(&run, &nowhere, &Options::default()).unwrap_err());
    assert!(error.contains("nowhere is not a run directory"), "{error}");
    let error = regress(&run, &nowhere, &[], &Options::default()).unwrap_err().to_string();
    assert!(error.contains("--fail-on"), "{error}");
}
