//! The volume's requests under way: what each still has to read or write, one call after the other, whatever version of NFS carries it.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use buf::{Buf, BufList, SharedBuf};
use protocol::Instant;
use rpc::Memory;
use volume::{Completion, Durability, Extent, Failure, Operation, Outcome, Request, Tag, VolumeErrorKind};

use super::config::Access;
use super::data::{Ask, DataAnswer, ReadAnswer, Stable, WriteAnswer};
use super::limits::{SHORT_ANSWERS, VERIFIED};
use super::session::ChangeKey;
use super::verdict::Verdict;

/// Bytes of the zeros that are written again and again where nothing can be deallocated.
const ZEROS: usize = 64 << 10;

/// What a request asks for, and how far it is.
#[derive(Debug)]
enum Work {
    Read {
        offset: u64,
        length: usize,
        /// Its memory, unless a call has it; of what was read, the front.
        into: Option<Buf>,
        done: usize,
    },
    Write {
        offset: u64,
        data: BufList,
        done: usize,
        stable: Stable,
    },
    Flush,
    /// Zeros, or nothing, from there on.
    Zero {
        offset: u64,
        left: u64,
        method: Zeroing,
        durability: Durability,
    },
    Verify {
        offset: u64,
        left: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Zeroing {
    Deallocate,
    Write,
    /// Nothing is left but to make durable what was deallocated.
    Commit,
}

#[derive(Debug)]
struct Transfer {
    tag: Tag,
    began: Instant,
    /// Bytes that its call was to read or write.
    asked: u64,
    /// Calls so far that did not do what they were to.
    short: u32,
    work: Work,
}

/// What the transfers need to know of the open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) block_size: u32,
    /// Bytes of the largest READ and WRITE.
    pub(super) read_limit: u32,
    pub(super) write_limit: u32,
    /// The server deallocates.
    pub(super) deallocates: bool,
    /// The file is open for writing.
    pub(super) writes: bool,
}

impl Shape {
    /// Before anything is known of the server.
    pub(super) fn unknown(block_size: u32, access: Access) -> Self {
        let writes = access != Access::ReadOnly;
        Self { block_size, read_limit: 0, write_limit: 0, deallocates: false, writes }
    }
}

/// What a transfer asks for next, and the memory for what it reads.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) ask: Ask,
    pub(super) memory: Memory,
}

/// What an answer meant for its transfer.
#[derive(Debug)]
pub(super) enum Progress {
    /// It goes on.
    More,
    /// It is over.
    Over(Completion),
    /// It is over, and the file seems to have another size.
    Shrunk(Completion),
    /// Nothing of it is answered: what it stands on is gone.
    Lost(Verdict),
    /// The answer cannot be: less durable than asked for, or of more bytes.
    Wrong(&'static str),
}

/// All of a connection's.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    slots: Vec<Option<Transfer>>,
    free: Vec<usize>,
    /// Those whose next call waits, for a slot of the session or for room on the connection.
    waiting: VecDeque<usize>,
    zeros: Option<SharedBuf>,
}

impl Transfers {
    /// Begins a request; what cannot be done at all ends at once.
    pub(super) fn begin(&mut self, now: Instant, request: Request, shape: Shape) -> Option<Completion> {
        let Request { tag, operation } = request;
        let bytes = |extent: Extent| {
            let size = u64::from(shape.block_size);
            (extent.start.saturating_mul(size), extent.blocks.saturating_mul(size))
        };
        let zeroing = if shape.deallocates { Zeroing::Deallocate } else { Zeroing::Write };
        let work = match operation {
            Operation::Read { extent, into } => {
                let (offset, length) = (bytes(extent).0, into.len());
                Work::Read { offset, length, into: Some(into), done: 0 }
            }
            Operation::Write { extent, data, durability } => {
                let stable = match durability {
                    Durability::Durable => Stable::FileSync,
                    Durability::Cached => Stable::Unstable,
                };
                Work::Write { offset: bytes(extent).0, data, done: 0, stable }
            }
            // Nothing was written.
            Operation::Flush if !shape.writes => return Some(Completion { tag, result: Ok(Outcome::Done) }),
            Operation::Flush => Work::Flush,
            Operation::Discard { extent } => {
                let (offset, left) = bytes(extent);
                Work::Zero { offset, left, method: zeroing, durability: Durability::Cached }
            }
            Operation::WriteZeroes { extent, durability, may_unmap } => {
                let (offset, left) = bytes(extent);
                let method = if may_unmap { zeroing } else { Zeroing::Write };
                Work::Zero { offset, left, method, durability }
            }
            Operation::Verify { extent } => {
                let (offset, left) = bytes(extent);
                Work::Verify { offset, left }
            }
            other => {
                let failure = Failure::of(other, VolumeErrorKind::Unsupported);
                return Some(Completion { tag, result: Err(failure) });
            }
        };
        let place = self.insert(Transfer { tag, began: now, asked: 0, short: 0, work });
        self.waiting.push_back(place);
        None
    }

    fn insert(&mut self, transfer: Transfer) -> usize {
        if let Some(place) = self.free.pop()
            && let Some(slot) = self.slots.get_mut(place)
        {
            *slot = Some(transfer);
            return place;
        }
        self.slots.push(Some(transfer));
        self.slots.len().saturating_sub(1)
    }

    fn get(&mut self, place: usize) -> Option<&mut Transfer> {
        self.slots.get_mut(place)?.as_mut()
    }

    fn remove(&mut self, place: usize) -> Option<Transfer> {
        let transfer = self.slots.get_mut(place)?.take()?;
        self.free.push(place);
        Some(transfer)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len().saturating_sub(self.free.len())
    }

    /// The next that waits for a slot.
    pub(super) fn next(&mut self) -> Option<usize> {
        self.waiting.front().copied()
    }

    /// The next has its slot.
    pub(super) fn drop_next(&mut self) {
        self.waiting.pop_front();
    }

    /// Which change the next call of a transfer is, if it changes something.
    pub(super) fn changes(&mut self, place: usize, shape: Shape) -> Option<ChangeKey> {
        let transfer = self.get(place)?;
        let (offset, length) = match &transfer.work {
            Work::Write { offset, data, done, .. } => {
                let left = data.len().saturating_sub(*done);
                (offset.saturating_add(wide(*done)), wide(left).min(shape.write_limit.into()))
            }
            Work::Zero { offset, left, method: Zeroing::Deallocate, .. } => (*offset, *left),
            Work::Zero { offset, left, method: Zeroing::Write, .. } => {
                (*offset, (*left).min(shape.write_limit.into()))
            }
            _ => return None,
        };
        Some(ChangeKey { tag: transfer.tag, offset, length })
    }

    /// What a transfer asks for next.
    pub(super) fn part(&mut self, place: usize, shape: Shape) -> Option<Part> {
        let zeros = self.zeros.clone();
        let transfer = self.get(place)?;
        let (asked, ask, memory) = match &mut transfer.work {
            Work::Read { offset, length, into, done } => {
                let wanted = length.saturating_sub(*done).min(wire::index(shape.read_limit.into()));
                let memory = if *done == 0 {
                    let mut memory = into.take()?;
                    memory.set_len(wanted);
                    memory
                } else {
                    Buf::zeroed(wanted)
                };
                let offset = offset.saturating_add(wide(*done));
                (wide(wanted), Ask::Read { offset, count: wire::bounded(wanted) }, Memory::from(memory))
            }
            Work::Write { offset, data, done, stable } => {
                let wanted = data.len().saturating_sub(*done).min(wire::index(shape.write_limit.into()));
                let offset = offset.saturating_add(wide(*done));
                let ask = Ask::Write { offset, stable: *stable, data: data.part(*done, wanted) };
                (wide(wanted), ask, Memory::new())
            }
            Work::Flush | Work::Zero { method: Zeroing::Commit, .. } => (0, Ask::Commit, Memory::new()),
            Work::Zero { offset, left, method: Zeroing::Deallocate, .. } => {
                (0, Ask::Deallocate { offset: *offset, length: *left }, Memory::new())
            }
            Work::Zero { offset, left, durability, .. } => {
                let wanted = wire::index((*left).min(shape.write_limit.into()));
                let stable = match durability {
                    Durability::Durable => Stable::FileSync,
                    Durability::Cached => Stable::Unstable,
                };
                let zeros = zeros.unwrap_or_else(|| SharedBuf::from(vec![0; ZEROS]));
                let ask = Ask::Write { offset: *offset, stable, data: repeated(&zeros, wanted) };
                self.zeros = Some(zeros);
                (wide(wanted), ask, Memory::new())
            }
            Work::Verify { offset, left } => {
                let wanted = (*left).min(shape.read_limit.min(VERIFIED).into());
                let memory = Buf::zeroed(wire::index(wanted));
                (wanted, Ask::Read { offset: *offset, count: wire::bounded(wanted) }, Memory::from(memory))
            }
        };
        if let Some(transfer) = self.get(place) {
            transfer.asked = asked;
        }
        Some(Part { ask, memory })
    }

    /// Takes the answer to what a transfer asked for; `failure` is what its status means, if it is not OK.
    pub(super) fn answer(
        &mut self,
        place: usize,
        failure: Option<Verdict>,
        answer: &mut DataAnswer,
        unused: Memory,
    ) -> Progress {
        let Some(transfer) = self.get(place) else { return Progress::More };
        give_back(&mut transfer.work, unused, answer.payload.take_if(|_| failure.is_some()));
        let step = match failure {
            None => transfer.work.advance(answer),
            Some(verdict) => transfer.work.refused(verdict),
        };
        if failure.is_some() || answer.moved() < transfer.asked {
            transfer.short = transfer.short.saturating_add(1);
        }
        let step = match step {
            Step::More if transfer.short >= SHORT_ANSWERS => Step::Fails(VolumeErrorKind::Media),
            step => step,
        };
        match step {
            Step::More => {
                self.waiting.push_back(place);
                Progress::More
            }
            Step::Done => self.finish(place, None).map_or(Progress::More, Progress::Over),
            Step::Fails(kind) => self.finish(place, Some(kind)).map_or(Progress::More, Progress::Over),
            Step::Beyond => {
                let completion = self.finish(place, Some(VolumeErrorKind::OutOfRange));
                completion.map_or(Progress::More, Progress::Shrunk)
            }
            Step::Lost(verdict) => Progress::Lost(verdict),
            Step::Wrong(what) => Progress::Wrong(what),
        }
    }

    /// The change of a transfer was carried out over a connection before.
    pub(super) fn was_done(&mut self, place: usize, written: u64) -> Option<Completion> {
        let transfer = self.get(place)?;
        let over = match &mut transfer.work {
            Work::Write { data, done, .. } => {
                *done = done.saturating_add(wire::index(written)).min(data.len());
                *done >= data.len()
            }
            Work::Zero { offset, left, method, durability } => {
                *offset = offset.saturating_add(written);
                *left = left.saturating_sub(written);
                let commits = *method == Zeroing::Deallocate && *durability == Durability::Durable;
                if *left == 0 && commits {
                    *method = Zeroing::Commit;
                }
                *left == 0 && !commits
            }
            _ => false,
        };
        if over { self.finish(place, None) } else { None }
    }

    /// Takes a transfer from those that wait, where it stands at the end.
    pub(super) fn unwait_last(&mut self) {
        self.waiting.pop_back();
    }

    /// The place of the one that was begun last.
    pub(super) fn last(&self) -> Option<usize> {
        self.waiting.back().copied()
    }

    fn finish(&mut self, place: usize, failure: Option<VolumeErrorKind>) -> Option<Completion> {
        let Transfer { tag, work, .. } = self.remove(place)?;
        Some(work.complete(tag, failure))
    }

    /// The call of a transfer was not answered: its memory comes back.
    pub(super) fn put_back(&mut self, place: usize, memory: Memory) {
        if let Some(transfer) = self.get(place) {
            give_back(&mut transfer.work, memory, None);
        }
    }

    /// Ends a request that waits for a slot.
    pub(super) fn cancel(&mut self, tag: Tag) -> Option<Completion> {
        let at = self.waiting.iter().position(|place| {
            self.slots.get(*place).and_then(Option::as_ref).is_some_and(|transfer| transfer.tag == tag)
        })?;
        let place = self.waiting.remove(at)?;
        self.finish(place, Some(VolumeErrorKind::Cancelled))
    }

    /// Ends all: those that have taken `patience` have timed out.
    pub(super) fn end(&mut self, now: Instant, patience: Duration) -> impl Iterator<Item = Completion> + '_ {
        self.waiting.clear();
        self.free.clear();
        self.slots.drain(..).flatten().map(move |Transfer { tag, began, work, .. }| {
            let is_late = began + patience <= now;
            work.complete(
                tag,
                Some(if is_late { VolumeErrorKind::TimedOut } else { VolumeErrorKind::Unreachable }),
            )
        })
    }
}

/// What follows an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    More,
    Done,
    Fails(VolumeErrorKind),
    /// The file ends before the extent does.
    Beyond,
    Lost(Verdict),
    Wrong(&'static str),
}

impl Work {
    /// What was asked for was carried out.
    fn advance(&mut self, answer: &mut DataAnswer) -> Step {
        match self {
            Self::Read { length, into, done, .. } => {
                let Some(ReadAnswer { at_end, length: read }) = answer.reading else {
                    return Step::Wrong("a READ without an answer");
                };
                if *done == 0 {
                    *into = answer.payload.take().or_else(|| into.take());
                } else if let (Some(whole), Some(piece)) = (into.as_mut(), answer.payload.take()) {
                    place(whole, *done, *length, &piece);
                }
                *done = done.saturating_add(read).min(*length);
                after_read(*done >= *length, at_end, read)
            }
            Self::Verify { offset, left } => {
                let Some(ReadAnswer { at_end, length }) = answer.reading else {
                    return Step::Wrong("a READ without an answer");
                };
                *offset = offset.saturating_add(wide(length));
                *left = left.saturating_sub(wide(length));
                after_read(*left == 0, at_end, length)
            }
            Self::Write { data, done, stable, .. } => {
                let left = data.len().saturating_sub(*done);
                let written = match written(answer.written, *stable, wide(left)) {
                    Ok(written) => written,
                    Err(step) => return step,
                };
                *done = done.saturating_add(wire::index(written));
                if *done >= data.len() { Step::Done } else { Step::More }
            }
            Self::Zero { method: Zeroing::Commit, .. } | Self::Flush => Step::Done,
            Self::Zero { left, method: method @ Zeroing::Deallocate, durability, .. } => {
                *left = 0;
                if *durability == Durability::Cached {
                    return Step::Done;
                }
                *method = Zeroing::Commit;
                Step::More
            }
            Self::Zero { offset, left, durability, .. } => {
                let stable = match durability {
                    Durability::Durable => Stable::FileSync,
                    Durability::Cached => Stable::Unstable,
                };
                let written = match written(answer.written, stable, *left) {
                    Ok(written) => written,
                    Err(step) => return step,
                };
                *offset = offset.saturating_add(written);
                *left = left.saturating_sub(written);
                if *left == 0 { Step::Done } else { Step::More }
            }
        }
    }

    /// What was asked for has failed.
    fn refused(&mut self, verdict: Verdict) -> Step {
        match (verdict, self) {
            (Verdict::Fails(VolumeErrorKind::Unsupported), Self::Zero { method, .. })
                if *method == Zeroing::Deallocate =>
            {
                *method = Zeroing::Write;
                Step::More
            }
            // Nobody says that a reader may not write.
            (Verdict::Fails(VolumeErrorKind::ReadOnly), Self::Read { .. } | Self::Verify { .. }) => {
                Step::Fails(VolumeErrorKind::Media)
            }
            (Verdict::Fails(kind), _) => Step::Fails(kind),
            (Verdict::Uncached, _) => Step::More,
            (lost, _) => Step::Lost(lost),
        }
    }

    fn complete(self, tag: Tag, failure: Option<VolumeErrorKind>) -> Completion {
        let result = match (failure, self) {
            (None, Self::Read { into: Some(mut into), length, .. }) => {
                into.set_len(length);
                Ok(Outcome::Data(BufList::from(into.freeze())))
            }
            (None, Self::Read { .. }) => Err(VolumeErrorKind::Media.into()),
            (None, _) => Ok(Outcome::Done),
            (Some(kind), Self::Read { into, length, .. }) => {
                let memory = into.map(|mut memory| {
                    memory.set_len(length);
                    memory
                });
                Err(Failure { kind, memory })
            }
            (Some(kind), _) => Err(kind.into()),
        };
        Completion { tag, result }
    }
}

/// What follows a READ of so many bytes.
fn after_read(is_whole: bool, at_end: bool, read: usize) -> Step {
    match (is_whole, at_end, read) {
        (true, ..) => Step::Done,
        (false, true, _) => Step::Beyond,
        (false, false, 0) => Step::Wrong("READ gives nothing before the end of the file"),
        (false, false, _) => Step::More,
    }
}

/// Bytes that a WRITE has written, of `left` at most.
fn written(answer: Option<WriteAnswer>, asked: Stable, left: u64) -> Result<u64, Step> {
    let Some(WriteAnswer { count, committed }) = answer else {
        return Err(Step::Wrong("a WRITE without an answer"));
    };
    if committed < asked.number() || committed > 2 {
        return Err(Step::Wrong("a WRITE was less durable than it was asked to be"));
    }
    if count == 0 || u64::from(count) > left {
        return Err(Step::Wrong("a WRITE of none or of more bytes than were sent"));
    }
    Ok(count.into())
}

/// Memory that a call did not use is its transfer's again.
fn give_back(work: &mut Work, mut unused: Memory, payload: Option<Buf>) {
    if let Work::Read { into, done: 0, .. } = work
        && into.is_none()
    {
        *into = unused.pop().or(payload);
    }
}

/// Puts a piece behind what was read.
fn place(whole: &mut Buf, start: usize, length: usize, piece: &Buf) {
    whole.set_len(length.min(whole.capacity()));
    let end = start.saturating_add(piece.len());
    if let Some(room) = whole.get_mut(start..end) {
        room.copy_from_slice(piece);
    }
}

/// So many zeros.
fn repeated(zeros: &SharedBuf, mut length: usize) -> BufList {
    let mut list = BufList::new();
    while length > 0 {
        let count = length.min(zeros.len());
        list.push(zeros.slice(..count));
        length = length.saturating_sub(count);
    }
    list
}

fn wide(bytes: usize) -> u64 {
    wire::saturate(bytes)
}
