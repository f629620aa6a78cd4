//! Memory that other processes can map: a source of arenas, each the whole of a file that has no name (`memfd_create`).
//!
//! Whoever is given an arena's file finds a buffer in it by the buffer's location, without a copy: a virtual machine's disk backend, a helper that has a
//! device, another process that serves the same volume. Pages of the file come with their first use. Its length is sealed, so that nobody who has it can
//! take memory away that this process uses.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError};

use buf::{ArenaSpan, Foreign, MemorySource};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The files of the arenas that there are, by where those begin.
type Files = Mutex<BTreeMap<usize, Arc<OwnedFd>>>;

/// A source of memory for pools that other processes can map. Clones are the same source.
///
/// Whoever has an arena's file may read and write all buffers in it at any time: it is for processes that are trusted as much as this one.
#[derive(Debug, Clone, Default)]
pub struct SharedMemory {
    files: Arc<Files>,
}

impl SharedMemory {
    /// The file that an arena of this source is the whole of, from its beginning; `None` for other memory.
    pub fn file_of(&self, arena: &ArenaSpan) -> Option<Arc<OwnedFd>> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.get(&arena.base.addr().get()).map(Arc::clone)
    }

    fn map_new(&self, len: usize) -> io::Result<SharedArena> {
        let file = memfd_create(c"linerate", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let len = len.next_multiple_of(rustix::param::page_size());
        ftruncate(&file, u64::try_from(len).map_err(io::Error::other)?)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let mapping = Mapping::new(&file, len)?;
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.insert(mapping.base.addr().get(), Arc::new(file));
        Ok(SharedArena { mapping, files: Arc::clone(&self.files) })
    }
}

impl MemorySource for SharedMemory {
    fn obtain(&self, len: usize) -> Option<Box<dyn Foreign>> {
        Some(Box::new(self.map_new(len).ok()?))
    }
}

/// An arena, until it is dropped.
struct SharedArena {
    mapping: Mapping,
    files: Arc<Files>,
}

impl Foreign for SharedArena {
    fn memory(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is as long, of a file that stays as long, whose bytes are zeros at first; this owner alone has it here.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.base.as_ptr(), self.mapping.len) }
    }
}

impl Drop for SharedArena {
    fn drop(&mut self) {
        // The place may be another arena's as soon as it is unmapped, which comes after this.
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.remove(&self.mapping.base.addr().get());
    }
}

/// A file that is mapped from its beginning.
struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone; any thread may use and end it.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives no access to the memory.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: &OwnedFd, len: usize) -> io::Result<Self> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place, so nothing that is in use is replaced.
        let place = unsafe { mmap(ptr::null_mut(), len, rights, MapFlags::SHARED, file, 0) }?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use buf::{Pool, SharedBuf};

    /// The bytes of a buffer as another mapping of its arena's file has them.
    fn seen_elsewhere(source: &SharedMemory, pool: &Pool, bytes: &SharedBuf) -> Vec<u8> {
        let place = bytes.location().unwrap();
        let arena = pool.arenas().into_iter().find(|span| span.id == place.arena).unwrap();
        let other = Mapping::new(&source.file_of(&arena).unwrap(), arena.len).unwrap();
        assert_ne!(other.base, arena.base);
        let bytes = place.offset..place.offset + bytes.len();
        // SAFETY: the mapping is as long as the arena, and the buffer lies in that.
        bytes.map(|at| unsafe { other.base.add(at).read_volatile() }).collect()
    }

    #[test]
    fn another_mapping_of_an_arenas_file_has_the_bytes_of_its_buffers() {
        let source = SharedMemory::default();
        let pool = Pool::with_source(64 << 20, Arc::new(source.clone()));
        let lens = [600, 4096, 100_000, 1 << 20, buf::LARGEST];
        let buffers: Vec<_> = lens
            .into_iter()
            .zip(1_u8..)
            .map(|(len, mark)| {
                let mut buffer = pool.take(len).unwrap();
                assert_eq!(buffer.as_ptr().addr() % len.next_power_of_two().min(4096), 0);
                buffer.fill(mark);
                buffer[len - 1] = 0xee;
                buffer.freeze()
            })
            .collect();
        for (buffer, mark) in buffers.iter().zip(1_u8..) {
            let seen = seen_elsewhere(&source, &pool, buffer);
            assert_eq!((seen[0], seen[seen.len() - 1]), (mark, 0xee));
            assert!(seen == buffer[..]);
            let slice = buffer.slice(300..333);
            assert_eq!(seen_elsewhere(&source, &pool, &slice), slice[..]);
        }
    }

    #[test]
    fn an_arenas_file_goes_with_its_last_block_and_cannot_be_cut() {
        let source = SharedMemory::default();
        let pool = Pool::with_source(1 << 20, Arc::new(source.clone()));
        let buffer = pool.take(4096).unwrap();
        let arena = pool.arenas()[0];
        let file = source.file_of(&arena).unwrap();
        assert!(ftruncate(&file, 0).is_err(), "it would take memory away that is in use");
        drop(pool);
        assert!(source.file_of(&arena).is_some(), "a block is out");
        drop(buffer);
        assert!(source.file_of(&arena).is_none());
        assert_eq!(Arc::strong_count(&file), 1, "nobody else has it");
    }

    #[test]
    fn what_cannot_be_mapped_is_refused() {
        assert!(SharedMemory::default().obtain(usize::MAX / 2 + 1).is_none());
    }
}
