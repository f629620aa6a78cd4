//! The read-only, counted, sliceable buffer.

use alloc::vec::Vec;
use core::fmt;
use core::ops::{Bound, Deref, RangeBounds};

use crate::arena::ArenaOffset;
use crate::block::{Block, Handle, Place};
use crate::loans::Loans;

/// A read-only piece of memory. Clones and slices share it; it never changes while one of them lives.
#[derive(Clone)]
pub struct SharedBuf {
    handle: Handle,
    /// Where it begins: in the handle's memory, or in memory that the handle's block stands for.
    place: Place,
    len: usize,
}

impl SharedBuf {
    pub(crate) fn whole(handle: Handle, len: usize) -> Self {
        let place = handle.place();
        Self { handle, place, len }
    }

    /// The same bytes, held by `keeper`, whose block stands for the memory from now on.
    pub(crate) fn kept_by(self, keeper: Handle, loans: Option<Loans>) -> Self {
        let (place, len) = (self.place, self.len);
        Self { handle: keeper.stand_for(self.handle, loans), place, len }
    }

    /// Memory that lives as long as the program, such as a page of zeros. Allocates its count once: keep a
    /// clone per core.
    pub fn from_static(bytes: &'static [u8]) -> Self {
        Self::whole(Block::for_static(bytes), bytes.len())
    }

    /// Memory that is there once, however many hold it, such as a null volume's zeros. What is sent of it is nobody's, so it does not
    /// count as [`BufList::unpooled`](crate::BufList::unpooled).
    pub fn common(bytes: Vec<u8>) -> Self {
        let len = bytes.len();
        Self::whole(Block::for_common(bytes), len)
    }

    /// A part of this memory, which it shares.
    ///
    /// # Panics
    /// When the range does not lie within the buffer.
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        let from = match range.start_bound() {
            Bound::Included(&from) => from,
            Bound::Excluded(&before) => before + 1,
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(&last) => last + 1,
            Bound::Excluded(&to) => to,
            Bound::Unbounded => self.len,
        };
        assert!(from <= to && to <= self.len, "a slice {from}..{to} of {} bytes", self.len);
        Self { handle: self.handle.clone(), place: self.place.after(from), len: to - from }
    }

    /// In which of a pool's arenas these bytes begin, and where; `None` for memory of no pool, also where it is lent in place of a pool's buffer.
    pub fn location(&self) -> Option<ArenaOffset> {
        self.handle.location(self.place)
    }

    /// True when a pool's limit counts the memory.
    pub(crate) fn is_pooled(&self) -> bool {
        self.handle.is_pooled()
    }

    /// True when the memory is there because of whoever holds it, and no pool's limit counts it.
    pub(crate) fn is_foreign(&self) -> bool {
        self.handle.is_foreign()
    }

    /// True if this keeps the buffer that begins at `start`: as its own memory, or because it was lent in its place
    /// ([`Buf::lend`](crate::Buf::lend)).
    pub fn holds(&self, start: *const u8) -> bool {
        self.handle.place().is_at(start)
    }

    /// The memory's only handle, if nobody else holds it, this is the whole of it from its beginning, and it may be written.
    pub(crate) fn into_unique(self) -> Result<Handle, Self> {
        if self.place == self.handle.place() && self.handle.is_unique() && !self.handle.is_read_only() {
            return Ok(self.handle);
        }
        Err(self)
    }
}

impl Deref for SharedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the handle keeps the memory that the place is in, or that its block stands for, and `slice` stays
        // within it; nobody writes memory that is shared.
        unsafe { self.place.bytes(self.len) }
    }
}

impl fmt::Debug for SharedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBuf({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buf;

    #[test]
    fn only_the_sole_holder_gets_to_write_again() {
        let shared = Buf::zeroed(8).freeze();
        let other = shared.clone();
        let shared = shared.try_unfreeze().unwrap_err();
        drop(other);
        let mut buf = shared.try_unfreeze().unwrap();
        buf[0] = 1;
        assert!(SharedBuf::from_static(b"zeros").try_unfreeze().is_err());
        assert!(SharedBuf::common(vec![0; 5]).try_unfreeze().is_err());
    }

    #[test]
    #[should_panic(expected = "a slice 2..9 of 8 bytes")]
    fn a_slice_beyond_the_end_is_refused() {
        let _ = Buf::zeroed(8).freeze().slice(2..9);
    }
}
