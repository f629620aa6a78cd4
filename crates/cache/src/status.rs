//! What people see of a cache.

use crate::options::Mode;

/// How a cache is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheState {
    /// It works.
    Working,
    /// It writes everything back, to be detached.
    Detaching,
    /// It was detached: the fast volume holds nothing that the capacity volume lacks, and can be used again later.
    Detached,
    /// The fast volume has failed, and nothing is lost: everything goes to the capacity volume.
    Off,
    /// The fast volume has failed, and had data that the capacity volume lacks.
    Lost,
}

/// A cache at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// When writes are acknowledged.
    pub mode: Mode,
    /// How it is.
    pub state: CacheState,
    /// Places for lines.
    pub lines: u32,
    /// Lines that it holds.
    pub lines_in_use: u32,
    /// Bytes of a line.
    pub line_bytes: u32,
    /// Bytes of which the fast volume has the only copy; in the state `Lost`, bytes that are lost.
    pub dirty_bytes: u64,
    /// Reads that the fast volume answered.
    pub hits: u64,
    /// Reads that the capacity volume answered, in part at least.
    pub misses: u64,
    /// Lines that came in, by reads and writes.
    pub insertions: u64,
    /// Reads and writes that went past, as they belong to a long sequential stream.
    pub bypassed: u64,
    /// Lines that made room for others.
    pub evictions: u64,
    /// Bytes that were written back.
    pub written_back: u64,
}
