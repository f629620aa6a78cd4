//! Little's law: I/Os under way = I/Os per second x seconds that each takes.
//!
//! It needs no model and cannot be argued with, so it finds what a figure hides. Where more I/Os under way bring no
//! more I/Os per second, something is saturated and latency measures the queue in front of it. Where several arms end at
//! the same rate, that something is shared and their equal latencies say nothing about the arms: the publication that
//! found NVMe/TCP equal to RDMA "at high concurrency" had 617,000 to 621,000 IOPS in every arm there.

use std::collections::BTreeMap;
use std::fmt;

use crate::result::{Coordinate, PointResult, point_name};
use crate::scenario::Metric;

use super::bootstrap::median;
use super::metric::{Context, value_of};

/// Nanoseconds of a second.
const NANOSECONDS: f64 = 1e9;

/// A load that brings less than this share of the rate that it would bring if nothing queued is a saturated one.
const GAIN: f64 = 0.1;

/// Rates that differ by less than this share of the greater one are the same ceiling. Also how near a level must come to
/// its arm's ceiling to have reached it.
const SAME: f64 = 0.05;

/// One level of a load that is raised step by step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// I/Os that were kept under way: threads, or jobs times queue depth.
    pub depth: f64,
    /// I/Os per second.
    pub iops: f64,
}

impl Level {
    /// From the load and the mean latency that it met, ns: what the law says of figures that show no rate.
    pub fn from_latency(depth: f64, nanoseconds: f64) -> Self {
        Self { depth, iops: depth / nanoseconds * NANOSECONDS }
    }
}

/// I/Os under way on average during a point's window, by its rate and its mean latency. `None` when one of them is not known.
pub fn depth(point: &PointResult) -> Option<f64> {
    let rate = value_of(Metric::Iops, point, &Context::default())?;
    Some(rate * value_of(Metric::LatencyMean, point, &Context::default())? / NANOSECONDS)
}

/// How a point's measured depth compares with the one that its tool was told to keep, as a factor: far below 1, the
/// tool could not keep its queue full, and its figures are the tool's.
pub fn kept(point: &PointResult, told: f64) -> Option<f64> {
    depth(point).filter(|_| told > 0.0).map(|depth| depth / told)
}

/// Where a rising load stopped to help.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Saturation {
    /// The least load that reached the ceiling.
    pub from: f64,
    /// The greatest rate, I/Os per second.
    pub ceiling: f64,
}

/// Where an arm was saturated, if it was: more than one level reached its greatest rate, and the load that the last of
/// them added brought next to nothing. Levels may come in any order.
pub fn saturation(levels: &[Level]) -> Option<Saturation> {
    let mut ascending = levels.to_vec();
    ascending.sort_by(|one, other| one.depth.total_cmp(&other.depth));
    let ceiling = ascending.iter().map(|level| level.iops).fold(0.0, f64::max);
    let first = ascending.iter().find(|level| level.iops >= ceiling * (1.0 - SAME))?;
    let last = ascending.last().filter(|last| last.depth > first.depth && first.iops > 0.0)?;
    let gain = (last.iops / first.iops - 1.0) / (last.depth / first.depth - 1.0);
    (gain < GAIN).then_some(Saturation { from: first.depth, ceiling })
}

/// Several arms at one ceiling.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedLimit {
    /// Where: the coordinates that were the same while the load rose.
    pub at: Vec<Coordinate>,
    /// The arms.
    pub arms: Vec<String>,
    /// The least load from which on all of them are there.
    pub from: f64,
    /// The lowest and the highest of their ceilings, I/Os per second.
    pub ceilings: (f64, f64),
}

/// What an arm did at each load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArmLevels<'a> {
    /// The arm.
    pub arm: &'a str,
    /// Its rates, by ascending load.
    pub levels: &'a [Level],
}

/// Whether arms end at the same ceiling: all that are saturated within 5 % of the highest ceiling. `None` unless two are.
pub fn shared_limit(arms: &[ArmLevels<'_>]) -> Option<SharedLimit> {
    let saturated: Vec<(&str, Saturation)> =
        arms.iter().filter_map(|one| Some((one.arm, saturation(one.levels)?))).collect();
    let top = saturated.iter().map(|(_, one)| one.ceiling).fold(0.0, f64::max);
    let together: Vec<&(&str, Saturation)> =
        saturated.iter().filter(|(_, one)| one.ceiling >= top * (1.0 - SAME)).collect();
    let lowest = together.iter().map(|(_, one)| one.ceiling).fold(top, f64::min);
    (together.len() > 1).then(|| SharedLimit {
        at: Vec::new(),
        arms: together.iter().map(|(arm, _)| (*arm).to_owned()).collect(),
        from: together.iter().map(|(_, one)| one.from).fold(0.0, f64::max),
        ceilings: (lowest, top),
    })
}

/// Axes that raise the load: what they multiply to is kept under way.
const LOAD_AXES: [&str; 5] = ["iodepth", "numjobs", "threads", "streams", "client"];

/// The shared limits of a sweep: arms that end at the same ceiling while the load rises and all else stays the same. Rates are
/// medians of valid repetitions; without an axis of load there is nothing to find.
pub fn shared_limits(results: &[&PointResult]) -> Vec<SharedLimit> {
    let mut places: BTreeMap<Vec<Coordinate>, BTreeMap<&str, Vec<Rates>>> = BTreeMap::new();
    for result in results.iter().filter(|result| result.valid()) {
        let (load, place): (Vec<Coordinate>, Vec<Coordinate>) =
            result.point.iter().cloned().partition(|at| LOAD_AXES.contains(&at.axis.as_str()));
        let counts: Option<Vec<f64>> = load.iter().map(|at| at.value.parse().ok()).collect();
        let Some(counts) = counts.filter(|counts| !counts.is_empty()) else { continue };
        let levels = places.entry(place).or_default().entry(&result.arm).or_default();
        add(levels, counts.iter().product(), result.iops());
    }
    places.into_iter().filter_map(|(at, arms)| Some(SharedLimit { at, ..at_place(arms)? })).collect()
}

/// A load and the rates of its repetitions.
type Rates = (f64, Vec<f64>);

fn add(levels: &mut Vec<Rates>, depth: f64, iops: f64) {
    match levels.iter_mut().find(|(known, _)| known.total_cmp(&depth).is_eq()) {
        Some((_, rates)) => rates.push(iops),
        None => levels.push((depth, vec![iops])),
    }
}

fn at_place(arms: BTreeMap<&str, Vec<Rates>>) -> Option<SharedLimit> {
    let level = |(depth, mut rates): Rates| {
        rates.sort_by(f64::total_cmp);
        Some(Level { depth, iops: median(&rates)? })
    };
    let arms: Vec<(&str, Vec<Level>)> =
        arms.into_iter().map(|(arm, levels)| (arm, levels.into_iter().filter_map(level).collect())).collect();
    let arms: Vec<ArmLevels<'_>> = arms.iter().map(|(arm, levels)| ArmLevels { arm, levels }).collect();
    shared_limit(&arms)
}

impl fmt::Display for Saturation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ceiling = Metric::Iops.format(self.ceiling);
        write!(f, "saturated from {} I/Os under way on, at {ceiling}: latency beyond is waiting", self.from)
    }
}

impl fmt::Display for SharedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = self.ceilings;
        let (low, high) = (Metric::Iops.format(low), Metric::Iops.format(high));
        let arms = self.arms.join(", ");
        let at = if self.at.is_empty() { String::new() } else { format!("at {}, ", point_name(&self.at)) };
        write!(
            f,
            "shared limit: {at}from {} I/Os under way on, {arms} all end at {low} to {high}, so their equality says nothing about them",
            self.from
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{point, result};
    use super::*;
    use crate::result::Latency;

    /// Threads, then microseconds of local, TCP and RDMA as published.
    const PUBLISHED: [(f64, [f64; 3]); 9] = [
        (1.0, [79.72, 99.31, 92.13]),
        (2.0, [80.01, 96.6, 90.95]),
        (4.0, [80.78, 96.85, 90.95]),
        (8.0, [83.38, 98.38, 92.54]),
        (16.0, [88.1, 105.66, 95.74]),
        (32.0, [100.6, 115.98, 108.1]),
        (64.0, [132.25, 142.65, 135.95]),
        (128.0, [207.19, 207.89, 208.81]),
        (256.0, [411.39, 412.75, 420.53]),
    ];

    fn published(arm: usize, threads: usize) -> Vec<Level> {
        let rows = PUBLISHED.iter().take(threads);
        rows.map(|(depth, latencies)| Level::from_latency(*depth, latencies[arm] * 1e3)).collect()
    }

    fn of<'a>(arm: &'a str, levels: &'a [Level]) -> ArmLevels<'a> {
        ArmLevels { arm, levels }
    }

    #[test]
    fn the_published_equality_at_high_concurrency_is_a_shared_limit() {
        let arms = [0, 1, 2].map(|arm| published(arm, 9));
        let shared =
            shared_limit(&[of("local", &arms[0]), of("TCP", &arms[1]), of("RDMA", &arms[2])]).unwrap();
        assert_eq!((shared.arms.len(), shared.from), (3, 128.0));
        assert!(
            (600e3..625e3).contains(&shared.ceilings.0) && (600e3..625e3).contains(&shared.ceilings.1),
            "{shared:?}"
        );
        assert!(
            shared
                .to_string()
                .starts_with("shared limit: from 128 I/Os under way on, local, TCP, RDMA all end at 61")
        );
        let rate = |threads: usize| arms[1][threads].iops;
        assert!(
            (rate(7) - 615.7e3).abs() < 100.0 && (rate(8) - 620.2e3).abs() < 100.0,
            "as Little's law has it"
        );
    }

    #[test]
    fn sweeps_are_searched_place_by_place() {
        let mut results = Vec::new();
        for (depth, iops) in [(1.0, 10e3), (32.0, 60e3), (64.0, 60.5e3)] {
            for (rw, arm, factor) in [
                ("randread", "A", 1.0),
                ("randread", "B", 0.99),
                ("randwrite", "A", 1.0),
                ("randwrite", "B", 0.5),
            ] {
                for repetition in 1..=3 {
                    let place = point(&format!("rw={rw} iodepth={depth}"));
                    results.push(PointResult { point: place, ..result(arm, repetition, iops * factor) });
                }
            }
        }
        let found = shared_limits(&results.iter().collect::<Vec<_>>());
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            found[0].to_string(),
            "shared limit: at rw=randread, from 32 I/Os under way on, A, B all end at 59.9k IOPS to 60.5k IOPS, so their \
             equality says nothing about them"
        );
        assert_eq!(shared_limits(&[]), []);
    }

    #[test]
    fn below_it_nothing_is_saturated() {
        for arm in 0..3 {
            assert_eq!(saturation(&published(arm, 7)), None, "up to 64 threads");
        }
    }

    #[test]
    fn arms_with_ceilings_of_their_own_share_nothing() {
        let level = |depth, iops| Level { depth, iops };
        let fast = [level(1.0, 10e3), level(32.0, 100e3), level(64.0, 101e3)];
        let slow = [level(64.0, 61e3), level(32.0, 60e3), level(1.0, 8e3)];
        assert_eq!(saturation(&slow).unwrap(), Saturation { from: 32.0, ceiling: 61e3 });
        assert_eq!(shared_limit(&[of("A", &fast), of("B", &slow)]), None);
        assert_eq!(shared_limit(&[of("A", &fast)]), None, "one arm shares with nobody");
        assert!(
            saturation(&fast)
                .unwrap()
                .to_string()
                .contains("saturated from 32 I/Os under way on, at 101.0k IOPS")
        );
    }

    #[test]
    fn a_rate_that_falls_again_is_saturated_and_a_single_level_says_nothing() {
        let level = |depth, iops| Level { depth, iops };
        assert!(saturation(&[level(1.0, 10e3), level(8.0, 50e3), level(64.0, 30e3)]).is_some());
        assert_eq!(saturation(&[level(64.0, 30e3)]), None);
        assert_eq!(saturation(&[level(1.0, 0.0), level(2.0, 0.0)]), None);
        assert_eq!(saturation(&[]), None);
    }

    #[test]
    fn the_depth_of_a_point_is_its_rate_times_its_latency() {
        let mut point = result("A", 1, 40_000.0);
        assert_eq!(depth(&point), None, "without a latency");
        if let Some(read) = &mut point.load.read {
            read.ios = 400_000;
            read.latency = Some(Latency { mean: 800_000.0, ..Latency::default() });
        }
        assert!((depth(&point).unwrap() - 32.0).abs() < 1e-9);
        assert!((kept(&point, 64.0).unwrap() - 0.5).abs() < 1e-9, "the tool kept half of what it was told");
        assert_eq!(kept(&point, 0.0), None);
    }
}
