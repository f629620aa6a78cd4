//! A pool of buffers in power-of-two size classes, owned by one core and returned to from any.
//!
//! The owning thread takes and returns through plain lists; other threads push onto one lock-free stack,
//! which the owner empties when a list runs dry. Memory is bounded by the limit given at construction:
//! idle blocks of other classes are released before a request is refused.

use std::cell::UnsafeCell;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::block::{Block, Handle, Home};
use crate::ledger::{AccountId, Ledger, NOBODY, Unpooled};
use crate::memory::{CLASSES, LARGEST, Memory, class_of, size_of};
use crate::owned::Buf;

/// How much of a pool is in use, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolUse {
    /// Memory that the pool holds, in use or idle, and what was charged to it.
    pub allocated: usize,
    /// The most that it may hold.
    pub limit: usize,
}

/// A core's buffers. Clones are handles to the same pool.
///
/// Only the thread that called [`Pool::new`] (or last called [`Pool::adopt`]) may take buffers; any
/// thread may drop them.
#[derive(Clone)]
pub struct Pool(Arc<Tie>);

/// Ends the pool when its last handle goes, while blocks may still be out.
struct Tie(Arc<Shared>);

pub(crate) struct Shared {
    owner: AtomicUsize,
    lists: UnsafeCell<[*mut Block; CLASSES]>,
    /// Who holds what; blocks that other threads returned count until the stack is emptied.
    ledger: UnsafeCell<Ledger>,
    /// Accounts that ended on other threads, with what was charged to them.
    ended: Mutex<Vec<(AccountId, Unpooled)>>,
    remote: AtomicPtr<Block>,
    /// Bytes of blocks, in use or idle.
    allocated: AtomicUsize,
    /// Bytes of other memory that accounts answer for. Only the owner changes it, so that no lock is needed for it.
    charged: AtomicUsize,
    /// Those of them that are there whatever the limit says; likewise.
    forced: AtomicUsize,
    limit: usize,
    returns: AtomicU64,
    remote_returns: AtomicU64,
    /// Those of them that the owner has looked at; the owner's alone.
    seen_returns: AtomicU64,
    closed: AtomicBool,
}

// SAFETY: `lists` and `ledger` are touched only by the owning thread (checked against `owner`), or by the last handle's
// drop, when no thread can take any more; everything else is atomic.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Pool {
    /// A pool for the calling thread that holds at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Tie(Arc::new(Shared {
            owner: AtomicUsize::new(this_thread()),
            lists: UnsafeCell::new([ptr::null_mut(); CLASSES]),
            ledger: UnsafeCell::new(Ledger::new(limit)),
            ended: Mutex::default(),
            remote: AtomicPtr::new(ptr::null_mut()),
            allocated: AtomicUsize::new(0),
            charged: AtomicUsize::new(0),
            forced: AtomicUsize::new(0),
            limit,
            returns: AtomicU64::new(0),
            remote_returns: AtomicU64::new(0),
            seen_returns: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        }))))
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
            return self.take_admitted(account, class, len);
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
        if admitted { self.take_admitted(account, class, len) } else { None }
    }

    /// A buffer for an account within its floor.
    pub(crate) fn take_aside(&self, account: AccountId, len: usize) -> Option<Buf> {
        let class = class_of(len);
        // SAFETY: the calling thread owns the ledger.
        let admitted = unsafe { self.owned().ledger() }.admit_aside(account, size_of(class));
        if admitted { self.take_admitted(account, class, len) } else { None }
    }

    /// The same, although others may be before it.
    pub(crate) fn take_at_once(&self, account: AccountId, len: usize) -> Option<Buf> {
        // SAFETY: the calling thread owns the ledger.
        unsafe { self.owned().ledger() }.count(account, size_of(class_of(len)));
        self.take_admitted(account, class_of(len), len)
    }

    #[inline(never)]
    fn take_admitted(&self, account: AccountId, class: usize, len: usize) -> Option<Buf> {
        let shared = self.owned();
        // SAFETY: the calling thread owns the lists.
        let idle = unsafe { shared.pop(class) };
        // SAFETY: the block was just taken off its list.
        let idle = idle.map(|block| unsafe { Handle::from_idle(block) });
        let Some(handle) = idle.or_else(|| shared.grow(class)) else {
            // SAFETY: as above.
            unsafe { shared.ledger() }.give_back(account, size_of(class));
            return None;
        };
        handle.charge_to(account);
        Some(Buf::whole(handle, len))
    }

    /// A number that moves whenever a buffer comes back, and with [`Pool::chances`], as a turn in line may come without a return: a starved taker tries again
    /// when it changed.
    ///
    /// # Panics
    /// When the calling thread does not own the pool.
    pub fn returns(&self) -> u64 {
        self.owned().returns.load(Ordering::Relaxed).wrapping_add(self.chances())
    }

    /// A number that moves when somebody who was refused could have what it asked for, as far as the pool knows: others need not be woken.
    ///
    /// # Panics
    /// When the calling thread does not own the pool.
    pub fn chances(&self) -> u64 {
        let shared = self.owned();
        // SAFETY: the calling thread owns the ledger.
        let chances = unsafe { shared.ledger() }.chances();
        chances.wrapping_add(shared.remote_returns.load(Ordering::Relaxed))
    }

    /// How much memory the pool holds, and how much it may.
    pub fn usage(&self) -> PoolUse {
        PoolUse { allocated: self.0.0.counted(), limit: self.0.0.limit }
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
        let shared = &self.0.0;
        if !shared.is_owner() {
            let mut ended = shared.ended.lock().unwrap_or_else(PoisonError::into_inner);
            ended.push((account, held));
            shared.remote_returns.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // SAFETY: the calling thread owns the ledger.
        unsafe { shared.close(account, held) };
    }

    pub(crate) fn charge(&self, account: AccountId, bytes: usize) -> bool {
        let shared = self.owned();
        // SAFETY: the calling thread owns lists and ledger.
        unsafe {
            let admitted = shared.admit(account, bytes);
            if admitted {
                shared.make_room(bytes);
            }
            admitted
        }
    }

    /// Counts bytes that are there already: as data if the account may have them without anybody's waiting. False if they were forced.
    pub(crate) fn charge_present(&self, account: AccountId, bytes: usize) -> bool {
        let shared = self.owned();
        // SAFETY: the calling thread owns lists and ledger.
        unsafe {
            let ledger = shared.ledger();
            let admitted = ledger.admit_unasked(account, bytes) || ledger.admit_aside(account, bytes);
            if admitted {
                shared.make_room(bytes);
            }
            admitted
        }
    }

    pub(crate) fn charge_table(&self, account: AccountId, bytes: usize) -> bool {
        let shared = self.owned();
        // SAFETY: the calling thread owns lists and ledger.
        unsafe {
            let admitted = shared.ledger().admit_table(account, bytes);
            if admitted {
                shared.make_room(bytes);
            }
            admitted
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
        shared.forced.store(shared.forced.load(Ordering::Relaxed).saturating_add(bytes), Ordering::Relaxed);
        // SAFETY: the calling thread owns lists and ledger.
        unsafe {
            shared.ledger().force(account, bytes);
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

    /// The shared part, for the owner only.
    fn owned(&self) -> &Arc<Shared> {
        let shared = &self.0.0;
        assert!(shared.is_owner(), "a pool's buffer was asked for outside its thread");
        shared
    }

    /// Makes the calling thread the owner, for a pool that was built before its thread started.
    ///
    /// The handle is consumed and given back to say that nobody else uses the pool yet.
    #[must_use]
    pub fn adopt(self) -> Self {
        self.0.0.owner.store(this_thread(), Ordering::Release);
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
        // From here on no thread is the owner, so returns go to the stack and are freed there.
        self.0.owner.store(0, Ordering::SeqCst);
        self.0.closed.store(true, Ordering::SeqCst);
        // SAFETY: this was the last handle, dropped by the only thread that could have owned the lists or
        // by one that received the pool from it: nobody can take from them any more.
        unsafe {
            self.0.drain_remote();
            self.0.trim();
        }
    }
}

impl Shared {
    fn is_owner(&self) -> bool {
        self.owner.load(Ordering::Relaxed) == this_thread()
    }

    /// # Safety
    /// The calling thread owns the ledger, and uses no other reference to it.
    #[expect(
        clippy::mut_from_ref,
        reason = "one thread owns it; no caller keeps the reference across a call"
    )]
    unsafe fn ledger(&self) -> &mut Ledger {
        // SAFETY: by the caller's promise.
        unsafe { &mut *self.ledger.get() }
    }

    /// Counts memory for an account, if it may have it once everything that came back is known.
    ///
    /// # Safety
    /// The calling thread owns lists and ledger.
    unsafe fn admit(&self, account: AccountId, bytes: usize) -> bool {
        // SAFETY: by the caller's promise.
        unsafe {
            if self.ledger().admit(account, bytes) {
                return true;
            }
            if self.remote_returns.load(Ordering::Relaxed) == self.seen_returns.load(Ordering::Relaxed) {
                return false;
            }
            self.close_ended();
            self.drain_remote();
            self.ledger().admit(account, bytes)
        }
    }

    /// Counts charged memory beside the blocks', for which idle ones make room.
    ///
    /// # Safety
    /// The calling thread owns the lists.
    unsafe fn make_room(&self, bytes: usize) {
        self.set_charged(self.charged.load(Ordering::Relaxed).saturating_add(bytes));
        if self.counted() > self.limit {
            // SAFETY: by the caller's promise.
            unsafe {
                self.drain_remote();
                self.trim();
            }
        }
    }

    /// # Safety
    /// The calling thread owns the ledger.
    unsafe fn close(&self, account: AccountId, held: Unpooled) {
        // SAFETY: by the caller's promise.
        unsafe {
            self.take_off(account, held);
            self.ledger().close(account);
        }
        self.count_return();
    }

    /// # Safety
    /// The calling thread owns the ledger.
    unsafe fn take_off(&self, account: AccountId, less: Unpooled) {
        self.set_charged(self.charged.load(Ordering::Relaxed).saturating_sub(less.sum()));
        let forced = self.forced.load(Ordering::Relaxed).saturating_sub(less.forced);
        self.forced.store(forced, Ordering::Relaxed);
        // SAFETY: by the caller's promise.
        unsafe { self.ledger() }.give_back_unpooled(account, less);
    }

    /// Closes the accounts that ended on other threads.
    ///
    /// # Safety
    /// The calling thread owns the ledger.
    unsafe fn close_ended(&self) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        for (account, held) in ended.drain(..) {
            // SAFETY: by the caller's promise.
            unsafe { self.close(account, held) };
        }
    }

    /// Bytes of blocks and of charged memory.
    fn counted(&self) -> usize {
        self.allocated.load(Ordering::Relaxed).saturating_add(self.charged.load(Ordering::Relaxed))
    }

    /// On the owner's thread alone.
    fn set_charged(&self, bytes: usize) {
        self.charged.store(bytes, Ordering::Relaxed);
    }

    /// Something came back on the owner's thread.
    fn count_return(&self) {
        let returns = self.returns.load(Ordering::Relaxed);
        self.returns.store(returns.wrapping_add(1), Ordering::Relaxed);
    }

    /// An idle block, those among them that other threads returned.
    ///
    /// # Safety
    /// The calling thread owns the lists.
    unsafe fn pop(&self, class: usize) -> Option<NonNull<Block>> {
        // SAFETY: by the caller's promise.
        unsafe {
            if let Some(block) = self.pop_listed(class) {
                return Some(block);
            }
            if self.remote.load(Ordering::Relaxed).is_null() {
                return None;
            }
            self.drain_remote();
            self.pop_listed(class)
        }
    }

    /// A block that is on its list.
    ///
    /// # Safety
    /// The calling thread owns the lists.
    #[inline]
    unsafe fn pop_listed(&self, class: usize) -> Option<NonNull<Block>> {
        // SAFETY: by the caller's promise.
        let head = unsafe { &mut (*self.lists.get())[class] };
        let block = NonNull::new(*head)?;
        // SAFETY: blocks on a list are alive.
        *head = unsafe { block.as_ref() }.next.load(Ordering::Relaxed);
        Some(block)
    }

    /// New memory, if the limit allows it after idle blocks were released.
    fn grow(self: &Arc<Self>, class: usize) -> Option<Handle> {
        let size = size_of(class);
        if self.counted().saturating_add(size) > self.limit {
            // SAFETY: only the owner grows.
            unsafe {
                self.drain_remote();
                self.trim();
            }
            // What was forced takes nobody's floor.
            let limit = self.limit.saturating_add(self.forced.load(Ordering::Relaxed));
            if self.counted().saturating_add(size) > limit {
                return None;
            }
        }
        self.allocated.fetch_add(size, Ordering::Relaxed);
        Some(Block::for_pool(Arc::clone(self), Memory::new(class)))
    }

    /// Takes back an idle block.
    ///
    /// # Safety
    /// Nobody else holds the block, whose home is this pool.
    #[inline]
    pub(crate) unsafe fn put_back(home: &Home, block: NonNull<Block>) {
        let Home::Pool { pool, memory } = home else { return };
        if pool.is_owner() && !pool.closed.load(Ordering::Relaxed) {
            // SAFETY: the calling thread owns the lists.
            let head = unsafe { &mut (*pool.lists.get())[memory.class()] };
            // SAFETY: the block is alive and ours.
            unsafe { block.as_ref() }.next.store(*head, Ordering::Relaxed);
            *head = block.as_ptr();
            // SAFETY: the calling thread owns the ledger; the block is alive and ours.
            unsafe { pool.ledger().give_back(Block::account(block), size_of(memory.class())) };
            pool.count_return();
        } else {
            Self::put_back_elsewhere(pool, block);
        }
    }

    /// Takes back an idle block on a thread that does not own the pool, or after its end.
    #[inline(never)]
    fn put_back_elsewhere(pool: &Arc<Self>, block: NonNull<Block>) {
        // Once pushed, the block may be freed by somebody else: keep the pool by a reference of our own.
        let pool = Arc::clone(pool);
        pool.push_remote(block);
        if pool.closed.load(Ordering::SeqCst) {
            pool.free_chain(pool.remote.swap(ptr::null_mut(), Ordering::SeqCst));
        }
    }

    fn push_remote(&self, block: NonNull<Block>) {
        let mut head = self.remote.load(Ordering::Relaxed);
        loop {
            // SAFETY: the block is alive and not yet visible to others.
            unsafe { block.as_ref() }.next.store(head, Ordering::Relaxed);
            let new = block.as_ptr();
            match self.remote.compare_exchange_weak(head, new, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => break,
                Err(current) => head = current,
            }
        }
        self.remote_returns.fetch_add(1, Ordering::Relaxed);
    }

    /// Moves what other threads returned to the lists.
    ///
    /// # Safety
    /// The calling thread owns the lists.
    unsafe fn drain_remote(&self) {
        self.seen_returns.store(self.remote_returns.load(Ordering::Relaxed), Ordering::Relaxed);
        let mut next = self.remote.swap(ptr::null_mut(), Ordering::SeqCst);
        while let Some(block) = NonNull::new(next) {
            // SAFETY: the swap gave us the whole chain.
            let taken = unsafe { block.as_ref() };
            next = taken.next.load(Ordering::Relaxed);
            let Home::Pool { memory, .. } = &taken.home else { continue };
            // SAFETY: by the caller's promise.
            let head = unsafe { &mut (*self.lists.get())[memory.class()] };
            taken.next.store(*head, Ordering::Relaxed);
            *head = block.as_ptr();
            // SAFETY: by the caller's promise; the block is alive and ours.
            unsafe { self.ledger().give_back(Block::account(block), size_of(memory.class())) };
        }
    }

    /// Frees every idle block.
    ///
    /// # Safety
    /// The calling thread owns the lists.
    unsafe fn trim(&self) {
        for class in 0..CLASSES {
            // SAFETY: by the caller's promise.
            let head = unsafe { std::mem::replace(&mut (*self.lists.get())[class], ptr::null_mut()) };
            self.free_chain(head);
        }
    }

    /// Frees a chain of idle blocks that the caller took off a list or the stack.
    fn free_chain(&self, mut next: *mut Block) {
        while let Some(block) = NonNull::new(next) {
            // SAFETY: the chain belongs to the caller.
            let taken = unsafe { block.as_ref() };
            next = taken.next.load(Ordering::Relaxed);
            let Home::Pool { memory, .. } = &taken.home else { continue };
            self.allocated.fetch_sub(size_of(memory.class()), Ordering::Relaxed);
            // SAFETY: the block is idle and off every list.
            unsafe { Block::free(block) };
        }
    }
}

/// A number that differs between threads that are alive at the same time.
fn this_thread() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| std::ptr::from_ref(mark).addr())
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
