//! Every limit of the vhost-user device, with its unit and the reason for its value.

/// Queues that are offered: one for each processor of usual guests.
pub(crate) const QUEUES: u16 = 16;

/// Entries of a queue at most (VIRTIO 1.2 §2.7 allows 32,768); QEMU makes 128.
pub(crate) const QUEUE_SIZE: u16 = 1024;

/// Pieces of guest memory in one request: what fits a queue of 128 beside header and status.
pub(crate) const MOST_SEGMENTS: u32 = 126;

/// Bytes of the longest read or write. Guests send 1 MiB or so; this bounds what a hostile one makes us keep.
pub(crate) const LARGEST: u32 = 32 << 20;

/// Regions of guest memory: what QEMU's table holds.
pub(crate) const REGIONS: usize = 64;

/// Bytes of data of the requests under way on one queue: the longest of them, or 32 of those that guests send. A guest can name the same memory of its
/// own in all of them, so that its size bounds nothing.
pub(crate) const QUEUE_MEMORY: usize = 32 << 20;
