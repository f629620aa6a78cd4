//! Files and block devices: opened by path, and a queue of operations per core.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use host::{
    BlockDone, BlockFile, BlockInfo, BlockKind, BlockQueue, BlockRequest, IoError, OpenMode, OpenOptions,
    Storage,
};
use rustix::fs::{AtFlags, FallocateFlags, FileType, Mode, OFlags, SeekFrom, StatxFlags};
use rustix::io::Errno;

use crate::limits::FILE_DEPTH;
use crate::local;
use crate::sys::{FileOp, Verb};
use crate::threads;

/// The real file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct Files;

impl Storage for Files {
    fn open(&self, path: &str, options: OpenOptions) -> Result<Arc<dyn BlockFile>, IoError> {
        let file = open(path, options).map_err(failure)?;
        Ok(Arc::new(file))
    }
}

fn failure(error: Errno) -> IoError {
    IoError(error.raw_os_error())
}

/// What `path` is; looked at before it is opened, as opening a pipe would wait.
fn kind_of(mode: rustix::fs::RawMode) -> Result<BlockKind, Errno> {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => Ok(BlockKind::File),
        FileType::BlockDevice => Ok(BlockKind::Device),
        FileType::Directory => Err(Errno::ISDIR),
        _ => Err(Errno::NOTBLK),
    }
}

fn open(path: &str, options: OpenOptions) -> Result<File, Errno> {
    let may_create = options.size.is_some() && options.mode == OpenMode::ReadWrite;
    match rustix::fs::stat(path) {
        Ok(stat) => drop(kind_of(stat.st_mode)?),
        Err(Errno::NOENT) if may_create => {}
        Err(error) => return Err(error),
    }
    let mut flags = match options.mode {
        OpenMode::ReadWrite => OFlags::RDWR,
        OpenMode::ReadOnly => OFlags::RDONLY,
    } | OFlags::CLOEXEC;
    flags.set(OFlags::DIRECT, options.direct);
    flags.set(OFlags::CREATE, may_create);
    let descriptor = rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?;
    let kind = kind_of(rustix::fs::fstat(&descriptor)?.st_mode)?;
    if options.mode == OpenMode::ReadWrite {
        // Two volumes on one file would overwrite each other: the second is refused with `EAGAIN`. The lock ends with
        // the descriptor, also when the process is killed.
        rustix::fs::flock(&descriptor, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
    }
    if let Some(size) = options.size {
        ensure_size(&descriptor, kind, size, options.mode)?;
    }
    let info = examine(&descriptor, kind, options)?;
    Ok(File { descriptor: Arc::new(descriptor), info })
}

fn size_of(file: &OwnedFd) -> Result<u64, Errno> {
    rustix::fs::seek(file, SeekFrom::End(0))
}

fn ensure_size(file: &OwnedFd, kind: BlockKind, size: u64, mode: OpenMode) -> Result<(), Errno> {
    match (size_of(file)? < size, kind, mode) {
        (false, ..) => Ok(()),
        (true, BlockKind::File, OpenMode::ReadWrite) => rustix::fs::ftruncate(file, size),
        (true, ..) => Err(Errno::NOSPC),
    }
}

fn examine(file: &OwnedFd, kind: BlockKind, options: OpenOptions) -> Result<BlockInfo, Errno> {
    let (logical_block, physical_block) = match kind {
        BlockKind::Device => (rustix::fs::ioctl_blksszget(file)?, rustix::fs::ioctl_blkpbszget(file)?),
        BlockKind::File => (512, u32::try_from(rustix::fs::fstat(file)?.st_blksize).unwrap_or(4096)),
    };
    let size = size_of(file)?;
    let writable = options.mode == OpenMode::ReadWrite;
    let (can_discard, can_zero) = match kind {
        BlockKind::Device => (writable && discards(file)?, writable),
        BlockKind::File => (writable && punches(file, size), writable && zeroes(file, size)),
    };
    let alignment = if options.direct { direct_alignment(file).unwrap_or(4096) } else { 1 };
    Ok(BlockInfo { kind, size, alignment, logical_block, physical_block, can_discard, can_zero })
}

/// What direct I/O must be aligned to, if the kernel (6.1 and later) says.
fn direct_alignment(file: &OwnedFd) -> Option<u32> {
    let wanted = StatxFlags::from_bits_retain(libc::STATX_DIOALIGN);
    let known = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, wanted).ok()?;
    let alignment = known.stx_dio_mem_align.max(known.stx_dio_offset_align);
    (alignment > 0).then_some(alignment)
}

/// True when the device's queue takes discards.
fn discards(file: &OwnedFd) -> Result<bool, Errno> {
    let device = rustix::fs::fstat(file)?.st_rdev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let read = |folder: &str| {
        std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/{folder}queue/discard_max_bytes"))
    };
    // A partition's queue is its disk's, one folder up.
    let most = read("").or_else(|_| read("../")).unwrap_or_default();
    Ok(most.trim().parse::<u64>().is_ok_and(|most| most > 0))
}

/// Tries to punch a hole behind the end, where it changes nothing.
fn punches(file: &OwnedFd, size: u64) -> bool {
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(file, mode, size, 4096).is_ok()
}

/// Tries to zero behind the end, and releases what that may have taken.
fn zeroes(file: &OwnedFd, size: u64) -> bool {
    let mode = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
    let can = rustix::fs::fallocate(file, mode, size, 4096).is_ok();
    if can {
        punches(file, size);
    }
    can
}

/// An opened file or device.
#[derive(Debug)]
struct File {
    descriptor: Arc<OwnedFd>,
    info: BlockInfo,
}

impl BlockFile for File {
    fn info(&self) -> BlockInfo {
        let size = size_of(&self.descriptor).unwrap_or(self.info.size);
        BlockInfo { size, ..self.info }
    }

    fn open_queue(&self, waker: Waker) -> Result<Box<dyn BlockQueue>, IoError> {
        let sink = Arc::new(Sink { ended: Mutex::new(Vec::new()), waker });
        let file = Arc::clone(&self.descriptor);
        Ok(Box::new(Queue { file, sink, free: Vec::new(), taken: Vec::new(), under_way: 0 }))
    }
}

/// Where a queue's operations end, on whatever thread.
pub(crate) struct Sink {
    ended: Mutex<Vec<Box<FileOp>>>,
    waker: Waker,
}

impl Sink {
    fn lock(&self) -> MutexGuard<'_, Vec<Box<FileOp>>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an operation that has ended.
    pub(crate) fn put(&self, op: Box<FileOp>) {
        self.lock().push(op);
        self.waker.wake_by_ref();
    }
}

/// One core's operations on a file. Operations' boxes are used again, so that the steady state allocates nothing.
struct Queue {
    file: Arc<OwnedFd>,
    sink: Arc<Sink>,
    free: Vec<Box<FileOp>>,
    taken: Vec<Box<FileOp>>,
    under_way: usize,
}

impl BlockQueue for Queue {
    fn submit(&mut self, request: BlockRequest) -> Result<(), BlockRequest> {
        if self.under_way >= FILE_DEPTH {
            return Err(request);
        }
        self.under_way += 1;
        let new = || Box::new(FileOp::new(Arc::clone(&self.file), Arc::clone(&self.sink)));
        let mut op = self.free.pop().unwrap_or_else(new);
        op.load(request);
        if op.is_trivial() {
            op.finish();
        } else if op.verb() == Verb::Seek {
            threads::submit(op);
        } else {
            local::start_file(op);
        }
        Ok(())
    }

    fn poll(&mut self, done: &mut Vec<BlockDone>) {
        std::mem::swap(&mut *self.sink.lock(), &mut self.taken);
        self.under_way = self.under_way.saturating_sub(self.taken.len());
        for mut op in self.taken.drain(..) {
            done.push(op.take_done());
            self.free.push(op);
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("under_way", &self.under_way).finish_non_exhaustive()
    }
}
