//! Volumes over iSER and NVMe/RDMA on software iWARP, whose server dies, freezes, loses power and comes back behind a network that delays, cuts into chunks and
//! resets, by seed. What crash and loss ask of volumes over TCP is asked of these.

mod common;

use common::{iser_scene, nvme_rdma_scene};
use simulator::careless::Bug;
use simulator::disk::PlantedBug;
use simulator::lasting::{calm, lasting, stopped};
use simulator::replay;
use simulator::trial::{Scenario, served};

/// Trials for each protocol.
const TRIALS: u64 = 40;
/// Faults in each trial.
const FAULTS: usize = 4;
/// Steps of a trial in which only connections are lost.
const CALM_STEPS: usize = 400;
/// A planted bug must be found within so many trials.
const PATIENCE: u64 = 60;

/// Both protocols, with and without checksums.
fn scenes(option: &str) -> [Scenario; 3] {
    let more = |first: &str| if option.is_empty() { first.to_owned() } else { format!("{first}&{option}") };
    let plain = if option.is_empty() { String::new() } else { format!("?{option}") };
    [iser_scene(&plain), nvme_rdma_scene(&plain), iser_scene(&more("?crc=1"))]
}

#[test]
fn what_was_flushed_over_rdma_survives_a_power_cut() {
    for scenario in scenes("") {
        replay::run("flushed_over_rdma", TRIALS, |seed| served(seed, FAULTS, &scenario, PlantedBug::None));
    }
}

#[test]
fn a_volume_over_rdma_outlasts_its_server() {
    for scenario in scenes("") {
        replay::run("over_rdma_outlasts", TRIALS, |seed| lasting(seed, FAULTS, &scenario, Bug::None));
    }
}

#[test]
fn nothing_fails_over_rdma_while_only_connections_are_lost() {
    for scenario in scenes("reconnect=20m") {
        replay::run("connections_lost_over_rdma", TRIALS, |seed| calm(seed, CALM_STEPS, &scenario));
        replay::run("stopped_over_rdma", TRIALS, |seed| stopped(seed, FAULTS, &scenario));
    }
}

#[test]
fn a_disk_that_forgets_what_was_flushed_is_found_over_rdma() {
    for scenario in scenes("") {
        let found =
            (0..PATIENCE).any(|seed| served(seed, FAULTS, &scenario, PlantedBug::FlushDoesNothing).is_err());
        assert!(found, "{scenario:?}");
    }
}
