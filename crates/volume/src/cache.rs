//! What a volume that caches another one tells of itself, and how it is left in order. It is here, as whoever serves volumes knows no cache.

use core::fmt;

use crate::LeaveControl;

/// When a cache acknowledges writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheMode {
    /// When the capacity volume has them: a fast volume that dies loses nothing.
    #[default]
    Through,
    /// When the fast volume has them; they are written back later.
    Back,
}

/// How a cache is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheState {
    /// It works.
    Working,
    /// It is about to be left in order.
    Detaching,
    /// It was left in order: what the fast volume holds is believed when it is used again.
    Detached,
    /// The fast volume has failed, and nothing is lost: everything goes to the capacity volume.
    Off,
    /// The fast volume has failed, and had data that the capacity volume lacks, or would bring older data back.
    Lost,
}

impl CacheState {
    /// In a word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Detaching => "detaching",
            Self::Detached => "detached",
            Self::Off => "off",
            Self::Lost => "lost",
        }
    }
}

/// A cache at a moment. Counts begin when it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheStatus {
    /// When writes are acknowledged.
    pub mode: CacheMode,
    /// How it is.
    pub state: CacheState,
    /// Places for lines.
    pub lines: u32,
    /// Lines that it holds.
    pub lines_in_use: u32,
    /// Bytes of a line.
    pub line_bytes: u32,
    /// Bytes of which the fast volume has the only copy; in the state `Lost`, bytes that are lost unless it comes back.
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

impl fmt::Display for CacheStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reads = self.hits.saturating_add(self.misses);
        let percent = self.hits.saturating_mul(100).checked_div(reads).unwrap_or(0);
        write!(
            f,
            "{}: {} of {reads} reads hit ({percent} %), {} of {} lines of {} bytes in use, {} came in and {} made room, {} requests went past, {} bytes \
             dirty, {} bytes written back",
            self.state.word(),
            self.hits,
            self.lines_in_use,
            self.lines,
            self.line_bytes,
            self.insertions,
            self.evictions,
            self.bypassed,
            self.dirty_bytes,
            self.written_back
        )
    }
}

/// A cache, for whoever runs it. It is [left](LeaveControl::leave) in order so that what the fast volume holds is believed when it is used again: writes are refused
/// from then on, as they would make its copies wrong, and reads go on. [`CacheStatus::state`] tells when it is done.
pub trait CacheControl: LeaveControl {
    /// How it is now.
    fn status(&self) -> CacheStatus;
}
