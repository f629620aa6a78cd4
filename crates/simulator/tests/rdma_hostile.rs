//! Peers over software iWARP that break its rules, take what they can get, fall silent or go, of both roles and over both protocols, beside volumes and clients that
//! behave, by seed; and the bugs that this must find.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "common/counting_allocator.rs"]
mod counting_allocator;

mod common;

use std::net::SocketAddr;
use std::time::Duration;

use common::{iscsi_listener, iser_scene, nvme_listener, nvme_rdma_scene};
use engine::ListenerRole;
use engine::remote::{ClientContext, Discovery, discover};
use simulator::consuming::{self, consuming};
use simulator::hostile::{self, hostile_over_rdma};
use simulator::rdma_villains::Violation;
use simulator::replay;
use volume::Volume;

/// Trials of one kind each: two of every kind of target, one of every kind of initiator, which does more; and of all kinds together.
const TRIALS: u64 = 2 * Violation::ALL.len() as u64;
const RAIDS: u64 = Violation::ALL.len() as u64;
const MIXED: u64 = 6;
/// A planted bug must be found within so many trials.
const PATIENCE: u64 = 5;
/// Options of the volumes on hostile servers, and how long a request may take with them, as over TCP (`tests/consuming.rs`).
const OPTIONS: [&str; 2] = ["?timeout=1s&reconnect=1s", "?timeout=1s&reconnect=1s&crc=1"];
const BOUNDS: [Duration; 2] = [Duration::from_secs(19), Duration::from_secs(51)];

fn listeners(volume: &dyn Volume) -> Vec<ListenerRole> {
    [iscsi_listener(volume, None), nvme_listener(volume, None)].into_iter().flatten().collect()
}

/// A server whose clients behave or do not.
fn server(cores: u16) -> hostile::Scenario {
    let clients = vec![(1, iser_scene("").access), (2, nvme_rdma_scene("").access)];
    hostile::Scenario { listeners, clients, cores, heap: counting_allocator::heap }
}

#[test]
fn no_violation_of_an_initiator_or_host_harms_those_who_behave() {
    replay::run("no_violation_of_an_initiator", RAIDS, |seed| {
        let violation = replay::in_turn(&Violation::ALL, seed);
        hostile_over_rdma(seed, &[violation], &server(1), hostile::PlantedBug::None).map(drop)
    });
}

#[test]
fn all_violations_of_initiators_and_hosts_together_harm_nobody_who_behaves() {
    replay::run("all_violations_of_initiators", MIXED, |seed| {
        let server = server(replay::in_turn(&[1, 2], seed));
        hostile_over_rdma(seed, &Violation::ALL, &server, hostile::PlantedBug::None).map(drop)
    });
}

fn ask(scheme: &str, address: SocketAddr, context: &ClientContext) -> Discovery {
    discover(address, &format!("{scheme}://127.0.0.1").parse().unwrap(), None, context)
}

/// Volumes whose servers behave or do not.
fn volumes(seed: u64) -> consuming::Scenario {
    let options = replay::in_turn(&OPTIONS, seed);
    consuming::Scenario {
        listeners,
        access: [iser_scene(options).access, nvme_rdma_scene(options).access],
        bounds: BOUNDS,
        discover: [
            |address, around| ask("iser", address, around),
            |address, around| ask("nvme+rdma", address, around),
        ],
        heap: counting_allocator::heap,
    }
}

#[test]
fn no_violation_of_a_target_or_controller_harms_who_uses_it() {
    replay::run("no_violation_of_a_target", TRIALS, |seed| {
        let violation = replay::in_turn(&Violation::ALL, seed / 2);
        consuming(seed, &[violation], &volumes(seed), consuming::PlantedBug::None)
    });
}

#[test]
fn all_violations_of_targets_and_controllers_together_harm_nobody() {
    replay::run("all_violations_of_targets", MIXED, |seed| {
        consuming(seed, &Violation::ALL, &volumes(seed), consuming::PlantedBug::None)
    });
}

fn is_found_at_a_server(violation: Violation, bug: hostile::PlantedBug) {
    let found = (0..PATIENCE).find_map(|seed| hostile_over_rdma(seed, &[violation], &server(1), bug).err());
    eprintln!("{found:?}");
    assert!(found.is_some(), "{bug:?} is not found in {PATIENCE} trials of {violation:?}");
}

#[test]
fn bugs_of_a_server_are_found() {
    is_found_at_a_server(Violation::NoData, hostile::PlantedBug::NoLimit);
    is_found_at_a_server(Violation::NoData, hostile::PlantedBug::NoDeadlines);
    is_found_at_a_server(Violation::Close, hostile::PlantedBug::Leak);
}

#[test]
fn bugs_of_a_client_are_found() {
    for (violation, bug) in [
        (Violation::Silence, consuming::PlantedBug::NoDeadlines),
        (Violation::Omits, consuming::PlantedBug::NoDeadlines),
        (Violation::Omits, consuming::PlantedBug::Leak),
    ] {
        let found = (0..PATIENCE).find_map(|seed| consuming(seed, &[violation], &volumes(seed), bug).err());
        eprintln!("{found:?}");
        assert!(found.is_some(), "{bug:?} is not found in {PATIENCE} trials of {violation:?}");
    }
}
