//! Requests under way on one connection, and what each asks of the volume next (the NBD project's protocol document,
//! "Transmission phase").
//!
//! A request becomes one request to the volume, or several where the volume's limits are narrower than the protocol's. A
//! tag names the request's slot and the piece of it.

use buf::BufList;
use smallvec::SmallVec;
use volume::{Completion, Durability, Extent, Features, Operation, Outcome, Tag};

use super::export::{self, Export};
use super::handshake::Agreement;
use super::limits::{EXTENTS, FIRST_REQUESTS, PIECES, REQUESTS};
use super::wire::{Command, CommandFlags, Descriptor, ExtentFlags, Failure, RequestHeader};
use crate::convert::{index, short};

/// A read's pieces of data, each once it is there. Most reads have one.
pub(crate) type Pieces = SmallVec<[Option<BufList>; 1]>;

/// What a request has come to so far.
#[derive(Debug)]
pub(crate) enum Work {
    /// Its pieces.
    Read(Pieces),
    /// More of its data is to come.
    Write { receiving: bool },
    /// Bytes that are released, and whether a flush follows now.
    Trim { done: u64, flushing: bool },
    /// Bytes that are zeroed.
    WriteZeroes { done: u64 },
    /// Extents found, and the bytes that they cover.
    BlockStatus { found: Vec<Descriptor>, done: u64 },
    /// Nothing to keep.
    Flush,
}

/// A part of a request, in bytes from the request's offset.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ByteRange {
    pub(crate) from: u64,
    pub(crate) length: u64,
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) cookie: u64,
    pub(crate) flags: CommandFlags,
    pub(crate) offset: u64,
    pub(crate) length: u32,
    /// Requests with the volume.
    pub(crate) outstanding: usize,
    pub(crate) failure: Option<Failure>,
    pub(crate) work: Work,
}

/// What the next bytes are when a request is refused: its data, if any, is passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RejectedRequest {
    pub(crate) failure: Failure,
    pub(crate) skip: usize,
}

impl Pending {
    /// A request from its header, if it makes sense on this export.
    pub(crate) fn decode(
        export: &Export,
        header: &RequestHeader,
        agreed: Agreement,
    ) -> Result<Self, RejectedRequest> {
        let command = Command(header.command.get());
        let length = header.length.get();
        let skip = if command == Command::WRITE { index(u64::from(length)) } else { 0 };
        let refuse = |failure| RejectedRequest { failure, skip };
        let flags = CommandFlags::from_bits(header.flags.get()).ok_or(refuse(Failure::INVAL))?;
        let work = match command {
            Command::READ => Work::Read(Pieces::new()),
            Command::WRITE => Work::Write { receiving: true },
            Command::FLUSH => Work::Flush,
            Command::TRIM => Work::Trim { done: 0, flushing: false },
            Command::WRITE_ZEROES => Work::WriteZeroes { done: 0 },
            Command::BLOCK_STATUS if agreed.allocation => Work::BlockStatus { found: Vec::new(), done: 0 },
            _ => return Err(refuse(Failure::INVAL)),
        };
        let (cookie, offset) = (header.cookie.get(), header.offset.get());
        let pending = Self { cookie, flags, offset, length, outstanding: 0, failure: None, work };
        pending.check(export).map_err(refuse)?;
        Ok(pending)
    }

    fn is_query(&self) -> bool {
        matches!(self.work, Work::BlockStatus { .. })
    }

    fn writes(&self) -> bool {
        matches!(self.work, Work::Write { .. } | Work::Trim { .. } | Work::WriteZeroes { .. })
    }

    fn check(&self, export: &Export) -> Result<(), Failure> {
        if matches!(self.work, Work::Flush) {
            return Ok(());
        }
        if self.writes() && export.is_read_only() {
            return Err(Failure::PERM);
        }
        let block = u64::from(export.block());
        if self.length == 0
            || !self.offset.is_multiple_of(block)
            || !u64::from(self.length).is_multiple_of(block)
        {
            return Err(Failure::INVAL);
        }
        if self.offset.checked_add(u64::from(self.length)).is_none_or(|end| end > export.size()) {
            return Err(if self.writes() { Failure::NOSPC } else { Failure::INVAL });
        }
        let carries = matches!(self.work, Work::Read(_) | Work::Write { .. });
        if carries && self.length > export.longest() {
            return Err(Failure::OVERFLOW);
        }
        if carries && u64::from(self.length).div_ceil(u64::from(export.piece())) > PIECES {
            return Err(Failure::OVERFLOW);
        }
        let slow = !export.features.contains(Features::WRITE_ZEROES);
        if slow
            && matches!(self.work, Work::WriteZeroes { .. })
            && self.flags.contains(CommandFlags::FAST_ZERO)
        {
            return Err(Failure::NOTSUP);
        }
        Ok(())
    }

    /// When what it writes counts as done.
    pub(crate) fn durability(&self) -> Durability {
        if self.flags.contains(CommandFlags::FUA) { Durability::Durable } else { Durability::Cached }
    }

    /// True when nothing is left to do.
    pub(crate) fn is_over(&self) -> bool {
        self.outstanding == 0 && !matches!(self.work, Work::Write { receiving: true })
    }

    /// The blocks of a part of the request.
    pub(crate) fn extent(&self, export: &Export, part: ByteRange) -> Extent {
        let block = u64::from(export.block());
        Extent::new((self.offset + part.from) / block, part.length / block)
    }

    /// What a request without data asks of the volume next; `None` when it is over.
    pub(crate) fn next(&mut self, export: &Export) -> Option<Operation> {
        if self.failure.is_some() {
            return None;
        }
        let total = u64::from(self.length);
        let fua = self.flags.contains(CommandFlags::FUA);
        match &mut self.work {
            Work::Trim { done, flushing } if *done == total => {
                let last = fua && !std::mem::replace(flushing, true);
                last.then_some(Operation::Flush)
            }
            Work::Trim { done, .. } => {
                let bytes = export.most_discard().min(total - *done);
                let from = std::mem::replace(done, *done + bytes);
                Some(Operation::Discard { extent: self.extent(export, ByteRange { from, length: bytes }) })
            }
            Work::WriteZeroes { done } if *done < total => {
                let bytes = export.most_discard().min(total - *done);
                let from = std::mem::replace(done, *done + bytes);
                Some(Operation::WriteZeroes {
                    extent: self.extent(export, ByteRange { from, length: bytes }),
                    durability: self.durability(),
                    may_unmap: !self.flags.contains(CommandFlags::NO_HOLE),
                })
            }
            Work::BlockStatus { found, done } if *done < total => {
                let enough = if self.flags.contains(CommandFlags::REQ_ONE) { 1 } else { EXTENTS };
                let from = *done;
                (found.len() < enough).then(|| Operation::QueryAllocation {
                    extent: self.extent(export, ByteRange { from, length: total - from }),
                })
            }
            _ => None,
        }
    }

    /// Takes the end of a request to the volume.
    pub(crate) fn complete(&mut self, export: &Export, piece: usize, completion: Completion) {
        self.outstanding = self.outstanding.saturating_sub(1);
        match (completion.outcome(), &mut self.work) {
            (Err(kind), _) => {
                self.failure.get_or_insert(export::failure(kind));
            }
            (Ok(Outcome::Data(data)), Work::Read(pieces)) => {
                if let Some(place) = pieces.get_mut(piece) {
                    *place = Some(data);
                }
            }
            (Ok(Outcome::Allocation(run)), Work::BlockStatus { found, done }) => {
                let bytes = run.extent.blocks.saturating_mul(u64::from(export.block()));
                let left = u64::from(self.length).saturating_sub(*done);
                if bytes == 0 || bytes > left {
                    self.failure.get_or_insert(Failure::IO);
                    return;
                }
                *done += bytes;
                let flags = if run.mapped { ExtentFlags::empty() } else { ExtentFlags::all() };
                append(found, short(index(bytes)), flags);
            }
            (Ok(Outcome::Done), Work::Read(_) | Work::BlockStatus { .. }) => {
                self.failure.get_or_insert(Failure::IO);
            }
            _ => {}
        }
    }
}

/// Adds a run of bytes behind the extents found so far; like runs become one.
pub(crate) fn append(found: &mut Vec<Descriptor>, bytes: u32, flags: ExtentFlags) {
    if let Some(last) = found.last_mut().filter(|last| last.flags.get() == flags.bits()) {
        last.length.set(last.length.get().saturating_add(bytes));
    } else {
        found.push(Descriptor { length: bytes.into(), flags: flags.bits().into() });
    }
}

/// The requests of a connection.
#[derive(Debug, Default)]
pub(crate) struct Table {
    slots: Vec<Option<Pending>>,
    free: Vec<usize>,
    used: usize,
    /// For how many requests there was memory beyond the first ones.
    granted: usize,
    /// Those of them that ask for extents.
    queries: usize,
}

impl Table {
    /// True when no further request can be taken.
    pub(crate) fn is_full(&self) -> bool {
        self.used >= self.room()
    }

    /// For how many requests there is memory.
    pub(crate) fn room(&self) -> usize {
        FIRST_REQUESTS + self.granted
    }

    /// By how many requests the memory for them is to grow next, and the bytes that each takes.
    pub(crate) fn wants(&self) -> (usize, usize) {
        let each = size_of::<Option<Pending>>() + size_of::<usize>();
        (self.room().min(REQUESTS - self.room()), each)
    }

    /// There is memory for so many more requests.
    pub(crate) fn grant(&mut self, more: usize) {
        self.granted += more;
        self.slots.reserve_exact(self.room() - self.slots.len());
        self.free.reserve_exact(self.room() - self.free.len());
    }

    /// Bytes of the table.
    pub(crate) fn size(&self) -> usize {
        self.slots.capacity() * size_of::<Option<Pending>>() + self.free.capacity() * size_of::<usize>()
    }

    /// Bytes of the extents that its requests may find.
    pub(crate) fn answers(&self) -> usize {
        self.queries * EXTENTS * size_of::<Descriptor>()
    }

    /// True when nothing is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Takes a request in.
    pub(crate) fn begin(&mut self, pending: Pending) -> usize {
        self.used += 1;
        self.queries += usize::from(pending.is_query());
        if let Some(slot) = self.free.pop() {
            self.slots[slot] = Some(pending);
            return slot;
        }
        self.slots.push(Some(pending));
        self.slots.len() - 1
    }

    pub(crate) fn get(&mut self, slot: usize) -> Option<&mut Pending> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// Lets a request go.
    pub(crate) fn end(&mut self, slot: usize) -> Option<Pending> {
        let pending = self.slots.get_mut(slot)?.take()?;
        self.used -= 1;
        self.queries -= usize::from(pending.is_query());
        self.free.push(slot);
        Some(pending)
    }

    /// The tag of a request's piece.
    pub(crate) fn tag(slot: usize, piece: usize) -> Tag {
        Tag(slot as u64 * PIECES + piece as u64)
    }

    /// The slot and the piece of a tag.
    pub(crate) fn split(tag: Tag) -> (usize, usize) {
        (index(tag.0 / PIECES), index(tag.0 % PIECES))
    }
}
