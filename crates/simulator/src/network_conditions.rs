//! What a trial's network is like: how long chunks travel, how large they are, and how often a stream is reset.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::dice::Odds;

/// What the network is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkConditions {
    /// How long a chunk travels.
    pub delay: RangeInclusive<Duration>,
    /// The longest chunk, in bytes.
    pub longest: usize,
    /// How often, for each step, a stream is reset.
    pub cuts: Odds,
}
