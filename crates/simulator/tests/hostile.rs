//! Peers that take what they can get, beside clients that behave, by seed: over both protocols; and the bugs that this must find.

#[path = "common/counting_allocator.rs"]
mod counting_allocator;

mod common;

use common::{iscsi_access, iscsi_listener, nvme_access, nvme_listener};
use engine::ListenerRole;
use simulator::attacks::Attack;
use simulator::hostile::{Plant, Scene, crowd, hostile};
use simulator::replay;
use volume::Volume;

/// Trials of each kind of attack.
const TRIALS: u64 = 10;
/// Trials of attacks of all kinds together.
const MIXED: u64 = 10;
/// Trials of each crowd of attackers, and how many each has: tables for full windows and queues would take more than is kept for those who hold little.
const CROWDED: u64 = 2;
const CROWDS: [u8; 2] = [100, 170];
/// A planted bug must be found within so many trials.
const PATIENCE: u64 = 10;

fn listeners(volume: &dyn Volume) -> Vec<ListenerRole> {
    [iscsi_listener(volume, None), nvme_listener(volume, None)].into_iter().flatten().collect()
}

fn scene(cores: u16) -> Scene {
    let clients = vec![(1, iscsi_access("")), (2, nvme_access(""))];
    Scene { listeners, clients, cores, heap: counting_allocator::heap }
}

#[test]
fn no_kind_of_attack_harms_those_who_behave() {
    for attack in Attack::ALL {
        replay::run("no_kind_of_attack", TRIALS, |seed| {
            hostile(seed, &[attack], &scene(1), Plant::None).map(drop)
        });
    }
}

#[test]
fn attacks_of_all_kinds_together_harm_nobody_who_behaves() {
    for cores in [1, 2] {
        replay::run("attacks_of_all_kinds", MIXED, |seed| {
            hostile(seed, &Attack::ALL, &scene(cores), Plant::None).map(drop)
        });
    }
}

#[test]
fn a_crowd_without_data_leaves_everybody_a_block() {
    for attack in [Attack::FullWindow, Attack::HoardQueue] {
        for size in CROWDS {
            replay::run("a_crowd_without_data", CROWDED, |seed| {
                crowd(seed, (attack, size), &scene(1)).map(drop)
            });
        }
    }
}

fn is_found(attack: Attack, plant: Plant) {
    let found = (0..PATIENCE).find_map(|seed| hostile(seed, &[attack], &scene(1), plant).err());
    eprintln!("{found:?}");
    assert!(found.is_some(), "{plant:?} is not found in {PATIENCE} trials of {attack:?}");
}

#[test]
fn a_limit_that_is_not_kept_is_found() {
    is_found(Attack::Hoard, Plant::NoLimit);
    is_found(Attack::HoardQueue, Plant::NoLimit);
}

#[test]
fn memory_that_does_not_come_back_is_found() {
    is_found(Attack::Mute, Plant::Leak);
}

#[test]
fn a_deadline_that_is_missing_is_found() {
    is_found(Attack::Hoard, Plant::NoDeadlines);
    is_found(Attack::HoardQueue, Plant::NoDeadlines);
}
