//! An opened file: what its operations may wait for, its lock, and whether one of its flushes has failed; what outlives its queues in their operations.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use host::IoError;
use rustix::fs::FileType;

use crate::sys;

/// The kind of file systems in memory (`TMPFS_MAGIC`).
pub(crate) const TMPFS: rustix::fs::FsWord = 0x0102_1994;

/// What reading and writing a file may wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Medium {
    /// Nothing but memory, as for any memory: the file is on tmpfs.
    Memory,
    /// A medium, unless the page cache has what is read.
    PageCache,
    /// A medium, each time.
    Direct,
}

impl Medium {
    /// What an open file waits for, or the files of an open directory. Devices have nodes on tmpfs and are elsewhere.
    pub(crate) fn of(file: impl AsFd, direct: bool) -> Self {
        let file = file.as_fd();
        let is_there = rustix::fs::fstat(file).is_ok_and(|stat| {
            matches!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile | FileType::Directory)
        });
        let is_of_memory = is_there && rustix::fs::fstatfs(file).is_ok_and(|stat| stat.f_type == TMPFS);
        match (is_of_memory, direct) {
            (true, _) => Self::Memory,
            (false, true) => Self::Direct,
            (false, false) => Self::PageCache,
        }
    }
}

/// A descriptor whose lock ends when it is closed, even while the kernel still holds the file for a request that has completed:
/// a file that was closed may be opened again at once.
#[derive(Debug)]
pub(crate) struct LockedFile {
    pub(crate) descriptor: OwnedFd,
    pub(crate) medium: Medium,
    /// The error number that a flush has ended with; zero if none has.
    failed_flush: AtomicI32,
}

impl LockedFile {
    /// A file whose lock is this descriptor's.
    pub(crate) fn new(descriptor: OwnedFd, medium: Medium) -> Self {
        Self { descriptor, medium, failed_flush: AtomicI32::new(0) }
    }

    /// A flush has failed, whether or not a request still waits for it: the system reports that once.
    pub(crate) fn flush_failed(&self, error: i32) {
        self.failed_flush.store(error, Ordering::Release);
    }

    /// What an earlier flush has ended with, if one has failed.
    pub(crate) fn failed_flush(&self) -> Option<IoError> {
        Some(self.failed_flush.load(Ordering::Acquire)).filter(|error| *error != 0).map(IoError)
    }
}

impl AsFd for LockedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl AsRawFd for LockedFile {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}

/// The file of an operation: one that is a volume, with its lock and the memory of its flushes, or any other, which is not flushed this way.
#[derive(Debug)]
pub(crate) enum OpFile {
    Locked(Arc<LockedFile>),
    Plain(Arc<OwnedFd>),
}

impl OpFile {
    /// As [`LockedFile::flush_failed`].
    pub(crate) fn flush_failed(&self, error: i32) {
        if let Self::Locked(file) = self {
            file.flush_failed(error);
        }
    }

    /// As [`LockedFile::failed_flush`].
    pub(crate) fn failed_flush(&self) -> Option<IoError> {
        match self {
            Self::Locked(file) => file.failed_flush(),
            Self::Plain(_) => None,
        }
    }
}

impl AsFd for OpFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Locked(file) => file.as_fd(),
            Self::Plain(file) => file.as_fd(),
        }
    }
}

impl AsRawFd for OpFile {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // A file that was never locked has nothing to give back, and a failure leaves it to the kernel.
        let _unlocked = rustix::fs::flock(&self.descriptor, rustix::fs::FlockOperation::Unlock);
        sys::lock::release(self.descriptor.as_fd());
    }
}
