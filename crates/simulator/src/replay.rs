//! Which seeds a test runs, and the one line that a failure prints.

use std::fmt::Display;
use std::ops::Range;

/// Runs one seed only: the replay of a failure.
pub const SEED: &str = "LINERATE_SEED";
/// Runs this many seeds instead of the usual number: long runs.
pub const SEEDS: &str = "LINERATE_SEEDS";

/// The seeds to run: `0..usual`, unless the environment names one ([`SEED`]) or another number of them ([`SEEDS`]).
pub fn seeds(usual: u64) -> Range<u64> {
    match (number(SEED), number(SEEDS)) {
        (Some(seed), _) => seed..seed.saturating_add(1),
        (None, count) => 0..count.unwrap_or(usual),
    }
}

/// Runs `trial` for each seed of [`seeds`].
///
/// # Panics
/// At the first failure, with one line: what happened, the seed, and the command that plays it again.
#[expect(clippy::panic, reason = "this is how a test fails")]
pub fn run<E: Display>(test: &str, usual: u64, mut trial: impl FnMut(u64) -> Result<(), E>) {
    for seed in seeds(usual) {
        if let Err(what) = trial(seed) {
            panic!("seed {seed}: {what}; replay: {SEED}={seed} cargo test -p simulator {test}");
        }
    }
}

/// The one of `all` whose turn it is with this seed.
///
/// # Panics
/// When there is none.
pub fn in_turn<T: Copy>(all: &[T], seed: u64) -> T {
    let count = wire::widen(all.len());
    all[usize::try_from(seed % count).unwrap_or(0)]
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
