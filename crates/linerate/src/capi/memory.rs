//! A C program's memory, lent for the time of a request.

use std::ffi::c_void;

use buf::{BufList, Foreign};

/// A piece of memory that belongs to a C program and is ours until its request has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lent {
    start: *mut u8,
    len: usize,
}

// SAFETY: the program promised that nobody else touches the memory until the request has ended.
unsafe impl Send for Lent {}
// SAFETY: as above; shared access is read-only.
unsafe impl Sync for Lent {}

impl Lent {
    /// The memory of `len` bytes from `start`.
    ///
    /// # Safety
    /// It is initialised and writable (or only read: a write's data), and until the request has ended it stays and nobody
    /// else touches it.
    pub(super) unsafe fn new(start: *mut c_void, len: usize) -> Self {
        let start = if len == 0 { std::ptr::NonNull::dangling().as_ptr() } else { start.cast() };
        Self { start, len }
    }

    /// Bytes.
    pub(super) fn len(self) -> usize {
        self.len
    }

    /// Puts `data` there unless that is where it lies, as many bytes as fit.
    pub(super) fn fill(self, data: &BufList) {
        if data.pieces().first().is_none_or(|first| std::ptr::eq(first.as_ptr(), self.start)) {
            return;
        }
        // SAFETY: by the promise of `new` the memory is ours until the callback, which comes after this, and `data` is
        // other memory: a volume's own.
        data.copy_to(unsafe { std::slice::from_raw_parts_mut(self.start, self.len) });
    }
}

impl Foreign for Lent {
    fn memory(&mut self) -> &mut [u8] {
        // SAFETY: by the promise of `new`; called once for each request.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}
