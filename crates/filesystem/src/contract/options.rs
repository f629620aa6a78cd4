//! What a check is given.

use crate::Credentials;

/// What a file system is expected to be, and how hard to look.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where all random choices begin.
    pub seed: u64,
    /// Random steps of the checks against a model.
    pub steps: u32,
    /// Entries of the directory that is listed while it changes.
    pub entries: u32,
    /// Milliseconds without a completion after which a request counts as lost.
    pub patience: u32,
    /// In whose name everything is done that needs no other: it may change the root directory.
    pub caller: Credentials,
    /// A user that is neither root nor in any group of others, and another. Used where [`Features::CALLER_IDENTITY`](crate::Features::CALLER_IDENTITY) is.
    pub strangers: [Credentials; 2],
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            steps: 300,
            entries: 600,
            patience: 20_000,
            caller: Credentials::of(0, 0),
            strangers: [Credentials::of(5_001, 6_001), Credentials::of(5_002, 6_002)],
        }
    }
}
