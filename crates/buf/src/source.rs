//! Where a pool's arenas come from: the heap, unless the pool is given another source.
//!
//! The heap's memory is zeros, aligned as direct I/O wants it, and, where it is large, untouched until somebody uses it.
//! Whoever asks an allocator for zeros with an alignment above its own gets them written, one page fault for each 4 KiB. Without such an alignment
//! large memory comes fresh from the system, whose zeros cost nothing before they are touched; so it is asked for with some bytes to spare, and
//! aligned here.

use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use alloc::boxed::Box;
use core::ptr::NonNull;

use crate::foreign::Foreign;
use crate::memory::ALIGNMENT;

/// Memory of this size and above is asked for with [`ALIGNMENT`] bytes to spare: 6 % or less of its addresses.
const LARGE: usize = 64 << 10;

/// Where a pool gets the arenas that its buffers lie in: the heap, a mapping that other processes share, memory that a device has registered.
///
/// It is asked on the pool's thread, and rarely: when a pool grows. Several pools may share one.
pub trait MemorySource: Send + Sync {
    /// `len` bytes or more (a power of two, at least 512), that begin at a multiple of 4,096, or of `len` if that is less; or `None` when there are none
    /// now. Memory that breaks these rules counts as none. Dropping the owner gives the memory back; that may be on any thread.
    ///
    /// A pool that gets none refuses buffers as it does at its limit.
    fn obtain(&self, len: usize) -> Option<Box<dyn Foreign>>;
}

/// Memory of the program's allocator: the source of a pool that is given none.
#[derive(Debug, Clone, Copy, Default)]
pub struct Heap;

impl MemorySource for Heap {
    fn obtain(&self, len: usize) -> Option<Box<dyn Foreign>> {
        Some(Box::new(HeapMemory::new(len)?))
    }
}

/// What the allocator gave for one arena, until it is dropped.
struct HeapMemory {
    base: NonNull<u8>,
    layout: Layout,
    len: usize,
}

// SAFETY: the memory belongs to this owner alone.
unsafe impl Send for HeapMemory {}
// SAFETY: a shared reference gives no access to it.
unsafe impl Sync for HeapMemory {}

impl HeapMemory {
    fn new(len: usize) -> Option<Self> {
        let layout = if len < LARGE {
            Layout::from_size_align(len, len.min(ALIGNMENT))
        } else {
            Layout::from_size_align(len.checked_add(ALIGNMENT)?, 1)
        };
        let layout = layout.ok().filter(|layout| layout.size() > 0)?;
        // SAFETY: the size is above zero.
        let base = unsafe { alloc_zeroed(layout) };
        Some(Self { base: NonNull::new(base)?, layout, len })
    }
}

impl Foreign for HeapMemory {
    fn memory(&mut self) -> &mut [u8] {
        let skipped = if self.len < LARGE { 0 } else { self.base.as_ptr().align_offset(ALIGNMENT) };
        debug_assert!(skipped < ALIGNMENT);
        // SAFETY: `new` asked for `ALIGNMENT` bytes to spare where anything is skipped, which is less; the memory is zeroed, and nobody else has it.
        unsafe { core::slice::from_raw_parts_mut(self.base.as_ptr().add(skipped), self.len) }
    }
}

impl Drop for HeapMemory {
    fn drop(&mut self) {
        // SAFETY: `new` allocated it with this layout.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{CLASSES, LARGEST, size_of};

    #[test]
    fn memory_of_every_size_is_aligned_zeroed_and_writable_to_its_last_byte() {
        for size in (0..CLASSES).map(size_of) {
            let mut owner = Heap.obtain(size).unwrap();
            let bytes = owner.memory();
            assert_eq!(bytes.as_ptr().addr() % size.min(ALIGNMENT), 0, "{size}");
            assert!(bytes.len() == size && bytes.iter().all(|byte| *byte == 0), "{size}");
            bytes.fill(1);
        }
        assert!(Heap.obtain(0).is_none() && Heap.obtain(usize::MAX).is_none());
    }

    /// Kilobytes of the process's memory that are there.
    fn resident() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    fn large_memory_takes_no_room_before_it_is_used() {
        let before = resident();
        let held: Vec<_> = (0..16).map(|_| Heap.obtain(LARGEST).unwrap()).collect();
        let taken = resident().saturating_sub(before);
        assert!(taken < held.len() * LARGEST / 1024 / 2, "{taken} kB");
    }
}
