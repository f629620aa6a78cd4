//! Which names an axis, a workload option or an arm's `with` may use.
//!
//! A misspelt option would otherwise be measured as if it had been given: `iodept = "64"` is a run at depth 1. The tools'
//! options keep the tools' names; the lab's own are those of [`LAB`].

use super::ToolKind;

/// A name and what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// As scenarios write it.
    pub name: &'static str,
    /// What it is, with its unit.
    pub meaning: &'static str,
}

const fn known(name: &'static str, meaning: &'static str) -> Known {
    Known { name, meaning }
}

/// Settings of the lab, usable with every tool.
pub const LAB: &[Known] = &[
    known("job", "a named set of options of `workload.jobs`"),
    known(
        "link",
        "rate that the link is shaped to, such as 5Gbit; or unshaped, loopback, or physical: to a second host",
    ),
    known("mtu", "bytes of payload of an Ethernet frame"),
    known("volume", "volume of each logical unit or namespace, as a URL"),
    known("volumes", "logical units or namespaces of each target"),
    known("targets", "targets in all"),
    known("initiators", "initiating hosts"),
    known(
        "copies",
        "how many of the initiating hosts hold each block, as nodes of a cluster; 0: the targets have a host of their own",
    ),
    known("placement", "core of the target: same or other than the initiator's"),
    known(
        "cores",
        "event loops of Linerate's target: one, or more on as many processors, the target's first and then the host's",
    ),
    known(
        "target_spin",
        "how long Linerate's target, or the bare loop's, looks for work before it sleeps, such as 50us",
    ),
    known(
        "digests",
        "whether Linerate's initiator and target protect what they send by CRC32C, where that is a choice: on or off",
    ),
    known(
        "adapter",
        "core of the adapter: usual (its own, or the host's) or apart (its own, or the target's)",
    ),
    known("delay", "delay that the link adds in each direction, such as 100us, or none (sch_netem)"),
    known(
        "loss",
        "share of the packets that the link drops, such as 0.1%, or none (nftables; sch_netem with delay or reorder)",
    ),
    known("reorder", "share of the packets that overtake others, such as 1%, or none (sch_netem)"),
    known(
        "gateway",
        "what is between initiator and target: none or nat, a router that translates addresses (nftables)",
    ),
    known(
        "anew",
        "whether each measurement begins with an arm that was just built and filled, its caches cold: on or off",
    ),
    known("neighbour", "what else uses the link: none, stream, iscsi, nvme, nfs or all"),
    known(
        "rate_iops",
        "open loop: I/Os per second that are started whatever comes back, or a share such as 50% of what `calibration` found",
    ),
];

/// fio's, by fio's names.
pub const FIO: &[Known] = &[
    known("bs", "bytes of an I/O"),
    known("rw", "read, write, randread, randwrite, rw or randrw"),
    known("rwmixread", "per cent of reads in a mix"),
    known("iodepth", "I/Os under way for each job"),
    known("numjobs", "jobs"),
    known("size", "bytes of each volume that are used"),
    known("direct", "1 passes the page cache by"),
    known("invalidate", "1 drops the cache before the start"),
    known("fsync_on_close", "1 flushes at the end"),
    known("fsync", "flush after so many writes"),
    known("ioengine", "how fio submits"),
    known("time_based", "1 repeats until the time is over"),
    known("group_reporting", "1 adds the jobs up"),
    known("readahead", "bytes that the kernel reads ahead on the device"),
    known("random_distribution", "which blocks are taken, such as zipf:1.1"),
    known(
        "spin",
        "how long Linerate's initiator, or the bare loop's, looks for an answer before it sleeps, such as 50us",
    ),
    known("bssplit", "mix of sizes, such as 6k/50:8k/50"),
    known("rate_iops_per_job", "closed-loop limit of each job"),
];

/// Options of a job file's second section, the log of a database, written `log_NAME`.
pub const LOG: &[Known] = &[
    known("log_rw", "pattern of the log"),
    known("log_bssplit", "sizes of the log's writes"),
    known("log_iodepth", "log writes under way"),
    known("log_numjobs", "logs"),
    known("log_size", "bytes of each log"),
    known("log_fsync", "flush after so many log writes"),
    known("log_thinktime", "microseconds between two log writes of a job"),
    known("log_rate_iops", "log writes of a job that are started in a second"),
];

/// iperf3's.
pub const IPERF3: &[Known] = &[
    known("bs", "bytes of each send (iperf3 -l)"),
    known("threads", "streams (iperf3 -P)"),
    known("direction", "uni (toward the target), reverse or bidi"),
    known("window", "socket buffer (iperf3 -w)"),
];

/// dd's.
pub const DD: &[Known] = &[
    known("bs", "bytes of a write"),
    known("count", "writes of each stream; the lab stops at the runtime"),
    known("streams", "dd processes, each on a file of its own"),
    known("oflag", "none (page cache) or direct"),
    known("conv", "none or fsync"),
    known("size", "bytes of each file"),
];

/// pgbench's.
pub const PGBENCH: &[Known] = &[
    known("client", "connections (pgbench -c)"),
    known("jobs", "threads of pgbench (-j)"),
    known("scale", "size of the database: 100,000 accounts each (-s)"),
    known("protocol", "simple, extended or prepared (-M)"),
    known("builtin", "tpcb-like, simple-update or select-only (-b)"),
    known("shared_buffers", "PostgreSQL's cache"),
    known("synchronous_commit", "on: a commit waits for its log write"),
];

/// The names that scenarios of a tool may use besides [`LAB`].
pub const fn of_tool(tool: ToolKind) -> &'static [&'static [Known]] {
    match tool {
        ToolKind::Fio | ToolKind::Diskspd | ToolKind::Vmfleet => &[FIO, LOG],
        ToolKind::Iperf3 => &[IPERF3],
        ToolKind::Dd => &[DD],
        ToolKind::Pgbench => &[PGBENCH],
        ToolKind::FirstIo => &[],
        ToolKind::Analysis => &[FIO, PGBENCH],
    }
}

/// What a name means to a tool; `None` when it means nothing.
pub fn find(tool: ToolKind, name: &str) -> Option<&'static Known> {
    of_tool(tool).iter().copied().flatten().chain(LAB).find(|known| known.name == name)
}

/// Every name that a tool's scenarios may use, for a message.
pub fn names(tool: ToolKind) -> String {
    let all: Vec<&str> = of_tool(tool).iter().copied().flatten().chain(LAB).map(|known| known.name).collect();
    all.join(", ")
}
