//! What a claim, an arm or a point needs that not every machine has, and a precise sentence for what is missing.
//!
//! Nothing is faked: what a machine or this version lacks is named when the scenario is shown, planned or run. What can be
//! seen on the machine is looked for; what cannot (an offload adapter, a second host) the site file declares.

use std::collections::{BTreeMap, BTreeSet};

use super::{Arm, Gateway, Initiator, LinkKind, Neighbour, Scenario, Target, sweep, topology};
use crate::result::Coordinate;

/// Something that a scenario may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// As claims write it under `needs`, and as a site declares it.
    pub name: &'static str,
    /// What is missing where it is not there, and what would mend that.
    pub missing: &'static str,
}

const fn need(name: &'static str, missing: &'static str) -> Need {
    Need { name, missing }
}

/// Everything that may be needed.
pub const NEEDS: &[Need] = &[
    need(
        "offload adapter",
        "an adapter that takes the storage protocol off the host; a site file that has one declares it",
    ),
    need("10GbE", "a network link of 10 Gbit/s; no interface here says that it has one"),
    need("25GbE", "a network link of 25 Gbit/s; no interface here says that it has one"),
    need("40GbE", "a network link of 40 Gbit/s; no interface here says that it has one"),
    need("100GbE", "a network link of 100 Gbit/s; no interface here says that it has one"),
    need("infiniband", "an InfiniBand FDR adapter on both hosts"),
    need("rdma adapter", "an adapter with RDMA: /sys/class/infiniband is empty"),
    need("two hosts", "a second host; a site file names it, with `linerate lab agent` running there"),
    need(
        "direct cable",
        "a cable between two hosts with no switch on the way; a site file that has one declares it",
    ),
    need(
        "switch",
        "a second way between the two hosts, through a switch; a site file that has one declares it",
    ),
    need(
        "long cable",
        "two cables of different lengths between the two hosts, of which the longer is a data center's; a site file that has them declares it",
    ),
    need(
        "four nodes",
        "four hosts for the cluster; a site file names them, with `linerate lab agent` on each",
    ),
    need("8 NVMe drives", "eight NVMe drives behind the target; a site file names them"),
    need("24 NVMe drives", "24 NVMe drives behind the target; a site file names them"),
    need("10 NVMe drives", "ten NVMe drives behind the target; a site file names them"),
    need("4 NVMe drives", "four NVMe drives behind the target; a site file names them"),
    need("2 NVMe drives", "two NVMe drives behind the target; a site file names them"),
    need("NVMe drive", "an NVMe drive behind the target; a site file names it"),
    need(
        "two sockets",
        "a machine with two processors, so that adapter and drives can sit on different ones",
    ),
    need(
        "windows",
        "Windows on the initiating host; results of its tools can be read with `linerate lab import`",
    ),
    need("SQL Server", "Microsoft SQL Server 2016 and its load generator"),
    need("Jetstress", "Exchange Jetstress 2013; its report can be read with `linerate lab import jetstress`"),
    need("kernel iSCSI initiator", "the kernel's iSCSI initiator: load iscsi_tcp and install open-iscsi"),
    need("kernel NVMe/TCP host", "the kernel's NVMe/TCP host: load nvme_tcp and install nvme-cli"),
    need("kernel NFS client", "the kernel's NFS client: /proc/filesystems lists no nfs"),
    need(
        "own port mapper",
        "a port mapper that is nobody else's, which NFSv3 needs: give the scenario a link between namespaces (veth)",
    ),
    need("knfsd over RDMA", "the kernel's NFS server and client over RDMA"),
    need(
        "netem",
        "the kernel's sch_netem, which adds delay and reordering to a link: load it, or run in a guest",
    ),
    need("nftables", "nft, which drops packets of a link and translates addresses: install nftables"),
    need(
        "root",
        "root: network namespaces and links are built, and tgt is managed, by root alone; run with sudo",
    ),
    need("fuse", "/dev/fuse and root, to put a file system on a remote volume"),
    need(
        "fio engine",
        "Linerate's engine for fio: conformance/fio/build makes it; or a site file names its folder as `engines`",
    ),
    need(
        "fio libiscsi engine",
        "fio's engine for libiscsi, which Debian's fio lacks: conformance/fio/build libiscsi makes it; or a site file names its folder as `engines`",
    ),
    need("site", "the devices or mounts of a site file: give one with --site"),
    need("import", "the tool's own result files: read them with `linerate lab import`"),
    need("reads alone", "an initiator that writes: iscsi-perf only reads, so its arm is left out of writes"),
    need("iperf3", "iperf3, for the neighbour that is a stream: apt install iperf3"),
    need("energy", "readable energy counters (/sys/class/powercap) or watts in the site file"),
];

/// A need by its name.
pub fn find(name: &str) -> Option<&'static Need> {
    NEEDS.iter().find(|need| need.name == name)
}

/// What is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Present(BTreeSet<String>);

impl Present {
    /// Adds what was found, or what a site declares.
    pub fn add(&mut self, name: &str) {
        self.0.insert(name.to_owned());
    }

    /// Whether it is there.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

/// What an arm needs at a point. Programs are not among it: starting the arm names their packages.
pub fn of_point(scenario: &Scenario, arm: &Arm, point: &[Coordinate]) -> Vec<&'static Need> {
    let mut names = Vec::new();
    if let Ok(topology) = topology::at(scenario, arm, point) {
        match topology.link.kind {
            _ if arm.initiator == Initiator::Local => {}
            LinkKind::Loopback => {}
            LinkKind::Veth => names.push("root"),
            LinkKind::Physical => names.push("two hosts"),
        }
        if topology.neighbour.each().contains(&Neighbour::Stream) {
            names.push("iperf3");
        }
        if topology.link.delay.is_some() || topology.link.reorder.is_some() {
            names.push("netem");
        } else if topology.link.loss.is_some() {
            names.push("nftables");
        }
        if topology.link.gateway == Gateway::Nat && !names.contains(&"nftables") {
            names.push("nftables");
        }
    }
    let settings = sweep::settings(scenario, arm, point);
    match arm.initiator {
        Initiator::LibiscsiPerf if writes(&settings) => names.push("reads alone"),
        Initiator::LibiscsiFuse | Initiator::LinerateFuse => names.push("fuse"),
        Initiator::LinerateFio | Initiator::LinerateVhostUser | Initiator::LibiscsiVhostUser => {
            names.push("fio engine");
        }
        Initiator::LibiscsiFio => names.push("fio libiscsi engine"),
        Initiator::Libnfs => {
            names.push("fuse");
            if topology::at(scenario, arm, point).is_ok_and(|built| built.link.kind == LinkKind::Loopback) {
                names.push("own port mapper");
            }
        }
        Initiator::Site => names.push("site"),
        Initiator::Imported => names.push("import"),
        _ => {}
    }
    if matches!(arm.target, Target::Tgt | Target::Ganesha) && !names.contains(&"root") {
        names.push("root");
    }
    if arm.target == Target::Site && arm.initiator != Initiator::Site {
        names.push("site");
    }
    names.into_iter().filter_map(find).collect()
}

/// Whether a load writes.
pub fn writes(settings: &BTreeMap<String, String>) -> bool {
    settings.get("rw").is_some_and(|rw| !matches!(rw.as_str(), "read" | "randread"))
}

/// What an arm lacks at a point, a sentence each.
pub fn missing_at(
    scenario: &Scenario,
    arm: &Arm,
    point: &[Coordinate],
    present: &Present,
) -> Vec<&'static str> {
    let needs = of_point(scenario, arm, point);
    needs.into_iter().filter(|need| !present.has(need.name)).map(|need| need.missing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(arms: &str) -> Scenario {
        let text = format!(
            "id='f.n'\ntitle='t'\nquestion='q'\nsource={{publication='p'}}\n[workload]\ntool='fio'\n\
             [topology]\nlink={{kind='veth'}}\n[[sweep]]\naxis='loss'\nvalues=['none','1%']\n{arms}"
        );
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn a_point_needs_what_its_settings_take() {
        let arm = "[[arm]]\nkey='A'\nname='a'\ninitiator='linerate'\ntarget='tgt'\nevidence={kind='real'}\n";
        let scenario = scenario(arm);
        let points = sweep::points(&scenario, sweep::Extent::Full);
        let names = |point: usize| -> Vec<&str> {
            of_point(&scenario, &scenario.arms[0], &points[point]).iter().map(|need| need.name).collect()
        };
        assert_eq!(names(0), ["root"]);
        assert_eq!(names(1), ["root", "nftables"]);
        let mut present = Present::default();
        present.add("root");
        let lacks = missing_at(&scenario, &scenario.arms[0], &points[1], &present);
        assert_eq!(lacks.len(), 1);
        assert!(lacks[0].contains("install nftables"), "{lacks:?}");
    }
}
