//! What the standard library would bring: an allocator, and what happens after a panic.
#![expect(unsafe_code, reason = "an allocator is an unsafe trait")]

use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;
use core::ptr;

/// An allocator that has nothing to give: the library is linked, not run.
struct Empty;

// SAFETY: it gives no memory, so that it promises nothing of any.
unsafe impl GlobalAlloc for Empty {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ALLOCATOR: Empty = Empty;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
