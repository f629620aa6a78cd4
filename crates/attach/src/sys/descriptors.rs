//! The descriptors of a queue's requests, which the kernel writes and shares.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::ublk::wire::{DESCRIPTORS_OF_A_QUEUE, Descriptor, QueueSize};

/// The mapped descriptors of one queue.
pub(crate) struct Descriptors {
    first: NonNull<Descriptor>,
    length: usize,
    depth: u16,
}

// SAFETY: the mapping belongs to this value alone, and is only read.
unsafe impl Send for Descriptors {}

impl Descriptors {
    /// Maps the descriptors of a queue with so many tags.
    pub(crate) fn map(device: &File, size: QueueSize) -> io::Result<Self> {
        let QueueSize { queue, depth } = size;
        let page = rustix::param::page_size();
        let length = (usize::from(depth) * size_of::<Descriptor>()).next_multiple_of(page);
        let offset = u64::from(queue) * DESCRIPTORS_OF_A_QUEUE;
        // SAFETY: the kernel chooses the place, so nothing that is in use is replaced.
        let place =
            unsafe { mmap(ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, device, offset) }?;
        let first = NonNull::new(place.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { first, length, depth })
    }

    /// The descriptor of a request that was fetched; `None` for a tag that the queue does not have.
    pub(crate) fn get(&self, tag: u16) -> Option<Descriptor> {
        if tag >= self.depth {
            return None;
        }
        // SAFETY: the mapping has `depth` descriptors and lives as long as `self`. Any bits are a descriptor. The kernel writes one
        // before it hands the request out, and not again until it is answered; a volatile read takes it as it is.
        Some(unsafe { self.first.add(usize::from(tag)).read_volatile() })
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length, and nothing borrows from it.
        // It cannot fail for a mapping that is there.
        let _unmapped = unsafe { munmap(self.first.as_ptr().cast::<c_void>(), self.length) };
    }
}
