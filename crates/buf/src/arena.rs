//! An arena: one stretch of memory, from which a pool cuts blocks; and a piece of it, which keeps it.
//!
//! Whoever has a piece has the arena too, so that its memory goes back to its source only when no block of it is left.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::foreign::Foreign;
use crate::memory::{ALIGNMENT, size_of};

/// Names an arena. No other arena of this process ever has the same, of whatever pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArenaId(u64);

impl ArenaId {
    /// A name that nobody has. 64 bits of them last.
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Where an arena is, for whoever registers it with a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArenaSpan {
    /// Its name.
    pub id: ArenaId,
    /// Where it begins: at a multiple of 4,096, unless it is shorter.
    pub base: NonNull<u8>,
    /// Its length in bytes.
    pub len: usize,
}

/// A place in an arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ArenaOffset {
    /// The arena.
    pub arena: ArenaId,
    /// Bytes from its beginning.
    pub offset: usize,
}

/// One stretch of a source's memory.
pub(crate) struct Arena {
    id: ArenaId,
    base: NonNull<u8>,
    class: usize,
    _memory: Box<dyn Foreign>,
}

// SAFETY: the memory's owner is `Send + Sync` and promises that nobody else touches it; pieces are apart from each other, and each is
// used as its block's ownership says.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// An arena as long as a class's memory, if what the source gave is as it promised.
    pub(crate) fn new(mut memory: Box<dyn Foreign>, class: usize) -> Option<Self> {
        let bytes = memory.memory();
        let len = size_of(class);
        let fits = bytes.len() >= len && bytes.as_ptr().addr().is_multiple_of(len.min(ALIGNMENT));
        let base = NonNull::from(bytes).cast::<u8>();
        fits.then(|| Self { id: ArenaId::next(), base, class, _memory: memory })
    }

    pub(crate) fn id(&self) -> ArenaId {
        self.id
    }

    pub(crate) fn span(&self) -> ArenaSpan {
        ArenaSpan { id: self.id, base: self.base, len: size_of(self.class) }
    }
}

/// A part of an arena, as long as its class says; no two that exist at a time overlap.
pub(crate) struct Piece {
    arena: Arc<Arena>,
    offset: usize,
    class: usize,
}

impl Piece {
    /// The part of `arena` that begins at `offset`, which lies within it with all its bytes, and which nobody else has.
    pub(crate) fn new(arena: &Arc<Arena>, offset: usize, class: usize) -> Self {
        debug_assert!(offset + size_of(class) <= size_of(arena.class));
        Self { arena: Arc::clone(arena), offset, class }
    }

    #[inline]
    pub(crate) fn class(&self) -> usize {
        self.class
    }

    pub(crate) fn arena(&self) -> ArenaId {
        self.arena.id
    }

    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// Where its bytes begin.
    pub(crate) fn start(&self) -> NonNull<u8> {
        // SAFETY: `new` has the offset within the arena's memory.
        unsafe { self.arena.base.add(self.offset) }
    }

    /// The place `count` bytes from its beginning.
    pub(crate) fn location(&self, count: usize) -> ArenaOffset {
        ArenaOffset { arena: self.arena.id, offset: self.offset + count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::class_of;
    use crate::source::{Heap, MemorySource};

    struct Askew(Box<dyn Foreign>);

    impl Foreign for Askew {
        fn memory(&mut self) -> &mut [u8] {
            &mut self.0.memory()[8..]
        }
    }

    #[test]
    fn what_a_source_gives_against_its_promise_is_no_arena() {
        let class = class_of(4096);
        assert!(Arena::new(Heap.obtain(4096).unwrap(), class).is_some());
        assert!(Arena::new(Heap.obtain(2048).unwrap(), class).is_none(), "too short");
        assert!(Arena::new(Box::new(Askew(Heap.obtain(8192).unwrap())), class).is_none(), "not aligned");
    }

    #[test]
    fn no_two_arenas_have_one_name() {
        let [one, other] = [0, 0].map(|class| Arena::new(Heap.obtain(512).unwrap(), class).unwrap());
        assert_ne!(one.id(), other.id());
    }
}
