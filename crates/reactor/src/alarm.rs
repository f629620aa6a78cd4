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

/// One core's alarm.
///
/// A waker raises the flag and then looks whether the core sleeps; the core says that it sleeps and then looks at the
/// flag. Both in one total order, so one of the two sees the other.
#[derive(Debug)]
pub struct Alarm {
    descriptor: OwnedFd,
    raised: AtomicBool,
    asleep: AtomicBool,
    /// The thread that turns the core, as [`this_thread`] names it; zero before it does.
    owner: AtomicUsize,
    /// Woken by that thread, which alone touches this.
    stirred: AtomicBool,
}

/// A number that no other living thread has; never zero.
fn this_thread() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| std::ptr::from_ref(mark).addr())
}

impl Alarm {
    /// An alarm that is not raised.
    pub fn new() -> io::Result<Self> {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            descriptor,
            raised: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            owner: AtomicUsize::new(0),
            stirred: AtomicBool::new(false),
        })
    }

    /// Says that the calling thread turns the core from now on.
    pub(crate) fn adopt(&self) {
        self.owner.store(this_thread(), Ordering::Relaxed);
    }

    /// Says that the service is about to look at everything that it could be woken for.
    pub(crate) fn calm(&self) {
        self.stirred.store(false, Ordering::Relaxed);
    }

    /// True when the core's own thread has woken it since the service looked.
    pub(crate) fn is_stirred(&self) -> bool {
        self.stirred.load(Ordering::Relaxed)
    }

    /// Another descriptor of the same eventfd, for a driver to watch.
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.descriptor.try_clone()
    }

    /// Raises the alarm, and wakes the core if it sleeps.
    pub(crate) fn raise(&self) {
        if !self.raised.swap(true, Ordering::SeqCst) && self.asleep.load(Ordering::SeqCst) {
            // The only failure is a full counter, which wakes as well.
            let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
        }
    }

    /// True when the alarm is raised.
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    /// Lowers the alarm and says whether it was raised.
    pub(crate) fn take(&self) -> bool {
        self.raised.load(Ordering::Relaxed) && self.raised.swap(false, Ordering::SeqCst)
    }

    /// Empties the eventfd, after it has woken the core.
    pub(crate) fn silence(&self) {
        // Nothing to read is fine: the wake-up was for something else.
        let _ = rustix::io::read(&self.descriptor, &mut [0; 8]);
    }

    /// Says that the core goes to sleep; false when it must not, because the alarm is raised.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        if self.raised.load(Ordering::SeqCst) {
            self.awake();
            return false;
        }
        true
    }

    /// Says that the core is awake.
    pub(crate) fn awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.owner.load(Ordering::Relaxed) == this_thread() {
            self.stirred.store(true, Ordering::Relaxed);
        } else {
            self.raise();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn the_cores_own_thread_stirs_it_and_others_raise_the_alarm() {
        let alarm = Arc::new(Alarm::new().unwrap());
        let waker = Waker::from(Arc::clone(&alarm));
        waker.wake_by_ref();
        assert!(alarm.take(), "nobody turns the core yet");
        alarm.adopt();
        waker.wake_by_ref();
        assert!(alarm.is_stirred() && !alarm.is_raised());
        alarm.calm();
        std::thread::scope(|scope| scope.spawn(|| waker.wake_by_ref()).join().unwrap());
        assert!(alarm.is_raised() && !alarm.is_stirred());
    }
}
