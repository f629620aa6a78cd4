//! One file operation, as a ring entry or as blocking calls on a file thread.

use std::fmt;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use buf::{Buf, BufList, SharedBuf};
use host::{BlockDone, BlockOperation, BlockRequest, IoError};
use io_uring::{opcode, squeue, types};
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};

use crate::completion_list::CompletionList;
use crate::convert::{self, call_length, index};
use crate::limits::{FILE_SLICES, MOST_VECTORS};
use crate::locked_file::{LockedFile, Medium, OpFile};

/// What a file operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Read,
    Write { durable: bool },
    Flush,
    Discard,
    Zero,
    Seek,
}

/// The most that one read or write system call moves: the kernel stops at a page below 2 GiB.
const MOST_BYTES: usize = 1 << 30;

/// An operation, its memory, and where its completion goes.
pub struct FileOp {
    verb: Verb,
    tag: u64,
    offset: u64,
    len: u64,
    done: u64,
    into: Option<Buf>,
    data: BufList,
    vectors: Vec<libc::iovec>,
    run: Option<(u64, bool)>,
    /// A read may end at the end of the file.
    may_end: bool,
    result: Result<(), IoError>,
    file: OpFile,
    medium: Medium,
    /// The description that flushes go to.
    flushes: Arc<OwnedFd>,
    completed: Arc<CompletionList<FileOp>>,
}

// SAFETY: the raw vectors are rebuilt from `data`, which may be sent to other threads, before each use.
unsafe impl std::marker::Send for FileOp {}

impl FileOp {
    /// An operation to be filled by [`FileOp::load`].
    pub(crate) fn new(
        file: Arc<LockedFile>,
        flushes: Arc<OwnedFd>,
        completed: Arc<CompletionList<FileOp>>,
    ) -> Self {
        let medium = file.medium;
        Self {
            verb: Verb::Flush,
            tag: 0,
            offset: 0,
            len: 0,
            done: 0,
            into: None,
            data: BufList::new(),
            vectors: Vec::new(),
            run: None,
            may_end: false,
            result: Ok(()),
            file: OpFile::Locked(file),
            medium,
            flushes,
            completed,
        }
    }

    /// An operation to be filled by [`FileOp::load_for`]; until then it is of this file.
    pub(crate) fn of_any(
        file: &Arc<OwnedFd>,
        medium: Medium,
        completed: Arc<CompletionList<FileOp>>,
    ) -> Self {
        let (verb, file, flushes) = (Verb::Flush, OpFile::Plain(Arc::clone(file)), Arc::clone(file));
        Self {
            verb,
            tag: 0,
            offset: 0,
            len: 0,
            done: 0,
            into: None,
            data: BufList::new(),
            vectors: Vec::new(),
            run: None,
            may_end: true,
            result: Ok(()),
            file,
            medium,
            flushes,
            completed,
        }
    }

    /// Takes a request.
    pub(crate) fn load(&mut self, request: BlockRequest) {
        (self.tag, self.offset, self.len, self.done) = (request.tag, 0, 0, 0);
        (self.run, self.result) = (None, Ok(()));
        match request.operation {
            BlockOperation::Read { offset, into } => {
                (self.verb, self.offset, self.len) = (Verb::Read, offset, into.len() as u64);
                self.into = Some(into);
            }
            BlockOperation::Write { offset, data, durable } => {
                (self.verb, self.offset, self.len) = (Verb::Write { durable }, offset, data.len() as u64);
                self.data = data;
            }
            BlockOperation::Flush => self.verb = Verb::Flush,
            BlockOperation::Discard { offset, len } => {
                (self.verb, self.offset, self.len) = (Verb::Discard, offset, len);
            }
            BlockOperation::Zero { offset, len } => {
                (self.verb, self.offset, self.len) = (Verb::Zero, offset, len);
            }
            BlockOperation::Seek { offset } => (self.verb, self.offset) = (Verb::Seek, offset),
        }
    }

    /// As [`FileOp::load`], of another file; a read may end at the end of the file.
    pub(crate) fn load_for(&mut self, file: &Arc<OwnedFd>, request: BlockRequest) {
        self.hold(file);
        self.load(request);
    }

    /// Lets go of its file, and holds another.
    pub(crate) fn hold(&mut self, file: &Arc<OwnedFd>) {
        (self.file, self.flushes) = (OpFile::Plain(Arc::clone(file)), Arc::clone(file));
    }

    /// Bytes that were moved.
    pub(crate) fn moved(&self) -> usize {
        index(self.done)
    }

    /// What it does.
    pub(crate) fn verb(&self) -> Verb {
        self.verb
    }

    /// Gives the finished operation to its queue.
    pub(crate) fn finish(self: Box<Self>) {
        let completed = Arc::clone(&self.completed);
        completed.put(self);
    }

    /// The completion; the operation can then be loaded again.
    pub(crate) fn take_done(&mut self) -> BlockDone {
        self.data = BufList::new();
        let data = self.into.take().map(Buf::freeze);
        BlockDone { tag: self.tag, result: self.result, data, run: self.run }
    }

    fn left(&self) -> usize {
        index(self.len.saturating_sub(self.done)).min(MOST_BYTES)
    }

    fn position(&self) -> u64 {
        self.offset.saturating_add(self.done)
    }

    /// True when nothing needs to be asked of the kernel.
    pub(crate) fn is_trivial(&self) -> bool {
        !matches!(self.verb, Verb::Flush | Verb::Seek) && self.len == 0
    }

    /// Counts what a system call did (bytes, or a negative error number); true when the operation has ended.
    pub(crate) fn advance(&mut self, result: i32) -> bool {
        match (u64::try_from(result), self.verb) {
            (_, Verb::Flush) => self.end_flush(result),
            (Err(_), _) if -result == libc::EINTR || -result == libc::EAGAIN => return false,
            (Err(_), _) => self.result = Err(IoError(-result)),
            (Ok(0), Verb::Read) if self.may_end => {}
            // The end of the file, within what was asked for: it was truncated meanwhile.
            (Ok(0), Verb::Read | Verb::Write { .. }) if self.len > self.done => {
                self.result = Err(IoError(libc::EIO));
            }
            (Ok(count), Verb::Read | Verb::Write { .. }) => {
                self.done = self.done.saturating_add(count);
                return self.done >= self.len;
            }
            (Ok(_), _) => {}
        }
        true
    }

    /// Takes the end of a flush. It is never asked again, not even when it was interrupted: the error that it may have met on
    /// its way would not be reported twice.
    fn end_flush(&mut self, result: i32) {
        // One that was cancelled has not begun.
        if result < 0 && result != -libc::ECANCELED {
            self.file.flush_failed(-result);
        }
        let earlier = self.file.failed_flush().map_or(Ok(()), Err);
        self.result = if result < 0 { Err(IoError(-result)) } else { earlier };
    }

    /// The ring's entry for what is left. Valid while the operation stays in its box, untouched.
    pub(super) fn entry(&mut self) -> squeue::Entry {
        let fd = types::Fd(self.file.as_raw_fd());
        let (left, position) = (call_length(self.left()), self.position());
        match self.verb {
            Verb::Read => {
                let start = index(self.done);
                let into = self.into.as_mut().and_then(|into| into.get_mut(start..)).unwrap_or_default();
                opcode::Read::new(fd, into.as_mut_ptr(), left).offset(position).build()
            }
            Verb::Write { durable } => {
                self.aim();
                let count = convert::position(self.vectors.len());
                let flags = if durable { libc::RWF_DSYNC } else { 0 };
                opcode::Writev::new(fd, self.vectors.as_ptr(), count).offset(position).rw_flags(flags).build()
            }
            Verb::Flush | Verb::Seek => {
                let flushes = types::Fd(self.flushes.as_raw_fd());
                opcode::Fsync::new(flushes).flags(types::FsyncFlags::DATASYNC).build()
            }
            Verb::Discard | Verb::Zero => opcode::Fallocate::new(fd, self.len)
                .offset(self.offset)
                .mode(self.mode().bits().cast_signed())
                .build(),
        }
    }

    fn mode(&self) -> FallocateFlags {
        let what =
            if self.verb == Verb::Zero { FallocateFlags::ZERO_RANGE } else { FallocateFlags::PUNCH_HOLE };
        what | FallocateFlags::KEEP_SIZE
    }

    /// Points the vectors at what is left of the data.
    fn aim(&mut self) {
        self.vectors.clear();
        let vectors = rest(&self.data, self.done).take(MOST_VECTORS);
        self.vectors.extend(
            vectors.map(|piece| libc::iovec {
                iov_base: piece.as_ptr().cast_mut().cast(),
                iov_len: piece.len(),
            }),
        );
    }

    /// Does the whole operation on the calling thread.
    pub(crate) fn run(&mut self) {
        loop {
            let result = match self.step() {
                Ok(count) => wire::bounded::<i32>(count),
                Err(error) => -error.raw_os_error(),
            };
            if self.advance(result) {
                return;
            }
        }
    }

    /// True of what waits for nothing: what is read from and written to memory, and its flushes.
    pub(crate) fn is_of_memory(&self) -> bool {
        self.medium == Medium::Memory && matches!(self.verb, Verb::Read | Verb::Write { .. } | Verb::Flush)
    }

    /// True of what waits for nothing if the page cache has it.
    pub(crate) fn may_be_cached(&self) -> bool {
        self.medium == Medium::PageCache && self.verb == Verb::Read
    }

    /// Reads what the page cache has; true when that was all. What it lacks is left.
    pub(crate) fn read_cached(&mut self) -> bool {
        loop {
            let (position, start) = (self.position(), index(self.done));
            let Some(rest) = self.into.as_mut().and_then(|into| into.get_mut(start..)) else { return false };
            let mut slices = [IoSliceMut::new(rest)];
            // Whatever the reason is that nothing can be said at once: whoever may wait asks again.
            match rustix::io::preadv2(&self.file, &mut slices, position, ReadWriteFlags::NOWAIT) {
                Ok(count) if self.advance(wire::bounded(count)) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }

    /// One system call's worth.
    fn step(&mut self) -> Result<usize, Errno> {
        let (position, done) = (self.position(), self.done);
        match self.verb {
            Verb::Read => {
                let start = index(done);
                let into = self.into.as_mut().and_then(|into| into.get_mut(start..)).unwrap_or_default();
                rustix::io::pread(&self.file, into, position)
            }
            Verb::Write { durable } => {
                let mut slices = [IoSlice::new(&[]); FILE_SLICES];
                let pieces = rest(&self.data, done).take(MOST_VECTORS);
                let used =
                    slices.iter_mut().zip(pieces).map(|(slot, piece)| *slot = IoSlice::new(piece)).count();
                let flags = if durable { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
                rustix::io::pwritev2(&self.file, slices.get(..used).unwrap_or_default(), position, flags)
            }
            Verb::Flush => rustix::fs::fdatasync(&*self.flushes).map(|()| 0),
            Verb::Discard | Verb::Zero => {
                rustix::fs::fallocate(&self.file, self.mode(), self.offset, self.len).map(|()| 0)
            }
            Verb::Seek => self.seek().map(|()| 0),
        }
    }

    /// Finds the end of the run that `offset` lies in. The descriptor's own position moves, which nothing else uses.
    fn seek(&mut self) -> Result<(), Errno> {
        let offset = self.offset;
        let end = |found: Result<u64, Errno>| match found {
            // Beyond the last data: a hole up to the end of the file.
            Err(Errno::NXIO) => rustix::fs::seek(&self.file, SeekFrom::End(0)),
            other => other,
        };
        let data = end(rustix::fs::seek(&self.file, SeekFrom::Data(offset)))?;
        self.run = Some(if data > offset {
            (data - offset, false)
        } else {
            let hole = end(rustix::fs::seek(&self.file, SeekFrom::Hole(offset)))?;
            (hole.saturating_sub(offset), true)
        });
        Ok(())
    }
}

/// The pieces of `data` after its first `done` bytes.
fn rest(data: &BufList, done: u64) -> impl Iterator<Item = &[u8]> {
    let mut skip = index(done);
    data.pieces().iter().filter_map(move |piece: &SharedBuf| {
        let from = skip.min(piece.len());
        skip -= from;
        piece.get(from..).filter(|rest| !rest.is_empty())
    })
}

impl fmt::Debug for FileOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileOp")
            .field("verb", &self.verb)
            .field("offset", &self.offset)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
