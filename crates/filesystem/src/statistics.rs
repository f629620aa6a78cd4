//! What a file system has done since it was opened.

/// Counts of all its queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Requests that have ended.
    pub requests: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Bytes that reads gave.
    pub bytes_read: u64,
    /// Bytes that writes took.
    pub bytes_written: u64,
    /// Objects that are open now.
    pub open: u64,
}
