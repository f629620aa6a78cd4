//! One point with known figures, asked for every metric.

use std::collections::BTreeMap;

use super::*;
use crate::evidence::Evidence;
use crate::result::{Bucket, Cpu, CpuShare, Flag, Load, Network, Node, SCHEMA, Tool};

fn latency(mean: f64, histogram: &[(u64, u64)]) -> Latency {
    Latency {
        min: mean / 2.0,
        mean,
        max: mean * 10.0,
        histogram: histogram.iter().copied().map(Bucket::from).collect(),
        ..Latency::default()
    }
}

fn direction(ios: u64, latency: Latency) -> Direction {
    let bytes = ios * 4096;
    Direction {
        ios,
        bytes,
        iops: real(ios) / 10.0,
        bytes_per_second: real(bytes) / 10.0,
        latency: Some(latency),
    }
}

/// Another load on the link.
fn neighbour(bytes_per_second: f64) -> crate::result::Neighbour {
    crate::result::Neighbour {
        name: "stream".to_owned(),
        bytes_per_second,
        tool: Tool { name: "iperf3".to_owned(), version: "3".to_owned(), argv: Vec::new() },
        load: Load::default(),
        seconds: 1.0,
    }
}

/// Ten seconds on two processors: 300,000 reads and 100,000 writes of 4 KiB.
fn point() -> PointResult {
    let load = Load {
        read: Some(direction(300_000, latency(100_000.0, &[(90_000, 200_000), (150_000, 100_000)]))),
        write: Some(direction(100_000, latency(200_000.0, &[(150_000, 50_000), (900_000, 50_000)]))),
        ..Load::default()
    };
    let share = |user, system| CpuShare { user, system };
    let cpu = Cpu {
        processors: 2,
        host: share(1.0, 3.0),
        adapter: Some(share(1.0, 1.0)),
        target: Some(share(0.0, 5.0)),
        ..Cpu::default()
    };
    PointResult {
        schema: SCHEMA,
        run: "r".to_owned(),
        scenario: "s".to_owned(),
        scenario_hash: String::new(),
        arm: "A".to_owned(),
        point: Vec::new(),
        repetition: 1,
        order: 1,
        started: String::new(),
        seconds: 10.0,
        evidence: Evidence::Real,
        tool: Tool { name: "fio".to_owned(), version: "3.33".to_owned(), argv: Vec::new() },
        load,
        intervals: Vec::new(),
        cpu,
        memory: BTreeMap::new(),
        network: None,
        nodes: Vec::new(),
        target_counters: BTreeMap::new(),
        neighbours: [250e6, 50e6].map(neighbour).into(),
        hosts: BTreeMap::new(),
        extra: BTreeMap::new(),
        limiter: None,
        flags: Vec::new(),
    }
}

#[test]
fn every_metric_has_its_value() {
    let mut point = point();
    let further = [
        ("transactions_per_second", 123.0),
        ("volume_read_ns", 8e4),
        ("volume_write_ns", 14e4),
        (FIRST_IO, 7e8),
        (READY_TARGET, 4e8),
        (READY_INITIATOR, 1e8),
    ];
    point.extra.extend(further.map(|(name, value)| (name.to_owned(), value)));
    point.load.log = Some(Direction {
        latency: Some(Latency { mean: 30_000.0, ..Latency::default() }),
        ..Direction::default()
    });
    point.memory.insert("host".to_owned(), 64_000_000);
    point.target_counters.extend(
        [(CACHE_HITS, 150.0), (CACHE_MISSES, 50.0), (CACHE_DIRTY, 8192.0)]
            .map(|(name, count)| (name.to_owned(), count)),
    );
    point.network = Some(Network { sent: 619_200_000, received: 200_000_000, ..Network::default() });
    let context =
        Context { payload_rate: Some(245.76e6), local_latency: Some(50_000.0), price: Some(8000.0) };
    let expected = [
        (Metric::Iops, 40_000.0),
        (Metric::Bandwidth, 163.84e6),
        (Metric::LatencyMean, 125_000.0),
        (Metric::LatencyMin, 50_000.0),
        (Metric::LatencyP50, 90_000.0),
        (Metric::LatencyP95, 900_000.0),
        (Metric::LatencyP99, 900_000.0),
        (Metric::LatencyP999, 900_000.0),
        (Metric::LatencyP9999, 900_000.0),
        (Metric::LatencyMax, 2_000_000.0),
        (Metric::LatencyRead, 90_000.0),
        (Metric::LatencyWrite, 150_000.0),
        (Metric::LatencyReadMean, 100_000.0),
        (Metric::LatencyLog, 30_000.0),
        (Metric::VolumeRead, 80_000.0),
        (Metric::VolumeWrite, 140_000.0),
        (Metric::CpuHost, 20.0),
        (Metric::CpuAdapter, 10.0),
        (Metric::CpuTarget, 25.0),
        (Metric::EffectivenessIops, 2000.0),
        (Metric::EffectivenessBandwidth, 8.192),
        (Metric::EffectivenessWithAdapter, 40_000.0 / 30.0),
        (Metric::EffectivenessTransactions, 6.15),
        (Metric::CpuPerIo, 10.0),
        (Metric::CpuTargetPerIo, 12.5),
        (Metric::CpuPerGib, 4.0 / (400_000.0 * 4096.0) * 1_073_741_824.0),
        (Metric::Transactions, 123.0),
        (Metric::LineRate, 50.0),
        (Metric::LineRateBoth, 100.0 / 6.0),
        (Metric::AddedLatency, 75_000.0),
        (Metric::NeighbourBandwidth, 300e6),
        (Metric::MemoryHost, 64e6),
        (Metric::IopsPerPrice, 5.0),
        (Metric::BandwidthPerPrice, 20_480.0),
        (Metric::FirstIo, 7e8),
        (Metric::ReadyTarget, 4e8),
        (Metric::ReadyInitiator, 1e8),
        (Metric::HitRate, 75.0),
        (Metric::DirtyBytes, 8192.0),
        // 1.6384e9 bytes were moved.
        (Metric::WirePerByte, 0.5),
        (Metric::CpuAllPerGib, 11.0 * 1_073_741_824.0 / 1.6384e9),
    ];
    let of_nodes = Metric::LocalReads;
    let named: Vec<Metric> = Metric::ALL.into_iter().filter(|metric| *metric != of_nodes).collect();
    assert_eq!(expected.map(|(metric, _)| metric), named[..]);
    for (metric, value) in expected {
        let measured = value_of(metric, &point, &context).unwrap();
        assert!((measured - value).abs() <= value * 1e-12, "{}: {measured} is not {value}", metric.name());
    }
}

#[test]
fn what_nodes_exchange_crosses_the_link_once() {
    let mut point = point();
    point.load.write = None;
    point.network =
        Some(Network { sent: 307_200_000, received: 307_200_000, kept: 921_600_000, retransmitted: 0 });
    let of = |point: &PointResult, metric| value_of(metric, point, &Context::default());
    assert_eq!(of(&point, Metric::WirePerByte), Some(0.5), "both directions of a link");
    assert_eq!(of(&point, Metric::LocalReads), None, "hosts that are no nodes have no parts");
    point.nodes = vec![Node::default(); 4];
    assert_eq!(of(&point, Metric::WirePerByte), Some(0.25));
    assert_eq!(of(&point, Metric::LocalReads), Some(75.0));
    point.load.write = Some(Direction::default());
    assert_eq!(of(&point, Metric::LocalReads), None, "copies cross the link whoever reads");
}

#[test]
fn what_a_point_cannot_say_is_absent() {
    let mut point = point();
    let context = Context::default();
    point.neighbours.clear();
    for metric in [Metric::LineRate, Metric::AddedLatency, Metric::Transactions, Metric::NeighbourBandwidth] {
        assert_eq!(value_of(metric, &point, &context), None, "{}", metric.name());
    }
    point.load.write.as_mut().unwrap().latency = None;
    assert_eq!(value_of(Metric::LatencyP99, &point, &context), None, "reads do not speak for writes");
    assert_eq!(value_of(Metric::LatencyMean, &point, &context), None);
    assert!(value_of(Metric::LatencyRead, &point, &context).is_some());
    point.cpu.adapter = None;
    assert_eq!(value_of(Metric::CpuAdapter, &point, &context), None);
    assert_eq!(
        value_of(Metric::EffectivenessWithAdapter, &point, &context),
        value_of(Metric::EffectivenessIops, &point, &context)
    );
    for direction in [&mut point.load.read, &mut point.load.write].into_iter().flatten() {
        (direction.ios, direction.iops) = (0, 0.0);
    }
    assert!(value_of(Metric::Bandwidth, &point, &context).is_some(), "a stream moves bytes");
    for metric in [Metric::Iops, Metric::EffectivenessIops, Metric::CpuPerIo] {
        assert_eq!(value_of(metric, &point, &context), None, "a stream has no I/Os: {}", metric.name());
    }
    point.load.read = None;
    point.load.write = None;
    for metric in [Metric::Iops, Metric::EffectivenessIops, Metric::EffectivenessBandwidth] {
        assert_eq!(value_of(metric, &point, &context), None, "no direction is not zero: {}", metric.name());
    }
}

#[test]
fn an_invalid_point_has_no_values() {
    let mut point = point();
    point.flags.push(Flag::Errors { detail: "1 % failed".to_owned() });
    for metric in Metric::ALL {
        assert_eq!(value_of(metric, &point, &Context::default()), None, "{}", metric.name());
    }
}

#[test]
fn one_direction_keeps_the_tools_own_percentile() {
    let mut point = point();
    point.load.write = None;
    let read = point.load.read.as_mut().and_then(|read| read.latency.as_mut()).unwrap();
    read.percentiles.insert("p99".to_owned(), 148_480.0);
    assert_eq!(value_of(Metric::LatencyP99, &point, &Context::default()), Some(148_480.0));
}

#[test]
fn names_are_those_of_scenario_files() {
    for metric in Metric::ALL {
        let name = serde_json::to_value(metric).unwrap();
        assert_eq!(name, serde_json::Value::String(metric.name().to_owned()));
        assert_eq!(Metric::named(metric.name()), Some(metric));
    }
    assert_eq!(Metric::named("speed"), None);
}

#[test]
fn values_are_written_for_people() {
    for (metric, value, text) in [
        (Metric::Iops, 41_234.0, "41.2k IOPS"),
        (Metric::Iops, 3_036_000.0, "3.04M IOPS"),
        (Metric::Iops, 501.0, "501.0 IOPS"),
        (Metric::Bandwidth, 954.6e6, "954.6 MB/s"),
        (Metric::LatencyP50, 19_600.0, "19.6 µs"),
        (Metric::CpuHost, 93.0, "93.0 % of the machine"),
        (Metric::EffectivenessIops, 1603.7, "1604 IOPS per 1 % CPU"),
        (Metric::CpuPerIo, 2.5, "2.50 µs CPU per I/O"),
    ] {
        assert_eq!(metric.format(value), text);
    }
}
