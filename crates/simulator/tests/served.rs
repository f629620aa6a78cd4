//! The whole path by seed: a client's volume over a bad network, a real engine, a file volume, a disk that loses power.

mod common;

use common::{iscsi_scene, nvme_scene};
use simulator::disk::PlantedBug;
use simulator::replay;
use simulator::trial::served;

/// Power cuts in each trial, and trials for each protocol.
const CUTS: usize = 5;
const TRIALS: u64 = 40;
/// A planted bug must be found within so many trials.
const PATIENCE: u64 = 60;

#[test]
fn nothing_secured_is_lost_behind_iscsi() {
    let scenario = iscsi_scene("");
    replay::run("behind_iscsi", TRIALS, |seed| served(seed, CUTS, &scenario, PlantedBug::None));
}

#[test]
fn nothing_secured_is_lost_behind_nvme() {
    let scenario = nvme_scene("");
    replay::run("behind_nvme", TRIALS, |seed| served(seed, CUTS, &scenario, PlantedBug::None));
}

#[test]
fn a_flush_that_does_nothing_is_found_from_the_other_end() {
    for scenario in [iscsi_scene(""), nvme_scene("")] {
        let found =
            (0..PATIENCE).any(|seed| served(seed, CUTS, &scenario, PlantedBug::FlushDoesNothing).is_err());
        assert!(found, "not found by {scenario:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for scenario in [iscsi_scene(""), nvme_scene("")] {
        let lost = |seed| served(seed, CUTS, &scenario, PlantedBug::FlushDoesNothing);
        for seed in 0..PATIENCE / 2 {
            assert_eq!(lost(seed), lost(seed), "seed {seed}");
        }
    }
}
