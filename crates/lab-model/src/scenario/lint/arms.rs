//! Arms: named for what they are, labelled for what they prove, and made of parts that speak to each other.

use names::VolumeUrl;

use super::finding::{Finding, doubles};
use crate::evidence::Evidence;
use crate::scenario::{
    Arm, Gateway, Initiator, LinkKind, Scenario, Target, ToolKind, Topology, needs, options, sweep, topology,
};

/// What is wrong with the arms.
pub(super) fn findings(scenario: &Scenario) -> Vec<Finding> {
    let mut findings = Vec::new();
    for key in doubles(scenario.arms.iter().map(|arm| arm.key.as_str())) {
        findings.push(Finding::new(format!("arm {key}"), "two arms have this key"));
    }
    for name in doubles(scenario.arms.iter().map(|arm| arm.name.as_str())) {
        findings.push(Finding::new(
            format!("arm {name:?}"),
            "two arms have this name; a legend could not tell them apart",
        ));
    }
    match scenario.arms.as_slice() {
        [] if scenario.missing.is_empty() => {
            findings
                .push(Finding::new("arms", "there is none, and `missing` does not say what would be needed"));
        }
        [only] => {
            let message = "one arm is not a comparison; name what it is compared with";
            findings.push(Finding::new(format!("arm {}", only.key), message));
        }
        _ => {}
    }
    for arm in &scenario.arms {
        let messages = [name(arm), parts(scenario, arm), labels(scenario, arm), settings(scenario, arm)];
        let place = format!("arm {}", arm.key);
        findings.extend(messages.into_iter().flatten().map(|message| Finding::new(place.clone(), message)));
    }
    findings
}

fn name(arm: &Arm) -> Vec<String> {
    let mut messages = Vec::new();
    if !(arm.key.len() == 1 && arm.key.chars().all(|c| c.is_ascii_uppercase())) {
        messages.push("its key is not one capital letter".to_owned());
    }
    let site = arm.initiator == Initiator::Site || arm.target == Target::Site;
    if arm.name.to_lowercase().contains("offload") && !site {
        messages.push(
            "it is called offload, but nothing here offloads: name it for what it is, such as \"linerate initiator\""
                .to_owned(),
        );
    }
    messages
}

/// Which initiators can speak to which targets, and under which tools.
fn parts(scenario: &Scenario, arm: &Arm) -> Vec<String> {
    use Target::{Ganesha, LinerateIscsi, Nbdkit, Tgt};
    let speaks = match arm.initiator {
        Initiator::Linerate | Initiator::LinerateFio => {
            is_ours(arm.target) || is_share(arm.target) || matches!(arm.target, Tgt | Ganesha | Target::Site)
        }
        Initiator::LinerateNbd | Initiator::LinerateFuse | Initiator::LinerateVhostUser => {
            is_ours(arm.target)
                || is_share(arm.target)
                || matches!(arm.target, Tgt | Ganesha | Target::Site | Target::None)
        }
        Initiator::QemuNbd | Initiator::NbdkitNbd => arm.target == Target::None,
        Initiator::LibiscsiPerf
        | Initiator::LibiscsiFio
        | Initiator::LibiscsiNbd
        | Initiator::LibiscsiFuse
        | Initiator::LibiscsiVhostUser => {
            matches!(arm.target, LinerateIscsi | Tgt | Target::Site)
        }
        Initiator::Local => matches!(arm.target, Target::None | Nbdkit),
        Initiator::Libnfs => matches!(arm.target, Ganesha | Target::Site),
        Initiator::Stream => arm.target == Target::Stream,
        Initiator::BareLoop => arm.target == Target::BareLoop,
        Initiator::Site | Initiator::Imported => true,
    };
    let mut messages = Vec::new();
    if !speaks {
        messages.push(format!(
            "its initiator ({:?}) cannot speak to its target ({:?})",
            arm.initiator, arm.target
        ));
    }
    let (streams, tool) = (arm.initiator == Initiator::Stream, scenario.workload.tool);
    // Beside fio's block I/O a stream tells what the path can carry.
    if streams != (tool == ToolKind::Iperf3) && !(streams && tool == ToolKind::Fio) {
        messages.push("streams are what iperf3 loads, and iperf3 loads nothing else".to_owned());
    }
    if matches!(scenario.workload.tool, ToolKind::Vmfleet | ToolKind::Diskspd)
        && arm.initiator != Initiator::Imported
    {
        messages.push("its tool runs on Windows only: the arm can be no other than imported".to_owned());
    }
    if arm.initiator == Initiator::LibiscsiPerf && never_reads(scenario, arm) {
        messages.push("iscsi-perf only reads, and the load writes at every point".to_owned());
    }
    messages
}

/// An arm that only reads is left out of points that write; here it would be left out of them all.
fn never_reads(scenario: &Scenario, arm: &Arm) -> bool {
    let points = sweep::points(scenario, sweep::Extent::Full);
    points.iter().all(|point| needs::writes(&sweep::settings(scenario, arm, point)))
}

/// What the label of its figures must say.
fn labels(scenario: &Scenario, arm: &Arm) -> Vec<String> {
    let mut messages = Vec::new();
    if arm.evidence.detail().is_some_and(|detail| detail.trim().is_empty()) {
        messages.push(format!("evidence {:?} without what it means", arm.evidence.label()));
    }
    let shaped = sweep::points(scenario, sweep::Extent::Full)
        .iter()
        .filter_map(|point| topology::at(scenario, arm, point).ok())
        .any(|topology| topology.link.kind == LinkKind::Veth && topology.link.rate.is_some());
    if shaped && arm.initiator != Initiator::Local && arm.evidence == Evidence::Real {
        messages.push(
            "a shaped link stands for another one: its evidence is scaled or emulated, not real".to_owned(),
        );
    }
    let speaks_of_offload =
        scenario.claims.iter().any(|claim| claim.needs.iter().any(|need| need == "offload adapter"));
    let is_software =
        !matches!(arm.initiator, Initiator::Site | Initiator::Imported) && arm.target != Target::Site;
    if speaks_of_offload && is_software && matches!(arm.evidence, Evidence::Real | Evidence::Scaled { .. }) {
        messages.push(format!(
            "a claim speaks of an offload adapter, and software stands in for it: its evidence is emulated, not {}",
            arm.evidence.label()
        ));
    }
    let smaller = matches!(arm.evidence, Evidence::Scaled { .. } | Evidence::Emulated { .. });
    if smaller && scenario.scales.is_empty() {
        messages
            .push("it is scaled or emulated, and no [[scale]] says what that does to the figures".to_owned());
    }
    if let Some(other) = scenario.arms.iter().find(|other| !arm.evidence.comparable(&other.evidence)) {
        messages.push(format!(
            "its figures are {} and those of arm {} are {}: what stood in for a thing is not compared with the thing",
            arm.evidence.label(),
            other.key,
            other.evidence.label()
        ));
    }
    if let Some(key) = &arm.stands_for
        && !scenario.systems.iter().any(|system| system.key == *key)
    {
        messages.push(format!("it stands for {key:?}, and no published system has that key"));
    }
    messages
}

/// Its own settings, and what they make of the topology at every point.
fn settings(scenario: &Scenario, arm: &Arm) -> Vec<String> {
    let mut messages: Vec<String> = arm
        .with
        .keys()
        .filter(|name| options::find(scenario.workload.tool, name).is_none())
        .map(|name| format!("`with` sets {name:?}, which {:?} does not know", scenario.workload.tool))
        .collect();
    for point in sweep::points(scenario, sweep::Extent::Full) {
        match topology::at(scenario, arm, &point) {
            Err(error) => messages.push(format!("{error:#}")),
            Ok(topology) => {
                messages.extend(volume(arm, &topology.volume));
                if scenario.workload.tool == ToolKind::FirstIo && topology.volume.contains("null:") {
                    messages
                        .push("a null volume keeps nothing, so that no first I/O can be verified".to_owned());
                }
                let ours = is_ours(arm.target) || is_share(arm.target);
                messages.extend(cluster(arm, &topology));
                let has_digests = matches!(
                    arm.target,
                    Target::LinerateIscsi
                        | Target::LinerateNvme
                        | Target::LinerateIser
                        | Target::LinerateNvmeRdma
                        | Target::LinerateNfsRdma
                );
                if topology.digests && !(has_digests && arm.initiator == Initiator::Linerate) {
                    messages.push(
                        "`digests` are between Linerate's initiator and target over TCP or software iWARP, and it has another"
                            .to_owned(),
                    );
                }
                if topology.target_spin.is_some() && !(ours || arm.target == Target::BareLoop) {
                    messages.push(
                        "`target_spin` is of Linerate's target or the bare loop's, and it has another"
                            .to_owned(),
                    );
                }
                if topology.cores != 1 && !ours {
                    messages.push("`cores` is of Linerate's target, and it has another".to_owned());
                }
            }
        }
    }
    messages.sort();
    messages.dedup();
    messages
}

/// What the nodes of a cluster must be: a mirror has one owner, so that one adapter has it for all jobs of a load.
fn cluster(arm: &Arm, topology: &Topology) -> Vec<String> {
    if topology.copies == 0 {
        return Vec::new();
    }
    let adapts = matches!(
        arm.initiator,
        Initiator::LinerateNbd | Initiator::LinerateFuse | Initiator::LinerateVhostUser
    );
    let apart = topology.link.kind == LinkKind::Veth
        && topology.link.gateway == Gateway::None
        && topology.neighbour.is_none();
    let wrong = [
        (
            topology.copies > topology.initiators || topology.initiators < 2,
            "`copies` is of the initiating hosts, of which there must be as many, and two at least",
        ),
        (!apart, "`copies` takes a veth between the nodes, without a gateway or neighbours"),
        (
            !is_ours(arm.target) || !adapts,
            "`copies` takes Linerate's target on each node and Linerate's adapter for its load",
        ),
    ];
    wrong.into_iter().filter(|(is, _)| *is).map(|(_, message)| message.to_owned()).collect()
}

/// Linerate serves volumes; its shares are files that it knows nothing of.
const fn is_ours(target: Target) -> bool {
    matches!(
        target,
        Target::LinerateIscsi
            | Target::LinerateNvme
            | Target::LinerateIser
            | Target::LinerateIserRoce
            | Target::LinerateNvmeRdma
            | Target::LinerateNvmeRoce
    )
}

/// Linerate's shares.
const fn is_share(target: Target) -> bool {
    matches!(target, Target::LinerateNfs | Target::LinerateNfsRdma)
}

/// The volume's URL, as Linerate reads it; tgt and others have no filters.
fn volume(arm: &Arm, url: &str) -> Option<String> {
    if arm.initiator == Initiator::Stream || arm.target == Target::Site {
        return None;
    }
    if arm.target == Target::Ganesha || is_share(arm.target) {
        return (!url.starts_with("ram:") && !url.starts_with("file:")).then(|| {
            format!("volume {:?} is no file: what is served over NFS is ram: or file:", names::redact(url))
        });
    }
    let own = is_ours(arm.target) || arm.target == Target::None;
    if url.contains('+') && !own {
        return Some(format!(
            "volume {:?} has a filter, which only Linerate's volumes can have",
            names::redact(url)
        ));
    }
    let example = url.replace("{n}", "0").replace("{folder}", "/folder");
    example.parse::<VolumeUrl>().err().map(|error| format!("volume {:?}: {error}", names::redact(url)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(head: &str, arms: &[&str]) -> Vec<String> {
        let arms: Vec<String> = arms.iter().map(|arm| format!("[[arm]]\n{arm}\n")).collect();
        let arms = arms.concat();
        let text = format!(
            "id='f.n'\ntitle='t'\nquestion='q'\nsource={{publication='p'}}\n{head}\n{arms}\
             [[scale]]\nwhat='w'\npublished='p'\nhere='h'\neffect='e'\n"
        );
        findings(&toml::from_str(&text).unwrap()).iter().map(ToString::to_string).collect()
    }

    const A: &str = "key='A'\nname='a'\ninitiator='linerate'\ntarget='tgt'\nevidence={kind='real'}";
    const B: &str = "key='B'\nname='b'\ninitiator='libiscsi-nbd'\ntarget='tgt'\nevidence={kind='real'}";
    const FIO: &str = "[workload]\ntool='fio'\noptions={rw='randread'}";

    #[test]
    fn two_plain_arms_are_fine() {
        assert_eq!(found(FIO, &[A, B]), Vec::<String>::new());
    }

    /// Breaks the second arm, or the head, and looks for the message.
    #[track_caller]
    fn refused(head: &str, second: &str, part: &str) {
        let all = found(head, &[A, second]);
        assert!(all.iter().any(|one| one.contains(part)), "{part:?} is not in {all:?}");
    }

    #[test]
    fn names_and_parts() {
        refused(FIO, &B.replace("'b'", "'HW offload'"), "nothing here offloads");
        refused(FIO, &B.replace("'B'", "'A'"), "two arms have this key");
        refused(FIO, &B.replace("'b'", "'a'"), "two arms have this name");
        refused(FIO, &B.replace("'B'", "'b1'"), "capital letter");
        refused(FIO, &B.replace("'tgt'", "'ganesha'"), "cannot speak");
        for target in ["'ganesha'", "'linerate-nfs'"] {
            let nfs = A.replace("'A'", "'B'").replace("'a'", "'b'").replace("'tgt'", target);
            let ram = format!("{nfs}\nwith={{volume='ram:1G'}}");
            assert_eq!(found(FIO, &[A, &ram]), Vec::<String>::new());
            refused(FIO, &ram.replace("ram:", "null:"), "is no file");
        }
        let stream = B.replace("libiscsi-nbd", "stream").replace("tgt", "stream");
        refused(&FIO.replace("fio", "dd"), &stream, "iperf3");
        refused(&FIO.replace("fio", "iperf3"), &stream, "loads nothing else");
        assert_eq!(found(FIO, &[A, &stream]), Vec::<String>::new(), "beside block I/O");
        let perf = B.replace("libiscsi-nbd", "libiscsi-perf");
        refused(&FIO.replace("randread", "randwrite"), &perf, "only reads");
        assert!(found(FIO, &[A])[0].contains("not a comparison"));
        assert!(found(FIO, &[])[0].contains("missing"));
    }

    #[test]
    fn evidence() {
        let shaped = format!("{FIO}\n[topology]\nlink={{kind='veth',rate='5Gbit'}}");
        refused(&shaped, B, "not real");
        refused(
            FIO,
            &B.replace("{kind='real'}", "{kind='emulated',stands_for='x'}"),
            "not compared with the thing",
        );
        refused(FIO, &B.replace("{kind='real'}", "{kind='scaled',factor=' '}"), "without what it means");
        refused(FIO, &format!("{B}\nstands_for='Z'"), "no published system");
        let claim = "[[claim]]\nid='c'\ntext='t'\nneeds=['offload adapter']";
        let scaled = B.replace("{kind='real'}", "{kind='scaled',factor='0.1 of 25GbE'}");
        refused(&format!("{FIO}\n{claim}"), &scaled, "software stands in for it");
        refused(&format!("{FIO}\n{claim}"), B, "emulated, not real");
    }

    #[test]
    fn nodes() {
        let cluster = format!("{FIO}\n[topology]\ninitiators=4\ncopies=3\nlink={{kind='veth'}}");
        let nodes = |key: &str| {
            format!(
                "key='{key}'\nname='{key}'\ninitiator='linerate-nbd'\ntarget='linerate-nvme-roce'\nevidence={{kind='real'}}"
            )
        };
        assert_eq!(found(&cluster, &[&nodes("A"), &nodes("B")]), Vec::<String>::new());
        refused(&cluster, B, "Linerate's target on each node");
        refused(&cluster, &nodes("B").replace("linerate-nbd", "linerate-fio"), "Linerate's adapter");
        refused(&cluster, &format!("{}\nwith={{copies='5'}}", nodes("B")), "as many");
        refused(&cluster, &format!("{}\nwith={{neighbour='nvme'}}", nodes("B")), "neighbours");
        refused(&cluster.replace("veth", "loopback"), &nodes("B"), "takes a veth");
    }

    #[test]
    fn settings_and_volumes() {
        refused(FIO, &format!("{B}\nwith={{iodept='1'}}"), "iodept");
        refused(FIO, &format!("{B}\nwith={{volume='limit=5iops+null:1G'}}"), "filter");
        refused(FIO, &format!("{B}\nwith={{volume='nul:1G'}}"), "nul:1G");
        refused(FIO, &format!("{B}\nwith={{link='1Gbit'}}"), "loopback");
        let first = "[workload]\ntool='first-io'";
        refused(first, &format!("{B}\nwith={{volume='null:1G'}}"), "no first I/O can be verified");
    }
}
