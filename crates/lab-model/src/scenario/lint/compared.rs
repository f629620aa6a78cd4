//! Like with like: arms differ in what the scenario compares, and in nothing else.
//!
//! A load generator inside the initiator against fio, a socket and an adapter gave 17.5 times where the same fio gave 2.6 times: the
//! ratio was true and its name was wrong. So a scenario says what it compares, and every other difference between arms that a claim
//! or a figure sets against each other is refused.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use crate::claims::grammar::Test;
use crate::scenario::{Arm, Aspect, Initiator, Scenario, Target, ToolKind};

/// What is wrong with what is set against each other.
pub(super) fn findings(scenario: &Scenario) -> Vec<Finding> {
    let declared: BTreeSet<Aspect> = scenario.compares.iter().copied().collect();
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for (one, other) in pairs(scenario) {
        for difference in differences(scenario, one, other) {
            seen.insert(difference.aspect);
            if !declared.contains(&difference.aspect) {
                findings
                    .push(Finding::new(format!("arms {} and {}", one.key, other.key), difference.sentence()));
            }
        }
    }
    for aspect in declared.difference(&seen) {
        let message = format!("{} is compared, and no two arms differ in it", aspect.name());
        findings.push(Finding::new("compares", message));
    }
    findings
}

/// Something in which two arms differ.
struct Difference {
    aspect: Aspect,
    one: String,
    other: String,
}

impl Difference {
    fn sentence(&self) -> String {
        let Self { aspect, one, other } = self;
        format!("they differ in {} ({one}, {other}), which `compares` does not name", aspect.name())
    }
}

/// Arms that a figure sets against each other, the first against each of the others, and those that claims do.
fn pairs(scenario: &Scenario) -> Vec<(&Arm, &Arm)> {
    let Some((first, others)) = scenario.arms.split_first() else { return Vec::new() };
    let mut pairs: Vec<(&Arm, &Arm)> = others.iter().map(|other| (first, other)).collect();
    for claim in &scenario.claims {
        let Some(test) = claim.test.as_deref().and_then(|test| Test::parse(test).ok()) else { continue };
        let named = test.arms();
        let arms: Vec<&Arm> = scenario.arms.iter().filter(|arm| named.contains(arm.key.as_str())).collect();
        for (place, one) in arms.iter().enumerate() {
            for other in arms.iter().skip(place + 1) {
                if !pairs.iter().any(|(a, b)| a.key == one.key && b.key == other.key) {
                    pairs.push((one, other));
                }
            }
        }
    }
    pairs
}

fn differences(scenario: &Scenario, one: &Arm, other: &Arm) -> Vec<Difference> {
    let (of_one, of_other) = (aspects(scenario, one), aspects(scenario, other));
    let mut differences = Vec::new();
    for (aspect, value) in &of_one {
        if let Some(theirs) = of_other.get(aspect).filter(|theirs| *theirs != value) {
            differences.push(Difference { aspect: *aspect, one: value.clone(), other: theirs.clone() });
        }
    }
    differences
}

/// What an arm is made of.
fn aspects(scenario: &Scenario, arm: &Arm) -> BTreeMap<Aspect, String> {
    let settings: Vec<String> = arm.with.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let all = [
        (Aspect::LoadGenerator, load_generator(scenario.workload.tool, arm.initiator).to_owned()),
        (Aspect::Hops, hops(arm.initiator).to_owned()),
        (Aspect::Initiator, initiator(arm.initiator).to_owned()),
        (Aspect::Protocol, protocol(arm).to_owned()),
        (Aspect::Target, target(arm.target).to_owned()),
        (Aspect::Settings, if settings.is_empty() { "none".to_owned() } else { settings.join(", ") }),
    ];
    all.into_iter().collect()
}

const fn load_generator(tool: ToolKind, initiator: Initiator) -> &'static str {
    match (tool, initiator) {
        (ToolKind::Fio, Initiator::Linerate | Initiator::Local) => "linerate bench",
        (ToolKind::Fio, Initiator::LibiscsiPerf) => "iscsi-perf",
        (ToolKind::Fio, Initiator::BareLoop) => "bareloop",
        (ToolKind::Fio, Initiator::Stream) | (ToolKind::Iperf3, _) => "iperf3",
        (ToolKind::Fio, _) | (ToolKind::FirstIo, Initiator::LinerateFio | Initiator::LibiscsiFio) => "fio",
        (ToolKind::Dd, _) => "dd",
        (ToolKind::Pgbench, _) => "pgbench",
        (ToolKind::FirstIo, Initiator::Linerate | Initiator::Local) => "linerate check",
        (ToolKind::FirstIo, _) => "qemu-io",
        (ToolKind::Vmfleet | ToolKind::Diskspd, _) => "DiskSpd",
        (ToolKind::Analysis, _) => "none",
    }
}

/// What an I/O passes between the load generator and the protocol.
const fn hops(initiator: Initiator) -> &'static str {
    match initiator {
        Initiator::LinerateNbd | Initiator::LibiscsiNbd | Initiator::QemuNbd | Initiator::NbdkitNbd => {
            "NBD to an adapter"
        }
        Initiator::LinerateFuse | Initiator::LibiscsiFuse | Initiator::Libnfs => "FUSE to an adapter",
        Initiator::LinerateVhostUser | Initiator::LibiscsiVhostUser => "shared memory with an adapter",
        Initiator::Site => "the kernel",
        _ => "none",
    }
}

const fn initiator(initiator: Initiator) -> &'static str {
    match initiator {
        Initiator::Linerate
        | Initiator::LinerateFio
        | Initiator::LinerateNbd
        | Initiator::LinerateFuse
        | Initiator::LinerateVhostUser => "Linerate",
        Initiator::LibiscsiPerf
        | Initiator::LibiscsiFio
        | Initiator::LibiscsiNbd
        | Initiator::LibiscsiFuse
        | Initiator::LibiscsiVhostUser => "libiscsi",
        Initiator::QemuNbd => "QEMU",
        Initiator::NbdkitNbd => "nbdkit",
        Initiator::Libnfs => "libnfs",
        Initiator::Local => "no network",
        Initiator::Site => "the site's",
        Initiator::Stream => "a stream",
        Initiator::BareLoop => "a bare loop",
        Initiator::Imported => "imported",
    }
}

const fn protocol(arm: &Arm) -> &'static str {
    match arm.target {
        Target::LinerateIscsi | Target::Tgt => "iSCSI",
        Target::LinerateNvme => "NVMe/TCP",
        Target::LinerateIser => "iSER over iWARP",
        Target::LinerateIserRoce => "iSER over RoCE",
        Target::LinerateNvmeRdma => "NVMe/RDMA over iWARP",
        Target::LinerateNvmeRoce => "NVMe/RDMA over RoCE",
        Target::Nbdkit => "NBD",
        Target::LinerateNfs | Target::Ganesha => "NFS",
        Target::LinerateNfsRdma => "NFS/RDMA over iWARP",
        Target::Stream | Target::BareLoop => "TCP",
        Target::None => "none",
        Target::Site => "the site's",
    }
}

const fn target(target: Target) -> &'static str {
    match target {
        Target::Tgt => "tgt",
        Target::Nbdkit => "nbdkit",
        Target::Ganesha => "nfs-ganesha",
        Target::Stream => "iperf3",
        Target::BareLoop => "a bare loop",
        Target::None => "none",
        Target::Site => "the site's",
        _ => "Linerate",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(compares: &str, second: &str) -> Vec<String> {
        let text = format!(
            "id='f.n'\ntitle='t'\nquestion='q'\ncompares={compares}\nsource={{publication='p'}}\n[workload]\ntool='fio'\n\
             [[arm]]\nkey='A'\nname='a'\ninitiator='linerate'\ntarget='tgt'\nevidence={{kind='real'}}\n\
             [[arm]]\nkey='B'\nname='b'\nevidence={{kind='real'}}\n{second}\n"
        );
        findings(&toml::from_str(&text).unwrap()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_difference_in_hops_or_load_generator_is_named_and_refused() {
        let found = found("['initiator']", "initiator='libiscsi-nbd'\ntarget='tgt'");
        assert_eq!(
            found,
            [
                "arms A and B: they differ in the load generator (linerate bench, fio), which `compares` does not name",
                "arms A and B: they differ in the hops of an I/O (none, NBD to an adapter), which `compares` does not name",
            ]
        );
    }

    #[test]
    fn a_second_change_is_named_and_refused() {
        let found = found("['target']", "initiator='linerate'\ntarget='linerate-nvme'\nwith={cores='2'}");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("the protocol (iSCSI, NVMe/TCP)"), "{found:?}");
        assert!(found[1].contains("settings (none, cores = 2)"), "{found:?}");
    }

    #[test]
    fn what_is_compared_and_the_same_is_refused_too() {
        assert_eq!(
            found("['target']", "initiator='linerate'\ntarget='linerate-iscsi'"),
            Vec::<String>::new()
        );
        let found = found("['target', 'hops']", "initiator='linerate'\ntarget='linerate-iscsi'");
        assert_eq!(found, ["compares: the hops of an I/O is compared, and no two arms differ in it"]);
    }
}
