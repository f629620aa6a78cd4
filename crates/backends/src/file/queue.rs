//! One core's data side of a file volume.
//!
//! A request is held until it may begin (no other overlaps it, scratch memory is there), then turned into one operation
//! after another. Nothing is allocated per request once the queue's lists have grown to their depth.

use std::collections::VecDeque;
use std::sync::Arc;

use buf::{Buf, BufList, Pool, SharedBuf};
use host::{BlockDone, BlockOperation, BlockQueue, BlockRequest, IoError};
use protocol::Instant;
use volume::range_locks::{BlockRange, LockMode, RangeLock};
use volume::{
    Allocation, ComparedWrite, Completion, Durability, Extent, Failure, Geometry, Losses, Operation, Outcome,
    QueueFull, Request, Tag, VolumeErrorKind, VolumeQueue, promises, shape,
};

use super::limits::{SCRATCH, ZERO_CHUNK};
use super::loss::{durable_write_failed, flush_failed};
use super::shape::Shape;
use super::size::Size;
use super::stage::{Active, Flushes, Stage};
use crate::errno::{NOT_SUPPORTED, kind_of};

type Answer = Result<Outcome, Failure>;

/// What all queues of a volume share.
pub(super) struct Shared {
    pub(super) shape: Shape,
    pub(super) size: Arc<Size>,
    pub(super) losses: Arc<Losses>,
}

pub(super) struct FileQueue {
    blocks: Box<dyn BlockQueue>,
    lock: RangeLock,
    shape: Shape,
    size: Arc<Size>,
    losses: Arc<Losses>,
    flushes: Flushes,
    /// Requests that may not begin yet, in order.
    held: VecDeque<Request>,
    /// Requests under way, by the tag of their operation.
    active: Vec<Option<Active>>,
    free: Vec<usize>,
    /// Operations that the file had no room for.
    backlog: VecDeque<BlockRequest>,
    ended: Vec<BlockDone>,
    ready: Vec<Completion>,
    /// Completions that report a loss whose record is not kept yet.
    held_completions: Vec<Completion>,
    scratch: Option<Pool>,
    zeros: Option<SharedBuf>,
}

impl FileQueue {
    pub(super) fn new(shared: Shared, blocks: Box<dyn BlockQueue>, lock: RangeLock) -> Self {
        let Shared { shape, size, losses } = shared;
        Self {
            blocks,
            lock,
            shape,
            size,
            losses,
            flushes: Flushes::default(),
            held: VecDeque::new(),
            active: Vec::new(),
            free: Vec::new(),
            backlog: VecDeque::new(),
            ended: Vec::new(),
            ready: Vec::new(),
            held_completions: Vec::new(),
            scratch: None,
            zeros: None,
        }
    }

    fn occupied(&self) -> usize {
        let under_way = self.active.len() - self.free.len();
        self.held.len() + under_way + self.flushes.len() + self.ready.len() + self.held_completions.len()
    }

    /// What can be answered without the file: what is wrong, what is empty, and what changes nothing.
    fn answer_now(&self, operation: &mut Operation) -> Option<Result<Outcome, VolumeErrorKind>> {
        let Shape { info, geometry, limits, features } = &self.shape;
        let geometry = Geometry { blocks: self.size.blocks(), ..*geometry };
        if let Err(kind) = shape::check(operation, geometry, limits, *features) {
            return Some(Err(kind));
        }
        let extent = operation.extent()?;
        if let Operation::QueryAllocation { .. } = operation
            && (extent.blocks == 0 || info.kind == host::BlockKind::Device)
        {
            let mapped = info.kind == host::BlockKind::Device;
            return Some(Ok(Outcome::Allocation(Allocation { extent, mapped })));
        }
        if let Operation::Read { into, .. } = operation
            && extent.blocks == 0
        {
            let empty = std::mem::replace(into, Buf::zeroed(0));
            return Some(Ok(Outcome::Data(empty.freeze().into())));
        }
        let idle = matches!(operation, Operation::Discard { .. }) && !info.can_discard;
        (extent.blocks == 0 || idle).then_some(Ok(Outcome::Done))
    }

    fn finish(&mut self, tag: Tag, result: Answer) {
        self.ready.push(Completion { tag, result });
    }

    /// Ends a request that fails because acknowledged writes are lost. A full disk is no reason: who waits for room and then asks
    /// again would take a success for more than it is.
    fn refuse(&mut self, tag: Tag) {
        self.held_completions.push(Completion::failed(tag, VolumeErrorKind::Media));
    }

    fn offset(&self, extent: Extent) -> u64 {
        extent.start * u64::from(self.shape.geometry.block_size)
    }

    fn bytes(&self, extent: Extent) -> u64 {
        extent.blocks * u64::from(self.shape.geometry.block_size)
    }

    /// The blocks of the locks that an extent lies in.
    fn range(&self, extent: Extent) -> BlockRange {
        BlockRange::of_bytes(self.offset(extent), self.bytes(extent))
    }

    /// Lets held requests begin, in order, as far as they may. True if one did.
    fn admit(&mut self) -> bool {
        let mut progress = false;
        while let Some(request) = self.held.pop_front() {
            if self.losses.happened() && promises(&request.operation) {
                self.lock.stop_waiting();
                self.refuse(request.tag);
                progress = true;
                continue;
            }
            let mode = LockMode::of(&request.operation);
            let range = self.range(request.operation.extent().unwrap_or(Extent::new(0, 0)));
            let refused = if self.lock.try_lock(range, mode) {
                let refused = self.begin(request, mode).err();
                if refused.is_some() {
                    self.lock.unlock(range, mode);
                }
                refused
            } else {
                Some(request)
            };
            if let Some(request) = refused {
                self.held.push_front(request);
                return progress;
            }
            progress = true;
        }
        progress
    }

    /// Starts a request's first operation, or gives it back while there is no scratch memory.
    fn begin(&mut self, request: Request, lock: LockMode) -> Result<(), Request> {
        let spare = match self.scratch_needed(&request.operation) {
            None => None,
            Some(len) => match self.take_scratch(len) {
                None => return Err(request),
                spare => spare,
            },
        };
        let Request { tag, operation } = request;
        let Some(extent) = operation.extent() else {
            self.flush(Active { tag, extent: Extent::new(0, 0), lock, stage: Stage::Flush });
            return Ok(());
        };
        let offset = self.offset(extent);
        let (stage, operation) = match (operation, spare) {
            (Operation::WriteZeroes { durability, may_unmap, .. }, _) => {
                let durable = durability == Durability::Durable;
                self.begin_zeroes(Active { tag, extent, lock, stage: Stage::Zero { durable } }, may_unmap);
                return Ok(());
            }
            (operation, spare) => first_step(&self.shape, offset, operation, spare),
        };
        self.start(Active { tag, extent, lock, stage }, operation);
        Ok(())
    }

    /// Bytes of aligned memory that a request needs besides its own.
    fn scratch_needed(&self, operation: &Operation) -> Option<usize> {
        let aligned = |bytes: &[u8]| {
            let alignment = self.shape.info.alignment as usize;
            bytes.as_ptr().addr().is_multiple_of(alignment) && bytes.len().is_multiple_of(alignment)
        };
        let needed = match operation {
            Operation::Read { into, .. } => !aligned(into),
            Operation::Write { data, .. } => !data.pieces().iter().all(|piece| aligned(piece)),
            Operation::Compare { .. } | Operation::CompareAndWrite { .. } | Operation::Verify { .. } => true,
            _ => false,
        };
        let bytes = operation.extent().map_or(0, |extent| self.bytes(extent));
        needed.then(|| wire::index(bytes))
    }

    /// Aligned memory. The pool is made at the first need, on the thread that the queue belongs to.
    fn take_scratch(&mut self, len: usize) -> Option<Buf> {
        self.scratch.get_or_insert_with(|| Pool::new(SCRATCH)).take(len)
    }

    fn start(&mut self, active: Active, operation: BlockOperation) {
        let index = self.free.pop().unwrap_or(self.active.len());
        match self.active.get_mut(index) {
            Some(slot) => *slot = Some(active),
            None => self.active.push(Some(active)),
        }
        self.backlog.push_back(BlockRequest { tag: index as u64, operation });
        self.push_backlog();
    }

    /// Has a request wait for the next flush that begins.
    fn flush(&mut self, active: Active) {
        self.flushes.next.push(active);
        self.begin_flush();
    }

    fn begin_flush(&mut self) {
        if self.flushes.under_way.is_empty() && !self.flushes.next.is_empty() {
            std::mem::swap(&mut self.flushes.under_way, &mut self.flushes.next);
            self.backlog.push_back(BlockRequest { tag: Flushes::TAG, operation: BlockOperation::Flush });
            self.push_backlog();
        }
    }

    /// Ends every request that the flush was for. One that succeeds promises nothing once a loss is known.
    fn end_flush(&mut self, result: Result<(), IoError>) {
        if let Err(error) = result {
            flush_failed(&self.losses, error);
        }
        let mut ended = std::mem::take(&mut self.flushes.under_way);
        for active in ended.drain(..) {
            self.lock.unlock(self.range(active.extent), active.lock);
            match result {
                _ if self.losses.happened() => self.refuse(active.tag),
                Ok(()) => self.finish(active.tag, Ok(Outcome::Done)),
                Err(error) => self.finish(active.tag, Err(kind_of(error).into())),
            }
        }
        self.flushes.under_way = ended;
        self.begin_flush();
    }

    fn push_backlog(&mut self) {
        while let Some(request) = self.backlog.pop_front() {
            if let Err(refused) = self.blocks.submit(request) {
                self.backlog.push_front(refused);
                return;
            }
        }
    }

    fn begin_zeroes(&mut self, active: Active, may_unmap: bool) {
        let (offset, len) = (self.offset(active.extent), self.bytes(active.extent));
        if may_unmap && self.shape.info.can_discard {
            self.start(active, BlockOperation::Discard { offset, len });
        } else if self.shape.info.can_zero {
            self.start(active, BlockOperation::Zero { offset, len });
        } else {
            self.write_zeros(active, offset);
        }
    }

    /// Writes the next piece of zeros, from byte `next` on.
    fn write_zeros(&mut self, mut active: Active, next: u64) {
        let durable =
            matches!(active.stage, Stage::Zero { durable: true } | Stage::WriteZeros { durable: true, .. });
        let end = self.offset(active.extent) + self.bytes(active.extent);
        let len = ZERO_CHUNK.min(end - next);
        let data = self.zeros().slice(..wire::index(len));
        active.stage = Stage::WriteZeros { next: next + len, durable };
        self.start(active, BlockOperation::Write { offset: next, data: data.into(), durable: false });
    }

    fn zeros(&mut self) -> SharedBuf {
        let fresh = || {
            let len = wire::index(ZERO_CHUNK);
            let mut buf = Pool::new(len).take(len).unwrap_or_else(|| Buf::zeroed(len));
            buf.fill(0);
            buf.freeze()
        };
        self.zeros.get_or_insert_with(fresh).clone()
    }

    /// Takes the end of an operation: the request goes on, or ends too.
    fn advance(&mut self, done: BlockDone) {
        if done.tag == Flushes::TAG {
            return self.end_flush(done.result);
        }
        let index = wire::index(done.tag);
        let Some(active) = self.active.get_mut(index).and_then(Option::take) else { return };
        self.free.push(index);
        let (range, mode) = (self.range(active.extent), active.lock);
        let durable = matches!(active.stage, Stage::DurableWrite).then_some(done.result);
        let Some((tag, result)) = self.step(active, done) else { return };
        self.lock.unlock(range, mode);
        if let Some(Err(error)) = durable {
            durable_write_failed(&self.losses, error);
            if self.losses.happened() {
                return self.refuse(tag);
            }
        }
        self.finish(tag, result);
    }

    /// What follows an operation: the request's end, or `None` if another operation was started.
    fn step(&mut self, active: Active, done: BlockDone) -> Option<(Tag, Answer)> {
        let tag = active.tag;
        if let Err(error) = done.result {
            if error.0 == NOT_SUPPORTED && matches!(active.stage, Stage::Zero { .. }) {
                let offset = self.offset(active.extent);
                self.write_zeros(active, offset);
                return None;
            }
            return Some((
                tag,
                Err(Failure { kind: kind_of(error), memory: asked_for(active.stage, done.data) }),
            ));
        }
        let answer = match active.stage {
            Stage::Zero { durable: true } | Stage::Write { durable: true } => {
                self.flush(Active { stage: Stage::Flush, ..active });
                return None;
            }
            Stage::Only
            | Stage::Verify
            | Stage::DurableWrite
            | Stage::Flush
            | Stage::Zero { durable: false }
            | Stage::Write { durable: false } => Ok(Outcome::Done),
            Stage::WriteZeros { next, durable } => {
                if next < self.offset(active.extent) + self.bytes(active.extent) {
                    self.write_zeros(active, next);
                    return None;
                }
                return self.step(Active { stage: Stage::Zero { durable }, ..active }, done);
            }
            Stage::Read => {
                done.data.map(|data| Outcome::Data(data.into())).ok_or(VolumeErrorKind::Media.into())
            }
            Stage::ReadApart(into) => copied(into, done.data.as_deref()),
            Stage::Compare(data) => {
                compared(&data, done.data.as_deref()).map(|()| Outcome::Done).map_err(Failure::from)
            }
            Stage::CompareFirst { compare, write, durability } => {
                if let Err(kind) = compared(&compare, done.data.as_deref()) {
                    return Some((tag, Err(kind.into())));
                }
                let write = self.realigned(write, done.data);
                let offset = self.offset(active.extent);
                let (stage, operation) = write_step(&self.shape, offset, write, durability);
                self.start(Active { stage, ..active }, operation);
                return None;
            }
            Stage::Seek => self.allocation(active.extent, done.run),
        };
        Some((tag, answer))
    }

    /// The data to write, copied into the memory that was read into: that is aligned, and as long.
    fn realigned(&self, data: BufList, read: Option<SharedBuf>) -> BufList {
        match read.map(SharedBuf::try_unfreeze) {
            Some(Ok(mut memory)) if self.shape.info.alignment > 1 && memory.len() == data.len() => {
                data.copy_to(&mut memory);
                memory.freeze().into()
            }
            _ => data,
        }
    }

    /// The first run of an extent, in whole blocks: a block that is part data is mapped.
    fn allocation(&self, extent: Extent, run: Option<(u64, bool)>) -> Answer {
        let size = u64::from(self.shape.geometry.block_size);
        let (len, data) = run.ok_or(VolumeErrorKind::Media)?;
        let (blocks, mapped) = if data {
            (len.div_ceil(size).max(1), true)
        } else {
            let whole = len / size;
            (whole.max(1), whole == 0)
        };
        let extent = Extent::new(extent.start, blocks.min(extent.blocks));
        Ok(Outcome::Allocation(Allocation { extent, mapped }))
    }
}

/// The stage and the operation that a request with one first operation begins with.
fn first_step(
    shape: &Shape,
    offset: u64,
    operation: Operation,
    spare: Option<Buf>,
) -> (Stage, BlockOperation) {
    match (operation, spare) {
        (Operation::Read { into, .. }, None) => (Stage::Read, BlockOperation::Read { offset, into }),
        (Operation::Read { into, .. }, Some(spare)) => {
            (Stage::ReadApart(into), BlockOperation::Read { offset, into: spare })
        }
        (Operation::Write { data, durability, .. }, spare) => {
            let data = match spare {
                None => data,
                Some(mut spare) => {
                    data.copy_to(&mut spare);
                    spare.freeze().into()
                }
            };
            write_step(shape, offset, data, durability)
        }
        (Operation::Discard { extent }, _) => {
            let len = extent.blocks * u64::from(shape.geometry.block_size);
            (Stage::Zero { durable: false }, BlockOperation::Discard { offset, len })
        }
        (Operation::Compare { data, .. }, Some(into)) => {
            (Stage::Compare(data), BlockOperation::Read { offset, into })
        }
        (Operation::CompareAndWrite { data, durability, .. }, Some(into)) => {
            let ComparedWrite { compare, write } = *data;
            (Stage::CompareFirst { compare, write, durability }, BlockOperation::Read { offset, into })
        }
        (Operation::Verify { .. }, Some(into)) => (Stage::Verify, BlockOperation::Read { offset, into }),
        (Operation::QueryAllocation { .. }, _) => (Stage::Seek, BlockOperation::Seek { offset }),
        // Nothing else reaches this place; a search changes nothing.
        _ => (Stage::Only, BlockOperation::Seek { offset }),
    }
}

/// A write, as the last step of a request. In the page cache a durable one is a write and a flush: written as durable by itself, it
/// would report any data that was not written back, of whichever request, and a full file system could not be distinguished from that.
fn write_step(shape: &Shape, offset: u64, data: BufList, durability: Durability) -> (Stage, BlockOperation) {
    let (stage, durable) = match (durability, shape.info.page_cache) {
        (Durability::Durable, false) => (Stage::DurableWrite, true),
        (durability, _) => (Stage::Write { durable: durability == Durability::Durable }, false),
    };
    (stage, BlockOperation::Write { offset, data, durable })
}

/// The buffer of a failed read's request: what was read into, or what that was to be copied to.
fn asked_for(stage: Stage, read: Option<SharedBuf>) -> Option<Buf> {
    match stage {
        Stage::Read => read?.try_unfreeze().ok(),
        Stage::ReadApart(into) => Some(into),
        _ => None,
    }
}

fn copied(mut into: Buf, data: Option<&[u8]>) -> Answer {
    match data {
        Some(data) if data.len() == into.len() => {
            into.copy_from_slice(data);
            Ok(Outcome::Data(into.freeze().into()))
        }
        _ => Err(Failure { kind: VolumeErrorKind::Media, memory: Some(into) }),
    }
}

/// Compares what is wanted with what was read.
fn compared(wanted: &BufList, data: Option<&[u8]>) -> Result<(), VolumeErrorKind> {
    let mut rest = data.filter(|data| data.len() == wanted.len()).ok_or(VolumeErrorKind::Media)?;
    let mut offset = 0_u32;
    for piece in wanted.pieces() {
        let (now, later) = rest.split_at(piece.len());
        if now != &piece[..] {
            let at = now.iter().zip(piece.iter()).take_while(|(one, two)| one == two).count();
            return Err(VolumeErrorKind::Miscompare {
                offset: offset.saturating_add(wire::bounded::<u32>(at)),
            });
        }
        offset = offset.saturating_add(wire::bounded::<u32>(piece.len()));
        rest = later;
    }
    Ok(())
}

impl VolumeQueue for FileQueue {
    fn submit(&mut self, _now: Instant, mut request: Request) -> Result<(), QueueFull> {
        if self.occupied() >= self.shape.limits.depth as usize {
            return Err(QueueFull(request));
        }
        match self.answer_now(&mut request.operation) {
            Some(Ok(outcome)) => self.finish(request.tag, Ok(outcome)),
            Some(Err(kind)) => self.ready.push(request.failed(kind)),
            None => {
                self.held.push_back(request);
                self.admit();
            }
        }
        Ok(())
    }

    fn cancel(&mut self, tag: Tag) {
        let index = self.held.iter().position(|request| request.tag == tag);
        if let Some(request) = index.and_then(|index| self.held.remove(index)) {
            self.lock.stop_waiting();
            self.ready.push(request.failed(VolumeErrorKind::Cancelled));
        }
    }

    fn poll(&mut self, _now: Instant, done: &mut Vec<Completion>) {
        loop {
            self.push_backlog();
            let mut ended = std::mem::take(&mut self.ended);
            self.blocks.poll(&mut ended);
            let mut progress = !ended.is_empty();
            ended.drain(..).for_each(|one| self.advance(one));
            self.ended = ended;
            progress |= self.admit();
            if !progress {
                break;
            }
        }
        if !self.losses.is_being_kept() {
            self.ready.append(&mut self.held_completions);
        }
        done.append(&mut self.ready);
    }
}

impl Drop for FileQueue {
    /// Requests under way unlock their blocks. The file may still be at work on one: as with a machine that loses power,
    /// no reader may rely on what becomes of it.
    fn drop(&mut self) {
        let active = std::mem::take(&mut self.active).into_iter().flatten();
        let Flushes { under_way, next } = std::mem::take(&mut self.flushes);
        for active in active.chain(under_way).chain(next) {
            self.lock.unlock(self.range(active.extent), active.lock);
        }
    }
}
