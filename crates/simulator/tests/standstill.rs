//! A volume stays open while one of its server's two cores stands still, and while the other stops, dies or loses power, by seed; and the
//! bugs that this must find.

mod common;

use common::{iscsi_scene, nvme_scene};
use simulator::careless::Bug;
use simulator::failure::TrialFailure;
use simulator::lasting::{lasting, stopped};
use simulator::marks::Marks;
use simulator::replay;
use simulator::trial::Scenario;

/// Faults in each trial, and trials for each protocol.
const FAULTS: usize = 4;
const TRIALS: u64 = 150;
/// A planted bug must be found within so many trials.
const PATIENCE: u64 = 60;
/// One that needs writes that no core has flushed, and a loss of power behind them, within so many.
const LONG_PATIENCE: u64 = 200;

fn scenarios(options: &str) -> [Scenario; 2] {
    [iscsi_scene(options), nvme_scene(options)].map(|scenario| Scenario { cores: 2, ..scenario })
}

#[test]
fn a_volume_outlasts_a_core_that_stands_still() {
    for scenario in scenarios("") {
        replay::run("a_core_that_stands_still", TRIALS, |seed| lasting(seed, FAULTS, &scenario, Bug::None));
    }
}

#[test]
fn nothing_fails_while_a_core_stands_still_and_the_others_stop() {
    for scenario in scenarios("&reconnect=20m") {
        replay::run("stands_still_and_the_others_stop", TRIALS, |seed| stopped(seed, FAULTS, &scenario));
    }
}

#[test]
fn a_stop_that_is_called_clean_while_cores_are_at_it_is_found() {
    for scenario in scenarios("") {
        let scenario = Scenario { marks: Marks::Hasty, ..scenario };
        let found = (0..LONG_PATIENCE).find_map(|seed| {
            let broken = stopped(seed, FAULTS, &scenario).err();
            broken
                .filter(|failure| matches!(failure.root(), TrialFailure::Content(_)))
                .map(|failure| (seed, failure))
        });
        eprintln!("{found:?}");
        assert!(found.is_some(), "{scenario:?}");
    }
}

#[test]
fn a_flush_that_hides_a_loss_is_found() {
    for scenario in scenarios("") {
        let broken =
            (0..PATIENCE).filter_map(|seed| lasting(seed, FAULTS, &scenario, Bug::HidesLosses).err());
        assert!(
            broken.into_iter().any(|failure| matches!(failure.root(), TrialFailure::Content(_))),
            "{scenario:?}"
        );
    }
}
