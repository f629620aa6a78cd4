//! Every limit of this crate, with its unit and the reason for its value.

use std::time::Duration;

/// Legs of one mirror, spares among them: as many volumes as a URL holds in brackets. The superblock has room for just so many.
pub const LEGS: usize = 16;

/// Bytes of each superblock and of each part of the bitmap: one block of the smallest size, as only a block is written all or nothing.
pub const UNIT: usize = 512;

/// Places for the superblock and for each part of the bitmap on each leg: one that a queue left in the middle of a write may still change, so that the
/// other is used.
pub const SLOTS: usize = 2;

/// Regions in one part of the bitmap: the bits in 480 bytes; the rest is its header and its checksum.
pub const PART_REGIONS: u64 = 3840;

/// Parts of the bitmap at most: 64 KiB in all, which are read when a mirror is opened.
pub const PARTS: u64 = 128;

/// Bytes at each leg's end that are the mirror's own: superblocks and bitmap, each part twice, in blocks of up to 4 KiB, with room for more.
pub const RESERVE: u64 = 2 << 20;

/// Bytes at the beginning of a leg without a superblock that must be zeros if another leg's data is to be written over it: where partition tables, file systems
/// and virtual disks have their marks.
pub const HEAD: u64 = 1 << 20;

/// Bytes of a region at least: what is resynchronised for one write that was under way.
pub const SMALLEST_REGION: u64 = 1 << 20;

/// Bytes of the owner's name in the superblock: as many as a host's name has at most.
pub const OWNER: usize = 64;

/// Regions of one discard or write-zeroes at most: their bits are looked at under a lock that all queues share.
pub const ZEROED_REGIONS: u64 = 1024;

/// Requests that one queue takes at a time, at most: each may have a child on each leg.
pub const DEPTH: u32 = 256;

/// Bytes that a queue has for what its requests need beyond their own memory: comparisons, reads across slabs, metadata. Beyond it the heap is used,
/// within [`DEPTH`] transfers.
pub const OWN_MEMORY: usize = 16 << 20;

/// Bytes that are copied at a time while a leg is resynchronised: long enough to be fast, and a write to these blocks waits no longer than for one of them.
pub const CHUNK: u32 = 256 << 10;

/// Bytes a second that resynchronisation copies, unless `rate=` says otherwise: a fifth of a 10 Gbit/s link.
pub const RATE: u64 = 256 << 20;

/// How long a leg may hold up a request that another leg can do without it, unless `timeout=` says otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// Time between two looks at a leg that is out, and between two attempts to record an epoch.
pub const PROBE: Duration = Duration::from_secs(1);

/// How long a keeper that does not attend the mirror waits before it begins to copy: whoever is to attend it opens its queue meanwhile, and no copy is cut off when the
/// other is dropped.
pub const ATTENDANT: Duration = Duration::from_secs(1);

/// Time between two attempts to open a leg that was not there when the mirror was opened.
pub const REOPEN: Duration = Duration::from_secs(10);

/// How long a region has no writes before its bit is cleared: workloads come back to the same regions, and setting a bit costs a write on each leg.
pub const CLEAN_AFTER: Duration = Duration::from_secs(5);

/// Regions that are cleared with one flush, at most.
pub const CLEANED: usize = 4096;

/// How long a leg is left alone after a queue was dropped that had requests there, which may still take effect: as long as a connection that was lost may
/// leave a command behind (docs/volume-contract.md).
pub const ABANDONED: Duration = Duration::from_mins(1);

/// How long a leg is out before a spare takes its place: longer than a machine takes to start again.
pub const SPARE_AFTER: Duration = Duration::from_mins(2);

/// How long leaving a mirror may take until its legs' reservations are given back, or are left as after a crash: a leg that does not answer is out after [`TIMEOUT`], and
/// the record of that takes as long at most. Less than whoever leaves volumes waits.
pub const LEAVE: Duration = Duration::from_secs(15);

/// Time before a request is made again of a leg that had too much to do.
pub const BUSY: Duration = Duration::from_millis(2);

/// Rounds in which one poll looks at its legs again because they were given more to do: then other volumes of the core have their turn.
pub const ROUNDS: usize = 4;

/// How long opening waits for legs that are slow to open: those that are not there by then are missing, and are opened later.
pub const OPEN_WAIT: Duration = Duration::from_secs(5);

/// Questions about one leg's reservation, each for one queue that takes it: two for each owner that is to be preempted, of which a leg has few. One that others
/// change again and again is given up then.
pub const QUESTIONS: u16 = 1000;
