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

/// Beside a control that finds no difference.
fn judged(rest: &str, results: &[PointResult]) -> Judgement {
    let control = control_of(0.0);
    judge(&claim(rest), Measured { results, control: &control, site_has: &[], prices: None }).remove(0)
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
        ("first(bs, ratio(iops) < 0.5) <= 16384", Outcome::Contradicted),
        ("max(iops(A)) / max(iops(B)) > 1", Outcome::NotEnough),
    ] {
        assert_eq!(outcome_of(test, &results), expected, "{test}");
    }
    let judgement = judged("test='share(ratio(iops) > 1) >= 0.66'", &results);
    assert_eq!(judgement.words(), "reproduced: share(ratio(iops) > 1) = 0.67");
}

#[test]
fn an_arm_that_never_gets_there_contradicts_where_it_should() {
    let judgement = judged("test='first(bs, ratio(iops) > 3) <= 4096'", &blocks("bs=4k", 2.0));
    assert_eq!(judgement.words(), "contradicted: first(bs, ratio(iops) > 3) = never");
}

/// Six blocks of an arm against itself that reach about `reach` to either side.
fn control_of(reach: f64) -> Vec<PointResult> {
    let mut results = Vec::new();
    for (repetition, wobble) in (1..).zip([-1.0, 1.0, -1.0, 1.0, -1.0, 1.0]) {
        results.push(result("A", repetition, 10_000.0 * (1.0 + wobble * reach)));
        results.push(result("A2", repetition, 10_000.0));
    }
    results
}

/// A costs twice as much as B and does twice as much, then three times as much; both widths are those of the measured rate.
#[test]
fn work_for_the_price_is_tested_where_a_site_has_prices_and_otherwise_says_which_is_missing() {
    let control = control_of(0.0);
    let verdict = |times: f64, prices: &str| {
        let pairs = |repetition| [result("A", repetition, 1000.0 * times), result("B", repetition, 1000.0)];
        let results: Vec<PointResult> = (1..=8).flat_map(pairs).collect();
        let prices: Prices = toml::from_str(prices).unwrap();
        let measured =
            Measured { results: &results, control: &control, site_has: &[], prices: Some(&prices) };
        judge(&claim("test='ratio(iops_per_price) > 1.2'"), measured).remove(0)
    };
    let site = "[each]\nhost=100\n[parts.A]\nhost=2\n[parts.B]\nhost=1\n";
    assert_eq!(verdict(3.0, site).outcome, Outcome::Reproduced);
    assert_eq!(verdict(2.0, site).outcome, Outcome::Contradicted);
    let adapter = verdict(3.0, &site.replace("host=1\n", "host=1\nadapter=1\n"));
    assert_eq!(
        adapter.words(),
        "not testable here: no price of adapter in the site file, and arm B has 1 of them"
    );
    let none = verdict(3.0, "");
    assert_eq!(
        (none.outcome, none.why.starts_with("no prices in the site file")),
        (Outcome::NotTestable, true)
    );
}

#[test]
fn what_the_control_cannot_tell_apart_is_not_shown() {
    let results = blocks("bs=4k", 1.08);
    let with = |control: &[PointResult], test: &str| {
        let measured = Measured { results: &results, control, site_has: &[], prices: None };
        judge(&claim(&format!("test='{test}'")), measured).remove(0).outcome
    };
    assert_eq!(with(&control_of(0.01), "ratio(iops) > 1"), Outcome::Reproduced);
    assert_eq!(with(&control_of(0.10), "ratio(iops) > 1"), Outcome::NotEnough);
    assert_eq!(with(&control_of(0.10), "ratio(iops) > 0.5"), Outcome::Reproduced, "far beyond the control");
    assert_eq!(with(&control_of(0.10), "ratio(iops) > 2"), Outcome::Contradicted);
}

#[test]
fn without_a_control_nothing_is_said_of_two_arms() {
    let results = blocks("bs=4k", 2.0);
    let mut disturbed = control_of(0.01);
    for result in disturbed.iter_mut().filter(|result| result.repetition <= 2) {
        result.flags.push(Flag::Contended { detail: "12 %".to_owned() });
    }
    for control in [&[], disturbed.as_slice()] {
        let judged = |test: &str| {
            let measured = Measured { results: &results, control, site_has: &[], prices: None };
            judge(&claim(&format!("test='{test}'")), measured).remove(0)
        };
        for test in [
            "ratio(iops) > 1",
            "ratio(iops) > 3",
            "iops(B) / iops(A) < 1",
            "mean(ratio(iops)) > 1",
            "share(ratio(iops) > 1) > 0.5",
            "iops(A) - iops(B) > 1",
            "iops(A) > 0.0001 * iops(B)",
            "max(iops(A)) / min(iops(B)) > 0.001",
            "first(bs, iops(A) > 1) <= first(bs, iops(B) > 1)",
        ] {
            let judgement = judged(test);
            assert_eq!(judgement.outcome, Outcome::NotEnough, "{test}: {}", judgement.why);
        }
        let why = judged("iops(A) - iops(B) > 1").why;
        assert!(why.contains("not shown: the control has too few undisturbed pairs"), "{why}");
        for test in ["iops(A) > 1", "iops(A) > 1 and iops(B) > 1", "iops(A) <= 100 * max(iops(A))"] {
            assert_eq!(judged(test).outcome, Outcome::Reproduced, "{test} compares no arms");
        }
    }
}

#[test]
fn differences_and_both_sides_are_no_surer_than_the_control() {
    let mut results = blocks("bs=4k", 1.08);
    for result in &mut results {
        let base = if result.arm == "A" { 10_800.0 } else { 10_000.0 };
        result.load = self::result(&result.arm, 1, base).load;
    }
    let with = |reach: f64, test: &str| {
        let control = control_of(reach);
        let measured = Measured { results: &results, control: &control, site_has: &[], prices: None };
        judge(&claim(&format!("test='{test}'")), measured).remove(0).outcome
    };
    for test in ["iops(A) - iops(B) > 0", "iops(A) > iops(B)", "max(iops(A)) / max(iops(B)) > 1"] {
        assert_eq!(with(0.0, test), Outcome::Reproduced, "{test}");
        assert_eq!(with(0.10, test), Outcome::NotEnough, "{test}");
    }
    assert_eq!(with(0.10, "iops(A) > 10700"), Outcome::Reproduced, "a number is no arm");
}

#[test]
fn latency_added_over_local_is_no_surer_than_a_whole_latency() {
    let text = "[[arm]]\nkey='L'\nname='local'\ninitiator='local'\ntarget='none'\nevidence={kind='real'}\n\
        [[claim]]\nid='c'\ntext='t'\ntest='added_latency(A) <= 6000'\n";
    let timed = |arm: &str, repetition: u32, mean: f64| {
        let mut result = PointResult { point: point("bs=4k"), ..result(arm, repetition, 1000.0) };
        if let Some(read) = &mut result.load.read {
            read.ios = 10;
            read.latency = Some(crate::result::Latency { mean, ..crate::result::Latency::default() });
        }
        result
    };
    let results: Vec<PointResult> =
        (1..=6).flat_map(|number| [timed("A", number, 105_000.0), timed("L", number, 100_000.0)]).collect();
    let with = |reach: f64| {
        let sides = |number: u32| {
            let sign = if number.is_multiple_of(2) { 1.0 } else { -1.0 };
            [timed("A", number, 105_000.0 * (1.0 + sign * reach)), timed("A2", number, 105_000.0)]
        };
        let control: Vec<PointResult> = (1..=6).flat_map(sides).collect();
        let measured = Measured { results: &results, control: &control, site_has: &[], prices: None };
        judge(&scenario(text), measured).remove(0).outcome
    };
    assert_eq!(with(0.001), Outcome::Reproduced);
    assert_eq!(with(0.05), Outcome::NotEnough, "5 % of 105 us are more than the microsecond that decides");
}

#[test]
fn the_noisiest_control_and_that_of_the_metric_count() {
    let results = blocks("bs=4k", 1.08);
    let mut control = control_of(0.01);
    control.extend(control_of(0.10).into_iter().map(|one| PointResult { point: point("bs=64k"), ..one }));
    let measured = Measured { results: &results, control: &control, site_has: &[], prices: None };
    assert_eq!(judge(&claim("test='ratio(iops) > 1'"), measured).remove(0).outcome, Outcome::NotEnough);
    // The control did not have transactions: the widest of what it had counts.
    let widths = Widths::of(&control);
    assert!(widths.width(crate::scenario::Metric::Iops).unwrap() > 0.09);
    assert_eq!(widths.width(crate::scenario::Metric::Transactions), None);
    assert_eq!(
        widths.gate(crate::scenario::Metric::Transactions),
        widths.width(crate::scenario::Metric::Iops)
    );
}

#[test]
fn contended_unsteady_and_throttled_pairs_do_not_count() {
    for flag in [
        Flag::Contended { detail: "12 %".to_owned() },
        Flag::NoSteadyState { detail: "-40 %".to_owned() },
        Flag::Throttled { detail: "a quota".to_owned() },
    ] {
        let mut results = blocks("bs=4k", 2.0);
        for result in results.iter_mut().filter(|result| result.arm == "B" && result.repetition <= 4) {
            result.flags.push(flag.clone());
        }
        let judgement = judged("test='ratio(iops) > 1'", &results);
        assert_eq!(
            judgement.words(),
            "not enough: not shown: machine too restless (4 of 6 pairs contended, unsteady or throttled), iops of A and B at bs=4k"
        );
        assert_eq!(outcome_of("iops(B) > 1", &results), Outcome::NotEnough);
        assert_eq!(outcome_of("iops(A) > 1", &results), Outcome::Reproduced);
    }
}

#[test]
fn primary_claims_pay_for_each_other_and_exploratory_ones_do_not() {
    let results = blocks("bs=4k", 1.022);
    let outcomes = |primary: usize| -> Vec<Outcome> {
        let claims: Vec<String> = (0..5)
            .map(|id| {
                let threshold = if id == 0 { "ratio(iops) > 1" } else { "ratio(iops) > 1.02" };
                format!("[[claim]]\nid='c{id}'\ntext='t'\ntest='{threshold}'\nprimary={}\n", id < primary)
            })
            .collect();
        let control = control_of(0.0);
        let measured = Measured { results: &results, control: &control, site_has: &[], prices: None };
        judge(&scenario(&claims.concat()), measured).iter().map(|one| one.outcome).collect()
    };
    assert_eq!(outcomes(0)[0], Outcome::Reproduced);
    assert_eq!(outcomes(5)[0], Outcome::NotEnough, "one of five has to be the surer");
}

#[test]
fn a_greatest_value_pays_for_the_number_of_points() {
    let mut results = blocks("bs=4k", 1.022);
    assert_eq!(outcome_of("max(ratio(iops)) > 1", &results), Outcome::Reproduced);
    for bs in ["8k", "16k", "32k", "64k", "128k", "256k", "512k", "1m"] {
        results.extend(blocks(&format!("bs={bs}"), 1.0));
    }
    assert_eq!(outcome_of("max(ratio(iops)) > 1", &results), Outcome::NotEnough);
    assert_eq!(outcome_of("any(ratio(iops) > 1)", &results), Outcome::NotEnough);
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
    let control = control_of(0.0);
    let measured = Measured { results: &results, control: &control, site_has: &site, prices: None };
    let judgement = judge(&claim(text), measured).remove(0);
    assert_eq!(
        (judgement.outcome, judgement.stand_in, judgement.missing.len()),
        (Outcome::Reproduced, None, 0)
    );
    let judgement = judge(&claim(text), Measured { site_has: &site[..1], ..measured }).remove(0);
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
    let judgement =
        judge(&claim(text), Measured { results: &results, site_has: &site, ..Measured::default() }).remove(0);
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
        assert_eq!(judge(&loaded.scenario, Measured::default()).len(), loaded.scenario.claims.len());
    }
    assert!(count >= 50, "only {count} tests were found");
}
