//! How much one queue of a file volume takes on.

/// Requests that a queue holds at a time; more are refused with `QueueFull`. Enough to keep the fastest drives busy.
pub(super) const DEPTH: u32 = 1024;
/// Bytes of aligned memory for verify, compare and odd buffers: eight of the longest transfers.
pub(super) const SCRATCH: usize = 8 * buf::LARGEST;
/// Bytes that one write of zeros carries, where the file cannot zero a range by itself.
pub(super) const ZERO_CHUNK: u64 = 1 << 20;
/// Bytes of a volume that one lock covers: what small requests of file systems are aligned to.
pub(super) const LOCK_UNIT: u64 = 4096;
/// Slots that all lock blocks of a volume share: 32 KiB, so that a slot is rarely wanted for two blocks at a time.
pub(super) const LOCK_SLOTS: usize = 8192;
/// Failed attempts after which a queue reserves the locks: no other queue gets one until it has its own.
pub(super) const LOCK_ATTEMPTS: u32 = 64;
