//! Times of objects.

/// A point in time, as nfstime4 has it (RFC 8881 §3.3.1): seconds since 1970-01-01 00:00 UTC, negative before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time {
    /// Whole seconds, rounded down.
    pub seconds: i64,
    /// Nanoseconds after them, below 1,000,000,000.
    pub nanos: u32,
}
