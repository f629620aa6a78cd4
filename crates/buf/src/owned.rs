//! The unique, writable buffer.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, DerefMut};

use crate::arena::ArenaOffset;
use crate::block::{Block, Handle};
use crate::foreign::Foreign;
use crate::loans::Loans;
use crate::shared::SharedBuf;

/// A unique and writable buffer: whoever has it may write it, and nobody else can see it.
pub struct Buf {
    handle: Handle,
    len: usize,
}

impl Buf {
    pub(crate) fn whole(handle: Handle, len: usize) -> Self {
        debug_assert!(len <= handle.capacity());
        Self { handle, len }
    }

    /// A buffer over foreign memory, whose owner is dropped when the last holder lets go.
    pub fn foreign(owner: Box<dyn Foreign>) -> Self {
        let handle = Block::for_foreign(owner);
        let len = handle.capacity();
        Self { handle, len }
    }

    /// A zeroed buffer of its own, outside every pool: for control paths and tests.
    pub fn zeroed(len: usize) -> Self {
        Self::foreign(Box::new(vec![0; len]))
    }

    /// The most that [`Buf::set_len`] accepts.
    pub fn capacity(&self) -> usize {
        self.handle.capacity()
    }

    /// Changes how much of the memory counts, up to the capacity. New bytes have unspecified content.
    ///
    /// # Panics
    /// When `len` exceeds [`Buf::capacity`].
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "a buffer of {} bytes cannot hold {len}", self.capacity());
        self.len = len;
    }

    /// In which of its pool's arenas it begins, and where; `None` for foreign memory.
    pub fn location(&self) -> Option<ArenaOffset> {
        self.handle.location(self.handle.place())
    }

    /// Gives up writing: from now on the memory may be shared, sliced and sent, and never changes.
    pub fn freeze(self) -> SharedBuf {
        SharedBuf::whole(self.handle, self.len)
    }

    /// Gives out `lent` in place of this buffer's own memory. The buffer stays taken from its pool until the last holder
    /// lets go, so that the pool's limit also bounds how much is lent; until then it is among `loans`, too.
    pub fn lend(self, lent: SharedBuf, loans: Option<&Loans>) -> SharedBuf {
        lent.kept_by(self.handle, loans.cloned())
    }
}

/// The way back from a [`SharedBuf`], and the way there in one step. They stand here because a `Buf` knows what a `SharedBuf` is, and not the reverse.
impl SharedBuf {
    /// The writable buffer again, if nobody else holds the memory, this is the whole of it from its beginning, and it is
    /// not lent for reading only.
    pub fn try_unfreeze(self) -> Result<Buf, Self> {
        let len = self.len();
        self.into_unique().map(|handle| Buf { handle, len })
    }
}

impl From<Vec<u8>> for SharedBuf {
    fn from(bytes: Vec<u8>) -> Self {
        Buf::from(bytes).freeze()
    }
}

impl From<Vec<u8>> for Buf {
    fn from(bytes: Vec<u8>) -> Self {
        Self::foreign(Box::new(bytes))
    }
}

impl Deref for Buf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.handle.bytes(0, self.len)
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: a `Buf` is the only holder of its block.
        unsafe { self.handle.bytes_mut(0, self.len) }
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} of {} bytes)", self.len, self.capacity())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    struct Told(Vec<u8>, Arc<AtomicBool>);

    impl Foreign for Told {
        fn memory(&mut self) -> &mut [u8] {
            &mut self.0
        }
    }

    impl Drop for Told {
        fn drop(&mut self) {
            self.1.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn foreign_memory_is_held_until_the_last_holder_lets_go() {
        let ended = Arc::new(AtomicBool::new(false));
        let mut buf = Buf::foreign(Box::new(Told(vec![1, 2, 3], Arc::clone(&ended))));
        buf[1] = 9;
        let shared = buf.freeze();
        let slice = shared.slice(1..3);
        drop(shared);
        assert!(!ended.load(Ordering::Relaxed));
        assert_eq!(&slice[..], &[9, 3]);
        drop(slice);
        assert!(ended.load(Ordering::Relaxed));
    }

    #[test]
    fn a_buffer_that_stands_for_lent_memory_stays_taken_until_the_last_holder_lets_go() {
        let pool = crate::Pool::new(4096);
        let mut page = Buf::zeroed(8192);
        page[5000] = 7;
        let page = page.freeze();
        let loans = Loans::default();
        let lent = pool.take(4096).unwrap().lend(page.slice(4096..8192), Some(&loans));
        assert_eq!((lent.len(), lent[904]), (4096, 7));
        let tail = lent.slice(900..910);
        let page = page.try_unfreeze().expect_err("the page is lent");
        let lent = lent.try_unfreeze().expect_err("what is lent was written");
        drop(lent);
        assert!(pool.take(4096).is_none(), "a slice still holds the loan");
        assert_eq!((tail[4], loans.out()), (7, 1));
        drop(tail);
        assert_eq!(loans.out(), 0);
        assert!(page.try_unfreeze().is_ok());
        // The buffer has its own memory again.
        let mut again = pool.take(4096).unwrap();
        again.fill(3);
        assert!(again.freeze().try_unfreeze().is_ok());
    }
}
