//! Units of a report's figures and names of its axes.
//!
//! A metric has one unit in every figure and file, so that files of different runs can be laid side by side. The one choice
//! is that of network experiments, whose publications count throughput in bits.

use lab_model::scenario::{Metric, Scenario, ToolKind};
use lab_model::statistics::metric::Better;

/// Bytes per second in a Gbit/s.
const GIGABIT: f64 = 1e9 / 8.0;

/// A unit: its name, and how many base units it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Unit {
    /// As on an axis.
    pub(crate) name: &'static str,
    /// Base units in one of it.
    pub(crate) size: f64,
}

impl Unit {
    /// The unit of a metric in a scenario's report.
    pub(crate) fn new(metric: Metric, scenario: &Scenario) -> Self {
        if metric == Metric::Bandwidth && in_bits(scenario) {
            return Self { name: "Gbit/s", size: GIGABIT };
        }
        let scale = metric.scale();
        Self { name: scale.unit, size: scale.divisor }
    }

    /// A value of base units in this one.
    pub(crate) fn of(self, value: f64) -> f64 {
        value / self.size
    }
}

/// Whether the publication counts throughput in bits: streams and `dd` do, and whoever says so in a table.
fn in_bits(scenario: &Scenario) -> bool {
    let units = scenario.published.iter().filter_map(|published| published.unit.as_deref());
    matches!(scenario.workload.tool, ToolKind::Iperf3 | ToolKind::Dd)
        || units.into_iter().any(|unit| unit.contains("Gb"))
}

/// What is better: more or less of it.
pub(crate) const fn better(metric: Metric) -> &'static str {
    match metric.better() {
        Better::Higher => "higher is better",
        Better::Lower => "lower is better",
    }
}

/// `Throughput (MB/s)`.
pub(crate) fn with_unit(metric: Metric, unit: Unit) -> String {
    if metric.title() == unit.name {
        unit.name.to_owned()
    } else {
        format!("{} ({})", metric.title(), unit.name)
    }
}

/// What an axis of a sweep is called.
pub(crate) fn axis(name: &str) -> &str {
    match name {
        "bs" => "block size",
        "rw" => "access",
        "iodepth" => "queue depth",
        "numjobs" => "jobs",
        "rwmixread" => "reads (%)",
        "mtu" => "MTU (bytes)",
        "len" => "buffer size",
        "parallel" => "threads",
        "link" => "link rate",
        "delay" => "added delay",
        "loss" => "packet loss",
        "anew" => "arm built anew",
        other => other,
    }
}
