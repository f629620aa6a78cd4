//! Writes that a lost connection has left behind bring nothing old back, wherever the next connection leads, by seed: redirected iSCSI
//! logins, NVMe controllers over another path; and the hurry that this must find.

mod common;

use std::sync::Arc;

use common::{
    first, iscsi_access, iscsi_listener, iscsi_node, iser_scene, nvme_access, nvme_listener, nvme_rdma_scene,
};
use engine::ListenerRole;
use engine::remote::Access;
use simulator::failure::TrialFailure;
use simulator::moves::{PlantedBug, Scenario, moves};
use simulator::{replay, trial};
use volume::Volume;

/// Cuts in each trial, and trials for each scenario.
const CUTS: usize = 4;
const TRIALS: u64 = 120;
/// The same over RoCE: three of each kind.
const ROCE_TRIALS: u64 = 3 * 4;
/// A planted bug must be found within so many trials: over another path and on three cores one in a hundred finds it.
const PATIENCE: u64 = 1000;
/// The same over RoCE.
const ROCE_PATIENCE: u64 = 100;

/// Over RoCE, with an end that is far off.
const ROCE_AND_LONG: &str = "?transport=roce&reconnect=20m";

/// Four portals of one target, two of them of one group.
fn portals(volume: &dyn Volume) -> Vec<ListenerRole> {
    let portal = |group| {
        let node = iscsi::target::Node { portal_group: group, ..iscsi_node(&first(volume), Some([1; 16]))? };
        Some(ListenerRole::Iscsi(Arc::new(iscsi::target::Portal::new(vec![node]))))
    };
    [portal(1), portal(1), portal(2), portal(3)].into_iter().flatten().collect()
}

/// Two ports of one subsystem.
fn paths(volume: &dyn Volume) -> Vec<ListenerRole> {
    let path = || nvme_listener(volume, Some([1; 16]));
    [path(), path()].into_iter().flatten().collect()
}

fn redirected(cores: u16) -> Scenario {
    Scenario { listeners: portals, access: iscsi_access("?reconnect=20m"), cores }
}

fn multipath(cores: u16) -> Scenario {
    Scenario { listeners: paths, access: nvme_access("?reconnect=20m"), cores }
}

#[test]
fn no_ghost_brings_old_data_back_after_a_redirection() {
    for cores in [1, 3] {
        let scenario = redirected(cores);
        replay::run("after_a_redirection", TRIALS, |seed| moves(seed, CUTS, &scenario, PlantedBug::None));
    }
}

#[test]
fn no_ghost_brings_old_data_back_over_another_path() {
    for cores in [1, 3] {
        let scenario = multipath(cores);
        replay::run("over_another_path", TRIALS, |seed| moves(seed, CUTS, &scenario, PlantedBug::None));
    }
}

/// One target, and one subsystem, over RoCE. A session that is reinstated has ended; a controller goes on until its own timers end it.
fn over_roce(scene: trial::Scenario, cores: u16) -> Scenario {
    let listeners = match scene.access {
        Access::Iscsi { .. } => {
            |volume: &dyn Volume| iscsi_listener(volume, Some([1; 16])).into_iter().collect()
        }
        Access::Nvme { .. } => {
            |volume: &dyn Volume| nvme_listener(volume, Some([1; 16])).into_iter().collect()
        }
        // NFS does not go over RoCE.
        Access::Nfs { .. } => |_: &dyn Volume| Vec::new(),
    };
    Scenario { listeners, access: scene.access, cores }
}

fn host_over_roce(cores: u16) -> Scenario {
    over_roce(nvme_rdma_scene(ROCE_AND_LONG), cores)
}

#[test]
fn no_ghost_brings_old_data_back_where_every_disconnect_over_roce_is_lost() {
    let initiator = |cores| over_roce(iser_scene(ROCE_AND_LONG), cores);
    let kinds = [initiator(1), initiator(3), host_over_roce(1), host_over_roce(3)];
    replay::run("where_every_disconnect_over_roce_is_lost", ROCE_TRIALS, |seed| {
        moves(seed, CUTS, replay::in_turn(&kinds.each_ref(), seed), PlantedBug::None)
    });
}

fn is_found(bug: PlantedBug, scenario: &Scenario, patience: u64) {
    let mut broken = (0..patience).filter_map(|seed| Some((seed, moves(seed, CUTS, scenario, bug).err()?)));
    let found = broken.find(|(_, failure)| matches!(failure.root(), TrialFailure::Content(_)));
    eprintln!("{bug:?}: {found:?}");
    assert!(found.is_some(), "{bug:?} is not found in {patience} trials of {scenario:?}");
}

#[test]
fn a_hurry_is_found() {
    for scenario in [redirected(1), redirected(3), multipath(1), multipath(3)] {
        is_found(PlantedBug::NoQuietTime, &scenario, PATIENCE);
    }
}

/// A controller over RoCE that does not hear of the loss goes on for longer than one whose stream has ended. What finds this would find no quiet time at all.
#[test]
fn a_quiet_time_as_over_streams_is_found_over_roce() {
    for scenario in [host_over_roce(1), host_over_roce(3)] {
        is_found(PlantedBug::ShortQuietTime, &scenario, ROCE_PATIENCE);
    }
}
