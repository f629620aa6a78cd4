//! How much one queue of a file volume takes on.

/// Requests that a queue holds at a time; more are refused with `QueueFull`. Enough to keep the fastest drives busy.
pub(super) const DEPTH: u32 = 1024;
/// Bytes of aligned memory for verify, compare and odd buffers: eight of the longest transfers.
pub(super) const SCRATCH: usize = 8 * buf::LARGEST;
/// Bytes that one write of zeros carries, where the file cannot zero a range by itself.
pub(super) const ZERO_CHUNK: u64 = 1 << 20;
