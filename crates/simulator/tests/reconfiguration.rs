//! A server whose volumes and portals come and go while clients of both protocols use them, by seed; and the bugs that this must find.

mod common;

use std::sync::Arc;

use common::{HOST, iscsi_node, nvme_subsystem, source_access};
use engine::ListenerRole;
use engine::remote::Access;
use simulator::reconfiguration::{Export, PlantedBug, Scenario, reconfigure};
use simulator::replay;

/// Changes in each trial, and trials for each number of cores.
const CHANGES: usize = 8;
const TRIALS: u64 = 14;
/// The server does not end, so that nothing is lost of what it acknowledges.
const MARK: Option<[u8; 16]> = Some([1; 16]);
/// A planted bug must be found within so many trials.
const PATIENCE: u64 = 40;

fn iscsi(exports: &[Export<'_>], before: Option<&ListenerRole>) -> ListenerRole {
    let node = |export: &Export<'_>| {
        let made = Arc::new(iscsi_node(export, MARK)?);
        let Some(ListenerRole::Iscsi(before)) = before else { return Some(made) };
        let same = |node: &&Arc<iscsi::target::Node>| {
            node.name == made.name
                && node.access == made.access
                && (node.device.units[0].volume, node.device.units[0].lun) == (export.id, export.lun.into())
        };
        Some(before.nodes.iter().find(same).map_or(made, Arc::clone))
    };
    let nodes: Vec<_> = exports.iter().filter_map(node).collect();
    ListenerRole::Iscsi(Arc::new(iscsi::target::Portal::new(nodes)))
}

fn nvme(exports: &[Export<'_>], before: Option<&ListenerRole>) -> ListenerRole {
    let subsystem = |export: &Export<'_>| {
        let made = Arc::new(nvme_subsystem(export, MARK));
        let Some(ListenerRole::Nvme(before)) = before else { return made };
        let same = |subsystem: &&Arc<nvme::controller::Subsystem>| {
            subsystem.nqn == made.nqn
                && subsystem.hosts == made.hosts
                && (subsystem.namespaces[0].volume, subsystem.namespaces[0].nsid)
                    == (export.id, u32::from(export.lun) + 1)
        };
        before.subsystems.iter().find(same).map_or(made, Arc::clone)
    };
    let subsystems = exports.iter().map(subsystem).collect();
    ListenerRole::Nvme(Arc::new(common::nvme_portal(subsystems)))
}

fn iscsi_access(name: &str, lun: u8) -> Access {
    source_access(&format!("iscsi://127.0.0.1/iqn.2026-11.org.linerate:{name}/{lun}?reconnect=1s"))
}

fn nvme_access(name: &str, lun: u8) -> Access {
    source_access(&format!(
        "nvme+tcp://127.0.0.1/nqn.2026-11.org.linerate:{name}/{}?reconnect=1s&hostnqn={HOST}",
        lun + 1
    ))
}

fn scenario(cores: u16) -> Scenario {
    Scenario { portals: [iscsi, nvme], access: [iscsi_access, nvme_access], cores }
}

#[test]
fn volumes_and_portals_come_and_go() {
    for cores in [1, 2, 3] {
        replay::run("come_and_go", TRIALS, |seed| {
            reconfigure(seed, CHANGES, scenario(cores), PlantedBug::None)
        });
    }
}

fn is_found(bug: PlantedBug, by: &str) {
    is_found_by_any(bug, &[by]);
}

fn is_found_by_any(bug: PlantedBug, by: &[&str]) {
    let mut broken = (0..PATIENCE).filter_map(|seed| {
        let cores = replay::in_turn(&[1, 2, 3], seed);
        reconfigure(seed, CHANGES, scenario(cores), bug).err()
    });
    let found = broken.find(|failure| by.iter().any(|by| failure.to_string().contains(by)));
    assert!(found.is_some(), "{bug:?} is not found in {PATIENCE} trials");
}

#[test]
fn a_slot_without_generation_is_found() {
    let reserved = "a reservation of another host forbids it";
    is_found_by_any(PlantedBug::SlotWithoutGeneration, &["after the volume was retired", reserved]);
}

#[test]
fn a_refusal_before_the_news_is_found() {
    is_found(PlantedBug::RefusalBeforeNews, "cut off without notice");
}

#[test]
fn a_volume_that_is_retired_before_it_is_drained_is_found() {
    is_found(PlantedBug::RetireBeforeDrain, "after the volume was retired");
}

#[test]
fn a_volume_that_is_retired_without_a_flush_is_found() {
    is_found(PlantedBug::RetireWithoutFlush, "after it was retired and the power was cut");
}

#[test]
fn a_fence_that_is_not_acknowledged_is_found() {
    is_found(PlantedBug::FenceUnknownVolume, "a reset of a unit that is going is not answered");
}

#[test]
fn a_reservation_that_is_lost_with_a_new_number_is_found() {
    is_found(PlantedBug::MoveAsAnother, "its reservation is lost");
}

#[test]
fn access_that_was_taken_away_and_still_serves_is_found() {
    is_found(PlantedBug::AccessKept, "I/O is served");
}

#[test]
fn a_connection_that_is_left_open_is_found() {
    is_found(PlantedBug::DeadlinesForgotten, "is left open");
}

#[test]
fn a_pause_of_what_stays_is_found() {
    is_found(PlantedBug::StandStill, "does not end within");
}
