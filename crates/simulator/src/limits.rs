//! The simulator's own numbers, with unit and reason.

/// Operations that one queue of a crash disk holds: few, so that being full is met often.
pub const DISK_DEPTH: usize = 32;

/// Versions of one piece that the checker keeps before it drops those that can no longer be met.
pub const VERSIONS: usize = 24;
