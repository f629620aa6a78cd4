//! Every limit of the FUSE file, with its unit and the reason for its value.

use std::time::Duration;

/// Bytes of the longest write that the kernel hands over: 256 pages, which is the kernel's own limit.
pub(crate) const TRANSFER: u32 = 1 << 20;

/// Requests that the kernel keeps under way for asynchronous I/O: what a loop device sends at a time.
pub(crate) const BACKGROUND: u16 = 128;

/// Requests under way at a time. The kernel bounds its asynchronous ones only; each program that waits for its own has one more for each thread.
pub(crate) const REQUESTS: usize = 1024;
/// How long the kernel may believe the file's size: a volume may grow.
pub(crate) const FRESH: Duration = Duration::from_secs(1);

/// Threads that take requests from the kernel. It waits only when the volume is at its depth, or more than [`SLOW`] others wait.
pub(crate) const THREADS: usize = 1;

/// Threads that wait for parts of blocks, zeroing, and what is longer than one transfer, beside the one that takes requests: a
/// few, since whole blocks need none.
pub(crate) const SLOW: usize = 3;
