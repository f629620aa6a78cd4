//! What all parts of a world share: chance, time, faults, and what is remembered to judge by.

use std::collections::{BTreeMap, BTreeSet};

use protocol::Instant;

use crate::bug::Bug;
use crate::dice::Dice;
use crate::seen::Seen;

/// What all clients of a world share.
pub struct Scene {
    pub dice: Dice,
    pub now: Instant,
    pub bug: Bug,
    pub crashes: usize,
    /// When the server started last.
    pub restarted: Instant,
    pub seen: Seen,
    /// Opens whose end was answered: nothing may happen by them any more.
    pub ended: BTreeSet<u64>,
    /// Writes of shared files, by what they write: by which open, and which.
    pub puts: BTreeMap<u64, (Option<u64>, usize)>,
    /// Faults and new work are over.
    pub calm: bool,
    last: u64,
    pub xid: u32,
}

impl Scene {
    pub fn new(seed: u64, bug: Bug) -> Self {
        Self {
            dice: Dice::new(seed),
            now: Instant::ZERO,
            bug,
            crashes: 0,
            restarted: Instant::ZERO,
            seen: Seen::default(),
            ended: BTreeSet::new(),
            puts: BTreeMap::new(),
            calm: false,
            last: 0,
            xid: 0,
        }
    }

    pub fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

/// Handles of what is served.
#[derive(Clone, Default)]
pub struct Handles {
    pub directory: Vec<u8>,
    /// The shared files, and behind them each client's own.
    pub files: Vec<Vec<u8>>,
}
