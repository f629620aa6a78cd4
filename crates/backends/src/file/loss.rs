//! Acknowledged writes that are lost, and what a volume does from then on.
//!
//! A flush that fails says that some write which was acknowledged before is not on stable media, and nobody can say which: the
//! system has dropped the data and tells of it once, and a device whose cache could not be emptied may have dropped it too. The
//! next flush would find nothing to do and succeed. So the first failure decides for the whole volume, for every queue: from
//! then on whatever changes it and every flush fail, and reads go on, until an operator has said that the loss is known.
//! docs/decisions/0012-lost-writes.md has the reasons.
//!
//! The loss outlives the process by a [`LossRecord`]. No answer that speaks of the loss is given before the record is kept: who was told
//! of it may rely on every later process knowing it.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use host::IoError;
use volume::{Listeners, LossRecord};

/// What the system refuses before it begins, or does not begin any more: `EPERM`, `EBADF`, `EACCES`, `EINVAL`, `EROFS`, `ENOSYS`,
/// `EOPNOTSUPP`, `ECANCELED`.
const NOT_BEGUN: [i32; 8] = [1, 9, 13, 22, 30, 38, 95, 125];
/// Where there is no room for the write itself, by direct I/O: `EFBIG`, `ENOSPC`, `EDQUOT`.
const NO_ROOM: [i32; 3] = [27, 28, 122];
/// `ECANCELED`.
const CANCELLED: i32 = 125;

/// No write is lost.
const NONE: u8 = 0;
/// Writes are lost, and the record of it is not kept yet.
const KEEPING: u8 = 1;
/// Writes are lost, and everybody may be told.
const KEPT: u8 = 2;

/// What all queues of a volume know of lost writes.
pub(super) struct Losses {
    state: AtomicU8,
    what: Mutex<Option<String>>,
    record: OnceLock<Arc<dyn LossRecord>>,
    /// Queues that hold answers back until the record is kept.
    queues: Listeners,
}

impl Losses {
    /// Nothing is lost yet.
    pub(super) fn new() -> Arc<Self> {
        let (state, what) = (AtomicU8::new(NONE), Mutex::default());
        Arc::new(Self { state, what, record: OnceLock::new(), queues: Listeners::default() })
    }

    /// Has the record keep what is lost from now on; it has kept `known` already.
    pub(super) fn keep_in(&self, record: Arc<dyn LossRecord>, known: Option<String>) {
        let record = self.record.get_or_init(|| record);
        let earlier = self.describe();
        match (known, earlier) {
            (Some(known), _) => {
                *self.lock() = Some(known);
                self.state.store(KEPT, Ordering::Release);
            }
            // Lost before anybody said where to keep it.
            (None, Some(what)) => record.keep(&what, Box::new(|| ())),
            (None, None) => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.what.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True once a write is lost.
    pub(super) fn happened(&self) -> bool {
        self.state.load(Ordering::Acquire) != NONE
    }

    /// True while nobody may be told yet.
    pub(super) fn is_being_kept(&self) -> bool {
        self.state.load(Ordering::Acquire) == KEEPING
    }

    /// Has the waker woken once answers need not be held back any more.
    pub(super) fn add_queue(&self, waker: Waker) {
        self.queues.add(waker);
    }

    /// What is lost, for people.
    pub(super) fn describe(&self) -> Option<String> {
        self.lock().clone()
    }

    /// A flush has failed.
    pub(super) fn flush_failed(self: &Arc<Self>, error: IoError) {
        if error.0 != CANCELLED {
            self.report(&format!("a flush failed: {error}"));
        }
    }

    /// A write that was to be durable has failed, by direct I/O: either its own data could not be written, or what lay in the
    /// device's cache. Where the error number does not tell which, the second is assumed.
    pub(super) fn durable_write_failed(self: &Arc<Self>, error: IoError) {
        if !NOT_BEGUN.contains(&error.0) && !NO_ROOM.contains(&error.0) {
            self.report(&format!("a durable write failed: {error}"));
        }
    }

    fn report(self: &Arc<Self>, what: &str) {
        if self.state.compare_exchange(NONE, KEEPING, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return;
        }
        *self.lock() = Some(what.to_owned());
        let losses = Arc::clone(self);
        let kept = move || {
            losses.state.store(KEPT, Ordering::Release);
            losses.queues.wake();
        };
        match self.record.get() {
            Some(record) => record.keep(what, Box::new(kept)),
            None => kept(),
        }
    }
}

impl fmt::Debug for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Losses").field("what", &self.describe()).finish_non_exhaustive()
    }
}
