//! fio's buffers: memory of a C program, lent for the time of a request.

use std::sync::Arc;

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

    /// Takes what a read came to. Data that lies there already, or that was lent in place of it, holds the memory, which so
    /// nobody else has: it is put there and let go of. Other data is given back until the memory is free.
    pub(crate) fn take(self, data: BufList) -> Option<BufList> {
        let first = data.pieces().first()?;
        if !std::ptr::eq(first.as_ptr(), self.start) {
            if !data.pieces().iter().any(|piece| piece.holds(self.start)) {
                return Some(data);
            }
            self.fill(&data);
        }
        None
    }

    /// Puts `data` there, which lies elsewhere, as many bytes as fit.
    pub(crate) fn fill(self, data: &BufList) {
        // SAFETY: by the promise of `new` the memory is ours until the request is reported as ended, which comes after
        // this; nobody has it as a buffer any more; and `data` is other memory: a volume's own.
        data.copy_to(unsafe { std::slice::from_raw_parts_mut(self.start, self.len) });
    }
}

/// The memory in a request; the count says whether somebody still holds it.
pub(crate) struct Lent {
    pub(crate) memory: Memory,
    pub(crate) _count: Arc<()>,
}

impl Foreign for Lent {
    fn memory(&mut self) -> &mut [u8] {
        // SAFETY: by the promise of `Memory::new`; called once for each request.
        unsafe { std::slice::from_raw_parts_mut(self.memory.start, self.memory.len) }
    }
}
