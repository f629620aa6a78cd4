//! fio's buffers: memory of a C program, lent for the time of a request.

use linerate::{BufList, Foreign};

/// A piece of memory that belongs to somebody else until its request has ended.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    start: *mut u8,
    len: usize,
}

// SAFETY: whoever made it promised that nobody else touches the memory until the request has ended, so that it does
// not matter which thread does.
unsafe impl Send for Memory {}
// SAFETY: as above; shared access is read-only.
unsafe impl Sync for Memory {}

impl Memory {
    /// The memory of `len` bytes from `start`.
    ///
    /// # Safety
    /// It is initialised and writable, and until the request that it is used for has ended it stays where it is and
    /// nobody else touches it.
    pub unsafe fn new(start: *mut u8, len: usize) -> Self {
        Self { start, len }
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts `data` there unless that is where it lies, as many bytes as fit.
    pub(crate) fn fill(self, data: &BufList) {
        if data.pieces().first().is_none_or(|first| std::ptr::eq(first.as_ptr(), self.start)) {
            return;
        }
        // SAFETY: by the promise of `new` the memory is ours until the request is reported as ended, which comes after
        // this, and `data` is other memory: a volume's own.
        data.copy_to(unsafe { std::slice::from_raw_parts_mut(self.start, self.len) });
    }
}

impl Foreign for Memory {
    fn memory(&mut self) -> &mut [u8] {
        // SAFETY: by the promise of `new`; called once for each request.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}
