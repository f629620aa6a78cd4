//! Scenario files: one experiment of a publication, complete, as TOML.
//!
//! A scenario says what was measured and what is measured here in its place, never on which machine: hosts and devices
//! stand in a *site* file (the runner's), so that the same scenario runs on a laptop and on a rack. fio's options keep
//! fio's names and values, word for word.

pub mod calibration;
pub mod catalogue;
pub mod describe;
pub mod duration;
pub mod feasibility;
pub mod lint;
pub mod needs;
pub mod options;
pub mod place;
pub mod primary;
pub mod sweep;
pub mod topology;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::evidence::Evidence;

/// One experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// `FAMILY.NAME`, as in `scenarios/FAMILY/NAME.toml`.
    pub id: String,
    /// One line for a list.
    pub title: String,
    /// What the experiment asks, in a sentence or two.
    pub question: String,
    /// Where it comes from.
    pub source: Source,
    /// The systems that the publication compared.
    #[serde(default, rename = "system")]
    pub systems: Vec<System>,
    /// What is compared here. Empty when nothing can be run here; `missing` then says why.
    #[serde(default, rename = "arm")]
    pub arms: Vec<Arm>,
    /// In what arms differ; whatever else they differ in is refused. Each names a suspect for every ratio, so one is best.
    #[serde(default)]
    pub compares: Vec<Aspect>,
    /// What would be needed to run what has no arm here: hardware, systems, or parts of Linerate.
    #[serde(default)]
    pub missing: Vec<String>,
    /// Initiators, targets, volumes and the link.
    #[serde(default)]
    pub topology: Topology,
    /// The load.
    pub workload: Workload,
    /// How it is found what each arm does at most, where loads are shares of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// What is varied, outermost first.
    #[serde(default, rename = "sweep")]
    pub sweep: Vec<Axis>,
    /// Repetitions and time.
    #[serde(default)]
    pub design: Design,
    /// What is smaller here than it was, and what that does to the figures.
    #[serde(default, rename = "scale")]
    pub scales: Vec<Scale>,
    /// The figures and tables of the report.
    #[serde(default, rename = "figure")]
    pub figures: Vec<Figure>,
    /// The publication's own numbers, shown in a panel of their own.
    #[serde(default, rename = "published")]
    pub published: Vec<Published>,
    /// Headline claims, each tested by itself.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
    /// Traps of the publication that the report must point out: one of [`lint::TRAPS`], a colon, and how it shows there.
    #[serde(default)]
    pub traps: Vec<String>,
}

/// Something in which arms may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Aspect {
    /// What makes the I/Os and counts them.
    LoadGenerator,
    /// What an I/O passes between the load generator and the protocol.
    Hops,
    /// Whose initiator speaks.
    Initiator,
    /// What is spoken.
    Protocol,
    /// Whose target answers.
    Target,
    /// The arms' own `with`.
    Settings,
}

impl Aspect {
    /// In a sentence.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LoadGenerator => "the load generator",
            Self::Hops => "the hops of an I/O",
            Self::Initiator => "the initiator",
            Self::Protocol => "the protocol",
            Self::Target => "the target",
            Self::Settings => "settings",
        }
    }
}

/// How it is found what an arm does at most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Settings of the closed loop that finds it, in place of the point's own, such as `iodepth = "128"`.
    #[serde(default)]
    pub with: BTreeMap<String, String>,
    /// The arm of whose I/Os per second all arms get a share; each arm's own when absent.
    #[serde(default)]
    pub of: Option<String>,
    /// Runs of each, of which the median counts; at least 1.
    #[serde(default = "usual_runs")]
    pub runs: u32,
}

const fn usual_runs() -> u32 {
    3
}

/// Where an experiment comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The publication.
    pub publication: String,
    /// Which part of it.
    #[serde(default)]
    pub part: Option<String>,
    /// What the publication does not say or what did not survive.
    #[serde(default)]
    pub lost: Vec<String>,
    /// What is read into it here.
    #[serde(default)]
    pub inferred: Vec<String>,
    /// Machines, versions and settings as published.
    #[serde(default)]
    pub environment: Vec<String>,
}

impl Source {
    /// Whether it is an experiment of our own, with claims of our own.
    pub fn is_own(&self) -> bool {
        self.publication == "Linerate"
    }
}

/// A system that the publication measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Its letter there, such as `A`.
    pub key: String,
    /// What it was.
    pub name: String,
}

/// What one side of a comparison here consists of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// One letter; ratios are A over B.
    pub key: String,
    /// What it is here, such as `linerate initiator`; never what it stands for.
    pub name: String,
    /// What puts the load on and speaks the protocol on the host.
    pub initiator: Initiator,
    /// What serves.
    pub target: Target,
    /// Which published system it takes the place of, if any.
    #[serde(default)]
    pub stands_for: Option<String>,
    /// The label of its figures.
    pub evidence: Evidence,
    /// Settings that differ from the scenario's: any sweep axis or workload option, such as `link = "1Gbit"`.
    #[serde(default)]
    pub with: BTreeMap<String, String>,
}

/// What speaks for the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Initiator {
    /// Linerate's own initiator or host, driven by `linerate bench`.
    Linerate,
    /// Linerate's own initiator or host inside fio, as an engine of fio's.
    LinerateFio,
    /// Linerate's software adapter, `linerate attach`, which hands fio an NBD socket.
    LinerateNbd,
    /// Linerate's software adapter, which hands a file through FUSE.
    LinerateFuse,
    /// Linerate's software adapter, which fio reaches through shared memory (vhost-user) by Linerate's engine.
    LinerateVhostUser,
    /// libiscsi, driven by `iscsi-perf`, which reads only.
    LibiscsiPerf,
    /// libiscsi inside fio, as fio's own engine.
    LibiscsiFio,
    /// libiscsi inside `qemu-storage-daemon`, which hands fio an NBD socket.
    LibiscsiNbd,
    /// libiscsi inside `qemu-storage-daemon`, which hands a file through FUSE.
    LibiscsiFuse,
    /// libiscsi inside `qemu-storage-daemon`, which fio reaches through shared memory (vhost-user) by Linerate's engine.
    LibiscsiVhostUser,
    /// `qemu-storage-daemon` on a local volume, which hands fio an NBD socket: nothing but the adapter.
    QemuNbd,
    /// nbdkit on a local volume, which hands fio an NBD socket: nothing but the adapter.
    NbdkitNbd,
    /// The file or device itself: no network.
    Local,
    /// A kernel client's mount or device that the site names.
    Site,
    /// libnfs inside `qemu-storage-daemon`, which hands a file through FUSE.
    Libnfs,
    /// A plain TCP stream (iperf3).
    Stream,
    /// The bare loop: requests and answers over TCP without any protocol.
    BareLoop,
    /// The tools of an imported log.
    Imported,
}

/// What serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// Linerate over iSCSI.
    LinerateIscsi,
    /// Linerate over NVMe/TCP.
    LinerateNvme,
    /// Linerate over iSER on software iWARP.
    LinerateIser,
    /// Linerate over iSER on software RoCEv2.
    LinerateIserRoce,
    /// Linerate over NVMe/RDMA on software iWARP.
    LinerateNvmeRdma,
    /// Linerate over NVMe/RDMA on software RoCEv2.
    LinerateNvmeRoce,
    /// Linerate over NFS: a share with a file for each volume.
    LinerateNfs,
    /// The same over NFS/RDMA on software iWARP.
    LinerateNfsRdma,
    /// tgt over iSCSI.
    Tgt,
    /// nbdkit.
    Nbdkit,
    /// nfs-ganesha.
    Ganesha,
    /// iperf3's server.
    Stream,
    /// The bare loop's server.
    BareLoop,
    /// Nothing: the volume is local.
    None,
    /// What the site names.
    Site,
}

/// Initiators, targets, volumes and the link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Topology {
    /// Initiating hosts, each in a network namespace of its own when the link is not loopback.
    pub initiators: u32,
    /// Targets in all, spread over the initiators.
    pub targets: u32,
    /// Logical units or namespaces of each target.
    pub luns: u32,
    /// How many of the initiating hosts hold each block. Where it is not 0 they are the nodes of a cluster: each stores a part of every volume, uses its
    /// share of the volumes as mirrors of all nodes' parts, and no host is a target alone. `volume` is then what each part is.
    #[serde(skip_serializing_if = "is_none")]
    pub copies: u32,
    /// The volume of each, as a URL in which `{n}` is its number: `null:600M`, `ram:64M`, `file:{folder}/{n}.img?size=64M`.
    pub volume: String,
    /// The link between hosts.
    pub link: Link,
    /// Where the target runs: `other` core than the initiator's, or the `same`.
    pub placement: Placement,
    /// Event loops of Linerate's target. More than the target has processors for run on the host's as well.
    #[serde(skip_serializing_if = "is_one")]
    pub cores: u32,
    /// How long the target of Linerate's, or of the bare loop, looks for work before it sleeps, such as `50us`; as it does by default where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_spin: Option<String>,
    /// Whether Linerate's initiator asks its target for header and data digests, or over software iWARP for CRCs.
    #[serde(skip_serializing_if = "is_off")]
    pub digests: bool,
    /// Where the process runs that speaks the protocol for the host.
    #[serde(skip_serializing_if = "AdapterCore::is_usual")]
    pub adapter: AdapterCore,
    /// What else uses the link while a load is measured.
    #[serde(skip_serializing_if = "Neighbour::is_none")]
    pub neighbour: Neighbour,
    /// Whether each measurement begins with an arm that was built and filled just before, so that nothing is in its caches that an earlier load left
    /// there. Its rate may then change over the window.
    #[serde(skip_serializing_if = "is_off")]
    pub anew: bool,
}

/// Whether a target is as usual.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_one(cores: &u32) -> bool {
    *cores == 1
}

/// Whether there are none.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_none(count: &u32) -> bool {
    *count == 0
}

/// Whether nothing was asked for.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_off(asked: &bool) -> bool {
    !*asked
}

/// Other loads on the same link, in the same direction as the measured one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Neighbour {
    /// Nothing.
    #[default]
    None,
    /// One TCP stream (iperf3).
    Stream,
    /// 64 KiB I/Os, 16 under way, over iSCSI from Linerate's target to its initiator.
    Iscsi,
    /// The same over NVMe/TCP.
    Nvme,
    /// The same over NFS, from a file in memory.
    Nfs,
    /// All of these at once.
    All,
}

impl Neighbour {
    /// The loads, one by one.
    pub const fn each(self) -> &'static [Self] {
        match self {
            Self::None => &[],
            Self::Stream => &[Self::Stream],
            Self::Iscsi => &[Self::Iscsi],
            Self::Nvme => &[Self::Nvme],
            Self::Nfs => &[Self::Nfs],
            Self::All => &[Self::Stream, Self::Iscsi, Self::Nvme, Self::Nfs],
        }
    }

    /// As scenarios write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Stream => "stream",
            Self::Iscsi => "iscsi",
            Self::Nvme => "nvme",
            Self::Nfs => "nfs",
            Self::All => "all",
        }
    }

    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }
}

impl Default for Topology {
    fn default() -> Self {
        Self {
            initiators: 1,
            targets: 1,
            luns: 1,
            copies: 0,
            volume: "null:1G".to_owned(),
            link: Link::default(),
            placement: Placement::Other,
            cores: 1,
            target_spin: None,
            digests: false,
            adapter: AdapterCore::Usual,
            neighbour: Neighbour::None,
            anew: false,
        }
    }
}

/// Which core the target gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Not the initiator's.
    Other,
    /// The initiator's.
    Same,
}

/// Which core an adapter gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AdapterCore {
    /// One of its own where there is a third, else the host's.
    #[default]
    Usual,
    /// Never the host's: one of its own where there is a third, else the target's.
    Apart,
}

impl AdapterCore {
    /// Whether it is the usual one.
    pub fn is_usual(&self) -> bool {
        *self == Self::Usual
    }
}

/// A link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Link {
    /// What carries the packets.
    pub kind: LinkKind,
    /// Bytes of payload of an Ethernet frame; ignored on loopback.
    pub mtu: u32,
    /// The rate it is shaped to, such as `5Gbit`; unshaped when absent.
    pub rate: Option<String>,
    /// Delay that it adds in each direction, such as `100us`; needs `sch_netem`.
    pub delay: Option<String>,
    /// Share of the packets that it drops, such as `0.1%`; needs nftables, or `sch_netem` where it delays or reorders too.
    pub loss: Option<String>,
    /// Share of the packets that overtake others, such as `1%`; needs `sch_netem` and a delay.
    pub reorder: Option<String>,
    /// What is between initiator and target.
    pub gateway: Gateway,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            kind: LinkKind::Loopback,
            mtu: 1500,
            rate: None,
            delay: None,
            loss: None,
            reorder: None,
            gateway: Gateway::None,
        }
    }
}

/// What is between initiator and target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Gateway {
    /// Nothing: they share a link.
    #[default]
    None,
    /// A router that translates addresses: the target sees the router's instead of the initiator's. Needs nftables.
    Nat,
}

/// What carries the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LinkKind {
    /// 127.0.0.1, whose MTU of 65536 hides the cost of packets.
    Loopback,
    /// A veth pair between network namespaces; needs root.
    Veth,
    /// What the site has.
    Physical,
}

/// The load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Which tool puts it on.
    pub tool: ToolKind,
    /// The tool's options by their own names, such as `iodepth = "64"`. A sweep axis of the same name takes their place.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// Sets of options with a name each, for an axis `job` whose values are those names.
    #[serde(default)]
    pub jobs: BTreeMap<String, BTreeMap<String, String>>,
    /// The publication's own command line, where it has one.
    #[serde(default)]
    pub published_command: Option<String>,
}

/// Tools that put load on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolKind {
    /// Block I/O: fio, or the initiator's own load generator with fio's options.
    Fio,
    /// TCP streams.
    Iperf3,
    /// Sequential file I/O.
    Dd,
    /// PostgreSQL under pgbench.
    Pgbench,
    /// One block, written, read back and compared, and the time until then from an arm of which nothing is set up.
    #[serde(rename = "first-io")]
    FirstIo,
    /// `DiskSpd` in virtual machines: imported only.
    Vmfleet,
    /// `DiskSpd`: imported only.
    Diskspd,
    /// No load: the scenario computes from others' results.
    Analysis,
}

/// What is varied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// A workload option (`bs`, `rw`, `iodepth`, `numjobs`, `rwmixread`), or one of the lab's own ([`options::LAB`]), such
    /// as `link`, `mtu`, `volumes`, `placement`, `job`.
    pub axis: String,
    /// Its values, in order.
    pub values: Vec<String>,
    /// The values that the `quick` budget takes; all when empty.
    #[serde(default)]
    pub quick: Vec<String>,
    /// True when the publication's own list did not survive and this one is read into it.
    #[serde(default)]
    pub inferred: bool,
}

/// Repetitions and time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Design {
    /// Pairs that every point gets.
    pub min_pairs: u32,
    /// Pairs at which a point ends in any case.
    pub max_pairs: u32,
    /// A point ends when the interval of its ratio is narrower than this share to either side, such as 0.05.
    pub half_width: f64,
    /// Seconds before the window.
    pub ramp: f64,
    /// Seconds of the window.
    pub runtime: f64,
}

impl Default for Design {
    fn default() -> Self {
        Self { min_pairs: 5, max_pairs: 12, half_width: 0.05, ramp: 0.5, runtime: 2.0 }
    }
}

/// Something that is smaller here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// What: `link`, `volume size`, `runtime`, `databases`.
    pub what: String,
    /// As published.
    pub published: String,
    /// Here.
    pub here: String,
    /// What survives the scaling and what does not.
    pub effect: String,
}

/// A figure or table of the report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Unique within the scenario; the CSV's name.
    pub id: String,
    /// As published where the title survived.
    pub title: String,
    /// How it is drawn.
    pub kind: FigureKind,
    /// The axis of the sweep along x; `time` or `latency` for series and histograms.
    #[serde(default)]
    pub x: Option<String>,
    /// What is drawn along y.
    pub y: Vec<Metric>,
    /// Further axes that make a series each, beside the arms.
    #[serde(default)]
    pub series: Vec<String>,
    /// Only points at which these axes have these values, or numbers in such a range as `4k..`.
    #[serde(default)]
    pub at: BTreeMap<String, String>,
    /// Draw a rule at the link's payload rate.
    #[serde(default)]
    pub line_rate: bool,
    /// The title is not the publication's own.
    #[serde(default)]
    pub title_lost: bool,
}

/// How a figure is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    /// Grouped bars from zero, with error bars.
    Bars,
    /// Lines with error bars.
    Lines,
    /// Two metrics with an axis each.
    DualAxis,
    /// A metric over the seconds of the window.
    OverTime,
    /// Latency histogram.
    Histogram,
    /// The same, up to its 99th percentile.
    HistogramZoom,
    /// Stacked parts of a whole.
    Stacked,
    /// Latency against load.
    Hockey,
    /// A table.
    Table,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// I/Os per second.
    Iops,
    /// Bytes per second.
    Bandwidth,
    /// Mean latency, ns.
    LatencyMean,
    /// Least latency, ns.
    LatencyMin,
    /// Median latency, ns.
    LatencyP50,
    /// 95th percentile, ns.
    LatencyP95,
    /// 99th percentile, ns.
    LatencyP99,
    /// 99.9th percentile, ns.
    LatencyP999,
    /// 99.99th percentile, ns.
    LatencyP9999,
    /// Most, ns.
    LatencyMax,
    /// Median latency of reads alone, ns.
    LatencyRead,
    /// Median latency of writes alone, ns.
    LatencyWrite,
    /// Mean latency of reads alone, ns.
    LatencyReadMean,
    /// Mean latency of the writes of a second section, a database's log, ns.
    LatencyLog,
    /// Mean latency of the reads of the volume's block device, ns.
    VolumeRead,
    /// Mean latency of the writes of the volume's block device, ns.
    VolumeWrite,
    /// The host's processor time, per cent of the machine.
    CpuHost,
    /// The adapter's.
    CpuAdapter,
    /// The target's.
    CpuTarget,
    /// IOPS per 1 % of the host's processor time.
    EffectivenessIops,
    /// MB/s per 1 % of the host's processor time.
    EffectivenessBandwidth,
    /// IOPS per 1 % of the processor time of the host and of the adapter.
    EffectivenessWithAdapter,
    /// Transactions per second per 1 % of the host's processor time.
    EffectivenessTransactions,
    /// Microseconds of the host's processor time per I/O.
    CpuPerIo,
    /// Microseconds of the target's processor time per I/O.
    CpuTargetPerIo,
    /// Seconds of the host's processor time per GiB.
    CpuPerGib,
    /// Transactions per second.
    Transactions,
    /// Per cent of the link's payload rate, in the busier direction.
    LineRate,
    /// Per cent of the link's payload rate in the lesser direction: what both directions reach at once.
    LineRateBoth,
    /// Latency beyond the local arm's, ns.
    AddedLatency,
    /// Bytes per second of the other loads on the link, together.
    NeighbourBandwidth,
    /// Most resident memory of the host's side, bytes.
    MemoryHost,
    /// I/Os per second for each unit of the site's currency.
    IopsPerPrice,
    /// Bytes per second for each unit of the site's currency.
    BandwidthPerPrice,
    /// From programs that are installed and nothing else to the first I/O that was verified, ns.
    FirstIo,
    /// The part of it until the target serves, ns.
    ReadyTarget,
    /// The part of it that the initiator then takes until the volume can be used, ns.
    ReadyInitiator,
    /// Per cent of the reads of the target's cache volumes that the fast volume answered, ramp and window together.
    HitRate,
    /// Bytes of which the fast volumes have the only copy when the load has ended.
    DirtyBytes,
    /// Bytes that crossed the link, in both directions and with their headers, for each byte that the load read or wrote.
    WirePerByte,
    /// Per cent of what nodes of a cluster exchanged, of a load that only reads, that stayed on the node: what it read of its own parts.
    LocalReads,
    /// Seconds of all sides' processor time per GiB: host, adapter and target.
    CpuAllPerGib,
}

/// Numbers of the publication.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// What the table shows.
    pub title: String,
    /// Heads of the columns after the first.
    #[serde(default)]
    pub columns: Vec<String>,
    /// Rows: a label, then a value for each column, as published.
    #[serde(default)]
    pub rows: Vec<PublishedRow>,
    /// Unit of the values.
    #[serde(default)]
    pub unit: Option<String>,
    /// `published`, `derived`, `inferred` or `lost`.
    pub status: PublishedStatus,
    /// A remark.
    #[serde(default)]
    pub note: Option<String>,
}

/// A row of published numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedRow {
    /// What the row is.
    pub label: String,
    /// As published, text where it is text.
    pub values: Vec<String>,
}

/// How sure published numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PublishedStatus {
    /// Stated there.
    Published,
    /// Computed from its numbers.
    Derived,
    /// A reading of it.
    Inferred,
    /// It existed; the values are not known.
    Lost,
}

/// A headline of the publication.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Unique within the scenario.
    pub id: String,
    /// The claim in short.
    pub text: String,
    /// When it holds, such as `iops(A) / iops(B) >= 2.13` (`docs/howto/lab.md` has the grammar). Absent: not testable by numbers.
    #[serde(default)]
    pub test: Option<String>,
    /// At which points: axis and value, or a range of numbers such as `4k..` or `2k..1m`. Every point when empty.
    #[serde(default)]
    pub at: BTreeMap<String, String>,
    /// What must be true of the site for the verdict to speak of the claim itself, such as `offload adapter`.
    #[serde(default)]
    pub needs: Vec<String>,
    /// What a verdict without `needs` would speak of instead; without this the claim is `not testable here`.
    #[serde(default)]
    pub here: Option<String>,
    /// Added or corrected by arithmetic, such as `2.86, not 3`.
    #[serde(default)]
    pub derived: Option<String>,
    /// A reading of the claim that its own words do not settle, such as `usually: at four of five sizes`.
    #[serde(default)]
    pub inferred: Option<String>,
    /// One of the few whose verdicts the report stands for; the others are exploratory ([`primary`]).
    #[serde(default, skip_serializing_if = "is_exploratory")]
    pub primary: bool,
}

/// Whether a claim is not primary.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_exploratory(primary: &bool) -> bool {
    !*primary
}
