//! One result of several initiating hosts: counts and rates add up, latencies are merged as distributions.

use std::collections::BTreeMap;

use crate::tool::Measured;
use lab_model::result::{Direction, Interval, Latency, Load};
use lab_model::statistics::histogram;

/// Percentiles that a merged distribution names, where every part has a histogram.
const PERCENTILES: [(&str, f64); 5] =
    [("p50", 50.0), ("p95", 95.0), ("p99", 99.0), ("p99.9", 99.9), ("p99.99", 99.99)];

/// Puts what several hosts measured side by side in time together. One host's figures stay as they are.
pub fn merge(mut parts: Vec<Measured>) -> Option<Measured> {
    if parts.len() < 2 {
        return parts.pop();
    }
    let all = |of: fn(&Load) -> Option<&Direction>| -> Option<Direction> {
        let found: Vec<&Direction> = parts.iter().filter_map(|part| of(&part.load)).collect();
        (!found.is_empty()).then(|| direction(&found))
    };
    let latencies = |of: fn(&Load) -> Option<&Latency>| -> Option<Latency> {
        let found: Vec<&Latency> = parts.iter().filter_map(|part| of(&part.load)).collect();
        latency(&found)
    };
    let load = Load {
        read: all(|load| load.read.as_ref()),
        write: all(|load| load.write.as_ref()),
        sync: latencies(|load| load.sync.as_ref()),
        log: all(|load| load.log.as_ref()),
        transactions: latencies(|load| load.transactions.as_ref()),
        errors: parts.iter().map(|part| part.load.errors).sum(),
    };
    let mut extra = BTreeMap::new();
    for (name, value) in parts.iter().flat_map(|part| &part.extra) {
        *extra.entry(name.clone()).or_insert(0.0) += value;
    }
    let starts: Option<Vec<f64>> = parts.iter().map(|part| part.window_start).collect();
    Some(Measured {
        tool: parts.first()?.tool.clone(),
        load,
        intervals: intervals(&parts),
        extra,
        seconds: parts.iter().map(|part| part.seconds).fold(0.0, f64::max),
        window_start: starts.map(|starts| starts.into_iter().fold(f64::INFINITY, f64::min)),
        flags: parts.into_iter().flat_map(|part| part.flags).collect(),
    })
}

fn direction(parts: &[&Direction]) -> Direction {
    let latencies: Vec<&Latency> = parts.iter().filter_map(|part| part.latency.as_ref()).collect();
    Direction {
        ios: parts.iter().map(|part| part.ios).sum(),
        bytes: parts.iter().map(|part| part.bytes).sum(),
        iops: parts.iter().map(|part| part.iops).sum(),
        bytes_per_second: parts.iter().map(|part| part.bytes_per_second).sum(),
        latency: if latencies.len() == parts.len() { latency(&latencies) } else { None },
    }
}

/// A distribution of all: needs every part's histogram, since percentiles cannot be averaged.
fn latency(parts: &[&Latency]) -> Option<Latency> {
    if parts.is_empty() {
        return None;
    }
    let merged = histogram::merge(parts.iter().map(|part| part.histogram.as_slice()));
    let weights: Vec<f64> = parts.iter().map(|part| count(part)).collect();
    let total: f64 = weights.iter().sum();
    let weighted = |of: fn(&Latency) -> f64| -> f64 {
        parts.iter().zip(&weights).map(|(part, weight)| of(part) * weight).sum::<f64>() / total.max(1.0)
    };
    let mean = weighted(|part| part.mean);
    let square = weighted(|part| part.deviation * part.deviation + part.mean * part.mean);
    let whole = parts.iter().all(|part| !part.histogram.is_empty());
    let percentiles = PERCENTILES
        .iter()
        .filter(|_| whole)
        .filter_map(|(name, percent)| Some(((*name).to_owned(), histogram::percentile(&merged, *percent)?)));
    Some(Latency {
        min: parts.iter().map(|part| part.min).fold(f64::INFINITY, f64::min),
        mean,
        deviation: (square - mean * mean).max(0.0).sqrt(),
        max: parts.iter().map(|part| part.max).fold(0.0, f64::max),
        percentiles: percentiles.collect(),
        histogram: if whole { merged } else { Vec::new() },
    })
}

fn count(latency: &Latency) -> f64 {
    lab_model::statistics::number::real(latency.histogram.iter().map(|bucket| bucket.count).sum())
}

/// Seconds that all parts have, added up; the latency is the mean weighted by I/Os.
fn intervals(parts: &[Measured]) -> Vec<Interval> {
    let shortest = parts.iter().map(|part| part.intervals.len()).min().unwrap_or(0);
    (0..shortest)
        .map(|second| {
            let all: Vec<&Interval> = parts.iter().filter_map(|part| part.intervals.get(second)).collect();
            let sum = |of: fn(&Interval) -> f64| all.iter().map(|one| of(one)).sum::<f64>();
            let latency: Option<f64> = all.iter().map(|one| Some(one.latency? * one.iops)).sum();
            let transactions: Option<f64> = all.iter().map(|one| one.transactions).sum();
            let iops = sum(|one| one.iops);
            Interval {
                at: all.iter().map(|one| one.at).fold(0.0, f64::max),
                iops,
                bytes_per_second: sum(|one| one.bytes_per_second),
                latency: latency.filter(|_| iops > 0.0).map(|latency| latency / iops),
                cpu_percent: None,
                transactions,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_model::result::{Bucket, Tool};

    fn measured(ios: u64, nanos: u64) -> Measured {
        let latency = Latency {
            min: lab_model::statistics::number::real(nanos),
            mean: lab_model::statistics::number::real(nanos),
            deviation: 0.0,
            max: lab_model::statistics::number::real(nanos),
            percentiles: BTreeMap::new(),
            histogram: vec![Bucket { bound: nanos, count: ios }],
        };
        let rate = lab_model::statistics::number::real(ios);
        let read = Direction {
            ios,
            bytes: ios * 4096,
            iops: rate,
            bytes_per_second: rate * 4096.0,
            latency: Some(latency),
        };
        Measured {
            tool: Tool { name: "fio".to_owned(), version: String::new(), argv: Vec::new() },
            load: Load { read: Some(read), errors: 1, ..Load::default() },
            intervals: vec![Interval { at: 1.0, iops: rate, latency: Some(100.0), ..Interval::default() }],
            extra: BTreeMap::from([("retransmits".to_owned(), 2.0)]),
            seconds: 1.0,
            window_start: Some(10.0),
            flags: Vec::new(),
        }
    }

    #[test]
    fn one_host_s_figures_are_left_alone() {
        assert_eq!(merge(vec![measured(5, 100)]), Some(measured(5, 100)));
        assert_eq!(merge(Vec::new()), None);
    }

    #[test]
    fn several_hosts_add_up_and_percentiles_come_from_all_their_latencies() {
        let merged = merge(vec![measured(900, 100), measured(100, 1000)]).unwrap();
        let read = merged.load.read.unwrap();
        assert_eq!((read.ios, read.bytes, merged.load.errors), (1000, 4_096_000, 2));
        let latency = read.latency.unwrap();
        assert!(
            (latency.mean - 190.0).abs() < 1e-9 && (latency.deviation - 270.0).abs() < 1e-9,
            "{latency:?}"
        );
        assert!((latency.min - 100.0).abs() < 1e-9 && (latency.max - 1000.0).abs() < 1e-9);
        let of = |name: &str| latency.percentiles[name];
        assert!(of("p50") <= 100.0 && of("p95") > 100.0, "{:?}", latency.percentiles);
        assert!((merged.extra["retransmits"] - 4.0).abs() < 1e-9);
        assert!((merged.intervals[0].iops - 1000.0).abs() < 1e-9);
    }
}
