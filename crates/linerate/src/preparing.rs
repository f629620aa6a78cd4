//! What a core hears of a thread that does what may block.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::task::Waker;
use std::thread;

/// Runs what may block on a thread of its own.
pub(crate) fn on_thread(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("linerate opening".to_owned()).spawn(work).map(drop)
}

/// The core's end.
pub(crate) struct Preparing<T>(Receiver<T>);

/// The thread ended without a word: what it called has panicked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PreparingEnded;

/// The thread's end. The core is woken when it goes, with or without a word.
pub(crate) struct Preparer<T> {
    tell: Option<Sender<T>>,
    waker: Waker,
}

impl<T> Preparing<T> {
    /// Both ends; `waker` is the core's.
    pub(crate) fn begin(waker: &Waker) -> (Preparer<T>, Self) {
        let (tell, hears) = mpsc::channel();
        (Preparer { tell: Some(tell), waker: waker.clone() }, Self(hears))
    }

    /// What the thread has told, once it has.
    pub(crate) fn poll(&self) -> Option<Result<T, PreparingEnded>> {
        match self.0.try_recv() {
            Ok(told) => Some(Ok(told)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(PreparingEnded)),
        }
    }
}

impl<T> Preparer<T> {
    /// Tells the core, which may have given up.
    pub(crate) fn tell(&mut self, what: T) {
        let _given_up = self.tell.take().map(|tell| tell.send(what));
    }
}

impl<T> Drop for Preparer<T> {
    fn drop(&mut self) {
        // First: a core that is woken looks at once.
        self.tell = None;
        self.waker.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Wake;

    use super::*;

    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_core_hears_of_a_thread_that_tells_and_of_one_that_cannot() {
        for told in [Ok(7), Err(PreparingEnded)] {
            let woken = Arc::new(Woken(AtomicBool::new(false)));
            let (mut preparer, preparing) = Preparing::begin(&Waker::from(Arc::clone(&woken)));
            assert_eq!(preparing.poll(), None);
            if let Ok(what) = told {
                preparer.tell(what);
            }
            assert!(!woken.0.load(Ordering::SeqCst));
            drop(preparer);
            assert!(woken.0.load(Ordering::SeqCst));
            assert_eq!(preparing.poll(), Some(told));
        }
    }
}
