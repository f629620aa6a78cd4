//! Wakes a core from any thread: a flag, and an eventfd that is written only when the core sleeps.
//!
//! Most wake-ups come from the core's own thread, one for each completion of a remote volume: they only set a flag that no
//! other thread reads, and cost neither a locked instruction nor a turn, if the service looks afterwards anyway.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Wake;

use rustix::event::{EventfdFlags, eventfd};

use crate::polled_list::PolledList;

/// Wakes one core.
///
/// A waker sets the flag and then checks whether the core sleeps; the core marks itself asleep and then checks the flag. All four
/// accesses are in one total order, so at least one of the two sees the other.
#[derive(Debug)]
pub struct Wakeup {
    descriptor: OwnedFd,
    notified: AtomicBool,
    asleep: AtomicBool,
    /// The thread that runs the core, as [`this_thread`] identifies it; zero before it does.
    owner: AtomicUsize,
    /// Set by that thread, which alone accesses this.
    local_pending: AtomicBool,
}

/// A number that no other living thread has; never zero.
fn this_thread() -> usize {
    thread_local!(static ADDRESS: u8 = const { 0 });
    ADDRESS.with(|address| std::ptr::from_ref(address).addr())
}

impl Wakeup {
    /// A wakeup without a notification.
    pub fn new() -> io::Result<Self> {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            descriptor,
            notified: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            owner: AtomicUsize::new(0),
            local_pending: AtomicBool::new(false),
        })
    }

    /// The calling thread runs the core from now on.
    pub(crate) fn bind_to_this_thread(&self) {
        self.owner.store(this_thread(), Ordering::Relaxed);
    }

    /// Clears the notification by the core's own thread: the service is about to check everything that it can be woken for.
    pub(crate) fn clear_local(&self) {
        self.local_pending.store(false, Ordering::Relaxed);
    }

    /// True when the core's own thread has notified it since [`Wakeup::clear_local`].
    pub(crate) fn is_local_pending(&self) -> bool {
        self.local_pending.load(Ordering::Relaxed)
    }

    /// Another descriptor of the same eventfd, for a driver to watch.
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.descriptor.try_clone()
    }

    /// Notifies the core, and wakes it if it sleeps.
    pub(crate) fn notify(&self) {
        if !self.notified.swap(true, Ordering::SeqCst) && self.asleep.load(Ordering::SeqCst) {
            // The only failure is a full counter, which wakes as well.
            let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
        }
    }

    /// True while there is a notification.
    pub fn is_notified(&self) -> bool {
        self.notified.load(Ordering::Relaxed)
    }

    /// Takes the notification; true when there was one.
    pub(crate) fn take(&self) -> bool {
        self.notified.load(Ordering::Relaxed) && self.notified.swap(false, Ordering::SeqCst)
    }

    /// Drains the eventfd, after it has woken the core.
    pub(crate) fn drain(&self) {
        // Nothing to read is fine: something else has woken the core.
        let _ = rustix::io::read(&self.descriptor, &mut [0; 8]);
    }

    /// The core is about to sleep; false when it must not, because there is a notification.
    pub(crate) fn begin_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        if self.notified.load(Ordering::SeqCst) {
            self.end_sleep();
            return false;
        }
        true
    }

    /// The core is awake.
    pub(crate) fn end_sleep(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }
}

/// What keeps a core from sleeping: its wakeup, and what it looks at by itself.
#[derive(Clone, Copy)]
pub struct Sleeper<'a> {
    wakeup: &'a Wakeup,
    polled: Option<&'a PolledList>,
}

impl<'a> Sleeper<'a> {
    pub(crate) fn new(wakeup: &'a Wakeup, polled: &'a PolledList) -> Self {
        Self { wakeup, polled: Some(polled) }
    }

    /// A core that looks at nothing by itself.
    pub fn without_polled(wakeup: &'a Wakeup) -> Self {
        Self { wakeup, polled: None }
    }

    /// True while there is something to do.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.wakeup.is_notified() || self.polled.is_some_and(PolledList::has_news)
    }

    /// The core is about to sleep; false when it must not, because there is something to do.
    pub(crate) fn begin_sleep(&self) -> bool {
        if !self.wakeup.begin_sleep() {
            return false;
        }
        let has_news = self.polled.is_some_and(PolledList::begin_sleep);
        if has_news {
            self.end_sleep();
        }
        !has_news
    }

    /// The core is awake.
    pub(crate) fn end_sleep(&self) {
        self.wakeup.end_sleep();
        if let Some(polled) = self.polled {
            polled.end_sleep();
        }
    }
}

impl std::fmt::Debug for Sleeper<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Sleeper").field(&self.wakeup).finish()
    }
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.owner.load(Ordering::Relaxed) == this_thread() {
            self.local_pending.store(true, Ordering::Relaxed);
        } else {
            self.notify();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn the_cores_own_thread_notifies_without_the_shared_flag() {
        let wakeup = Arc::new(Wakeup::new().unwrap());
        let waker = Waker::from(Arc::clone(&wakeup));
        waker.wake_by_ref();
        assert!(wakeup.take(), "no thread runs the core yet");
        wakeup.bind_to_this_thread();
        waker.wake_by_ref();
        assert!(wakeup.is_local_pending() && !wakeup.is_notified());
        wakeup.clear_local();
        std::thread::scope(|scope| scope.spawn(|| waker.wake_by_ref()).join().unwrap());
        assert!(wakeup.is_notified() && !wakeup.is_local_pending());
    }
}
