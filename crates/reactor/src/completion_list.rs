//! Where operations go that end on another thread than their queue's.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Operations that have ended, on whatever thread, until their queue takes them.
pub(crate) struct CompletionList<T> {
    /// `None` once the queue is gone: operations keep the file open, and would keep this alive.
    ended: Mutex<Option<Vec<Box<T>>>>,
    waker: Waker,
}

impl<T> CompletionList<T> {
    /// Nothing has ended yet; `waker` is woken when something has.
    pub(crate) fn new(waker: Waker) -> Self {
        Self { ended: Mutex::new(Some(Vec::new())), waker }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<Box<T>>>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an operation that has ended, or drops it if its queue is gone.
    pub(crate) fn put(&self, op: Box<T>) {
        if let Some(ended) = self.lock().as_mut() {
            ended.push(op);
        }
        self.waker.wake_by_ref();
    }

    /// Swaps what has ended with an empty list.
    pub(crate) fn swap(&self, with: &mut Vec<Box<T>>) {
        if let Some(ended) = self.lock().as_mut() {
            std::mem::swap(ended, with);
        }
    }

    /// The queue is gone: what ends from now on is dropped.
    pub(crate) fn close(&self) {
        let ended = self.lock().take();
        drop(ended);
    }
}
