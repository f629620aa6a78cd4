//! An NFS server whose machine loses its power, and clients that lose their connections, by seed; and the bugs that this must find.
//!
//! The server is whole: connections with their queues of the file system, the group, stable storage. Every message between them, every request and every
//! record on the wire arrives when the seed says so, in any order that queues allow. Clients are models of what the standard asks of one: they replay slots on
//! other connections, come back after a restart, reclaim, and write again what a verifier says is lost (RFC 8881 §2.10.6, §8.4, §18.3, §18.32).
//!
//! Judged is what clients were promised:
//!
//! * what was written durably, or committed under the verifier it was written under, is there after a crash;
//! * no request is carried out twice, and each of its answers is the same;
//! * no two clients have shares or locks that conflict, as each knows of its own by its lease;
//! * no write takes effect after a CLOSE, or against a deny mode, that was answered;
//! * nobody reclaims what another has had meanwhile.

#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    missing_debug_implementations,
    reason = "a test has no readers from outside"
)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod bug;
mod client;
#[path = "../common/mod.rs"]
mod common;
mod content;
mod dice;
mod holding;
mod scene;
mod seen;
mod world;

use bug::Bug;
use seen::Seen;
use world::World;

/// Steps of a trial.
const STEPS: usize = 4000;
/// Trials of a unit run.
const TRIALS: u64 = 300;
/// A planted bug must be found within so many trials.
const PATIENCE: u64 = 300;

fn trial(seed: u64, bug: Bug) -> Result<Seen, String> {
    World::new(seed, bug).run(STEPS)
}

#[test]
fn promises_are_kept() {
    let mut seen = Seen::default();
    let ran = dice::run("promises_are_kept", TRIALS, |seed| {
        seen.add(&trial(seed, Bug::None)?);
        Ok(())
    });
    eprintln!("{seen:?}");
    if ran >= TRIALS {
        seen.demand();
    }
}

#[test]
fn every_planted_bug_is_found() {
    for (bug, words) in Bug::ALL {
        let mut other = Vec::new();
        let found = (0..PATIENCE).find_map(|seed| {
            let what = trial(seed, bug).err()?;
            if what.contains(words) {
                Some((seed, what))
            } else {
                other.push(what);
                None
            }
        });
        let (seed, what) = found.unwrap_or_else(|| panic!("{bug:?} is not found; but {other:?}"));
        eprintln!("{bug:?}, seed {seed}: {what}");
    }
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for bug in [Bug::None, Bug::SharesAreNotJudged] {
        for seed in 0..5 {
            assert_eq!(trial(seed, bug), trial(seed, bug), "{bug:?}, seed {seed}");
        }
    }
}
