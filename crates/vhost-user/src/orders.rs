//! What cores want of the thread that speaks with the device, in a list that it is woken for.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use virtio::Violation;

use crate::slots::Held;
use crate::sys::Span;
use crate::vring::VringParts;

/// What a core wants.
#[derive(Debug)]
pub(crate) enum Order {
    /// A queue is to be served.
    Start(VringParts),
    /// A queue is no more; what it held is let go of once the device has let go of it.
    Stop { index: u16, held: Vec<Held> },
    /// The device is to have this memory.
    Add(Span),
    /// It is to have it no longer.
    Remove(Span),
    /// It broke a rule of its queue.
    Distrust { violation: Violation },
    /// The volume is closed.
    End,
}

/// Orders that the thread has not looked at, and the bell that it hears.
#[derive(Debug)]
pub(crate) struct Orders {
    waiting: Mutex<Vec<Order>>,
    /// Readable while there are some.
    pub(crate) bell: OwnedFd,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Orders {
    pub(crate) fn new() -> std::io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { waiting: Mutex::default(), bell })
    }

    /// Gives an order. Never waits.
    pub(crate) fn give(&self, order: Order) {
        lock(&self.waiting).push(order);
        // It cannot fail: a count that is full has rung already.
        let _rung = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// All of them, in order.
    pub(crate) fn take(&self) -> Vec<Order> {
        let mut count = [0; 8];
        let _count = rustix::io::read(&self.bell, &mut count);
        std::mem::take(&mut *lock(&self.waiting))
    }
}
