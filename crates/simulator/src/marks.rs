//! Which mark of a clean stop a trial's server keeps, and how carefully.

/// What the servers of a trial, one after the other, say of their incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// Nothing, as targets of other makes.
    Absent,
    /// Each another mark, but for one that follows a clean stop.
    Fresh,
    /// All the same mark, which is a lie.
    Kept,
    /// As [`Marks::Fresh`], but a stop is called clean without a flush.
    Hasty,
    /// As [`Marks::Fresh`], but the record of a clean stop is neither kept nor removed durably.
    Unsynced,
}
