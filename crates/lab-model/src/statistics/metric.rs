//! What a metric of a scenario is worth at a measured point, and how its values are written.
//!
//! Reports, comparisons and claims all ask here, so that one name means one number everywhere. A value that a point
//! cannot give is `None`, never zero: a tool without histograms has no 99th percentile of reads and writes together.

use super::histogram::percentile_of_all;
use super::number::real;
use crate::effectiveness::{Scope, effectiveness, microseconds_per_io, percent_of_machine, seconds_per_gib};
use crate::result::{CpuShare, Direction, Latency, PointResult};
use crate::scenario::{Metric, ToolKind};

/// Bytes of a MB, as the publications count bandwidth.
const MEGABYTE: f64 = 1e6;
/// The tool's figure that holds transactions per second.
const TRANSACTIONS: &str = "transactions_per_second";
/// What an installation's clock showed: at the first verified I/O, and when each side could be used, ns.
pub const FIRST_IO: &str = "first_io_ns";
/// Until the target served.
pub const READY_TARGET: &str = "ready_target_ns";
/// Reads of cache volumes that the fast one answered, and that the capacity volume answered in part at least.
pub const CACHE_HITS: &str = "cache_hits";
/// See [`CACHE_HITS`].
pub const CACHE_MISSES: &str = "cache_misses";
/// Bytes of which the fast volumes have the only copy when the load has ended.
pub const CACHE_DIRTY: &str = "cache_dirty_bytes";
/// Until the initiator had the volume, after the target served.
pub const READY_INITIATOR: &str = "ready_initiator_ns";

/// What a value depends on beside its point.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Context {
    /// Bytes per second of payload that the link can carry in one direction; [`Metric::LineRate`] needs it.
    pub payload_rate: Option<f64>,
    /// Mean latency of the local arm at the same point, ns; [`Metric::AddedLatency`] needs it.
    pub local_latency: Option<f64>,
    /// What the arm costs, in the site's currency; [`Metric::IopsPerPrice`] needs it.
    pub price: Option<f64>,
}

/// What a user cares about in a tool's result: it decides when a point has been measured often enough.
pub const fn main_metric(tool: ToolKind) -> Metric {
    match tool {
        ToolKind::Iperf3 | ToolKind::Dd => Metric::Bandwidth,
        ToolKind::Pgbench => Metric::Transactions,
        ToolKind::FirstIo => Metric::FirstIo,
        ToolKind::Fio | ToolKind::Vmfleet | ToolKind::Diskspd | ToolKind::Analysis => Metric::Iops,
    }
}

/// Which way a metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

/// The value of `metric` at a point, in the metric's base unit (bytes per second, nanoseconds, per cent: see
/// [`Metric`]). `None` when the point is invalid, or the tool or the context does not give what it takes.
pub fn value_of(metric: Metric, point: &PointResult, context: &Context) -> Option<f64> {
    if !point.valid() {
        return None;
    }
    load_value(metric, point, context)
        .or_else(|| processor_value(metric, point))
        .filter(|value| value.is_finite())
}

fn load_value(metric: Metric, point: &PointResult, context: &Context) -> Option<f64> {
    match metric {
        Metric::Iops if !moved(point) => volume_iops(point),
        Metric::Iops => has_ios(point).then(|| point.iops()),
        Metric::Bandwidth if !moved(point) => point.extra.get("volume_bytes_per_second").copied(),
        Metric::Bandwidth => Some(point.bytes_per_second()),
        Metric::LatencyMean => mean_latency(point),
        Metric::LatencyMin => latencies(point)?.iter().map(|latency| latency.min).reduce(f64::min),
        Metric::LatencyMax => latencies(point)?.iter().map(|latency| latency.max).reduce(f64::max),
        Metric::LatencyP50 => percentile_of_all(&latencies(point)?, "p50"),
        Metric::LatencyP95 => percentile_of_all(&latencies(point)?, "p95"),
        Metric::LatencyP99 => percentile_of_all(&latencies(point)?, "p99"),
        Metric::LatencyP999 => percentile_of_all(&latencies(point)?, "p99.9"),
        Metric::LatencyP9999 => percentile_of_all(&latencies(point)?, "p99.99"),
        Metric::LatencyRead => median(point.load.read.as_ref()),
        Metric::LatencyWrite => median(point.load.write.as_ref()),
        Metric::LatencyReadMean => mean(point.load.read.as_ref()),
        Metric::LatencyLog => mean(point.load.log.as_ref()),
        Metric::VolumeRead => point.extra.get("volume_read_ns").copied(),
        Metric::VolumeWrite => point.extra.get("volume_write_ns").copied(),
        Metric::MemoryHost => point.memory.get("host").map(|&bytes| real(bytes)),
        Metric::Transactions => point.extra.get(TRANSACTIONS).copied(),
        Metric::FirstIo => point.extra.get(FIRST_IO).copied(),
        Metric::ReadyTarget => point.extra.get(READY_TARGET).copied(),
        Metric::ReadyInitiator => point.extra.get(READY_INITIATOR).copied(),
        Metric::HitRate => hit_rate(point),
        Metric::DirtyBytes => point.target_counters.get(CACHE_DIRTY).copied(),
        Metric::WirePerByte => wire_per_byte(point),
        Metric::LocalReads => local_reads(point),
        Metric::IopsPerPrice | Metric::BandwidthPerPrice => {
            load_value(metric.without_price(), point, context)
                .zip(context.price)
                .map(|(work, price)| work / price)
        }
        Metric::NeighbourBandwidth => (!point.neighbours.is_empty())
            .then(|| point.neighbours.iter().map(|neighbour| neighbour.bytes_per_second).sum()),
        Metric::LineRate => {
            busier_direction(point).zip(context.payload_rate).map(|(busy, rate)| busy / rate * 100.0)
        }
        Metric::LineRateBoth => {
            lesser_direction(point).zip(context.payload_rate).map(|(lesser, rate)| lesser / rate * 100.0)
        }
        Metric::AddedLatency => {
            mean_latency(point).zip(context.local_latency).map(|(here, local)| here - local)
        }
        _ => None,
    }
}

fn processor_value(metric: Metric, point: &PointResult) -> Option<f64> {
    let cpu = &point.cpu;
    let percent = |seconds: f64| percent_of_machine(seconds, cpu.processors, point.seconds);
    let host = Scope::Host.seconds(cpu);
    // An imported log may tell per cent of a machine whose processors it does not count.
    let told = Some(cpu.machine_percent.1).filter(|&percent| cpu.processors == 0 && percent > 0.0);
    let host_percent = || percent(host).or(told);
    let with_adapter = Scope::HostAndAdapter.seconds(cpu);
    match metric {
        Metric::CpuHost => host_percent(),
        Metric::CpuAdapter => percent(cpu.adapter?.seconds()),
        Metric::CpuTarget => percent(cpu.target?.seconds()),
        Metric::EffectivenessIops if has_ios(point) => effectiveness(point.iops(), host_percent()?),
        Metric::EffectivenessBandwidth if moved(point) => {
            effectiveness(point.bytes_per_second() / MEGABYTE, host_percent()?)
        }
        Metric::EffectivenessTransactions => effectiveness(*point.extra.get(TRANSACTIONS)?, host_percent()?),
        Metric::EffectivenessWithAdapter if has_ios(point) => {
            effectiveness(point.iops(), percent(with_adapter)?)
        }
        Metric::CpuPerIo => microseconds_per_io(host, real(point.ios())),
        Metric::CpuTargetPerIo => microseconds_per_io(cpu.target?.seconds(), real(point.ios())),
        Metric::CpuPerGib => seconds_per_gib(host, moved_bytes(point)),
        Metric::CpuAllPerGib => {
            let target = cpu.target.map_or(0.0, CpuShare::seconds);
            seconds_per_gib(with_adapter + target, moved_bytes(point))
        }
        _ => None,
    }
}

/// Whether the load had a direction at all: a database's point has transactions instead.
fn moved(point: &PointResult) -> bool {
    point.directions().next().is_some()
}

/// Whether there were I/Os to count: a stream moves bytes without any.
fn has_ios(point: &PointResult) -> bool {
    moved(point) && (point.iops() > 0.0 || point.bytes_per_second() <= 0.0)
}

/// The latencies of all directions; `None` if one of them has none, since the rest would not speak for the whole. A database's
/// point has those of its transactions.
fn latencies(point: &PointResult) -> Option<Vec<&Latency>> {
    if !moved(point) {
        return point.load.transactions.as_ref().map(|latency| vec![latency]);
    }
    point.directions().map(|direction| direction.latency.as_ref()).collect()
}

/// What a database asked of its volume; the database's own point has transactions and no I/Os.
fn volume_iops(point: &PointResult) -> Option<f64> {
    let [reads, writes] =
        ["volume_reads_per_second", "volume_writes_per_second"].map(|name| point.extra.get(name));
    Some(reads? + writes?)
}

/// `None` without a cache, and where it was asked for nothing.
fn hit_rate(point: &PointResult) -> Option<f64> {
    let [hits, misses] = [CACHE_HITS, CACHE_MISSES].map(|name| point.target_counters.get(name));
    let (hits, reads) = (hits?, hits? + misses?);
    (reads > 0.0).then(|| hits / reads * 100.0)
}

/// What one node sends another one receives: it crossed the link once.
fn wire_per_byte(point: &PointResult) -> Option<f64> {
    let network = point.network?;
    let crossed = if point.nodes.is_empty() { network.sent + network.received } else { network.sent };
    let bytes = moved_bytes(point);
    (bytes > 0.0).then(|| real(crossed) / bytes)
}

/// `None` where there are writes, whose copies cross the link whoever reads; and where hosts are not nodes.
fn local_reads(point: &PointResult) -> Option<f64> {
    if point.load.write.is_some() || point.nodes.is_empty() {
        return None;
    }
    let network = point.network?;
    let all = network.kept + network.sent;
    (all > 0).then(|| real(network.kept) / real(all) * 100.0)
}

fn moved_bytes(point: &PointResult) -> f64 {
    real(point.directions().map(|direction| direction.bytes).sum())
}

/// Means weigh as many I/Os as they stand for.
fn mean_latency(point: &PointResult) -> Option<f64> {
    if !moved(point) {
        return point.load.transactions.as_ref().map(|latency| latency.mean);
    }
    let ios = real(point.ios());
    let means = latencies(point)?.into_iter().zip(point.directions());
    let sum: f64 = means.map(|(latency, direction)| latency.mean * real(direction.ios)).sum();
    (ios > 0.0).then(|| sum / ios)
}

fn median(direction: Option<&Direction>) -> Option<f64> {
    percentile_of_all(&[direction?.latency.as_ref()?], "p50")
}

fn mean(direction: Option<&Direction>) -> Option<f64> {
    Some(direction?.latency.as_ref()?.mean)
}

/// What both directions carried at once; `None` where only one was used.
fn lesser_direction(point: &PointResult) -> Option<f64> {
    let (read, write) = (point.load.read.as_ref()?, point.load.write.as_ref()?);
    Some(read.bytes_per_second.min(write.bytes_per_second))
}

/// A full-duplex link carries reads one way and writes the other: its limit is met by the busier way.
fn busier_direction(point: &PointResult) -> Option<f64> {
    point.directions().map(|direction| direction.bytes_per_second).reduce(f64::max)
}

/// How values of a metric are shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// What a value of [`value_of`] is divided by.
    pub divisor: f64,
    /// The unit that it is then in.
    pub unit: &'static str,
}

impl Metric {
    /// Every metric, in the order of the enum.
    pub const ALL: [Self; 42] = [
        Self::Iops,
        Self::Bandwidth,
        Self::LatencyMean,
        Self::LatencyMin,
        Self::LatencyP50,
        Self::LatencyP95,
        Self::LatencyP99,
        Self::LatencyP999,
        Self::LatencyP9999,
        Self::LatencyMax,
        Self::LatencyRead,
        Self::LatencyWrite,
        Self::LatencyReadMean,
        Self::LatencyLog,
        Self::VolumeRead,
        Self::VolumeWrite,
        Self::CpuHost,
        Self::CpuAdapter,
        Self::CpuTarget,
        Self::EffectivenessIops,
        Self::EffectivenessBandwidth,
        Self::EffectivenessWithAdapter,
        Self::EffectivenessTransactions,
        Self::CpuPerIo,
        Self::CpuTargetPerIo,
        Self::CpuPerGib,
        Self::Transactions,
        Self::LineRate,
        Self::LineRateBoth,
        Self::AddedLatency,
        Self::NeighbourBandwidth,
        Self::MemoryHost,
        Self::IopsPerPrice,
        Self::BandwidthPerPrice,
        Self::FirstIo,
        Self::ReadyTarget,
        Self::ReadyInitiator,
        Self::HitRate,
        Self::DirtyBytes,
        Self::WirePerByte,
        Self::LocalReads,
        Self::CpuAllPerGib,
    ];

    /// Its name in scenario files and claims, such as `latency_p50`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Iops => "iops",
            Self::Bandwidth => "bandwidth",
            Self::LatencyMean => "latency_mean",
            Self::LatencyMin => "latency_min",
            Self::LatencyP50 => "latency_p50",
            Self::LatencyP95 => "latency_p95",
            Self::LatencyP99 => "latency_p99",
            Self::LatencyP999 => "latency_p999",
            Self::LatencyP9999 => "latency_p9999",
            Self::LatencyMax => "latency_max",
            Self::LatencyRead => "latency_read",
            Self::LatencyWrite => "latency_write",
            Self::LatencyReadMean => "latency_read_mean",
            Self::LatencyLog => "latency_log",
            Self::VolumeRead => "volume_read",
            Self::VolumeWrite => "volume_write",
            Self::CpuHost => "cpu_host",
            Self::CpuAdapter => "cpu_adapter",
            Self::CpuTarget => "cpu_target",
            Self::EffectivenessIops => "effectiveness_iops",
            Self::EffectivenessBandwidth => "effectiveness_bandwidth",
            Self::EffectivenessWithAdapter => "effectiveness_with_adapter",
            Self::EffectivenessTransactions => "effectiveness_transactions",
            Self::CpuPerIo => "cpu_per_io",
            Self::CpuTargetPerIo => "cpu_target_per_io",
            Self::CpuPerGib => "cpu_per_gib",
            Self::Transactions => "transactions",
            Self::LineRate => "line_rate",
            Self::LineRateBoth => "line_rate_both",
            Self::AddedLatency => "added_latency",
            Self::NeighbourBandwidth => "neighbour_bandwidth",
            Self::MemoryHost => "memory_host",
            Self::IopsPerPrice => "iops_per_price",
            Self::BandwidthPerPrice => "bandwidth_per_price",
            Self::FirstIo => "first_io",
            Self::ReadyTarget => "ready_target",
            Self::ReadyInitiator => "ready_initiator",
            Self::HitRate => "hit_rate",
            Self::DirtyBytes => "dirty_bytes",
            Self::WirePerByte => "wire_per_byte",
            Self::LocalReads => "local_reads",
            Self::CpuAllPerGib => "cpu_all_per_gib",
        }
    }

    /// The metric of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// What is measured of it: a price is the site's word.
    #[must_use]
    pub const fn without_price(self) -> Self {
        match self {
            Self::IopsPerPrice => Self::Iops,
            Self::BandwidthPerPrice => Self::Bandwidth,
            measured => measured,
        }
    }

    /// Whether it takes a price.
    pub fn needs_price(self) -> bool {
        self != self.without_price()
    }

    /// A title for axes and heads of tables, without the unit.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::Bandwidth => "Throughput",
            Self::LatencyMean => "Mean latency",
            Self::LatencyMin => "Minimum latency",
            Self::LatencyP50 => "Median latency",
            Self::LatencyP95 => "95th percentile of latency",
            Self::LatencyP99 => "99th percentile of latency",
            Self::LatencyP999 => "99.9th percentile of latency",
            Self::LatencyP9999 => "99.99th percentile of latency",
            Self::LatencyMax => "Maximum latency",
            Self::LatencyRead => "Median latency of reads",
            Self::LatencyWrite => "Median latency of writes",
            Self::LatencyReadMean => "Mean latency of reads",
            Self::LatencyLog => "Mean latency of log writes",
            Self::VolumeRead => "Mean latency of the volume's reads",
            Self::VolumeWrite => "Mean latency of the volume's writes",
            Self::CpuHost => "Processor utilization, host",
            Self::CpuAdapter => "Processor utilization, adapter",
            Self::CpuTarget => "Processor utilization, target",
            Self::EffectivenessIops => "Processor effectiveness, host alone",
            Self::EffectivenessBandwidth => "Processor effectiveness by throughput, host alone",
            Self::EffectivenessWithAdapter => "Processor effectiveness, host and adapter",
            Self::EffectivenessTransactions => "Processor effectiveness by transactions, host alone",
            Self::CpuPerIo => "Processor time per I/O",
            Self::CpuTargetPerIo => "Processor time of the target per I/O",
            Self::CpuPerGib => "Processor time per GiB",
            Self::Transactions => "Transaction rate",
            Self::LineRate => "Share of line rate",
            Self::LineRateBoth => "Share of line rate in both directions at once",
            Self::AddedLatency => "Latency added over local",
            Self::NeighbourBandwidth => "Throughput of the neighbours",
            Self::MemoryHost => "Most resident memory, host",
            Self::IopsPerPrice => "IOPS for the price",
            Self::BandwidthPerPrice => "Throughput for the price",
            Self::FirstIo => "Time to the first verified I/O",
            Self::ReadyTarget => "Time until the target serves",
            Self::ReadyInitiator => "Time until the initiator has the volume",
            Self::HitRate => "Reads that the cache answered",
            Self::DirtyBytes => "Dirty in the cache at the end",
            Self::WirePerByte => "Bytes on the wire for each byte of the load",
            Self::LocalReads => "Share of reads that stayed on the node",
            Self::CpuAllPerGib => "Processor time of all sides per GiB",
        }
    }

    /// The unit of figures and tables, and by how much a value of [`value_of`] is divided to be in it.
    pub const fn scale(self) -> Scale {
        match self {
            Self::Iops => Scale { divisor: 1.0, unit: "IOPS" },
            Self::Bandwidth | Self::NeighbourBandwidth => Scale { divisor: MEGABYTE, unit: "MB/s" },
            Self::LatencyMean
            | Self::LatencyMin
            | Self::LatencyP50
            | Self::LatencyP95
            | Self::LatencyP99
            | Self::LatencyP999
            | Self::LatencyP9999
            | Self::LatencyMax
            | Self::LatencyRead
            | Self::LatencyWrite
            | Self::LatencyReadMean
            | Self::LatencyLog
            | Self::VolumeRead
            | Self::VolumeWrite
            | Self::AddedLatency => Scale { divisor: 1e3, unit: "µs" },
            Self::CpuHost | Self::CpuAdapter | Self::CpuTarget => {
                Scale { divisor: 1.0, unit: "% of the machine" }
            }
            Self::EffectivenessIops | Self::EffectivenessWithAdapter => {
                Scale { divisor: 1.0, unit: "IOPS per 1 % CPU" }
            }
            Self::EffectivenessBandwidth => Scale { divisor: 1.0, unit: "MB/s per 1 % CPU" },
            Self::EffectivenessTransactions => Scale { divisor: 1.0, unit: "transactions/s per 1 % CPU" },
            Self::CpuPerIo | Self::CpuTargetPerIo => Scale { divisor: 1.0, unit: "µs CPU per I/O" },
            Self::CpuPerGib | Self::CpuAllPerGib => Scale { divisor: 1.0, unit: "s CPU per GiB" },
            Self::Transactions => Scale { divisor: 1.0, unit: "transactions/s" },
            Self::LineRate | Self::LineRateBoth => Scale { divisor: 1.0, unit: "% of line rate" },
            Self::MemoryHost | Self::DirtyBytes => Scale { divisor: 1_048_576.0, unit: "MiB" },
            Self::HitRate | Self::LocalReads => Scale { divisor: 1.0, unit: "% of reads" },
            Self::WirePerByte => Scale { divisor: 1.0, unit: "bytes per byte" },
            Self::IopsPerPrice => Scale { divisor: 1.0, unit: "IOPS per unit of currency" },
            Self::BandwidthPerPrice => Scale { divisor: MEGABYTE, unit: "MB/s per unit of currency" },
            Self::FirstIo | Self::ReadyTarget | Self::ReadyInitiator => Scale { divisor: 1e6, unit: "ms" },
        }
    }

    /// Which way it is better.
    pub const fn better(self) -> Better {
        match self {
            Self::Iops
            | Self::Bandwidth
            | Self::NeighbourBandwidth
            | Self::EffectivenessIops
            | Self::EffectivenessBandwidth
            | Self::EffectivenessWithAdapter
            | Self::EffectivenessTransactions
            | Self::Transactions
            | Self::LineRate
            | Self::LineRateBoth
            | Self::HitRate
            | Self::LocalReads
            | Self::IopsPerPrice
            | Self::BandwidthPerPrice => Better::Higher,
            _ => Better::Lower,
        }
    }

    /// Whether it is a time that an I/O took, of which the part beyond the local arm's is the transport's.
    pub const fn is_latency(self) -> bool {
        matches!(
            self,
            Self::LatencyMean
                | Self::LatencyMin
                | Self::LatencyP50
                | Self::LatencyP95
                | Self::LatencyP99
                | Self::LatencyP999
                | Self::LatencyP9999
                | Self::LatencyMax
                | Self::LatencyRead
                | Self::LatencyWrite
                | Self::LatencyReadMean
                | Self::LatencyLog
        )
    }

    /// A value of [`value_of`] as a reader wants it: `41.2k IOPS`, `954.6 MB/s`, `19.6 µs`.
    pub fn format(self, value: f64) -> String {
        let Scale { divisor, unit } = self.scale();
        format!("{} {unit}", short(value / divisor))
    }
}

/// Three or four significant digits, thousands and millions by letter.
fn short(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size >= 1e7 => format!("{:.1}M", value / 1e6),
        _ if size >= 1e6 => format!("{:.2}M", value / 1e6),
        _ if size >= 1e4 => format!("{:.1}k", value / 1e3),
        _ if size >= 1e3 => format!("{value:.0}"),
        _ if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
#[path = "metric_tests.rs"]
mod tests;
