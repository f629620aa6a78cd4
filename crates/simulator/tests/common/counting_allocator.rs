//! An allocator that counts the bytes that each thread has.
#![expect(
    unsafe_code,
    reason = "an allocator is unsafe by its trait; this one leaves everything to the system's"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local!(static BYTES: Cell<usize> = const { Cell::new(0) });

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _counted = BYTES.try_with(|bytes| bytes.set(bytes.get().wrapping_add(layout.size())));
        // SAFETY: by the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        let _counted = BYTES.try_with(|bytes| bytes.set(bytes.get().wrapping_sub(layout.size())));
        // SAFETY: by the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that the calling thread has allocated and not given back.
pub(crate) fn heap() -> usize {
    BYTES.get()
}
