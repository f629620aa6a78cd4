//! Volumes over iSER and NVMe/RDMA on software RoCEv2, behind a network that loses, doubles, delays, reorders and damages datagrams, and takes clients out of
//! reach, by seed. What crash and loss ask of volumes over TCP is asked of these.

mod common;

use common::{ROCE, ROCE_AT_ANOTHER_PORT, iser_scene, nvme_rdma_scene};
use simulator::careless::Bug;
use simulator::disk::PlantedBug;
use simulator::lasting::{calm, lasting, lossy, stopped};
use simulator::replay;
use simulator::sockets::DatagramFaults;
use simulator::trial::{Scenario, served};
use simulator::{Odds, TrialFailure};

/// Trials for each protocol.
const TRIALS: u64 = 40;
/// Faults in each trial.
const FAULTS: usize = 4;
/// Steps of a trial in which only connections are lost.
const CALM_STEPS: usize = 400;
/// A planted bug must be found within so many trials.
const PATIENCE: u64 = 60;

/// Both protocols, at RoCE's port and at another one.
fn scenes(option: &str) -> [Scenario; 2] {
    let with = |first: &str| if option.is_empty() { first.to_owned() } else { format!("{first}&{option}") };
    [iser_scene(&with(ROCE)), nvme_rdma_scene(&with(ROCE_AT_ANOTHER_PORT))]
}

#[test]
fn what_was_flushed_over_roce_survives_a_power_cut() {
    for scenario in scenes("") {
        replay::run("flushed_over_roce", TRIALS, |seed| served(seed, FAULTS, &scenario, PlantedBug::None));
    }
}

#[test]
fn a_volume_over_roce_outlasts_its_server() {
    for scenario in scenes("") {
        replay::run("over_roce_outlasts", TRIALS, |seed| lasting(seed, FAULTS, &scenario, Bug::None));
    }
}

#[test]
fn a_volume_over_roce_outlasts_a_core_that_stands_still() {
    for scenario in scenes("").map(|scenario| Scenario { cores: 2, ..scenario }) {
        replay::run("a_core_that_stands_still", TRIALS, |seed| lasting(seed, FAULTS, &scenario, Bug::None));
    }
}

#[test]
fn nothing_fails_over_roce_while_only_connections_are_lost() {
    for scenario in scenes("reconnect=20m") {
        replay::run("connections_are_lost", TRIALS, |seed| calm(seed, CALM_STEPS, &scenario));
    }
}

#[test]
fn nothing_fails_over_roce_while_the_server_is_stopped_in_good_order() {
    for scenario in scenes("reconnect=20m") {
        replay::run("stopped_in_good_order", TRIALS, |seed| stopped(seed, FAULTS, &scenario));
    }
}

/// A network that is ten times worse than the usual one.
const BAD: DatagramFaults = DatagramFaults {
    lost: Odds(50),
    doubled: Odds(100),
    late: Odds(50),
    damaged: Odds(50),
    ..DatagramFaults::NONE
};

#[test]
fn a_bad_network_changes_nothing() {
    let mut struck = 0;
    for scenario in scenes("reconnect=20m") {
        replay::run("a_bad_network", TRIALS, |seed| {
            lossy(seed, CALM_STEPS, &scenario, BAD).map(|count| struck += count)
        });
    }
    eprintln!("{struck} datagrams were struck");
    assert!(struck > 100 * replay::seeds(TRIALS).count() as u64, "{struck} datagrams were struck");
}

#[test]
fn ends_that_do_not_look_at_sums_are_found() {
    let faults = DatagramFaults { damaged: Odds(20), sums_unchecked: true, ..DatagramFaults::NONE };
    for scenario in scenes("") {
        let found = (0..PATIENCE).filter_map(|seed| lossy(seed, CALM_STEPS, &scenario, faults).err());
        let mut found = found.inspect(|failure| eprintln!("{failure}"));
        assert!(found.any(|failure| matches!(failure, TrialFailure::Content(_))), "{scenario:?}");
    }
}

#[test]
fn a_disk_that_forgets_what_was_flushed_is_found_over_roce() {
    for scenario in scenes("") {
        let found =
            (0..PATIENCE).any(|seed| served(seed, FAULTS, &scenario, PlantedBug::FlushDoesNothing).is_err());
        assert!(found, "{scenario:?}");
    }
}
