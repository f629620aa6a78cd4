//! How far a request has come: most are one operation on the file, some are several.

use buf::{Buf, BufList};
use volume::{Extent, Tag};

use super::locks::Hold;

/// A request under way.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) tag: Tag,
    pub(super) extent: Extent,
    /// How it holds the extent until it ends.
    pub(super) hold: Hold,
    pub(super) stage: Stage,
}

/// What the operation that is under way means to its request.
#[derive(Debug)]
pub(super) enum Stage {
    /// Its end is the request's.
    Only,
    /// A read into the request's own buffer.
    Read,
    /// A read into aligned memory, to be copied to the request's.
    ReadApart(Buf),
    /// A read whose data nobody wants.
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
        /// The write is to be durable.
        durable: bool,
    },
    /// The write of a compare-and-write.
    WriteLast,
    /// A search for the end of a run.
    Seek,
}
