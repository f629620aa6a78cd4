//! Writes that a lost connection has left behind bring nothing old back, wherever the next connection leads, by seed: redirected iSCSI
//! logins, NVMe controllers over another path; and the hurry that this must find.

mod common;

use std::sync::Arc;

use common::{first, iscsi_access, iscsi_node, nvme_access, nvme_listener};
use engine::ListenerRole;
use simulator::failure::TrialFailure;
use simulator::moves::{PlantedBug, Scenario, moves};
use simulator::replay;
use volume::Volume;

/// Cuts in each trial, and trials for each scenario.
const CUTS: usize = 4;
const TRIALS: u64 = 120;
/// A planted bug must be found within so many trials: over another path and on three cores one in a hundred finds it.
const PATIENCE: u64 = 1000;

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

#[test]
fn a_hurry_is_found() {
    for scenario in [redirected(1), redirected(3), multipath(1), multipath(3)] {
        let mut broken =
            (0..PATIENCE).filter_map(|seed| moves(seed, CUTS, &scenario, PlantedBug::NoQuietTime).err());
        let found = broken.find(|failure| matches!(failure.root(), TrialFailure::Content(_)));
        eprintln!("{found:?}");
        assert!(found.is_some(), "a hurry is not found in {PATIENCE} trials of {scenario:?}");
    }
}
