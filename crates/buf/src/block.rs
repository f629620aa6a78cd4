//! The raw memory behind a buffer: where it is, how many hold it, and where it goes when nobody does.
//!
//! A [`Handle`] is one counted reference. The count is atomic because a buffer may travel to a file thread
//! and back, but the lines are core-local in the steady state: a buffer that was never shared is released
//! without any read-modify-write.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ptr::NonNull;

use crate::arena::{ArenaOffset, Piece};
use crate::foreign::Foreign;
use crate::ledger::{AccountId, NOBODY};
use crate::loans::Loans;
use crate::memory::size_of;
use crate::store::{Listed, Store};
use crate::sync::{AtomicPtr, AtomicUsize, Ordering, fence};

/// What becomes of the memory when the last holder lets go.
pub(crate) enum Home {
    /// Back to the free list of its size class.
    Pool { pool: Arc<Store<Block>>, piece: Piece },
    /// To its owner, which is dropped.
    Foreign { _owner: Box<dyn Foreign> },
    /// To the allocator. It is there once, however many hold it, and is never written.
    Common { _bytes: Vec<u8> },
    /// Nowhere: the memory lives as long as the program and is never written.
    Static,
}

/// One piece of memory and its count of holders.
pub(crate) struct Block {
    data: NonNull<u8>,
    capacity: usize,
    holders: AtomicUsize,
    /// The next block of the free list this one is in, if it is in one.
    next: AtomicPtr<Block>,
    home: Home,
    /// Who answers for the memory while it is out. Changes only while nobody shares the block.
    account: AccountId,
    /// Other memory that this block is given out in place of, and keeps until it is idle. Changes only while nobody shares
    /// the block.
    lent: Option<(Handle, Option<Loans>)>,
}

// SAFETY: the memory is owned by the block (pool memory, or memory whose `Foreign` owner is `Send + Sync`
// and promises that nobody else touches it); access follows `Handle`'s ownership rules.
unsafe impl Send for Block {}
// SAFETY: as above: shared access is read-only.
unsafe impl Sync for Block {}

impl Block {
    /// A pool's block over a piece of an arena; the caller owns the only handle.
    pub(crate) fn for_pool(pool: Arc<Store<Block>>, piece: Piece) -> Handle {
        Self::handle(piece.start(), size_of(piece.class()), Home::Pool { pool, piece })
    }

    /// A block over foreign memory.
    pub(crate) fn for_foreign(mut owner: Box<dyn Foreign>) -> Handle {
        let memory = owner.memory();
        let capacity = memory.len();
        let data = NonNull::from(memory).cast::<u8>();
        Self::handle(data, capacity, Home::Foreign { _owner: owner })
    }

    /// A block over memory that many share; `Buf` never wraps it.
    pub(crate) fn for_common(mut bytes: Vec<u8>) -> Handle {
        let (data, capacity) = (NonNull::from(&mut *bytes).cast::<u8>(), bytes.len());
        Self::handle(data, capacity, Home::Common { _bytes: bytes })
    }

    /// A block over memory that lives as long as the program; `Buf` never wraps it.
    pub(crate) fn for_static(bytes: &'static [u8]) -> Handle {
        Self::handle(NonNull::from(bytes).cast::<u8>(), bytes.len(), Home::Static)
    }

    fn handle(data: NonNull<u8>, capacity: usize, home: Home) -> Handle {
        let block = Box::new(Self {
            data,
            capacity,
            holders: AtomicUsize::new(1),
            next: AtomicPtr::new(core::ptr::null_mut()),
            home,
            account: NOBODY,
            lent: None,
        });
        Handle(NonNull::from(Box::leak(block)))
    }
}

impl Listed for Block {
    #[inline]
    fn next(&self) -> &AtomicPtr<Self> {
        &self.next
    }

    #[inline]
    fn class(&self) -> Option<usize> {
        match &self.home {
            Home::Pool { piece, .. } => Some(piece.class()),
            Home::Foreign { .. } | Home::Common { .. } | Home::Static => None,
        }
    }

    #[inline]
    unsafe fn account(block: NonNull<Self>) -> AccountId {
        // SAFETY: by the caller's promise.
        unsafe { (*block.as_ptr()).account }
    }

    unsafe fn free(block: NonNull<Self>) -> Option<Piece> {
        // SAFETY: the caller owns the block, which `handle` leaked from a box.
        let block = unsafe { Box::from_raw(block.as_ptr()) };
        match block.home {
            Home::Pool { piece, .. } => Some(piece),
            Home::Foreign { .. } | Home::Common { .. } | Home::Static => None,
        }
    }
}

/// Where bytes begin in some block's memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(NonNull<u8>);

// SAFETY: a place is an address; whoever reads there answers for the memory (see `bytes`).
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

impl Place {
    /// The place `count` bytes further on, in the same memory: `bytes` has the condition.
    pub(crate) fn after(self, count: usize) -> Self {
        // An address beyond the memory is never read, so it need not exist; it is not null, because `count` lies within
        // a buffer.
        Self(NonNull::new(self.0.as_ptr().wrapping_add(count)).unwrap_or(self.0))
    }

    /// Bytes from `start`, which is in the same memory, to here.
    fn distance_from(self, start: NonNull<u8>) -> usize {
        self.0.as_ptr().addr().saturating_sub(start.as_ptr().addr())
    }

    /// True if that is this address.
    pub(crate) fn is_at(self, start: *const u8) -> bool {
        core::ptr::eq(self.0.as_ptr(), start)
    }

    /// The `len` bytes from here.
    ///
    /// # Safety
    /// They lie in one block's memory that is held, and not written, for as long as the answer lives.
    pub(crate) unsafe fn bytes<'a>(self, len: usize) -> &'a [u8] {
        // SAFETY: by the caller's promise; the memory is always initialised (zeroed or foreign).
        unsafe { core::slice::from_raw_parts(self.0.as_ptr(), len) }
    }
}

/// One holder of a block.
pub(crate) struct Handle(NonNull<Block>);

// SAFETY: a handle is a counted reference to a `Send + Sync` block.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    fn block(&self) -> &Block {
        // SAFETY: a handle keeps its block alive.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.block().capacity
    }

    /// Where the block's memory begins.
    pub(crate) fn place(&self) -> Place {
        Place(self.block().data)
    }

    /// From now on `account` answers for the memory of the block, whose sole holder this must be.
    pub(crate) fn charge_to(&self, account: AccountId) {
        debug_assert!(self.is_unique());
        // SAFETY: the pool is the only caller and the only holder, so nobody looks at the block meanwhile.
        unsafe { (*self.0.as_ptr()).account = account };
    }

    /// Lets the block, whose sole holder this must be, stand for `lent`: it keeps that until it is idle.
    pub(crate) fn stand_for(self, lent: Self, loans: Option<Loans>) -> Self {
        debug_assert!(self.is_unique());
        // SAFETY: `Buf` is the only caller and the only holder, so nobody looks at the block meanwhile.
        unsafe { (*self.0.as_ptr()).lent = Some((lent, loans)) };
        self
    }

    /// The memory from `start` for `len` bytes.
    pub(crate) fn bytes(&self, start: usize, len: usize) -> &[u8] {
        debug_assert!(start.checked_add(len).is_some_and(|end| end <= self.capacity()));
        // SAFETY: `Buf` and `SharedBuf` keep `start + len` within the capacity, the memory is always
        // initialised (zeroed or foreign), and writers are excluded by `Buf`'s uniqueness.
        unsafe { core::slice::from_raw_parts(self.block().data.as_ptr().add(start), len) }
    }

    /// The memory from `start` for `len` bytes, writable.
    ///
    /// # Safety
    /// The caller is the only holder.
    pub(crate) unsafe fn bytes_mut(&mut self, start: usize, len: usize) -> &mut [u8] {
        debug_assert!(start.checked_add(len).is_some_and(|end| end <= self.capacity()));
        // SAFETY: in bounds as in `bytes`; the caller is the only holder, so nobody reads.
        unsafe { core::slice::from_raw_parts_mut(self.block().data.as_ptr().add(start), len) }
    }

    /// True when no other handle to the block exists.
    pub(crate) fn is_unique(&self) -> bool {
        self.block().holders.load(Ordering::Acquire) == 1
    }

    /// In which arena, and where in it, a place of this block's memory is, or of the memory that it stands for.
    pub(crate) fn location(&self, place: Place) -> Option<ArenaOffset> {
        let mut block = self.block();
        while let Some((lent, _)) = &block.lent {
            block = lent.block();
        }
        match &block.home {
            Home::Pool { piece, .. } => Some(piece.location(place.distance_from(block.data))),
            Home::Foreign { .. } | Home::Common { .. } | Home::Static => None,
        }
    }

    /// True for memory of a pool, whose limit counts it.
    pub(crate) fn is_pooled(&self) -> bool {
        matches!(self.block().home, Home::Pool { .. })
    }

    /// True for memory that no pool's limit counts, and that is there because of whoever holds it.
    pub(crate) fn is_foreign(&self) -> bool {
        matches!(self.block().home, Home::Foreign { .. })
    }

    /// True for memory that must never be written.
    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self.block().home, Home::Static | Home::Common { .. })
    }

    /// A handle to a block taken from a free list.
    ///
    /// # Safety
    /// `block` is idle and was taken off its list by the caller.
    pub(crate) unsafe fn from_idle(block: NonNull<Block>) -> Self {
        Self(block)
    }

    /// Ends the last holder: called once, from `drop`.
    fn release_last(&mut self) {
        let idle = self.0;
        if self.block().lent.is_some() {
            self.return_lent();
        }
        // SAFETY: the last holder owns the block, which is alive until given away below.
        let home = unsafe { &(*idle.as_ptr()).home };
        match home {
            // SAFETY: nobody else holds the block.
            Home::Pool { pool, piece } => unsafe { pool.put_back(piece.class(), idle) },
            // SAFETY: nobody else holds the block; its memory belongs to the owner inside.
            Home::Foreign { .. } | Home::Common { .. } | Home::Static => drop(unsafe { Block::free(idle) }),
        }
    }

    /// Lets go of what the block was given out in place of, for the last holder.
    #[inline(never)]
    fn return_lent(&mut self) {
        // SAFETY: the last holder owns the block.
        drop(unsafe { (*self.0.as_ptr()).lent.take() });
    }

    /// Ends a holder beside whom there were others; the last of them may have ended meanwhile.
    #[inline(never)]
    fn release_shared(&mut self) {
        let holders = &self.block().holders;
        if holders.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            holders.store(1, Ordering::Relaxed);
            self.release_last();
        }
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        let before = self.block().holders.fetch_add(1, Ordering::Relaxed);
        assert!(before < usize::MAX / 2, "a buffer's count of holders overflowed");
        Self(self.0)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.block().holders.load(Ordering::Acquire) == 1 {
            self.release_last();
        } else {
            self.release_shared();
        }
    }
}
