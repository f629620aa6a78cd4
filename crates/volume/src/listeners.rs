//! Who is to be told that a volume has changed.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Wakers that are woken, all and again and again, whenever a volume's [`Changes`](crate::Changes) have moved.
#[derive(Debug, Default)]
pub struct Listeners(Mutex<Vec<Waker>>);

impl Listeners {
    fn lock(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more; a waker that would wake the same as another adds nothing.
    pub fn add(&self, waker: Waker) {
        let mut wakers = self.lock();
        if !wakers.iter().any(|known| known.will_wake(&waker)) {
            wakers.push(waker);
        }
    }

    /// Tells all.
    pub fn wake(&self) {
        self.lock().iter().for_each(Waker::wake_by_ref);
    }
}
