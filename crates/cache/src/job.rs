//! What a queue is doing: one job for each request, and for its own work in the background.

use core::mem::take;

use buf::{Buf, BufList};
use volume::{ComparedWrite, Durability, Extent, Tag, VolumeErrorKind};

use crate::commit::{Batch, Need};
use crate::directory::SlotId;
use crate::page_set::PageSet;
use crate::plan::Piece;
use crate::range_locks::Ticket;
use crate::state::{Stream, WritePart};

/// Names a job of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct JobId(pub(crate) u64);

/// How far a commit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitStage {
    /// The fast volume makes the data durable.
    Data,
    /// The map is written.
    Map,
    /// The fast volume makes the map durable.
    Fence,
}

/// A commit under way.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) batch: Batch,
    /// What it says of each slot's dirty pages.
    pub(crate) says: Vec<(SlotId, PageSet)>,
    /// The blocks as they are written.
    pub(crate) blocks: Vec<(u64, Vec<u8>)>,
    pub(crate) stage: CommitStage,
}

/// What is to be done to the capacity volume's space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Release {
    Discard,
    Zero { durability: Durability, may_unmap: bool },
}

/// How far a line is that is written back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteBackStage {
    Read,
    Write,
    Flush,
}

/// How far detaching is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DetachStage {
    /// The map is committed, and the capacity volume flushed.
    Settle,
    /// The superblock is written.
    Superblock,
    /// The superblock is made durable.
    Fence,
}

/// What a job is about.
#[derive(Debug)]
pub(crate) enum Work {
    Read {
        extent: Extent,
        into: Option<Buf>,
        stream: Stream,
    },
    Write {
        extent: Extent,
        data: BufList,
        durability: Durability,
        stream: Stream,
    },
    Compare {
        extent: Extent,
        data: BufList,
        into: Option<Buf>,
    },
    /// `equal` once it has been compared.
    CompareAndWrite {
        extent: Extent,
        data: Box<ComparedWrite>,
        durability: Durability,
        into: Option<Buf>,
        equal: bool,
    },
    Flush,
    Release {
        extent: Extent,
        release: Release,
    },
    Verify {
        extent: Extent,
    },
    Query {
        extent: Extent,
    },
    /// Puts into slots what was read.
    Insert {
        slots: Vec<(SlotId, PageSet)>,
    },
    WriteBack {
        line: u64,
        slot: SlotId,
        pages: PageSet,
        data: Vec<(Extent, BufList)>,
        stage: WriteBackStage,
    },
    Commit(Box<Commit>),
    Detach(DetachStage),
}

/// Something under way.
#[derive(Debug)]
pub(crate) struct Job {
    /// The request's, if it is one.
    pub(crate) tag: Option<Tag>,
    pub(crate) work: Work,
    /// What it has locked, or waits for.
    pub(crate) ticket: Option<Ticket>,
    pub(crate) pins: Vec<SlotId>,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) parts: Vec<WritePart>,
    /// Pieces that are under way.
    pub(crate) left: usize,
    /// What a piece of the capacity volume's failed with, and one of the fast volume's.
    pub(crate) capacity_failure: Option<VolumeErrorKind>,
    pub(crate) fast_failure: Option<VolumeErrorKind>,
    /// That failure is of what the fast volume has lost, and not of the volume.
    pub(crate) doubted: bool,
    /// What was read in one piece.
    pub(crate) read: Option<BufList>,
    /// What the capacity volume said of the allocation.
    pub(crate) allocation: Option<volume::Allocation>,
    /// It waits for a commit, and for a flush of the capacity volume.
    pub(crate) need: Option<Need>,
    pub(crate) mark: Option<u64>,
    /// The fast volume's path before it was planned.
    pub(crate) fast_path: u64,
    /// How often the fast volume had lost copies by then.
    pub(crate) fast_losses: u64,
    /// Failed flushes of the capacity volume when its pieces were sent, or when a flush was asked for.
    pub(crate) flush_failures: u64,
    /// It waits for a flush of the capacity volume before the dirty pages are given up whose place it takes.
    pub(crate) supersedes: bool,
    /// It counts among what changes the cache.
    pub(crate) changes: bool,
}

impl Job {
    fn blank(tag: Option<Tag>, work: Work) -> Self {
        Self {
            tag,
            work,
            ticket: None,
            pins: Vec::new(),
            pieces: Vec::new(),
            parts: Vec::new(),
            left: 0,
            capacity_failure: None,
            fast_failure: None,
            doubted: false,
            read: None,
            allocation: None,
            need: None,
            mark: None,
            fast_path: 0,
            fast_losses: 0,
            flush_failures: 0,
            supersedes: false,
            changes: false,
        }
    }

    /// Boxed, as it moves at each of its steps.
    pub(crate) fn new(tag: Option<Tag>, work: Work) -> Box<Self> {
        Box::new(Self::blank(tag, work))
    }

    /// Lets go of everything that a job which has ended holds, but for the memory of its lists: the next one uses it.
    pub(crate) fn empty(&mut self) {
        let (mut pins, mut pieces, mut parts) =
            (take(&mut self.pins), take(&mut self.pieces), take(&mut self.parts));
        pins.clear();
        pieces.clear();
        parts.clear();
        *self = Self { pins, pieces, parts, ..Self::blank(None, Work::Flush) };
    }
}
