//! A volume that stays open while its server dies, freezes, loses power and comes back, by seed; and the bugs that this must find.

mod common;

use common::{iscsi_scene, nvme_scene};
use simulator::careless::Bug;
use simulator::lasting::lasting;
use simulator::replay;

/// Faults in each trial, and trials for each protocol.
const FAULTS: usize = 4;
const TRIALS: u64 = 25;
/// A planted bug must be found within so many trials.
const PATIENCE: u64 = 60;

#[test]
fn a_volume_outlasts_its_server_over_iscsi() {
    let scene = iscsi_scene("");
    replay::run("outlasts_its_server_over_iscsi", TRIALS, |seed| lasting(seed, FAULTS, &scene, Bug::None));
}

#[test]
fn a_volume_outlasts_its_server_over_nvme() {
    let scene = nvme_scene("");
    replay::run("outlasts_its_server_over_nvme", TRIALS, |seed| lasting(seed, FAULTS, &scene, Bug::None));
}

fn is_found(scene: &simulator::trial::Scene, bug: Bug, words: &str) {
    let found = (0..PATIENCE).filter_map(|seed| lasting(seed, FAULTS, scene, bug).err());
    let found = found.inspect(|what| eprintln!("{what}")).any(|what| what.contains(words));
    assert!(found, "{bug:?} is not found in {scene:?}");
}

#[test]
fn a_forgotten_request_is_found() {
    for scene in [iscsi_scene("&reconnect=2s"), nvme_scene("&reconnect=2s")] {
        is_found(&scene, Bug::Forgets, "have not ended");
    }
}

#[test]
fn a_repeated_compare_and_write_is_found() {
    is_found(&iscsi_scene(""), Bug::RepeatsCompareAndWrite, "does not find it");
}

#[test]
fn a_flush_that_hides_a_loss_is_found() {
    for scene in [iscsi_scene(""), nvme_scene("")] {
        is_found(&scene, Bug::HidesLosses, "allowed");
    }
}

#[test]
fn the_same_seed_gives_the_same_end() {
    for scene in [iscsi_scene(""), nvme_scene("")] {
        let end = |seed| lasting(seed, FAULTS, &scene, Bug::HidesLosses);
        for seed in 0..TRIALS / 5 {
            assert_eq!(end(seed), end(seed), "seed {seed}");
        }
    }
}
