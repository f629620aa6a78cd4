//! The state store on a folder that crashes, by seed; and what the store would get wrong if it forgot a sync.

use simulator::Odds;
use simulator::folder::{FolderOptions, PlantedBug};
use simulator::records::records;
use simulator::replay;

/// Processes, one after the other, in each trial.
const PROCESSES: usize = 12;
/// Trials.
const TRIALS: u64 = 400;

#[test]
fn records_outlive_crashes() {
    let options = FolderOptions { errors: Odds::NEVER, bug: PlantedBug::None };
    replay::run("records_outlive_crashes", TRIALS, |seed| records(seed, PROCESSES, options));
}

#[test]
fn records_outlive_crashes_and_errors() {
    let options = FolderOptions { errors: Odds(50), bug: PlantedBug::None };
    replay::run("records_outlive_crashes_and_errors", TRIALS, |seed| records(seed, PROCESSES, options));
}

#[test]
fn every_forgotten_sync_is_found() {
    for bug in [PlantedBug::Files, PlantedBug::Folders, PlantedBug::Root] {
        let options = FolderOptions { errors: Odds::NEVER, bug };
        let found = (0..TRIALS).find_map(|seed| records(seed, PROCESSES, options).err());
        assert!(found.is_some(), "a store that does not sync {bug:?} passes {TRIALS} trials");
    }
}
