//! Peers over software iWARP and software RoCEv2 that break their rules, take what they can get, fall silent or go, of both roles and over both protocols, beside volumes and clients that
//! behave, by seed; and the bugs that this must find.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "common/counting_allocator.rs"]
mod counting_allocator;

mod common;

use std::net::SocketAddr;
use std::time::Duration;

use common::{ROCE, iscsi_listener, iser_scene, nvme_listener, nvme_rdma_scene};
use engine::ListenerRole;
use engine::remote::{ClientContext, Discovery, discover};
use simulator::consuming::{self, consuming};
use simulator::hostile::{self, hostile_over_rdma};
use simulator::hostility::Hostility;
use simulator::rdma_villains::RdmaEvil;
use simulator::replay;
use simulator::roce_villains::RoceEvil;
use volume::Volume;

/// Trials of one kind each: two of every kind of target, one of every kind of initiator, which does more; and of all kinds together.
const TRIALS: u64 = 2 * RdmaEvil::ALL.len() as u64;
const RAIDS: u64 = RdmaEvil::ALL.len() as u64;
/// The same over RoCE, of targets and of initiators: few, as each does much; `make test-full` has more than there are kinds.
const ROCE_TRIALS: u64 = 12;
const ROCE_RAIDS: u64 = 2;
const ROCE_MIXED: u64 = 1;
const MIXED: u64 = 6;
/// Of those that withhold data, more: small requests must not wait behind them, whatever they hold.
const WITHHELD: u64 = 20;
/// A planted bug must be found within so many trials.
const PATIENCE: u64 = 5;
/// Options of the volumes on hostile servers, and how long a request may take with them, as over TCP (`tests/consuming.rs`).
const OPTIONS: [&str; 2] = ["?timeout=1s&reconnect=1s", "?timeout=1s&reconnect=1s&crc=1"];
const ROCE_OPTIONS: &str = "?transport=roce&timeout=1s&reconnect=1s";
const BOUNDS: [Duration; 2] = [Duration::from_secs(19), Duration::from_secs(51)];

fn listeners(volume: &dyn Volume) -> Vec<ListenerRole> {
    [iscsi_listener(volume, None), nvme_listener(volume, None)].into_iter().flatten().collect()
}

/// A server whose clients behave or do not.
fn server(cores: u16) -> hostile::Scenario {
    server_over("", cores)
}

/// The same over what the options say.
fn server_over(options: &str, cores: u16) -> hostile::Scenario {
    let clients = vec![(1, iser_scene(options).access), (2, nvme_rdma_scene(options).access)];
    hostile::Scenario { listeners, clients, cores, heap: counting_allocator::heap }
}

#[test]
fn no_evil_of_an_initiator_or_host_harms_those_who_behave() {
    replay::run("no_evil_of_an_initiator", RAIDS, |seed| {
        let evil = replay::in_turn(&RdmaEvil::ALL, seed);
        hostile_over_rdma(seed, &[evil], &server(1), hostile::PlantedBug::None).map(drop)
    });
}

#[test]
fn all_evils_of_initiators_and_hosts_together_harm_nobody_who_behaves() {
    replay::run("all_evils_of_initiators", MIXED, |seed| {
        let server = server(replay::in_turn(&[1, 2], seed));
        // Behind noise a write may go to any block, so that what is read could not be checked.
        let evils: Vec<_> = RdmaEvil::ALL.into_iter().filter(|evil| *evil != RdmaEvil::Noise).collect();
        hostile_over_rdma(seed, &evils, &server, hostile::PlantedBug::None).map(drop)
    });
}

#[test]
fn no_evil_of_an_initiator_or_host_over_roce_harms_those_who_behave() {
    replay::run("no_evil_of_an_initiator_or_host_over_roce", ROCE_RAIDS, |seed| {
        let evil = replay::in_turn(&RoceEvil::ALL, seed);
        hostile_over_rdma(seed, &[evil], &server_over(ROCE, 1), hostile::PlantedBug::None).map(drop)
    });
}

#[test]
fn all_evils_of_initiators_and_hosts_over_roce_together_harm_nobody_who_behaves() {
    replay::run("all_evils_of_initiators_and_hosts_over_roce", ROCE_MIXED, |seed| {
        let server = server_over(ROCE, replay::in_turn(&[1, 2], seed));
        hostile_over_rdma(seed, &RoceEvil::ALL, &server, hostile::PlantedBug::None).map(drop)
    });
}

#[test]
fn who_withholds_its_data_harms_nobody_who_behaves() {
    replay::run("who_withholds_its_data", WITHHELD, |seed| {
        hostile_over_rdma(seed, &[RdmaEvil::NoData], &server(1), hostile::PlantedBug::None).map(drop)
    });
}

fn ask(portal: &str, address: SocketAddr, context: &ClientContext) -> Discovery {
    discover(address, &portal.parse().unwrap(), None, context)
}

/// Volumes whose servers behave or do not.
fn volumes(seed: u64) -> consuming::Scenario {
    let discover: consuming::Discover = [
        |address, around| ask("iser://127.0.0.1", address, around),
        |address, around| ask("nvme+rdma://127.0.0.1", address, around),
    ];
    volumes_with(replay::in_turn(&OPTIONS, seed), discover)
}

/// The same over RoCE.
fn volumes_over_roce() -> consuming::Scenario {
    let discover: consuming::Discover = [
        |address, around| ask("iser://127.0.0.1?transport=roce", address, around),
        |address, around| ask("nvme+rdma://127.0.0.1?transport=roce", address, around),
    ];
    volumes_with(ROCE_OPTIONS, discover)
}

fn volumes_with(options: &str, discover: consuming::Discover) -> consuming::Scenario {
    let access = [iser_scene(options).access, nvme_rdma_scene(options).access];
    consuming::Scenario { listeners, access, bounds: BOUNDS, discover, heap: counting_allocator::heap }
}

#[test]
fn no_evil_of_a_target_or_controller_harms_who_uses_it() {
    replay::run("no_evil_of_a_target", TRIALS, |seed| {
        let evil = replay::in_turn(&RdmaEvil::ALL, seed / 2);
        consuming(seed, &[evil], &volumes(seed), consuming::PlantedBug::None)
    });
}

#[test]
fn all_evils_of_targets_and_controllers_together_harm_nobody() {
    replay::run("all_evils_of_targets", MIXED, |seed| {
        consuming(seed, &RdmaEvil::ALL, &volumes(seed), consuming::PlantedBug::None)
    });
}

#[test]
fn no_evil_of_a_target_or_controller_over_roce_harms_who_uses_it() {
    replay::run("no_evil_of_a_target_or_controller_over_roce", ROCE_TRIALS, |seed| {
        let evil = replay::in_turn(&RoceEvil::ALL, seed);
        consuming(seed, &[evil], &volumes_over_roce(), consuming::PlantedBug::None)
    });
}

#[test]
fn all_evils_of_targets_and_controllers_over_roce_together_harm_nobody() {
    replay::run("all_evils_of_targets_and_controllers_over_roce", ROCE_MIXED, |seed| {
        consuming(seed, &RoceEvil::ALL, &volumes_over_roce(), consuming::PlantedBug::None)
    });
}

fn is_found_at_a_server<E: Hostility>(evil: E, options: &str, bug: hostile::PlantedBug) {
    let server = server_over(options, 1);
    let found =
        (0..PATIENCE).find_map(|seed| Some((seed, hostile_over_rdma(seed, &[evil], &server, bug).err()?)));
    eprintln!("{bug:?}: {found:?}");
    assert!(found.is_some(), "{bug:?} is not found in {PATIENCE} trials of {evil:?}");
}

/// A server's deadlines are not among them: those who are hostile here give up before, and their connections end. Over TCP they are (`tests/hostile.rs`), and over RDMA
/// each has a test of its protocol.
#[test]
fn bugs_of_a_server_are_found() {
    is_found_at_a_server(RdmaEvil::NoData, "", hostile::PlantedBug::NoLimit);
    is_found_at_a_server(RdmaEvil::Close, "", hostile::PlantedBug::Leak);
    is_found_at_a_server(RoceEvil::NoData, ROCE, hostile::PlantedBug::NoLimit);
    is_found_at_a_server(RoceEvil::Silence, ROCE, hostile::PlantedBug::Leak);
}

fn is_found_at_a_client<E: Hostility>(
    evil: E,
    volumes: impl Fn(u64) -> consuming::Scenario,
    bug: consuming::PlantedBug,
) {
    let found =
        (0..PATIENCE).find_map(|seed| Some((seed, consuming(seed, &[evil], &volumes(seed), bug).err()?)));
    eprintln!("{bug:?}: {found:?}");
    assert!(found.is_some(), "{bug:?} is not found in {PATIENCE} trials of {evil:?}");
}

#[test]
fn bugs_of_a_client_are_found() {
    is_found_at_a_client(RdmaEvil::Silence, volumes, consuming::PlantedBug::NoDeadlines);
    is_found_at_a_client(RdmaEvil::Omits, volumes, consuming::PlantedBug::NoDeadlines);
    is_found_at_a_client(RdmaEvil::Omits, volumes, consuming::PlantedBug::Leak);
    is_found_at_a_client(RoceEvil::Silence, |_| volumes_over_roce(), consuming::PlantedBug::NoDeadlines);
    is_found_at_a_client(RoceEvil::Empty, |_| volumes_over_roce(), consuming::PlantedBug::Leak);
    is_found_at_a_client(RoceEvil::Repeats, |_| volumes_over_roce(), consuming::PlantedBug::Greedy);
}
