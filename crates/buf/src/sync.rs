//! What threads share counts through: the standard library's, or shuttle's, which tries out the orders in which threads can run.

#[cfg(not(shuttle))]
pub(crate) use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};
