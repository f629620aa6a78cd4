//! Verdicts in words, and what they rest on.

use super::super::synthetic::{point, result};
use super::*;
use crate::result::Flag;

/// Pairs with these ratios at one point, in a scrambled order.
fn paired(ratios: &[f64]) -> Vec<PointResult> {
    let mut results = Vec::new();
    for (repetition, ratio) in (1..).zip(ratios) {
        results.push(result("A", repetition, 1000.0 * f64::from(repetition) * ratio));
        results.push(result("B", repetition, 1000.0 * f64::from(repetition)));
    }
    results.reverse();
    results
}

fn words(ratios: &[f64]) -> String {
    analyse(&paired(ratios), "A", "B", Metric::Iops)[0].words()
}

#[test]
fn verdicts_are_worded_as_agreed() {
    assert_eq!(
        words(&[1.08, 1.10, 1.11, 1.12, 1.12, 1.13, 1.14, 1.17]),
        "A higher by 12 % (CI 9–15, 8 pairs)"
    );
    assert_eq!(words(&[0.86, 0.87, 0.88, 0.88, 0.89, 0.90]), "A lower by 12 % (CI 10–14, 6 pairs)");
    assert_eq!(words(&[0.94, 0.97, 1.01, 1.04, 1.09]), "no difference shown (CI −6…+9)");
    assert_eq!(words(&[1.1, 1.1, 1.1, 1.1]), "not enough");
    assert_eq!(words(&[2.90, 2.92, 2.93, 2.94, 2.96]), "A higher by 193 % (CI 190–196, 5 pairs)");
}

#[test]
fn small_numbers_keep_a_digit() {
    assert_eq!(words(&[1.004, 1.005, 1.005, 1.006, 1.005]), "A higher by 0.5 % (CI 0.4–0.6, 5 pairs)");
    assert_eq!(words(&[1.0; 5]), "no difference shown (CI 0.0…0.0)");
}

#[test]
fn the_other_arm_sees_the_opposite() {
    let results = paired(&[1.20, 1.25, 1.25, 1.25, 1.30]);
    assert_eq!(analyse(&results, "B", "A", Metric::Iops)[0].words(), "B lower by 20 % (CI 17–23, 5 pairs)");
}

#[test]
fn invalid_and_lonely_runs_make_no_pair() {
    let mut results = paired(&[1.1, 1.1, 1.1, 1.1, 1.1, 1.1]);
    results[0].flags.push(Flag::Errors { detail: "1 % failed".to_owned() });
    results[3].arm = "C".to_owned();
    let verdict = analyse(&results, "A", "B", Metric::Iops).remove(0);
    assert_eq!((verdict.pairs, verdict.unusable, verdict.finding), (4, 2, Finding::NotEnough));
    assert_eq!(verdict.ratio, None);
}

#[test]
fn a_metric_that_was_not_measured_is_not_enough() {
    let verdicts = analyse(&paired(&[1.1; 8]), "A", "B", Metric::LatencyP99);
    assert_eq!(verdicts[0].finding, Finding::NotEnough);
}

#[test]
fn points_are_apart_and_pay_for_each_other() {
    let ratios = [1.02, 1.03, 1.05, 1.06, 1.08];
    let alone = analyse(&paired(&ratios), "A", "B", Metric::Iops).remove(0);
    let mut many = Vec::new();
    for bs in ["4k", "8k", "16k", "32k"] {
        many.extend(
            paired(&ratios).into_iter().map(|one| PointResult { point: point(&format!("bs={bs}")), ..one }),
        );
    }
    let verdicts = analyse(&many, "A", "B", Metric::Iops);
    assert_eq!(
        verdicts.iter().map(|one| one.point[0].value.as_str()).collect::<Vec<_>>(),
        ["4k", "8k", "16k", "32k"]
    );
    let (alone, among) = (alone.ratio.unwrap(), verdicts[0].ratio.unwrap());
    assert!((among.adjusted - alone.p_value * 4.0).abs() < 1e-12);
    assert_eq!((alone.low, alone.high), (among.low, among.high));
    assert_eq!(verdicts[0].finding, Finding::NoDifference, "{:?}", verdicts[0]);
}

#[test]
fn the_same_results_give_the_same_verdict() {
    let results = paired(&[0.94, 0.97, 1.01, 1.04, 1.09, 1.3]);
    assert_eq!(analyse(&results, "A", "B", Metric::Iops), analyse(&results, "A", "B", Metric::Iops));
}
