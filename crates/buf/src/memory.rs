//! The memory of a pool's block: zeros, aligned as direct I/O wants it, and, where it is large, untouched until somebody uses it.
//!
//! Whoever asks an allocator for zeros with an alignment above its own gets them written, one page fault for each 4 KiB: 10 ms for seventeen
//! buffers of 1 MiB. Without such an alignment large memory comes fresh from the system, whose zeros cost nothing before they are touched; so it is asked for
//! with some bytes to spare, and aligned here. A read that lends other memory in place of its buffer's never touches that.

use alloc::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use core::ptr::NonNull;

/// The smallest size class, in bytes.
const SMALLEST: usize = 512;
/// Size classes: powers of two from [`SMALLEST`] to [`LARGEST`].
pub(crate) const CLASSES: usize = 15;
/// The largest buffer that a pool gives out: 8 MiB.
pub const LARGEST: usize = SMALLEST << (CLASSES - 1);
/// Memory of this size and above is aligned to it, as direct I/O wants; smaller to its size.
const ALIGNMENT: usize = 4096;
/// Memory of this size and above is asked for with [`ALIGNMENT`] bytes to spare: 6 % or less of its addresses.
const LARGE: usize = 64 << 10;

/// The size class that holds `len` bytes.
pub(crate) const fn class_of(len: usize) -> usize {
    // The highest bit of the last byte's number says more quickly than `next_power_of_two` which power of two holds it.
    let last = len.saturating_sub(1) | (SMALLEST - 1);
    (last.ilog2() + 1 - SMALLEST.ilog2()) as usize
}

/// Bytes of a class's memory.
pub(crate) const fn size_of(class: usize) -> usize {
    SMALLEST << class
}

/// What the allocator is asked for.
fn layout_of(class: usize) -> Layout {
    let size = size_of(class);
    let layout = if size < LARGE {
        Layout::from_size_align(size, size.min(ALIGNMENT))
    } else {
        Layout::from_size_align(size + ALIGNMENT, 1)
    };
    layout.unwrap_or(Layout::new::<[u8; SMALLEST]>())
}

/// What an allocator gave for one block, until it is dropped.
pub(crate) struct Memory {
    base: NonNull<u8>,
    class: usize,
}

impl Memory {
    /// Zeroed memory for a class.
    pub(crate) fn new(class: usize) -> Self {
        let layout = layout_of(class);
        // SAFETY: every class has a size above zero.
        let base = unsafe { alloc_zeroed(layout) };
        let Some(base) = NonNull::new(base) else { handle_alloc_error(layout) };
        Self { base, class }
    }

    pub(crate) fn class(&self) -> usize {
        self.class
    }

    /// Where the class's bytes begin.
    pub(crate) fn start(&self) -> NonNull<u8> {
        let size = size_of(self.class);
        let skipped = if size < LARGE { 0 } else { self.base.as_ptr().align_offset(ALIGNMENT) };
        debug_assert!(skipped < ALIGNMENT);
        // SAFETY: `layout_of` has `ALIGNMENT` bytes to spare where anything is skipped, which is less.
        unsafe { self.base.add(skipped) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `new` allocated it with this layout.
        unsafe { dealloc(self.base.as_ptr(), layout_of(self.class)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_is_aligned_zeroed_and_writable_to_its_last_byte() {
        for class in 0..CLASSES {
            let memory = Memory::new(class);
            let (start, size) = (memory.start(), size_of(class));
            assert_eq!(start.as_ptr().addr() % size.min(ALIGNMENT), 0, "{size}");
            // SAFETY: the memory is ours, and as long as its class says.
            let bytes = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), size) };
            assert!(bytes.iter().all(|byte| *byte == 0), "{size}");
            bytes.fill(1);
        }
        assert_eq!(size_of(CLASSES - 1), LARGEST);
    }

    #[test]
    fn a_length_has_the_smallest_class_that_holds_it() {
        for (len, size) in [(0, 512), (512, 512), (513, 1024), (4096, 4096), (LARGEST - 1, LARGEST)] {
            assert_eq!(size_of(class_of(len)), size, "{len}");
        }
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
        let held: Vec<_> = (0..16).map(|_| Memory::new(CLASSES - 1)).collect();
        let taken = resident().saturating_sub(before);
        assert!(taken < held.len() * LARGEST / 1024 / 2, "{taken} kB");
    }
}
