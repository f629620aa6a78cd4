//! Targets and controllers that are hostile, beside honest ones, by seed: what our initiators and hosts promise holds whatever they do; and
//! the bugs that this must find.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "common/counting_allocator.rs"]
mod counting_allocator;

mod common;

use std::net::SocketAddr;
use std::time::Duration;

use common::{iscsi_access, iscsi_listener, nvme_access, nvme_listener};
use engine::ListenerRole;
use engine::remote::{ClientContext, Discovery, discover};
use simulator::consuming::{PlantedBug, Scenario, consuming};
use simulator::replay;
use simulator::villains::Evil;
use volume::Volume;

/// Trials of one kind each, two of every kind, and of all kinds together.
const TRIALS: u64 = 24;
const MIXED: u64 = 20;
/// A planted bug must be found within so many trials.
const PATIENCE: u64 = 5;
/// Options of all volumes, and how long a request may take with them: 2 × 1 s + 2 × 1 s + 15 s. Over NVMe/TCP writes are held for 17 s
/// (docs/volume-contract.md).
const OPTIONS: &str = "?timeout=1s&reconnect=1s";
const BOUNDS: [Duration; 2] = [Duration::from_secs(19), Duration::from_secs(51)];

fn listeners(volume: &dyn Volume) -> Vec<ListenerRole> {
    [iscsi_listener(volume, None), nvme_listener(volume, None)].into_iter().flatten().collect()
}

fn ask(scheme: &str, address: SocketAddr, context: &ClientContext) -> Discovery {
    let url = format!("{scheme}://127.0.0.1").parse().unwrap();
    discover(address, &url, None, context)
}

fn scenario() -> Scenario {
    Scenario {
        listeners,
        access: [iscsi_access(OPTIONS), nvme_access(OPTIONS)],
        bounds: BOUNDS,
        discover: [
            |address, around| ask("iscsi", address, around),
            |address, around| ask("nvme+tcp", address, around),
        ],
        heap: counting_allocator::heap,
    }
}

#[test]
fn no_kind_of_far_end_harms_who_uses_it() {
    let scenario = scenario();
    replay::run("no_kind_of_far_end", TRIALS, |seed| {
        consuming(seed, &[replay::in_turn(&Evil::ALL, seed)], &scenario, PlantedBug::None)
    });
}

#[test]
fn far_ends_of_all_kinds_together_harm_nobody() {
    let scenario = scenario();
    replay::run("far_ends_of_all_kinds", MIXED, |seed| {
        consuming(seed, &Evil::ALL, &scenario, PlantedBug::None)
    });
}

fn is_found(evil: Evil, bug: PlantedBug, words: &str) {
    let scenario = scenario();
    let found = (0..PATIENCE).filter_map(|seed| consuming(seed, &[evil], &scenario, bug).err());
    let found = found.inspect(|what| eprintln!("{what}")).any(|what| what.to_string().contains(words));
    assert!(found, "{bug:?} is not found in {PATIENCE} trials of {evil:?}");
}

#[test]
fn a_deadline_that_is_missing_is_found() {
    is_found(Evil::Silence, PlantedBug::NoDeadlines, "a hostile server takes longer");
    is_found(Evil::Withheld, PlantedBug::NoDeadlines, "a hostile server takes longer");
}

#[test]
fn what_is_taken_in_unwanted_is_found() {
    is_found(Evil::UnreadPings, PlantedBug::Greedy, "is the limit");
}

#[test]
fn memory_that_does_not_come_back_is_found() {
    is_found(Evil::Withheld, PlantedBug::Leak, "are in use");
}
