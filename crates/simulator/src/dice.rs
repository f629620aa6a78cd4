//! The only source of chance in a world.

use std::ops::RangeInclusive;
use std::time::Duration;

use protocol::{Entropy, SeededEntropy};

/// Throws that a seed decides.
#[derive(Debug, Clone)]
pub struct Dice(SeededEntropy);

/// How often something happens: so many times in a thousand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Odds(
    /// From 0 (never) to 1000 (always).
    pub u16,
);

impl Odds {
    /// It does not happen.
    pub const NEVER: Self = Self(0);
}

impl Dice {
    /// The throws that belong to `seed`.
    pub fn new(seed: u64) -> Self {
        Self(SeededEntropy::new(seed))
    }

    /// Dice of their own for a part of the world, so that its throws do not depend on those of other parts.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::new(self.0.number())
    }

    /// A number below `limit`; zero when `limit` is.
    pub fn below(&mut self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { self.0.number() % limit }
    }

    /// A place in something `len` long; zero when it is empty.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// A number within the range.
    pub fn within(&mut self, range: RangeInclusive<usize>) -> usize {
        let span = range.end().saturating_sub(*range.start());
        range.start() + self.index(span + 1)
    }

    /// Whether it happens this time.
    pub fn happens(&mut self, odds: Odds) -> bool {
        self.below(1000) < u64::from(odds.0)
    }

    /// One of two.
    pub fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    /// A span of time within the range.
    pub fn span(&mut self, range: &RangeInclusive<Duration>) -> Duration {
        let width = range.end().saturating_sub(*range.start());
        let nanos = protocol::nanos(width);
        *range.start() + Duration::from_nanos(self.below(nanos.saturating_add(1)))
    }
}

impl Entropy for Dice {
    fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill(bytes);
    }
}
