//! A run as one Markdown table: every arm at every point with its spread, and its ratio to the first arm, taken pair by pair.
//!
//! It is what a terminal and `docs/benchmarks.md` show. Rates are the median of the repetitions with the least and the most of
//! them; a ratio is the median over the pairs with its 95 % interval, and the least and the most of the pairs, since what drifts
//! over minutes cancels only within a pair.

use std::fmt::Write as _;

use lab_model::result::{CpuShare, PointResult};
use lab_model::scenario::{Arm, Metric, Scenario};
use lab_model::statistics::bootstrap::{Bootstrap, median};
use lab_model::statistics::metric::{Context, value_of};
use lab_model::statistics::number::real;
use lab_model::statistics::pairing::{self, ArmPair};
use lab_model::statistics::{SEED, verdict};

/// The table of a run's results, ratios by `metric`.
pub(super) fn table(scenario: &Scenario, results: &[PointResult], metric: Metric) -> String {
    let first = scenario.arms.first().map_or("", |arm| arm.key.as_str());
    let mut text = format!(
        "| point | arm | {}, median (least to most) | MB/s | ÷ {first}, median [95 %] (least to most of the pairs) | p50 µs \
         | host's CPU, µs per I/O | adapter's CPU, µs per I/O | target's CPU, µs per I/O | repetitions |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
        metric.title()
    );
    let mut bootstrap = Bootstrap::new(SEED);
    let mut points: Vec<String> = results.iter().map(PointResult::point_name).collect();
    points.dedup();
    let mut told: Vec<&String> = Vec::new();
    for point in &points {
        if told.contains(&point) {
            continue;
        }
        told.push(point);
        let here: Vec<PointResult> =
            results.iter().filter(|result| result.point_name() == *point).cloned().collect();
        for arm in &scenario.arms {
            if let Some(row) = row(&here, Compared { arm, first }, metric, &mut bootstrap) {
                let _infallible = writeln!(text, "| {point} | {}: {} | {row} |", arm.key, arm.name);
            }
        }
    }
    text
}

/// An arm, and the key of the first one, with which every arm is compared.
#[derive(Debug, Clone, Copy)]
struct Compared<'a> {
    arm: &'a Arm,
    first: &'a str,
}

/// The cells of an arm at a point after its name; nothing where it was not measured.
fn row(
    here: &[PointResult],
    Compared { arm, first }: Compared<'_>,
    metric: Metric,
    bootstrap: &mut Bootstrap,
) -> Option<String> {
    let own: Vec<&PointResult> = here.iter().filter(|result| result.arm == arm.key).collect();
    if own.is_empty() {
        return None;
    }
    let middle = |value: &dyn Fn(&PointResult) -> Option<f64>| {
        sorted(own.iter().filter(|result| result.valid()).filter_map(|result| value(result)))
    };
    let plain = |metric| move |result: &PointResult| value_of(metric, result, &Context::default());
    let divisor = metric.scale().divisor;
    let rates = middle(&plain(metric));
    let spread = match (rates.first(), median(&rates), rates.last()) {
        (Some(least), Some(middle), Some(most)) => {
            let [least, middle, most] = [*least, middle, *most].map(|rate| thousands(rate / divisor));
            format!("{middle} ({least} to {most})")
        }
        // A stream has no I/Os, and is valid all the same.
        _ if own.iter().any(|result| result.valid()) => String::new(),
        _ => "invalid".to_owned(),
    };
    let shown = |values: &[f64], scale: f64| {
        median(values).map_or_else(String::new, |value| format!("{:.1}", value / scale))
    };
    let per_io = |share: Option<CpuShare>, result: &PointResult| {
        let seconds = share?.seconds();
        (result.ios() > 0).then(|| seconds * 1e6 / real(result.ios()))
    };
    Some(format!(
        "{spread} | {} | {} | {} | {} | {} | {} | {}",
        shown(&middle(&plain(Metric::Bandwidth)), Metric::Bandwidth.scale().divisor),
        ratio(here, ArmPair { a: &arm.key, b: first }, metric, bootstrap),
        shown(&middle(&plain(Metric::LatencyP50)), Metric::LatencyP50.scale().divisor),
        shown(&middle(&plain(Metric::CpuPerIo)), 1.0),
        shown(&middle(&|result| per_io(result.cpu.adapter, result)), 1.0),
        shown(&middle(&|result| per_io(result.cpu.target, result)), 1.0),
        own.iter().filter(|result| result.valid()).count()
    ))
}

/// `0.84 [0.80–0.88] (0.79 to 0.90)`; of the first arm itself, 1.
fn ratio(here: &[PointResult], arms: ArmPair<'_>, metric: Metric, bootstrap: &mut Bootstrap) -> String {
    if arms.a == arms.b {
        return "1".to_owned();
    }
    let pairs = pairing::pairs(here, arms, metric);
    let logs = sorted(pairs.into_iter().flat_map(|pairs| pairs.log_ratios));
    let (Some(least), Some(middle), Some(most)) = (logs.first(), median(&logs), logs.last()) else {
        return String::new();
    };
    let interval = match verdict::ratio(bootstrap, &logs) {
        Some(ratio) => format!("[{:.2}–{:.2}]", ratio.low, ratio.high),
        None => "[not enough]".to_owned(),
    };
    format!("{:.2} {interval} ({:.2} to {:.2})", middle.exp(), least.exp(), most.exp())
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// `370,685`: whole, in groups of three digits.
fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) && text != "-" {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_model::evidence::Evidence;
    use lab_model::result::{Coordinate, Cpu, CpuShare, Direction, Flag, Load, SCHEMA, Tool};

    fn result(arm: &str, repetition: u32, iops: f64) -> PointResult {
        let read =
            Direction { ios: 1000, bytes: 4_096_000, iops, bytes_per_second: iops * 4096.0, latency: None };
        PointResult {
            schema: SCHEMA,
            run: "r".to_owned(),
            scenario: "f.n".to_owned(),
            scenario_hash: String::new(),
            arm: arm.to_owned(),
            point: vec![Coordinate { axis: "bs".to_owned(), value: "4k".to_owned() }],
            repetition,
            order: 1,
            started: String::new(),
            seconds: 1.0,
            evidence: Evidence::Real,
            tool: Tool { name: "t".to_owned(), version: "1".to_owned(), argv: Vec::new() },
            load: Load { read: Some(read), ..Load::default() },
            intervals: Vec::new(),
            cpu: Cpu {
                processors: 2,
                host: CpuShare { user: 0.002, system: 0.0 },
                target: Some(CpuShare { user: 0.003, system: 0.001 }),
                ..Cpu::default()
            },
            memory: [].into(),
            network: None,
            nodes: Vec::new(),
            target_counters: [].into(),
            neighbours: Vec::new(),
            hosts: [].into(),
            extra: [].into(),
            limiter: None,
            flags: Vec::new(),
        }
    }

    fn scenario() -> Scenario {
        let arm = |key: &str| {
            format!(
                "[[arm]]\nkey='{key}'\nname='arm {key}'\ninitiator='linerate'\ntarget='tgt'\nevidence={{kind='real'}}\n"
            )
        };
        let head = "id='f.n'\ntitle='t'\nquestion='q'\nsource={publication='p'}\n[workload]\ntool='fio'\n";
        toml::from_str(&format!("{head}{}{}", arm("A"), arm("B"))).unwrap()
    }

    #[test]
    fn ratios_are_of_pairs_and_not_of_medians() {
        // The machine slows down by half in the third pair, and both arms with it.
        let speeds = [100_000.0, 100_000.0, 50_000.0, 100_000.0, 100_000.0];
        let pairs = (1..).zip(speeds);
        let results: Vec<PointResult> = pairs
            .flat_map(|(number, speed)| [result("A", number, speed), result("B", number, speed * 0.5)])
            .collect();
        let text = table(&scenario(), &results, Metric::Iops);
        let row = "| bs=4k | B: arm B | 50,000 (25,000 to 50,000) | 204.8 | 0.50 [0.50–0.50] (0.50 to 0.50) |  | 2.0 |  | 4.0 | 5 |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("| bs=4k | A: arm A | 100,000 (50,000 to 100,000) | 409.6 | 1 |"), "{text}");
    }

    #[test]
    fn what_is_worth_nothing_is_said_to_be_so() {
        let mut bad = result("B", 1, 7.0);
        bad.flags.push(Flag::Errors { detail: "1 failed".to_owned() });
        let text = table(&scenario(), &[result("A", 1, 9.0), bad], Metric::Iops);
        assert!(text.contains("| bs=4k | B: arm B | invalid |  |  |  |  |  |  | 0 |"), "{text}");
    }

    #[test]
    fn large_numbers_are_grouped() {
        assert_eq!([999.0, 1000.0, 1_234_567.0].map(thousands), ["999", "1,000", "1,234,567"]);
    }
}
