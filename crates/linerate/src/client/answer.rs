//! One value from one thread to another, as a future; and waiting for a future without a runtime.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// Where the value lies until it is fetched.
struct Place<T> {
    value: Option<T>,
    waker: Option<Waker>,
    /// The sender is gone, with or without a value.
    over: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A sender and the future of what it sends.
pub(crate) fn answer<T>() -> (Reply<T>, Answer<T>) {
    let place = Arc::new(Mutex::new(Place { value: None, waker: None, over: false }));
    (Reply(Arc::clone(&place)), Answer(place))
}

/// Sends one value; dropped without, it sends that there is none.
pub(crate) struct Reply<T>(Arc<Mutex<Place<T>>>);

impl<T> Reply<T> {
    /// Sends the value.
    pub(crate) fn send(self, value: T) {
        lock(&self.0).value = Some(value);
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        let waker = {
            let mut place = lock(&self.0);
            place.over = true;
            place.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The value to come; `None` when there will be none.
pub(crate) struct Answer<T>(Arc<Mutex<Place<T>>>);

impl<T> Future for Answer<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut place = lock(&self.0);
        if place.over {
            return Poll::Ready(place.value.take());
        }
        match &mut place.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

/// Wakes a thread that waits in [`block_on`].
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits on the calling thread for what comes of a future: for programs that have no runtime.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        std::thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_sent_from_another_thread_arrives() {
        let (reply, answer) = answer();
        let sender = std::thread::spawn(move || reply.send(7));
        assert_eq!(block_on(answer), Some(7));
        sender.join().unwrap();
    }

    #[test]
    fn a_sender_that_goes_without_a_value_is_noticed() {
        let (reply, answer) = answer::<u8>();
        drop(reply);
        assert_eq!(block_on(answer), None);
    }
}
