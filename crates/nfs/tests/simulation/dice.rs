//! The only source of chance in a world, and what a seed that fails prints.

use protocol::{Entropy, SeededEntropy};

/// Runs one seed only: the replay of a failure.
const SEED: &str = "LINERATE_SEED";
/// Runs this many seeds instead of the usual number: long runs.
const SEEDS: &str = "LINERATE_SEEDS";

/// Throws that a seed decides.
pub struct Dice(SeededEntropy);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(SeededEntropy::new(seed))
    }

    /// A number below `limit`, which is not zero.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.0.number() % u64::try_from(limit).unwrap()).unwrap()
    }

    /// Whether it happens this time: so many times in a thousand.
    pub fn happens(&mut self, odds: usize) -> bool {
        self.below(1000) < odds
    }

    pub fn coin(&mut self) -> bool {
        self.happens(500)
    }

    pub fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    pub fn entropy(&mut self) -> &mut dyn Entropy {
        &mut self.0
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs a trial for `0..usual`, or for the seeds that the environment names; how many those were.
pub fn run(test: &str, usual: u64, mut trial: impl FnMut(u64) -> Result<(), String>) -> u64 {
    let seeds = match (number(SEED), number(SEEDS)) {
        (Some(seed), _) => seed..seed + 1,
        (None, count) => 0..count.unwrap_or(usual),
    };
    let count = seeds.end - seeds.start;
    for seed in seeds {
        if let Err(what) = trial(seed) {
            panic!("seed {seed}: {what}; replay: {SEED}={seed} cargo test -p nfs --test simulation {test}");
        }
    }
    count
}
