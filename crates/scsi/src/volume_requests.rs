//! The medium-access part of a command: a sequence of requests to the volume, one at a time.
//!
//! Commands that are longer than the volume's largest transfer become several requests; UNMAP, WRITE SAME and
//! VERIFY become as many as their parameters need.

use alloc::boxed::Box;
use alloc::vec::Vec;

use buf::BufList;
use volume::{Allocation, ComparedWrite, Durability, Extent, Operation, Outcome};

use crate::limits;
use crate::page::Page;

/// A run of blocks that is worked off in pieces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) next: u64,
    pub(crate) left: u64,
    /// The most blocks in one piece, at least 1.
    pub(crate) piece: u64,
    /// Bytes in a block.
    pub(crate) block: u32,
}

impl Range {
    fn take(&mut self) -> Option<Extent> {
        let blocks = self.left.min(self.piece.max(1));
        if blocks == 0 {
            return None;
        }
        let extent = Extent::new(self.next, blocks);
        self.next = self.next.saturating_add(blocks);
        self.left = self.left.saturating_sub(blocks);
        Some(extent)
    }

    fn bytes(&self, extent: Extent) -> usize {
        wire::index(extent.blocks.saturating_mul(u64::from(self.block)))
    }
}

/// What follows a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThenVerify {
    /// Nothing.
    No,
    /// Check that the medium can be read (BYTCHK 00b).
    Medium,
    /// Compare with the data (BYTCHK 01b).
    Bytes,
}

/// The requests that are left to do.
#[derive(Debug)]
pub(crate) enum Work {
    /// READ.
    Read { range: Range, gathered: BufList },
    /// WRITE from `start` on, with what follows it over the whole range.
    Write { range: Range, start: u64, data: BufList, at: usize, durability: Durability, then: ThenVerify },
    /// The end of a WRITE whose data ends within a block; apart, as it is rare, and work is moved about.
    Tail(Box<Tail>),
    /// VERIFY without data, PRE-FETCH.
    Verify { range: Range },
    /// VERIFY with data: `data` is walked through, or repeated for each piece.
    Compare { range: Range, data: BufList, at: usize, repeat: bool },
    /// Any single operation.
    Single(Option<Operation>),
    /// UNMAP.
    Unmap { extents: Vec<Extent>, done: usize, piece: u64 },
    /// WRITE SAME of zeros.
    Zeroes { range: Range, may_unmap: bool },
    /// WRITE SAME of anything else; `pattern` holds a piece's worth of repetitions.
    Repeat { range: Range, pattern: BufList },
    /// GET LBA STATUS, whose answer is cut to `allocation` bytes.
    Allocations {
        next: u64,
        end: u64,
        found: Vec<Allocation>,
        most: usize,
        queries: usize,
        allocation: usize,
    },
}

/// Part of a block that is written: the block is read, and written back changed if it has not changed meanwhile.
#[derive(Debug)]
pub(crate) struct Tail {
    extent: Extent,
    /// Bytes in a block.
    block: u32,
    /// The first bytes of the block.
    data: BufList,
    durability: Durability,
    /// The block as it was read.
    read: Option<BufList>,
    written: bool,
    /// How many times it may still have changed meanwhile.
    tries: u8,
}

impl Tail {
    /// Of a block at `extent`, of `block` bytes.
    fn new(extent: Extent, block: u32, data: BufList, durability: Durability) -> Self {
        Self { extent, block, data, durability, read: None, written: false, tries: limits::TAIL_TRIES }
    }

    /// The block changed between reading and writing: true if it is read again.
    fn again(&mut self) -> bool {
        self.written = false;
        self.tries = self.tries.saturating_sub(1);
        self.tries > 0
    }

    fn next(&mut self) -> Option<Io> {
        if self.written {
            return None;
        }
        let Some(compare) = self.read.take() else {
            return Some(Io::Read(self.extent, self.block));
        };
        let kept = compare.part(self.data.len(), compare.len().saturating_sub(self.data.len()));
        let mut write = self.data.clone();
        kept.into_pieces().for_each(|piece| write.push(piece));
        self.written = true;
        let (extent, durability) = (self.extent, self.durability);
        let data = Box::new(ComparedWrite { compare, write });
        Some(Io::Other(Operation::CompareAndWrite { extent, data, durability }))
    }
}

/// The next request.
#[derive(Debug)]
pub(crate) enum Io {
    /// Read these blocks into a buffer of so many bytes.
    Read(Extent, u32),
    /// Anything else.
    Other(Operation),
}

impl Work {
    /// Bytes that a READ moves, before its first request; `None` for everything else, of which its command has said so.
    #[inline]
    pub(crate) fn read_length(&self) -> Option<u64> {
        let Self::Read { range, .. } = self else { return None };
        Some(range.left.saturating_mul(range.block.into()))
    }

    /// The next request; `None` when the work is done.
    pub(crate) fn next(&mut self) -> Option<Io> {
        match self {
            Self::Read { range, .. } => {
                let extent = range.take()?;
                Some(Io::Read(extent, wire::bounded::<u32>(range.bytes(extent))))
            }
            Self::Write { .. } => self.next_write(),
            Self::Tail(tail) => tail.next(),
            Self::Verify { range } => range.take().map(|extent| Io::Other(Operation::Verify { extent })),
            Self::Compare { range, data, at, repeat } => {
                let extent = range.take()?;
                let bytes = range.bytes(extent);
                let part = data.part(if *repeat { 0 } else { *at }, bytes);
                *at = at.saturating_add(bytes);
                Some(Io::Other(Operation::Compare { extent, data: part }))
            }
            Self::Single(operation) => operation.take().map(Io::Other),
            Self::Unmap { .. } => self.next_unmap(),
            Self::Zeroes { range, may_unmap } => {
                let (durability, may_unmap) = (Durability::Cached, *may_unmap);
                let extent = range.take()?;
                Some(Io::Other(Operation::WriteZeroes { extent, durability, may_unmap }))
            }
            Self::Repeat { range, pattern } => {
                let extent = range.take()?;
                let data = pattern.part(0, range.bytes(extent));
                Some(Io::Other(Operation::Write { extent, data, durability: Durability::Cached }))
            }
            Self::Allocations { next, end, found, most, queries, .. } => {
                if *next >= *end || found.len() > *most || *queries == 0 {
                    return None;
                }
                *queries = queries.saturating_sub(1);
                let extent = Extent::new(*next, end.saturating_sub(*next));
                Some(Io::Other(Operation::QueryAllocation { extent }))
            }
        }
    }

    fn next_write(&mut self) -> Option<Io> {
        let Self::Write { range, start, data, at, durability, then } = self else { return None };
        if let Some(extent) = range.take() {
            let bytes = range.bytes(extent);
            let last = range.left == 0 && *then != ThenVerify::Bytes;
            // The usual write is one piece, which is all of the data.
            let part = if last && *at == 0 && bytes == data.len() {
                core::mem::take(data)
            } else {
                data.part(*at, bytes)
            };
            *at = at.saturating_add(bytes);
            return Some(Io::Other(Operation::Write { extent, data: part, durability: *durability }));
        }
        let rest = data.len().saturating_sub(*at);
        let rest = if rest == 0 { BufList::new() } else { data.part(*at, rest) };
        let (durability, extent, block) = (*durability, Extent::new(range.next, 1), range.block);
        let range = Range { next: *start, left: range.next.saturating_sub(*start), ..*range };
        *self = match then {
            ThenVerify::No if rest.is_empty() => return None,
            ThenVerify::No => Self::Tail(Box::new(Tail::new(extent, block, rest, durability))),
            ThenVerify::Medium => Self::Verify { range },
            ThenVerify::Bytes => Self::Compare { range, data: core::mem::take(data), at: 0, repeat: false },
        };
        self.next()
    }

    fn next_unmap(&mut self) -> Option<Io> {
        let Self::Unmap { extents, done, piece } = self else { return None };
        let rest = extents.get_mut(*done)?;
        let blocks = rest.blocks.min((*piece).max(1));
        let extent = Extent::new(rest.start, blocks);
        rest.start = rest.start.saturating_add(blocks);
        rest.blocks = rest.blocks.saturating_sub(blocks);
        if rest.blocks == 0 {
            *done = done.saturating_add(1);
        }
        Some(Io::Other(Operation::Discard { extent }))
    }

    /// Takes what a request answered.
    pub(crate) fn absorb(&mut self, outcome: Outcome) {
        match (self, outcome) {
            (Self::Read { gathered, .. }, Outcome::Data(data)) => gathered.append(data),
            (Self::Tail(tail), Outcome::Data(data)) => tail.read = Some(data),
            (Self::Allocations { next, end, found, .. }, Outcome::Allocation(run)) => {
                *next = run.extent.end().unwrap_or(*end).max(next.saturating_add(1));
                match found.last_mut() {
                    Some(last) if last.mapped == run.mapped => {
                        last.extent.blocks = last.extent.blocks.saturating_add(run.extent.blocks);
                    }
                    _ => found.push(run),
                }
            }
            _ => {}
        }
    }

    /// A comparison of this work's own, which the initiator did not ask for, has failed: whether it is made again. `None` if the
    /// comparison was the command's.
    pub(crate) fn compares_again(&mut self) -> Option<bool> {
        match self {
            Self::Tail(tail) => Some(tail.again()),
            _ => None,
        }
    }

    /// How far the extent of the last comparison lies behind the command's first block, in bytes: what a miscompare's
    /// offset is counted from.
    pub(crate) fn compared_before(&self) -> u64 {
        match self {
            Self::Compare { range, at, .. } => {
                // Every piece but the last is whole, so the last one begins at a multiple of a piece.
                let piece = range.piece.max(1).saturating_mul(u64::from(range.block));
                let last_byte = wire::widen(*at).saturating_sub(1);
                last_byte.checked_div(piece).unwrap_or(0).saturating_mul(piece)
            }
            _ => 0,
        }
    }

    /// The data for the initiator, once the work is done.
    pub(crate) fn take_data(&mut self) -> BufList {
        match self {
            Self::Read { gathered, .. } => core::mem::take(gathered),
            Self::Allocations { found, most, allocation, .. } => lba_status(found, *most, *allocation),
            _ => BufList::new(),
        }
    }

    /// True when a medium error is one of writing.
    pub(crate) fn writes(&self) -> bool {
        !matches!(
            self,
            Self::Read { .. } | Self::Verify { .. } | Self::Compare { .. } | Self::Allocations { .. }
        )
    }
}

/// GET LBA STATUS data (SBC-4 §5.6.2), cut to `allocation` bytes.
#[cold]
fn lba_status(found: &[Allocation], most: usize, allocation: usize) -> BufList {
    let mut page = Page::new();
    page.u32(0).u32(0);
    for run in found.iter().take(most.min(limits::LBA_STATUS_DESCRIPTORS)) {
        page.u64(run.extent.start).u32(wire::saturate::<u32>(run.extent.blocks));
        page.u8(u8::from(!run.mapped)).zeros(3);
    }
    page.length_u32(0);
    let data = BufList::from(buf::SharedBuf::from(page.take()));
    data.part(0, data.len().min(allocation))
}
