//! Wakes a core from any thread: a flag, and an eventfd that is written only when the core sleeps.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
}

impl Alarm {
    /// An alarm that is not raised.
    pub fn new() -> io::Result<Self> {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { descriptor, raised: AtomicBool::new(false), asleep: AtomicBool::new(false) })
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
        self.raise();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.raise();
    }
}
