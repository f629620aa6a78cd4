//! Acknowledged writes that are lost, and what a volume does from then on.
//!
//! A flush that fails says that some write which was acknowledged before is not on stable media, and nobody can say which: whoever kept
//! the data may have dropped it, and tells of it once. The next flush would find nothing to do and succeed. So the first failure decides
//! for the whole volume, for every queue: from then on whatever changes it and every flush fail, and reads go on, until an operator has
//! said that the loss is known. docs/decisions/0012-lost-writes.md has the reasons.
//!
//! The loss outlives the process by a [`LossRecord`]. No answer that speaks of the loss is given before the record is kept: who was told
//! of it may rely on every later process knowing it.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use crate::{Listeners, LossRecord, Operation};

/// No write is lost.
const NONE: u8 = 0;
/// Writes are lost, and the record of it is not kept yet.
const KEEPING: u8 = 1;
/// Writes are lost, and everybody may be told.
const KEPT: u8 = 2;

/// What all queues of a volume know of lost writes.
pub struct Losses {
    state: AtomicU8,
    what: Mutex<Option<String>>,
    record: OnceLock<Arc<dyn LossRecord>>,
    /// Queues that hold answers back until the record is kept.
    queues: Listeners,
}

impl Losses {
    /// Nothing is lost yet.
    pub fn new() -> Arc<Self> {
        let (state, what) = (AtomicU8::new(NONE), Mutex::default());
        Arc::new(Self { state, what, record: OnceLock::new(), queues: Listeners::default() })
    }

    /// Has the record keep what is lost from now on; it has kept `known` already.
    pub fn keep_in(&self, record: Arc<dyn LossRecord>, known: Option<String>) {
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
    pub fn happened(&self) -> bool {
        self.state.load(Ordering::Acquire) != NONE
    }

    /// True while nobody may be told yet.
    pub fn is_being_kept(&self) -> bool {
        self.state.load(Ordering::Acquire) == KEEPING
    }

    /// Has the waker woken once answers need not be held back any more.
    pub fn add_queue(&self, waker: Waker) {
        self.queues.add(waker);
    }

    /// What is lost, for people.
    fn describe(&self) -> Option<String> {
        self.lock().clone()
    }

    /// What is lost, in words that say what follows.
    pub fn last_error(&self) -> Option<String> {
        self.describe().map(|what| {
            format!(
                "acknowledged writes were lost ({what}): everything that writes or flushes fails until an operator clears the loss; \
                 reads go on"
            )
        })
    }

    /// Something has failed that tells of lost writes: `what`, for people. The first one counts.
    pub fn report(self: &Arc<Self>, what: &str) {
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

/// Whether an operation promises that it, or what was done before, lasts: what fails once writes are lost.
pub fn promises(operation: &Operation) -> bool {
    operation.writes() || matches!(operation, Operation::Flush)
}
