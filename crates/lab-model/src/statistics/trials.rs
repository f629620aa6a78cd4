//! What the statistics hold, shown on thousands of made-up points with a known truth.
//!
//! Every trial measures a point with the default design: pairs until the stopping rule ends it, then the verdict. Runs
//! scatter log-normally by 4 % and blocks by 10 % ([`REALISTIC`]) unless a test says otherwise. The last tests break the
//! method in the ways in which it is usually broken, and show that these trials would notice.

use super::bootstrap::Bootstrap;
use super::pairing::{ArmPair, Pairs, pairs};
use super::random::Random;
use super::stopping::{Measured, step_with};
use super::synthetic::Block;
use super::synthetic::{Bench, REALISTIC, result};
use super::verdict::{LEVEL, analyse_pairs, ratio};
use super::{Finding, PointVerdict, SEED, student};
use crate::result::PointResult;
use crate::scenario::{Design, Metric};

/// What is compared.
const ARMS: ArmPair<'_> = ArmPair { a: "A", b: "B" };
const TRIALS: u64 = 3_000;
/// No difference.
const NONE: f64 = 1.0;
/// The effect that must be found.
const TEN_PERCENT: f64 = 1.1;

/// Log ratios of a point measured until the rule ends it.
fn measure(bootstrap: &mut Bootstrap, bench: Bench, random: &mut Random, effect: f64) -> Vec<f64> {
    let mut log_ratios = Vec::new();
    for measured in 1.. {
        let Block { a, b } = bench.block(random, effect);
        log_ratios.push((a / b).ln());
        if step_with(bootstrap, &Design::default(), so_far(measured, &log_ratios)).stops() {
            break;
        }
    }
    log_ratios
}

const fn so_far(pairs: u32, log_ratios: &[f64]) -> Measured<'_> {
    Measured { pairs, log_ratios, level: LEVEL }
}

fn verdicts(bootstrap: &mut Bootstrap, points: Vec<Vec<f64>>) -> Vec<PointVerdict> {
    let pairs = |log_ratios| Pairs { point: Vec::new(), log_ratios, unusable: 0, doubtful: 0 };
    analyse_pairs(bootstrap, points.into_iter().map(pairs).collect(), ARMS, Metric::Iops)
}

const fn found(verdict: &PointVerdict) -> bool {
    matches!(verdict.finding, Finding::Higher | Finding::Lower)
}

/// In how many per cent of the trials `trial` says yes.
fn percent(mut trial: impl FnMut(&mut Bootstrap, &mut Random) -> bool) -> f64 {
    let mut bootstrap = Bootstrap::new(SEED);
    let hits = (0..TRIALS).filter(|&number| trial(&mut bootstrap, &mut Random::part(2026, number))).count();
    super::number::real_length(hits) * 100.0 / super::number::real(TRIALS)
}

/// Per cent of sweeps of so many points in which anything is found.
fn findings(bench: Bench, effect: f64, points: usize) -> f64 {
    percent(|bootstrap, random| {
        let sweep = (0..points).map(|_| measure(bootstrap, bench, random, effect)).collect();
        verdicts(bootstrap, sweep).iter().any(found)
    })
}

#[test]
fn whole_results_hold_six_and_ninety_per_cent() {
    let trial = |effect: f64| {
        percent(|bootstrap, random| {
            let mut results: Vec<PointResult> = Vec::new();
            for repetition in 1.. {
                let Block { a, b } = REALISTIC.block(random, effect);
                results.extend([result("A", repetition, a), result("B", repetition, b)]);
                let point = pairs(&results, ARMS, Metric::Iops).remove(0);
                if step_with(bootstrap, &Design::default(), so_far(repetition, &point.log_ratios)).stops() {
                    break;
                }
            }
            let point = pairs(&results, ARMS, Metric::Iops);
            found(&analyse_pairs(bootstrap, point, ARMS, Metric::Iops)[0])
        })
    };
    let (false_positives, power) = (trial(NONE), trial(TEN_PERCENT));
    println!("false positives {false_positives} %, power {power} %");
    assert!(false_positives <= 6.0, "{false_positives} % false positives");
    assert!(power >= 90.0, "a power of {power} %");
}

#[test]
fn other_benches_have_no_more_false_positives() {
    for noise in [0.01, 0.02, 0.03, 0.05, 0.06, 0.08, 0.15] {
        let false_positives = findings(Bench { noise, ..REALISTIC }, NONE, 1);
        assert!(false_positives <= 6.0, "{false_positives} % at a noise of {noise}");
    }
}

#[test]
fn a_slowdown_is_found_as_surely_as_a_speedup() {
    let power = percent(|bootstrap, random| {
        let point = measure(bootstrap, REALISTIC, random, 0.9);
        verdicts(bootstrap, vec![point])[0].finding == Finding::Lower
    });
    assert!(power >= 90.0, "a power of {power} %");
}

#[test]
fn a_point_of_a_sweep_that_differs_everywhere_is_found() {
    // Where one of twelve points differs alone, it pays for the other eleven: about 78 % of such points are found.
    let power = percent(|bootstrap, random| {
        let sweep = (0..12).map(|_| measure(bootstrap, REALISTIC, random, TEN_PERCENT)).collect();
        found(&verdicts(bootstrap, sweep)[0])
    });
    assert!(power >= 90.0, "a power of {power} %");
}

#[test]
fn whole_sweeps_have_no_more_false_positives() {
    for noise in [0.04, 0.06] {
        let false_positives = findings(Bench { noise, ..REALISTIC }, NONE, 12);
        assert!(false_positives <= 6.0, "{false_positives} % of the sweeps at a noise of {noise}");
    }
}

#[test]
fn intervals_hold_the_truth_after_stopping() {
    for (noise, effect) in [(0.02, NONE), (0.04, NONE), (0.04, TEN_PERCENT), (0.06, TEN_PERCENT)] {
        let covered = percent(|bootstrap, random| {
            let point = measure(bootstrap, Bench { noise, ..REALISTIC }, random, effect);
            let ratio = ratio(bootstrap, &point).unwrap();
            ratio.low <= effect && effect <= ratio.high
        });
        assert!((94.0..=99.0).contains(&covered), "{covered} % at a noise of {noise}");
    }
}

#[test]
fn broken_pairs_lose_the_power() {
    // Each A with the B of another block: what an analysis of two averages amounts to.
    let power = percent(|bootstrap, random| {
        let blocks: Vec<Block> = (0..13).map(|_| REALISTIC.block(random, TEN_PERCENT)).collect();
        let unpaired = blocks.windows(2).map(|two| (two[0].a / two[1].b).ln()).collect();
        found(&verdicts(bootstrap, vec![unpaired])[0])
    });
    assert!(power < 90.0, "a power of {power} % without pairs");
}

#[test]
fn stopping_at_a_difference_finds_too_many() {
    let false_positives = percent(|_, random| {
        let mut log_ratios = Vec::new();
        (1..=Design::default().max_pairs).any(|measured| {
            let Block { a, b } = REALISTIC.block(random, NONE);
            log_ratios.push((a / b).ln());
            measured >= Design::default().min_pairs && student::p_value(&log_ratios) <= LEVEL
        })
    });
    assert!(false_positives > 6.0, "{false_positives} % although it peeks");
}

#[test]
fn sweeps_without_correction_find_too_many() {
    let false_positives = percent(|bootstrap, random| {
        (0..12).any(|_| {
            let point = measure(bootstrap, REALISTIC, random, NONE);
            found(&verdicts(bootstrap, vec![point])[0])
        })
    });
    assert!(false_positives > 6.0, "{false_positives} % although nothing is corrected");
}

#[test]
fn intervals_without_expansion_are_too_narrow() {
    let covered = percent(|bootstrap, random| {
        let mut point = measure(bootstrap, Bench { noise: 0.05, ..REALISTIC }, random, NONE);
        point.sort_by(f64::total_cmp);
        let (low, high) = bootstrap.plain(&point).unwrap();
        low <= 0.0 && 0.0 <= high
    });
    assert!(covered < 94.0, "{covered} % although it is the plain percentile interval");
}
