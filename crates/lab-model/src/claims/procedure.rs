//! The whole procedure on made-up machines: control, pairs, stopping rule, verdicts on five primary claims, report after report.
//!
//! Runs scatter log-normally and blocks drift, as in `statistics/trials.rs`; the machine here also slows down as the day goes on, and
//! other programs take a part of it now and then. What the lab would flag (more than a twentieth of the machine) is flagged; what is
//! below that is not. Every decision is that of the code which decides in a real run.

use std::cell::RefCell;

use super::*;
use crate::result::{Cpu, CpuShare, Flag};
use crate::scenario::Metric;
use crate::statistics::pairing::{ArmPair, Pairs, pairs};
use crate::statistics::random::Random;
use crate::statistics::stopping;
use crate::statistics::synthetic::{Bench as Scatter, point, result, scenario};
use crate::statistics::{control, number};

const ARMS: ArmPair<'_> = ArmPair { a: "A", b: "B" };
/// Reports of each kind in the everyday test, and with `LINERATE_LONG` set.
const REPORTS: (u64, u64) = (200, 1_000);

/// Five claims, of pairs, of all points, of one at least and of extremes.
const CLAIMS: [(&str, &str, &str); 5] = [
    ("pair", "ratio(iops) > 1", "at={bs='4k'}"),
    ("processor", "ratio(cpu_host) > 1", "at={bs='8k'}"),
    ("everywhere", "ratio(iops) < 1", ""),
    ("somewhere", "any(ratio(iops) > 1)", ""),
    ("up-to", "max(ratio(iops)) < 1", ""),
];

/// A machine.
#[derive(Debug, Clone, Copy)]
struct Machine {
    /// Of runs and of blocks.
    scatter: Scatter,
    /// How much slower each run is than the one before: a logarithm.
    slowing: f64,
    /// Share of the runs beside which something else runs.
    busy: f64,
}

const CALM: Machine = Machine { scatter: Scatter { noise: 0.05, drift: 0.10 }, slowing: 0.0, busy: 0.0 };

/// What was measured, and how many pairs it took at most.
struct Report {
    judgements: Vec<Judgement>,
    pairs: u32,
}

/// A run on a machine of which A is `effect` times as fast as B at the first point.
struct Day<'a> {
    machine: Machine,
    random: &'a mut Random,
    /// Runs so far.
    runs: f64,
}

impl Day<'_> {
    /// Both arms of a repetition, in random order.
    fn pair(
        &mut self,
        arms: ArmPair<'_>,
        repetition: u32,
        place: &[Coordinate],
        effect: f64,
    ) -> [PointResult; 2] {
        let block = self.machine.scatter.block(self.random, effect);
        let first_is_a = self.random.unit() < 0.5;
        let mut take = |arm: &str, rate: f64| {
            let other = if self.random.unit() < self.machine.busy { self.random.unit() * 0.4 } else { 0.0 };
            let rate = rate * (1.0 - other) * (-self.machine.slowing * self.runs).exp();
            self.runs += 1.0;
            let user = rate / 40_000.0 * (self.machine.scatter.noise * (self.random.unit() - 0.5)).exp();
            PointResult {
                point: place.to_vec(),
                cpu: Cpu { processors: 2, host: CpuShare { user, system: 0.0 }, ..Cpu::default() },
                flags: (other > 0.05)
                    .then(|| Flag::Contended { detail: format!("{:.0} %", other * 100.0) })
                    .into_iter()
                    .collect(),
                ..result(arm, repetition, rate)
            }
        };
        if first_is_a {
            let a = take(arms.a, block.a);
            [a, take(arms.b, block.b)]
        } else {
            let b = take(arms.b, block.b);
            [take(arms.a, block.a), b]
        }
    }
}

fn bench() -> Scenario {
    let claims = CLAIMS
        .map(|(id, test, at)| format!("[[claim]]\nid='{id}'\ntext='t'\nprimary=true\ntest='{test}'\n{at}\n"));
    scenario(&format!("[[sweep]]\naxis='bs'\nvalues=['4k','8k','16k']\n{}", claims.concat()))
}

fn report(
    bootstrap: &RefCell<Bootstrap>,
    scenario: &Scenario,
    machine: Machine,
    random: &mut Random,
    effect: f64,
) -> Report {
    let mut day = Day { machine, random, runs: 0.0 };
    let points = ["bs=4k", "bs=8k", "bs=16k"].map(point);
    let mut block = Vec::new();
    control_block(scenario, &mut day, &points[0], &mut block);
    let (mut results, mut most) = (Vec::new(), 0);
    let mut widest: (f64, &[Coordinate]) = (0.0, &points[0]);
    for (place, effect) in points.iter().zip([effect, 1.0, 1.0]) {
        let design = primary::design(scenario, place);
        let level = primary::level_at(scenario, place);
        let mut here = Vec::new();
        let mut seen = Pairs { point: Vec::new(), log_ratios: Vec::new(), unusable: 0, doubtful: 0 };
        for repetition in 1.. {
            here.extend(day.pair(ARMS, repetition, place, effect));
            seen = pairs(&here, ARMS, Metric::Iops).remove(0);
            if stopping::at_point(&mut bootstrap.borrow_mut(), &design, repetition, &seen, level).stops() {
                break;
            }
        }
        most = most.max(number::count(seen.log_ratios.len()));
        let spread = control::spread(&here, "A", Metric::Iops).unwrap_or_default();
        if spread > widest.0 {
            widest = (spread, place);
        }
        results.extend(here);
    }
    if widest.1 != points[0] {
        control_block(scenario, &mut day, widest.1, &mut block);
    }
    let measured = Measured { results: &results, control: &block, site_has: &[], prices: None };
    Report { judgements: judge_with(bootstrap, scenario, measured), pairs: most }
}

fn control_block(scenario: &Scenario, day: &mut Day<'_>, place: &[Coordinate], block: &mut Vec<PointResult>) {
    let wanted = primary::control_pairs(scenario);
    let mut sound = 0;
    for repetition in 1..=2 * wanted {
        let pair = day.pair(control::ARMS, repetition, place, 1.0);
        sound += u32::from(pair.iter().all(|result| result.doubt().is_none()));
        block.extend(pair);
        if sound == wanted {
            break;
        }
    }
}

/// Per cent of reports of which `is` says yes.
fn percent(machine: Machine, effect: f64, is: impl Fn(&Report) -> bool) -> f64 {
    let reports = if std::env::var_os("LINERATE_LONG").is_some() { REPORTS.1 } else { REPORTS.0 };
    let (bootstrap, scenario) = (RefCell::new(Bootstrap::new(SEED)), bench());
    let yes = (0..reports)
        .filter(|&number| is(&report(&bootstrap, &scenario, machine, &mut Random::part(18, number), effect)));
    number::real_length(yes.count()) * 100.0 / number::real(reports)
}

/// The verdict on a claim.
fn outcome_of(report: &Report, id: &str) -> Outcome {
    report.judgements.iter().find(|one| one.claim == id).map_or(Outcome::NotTestable, |one| one.outcome)
}

/// Whether anything was decided where there is nothing to decide.
fn errs(report: &Report) -> bool {
    report.judgements.iter().any(Judgement::is_decided)
}

#[test]
fn false_verdicts_stay_below_five_per_cent_of_reports() {
    let noise = |noise| Machine { scatter: Scatter { noise, ..CALM.scatter }, ..CALM };
    for (name, machine) in [
        ("calm", CALM),
        ("quiet", noise(0.01)),
        ("loud", noise(0.15)),
        ("slowing", Machine { slowing: 0.002, ..CALM }),
        ("contended", Machine { busy: 0.3, ..CALM }),
        ("slowing and contended", Machine { slowing: 0.002, busy: 0.2, ..noise(0.03) }),
    ] {
        let wrong = percent(machine, 1.0, errs);
        println!("{name}: {wrong} % of reports err");
        assert!(wrong <= 5.0, "{wrong} % of reports err on a {name} machine");
    }
}

#[test]
fn a_tenth_is_shown_in_nine_of_ten_reports_with_the_pairs_that_the_plan_names() {
    let planned = primary::pairs(&bench());
    let shown = percent(CALM, 1.1, |report| {
        assert!(report.pairs <= planned, "{} pairs, and the plan names {planned}", report.pairs);
        outcome_of(report, "pair") == Outcome::Reproduced
    });
    println!("shown in {shown} % of reports, {planned} pairs at most");
    assert!(shown >= 90.0, "shown in {shown} % of reports with {planned} pairs");
}

#[test]
fn a_machine_that_never_rests_shows_nothing_and_says_so() {
    let machine = Machine { busy: 1.0, ..CALM };
    let (bootstrap, scenario) = (RefCell::new(Bootstrap::new(SEED)), bench());
    let report = report(&bootstrap, &scenario, machine, &mut Random::new(3), 1.3);
    assert_eq!(outcome_of(&report, "pair"), Outcome::NotEnough);
    let why = &report.judgements[0].why;
    assert!(why.contains("not shown: machine too restless"), "{why}");
}
