//! Every limit of the vhost-user device, with its unit and the reason for its value.

use std::time::Duration;

/// Queues that are offered: one for each processor of usual guests.
pub(crate) const QUEUES: u16 = 16;

/// Entries of a queue at most (VIRTIO 1.2 §2.7 allows 32,768); QEMU makes 128.
pub(crate) const QUEUE_SIZE: u16 = 1024;

/// Pieces of guest memory in one request: what fits a queue of 128 beside header and status.
pub(crate) const MOST_SEGMENTS: u32 = 126;

/// Bytes of the longest read or write. Guests send 1 MiB or so; this bounds what a hostile one makes us keep.
pub(crate) const LARGEST: u32 = 32 << 20;

/// Sectors in one discard or zeroing at most: 2 GiB, so that none takes long.
pub(crate) const RANGE_SECTORS: u64 = 1 << 22;

/// Regions of guest memory that come one by one, and those of a table: what Linux' kernel takes (509), and with it QEMU and libblkio.
pub(crate) const REGIONS: usize = 509;

/// Pieces of memory in all requests under way on a queue, for each of its entries; another request is taken in any case when none is under way. Linux' guests have fewer in
/// most of theirs, and one that means harm cannot make us remember 256 in each.
pub(crate) const PIECES_PER_ENTRY: usize = 16;

/// Descriptions of buffers that a queue keeps to use them again: those of a usual queue depth.
pub(crate) const SPARE_CHAINS: usize = 64;

/// Requests of one queue that are begun in one turn before the next queue has its own.
pub(crate) const TURN_REQUESTS: usize = 64;

/// Front ends at a time: each has a thread for its socket, and queues.
pub(crate) const FRONT_ENDS: usize = 64;

/// How long a core may take to answer the thread of a front end's socket: far longer than a turn, and shorter than a volume may need for what is under way (which is waited for
/// separately).
pub(crate) const CORE_TIME: Duration = Duration::from_secs(10);
