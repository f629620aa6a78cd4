//! The result of one measured point: what `result.json` holds.
//!
//! One file per point, arm and repetition. Everything that a report or a comparison says is computed from these files, so
//! they hold raw counts and histograms, not averages of averages. The tool's own output is kept beside it, untouched.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::evidence::Evidence;

/// Version of the layout; a reader refuses a newer one.
pub const SCHEMA: u32 = 1;

/// One arm at one point in one repetition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PointResult {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The run it belongs to.
    pub run: String,
    /// The scenario's identifier, such as `chelsio-t6.nullio`.
    pub scenario: String,
    /// SHA-256 of the scenario file, in hexadecimal.
    pub scenario_hash: String,
    /// The arm's key, such as `A`.
    pub arm: String,
    /// Axis and value, in the order of the sweep.
    pub point: Vec<Coordinate>,
    /// Repetition (the pair's number), from 1.
    pub repetition: u32,
    /// Place within its pair: 1 ran first.
    pub order: u32,
    /// RFC 3339, UTC.
    pub started: String,
    /// Length of the measured window, seconds.
    pub seconds: f64,
    /// Where the figures come from.
    pub evidence: Evidence,
    /// What produced them.
    pub tool: Tool,
    /// I/Os, bytes and latencies by direction.
    pub load: Load,
    /// Seconds of the window one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Interval>,
    /// Processor time by side.
    pub cpu: Cpu,
    /// Most resident memory by side (`host`, `adapter`, `target`), bytes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub memory: BTreeMap<String, u64>,
    /// What crossed the link, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// The nodes of a cluster, where the hosts are nodes; `cpu` above has their sums, and so has `network`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Node>,
    /// The target's own counters, where it has them: of its cache volumes together `cache_hits` and `cache_misses` (reads), `cache_insertions`,
    /// `cache_evictions` (lines), `cache_bypassed` (requests) and `cache_written_back_bytes` from the beginning of the ramp to the end of the load, and
    /// `cache_dirty_bytes` at its end.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub target_counters: BTreeMap<String, f64>,
    /// Other loads that ran on the link meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<Neighbour>,
    /// What machines with an agent counted, by the site's names for them. `cpu` above has the host's machine, and of the others
    /// the sides' shares only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, Machine>,
    /// Further figures of the tool, such as `transactions_per_second`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, f64>,
    /// The resource that was above 90 %, if one was measured to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limiter: Option<String>,
    /// What makes the point doubtful or invalid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<Flag>,
}

/// Another load on the link of the measured one. Its own figures are of its whole time, which is longer than the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Neighbour {
    /// Which one: `stream`, `iscsi` or `nvme`.
    pub name: String,
    /// Bytes per second that it carried in the window of the measured load.
    pub bytes_per_second: f64,
    /// What produced it.
    pub tool: Tool,
    /// Its I/Os, bytes and latencies over all of its time.
    pub load: Load,
    /// Seconds of that time.
    pub seconds: f64,
}

/// A value on an axis.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Coordinate {
    /// The axis, in fio's option name where fio has one.
    pub axis: String,
    /// The value, as the scenario writes it.
    pub value: String,
}

/// The program that measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Its name, such as `fio`.
    pub name: String,
    /// Its version, as it says itself.
    pub version: String,
    /// The command line, secrets left out.
    pub argv: Vec<String>,
}

/// What the tool did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Reads; absent when there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<Direction>,
    /// Writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<Direction>,
    /// Time of flushes (fio's sync latency).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync: Option<Latency>,
    /// Writes of a second section, a database's log, which the directions above do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Direction>,
    /// Latency of a database's transactions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions: Option<Latency>,
    /// I/Os that failed.
    pub errors: u64,
}

/// One direction of a load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Direction {
    /// I/Os that succeeded.
    pub ios: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// I/Os per second, as the tool says.
    pub iops: f64,
    /// Bytes per second, as the tool says.
    pub bytes_per_second: f64,
    /// From submission (open loop: from the intended start) to completion; absent when the tool has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
}

/// A bucket of a histogram; a pair in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u64)", into = "(u64, u64)")]
pub struct Bucket {
    /// Its upper bound, in nanoseconds.
    pub bound: u64,
    /// How many fell into it.
    pub count: u64,
}

impl From<(u64, u64)> for Bucket {
    fn from((bound, count): (u64, u64)) -> Self {
        Self { bound, count }
    }
}

impl From<Bucket> for (u64, u64) {
    fn from(Bucket { bound, count }: Bucket) -> Self {
        (bound, count)
    }
}

/// A distribution of latencies, in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Least.
    pub min: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation.
    pub deviation: f64,
    /// Most.
    pub max: f64,
    /// Percentiles by name (`p50`, `p95`, `p99`, `p99.9`, `p99.99`), as the tool gives them.
    pub percentiles: BTreeMap<String, f64>,
    /// Upper bound of a bucket in nanoseconds, and how many fell into it; ascending. Empty when the tool has no histogram.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<(u64, u64)>")]
    pub histogram: Vec<Bucket>,
}

/// One second or so of the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// Its end, seconds since the window began.
    pub at: f64,
    /// I/Os per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Mean latency, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<f64>,
    /// Per cent of the machine's processors that were busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f64>,
    /// Transactions per second, for databases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions: Option<f64>,
}

/// Processor time of a window. The publications counted the host only; here every side is counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// Processors of the machine.
    pub processors: u32,
    /// The application and its kernel path.
    pub host: CpuShare,
    /// The process that does the protocol's work for the host, when it is one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<CpuShare>,
    /// The target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<CpuShare>,
    /// Other loads on the link, both their ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<CpuShare>,
    /// Seconds of soft interrupts on the whole machine; they cannot be told apart by side.
    pub softirq: f64,
    /// Seconds taken by the hypervisor.
    pub steal: f64,
    /// Busy seconds that belong to nobody above.
    pub foreign: f64,
    /// Busy per cent of the machine: least, mean and most of the window's seconds.
    pub machine_percent: (f64, f64, f64),
    /// How it was counted: `cgroup2`, `cgroup1` or `process tree`.
    pub method: String,
}

/// Processor time of one side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CpuShare {
    /// Seconds in user mode.
    pub user: f64,
    /// Seconds in the kernel.
    pub system: f64,
}

impl CpuShare {
    /// Seconds in all.
    pub fn seconds(self) -> f64 {
        self.user + self.system
    }
}

/// What one of several machines counted during the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its processors; sides that do not run there are absent or zero.
    pub cpu: Cpu,
    /// Most resident memory by side, bytes.
    pub memory: BTreeMap<String, u64>,
    /// Its end of the link, where the site names the interface. Sent is what left this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// What its hardware counted.
    pub hardware: Hardware,
}

/// What a machine's hardware counted around the window: read when it was opened and when it was closed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    /// Seconds between the two readings; a little more than ramp and window.
    pub seconds: f64,
    /// Counters of the interface on the link, such as `rx_packets`, by the kernel's names; those that did not grow are absent.
    pub interface: BTreeMap<String, u64>,
    /// Interrupts by source, and soft interrupts as `soft NET_RX`; the busiest ones.
    pub interrupts: BTreeMap<String, u64>,
    /// Pages by NUMA node, as `node0 other_node`, by the kernel's names.
    pub pages: BTreeMap<String, u64>,
    /// NUMA node of the interface, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface_node: Option<u32>,
    /// Joules by RAPL domain, where they can be read.
    pub energy: BTreeMap<String, f64>,
}

/// What one node of a cluster spent during the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// The load on it.
    pub host: CpuShare,
    /// What makes volumes of all nodes' parts for that load, when it is a process of its own.
    pub adapter: CpuShare,
    /// What serves its parts to all nodes.
    pub target: CpuShare,
    /// Its end of the link: what it sent to the other nodes and received from them.
    pub network: Network,
}

impl Node {
    /// Seconds of all of it.
    pub fn seconds(&self) -> f64 {
        self.host.seconds() + self.adapter.seconds() + self.target.seconds()
    }
}

/// Counters of the link during the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Bytes toward the target; of nodes, to the others.
    pub sent: u64,
    /// Bytes from the target; of nodes, from the others.
    pub received: u64,
    /// Bytes that nodes exchanged with themselves, which cross no link. 0 where hosts are not nodes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub kept: u64,
    /// TCP segments sent again.
    pub retransmitted: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Why a point is doubtful or invalid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Flag {
    /// Others used the processors.
    Contended {
        /// Per cent of the machine that was foreign, and what was allowed.
        detail: String,
    },
    /// The rate still changed when the window began or while it lasted.
    NoSteadyState {
        /// The slope that was seen.
        detail: String,
    },
    /// The machine's clock or quota was lowered.
    Throttled {
        /// By what.
        detail: String,
    },
    /// I/Os failed: the point is invalid.
    Errors {
        /// How many, and the first.
        detail: String,
    },
    /// Latencies look like Nagle's algorithm against delayed acknowledgements (about 40 ms or a multiple).
    DelayedAck {
        /// The median that was seen.
        detail: String,
    },
    /// The volume returned wrong data: the point is invalid.
    Corrupt {
        /// Where.
        detail: String,
    },
    /// The load was not what its profile promises, such as an Exchange server's mix: the point is invalid.
    OutsideProfile {
        /// Which ratio, and its range.
        detail: String,
    },
    /// Several arms sat on the same limit, so their equality says nothing.
    SharedLimit {
        /// Which, where it was measured.
        detail: String,
    },
}

impl Flag {
    /// An invalid point gets no row in a report.
    pub const fn invalidates(&self) -> bool {
        matches!(self, Self::Errors { .. } | Self::Corrupt { .. } | Self::OutsideProfile { .. })
    }
}

impl PointResult {
    /// I/Os per second, both directions.
    pub fn iops(&self) -> f64 {
        self.directions().map(|direction| direction.iops).sum()
    }

    /// Bytes per second, both directions.
    pub fn bytes_per_second(&self) -> f64 {
        self.directions().map(|direction| direction.bytes_per_second).sum()
    }

    /// I/Os that succeeded.
    pub fn ios(&self) -> u64 {
        self.directions().map(|direction| direction.ios).sum()
    }

    /// Reads, then writes, as far as there were any.
    pub fn directions(&self) -> impl Iterator<Item = &Direction> {
        self.load.read.iter().chain(&self.load.write)
    }

    /// False when a flag makes it worthless.
    pub fn valid(&self) -> bool {
        self.invalidity().is_none()
    }

    /// What makes it worthless.
    pub fn invalidity(&self) -> Option<&str> {
        self.flags.iter().find_map(|flag| match flag {
            Flag::Errors { detail } | Flag::Corrupt { detail } | Flag::OutsideProfile { detail } => {
                Some(detail.as_str())
            }
            _ => None,
        })
    }

    /// What makes it count for no verdict, though it is valid: the machine was busy with something else, slowed down, or the rate
    /// was not steady. Such a measurement is taken again while there is time.
    pub fn doubt(&self) -> Option<&str> {
        self.flags.iter().find_map(|flag| match flag {
            Flag::Contended { detail } | Flag::NoSteadyState { detail } | Flag::Throttled { detail } => {
                Some(detail.as_str())
            }
            _ => None,
        })
    }

    /// `bs=4k rw=randread`.
    pub fn point_name(&self) -> String {
        point_name(&self.point)
    }
}

/// The name of the point of a sweep without axes.
pub const ONLY_POINT: &str = "the only point";

/// `bs=4k rw=randread`; [`ONLY_POINT`] for a sweep without axes.
pub fn point_name(point: &[Coordinate]) -> String {
    if point.is_empty() {
        return ONLY_POINT.to_owned();
    }
    let parts: Vec<String> = point.iter().map(|at| format!("{}={}", at.axis, at.value)).collect();
    parts.join(" ")
}
