//! Peers that take what they can get, beside clients that behave, by seed: over both protocols; and the bugs that this must find.

#[path = "common/counting_allocator.rs"]
mod counting_allocator;

mod common;

use common::{iscsi_access, iscsi_listener, nvme_access, nvme_listener};
use engine::ListenerRole;
use simulator::attacks::Attack;
use simulator::hostile::{Crowd, PlantedBug, Scenario, crowd, hostile};
use simulator::replay;
use volume::Volume;

/// Trials of attacks of one kind: ten of each. A seed has one kind, so that thousands of seeds take no longer than they must.
const TRIALS: u64 = 10 * Attack::ALL.len() as u64;
/// Trials of attacks of all kinds together, on one core and on two in turn.
const MIXED: u64 = 20;
/// Trials of crowds, three of each, and who they are: tables for full windows and queues would take more than is kept for those who hold little.
const CROWDED: u64 = 3 * CROWDS.len() as u64;
const CROWDS: [Crowd; 4] = [
    Crowd { attack: Attack::FullWindow, size: 100 },
    Crowd { attack: Attack::HoardQueue, size: 100 },
    Crowd { attack: Attack::FullWindow, size: 170 },
    Crowd { attack: Attack::HoardQueue, size: 170 },
];
/// Trials of attacks of all kinds in which writes that were answered BUSY found no memory again and again, while others always did, on one core and on two.
const UNLUCKY: [u64; 2] = [70, 111];
/// Trials in which small commands, parked behind a large one of their own connection, waited as long as that did: of attacks of one kind, and of all.
const PARKED: u64 = 1639;
const PARKED_MIXED: u64 = 898;
/// A planted bug must be found within so many trials.
const PATIENCE: u64 = 10;

fn listeners(volume: &dyn Volume) -> Vec<ListenerRole> {
    [iscsi_listener(volume, None), nvme_listener(volume, None)].into_iter().flatten().collect()
}

fn scenario(cores: u16) -> Scenario {
    let clients = vec![(1, iscsi_access("")), (2, nvme_access(""))];
    Scenario { listeners, clients, cores, heap: counting_allocator::heap }
}

#[test]
fn no_kind_of_attack_harms_those_who_behave() {
    replay::run("no_kind_of_attack", TRIALS, |seed| {
        hostile(seed, &[replay::in_turn(&Attack::ALL, seed)], &scenario(1), PlantedBug::None).map(drop)
    });
}

#[test]
fn attacks_of_all_kinds_together_harm_nobody_who_behaves() {
    replay::run("attacks_of_all_kinds", MIXED, |seed| {
        hostile(seed, &Attack::ALL, &scenario(replay::in_turn(&[1, 2], seed)), PlantedBug::None).map(drop)
    });
}

#[test]
fn writes_that_find_no_memory_have_their_turn() {
    for seed in UNLUCKY {
        let trial = hostile(seed, &Attack::ALL, &scenario(replay::in_turn(&[1, 2], seed)), PlantedBug::None);
        assert!(trial.is_ok(), "seed {seed}: {trial:?}");
    }
}

#[test]
fn what_is_little_does_not_wait_for_what_is_long() {
    let alone = hostile(PARKED, &[replay::in_turn(&Attack::ALL, PARKED)], &scenario(1), PlantedBug::None);
    assert!(alone.is_ok(), "seed {PARKED}: {alone:?}");
    let cores = replay::in_turn(&[1, 2], PARKED_MIXED);
    let mixed = hostile(PARKED_MIXED, &Attack::ALL, &scenario(cores), PlantedBug::None);
    assert!(mixed.is_ok(), "seed {PARKED_MIXED}: {mixed:?}");
}

#[test]
fn a_crowd_without_data_leaves_everybody_a_block() {
    replay::run("a_crowd_without_data", CROWDED, |seed| {
        crowd(seed, replay::in_turn(&CROWDS, seed), &scenario(1)).map(drop)
    });
}

fn is_found(attack: Attack, bug: PlantedBug) {
    let found = (0..PATIENCE).find_map(|seed| hostile(seed, &[attack], &scenario(1), bug).err());
    eprintln!("{found:?}");
    assert!(found.is_some(), "{bug:?} is not found in {PATIENCE} trials of {attack:?}");
}

#[test]
fn a_limit_that_is_not_kept_is_found() {
    is_found(Attack::Hoard, PlantedBug::NoLimit);
    is_found(Attack::HoardQueue, PlantedBug::NoLimit);
}

#[test]
fn memory_that_does_not_come_back_is_found() {
    is_found(Attack::Mute, PlantedBug::Leak);
}

#[test]
fn a_deadline_that_is_missing_is_found() {
    is_found(Attack::Hoard, PlantedBug::NoDeadlines);
    is_found(Attack::HoardQueue, PlantedBug::NoDeadlines);
}
