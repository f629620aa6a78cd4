//! The seam between the event loop and the kernel: what a driver does, and the two that do it.

mod epoll;
pub(crate) mod interface;

use std::io;

pub use crate::sys::ring::Ring;
pub use crate::sys::{FileOp, Receive, Send};
pub use epoll::Epoll;
pub use interface::{Driver, Event, Interest, Received, SendRoom, Wait, Woken};

use crate::config::Driver as Choice;
use crate::limits::RING_ENTRIES;

/// The driver that `choice` means on this machine, on the calling thread.
pub fn open(choice: Choice) -> io::Result<Box<dyn Driver>> {
    match choice {
        Choice::Uring => Ok(Box::new(Ring::new(RING_ENTRIES)?)),
        Choice::Epoll => Ok(Box::new(Epoll::new()?)),
        Choice::Auto => match Ring::new(RING_ENTRIES) {
            Ok(ring) => Ok(Box::new(ring)),
            Err(_) => Ok(Box::new(Epoll::new()?)),
        },
    }
}
