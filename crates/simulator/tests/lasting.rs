//! A volume that stays open while its server dies, freezes, loses power and comes back, by seed; and the bugs that this must find.

mod common;

use common::{iscsi_scene, nvme_scene};
use simulator::careless::Bug;
use simulator::failure::TrialFailure;
use simulator::lasting::{calm, lasting, stopped};
use simulator::marks::Marks;
use simulator::replay;
use simulator::trial::Scenario;

/// Faults in each trial, and trials for each protocol.
const FAULTS: usize = 4;
const TRIALS: u64 = 150;
/// Steps of a trial in which only connections are lost.
const CALM_STEPS: usize = 400;
/// A planted bug must be found within so many trials.
const PATIENCE: u64 = 60;
/// One that needs two faults in a row, and writes that only one of them loses, within so many.
const LONG_PATIENCE: u64 = 600;

#[test]
fn a_volume_outlasts_its_server_over_iscsi() {
    let scenario = iscsi_scene("");
    replay::run("outlasts_its_server_over_iscsi", TRIALS, |seed| lasting(seed, FAULTS, &scenario, Bug::None));
}

#[test]
fn a_volume_outlasts_its_server_over_nvme() {
    let scenario = nvme_scene("");
    replay::run("outlasts_its_server_over_nvme", TRIALS, |seed| lasting(seed, FAULTS, &scenario, Bug::None));
}

#[test]
fn a_volume_outlasts_a_server_that_says_nothing_of_its_incarnation() {
    for scenario in [iscsi_scene(""), nvme_scene("")] {
        let scenario = Scenario { marks: Marks::Absent, ..scenario };
        let name = "outlasts_a_server_that_says_nothing_of_its_incarnation";
        replay::run(name, TRIALS, |seed| lasting(seed, FAULTS, &scenario, Bug::None));
    }
}

#[test]
fn nothing_fails_while_only_connections_are_lost() {
    for scenario in [iscsi_scene("&reconnect=20m"), nvme_scene("&reconnect=20m")] {
        replay::run("only_connections_are_lost", TRIALS, |seed| calm(seed, CALM_STEPS, &scenario));
        // The mark is what makes the difference.
        let scenario = Scenario { marks: Marks::Absent, ..scenario };
        assert!((0..PATIENCE).any(|seed| calm(seed, CALM_STEPS, &scenario).is_err()), "{scenario:?}");
    }
}

#[test]
fn nothing_fails_while_the_server_is_stopped_in_good_order() {
    for scenario in [iscsi_scene("&reconnect=20m"), nvme_scene("&reconnect=20m")] {
        replay::run("server_is_stopped_in_good_order", TRIALS, |seed| stopped(seed, FAULTS, &scenario));
        // The mark is what makes the difference.
        let scenario = Scenario { marks: Marks::Absent, ..scenario };
        assert!((0..PATIENCE).any(|seed| stopped(seed, FAULTS, &scenario).is_err()), "{scenario:?}");
    }
}

fn is_found(scenario: &Scenario, bug: Bug, words: &str) {
    let found = (0..PATIENCE).filter_map(|seed| lasting(seed, FAULTS, scenario, bug).err());
    let found = found.inspect(|what| eprintln!("{what}")).any(|what| what.to_string().contains(words));
    assert!(found, "{bug:?} is not found in {scenario:?}");
}

#[test]
fn a_forgotten_request_is_found() {
    for scenario in [iscsi_scene("&reconnect=2s"), nvme_scene("&reconnect=2s")] {
        is_found(&scenario, Bug::Forgets, "have not ended");
    }
}

#[test]
fn a_repeated_compare_and_write_is_found() {
    is_found(&iscsi_scene(""), Bug::RepeatsCompareAndWrite, "does not find it");
}

#[test]
fn a_flush_that_hides_a_loss_is_found() {
    for scenario in [iscsi_scene(""), nvme_scene("")] {
        is_found(&scenario, Bug::HidesLosses, "allowed");
    }
}

#[test]
fn a_server_that_lies_about_its_incarnation_is_found() {
    for scenario in [iscsi_scene(""), nvme_scene("")] {
        is_found(&Scenario { marks: Marks::Kept, ..scenario }, Bug::None, "allowed");
    }
}

#[test]
fn a_server_that_calls_a_stop_clean_without_a_flush_is_found() {
    for scenario in [iscsi_scene(""), nvme_scene("")] {
        let scenario = Scenario { marks: Marks::Hasty, ..scenario };
        let found = (0..LONG_PATIENCE).filter_map(|seed| stopped(seed, FAULTS, &scenario).err());
        assert!(
            found.into_iter().any(|failure| matches!(failure.root(), TrialFailure::Content(_))),
            "{scenario:?}"
        );
    }
}

#[test]
fn a_server_that_removes_the_record_of_a_clean_stop_without_a_sync_is_found() {
    for scenario in [iscsi_scene(""), nvme_scene("")] {
        let scenario = Scenario { marks: Marks::Unsynced, ..scenario };
        let found =
            (0..LONG_PATIENCE).filter_map(|seed| lasting(seed, 4 * FAULTS, &scenario, Bug::None).err());
        assert!(
            found.into_iter().any(|failure| matches!(failure.root(), TrialFailure::Content(_))),
            "{scenario:?}"
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_end() {
    for scenario in [iscsi_scene(""), nvme_scene("")] {
        let end = |seed| lasting(seed, FAULTS, &scenario, Bug::HidesLosses);
        for seed in 0..TRIALS / 5 {
            assert_eq!(end(seed), end(seed), "seed {seed}");
        }
    }
}
