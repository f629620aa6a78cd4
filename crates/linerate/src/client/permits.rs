//! Room for requests: a fixed number of permits, given out in the order in which they were asked for.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A number of permits.
pub(crate) struct Permits(Mutex<State>);

struct State {
    free: usize,
    next_ticket: u64,
    waiting: VecDeque<(u64, Waker)>,
    /// Tickets that have a permit which nobody has fetched yet.
    granted: Vec<u64>,
}

impl Permits {
    /// As many permits as `count`.
    pub(crate) fn new(count: usize) -> Arc<Self> {
        let state = State { free: count, next_ticket: 0, waiting: VecDeque::new(), granted: Vec::new() };
        Arc::new(Self(Mutex::new(state)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A permit, once it is this caller's turn.
    pub(crate) fn acquire(self: &Arc<Self>) -> Acquire {
        Acquire { permits: Arc::clone(self), ticket: None }
    }

    fn release(&self) {
        let next = {
            let mut state = self.lock();
            if let Some((ticket, waker)) = state.waiting.pop_front() {
                state.granted.push(ticket);
                Some(waker)
            } else {
                state.free += 1;
                None
            }
        };
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

/// The right to have one request under way; it ends when dropped.
pub(crate) struct Permit(Arc<Permits>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Waits for a permit. Dropped before it has one, it gives its place up.
pub(crate) struct Acquire {
    permits: Arc<Permits>,
    ticket: Option<u64>,
}

impl Future for Acquire {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit> {
        let permits = Arc::clone(&self.permits);
        let mut state = permits.lock();
        let Some(ticket) = self.ticket else {
            if state.free > 0 {
                state.free -= 1;
                drop(state);
                return Poll::Ready(Permit(permits));
            }
            let ticket = state.next_ticket;
            state.next_ticket += 1;
            state.waiting.push_back((ticket, context.waker().clone()));
            self.ticket = Some(ticket);
            return Poll::Pending;
        };
        if let Some(at) = state.granted.iter().position(|one| *one == ticket) {
            state.granted.swap_remove(at);
            self.ticket = None;
            drop(state);
            return Poll::Ready(Permit(permits));
        }
        if let Some((_, waker)) = state.waiting.iter_mut().find(|(one, _)| *one == ticket) {
            waker.clone_from(context.waker());
        }
        Poll::Pending
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let unused = {
            let mut state = self.permits.lock();
            state.waiting.retain(|(one, _)| *one != ticket);
            let at = state.granted.iter().position(|one| *one == ticket);
            at.map(|at| state.granted.swap_remove(at)).is_some()
        };
        if unused {
            self.permits.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    fn poll(acquire: Pin<&mut Acquire>) -> Option<Permit> {
        match acquire.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(permit) => Some(permit),
            Poll::Pending => None,
        }
    }

    #[test]
    fn whoever_asked_first_is_first() {
        let permits = Permits::new(1);
        let held = poll(pin!(permits.acquire())).unwrap();
        let (mut first, mut second) = (pin!(permits.acquire()), pin!(permits.acquire()));
        assert!(poll(first.as_mut()).is_none());
        assert!(poll(second.as_mut()).is_none());
        drop(held);
        assert!(poll(second.as_mut()).is_none());
        let held = poll(first.as_mut()).unwrap();
        assert!(poll(second.as_mut()).is_none());
        drop(held);
        assert!(poll(second.as_mut()).is_some());
    }

    #[test]
    fn a_place_that_is_given_up_passes_its_permit_on() {
        let permits = Permits::new(1);
        let held = poll(pin!(permits.acquire())).unwrap();
        let mut leaver = Box::pin(permits.acquire());
        let mut stayer = pin!(permits.acquire());
        assert!(poll(leaver.as_mut()).is_none());
        assert!(poll(stayer.as_mut()).is_none());
        drop(held);
        drop(leaver);
        assert!(poll(stayer.as_mut()).is_some());
    }
}
