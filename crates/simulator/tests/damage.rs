//! A network that flips bits of headers and data, by seed, in both directions and over both protocols: digests find each of them. And the
//! ends that do not look at them, which this must find.

mod common;

use common::{iscsi_scene, nvme_scene};
use simulator::damage::PlantedBug;
use simulator::failure::TrialFailure;
use simulator::lasting::damaged;
use simulator::replay;
use simulator::trial::Scenario;

/// Steps of the client in each trial, and trials for each protocol.
const STEPS: usize = 300;
const TRIALS: u64 = 60;
/// A planted bug must be found within so many trials.
const PATIENCE: u64 = 60;
/// One that does not check headers within so many: most bits of a header are found by what they say.
const LONG_PATIENCE: u64 = 600;
/// Above this many bytes data goes where it belongs at once instead of being copied there.
const PLACED: usize = 8192;

fn scenarios() -> [Scenario; 2] {
    [iscsi_scene("&reconnect=20m"), nvme_scene("&reconnect=20m")]
}

#[test]
fn no_damage_is_read_or_stored() {
    for scenario in scenarios() {
        let mut done = 0;
        replay::run("no_damage_is_read_or_stored", TRIALS, |seed| {
            done += damaged(seed, STEPS, &scenario, PlantedBug::None)?;
            Ok::<(), TrialFailure>(())
        });
        assert!(done > 0, "nothing was damaged in {scenario:?}");
    }
}

fn is_found(bug: PlantedBug, patience: u64) {
    for scenario in scenarios() {
        let found = (0..patience).find_map(|seed| damaged(seed, STEPS, &scenario, bug).err());
        eprintln!("{found:?}");
        assert!(found.is_some(), "{bug:?} is not found in {patience} trials of {scenario:?}");
    }
}

#[test]
fn a_server_that_does_not_check_long_data_is_found() {
    is_found(PlantedBug::ServerUnchecked(PLACED), PATIENCE);
}

#[test]
fn a_client_that_does_not_check_long_data_is_found() {
    is_found(PlantedBug::ClientUnchecked(PLACED), PATIENCE);
}

#[test]
fn an_end_that_does_not_check_headers_is_found() {
    is_found(PlantedBug::ServerHeaders, LONG_PATIENCE);
    is_found(PlantedBug::ClientHeaders, LONG_PATIENCE);
}
