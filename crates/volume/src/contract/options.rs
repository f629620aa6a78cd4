//! What a check is given.

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
