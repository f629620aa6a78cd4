//! Every number of the library, with its unit and its reason.

use std::time::Duration;

/// Requests of a disk under way on one core, unless a client asks for another number: enough for a fast drive, few
/// enough that their memory is small.
pub(crate) const CLIENT_DEPTH: usize = 128;
/// Bytes that a client's core keeps for reads that bring no memory: thirty-two of 1 MiB and their siblings.
pub(crate) const CLIENT_MEMORY: usize = 64 << 20;
/// Transfers of one long read or write under way at a time: enough to hide a round trip.
pub(crate) const TRANSFER_WINDOW: usize = 8;
/// Bytes of one transfer of a long read or write, where the volume allows it; longer ones only hold memory longer.
pub(crate) const TRANSFER: u32 = 1 << 20;
/// How long connecting, logging in and asking for the geometry may take together.
pub(crate) const OPEN_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes in a chunk of a copy, comparison or sum, where the volumes allow it: enough to hide a round trip, few enough that a
/// window of them is small.
pub(crate) const CHUNK: u64 = CHUNK_LEN as u64;
/// The same as a length in memory.
pub(crate) const CHUNK_LEN: usize = 1 << 20;
/// Bytes of a hole that is zeroed at once: few enough that a slow target answers in time.
pub(crate) const HOLE: u64 = 256 << 20;
/// Buffers of a chunk's size for each chunk under way: two at most, of twice the chunk's size with the blocks around it.
pub(crate) const CHUNK_BUFFERS: usize = 4;
/// Chunks under way at a time, unless the caller asks for another number: as many as a fast network needs.
pub(crate) const CHUNKS: usize = 16;
/// Chunks under way at a time, at most: with their buffers they may take 1 GiB.
pub(crate) const MOST_CHUNKS: usize = 256;
/// Connections to a volume that one job may have, at most: more than any of its targets serves faster.
pub(crate) const MOST_CONNECTIONS: usize = 64;
/// Runs of holes or data that are asked for ahead of a walk: enough to hide a round trip.
pub(crate) const RUNS_AHEAD: usize = 8;
/// Bytes that one allocation query looks over: what SCSI and NVMe can say of blocks of 512 bytes in 32 bits.
pub(crate) const QUERY_BYTES: u64 = 1 << 40;
/// Chunks between a stream's thread and its job: enough that neither waits for the other's every step.
pub(crate) const STREAM_AHEAD: usize = 8;
