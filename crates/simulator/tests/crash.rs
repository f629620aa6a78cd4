//! Nothing that was flushed or written durably is lost, whatever a power cut does; and the checker that says so finds the
//! bugs that it is there for.

use simulator::disk::PlantedBug;
use simulator::losses::{self, Forgets};
use simulator::{Odds, replay, trial};

/// Cuts in each trial.
const CUTS: usize = 20;
/// With so many trials: 10,000 cuts.
const TRIALS: u64 = 500;
/// A planted bug must be found within so many trials.
const PATIENCE: u64 = 50;

#[test]
fn nothing_secured_is_lost_in_ten_thousand_cuts() {
    replay::run("nothing_secured", TRIALS, |seed| trial::crash(seed, CUTS, PlantedBug::None, Odds::NEVER));
}

#[test]
fn nothing_secured_is_lost_on_a_disk_that_fails_now_and_then() {
    replay::run("on_a_disk_that_fails", TRIALS / 5, |seed| {
        trial::crash(seed, CUTS, PlantedBug::None, Odds(30))
    });
}

fn is_found(bug: PlantedBug) {
    let found = (0..PATIENCE).any(|seed| trial::crash(seed, CUTS, bug, Odds::NEVER).is_err());
    assert!(found, "{bug:?} was not found in {PATIENCE} trials of {CUTS} cuts");
}

#[test]
fn a_flush_that_does_nothing_is_found() {
    is_found(PlantedBug::FlushDoesNothing);
}

#[test]
fn an_early_acknowledgement_is_found() {
    is_found(PlantedBug::EarlyAcknowledgement);
}

#[test]
fn a_durable_write_that_stays_in_the_cache_is_found() {
    is_found(PlantedBug::DurableIsCached);
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let lost = |seed| trial::crash(seed, CUTS, PlantedBug::FlushDoesNothing, Odds(30));
    for seed in 0..10 {
        assert_eq!(lost(seed), lost(seed), "seed {seed}");
    }
}

/// Processes that serve a disk one after the other in a trial.
const LIVES: usize = 8;

#[test]
fn no_flush_succeeds_for_a_write_that_a_page_cache_has_lost() {
    replay::run("page_cache_has_lost", TRIALS, |seed| {
        losses::write_back(seed, LIVES, Forgets::Never).map(drop)
    });
    let met = (0..PATIENCE).any(|seed| losses::write_back(seed, LIVES, Forgets::Never) == Ok(true));
    assert!(met, "no loss in {PATIENCE} trials: nothing is shown");
}

#[test]
fn a_loss_that_is_forgotten_is_found() {
    for forgets in [Forgets::AtOnce, Forgets::AtRestart] {
        let found = (0..PATIENCE).any(|seed| losses::write_back(seed, LIVES, forgets).is_err());
        assert!(found, "forgetting {forgets:?} was not found in {PATIENCE} trials of {LIVES} processes");
    }
}
