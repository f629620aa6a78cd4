//! Faults that a test plants, so that the simulation can show that it would find them. Not part of the product.

/// What is wrong with the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Planted {
    /// Nothing.
    #[default]
    Nothing,
    /// A commit writes the map before the data that it speaks of is durable.
    MapBeforeData,
    /// A dirty page is given up before the capacity volume durably has what takes its place.
    DropsBeforeFlush,
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
    /// A durable write is acknowledged before it is durable.
    AcknowledgesEarly,
    /// What a fast volume says is believed though it has begun anew.
    TrustsFastAnew,
    /// After the fast volume has failed, what it would hide is written to the capacity volume.
    WritesBelowDirty,
}
