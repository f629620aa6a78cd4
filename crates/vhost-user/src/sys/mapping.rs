//! A file that is mapped, for as long as somebody has the mapping.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A new file without a name, of `len` zeros or a little more; its length is sealed, so that nobody who has it can take memory away that others use.
pub(super) fn sealed_file(len: usize) -> io::Result<(OwnedFd, usize)> {
    let file = memfd_create(c"linerate", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let len = len.checked_next_multiple_of(rustix::param::page_size()).ok_or(io::ErrorKind::OutOfMemory)?;
    ftruncate(&file, u64::try_from(len).map_err(io::Error::other)?)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok((file, len))
}

/// Bytes of a file, mapped for reading and writing, and shared with whoever else maps them.
#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) base: NonNull<u8>,
    pub(super) len: usize,
}

// SAFETY: the mapping belongs to this value alone; any thread may use and end it.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives no access to the memory but through what says why it may.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of a file from `offset` on, a multiple of the page size.
    pub(super) fn new(file: impl AsFd, offset: u64, len: usize) -> io::Result<Self> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place, so nothing that is in use is replaced.
        let place = unsafe { mmap(ptr::null_mut(), len, rights, MapFlags::SHARED, file, offset) }?;
        let base = NonNull::new(place.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` made the mapping with this length, and its owner, whose memory nobody uses any more, is being dropped.
        // It cannot fail for a mapping that is there.
        let _unmapped = unsafe { munmap(self.base.as_ptr().cast::<c_void>(), self.len) };
    }
}
