//! Every limit of the FUSE file, with its unit and the reason for its value.

use std::time::Duration;

/// Bytes of the longest write that the kernel hands over: 256 pages, which is the kernel's own limit.
pub(crate) const TRANSFER: u32 = 1 << 20;

/// Requests that the kernel keeps under way for asynchronous I/O: what a loop device sends at a time.
pub(crate) const BACKGROUND: u16 = 128;

/// How long the kernel may believe the file's size: a volume may grow.
pub(crate) const FRESH: Duration = Duration::from_secs(1);

/// Threads that take requests from the kernel. They wait only for parts of blocks, zeroing, and when the volume is at its depth.
pub(crate) const THREADS: usize = 4;
