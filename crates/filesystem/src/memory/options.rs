//! What a file system in memory is made with.

use crate::Time;

/// How much it may hold, and how it begins.
#[derive(Debug, Clone, Copy)]
pub struct MemoryOptions {
    /// Bytes of content, names and records at most.
    pub bytes: u64,
    /// Objects at most.
    pub inodes: u64,
    /// Where handles and verifiers come from: two of the same seed have the same.
    pub seed: u64,
    /// The time of day at the beginning of the clock.
    pub start: Time,
    /// The user of the root directory.
    pub root_owner: u32,
    /// Its group.
    pub root_group: u32,
    /// Its permission bits.
    pub root_mode: u32,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self {
            bytes: 64 << 20,
            inodes: 1 << 16,
            seed: 1,
            start: Time { seconds: 1_000_000_000, nanos: 0 },
            root_owner: 0,
            root_group: 0,
            root_mode: 0o755,
        }
    }
}
