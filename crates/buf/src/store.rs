//! A pool's idle blocks and its counts: lists by size class for the thread that owns them, and a stack for every other.
//!
//! The owning thread takes and returns through plain lists; other threads push onto one lock-free stack, which the owner empties when a list runs dry.
//! The lists run through the blocks themselves; what they need of a block is [`Listed`], so that a block can name its store, and a store need not know
//! what a block is.
//!
//! Blocks lie in arenas ([`Arenas`]). What is counted is blocks, in use or idle; arenas have free room besides. Together with what was charged they stay
//! within the limit as long as what is idle can make room, and never exceed it by more than [`ARENA_SLACK`].

use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
#[cfg(feature = "std")]
use std::sync::{Mutex, PoisonError};

use crate::arena::{ArenaSpan, Piece};
use crate::arenas::Arenas;
use crate::ledger::{AccountId, Ledger, Unpooled};
use crate::limits::ARENA_SLACK;
use crate::memory::{CLASSES, size_of};
use crate::observer::ArenaObserver;
use crate::source::MemorySource;
use crate::sync::AtomicPtr as Link;

/// What a store needs of the blocks on its lists.
pub(crate) trait Listed: Sized {
    /// The next block of the list that this one is in, if it is in one.
    fn next(&self) -> &Link<Self>;

    /// The size class of the memory that the store gave for it.
    fn class(&self) -> Option<usize>;

    /// Who answers for the memory.
    ///
    /// # Safety
    /// `block` is alive, and held by nobody but the caller.
    unsafe fn account(block: NonNull<Self>) -> AccountId;

    /// Frees a block, and gives back the memory that the store gave for it.
    ///
    /// # Safety
    /// `block` is idle: off every list, held by nobody, and used by nobody afterwards.
    unsafe fn free(block: NonNull<Self>) -> Option<Piece>;
}

/// Why there is no memory for a block that the ledger has admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoMemory {
    /// Blocks that are out leave no room for it in as many arenas as there may be.
    Full,
    /// The source has none.
    Source,
}

/// A pool's blocks and counts.
pub(crate) struct Store<B> {
    #[cfg(feature = "std")]
    owner: AtomicUsize,
    lists: UnsafeCell<[*mut B; CLASSES]>,
    /// Who holds what; blocks that other threads returned count until the stack is emptied.
    ledger: UnsafeCell<Ledger>,
    arenas: UnsafeCell<Arenas>,
    /// Bytes of arenas. Only the owner changes it.
    spanned: AtomicUsize,
    /// Accounts that ended on other threads, with what was charged to them.
    #[cfg(feature = "std")]
    ended: Mutex<Vec<(AccountId, Unpooled)>>,
    remote: AtomicPtr<B>,
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

// SAFETY: `lists`, `ledger` and `arenas` are touched only by the owning thread (checked against `owner`), or by the last handle's
// drop, when no thread can take any more; everything else is atomic. The observers in `arenas` may be of their thread alone: each is there only as long
// as its watch, which stays on the thread that owned the store, and keeps any other from owning it (see `adopt`).
unsafe impl<B: Send> Send for Store<B> {}
// SAFETY: as above.
unsafe impl<B: Send> Sync for Store<B> {}

impl<B: Listed> Store<B> {
    /// A store for the calling thread, with nothing in it.
    pub(crate) fn new(limit: usize, source: Arc<dyn MemorySource>) -> Self {
        Self {
            #[cfg(feature = "std")]
            owner: AtomicUsize::new(this_thread()),
            lists: UnsafeCell::new([ptr::null_mut(); CLASSES]),
            ledger: UnsafeCell::new(Ledger::new(limit)),
            arenas: UnsafeCell::new(Arenas::new(source)),
            spanned: AtomicUsize::new(0),
            #[cfg(feature = "std")]
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
        }
    }

    /// The most that it may hold, in bytes.
    #[inline]
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Makes the calling thread the owner.
    #[cfg(feature = "std")]
    pub(crate) fn adopt(&self) {
        // SAFETY: nobody else uses the store yet, as whoever calls says.
        let is_watched = unsafe { self.arenas() }.is_watched();
        assert!(!is_watched, "a pool changed its thread while somebody there watched its arenas");
        self.owner.store(this_thread(), Ordering::Release);
    }

    /// From here on no thread is the owner, so returns go to the stack and are freed there.
    pub(crate) fn end(&self) {
        #[cfg(feature = "std")]
        self.owner.store(0, Ordering::SeqCst);
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Moves whenever something comes back on the owner's thread.
    #[inline]
    pub(crate) fn returns(&self) -> u64 {
        self.returns.load(Ordering::Relaxed)
    }

    /// Moves whenever something comes back on another thread.
    #[inline]
    pub(crate) fn remote_returns(&self) -> u64 {
        self.remote_returns.load(Ordering::Relaxed)
    }

    /// Whether the calling thread owns lists and ledger.
    #[cfg(feature = "std")]
    #[inline]
    pub(crate) fn is_owner(&self) -> bool {
        self.owner.load(Ordering::Relaxed) == this_thread()
    }

    /// Whether a block that comes back does so on the thread that owns the lists. Nobody can say here, so each takes the way of the other threads.
    #[cfg(not(feature = "std"))]
    #[expect(clippy::unused_self, reason = "as with the standard library")]
    fn is_owner(&self) -> bool {
        false
    }

    /// # Safety
    /// The calling thread owns the ledger, and uses no other reference to it.
    #[inline]
    #[expect(
        clippy::mut_from_ref,
        reason = "one thread owns it; no caller keeps the reference across a call"
    )]
    pub(crate) unsafe fn ledger(&self) -> &mut Ledger {
        // SAFETY: by the caller's promise.
        unsafe { &mut *self.ledger.get() }
    }

    /// Counts memory for an account, if it may have it once everything that came back is known.
    ///
    /// # Safety
    /// The calling thread owns lists and ledger.
    pub(crate) unsafe fn admit(&self, account: AccountId, bytes: usize) -> bool {
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

    /// # Safety
    /// The calling thread owns the lists, and uses no other reference to the arenas.
    #[expect(
        clippy::mut_from_ref,
        reason = "one thread owns them; no caller keeps the reference across a call"
    )]
    pub(crate) unsafe fn arenas(&self) -> &mut Arenas {
        // SAFETY: by the caller's promise.
        unsafe { &mut *self.arenas.get() }
    }

    /// Counts charged memory beside the blocks', for which idle ones make room. False if it is there, but not within the limit and the slack.
    ///
    /// # Safety
    /// The calling thread owns the lists.
    #[inline]
    pub(crate) unsafe fn make_room(&self, bytes: usize) -> bool {
        let charged = self.charged.load(Ordering::Relaxed).saturating_add(bytes);
        self.set_charged(charged);
        // Blocks are no more than the arenas that they lie in.
        if self.spanned.load(Ordering::Relaxed).saturating_add(charged) <= self.limit {
            return true;
        }
        // SAFETY: by the caller's promise.
        unsafe { self.make_room_of_idle() }
    }

    /// Counts memory that the ledger has admitted to an account, unless arenas leave it no room.
    ///
    /// # Safety
    /// The calling thread owns lists and ledger.
    #[inline]
    pub(crate) unsafe fn charge(&self, account: AccountId, more: Unpooled) -> bool {
        // SAFETY: by the caller's promise.
        unsafe { self.make_room(more.sum()) || self.uncharge(account, more) }
    }

    /// Takes back what an account was charged and there is no room for: false.
    ///
    /// # Safety
    /// The calling thread owns lists and ledger.
    #[cold]
    unsafe fn uncharge(&self, account: AccountId, more: Unpooled) -> bool {
        // SAFETY: by the caller's promise.
        unsafe {
            self.take_off(account, more);
            self.ledger().give_back_unplaced(account, 0);
        }
        false
    }

    /// # Safety
    /// The calling thread owns the lists.
    #[inline(never)]
    unsafe fn make_room_of_idle(&self) -> bool {
        // SAFETY: by the caller's promise.
        unsafe {
            if self.counted() > self.limit || !self.has_slack(0) {
                self.drain_remote();
                self.trim();
                self.release_empty(0);
            }
        }
        self.has_slack(0)
    }

    /// Whether arenas with `more` bytes are within the limit beside what was charged.
    fn fits(&self, more: usize) -> bool {
        let charged = self.charged.load(Ordering::Relaxed);
        self.spanned.load(Ordering::Relaxed).saturating_add(charged).saturating_add(more) <= self.limit
    }

    /// Whether they are within it with what arenas may take beyond it. What was forced is beyond it anyway.
    fn has_slack(&self, more: usize) -> bool {
        let beyond = self.forced.load(Ordering::Relaxed).saturating_add(ARENA_SLACK);
        let (spanned, charged) = (self.spanned.load(Ordering::Relaxed), self.charged.load(Ordering::Relaxed));
        spanned.saturating_add(charged).saturating_add(more) <= self.limit.saturating_add(beyond)
    }

    /// # Safety
    /// The calling thread owns the ledger.
    pub(crate) unsafe fn close(&self, account: AccountId, held: Unpooled) {
        // SAFETY: by the caller's promise.
        unsafe {
            self.take_off(account, held);
            self.ledger().close(account);
        }
        self.count_return();
    }

    /// # Safety
    /// The calling thread owns the ledger.
    #[inline]
    pub(crate) unsafe fn take_off(&self, account: AccountId, less: Unpooled) {
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
    #[cfg_attr(
        not(feature = "std"),
        expect(clippy::unused_self, reason = "no account ends on another thread")
    )]
    pub(crate) unsafe fn close_ended(&self) {
        #[cfg(feature = "std")]
        for (account, held) in self.ended.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // SAFETY: by the caller's promise.
            unsafe { self.close(account, held) };
        }
    }

    /// Keeps what ended on a thread that does not own the ledger, until the owner looks.
    #[cfg(feature = "std")]
    pub(crate) fn close_elsewhere(&self, account: AccountId, held: Unpooled) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push((account, held));
        self.remote_returns.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts bytes that are there whatever the limit says.
    ///
    /// # Safety
    /// The calling thread owns the ledger.
    pub(crate) unsafe fn force(&self, account: AccountId, bytes: usize) {
        self.forced.store(self.forced.load(Ordering::Relaxed).saturating_add(bytes), Ordering::Relaxed);
        // SAFETY: by the caller's promise.
        unsafe { self.ledger() }.force(account, bytes);
    }

    /// Bytes of blocks and of charged memory.
    #[inline]
    pub(crate) fn counted(&self) -> usize {
        self.allocated.load(Ordering::Relaxed).saturating_add(self.charged.load(Ordering::Relaxed))
    }

    /// On the owner's thread alone.
    #[inline]
    fn set_charged(&self, bytes: usize) {
        self.charged.store(bytes, Ordering::Relaxed);
    }

    /// Something came back on the owner's thread.
    #[inline]
    pub(crate) fn count_return(&self) {
        let returns = self.returns.load(Ordering::Relaxed);
        self.returns.store(returns.wrapping_add(1), Ordering::Relaxed);
    }

    /// An idle block, those among them that other threads returned.
    ///
    /// # Safety
    /// The calling thread owns the lists.
    pub(crate) unsafe fn pop(&self, class: usize) -> Option<NonNull<B>> {
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
    pub(crate) unsafe fn pop_listed(&self, class: usize) -> Option<NonNull<B>> {
        // SAFETY: by the caller's promise.
        let head = unsafe { &mut (*self.lists.get())[class] };
        let block = NonNull::new(*head)?;
        // SAFETY: blocks on a list are alive.
        *head = unsafe { block.as_ref() }.next().load(Ordering::Relaxed);
        Some(block)
    }

    /// New memory, if the limit allows it after idle blocks were released.
    ///
    /// # Safety
    /// The calling thread owns the lists.
    pub(crate) unsafe fn grow(&self, class: usize) -> Result<Piece, NoMemory> {
        let size = size_of(class);
        // SAFETY: by the caller's promise.
        let piece = unsafe {
            if self.counted().saturating_add(size) > self.limit {
                self.drain_remote();
                self.trim();
                // What was forced takes nobody's floor.
                let limit = self.limit.saturating_add(self.forced.load(Ordering::Relaxed));
                if self.counted().saturating_add(size) > limit {
                    return Err(NoMemory::Full);
                }
            }
            self.place(class)?
        };
        self.allocated.fetch_add(size, Ordering::Relaxed);
        Ok(piece)
    }

    /// A piece of an arena: of one that is there, of a new one within the limit, of what idle blocks leave, of a new one within the slack, of one for
    /// blocks of another kind.
    ///
    /// # Safety
    /// The calling thread owns the lists.
    unsafe fn place(&self, class: usize) -> Result<Piece, NoMemory> {
        // SAFETY: by the caller's promise.
        unsafe {
            if let Some(piece) = self.arenas().place(class) {
                return Ok(piece);
            }
            let len = self.arenas().next_len(class, self.limit);
            let has_room = self.fits(len);
            if has_room && let Some(piece) = self.obtain(class, len) {
                return Ok(piece);
            }
            self.drain_remote();
            self.trim();
            if let Some(piece) = self.arenas().place(class) {
                return Ok(piece);
            }
            // A source that had none has one perhaps when it has got all the others back.
            self.release_empty(if has_room { usize::MAX } else { len });
            let refusal = if self.has_slack(len) {
                if let Some(piece) = self.obtain(class, len) {
                    return Ok(piece);
                }
                NoMemory::Source
            } else {
                NoMemory::Full
            };
            self.arenas().place_anywhere(class).ok_or(refusal)
        }
    }

    /// A piece of a new arena, if the source has one. Whoever watches hears of it before a buffer of it is given out.
    ///
    /// # Safety
    /// The calling thread owns the lists.
    unsafe fn obtain(&self, class: usize, len: usize) -> Option<Piece> {
        // SAFETY: by the caller's promise.
        let (span, piece) = unsafe { (self.arenas().obtain(class, len)?, self.arenas().place(class)) };
        self.spanned.fetch_add(span.len, Ordering::Relaxed);
        // SAFETY: as above. The observers are clones, so that no reference to the arenas lives while they are told.
        for observer in unsafe { self.arenas().observers() } {
            observer.added(span);
        }
        piece
    }

    /// Gives arenas without blocks back, until the others are within the limit with `more` bytes.
    ///
    /// # Safety
    /// The calling thread owns the lists.
    unsafe fn release_empty(&self, more: usize) {
        while !self.fits(more) {
            // SAFETY: by the caller's promise.
            let Some(arena) = (unsafe { self.arenas().take_empty() }) else { return };
            let span = arena.span();
            self.spanned.fetch_sub(span.len, Ordering::Relaxed);
            // SAFETY: as in `obtain`.
            for observer in unsafe { self.arenas().observers() } {
                observer.removed(span);
            }
        }
    }

    /// Lets an observer hear of the arenas, beginning with those that there are; the answer names the watch.
    ///
    /// # Safety
    /// The calling thread owns the lists, and ends the watch before another does.
    pub(crate) unsafe fn watch(&self, observer: &Rc<dyn ArenaObserver>) -> u64 {
        // SAFETY: by the caller's promise.
        let (spans, watch) = unsafe { (self.arenas().spans(), self.arenas().watch(Rc::clone(observer))) };
        for span in spans {
            observer.added(span);
        }
        watch
    }

    /// Where the arenas are.
    ///
    /// # Safety
    /// The calling thread owns the lists.
    pub(crate) unsafe fn spans(&self) -> Vec<ArenaSpan> {
        // SAFETY: by the caller's promise.
        unsafe { self.arenas() }.spans()
    }

    /// Takes back an idle block.
    ///
    /// # Safety
    /// Nobody else holds the block, which is of this store and class.
    #[inline]
    pub(crate) unsafe fn put_back(self: &Arc<Self>, class: usize, block: NonNull<B>) {
        if self.is_owner() && !self.closed.load(Ordering::Relaxed) {
            // SAFETY: the calling thread owns the lists.
            let head = unsafe { &mut (*self.lists.get())[class] };
            // SAFETY: the block is alive and ours.
            unsafe { block.as_ref() }.next().store(*head, Ordering::Relaxed);
            *head = block.as_ptr();
            // SAFETY: the calling thread owns the ledger; the block is alive and ours.
            unsafe { self.ledger().give_back(B::account(block), size_of(class)) };
            self.count_return();
        } else {
            self.put_back_elsewhere(block);
        }
    }

    /// Takes back an idle block on a thread that does not own the pool, or after its end.
    #[inline(never)]
    fn put_back_elsewhere(self: &Arc<Self>, block: NonNull<B>) {
        // Once pushed, the block may be freed by somebody else: keep the store by a reference of our own.
        let pool = Arc::clone(self);
        pool.push_remote(block);
        if pool.closed.load(Ordering::SeqCst) {
            // The arenas' table is nobody's any more: what is left of an arena keeps it.
            pool.free_chain(pool.remote.swap(ptr::null_mut(), Ordering::SeqCst), drop);
        }
    }

    fn push_remote(&self, block: NonNull<B>) {
        let mut head = self.remote.load(Ordering::Relaxed);
        loop {
            // SAFETY: the block is alive and not yet visible to others.
            unsafe { block.as_ref() }.next().store(head, Ordering::Relaxed);
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
    pub(crate) unsafe fn drain_remote(&self) {
        self.seen_returns.store(self.remote_returns.load(Ordering::Relaxed), Ordering::Relaxed);
        let mut next = self.remote.swap(ptr::null_mut(), Ordering::SeqCst);
        while let Some(block) = NonNull::new(next) {
            // SAFETY: the swap gave us the whole chain.
            let taken = unsafe { block.as_ref() };
            next = taken.next().load(Ordering::Relaxed);
            let Some(class) = taken.class() else { continue };
            // SAFETY: by the caller's promise.
            let head = unsafe { &mut (*self.lists.get())[class] };
            taken.next().store(*head, Ordering::Relaxed);
            *head = block.as_ptr();
            // SAFETY: by the caller's promise; the block is alive and ours.
            unsafe { self.ledger().give_back(B::account(block), size_of(class)) };
        }
    }

    /// Frees every idle block. The arenas stay.
    ///
    /// # Safety
    /// The calling thread owns the lists.
    pub(crate) unsafe fn trim(&self) {
        for class in 0..CLASSES {
            // SAFETY: by the caller's promise.
            let head = unsafe { core::mem::replace(&mut (*self.lists.get())[class], ptr::null_mut()) };
            // SAFETY: as above.
            self.free_chain(head, |piece| unsafe { self.arenas() }.give_back(&piece));
        }
    }

    /// Frees what is idle, and lets go of the arenas, after [`Store::end`]: those of whose blocks some are out go with the last of them.
    ///
    /// # Safety
    /// Nobody owns the lists any more but the caller.
    pub(crate) unsafe fn clear(&self) {
        // SAFETY: by the caller's promise.
        unsafe {
            self.drain_remote();
            self.trim();
            self.arenas().end();
        }
    }

    /// Frees a chain of idle blocks that the caller took off a list or the stack, and has `back` take their memory.
    fn free_chain(&self, mut next: *mut B, back: impl Fn(Piece)) {
        while let Some(block) = NonNull::new(next) {
            // SAFETY: the chain belongs to the caller.
            let taken = unsafe { block.as_ref() };
            next = taken.next().load(Ordering::Relaxed);
            let Some(class) = taken.class() else { continue };
            self.allocated.fetch_sub(size_of(class), Ordering::Relaxed);
            // SAFETY: the block is idle and off every list.
            if let Some(piece) = unsafe { B::free(block) } {
                back(piece);
            }
        }
    }
}

/// A number that differs between threads that are alive at the same time.
#[cfg(feature = "std")]
fn this_thread() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| std::ptr::from_ref(mark).addr())
}
