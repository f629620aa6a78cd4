//! A pool of buffers in power-of-two size classes, owned by one core and returned to from any.
//!
//! Memory is bounded by the limit given at construction: idle blocks of other classes are released before a request is refused. What is idle, and what
//! counts, is in the pool's [`Store`]. Blocks lie in arenas, large stretches of a [`MemorySource`]'s memory, which a device can register once each.

use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use crate::arena::ArenaSpan;
use crate::block::{Block, Handle};
use crate::ledger::{AccountId, Ledger, NOBODY, Standing, Unpooled};
use crate::memory::{LARGEST, class_of, size_of};
use crate::observer::ArenaObserver;
use crate::owned::Buf;
use crate::source::{Heap, MemorySource};
use crate::store::{NoMemory, Store};

/// How much of a pool is in use, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolUse {
    /// Buffers, in use or idle, and what was charged. What is free in arenas does not count: it is at most [`ARENA_SLACK`](crate::ARENA_SLACK) beyond the limit.
    pub allocated: usize,
    /// The most that it may hold.
    pub limit: usize,
}

/// A core's buffers. Clones are handles to the same pool.
///
/// Only the thread that called [`Pool::new`] (or last called [`Pool::adopt`]) may take buffers; any
/// thread may drop them.
#[derive(Clone)]
pub struct Pool {
    tie: Arc<Tie>,
    /// Without the standard library nobody can check which thread calls: the compiler keeps the pool on its own.
    #[cfg(not(feature = "std"))]
    _on_one_thread: PhantomData<*const ()>,
}

/// Ends the pool when its last handle goes, while blocks may still be out.
struct Tie(Arc<Store<Block>>);

impl Pool {
    /// A pool for the calling thread that holds at most `limit` bytes, of the heap.
    pub fn new(limit: usize) -> Self {
        Self::with_source(limit, Arc::new(Heap))
    }

    /// A pool for the calling thread that holds at most `limit` bytes, whose arenas come from `source`.
    pub fn with_source(limit: usize, source: Arc<dyn MemorySource>) -> Self {
        Self {
            tie: Arc::new(Tie(Arc::new(Store::new(limit, source)))),
            #[cfg(not(feature = "std"))]
            _on_one_thread: PhantomData,
        }
    }

    /// A buffer of `len` bytes (at most [`LARGEST`]) with unspecified, initialised content, or `None`
    /// when the pool is at its limit: wait until [`Pool::returns`] has moved.
    ///
    /// # Panics
    /// When the calling thread does not own the pool, or when `len` is above [`LARGEST`]: both are
    /// mistakes of the program, never of a peer.
    pub fn take(&self, len: usize) -> Option<Buf> {
        self.take_if(NOBODY, len, Ledger::admit_unowned)
    }

    /// The same, for an account that answers for the buffer.
    pub(crate) fn take_for(&self, account: AccountId, len: usize) -> Option<Buf> {
        self.take_if(account, len, |ledger, bytes| ledger.admit_unasked(account, bytes))
    }

    /// A buffer for an account. `usual` is the ledger's answer in the steady state, in which an idle block is at hand, too.
    #[inline]
    fn take_if(
        &self,
        account: AccountId,
        len: usize,
        usual: impl FnOnce(&mut Ledger, usize) -> bool,
    ) -> Option<Buf> {
        assert!(len <= LARGEST, "a buffer of {len} bytes was asked of a pool whose largest is {LARGEST}");
        let (shared, class) = (self.owned(), class_of(len));
        // SAFETY: the calling thread owns the ledger.
        if !usual(unsafe { shared.ledger() }, size_of(class)) {
            return self.take_asked(account, class, len);
        }
        // SAFETY: the calling thread owns the lists.
        let Some(block) = (unsafe { shared.pop_listed(class) }) else {
            return self.take_in_line(account, class, len);
        };
        // SAFETY: the block was just taken off its list.
        let handle = unsafe { Handle::from_idle(block) };
        handle.charge_to(account);
        Some(Buf::whole(handle, len))
    }

    /// A buffer for an account that may have it only after a closer look, if at all.
    #[inline(never)]
    fn take_asked(&self, account: AccountId, class: usize, len: usize) -> Option<Buf> {
        // SAFETY: the calling thread owns lists and ledger.
        let admitted = unsafe { self.owned().admit(account, size_of(class)) };
        if admitted { self.take_in_line(account, class, len) } else { None }
    }

    /// A buffer for an account that was admitted. If there is no room for it in one piece, it is first in line.
    #[inline(never)]
    fn take_in_line(&self, account: AccountId, class: usize, len: usize) -> Option<Buf> {
        let taken = self.take_admitted(account, class, len);
        if let Err(NoMemory::Full) = taken {
            // SAFETY: the calling thread owns the ledger.
            unsafe { self.owned().ledger() }.line_up_first(account, size_of(class));
        }
        taken.ok()
    }

    /// A buffer for an account within its floor.
    pub(crate) fn take_within_floor(&self, account: AccountId, len: usize) -> Option<Buf> {
        let class = class_of(len);
        // SAFETY: the calling thread owns the ledger.
        let admitted = unsafe { self.owned().ledger() }.admit_within_floor(account, size_of(class));
        if admitted { self.take_admitted(account, class, len).ok() } else { None }
    }

    /// The same, although others may be before it.
    pub(crate) fn take_at_once(&self, account: AccountId, len: usize) -> Option<Buf> {
        // SAFETY: the calling thread owns the ledger.
        unsafe { self.owned().ledger() }.count(account, size_of(class_of(len)));
        self.take_admitted(account, class_of(len), len).ok()
    }

    fn take_admitted(&self, account: AccountId, class: usize, len: usize) -> Result<Buf, NoMemory> {
        let shared = self.owned();
        // SAFETY: the calling thread owns the lists.
        let idle = unsafe { shared.pop(class) };
        let handle = if let Some(block) = idle {
            // SAFETY: the block was just taken off its list.
            unsafe { Handle::from_idle(block) }
        } else {
            // SAFETY: the calling thread owns lists and ledger.
            let piece = unsafe {
                shared.grow(class).inspect_err(|_| {
                    shared.ledger().give_back_unplaced(account, size_of(class));
                })?
            };
            Block::for_pool(Arc::clone(shared), piece)
        };
        handle.charge_to(account);
        Ok(Buf::whole(handle, len))
    }

    /// A number that moves whenever a buffer comes back, and with [`Pool::chances`], as a turn in line may come without a return: a starved taker tries again
    /// when it changed.
    ///
    /// # Panics
    /// When the calling thread does not own the pool.
    pub fn returns(&self) -> u64 {
        self.owned().returns().wrapping_add(self.chances())
    }

    /// A number that moves when somebody who was refused could have what it asked for, as far as the pool knows: others need not be woken.
    ///
    /// # Panics
    /// When the calling thread does not own the pool.
    pub fn chances(&self) -> u64 {
        let shared = self.owned();
        // SAFETY: the calling thread owns the ledger.
        let chances = unsafe { shared.ledger() }.chances();
        chances.wrapping_add(shared.remote_returns())
    }

    /// How much memory the pool holds, and how much it may.
    pub fn usage(&self) -> PoolUse {
        PoolUse { allocated: self.tie.0.counted(), limit: self.tie.0.limit() }
    }

    /// Bytes in use: buffers that are out, and what was charged.
    ///
    /// # Panics
    /// When the calling thread does not own the pool.
    pub fn used(&self) -> usize {
        let shared = self.owned();
        // SAFETY: the calling thread owns lists and ledger.
        unsafe {
            shared.drain_remote();
            shared.ledger().used()
        }
    }

    pub(crate) fn open_account(&self) -> AccountId {
        let shared = self.owned();
        // SAFETY: the calling thread owns the ledger.
        unsafe {
            shared.close_ended();
            shared.ledger().open()
        }
    }

    pub(crate) fn close_account(&self, account: AccountId, held: Unpooled) {
        let shared = &self.tie.0;
        #[cfg(feature = "std")]
        if !shared.is_owner() {
            shared.close_elsewhere(account, held);
            return;
        }
        // SAFETY: the calling thread owns the ledger.
        unsafe { shared.close(account, held) };
    }

    pub(crate) fn charge(&self, account: AccountId, bytes: usize) -> bool {
        let shared = self.owned();
        // SAFETY: the calling thread owns lists and ledger.
        unsafe {
            shared.admit(account, bytes)
                && shared.charge(account, Unpooled { data: bytes, ..Unpooled::default() })
        }
    }

    /// Counts bytes that are there already: as data if the account may have them without anybody's waiting. False if they were forced.
    pub(crate) fn charge_present(&self, account: AccountId, bytes: usize) -> bool {
        let shared = self.owned();
        // SAFETY: the calling thread owns lists and ledger.
        unsafe {
            let ledger = shared.ledger();
            let admitted = ledger.admit_unasked(account, bytes) || ledger.admit_within_floor(account, bytes);
            admitted && shared.charge(account, Unpooled { data: bytes, ..Unpooled::default() })
        }
    }

    pub(crate) fn charge_standing(&self, account: AccountId, more: Standing) -> bool {
        let Standing { tables, receives } = more;
        let shared = self.owned();
        // SAFETY: the calling thread owns lists and ledger.
        unsafe {
            let admitted = shared.ledger().admit_standing(account, more);
            admitted && shared.charge(account, Unpooled { tables, receives, ..Unpooled::default() })
        }
    }

    pub(crate) fn recount(&self, account: AccountId, bytes: usize) {
        let shared = self.owned();
        // SAFETY: the calling thread owns lists and ledger.
        unsafe {
            shared.ledger().count(account, bytes);
            shared.make_room(bytes);
        }
    }

    pub(crate) fn force(&self, account: AccountId, bytes: usize) {
        let shared = self.owned();
        // SAFETY: the calling thread owns lists and ledger.
        unsafe {
            shared.force(account, bytes);
            shared.make_room(bytes);
        }
    }

    /// Data that was charged, and bytes that were forced, are no longer there.
    pub(crate) fn uncount(&self, account: AccountId, less: Unpooled) {
        let shared = self.owned();
        // SAFETY: the calling thread owns the ledger.
        unsafe { shared.take_off(account, less) };
        shared.count_return();
    }

    pub(crate) fn set_charged(&self, account: AccountId, bytes: usize) {
        // SAFETY: the calling thread owns the ledger.
        unsafe { self.owned().ledger() }.set_charged(account, bytes);
    }

    pub(crate) fn withdraw(&self, account: AccountId) {
        // SAFETY: the calling thread owns the ledger.
        let ledger = unsafe { self.owned().ledger() };
        if ledger.is_wanted() {
            ledger.withdraw(account);
        }
    }

    pub(crate) fn held(&self, account: AccountId) -> usize {
        let shared = self.owned();
        // SAFETY: the calling thread owns lists and ledger.
        unsafe {
            shared.drain_remote();
            shared.ledger().held(account)
        }
    }

    pub(crate) fn floor_left(&self, account: AccountId) -> usize {
        // SAFETY: the calling thread owns the ledger.
        unsafe { self.owned().ledger() }.floor_left(account)
    }

    pub(crate) fn is_over(&self, account: AccountId) -> bool {
        // SAFETY: the calling thread owns the ledger.
        unsafe { self.owned().ledger() }.is_over(account)
    }

    pub(crate) fn is_wanted(&self) -> bool {
        // SAFETY: the calling thread owns the ledger.
        unsafe { self.owned().ledger() }.is_wanted()
    }

    /// Where its arenas are now. They come and go as the pool grows and shrinks: see [`Pool::watch_arenas`].
    ///
    /// # Panics
    /// When the calling thread does not own the pool.
    pub fn arenas(&self) -> Vec<ArenaSpan> {
        // SAFETY: the calling thread owns the lists.
        unsafe { self.owned().spans() }
    }

    /// Has `observer` hear of the arenas until the answer is dropped: first of those that there are, then of each that comes, before a buffer of it is given
    /// out, and of each that goes, once all of its buffers are back.
    ///
    /// The watch holds the pool, so that the observer must not own the watch.
    ///
    /// # Panics
    /// When the calling thread does not own the pool.
    #[must_use = "the observer hears of arenas for as long as this is kept"]
    pub fn watch_arenas(&self, observer: &Rc<dyn ArenaObserver>) -> ArenaWatch {
        // SAFETY: the calling thread owns the lists. The watch stays on it, and ends before another thread owns them: `Store::adopt` refuses that.
        let watch = unsafe { self.owned().watch(observer) };
        ArenaWatch { pool: self.clone(), watch, _on_one_thread: PhantomData }
    }

    /// The shared part, for the owner only.
    fn owned(&self) -> &Arc<Store<Block>> {
        let shared = &self.tie.0;
        #[cfg(feature = "std")]
        assert!(shared.is_owner(), "a pool's buffer was asked for outside its thread");
        shared
    }

    /// Makes the calling thread the owner, for a pool that was built before its thread started.
    ///
    /// The handle is consumed and given back to say that nobody else uses the pool yet.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn adopt(self) -> Self {
        self.tie.0.adopt();
        self
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pool").field(&self.usage()).finish()
    }
}

impl Drop for Tie {
    fn drop(&mut self) {
        self.0.end();
        // SAFETY: this was the last handle, dropped by the only thread that could have owned the lists or
        // by one that received the pool from it: nobody can take from them any more. Nobody watches the arenas, as a watch has a handle.
        unsafe { self.0.clear() };
    }
}

/// An observer hears of a pool's arenas for as long as this is kept, on the thread that it was made on.
pub struct ArenaWatch {
    pool: Pool,
    watch: u64,
    /// The observer may be of this thread alone.
    _on_one_thread: PhantomData<*const ()>,
}

impl Drop for ArenaWatch {
    fn drop(&mut self) {
        // SAFETY: the pool's owner made the watch, which has not left its thread, and as long as there is one no other thread owns the pool.
        drop(unsafe { self.pool.tie.0.arenas().unwatch(self.watch) });
    }
}

impl fmt::Debug for ArenaWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArenaWatch").field("pool", &self.pool).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_returned_buffer_is_given_out_again_without_new_memory() {
        let pool = Pool::new(1 << 20);
        let first = pool.take(4096).unwrap();
        let place = first.as_ptr();
        let returns = pool.returns();
        drop(first);
        assert_ne!(pool.returns(), returns);
        assert_eq!(pool.take(3000).unwrap().as_ptr(), place);
        assert_eq!(pool.usage().allocated, 4096);
    }

    #[test]
    fn the_limit_is_a_state_and_idle_memory_of_another_class_is_released_first() {
        let pool = Pool::new(8192);
        let kept = pool.take(4096).unwrap();
        let other = pool.take(4096).unwrap();
        assert!(pool.take(512).is_none());
        drop(other);
        let small = pool.take(512).unwrap();
        assert_eq!(pool.usage().allocated, 4096 + 512);
        drop((kept, small));
        assert!(pool.take(8192).is_some());
    }

    #[test]
    fn large_blocks_are_aligned_for_direct_io() {
        let pool = Pool::new(1 << 24);
        for len in [4096, 10_000, LARGEST] {
            assert_eq!(pool.take(len).unwrap().as_ptr().addr() % 4096, 0, "{len}");
        }
    }

    #[test]
    fn buffers_come_back_from_other_threads_and_after_the_pool_ended() {
        let pool = Pool::new(1 << 20);
        let shared = pool.take(4096).unwrap().freeze();
        let copies: Vec<_> = (0..8).map(|_| shared.clone()).collect();
        drop(shared);
        std::thread::scope(|scope| {
            for copy in copies {
                scope.spawn(move || drop(copy));
            }
        });
        assert_eq!(pool.usage().allocated, 4096);
        let again = pool.take(4096).unwrap();
        assert_eq!(pool.usage().allocated, 4096);
        drop(pool);
        drop(again);
    }

    #[test]
    fn a_race_between_the_last_return_and_the_end_of_the_pool_is_clean() {
        for _ in 0..200 {
            let pool = Pool::new(1 << 20);
            let out: Vec<_> = (0..4).map(|_| pool.take(512).unwrap()).collect();
            std::thread::scope(|scope| {
                scope.spawn(move || drop(out));
                drop(pool);
            });
        }
    }
}
