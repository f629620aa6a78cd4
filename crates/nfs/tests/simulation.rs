//! Histories of an NFS server and its clients, one for each seed: crashes, cut connections, absent clients, and messages in any order.
//!
//! `LINERATE_SEEDS` plays so many seeds instead of the usual number; `LINERATE_SEED` plays one, and tells it with `--nocapture`.

mod common;
mod world;

use std::collections::BTreeMap;
use std::ops::Range;

use world::planted::Bug;

/// Seeds of a usual run.
const USUAL: u64 = 60;
/// Seeds among which each planted bug must be found.
const ENOUGH: u64 = 400;

/// What a usual run must come upon, or it tests less than it says.
const WHAT_HAPPENS: [&str; 16] = [
    "absences",
    "client restarts",
    "commits",
    "crashes",
    "durable writes",
    "expiries",
    "locks denied",
    "locks reclaimed",
    "names",
    "opens reclaimed",
    "promises checked",
    "reclaims refused",
    "refused in grace",
    "replays",
    "replies not kept",
    "slots in use",
];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn seeds() -> Range<u64> {
    match (number("LINERATE_SEED"), number("LINERATE_SEEDS")) {
        (Some(seed), _) => seed..seed.saturating_add(1),
        (None, count) => 0..count.unwrap_or(USUAL),
    }
}

#[test]
fn histories_keep_every_promise() {
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in seeds() {
        match world::play(seed, None) {
            Ok(more) => more.into_iter().for_each(|(what, count)| *seen.entry(what).or_default() += count),
            Err(what) => {
                panic!(
                    "seed {seed}: {what}; replay: LINERATE_SEED={seed} cargo test -p nfs --test simulation"
                )
            }
        }
    }
    println!("{seen:?}");
    let all = number("LINERATE_SEED").is_none();
    for what in WHAT_HAPPENS {
        assert!(!all || seen.contains_key(what), "no {what} in any history");
    }
}

/// The first seed with a bug whose history fails as that bug makes it fail, and how.
fn found(bug: Bug, sign: &str) -> Option<(u64, String)> {
    (0..ENOUGH).find_map(|seed| {
        let what = world::play(seed, Some(bug)).err()?;
        what.contains(sign).then_some((seed, what))
    })
}

#[test]
fn planted_bugs_are_found() {
    for (bug, sign) in [
        (Bug::EarlyCommit, "older than what was promised"),
        (Bug::FalseStability, "older than what was promised"),
        (Bug::SameVerifier, "write verifier of an earlier one"),
        (Bug::ForgetfulSlot, "asked twice"),
        (Bug::ForgetfulSlot, "carried out twice"),
        (Bug::BusySlotGivenAway, "asked twice"),
        (Bug::LocksShared, "Lock(Range"),
        (Bug::DenyIgnored, "was granted to"),
        (Bug::NoRecall, "by a withdrawn stateid"),
        (Bug::ShortGrace, "was granted to"),
        (Bug::RecordNotDurable, "was granted to"),
        (Bug::RecordNotRemoved, "which another had since"),
        (Bug::RenewalsLost, "whose lease is alive"),
    ] {
        let found = found(bug, sign);
        println!("{bug:?}: {found:?}");
        assert!(found.is_some(), "{bug:?} is not found in {ENOUGH} seeds");
    }
}
