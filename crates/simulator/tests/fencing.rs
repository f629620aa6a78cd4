//! Who is fenced writes nothing any more once the one who fences has been answered: over both protocols at once, on several cores, by
//! seed; and the bugs that this must find.

mod common;

use common::{iscsi_access, iscsi_listener, nvme_access, nvme_listener};
use engine::ListenerRole;
use simulator::fencing::{PlantedBug, Scenario, fencing};
use simulator::replay;
use volume::Volume;

/// Changes of the holder in each trial.
const CHANGES: usize = 6;
/// iSCSI clients, the others being NVMe hosts, and cores: a seed has one of these, so that thousands of seeds take no longer than they must.
const KINDS: [(u8, u16); 5] = [(4, 1), (4, 3), (0, 1), (0, 3), (2, 2)];
/// Trials: fifteen of each.
const TRIALS: u64 = 15 * KINDS.len() as u64;
/// A planted bug must be found within so many trials.
const PATIENCE: u64 = 40;

fn listeners(volume: &dyn Volume) -> Vec<ListenerRole> {
    [iscsi_listener(volume, None), nvme_listener(volume, None)].into_iter().flatten().collect()
}

/// Four clients: of iSCSI, of NVMe, or two of each.
fn scenario(iscsi: u8, cores: u16) -> Scenario {
    let client = |number| match number {
        number if number < iscsi => {
            (1, iscsi_access(&format!("?initiator=iqn.2026-11.org.example:{number}&timeout=1s")))
        }
        number => {
            let host = format!(
                "?hostnqn=nqn.2026-11.org.example:{number}&hostid=00000000-0000-4000-8000-00000000000{number}"
            );
            (2, nvme_access(&host))
        }
    };
    Scenario { listeners, clients: (0..4).map(client).collect(), cores }
}

#[test]
fn no_fenced_write_takes_effect() {
    replay::run("no_fenced_write", TRIALS, |seed| {
        let (iscsi, cores) = replay::in_turn(&KINDS, seed);
        fencing(seed, CHANGES, &scenario(iscsi, cores), PlantedBug::None)
            .map_err(|what| format!("{iscsi} iSCSI clients, {cores} cores: {what}"))
    });
}

fn is_found(bug: PlantedBug) {
    for (iscsi, cores) in [(4, 1), (4, 2), (0, 2), (2, 3)] {
        let scenario = scenario(iscsi, cores);
        let found = (0..PATIENCE).find_map(|seed| fencing(seed, CHANGES, &scenario, bug).err());
        let found = found.is_some_and(|what| what.to_string().contains("takes effect"));
        assert!(
            found,
            "{bug:?} is not found in {PATIENCE} trials with {iscsi} iSCSI clients and {cores} cores"
        );
    }
}

#[test]
fn an_acknowledgement_before_older_requests_have_ended_is_found() {
    is_found(PlantedBug::EarlyAcknowledgement);
}

#[test]
fn a_view_that_comes_late_is_found() {
    is_found(PlantedBug::LateView);
}

#[test]
fn a_request_that_is_taken_behind_the_fence_that_overtook_it_is_found() {
    is_found(PlantedBug::EpochStands);
}

#[test]
fn the_same_seed_gives_the_same_end() {
    let scenario = scenario(2, 3);
    for seed in 0..5 {
        let end = || fencing(seed, CHANGES, &scenario, PlantedBug::EarlyAcknowledgement);
        assert_eq!(end(), end(), "seed {seed}");
    }
}
