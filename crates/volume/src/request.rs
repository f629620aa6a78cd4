//! Requests to a volume, and their completions.

use alloc::boxed::Box;
use alloc::sync::Arc;

use buf::{Buf, BufList};

use crate::reservation::{Command, View};
use crate::{Extent, Failure, VolumeErrorKind};

/// Names a request within one queue, until it has completed. The submitter chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(pub u64);

/// The state of a volume that a request was judged by: who may do what, and which tasks were reset. It moves whenever a request that was
/// admitted before must not begin any more; zero until then. Only whether two are the same means anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Epoch(pub u64);

/// When a write may be reported complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// As soon as later reads see it; a flush makes it durable.
    Cached,
    /// Only once it is on stable media (force unit access).
    Durable,
}

/// What a request asks for.
#[derive(Debug)]
#[non_exhaustive]
pub enum Operation {
    /// Fill the first `extent` bytes of `into` (whose length is exactly that), or answer with memory of the
    /// volume's own.
    Read {
        /// What to read.
        extent: Extent,
        /// Where to, unless the volume lends.
        into: Buf,
    },
    /// Write `data`, whose length is exactly the extent's.
    Write {
        /// Where to.
        extent: Extent,
        /// The data, read-only until completion.
        data: BufList,
        /// When it counts as done.
        durability: Durability,
    },
    /// Make every write that completed before this was submitted durable.
    Flush,
    /// Say that the blocks are no longer needed; with [`Features::DISCARD`](crate::Features::DISCARD) they then read as zeros.
    Discard {
        /// Which blocks.
        extent: Extent,
    },
    /// Make the blocks read as zeros.
    WriteZeroes {
        /// Which blocks.
        extent: Extent,
        /// When it counts as done.
        durability: Durability,
        /// The space behind them may be released.
        may_unmap: bool,
    },
    /// Compare the blocks with `data`.
    Compare {
        /// What to compare.
        extent: Extent,
        /// With what; its length is exactly the extent's.
        data: BufList,
    },
    /// Compare the blocks with `data.compare`, and only if they are equal write `data.write`; atomic against every
    /// other request of the volume on any core.
    CompareAndWrite {
        /// Which blocks.
        extent: Extent,
        /// What they must hold, and are to hold; apart, as it is rare, and requests are moved about.
        data: Box<ComparedWrite>,
        /// When it counts as done.
        durability: Durability,
    },
    /// Check that the blocks can be read from the medium.
    Verify {
        /// Which blocks.
        extent: Extent,
    },
    /// Say how the blocks from `extent`'s start are allocated: see [`Outcome::Allocation`].
    QueryAllocation {
        /// Where to begin, and how far to look at most.
        extent: Extent,
    },
    /// Change the reservations in the name under which the volume is used: on volumes of other machines, which know this
    /// user by a name. Others refuse it; what is served from here has its reservations in the engine.
    Reserve(Command),
    /// Tell the reservations, on the same volumes: see [`Outcome::Reservations`].
    ReadReservations,
}

/// The data of an [`Operation::CompareAndWrite`], each list exactly as long as the extent.
#[derive(Debug, Clone)]
pub struct ComparedWrite {
    /// What the blocks must hold.
    pub compare: BufList,
    /// What they are to hold.
    pub write: BufList,
}

// A request is moved from list to list, too: what is rare must not make it larger than a write.
const _: () = assert!(size_of::<Operation>() <= size_of::<(Extent, BufList, u64)>());

impl Operation {
    /// The blocks that the operation touches; `None` for a flush and for what concerns reservations.
    pub const fn extent(&self) -> Option<Extent> {
        match self {
            Self::Flush | Self::Reserve(_) | Self::ReadReservations => None,
            Self::Read { extent, .. }
            | Self::Write { extent, .. }
            | Self::Discard { extent }
            | Self::WriteZeroes { extent, .. }
            | Self::Compare { extent, .. }
            | Self::CompareAndWrite { extent, .. }
            | Self::Verify { extent }
            | Self::QueryAllocation { extent } => Some(*extent),
        }
    }

    /// True when the operation concerns reservations, not blocks.
    pub const fn is_about_reservations(&self) -> bool {
        matches!(self, Self::Reserve(_) | Self::ReadReservations)
    }

    /// True when the operation changes the volume's content.
    pub const fn writes(&self) -> bool {
        matches!(
            self,
            Self::Write { .. }
                | Self::Discard { .. }
                | Self::WriteZeroes { .. }
                | Self::CompareAndWrite { .. }
        )
    }
}

/// One request.
#[derive(Debug)]
pub struct Request {
    /// Comes back with the completion.
    pub tag: Tag,
    /// What to do.
    pub operation: Operation,
}

impl Request {
    /// Its end, if it failed before it was begun: a read's buffer goes back.
    pub fn failed(self, kind: VolumeErrorKind) -> Completion {
        Completion { tag: self.tag, result: Err(Failure::of(self.operation, kind)) }
    }
}

/// How a run of blocks is backed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    /// The run; it begins where the query began and is not empty unless the query was.
    pub extent: Extent,
    /// False when no space is behind it: it reads as zeros.
    pub mapped: bool,
}

/// What a successful request answers.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// It is done.
    Done,
    /// The data that was read, exactly the extent's bytes. If the volume did not lend, it is one piece, the request's own
    /// buffer: [`SharedBuf::try_unfreeze`](buf::SharedBuf::try_unfreeze) gives it back. A volume that lends holds that
    /// buffer by what it lends ([`Buf::lend`]), and may answer in several pieces.
    Data(BufList),
    /// The first run of equally allocated blocks; ask again from its end for the next.
    Allocation(Allocation),
    /// The registrations and the reservation as the far end tells them. It does not tell everything of each registrant: the
    /// target port of a nexus and the name of a host stay empty.
    Reservations(Arc<View>),
}

/// The end of a request. Every submitted request completes exactly once.
#[derive(Debug)]
pub struct Completion {
    /// The request's tag.
    pub tag: Tag,
    /// Success, or why not. A failed request may have changed any of its blocks, each whole or not at all.
    pub result: Result<Outcome, Failure>,
}

// A completion is moved from list to list for each request: failures must not make it larger.
const _: () = assert!(size_of::<Result<Outcome, Failure>>() == size_of::<Outcome>());

impl Failure {
    /// The failure of an operation that was not begun.
    pub fn of(operation: Operation, kind: VolumeErrorKind) -> Self {
        let memory = match operation {
            Operation::Read { into, .. } => Some(into),
            _ => None,
        };
        Self { kind, memory }
    }
}

impl Completion {
    /// The end of a request that failed, without memory to give back.
    pub fn failed(tag: Tag, kind: VolumeErrorKind) -> Self {
        Self { tag, result: Err(kind.into()) }
    }

    /// What the request came to; memory that a failure brought is released.
    pub fn outcome(self) -> Result<Outcome, VolumeErrorKind> {
        self.result.map_err(VolumeErrorKind::from)
    }

    /// Why the request failed, if it did.
    pub fn error(&self) -> Option<VolumeErrorKind> {
        self.result.as_ref().err().map(|failure| failure.kind)
    }
}

/// The queue is at its depth; the request comes back untouched.
#[derive(Debug)]
pub struct QueueFull(pub Request);
