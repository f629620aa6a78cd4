//! Limits of ublk devices, with unit and reason.

use std::time::Duration;

/// Requests under way at a time on each queue: what Linux gives its other network disks.
pub(crate) const DEPTH: u16 = 128;

/// Requests under way at a time on all queues together: of the longest, 256 MiB.
pub(crate) const REQUESTS: u16 = 512;

/// Bytes in one request at most: what Linux makes of large I/O anyway.
pub(crate) const TRANSFER: u32 = 512 << 10;

/// Queues at most: beyond it a machine's processors share them.
pub(crate) const QUEUES: u16 = 32;

/// Sectors in one discard or zeroing at most: a GiB, so that none takes long.
pub(crate) const RANGE: u32 = 1 << 21;

/// How long the driver may take to notice that the server before is dead.
pub(crate) const QUIESCE: Duration = Duration::from_secs(30);

/// How long to wait between two looks for that.
pub(crate) const LOOK: Duration = Duration::from_millis(50);
