//! Copies of a volume on several others.
#![forbid(unsafe_code)]
#![expect(dead_code, reason = "temporary")]

mod bitmap;
mod bits;
mod dirty_log;
mod limits;
mod placement;
mod planted;
mod range_locks;
mod slots;
mod superblock;
