//! How far a request has come: most are one operation on the file, some are several.

use buf::{Buf, BufList};
use volume::{Durability, Extent, Tag};

use volume::range_locks::LockMode;

/// The requests that want a flush. One is under way at a time: of several that wait together the system reports to one that data is lost.
/// A request waits for the next that begins.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    /// Those that the flush under way is for.
    pub(super) under_way: Vec<Active>,
    /// Those that came after it had begun.
    pub(super) next: Vec<Active>,
}

impl Flushes {
    /// The tag of the flush under way: no request under way has it.
    pub(super) const TAG: u64 = u64::MAX;

    /// Requests that wait for a flush.
    pub(super) fn len(&self) -> usize {
        self.under_way.len() + self.next.len()
    }
}

/// A request under way.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) tag: Tag,
    pub(super) extent: Extent,
    /// How it locks the extent until it ends.
    pub(super) lock: LockMode,
    pub(super) stage: Stage,
}

/// What the operation that is under way means to its request.
#[derive(Debug)]
pub(super) enum Stage {
    /// Its end is the request's.
    Only,
    /// A write, to be durable by itself.
    DurableWrite,
    /// A write into the page cache.
    Write {
        /// Flush afterwards.
        durable: bool,
    },
    /// A flush, which a queue has one of under way: see `Flushes`.
    Flush,
    /// A read into the request's own buffer.
    Read,
    /// A read into aligned memory, to be copied to the request's.
    ReadApart(Buf),
    /// A read whose data is discarded.
    Verify,
    /// A range is being released or zeroed by the file itself.
    Zero {
        /// Flush afterwards.
        durable: bool,
    },
    /// Zeros are being written up to `next`.
    WriteZeros {
        /// Byte where the next piece begins.
        next: u64,
        /// Flush afterwards.
        durable: bool,
    },
    /// A read to compare with.
    Compare(BufList),
    /// The read of a compare-and-write.
    CompareFirst {
        /// What must be there.
        compare: BufList,
        /// What is to be there.
        write: BufList,
        /// When the write counts as done.
        durability: Durability,
    },
    /// A search for the end of a run.
    Seek,
}
