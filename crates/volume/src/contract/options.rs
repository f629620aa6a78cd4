//! What a check is given, and what it ends with.

use std::fmt;

/// What a volume is expected to be, and how hard to look.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Where all random choices begin.
    pub seed: u64,
    /// Random steps of the check against a model.
    pub steps: u32,
    /// Queues that do overlapping I/O at the same time, a thread each; zero or one leaves those checks out.
    pub threads: u16,
    /// Rounds of [`World::idle`] without a completion after which a request counts as lost.
    pub patience: u32,
    /// The volume gives back what was written; false for a null volume.
    pub keeps_data: bool,
    /// The most blocks in a compare-and-write that a volume is asked for: a wire format may have room for no more. Zero leaves the
    /// checks of compare-and-write out: for foreign peers that offer it and do not have it.
    pub longest_compare_and_write: u64,
    /// A comparison that fails names the first differing byte; false only for foreign peers that do not tell it.
    pub names_difference: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            steps: 400,
            threads: 3,
            patience: 5_000,
            keeps_data: true,
            longest_compare_and_write: u64::MAX,
            names_difference: true,
        }
    }
}

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The check that found it, as `docs/volume-contract.md` names it.
    pub check: &'static str,
    /// What was expected and what happened.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.what)
    }
}

impl std::error::Error for Violation {}

/// What a check ends with: nothing, or what went wrong.
pub(super) type Verdict = Result<(), String>;
