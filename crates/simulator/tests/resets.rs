//! Once a reset is answered nothing of the tasks that it ended changes the volume, over both protocols and across cores, by seed; and the
//! early answers that this must find.

mod common;

use common::{iscsi_listener, nvme_listener};
use engine::ListenerRole;
use simulator::replay;
use simulator::resets::{Carrier, PlantedBug, Scenario, resets};
use volume::Volume;

/// Resets in each trial, and trials for each scenario.
const RESETS: usize = 8;
const TRIALS: u64 = 60;
/// Sessions, controllers and cores over RoCE, and trials: two of each.
const ROCE_KINDS: [(u8, u8, u16); 5] = [(3, 0, 1), (3, 0, 3), (0, 3, 1), (0, 3, 3), (2, 2, 3)];
const ROCE_TRIALS: u64 = 2 * ROCE_KINDS.len() as u64;
/// A planted bug must be found within so many trials.
const PATIENCE: u64 = 15;

fn listeners(volume: &dyn Volume) -> Vec<ListenerRole> {
    [iscsi_listener(volume, None), nvme_listener(volume, None)].into_iter().flatten().collect()
}

fn scenario(sessions: u8, controllers: u8, cores: u16) -> Scenario {
    Scenario { listeners, nexuses: (sessions, controllers), cores, carrier: Carrier::Tcp }
}

fn over_roce(sessions: u8, controllers: u8, cores: u16) -> Scenario {
    Scenario { carrier: Carrier::Roce, ..scenario(sessions, controllers, cores) }
}

#[test]
fn nothing_of_an_ended_task_takes_effect_over_iscsi() {
    for cores in [1, 2, 3] {
        let scenario = scenario(3, 0, cores);
        replay::run("ended_task", TRIALS, |seed| resets(seed, RESETS, &scenario, PlantedBug::None));
    }
}

#[test]
fn nothing_of_a_controller_that_was_reset_takes_effect() {
    for cores in [1, 2, 3] {
        let scenario = scenario(0, 3, cores);
        replay::run("controller_that_was_reset", TRIALS, |seed| {
            resets(seed, RESETS, &scenario, PlantedBug::None)
        });
    }
}

#[test]
fn nothing_of_an_ended_task_takes_effect_over_both_protocols() {
    let scenario = scenario(2, 2, 2);
    replay::run("over_both_protocols", TRIALS, |seed| resets(seed, RESETS, &scenario, PlantedBug::None));
}

#[test]
fn nothing_of_an_ended_task_takes_effect_over_roce() {
    replay::run("ended_task_takes_effect_over_roce", ROCE_TRIALS, |seed| {
        let (sessions, controllers, cores) = replay::in_turn(&ROCE_KINDS, seed);
        resets(seed, RESETS, &over_roce(sessions, controllers, cores), PlantedBug::None)
    });
}

fn is_found(bug: PlantedBug, scenario: &Scenario, by: &str) {
    let mut broken =
        (0..PATIENCE).filter_map(|seed| Some((seed, resets(seed, RESETS, scenario, bug).err()?)));
    let found = broken.find(|(_, failure)| {
        let text = failure.to_string();
        text.contains("takes effect") && text.contains(by)
    });
    eprintln!("{bug:?}: {found:?}");
    assert!(found.is_some(), "{bug:?} is not found in {PATIENCE} trials of {scenario:?}");
}

#[test]
fn a_reset_that_is_answered_early_is_found() {
    for cores in [1, 2, 3] {
        is_found(PlantedBug::EarlyAnswer, &scenario(3, 0, cores), "");
    }
    is_found(PlantedBug::EarlyAnswer, &over_roce(3, 0, 2), "");
}

#[test]
fn a_task_that_counts_as_ended_early_is_found() {
    for cores in [1, 2, 3] {
        is_found(PlantedBug::EarlyEnd, &scenario(3, 0, cores), "ABORT TASK of");
    }
    is_found(PlantedBug::EarlyEnd, &over_roce(3, 0, 2), "ABORT TASK of");
}

#[test]
fn a_controller_that_is_said_to_be_quiet_early_is_found() {
    for cores in [2, 3] {
        is_found(PlantedBug::EarlyQuiet, &scenario(0, 3, cores), "");
    }
    is_found(PlantedBug::EarlyQuiet, &over_roce(0, 3, 2), "");
}
