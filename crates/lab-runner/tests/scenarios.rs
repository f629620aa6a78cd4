//! Every built-in scenario against the tools: what its arms ask for at each point, the tool can be started with.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::path::Path;

use lab_model::scenario::sweep::{self, Extent};
use lab_model::scenario::{
    Arm, Initiator, Scenario, Target, ToolKind, calibration, catalogue, needs, topology,
};
use lab_runner::arm::Endpoint;
use lab_runner::tool::{self, Assignment};

/// What an arm's adapter would hand to the tool, one for each volume.
fn endpoints(scenario: &Scenario, arm: &Arm, point: &sweep::Point) -> Vec<Endpoint> {
    let topology = topology::at(scenario, arm, point).unwrap();
    let url = match (scenario.workload.tool, arm.initiator, arm.target) {
        (ToolKind::Pgbench, ..) => "postgresql:///bench?host=/run/lab".to_owned(),
        (ToolKind::Dd, ..) => "/run/lab/volume.img".to_owned(),
        (_, Initiator::Stream | Initiator::BareLoop, _) => "192.0.2.1:5201".to_owned(),
        (
            _,
            Initiator::LibiscsiNbd | Initiator::LinerateNbd | Initiator::QemuNbd | Initiator::NbdkitNbd,
            _,
        ) => "nbd+unix:///0?socket=/run/lab/nbd".to_owned(),
        (_, Initiator::LinerateVhostUser | Initiator::LibiscsiVhostUser, _) => {
            "vhost-user:/run/lab/0".to_owned()
        }
        (_, Initiator::LinerateFuse | Initiator::LibiscsiFuse | Initiator::Libnfs, _) => {
            "/run/lab/0".to_owned()
        }
        (_, Initiator::Site, _) => "/dev/nvme0n1".to_owned(),
        (_, Initiator::Local, _) => topology.volume.replace("{n}", "0").replace("{folder}", "/run/lab"),
        (_, _, Target::LinerateNvme) => "nvme+tcp://192.0.2.1/nqn.2026-11.org.linerate:lab/1".to_owned(),
        (_, _, Target::LinerateIser) => "iser://192.0.2.1/iqn.2026-11.org.linerate:lab/1".to_owned(),
        (_, _, Target::LinerateIserRoce) => {
            "iser://192.0.2.1/iqn.2026-11.org.linerate:lab/1?transport=roce".to_owned()
        }
        (_, _, Target::LinerateNvmeRoce) => {
            "nvme+rdma://192.0.2.1/nqn.2026-11.org.linerate:lab/1?transport=roce".to_owned()
        }
        (_, _, Target::LinerateNvmeRdma) => "nvme+rdma://192.0.2.1/nqn.2026-11.org.linerate:lab/1".to_owned(),
        (_, _, Target::LinerateNfs | Target::Ganesha) => "nfs://192.0.2.1/volumes/0?version=4.1".to_owned(),
        _ => "iscsi://192.0.2.1/iqn.2026-11.org.linerate:lab/1".to_owned(),
    };
    let count = topology.targets * topology.luns;
    (0..count).map(|_| Endpoint { url: url.clone(), size: 64 << 20 }).collect()
}

#[test]
fn every_arm_can_be_loaded_at_every_point() {
    let mut refused = Vec::new();
    for loaded in catalogue::list().unwrap() {
        let scenario = &loaded.scenario;
        for arm in &scenario.arms {
            for point in sweep::points(scenario, Extent::Full) {
                // At such a point the arm is left out by name.
                if needs::of_point(scenario, arm, &point).iter().any(|need| need.name == "reads alone") {
                    continue;
                }
                let assignment = Assignment {
                    // Shares of what a calibration found, whatever that was.
                    settings: &calibration::loaded(sweep::settings(scenario, arm, &point), 1e5),
                    endpoints: &endpoints(scenario, arm, &point),
                    folder: Path::new("/run/lab"),
                    ramp: scenario.design.ramp,
                    runtime: scenario.design.runtime,
                    linerate: Path::new("linerate"),
                    engines: Path::new("/engines"),
                    initiator: arm.initiator,
                };
                if let Err(error) = tool::command(scenario.workload.tool, &assignment) {
                    refused.push(format!("{} {}: {error:#}", scenario.id, arm.key));
                }
            }
        }
    }
    refused.dedup();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}
