//! Files and block devices: opened by path, and a queue of operations per core.

use std::fmt;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::task::Waker;

use host::{
    BlockDone, BlockFile, BlockInfo, BlockKind, BlockQueue, BlockRequest, IoError, OpenMode, OpenOptions,
    Storage,
};
use rustix::fs::{AtFlags, FallocateFlags, FileType, Mode, OFlags, SeekFrom, StatxFlags};
use rustix::io::Errno;

use crate::completion_list::CompletionList;
use crate::core_local;
use crate::limits::FILE_DEPTH;
use crate::locked_file::{LockedFile, Medium};
use crate::sys::{self, FileOp, Verb};
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

pub(crate) fn failure(error: Errno) -> IoError {
    IoError(error.raw_os_error())
}

/// What `path` is; looked at before it is opened, as opening a pipe would wait.
pub(crate) fn kind_of(mode: rustix::fs::RawMode) -> Result<BlockKind, Errno> {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => Ok(BlockKind::File),
        FileType::BlockDevice => Ok(BlockKind::Device),
        FileType::Directory => Err(Errno::ISDIR),
        _ => Err(Errno::NOTBLK),
    }
}

fn open(path: &str, options: OpenOptions) -> Result<File, Errno> {
    let writable = options.mode == OpenMode::ReadWrite;
    let device = match rustix::fs::stat(path) {
        Ok(stat) => kind_of(stat.st_mode)? == BlockKind::Device,
        Err(Errno::NOENT) if options.size.is_some() && writable => false,
        Err(error) => return Err(error),
    };
    let mut flags = if writable { OFlags::RDWR } else { OFlags::RDONLY } | OFlags::CLOEXEC;
    flags.set(OFlags::DIRECT, options.direct);
    flags.set(OFlags::CREATE, options.size.is_some() && writable && !device);
    // On a device this claims it: refused with `EBUSY` while a mount, swap, RAID or another claimant has it, and they are
    // refused while we have it.
    flags.set(OFlags::EXCL, writable && device);
    let descriptor = rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?;
    let kind = kind_of(rustix::fs::fstat(&descriptor)?.st_mode)?;
    if writable && kind == BlockKind::Device {
        check_writable(&descriptor)?;
    }
    let medium = Medium::of(&descriptor, options.direct);
    let descriptor = LockedFile::new(descriptor, medium);
    if writable {
        // Two volumes on one file would overwrite each other: the second is refused with `EAGAIN`. The lock ends also when
        // the process is killed.
        rustix::fs::flock(&descriptor, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
    }
    // A virtual machine that has the image open does not see `flock`.
    sys::lock::take(descriptor.as_fd(), options.mode).map_err(|_| Errno::AGAIN)?;
    if let Some(size) = options.size {
        ensure_size(&descriptor.descriptor, kind, size, options.mode)?;
    }
    let info = examine(&descriptor.descriptor, kind, options)?;
    Ok(File { descriptor: Arc::new(descriptor), info })
}

/// Refuses a device that takes no writes: the kernel lets it be opened for writing and refuses each of them.
pub(crate) fn check_writable(device: &OwnedFd) -> Result<(), Errno> {
    if attribute(device, "ro")? == Some(1) { Err(Errno::ROFS) } else { Ok(()) }
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

pub(crate) fn examine(file: &OwnedFd, kind: BlockKind, options: OpenOptions) -> Result<BlockInfo, Errno> {
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
    let usual = if kind == BlockKind::Device { logical_block } else { 4096 };
    let alignment = if options.direct { direct_alignment(file).unwrap_or(usual) } else { 1 };
    let page_cache = !options.direct;
    Ok(BlockInfo { kind, size, alignment, logical_block, physical_block, can_discard, can_zero, page_cache })
}

/// What direct I/O must be aligned to, if the kernel (6.1 and later) says.
fn direct_alignment(file: &OwnedFd) -> Option<u32> {
    let wanted = StatxFlags::from_bits_retain(libc::STATX_DIOALIGN);
    let known = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, wanted).ok()?;
    let alignment = known.stx_dio_mem_align.max(known.stx_dio_offset_align);
    (alignment > 0).then_some(alignment)
}

/// True when the device's queue releases blocks so that they read as zeros: it takes discards, and the write zeroes
/// that punching a hole in a device becomes.
fn discards(file: &OwnedFd) -> Result<bool, Errno> {
    for limit in ["discard_max_bytes", "write_zeroes_max_bytes"] {
        // A partition's queue is its disk's, one folder up.
        let most = match attribute(file, &format!("queue/{limit}"))? {
            None => attribute(file, &format!("../queue/{limit}"))?,
            most => most,
        };
        if most.unwrap_or(0) == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A number that sysfs has of a block device, if it has.
fn attribute(device: &OwnedFd, name: &str) -> Result<Option<u64>, Errno> {
    let number = rustix::fs::fstat(device)?.st_rdev;
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let text = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/{name}"));
    Ok(text.ok().and_then(|text| text.trim().parse().ok()))
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
    descriptor: Arc<LockedFile>,
    info: BlockInfo,
}

impl File {
    /// The file once more, for one queue's flushes. The kernel reports data that it could not write back once for each open file
    /// description: with one of its own, a queue gets the report whatever durable writes and other queues' flushes got before.
    fn description_for_flushes(&self) -> Result<OwnedFd, Errno> {
        let path = format!("/proc/self/fd/{}", self.descriptor.as_raw_fd());
        rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
    }
}

impl BlockFile for File {
    fn info(&self) -> BlockInfo {
        let size = size_of(&self.descriptor.descriptor).unwrap_or(self.info.size);
        BlockInfo { size, ..self.info }
    }

    fn open_queue(&self, waker: Waker) -> Result<Box<dyn BlockQueue>, IoError> {
        let completed = Arc::new(CompletionList::new(waker));
        let file = Arc::clone(&self.descriptor);
        let flushes = Arc::new(self.description_for_flushes().map_err(failure)?);
        Ok(Box::new(Queue { file, flushes, completed, free: Vec::new(), taken: Vec::new(), under_way: 0 }))
    }
}

/// One core's operations on a file. Operations' boxes are used again, so that the steady state allocates nothing.
struct Queue {
    file: Arc<LockedFile>,
    flushes: Arc<OwnedFd>,
    completed: Arc<CompletionList<FileOp>>,
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
        let new = || Box::new(FileOp::new(self.file.clone(), self.flushes.clone(), self.completed.clone()));
        let mut op = self.free.pop().unwrap_or_else(new);
        op.load(request);
        if op.is_trivial() {
            op.finish();
        } else if op.verb() == Verb::Seek {
            threads::submit(op);
        } else {
            core_local::start_file(op);
        }
        Ok(())
    }

    fn poll(&mut self, done: &mut Vec<BlockDone>) {
        self.completed.swap(&mut self.taken);
        self.under_way = self.under_way.saturating_sub(self.taken.len());
        for mut op in self.taken.drain(..) {
            done.push(op.take_done());
            self.free.push(op);
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.completed.close();
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("under_way", &self.under_way).finish_non_exhaustive()
    }
}
