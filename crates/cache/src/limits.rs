//! Every number of the cache, with its unit and its reason.

use core::time::Duration;

/// Pages of a line: as many as a set of pages has bits. With pages of 512 bytes a line has 64 KiB at most, with pages of 4 KiB 512 KiB.
pub(crate) const PAGES: u32 = 128;
/// Bytes of a line unless `line=` says otherwise: a miss that is inserted costs one write, and the map of 1 GiB has 16,384 entries.
pub(crate) const LINE: u64 = 64 << 10;
/// The shortest line in bytes: a physical block of most media.
pub(crate) const SHORTEST_LINE: u64 = 4 << 10;
/// Slots in which a line may lie. More find better victims, and cost a longer search.
pub(crate) const WAYS: u64 = 16;
/// Bytes of a stream of neighbouring requests from which it is not inserted, unless `bypass=` says otherwise.
pub(crate) const BYPASS: u64 = 1 << 20;
/// Streams that a queue watches at a time: more than most programs have, few enough to compare with each request.
pub(crate) const STREAMS: usize = 8;
/// Percent of all lines that may be dirty before write-back goes on beside requests, unless `dirty=` says otherwise.
pub(crate) const DIRTY_PERCENT: u64 = 50;
/// How long nobody must have asked for anything before all that is dirty is written back, unless `idle=` says otherwise.
pub(crate) const IDLE: Duration = Duration::from_secs(1);
/// Bytes in the longest transfer: what a request needs in copies, where it lies in several places, is the queue's own memory.
pub(crate) const MAX_TRANSFER: u32 = 1 << 20;
/// Requests of one queue at a time: each may have several under way at the volumes below.
pub(crate) const DEPTH: u32 = 256;
/// Ended jobs whose memory a queue keeps for the next ones, some hundred bytes each: as many as most loads have under way.
pub(crate) const SPARE_JOBS: usize = 64;
/// Bytes of a queue's own memory for requests that lie in several places, and for comparisons: some of the longest ones. Taken only when used.
pub(crate) const OWN_MEMORY: usize = 16 << 20;
/// Map blocks that one commit writes, and so the most memory that it needs beside: 1 MiB with blocks of 4 KiB. What has changed beyond that is the next one's.
pub(crate) const COMMIT_BLOCKS: usize = 256;
/// Lines that one queue writes back at a time.
pub(crate) const WRITE_BACKS: usize = 16;
/// Insertions that one queue has under way: what is read meanwhile is not inserted.
pub(crate) const INSERTIONS: usize = 16;
/// How soon a queue looks again for something to write back while requests go on.
pub(crate) const TICK: Duration = Duration::from_millis(10);
/// How long write-back waits after the capacity volume has failed a write, a read or a flush of it.
pub(crate) const RETRY: Duration = Duration::from_secs(1);
/// Bytes that are read or written in one piece while a cache is opened.
pub(crate) const OPEN_TRANSFER: u64 = 1 << 20;
/// Turns in which a queue looks again at once for what its own calls have brought.
pub(crate) const TURNS: usize = 4;
/// Ranges of lost data that are told one by one.
pub(crate) const TOLD_RANGES: usize = 16;
/// Bytes of the capacity volume's name that the superblock keeps.
pub(crate) const NAME: usize = 192;
