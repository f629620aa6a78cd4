//! Faults that a test plants, so that the simulation can show that it would find them. Not part of the product.

/// What is wrong with the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Planted {
    /// Nothing.
    #[default]
    Nothing,
    /// A commit writes the map before the data that it speaks of is durable.
    MapBeforeData,
    /// A commit takes pages out of the map before the capacity volume has what replaces them.
    MapBeforeRelease,
    /// Pages count as clean before the capacity volume has flushed them.
    CleanBeforeFlush,
    /// A flush does not wait for a commit.
    FlushWithoutCommit,
    /// Clean copies are believed after an end that was not in order.
    TrustsCleanCopies,
    /// A flush of the capacity volume that fails while nobody has asked for one is told to nobody.
    ForgetsFailedFlushes,
    /// A slot is given away though the map still has its pages as dirty.
    ReusesDirtySlots,
    /// After the fast volume has failed, what it would hide is written to the capacity volume.
    WritesBelowDirty,
}
