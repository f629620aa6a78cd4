//! Claims judged on made-up results.

use super::*;
use crate::result::Flag;
use crate::statistics::synthetic::{point, result, scenario};

/// Six blocks at a point: A is about `ratio` times as fast as B.
fn blocks(place: &str, ratio: f64) -> Vec<PointResult> {
    let mut results = Vec::new();
    for (repetition, wobble) in (1..).zip([0.98, 0.99, 1.0, 1.0, 1.01, 1.02]) {
        let base = 10_000.0 * f64::from(repetition);
        results.push(PointResult { point: point(place), ..result("A", repetition, base * ratio * wobble) });
        results.push(PointResult { point: point(place), ..result("B", repetition, base) });
    }
    results
}

fn claim(rest: &str) -> Scenario {
    scenario(&format!("[[claim]]\nid='c'\ntext='t'\n{rest}"))
}

fn judged(rest: &str, results: &[PointResult]) -> Judgement {
    judge(&claim(rest), results, &[]).remove(0)
}

fn outcome_of(test: &str, results: &[PointResult]) -> Outcome {
    judged(&format!("test='{test}'"), results).outcome
}

#[test]
fn whole_intervals_decide() {
    let results = blocks("bs=4k", 2.0);
    assert_eq!(outcome_of("ratio(iops) >= 1.9", &results), Outcome::Reproduced);
    assert_eq!(outcome_of("ratio(iops) >= 2.0", &results), Outcome::NotEnough);
    assert_eq!(outcome_of("ratio(iops) >= 2.1", &results), Outcome::Contradicted);
    assert_eq!(outcome_of("ratio(iops) < 2.1 and ratio(bandwidth) > 1.9", &results), Outcome::Reproduced);
    assert_eq!(outcome_of("ratio(iops) > 2.1 or ratio(iops) < 3", &results), Outcome::Reproduced);
    assert_eq!(outcome_of("not ratio(iops) > 2.1", &results), Outcome::Reproduced);
    assert_eq!(outcome_of("iops(B) / iops(A) <= 0.53", &results), Outcome::Reproduced);
}

#[test]
fn the_reason_tells_the_numbers_and_the_place() {
    let judgement = judged("test='ratio(iops) >= 1.9'", &blocks("bs=4k", 2.0));
    assert_eq!(judgement.words(), "reproduced: ratio(iops) = 2.00 (CI 1.96–2.04) at bs=4k");
    assert_eq!(judgement.checks.len(), 1);
    let judgement = judged("test='ratio(iops) >= 2'", &blocks("bs=4k", 2.0));
    assert!(
        judgement
            .words()
            .starts_with("not enough: ratio(iops) = 2.00 (CI 1.96–2.04): the interval lies on both sides")
    );
}

#[test]
fn both_sides_are_told_in_the_same_unit() {
    let results = blocks("bs=4k", 2.0);
    for side in [
        "5 * bandwidth(B)",
        "bandwidth(B) * 10 / 2",
        "bandwidth(B) + 4 * bandwidth(B)",
        "5 * max(bandwidth(B))",
    ] {
        let words = judged(&format!("test='bandwidth(A) <= {side}'"), &results).words();
        assert_eq!(words.matches(" MB/s (CI ").count(), 2, "{words}");
    }
    for side in ["bandwidth(B) * bandwidth(B)", "bandwidth(B) + 5", "iops(B) / bandwidth(B)"] {
        let words = judged(&format!("test='bandwidth(A) <= {side}'"), &results).words();
        assert_eq!(words.matches(" MB/s (CI ").count(), 1, "{words}");
    }
}

#[test]
fn a_test_holds_at_every_point_or_names_those_where_it_does_not() {
    let mut results = blocks("bs=4k", 2.0);
    results.extend(blocks("bs=8k", 1.2));
    let judgement = judged("test='ratio(iops) > 1.5'", &results);
    assert_eq!(judgement.outcome, Outcome::Contradicted);
    assert!(
        judgement.why.contains("1.20 (CI 1.18–1.22) at bs=8k; the other 1 of 2 points do not say so"),
        "{}",
        judgement.why
    );
    assert_eq!(
        judgement.checks.iter().map(|check| check.holds).collect::<Vec<_>>(),
        [Some(true), Some(false)]
    );
    let there = judged("test='ratio(iops) > 1.5'\nat={bs='4k'}", &results);
    assert_eq!((there.outcome, there.checks.len()), (Outcome::Reproduced, 1));
}

#[test]
fn points_are_taken_together_by_functions() {
    let mut results = blocks("bs=4k", 2.0);
    results.extend(blocks("bs=8k", 1.2));
    results.extend(blocks("bs=16k", 0.8));
    for (test, expected) in [
        ("mean(ratio(iops)) > 1.25", Outcome::Reproduced),
        ("mean(ratio(iops)) > 1.45", Outcome::Contradicted),
        ("max(ratio(iops)) > 1.9 and min(ratio(iops)) < 0.9", Outcome::Reproduced),
        ("share(ratio(iops) > 1) >= 0.66", Outcome::Reproduced),
        ("share(ratio(iops) > 1) >= 0.67", Outcome::Contradicted),
        ("all(ratio(iops) > 1)", Outcome::Contradicted),
        ("any(ratio(iops) > 1.9)", Outcome::Reproduced),
        ("first(bs, ratio(iops) < 1.5) > 4096", Outcome::Reproduced),
        ("first(bs, ratio(iops) < 1.5) > 8192", Outcome::Contradicted),
        ("max(iops(A)) / max(iops(B)) > 1", Outcome::NotEnough),
    ] {
        assert_eq!(outcome_of(test, &results), expected, "{test}");
    }
    let judgement = judged("test='share(ratio(iops) > 1) >= 0.66'", &results);
    assert_eq!(judgement.words(), "reproduced: share(ratio(iops) > 1) = 0.67");
}

#[test]
fn another_place_can_be_named() {
    let mut results = blocks("volumes=1", 1.0);
    results.extend(blocks("volumes=2", 4.0));
    let test = "test='ratio(iops, volumes=2) / ratio(iops, volumes=1) > 3.5'\nat={volumes='1'}";
    assert_eq!(judged(test, &results).outcome, Outcome::Reproduced);
    let nowhere = judged("test='ratio(iops, volumes=3) > 1'", &results);
    assert_eq!(nowhere.outcome, Outcome::NotEnough);
    assert!(nowhere.why.contains("iops of A and B at volumes=3 was measured 0 times"), "{}", nowhere.why);
    let unknown = judged("test='ratio(iops, volume=2) > 1'", &results);
    assert_eq!(unknown.outcome, Outcome::NotEnough);
    assert!(unknown.why.contains("volumes=1 has no axis volume"), "{}", unknown.why);
}

#[test]
fn what_is_missing_is_said() {
    let results = blocks("bs=4k", 2.0);
    for (rest, part) in [
        ("", "no test in numbers"),
        ("test='ratio(iops) > 1'\nneeds=['offload adapter']", "it needs offload adapter"),
        ("test='ratio(iops) > 1'\nat={bs='512'}", "nothing was measured at bs=512"),
        ("test='ratio(iops) > 1'\nat={rw='randwrite'}", "nothing was measured at rw=randwrite"),
        ("test='ratio(iops)'", "a comparison is expected"),
    ] {
        let judgement = judged(rest, &results);
        assert_eq!(judgement.outcome, Outcome::NotTestable, "{rest}");
        assert!(judgement.why.contains(part), "{rest}: {}", judgement.why);
        assert!(judgement.words().starts_with("not testable here: "));
    }
    let judgement = judged("test='ratio(iops) > 1'", &[]);
    assert!(judgement.why.contains("nothing was measured"), "{}", judgement.why);
}

#[test]
fn options_that_are_the_same_everywhere_are_places_too() {
    let judgement = judged("test='ratio(iops) > 1.9'\nat={rw='randread',bs='4k'}", &blocks("bs=4k", 2.0));
    assert_eq!(judgement.outcome, Outcome::Reproduced);
}

#[test]
fn a_stand_in_is_never_the_claim_itself() {
    let text = "test='ratio(iops) > 1.9'\nneeds=['offload adapter','25GbE']\nhere='two programs'";
    let results = blocks("bs=4k", 2.0);
    let judgement = judged(text, &results);
    assert_eq!(judgement.outcome, Outcome::NotTestable);
    assert_eq!(judgement.stand_in.as_ref().map(|stand_in| stand_in.outcome), Some(Outcome::Reproduced));
    assert_eq!(judgement.missing.len(), 2);
    assert!(
        judgement.missing[0].starts_with("offload adapter: an adapter that takes"),
        "{:?}",
        judgement.missing
    );
    assert_eq!(
        judgement.words(),
        "not testable here: it needs offload adapter, 25GbE; in its place, two programs: reproduced: \
         ratio(iops) = 2.00 (CI 1.96–2.04) at bs=4k"
    );
    let site = ["offload adapter".to_owned(), "25GbE".to_owned()];
    let judgement = judge(&claim(text), &results, &site).remove(0);
    assert_eq!(
        (judgement.outcome, judgement.stand_in, judgement.missing.len()),
        (Outcome::Reproduced, None, 0)
    );
    let judgement = judge(&claim(text), &results, &site[..1]).remove(0);
    assert_eq!((judgement.outcome, judgement.missing.len()), (Outcome::NotTestable, 1));
}

#[test]
fn what_a_site_declares_makes_no_stand_in_the_thing_itself() {
    let text = "test='ratio(iops) > 1.9'\nneeds=['offload adapter']\nhere='two programs'";
    let mut results = blocks("bs=4k", 2.0);
    for result in results.iter_mut().filter(|result| result.arm == "B") {
        result.evidence = Evidence::Emulated { stands_for: "a program in place of an adapter".to_owned() };
    }
    for result in results.iter_mut().filter(|result| result.arm == "A") {
        result.evidence = Evidence::Scaled { factor: "link 25 to 2.5 Gbit/s".to_owned() };
    }
    let site = ["offload adapter".to_owned()];
    let judgement = judge(&claim(text), &results, &site).remove(0);
    assert_eq!(judgement.outcome, Outcome::NotTestable);
    assert_eq!(judgement.why, "arm A is scaled, not the thing itself");
    assert_eq!(judgement.stand_in.unwrap().what, "two programs");
}

#[test]
fn too_few_or_invalid_runs_decide_nothing() {
    let mut results = blocks("bs=4k", 2.0);
    for result in results.iter_mut().filter(|result| result.repetition <= 2) {
        result.flags.push(Flag::Errors { detail: "1 % failed".to_owned() });
    }
    let judgement = judged("test='ratio(iops) > 1'", &results);
    assert_eq!(judgement.outcome, Outcome::NotEnough);
    assert!(judgement.why.contains("was measured 4 times, and an interval takes 5"), "{}", judgement.why);
    assert_eq!(outcome_of("iops(A) > 1", &results), Outcome::NotEnough);
    assert_eq!(outcome_of("line_rate(A) > 1", &blocks("bs=4k", 1.0)), Outcome::NotEnough);
}

#[test]
fn stand_ins_are_not_compared_with_the_thing() {
    let mut results = blocks("bs=4k", 2.0);
    for result in results.iter_mut().filter(|result| result.arm == "B") {
        result.evidence = Evidence::Emulated { stands_for: "a model in place of a drive".to_owned() };
    }
    let judgement = judged("test='ratio(iops) > 1'", &results);
    assert_eq!(judgement.outcome, Outcome::NotTestable);
    assert!(judgement.why.contains("A is real and B is emulated"), "{}", judgement.why);
    assert_eq!(outcome_of("iops(A) > 1", &results), Outcome::Reproduced, "one arm alone may speak");
}

#[test]
fn equality_at_a_shared_limit_is_told_as_such() {
    let mut results = Vec::new();
    for (depth, factor) in [(1, 1.0), (32, 6.0), (64, 6.0)] {
        let scale = |result: PointResult| {
            let iops = 10_000.0 * factor;
            PointResult { load: self::result(&result.arm, 1, iops).load, ..result }
        };
        results.extend(blocks(&format!("iodepth={depth}"), 1.0).into_iter().map(scale));
    }
    let judgement = judged("test='ratio(iops) >= 0.98'", &results);
    assert_eq!(judgement.outcome, Outcome::Reproduced);
    assert!(
        judgement.why.contains("shared limit: from 32 I/Os under way on, A, B all end at 60.0k IOPS"),
        "{}",
        judgement.why
    );
}

#[test]
fn every_scenario_s_tests_are_read() {
    let mut count = 0;
    for loaded in crate::scenario::catalogue::list().unwrap() {
        for claim in &loaded.scenario.claims {
            if let Some(text) = &claim.test {
                Test::parse(text)
                    .unwrap_or_else(|error| panic!("{} {}: {error:#}", loaded.scenario.id, claim.id));
                count += 1;
            }
        }
        assert_eq!(judge(&loaded.scenario, &[], &[]).len(), loaded.scenario.claims.len());
    }
    assert!(count >= 50, "only {count} tests were found");
}
