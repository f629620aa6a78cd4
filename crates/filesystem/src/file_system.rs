//! The two sides of a file system: control, shared by all; data, one queue per core.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use protocol::Instant;

use crate::{
    Completion, Features, FileHandle, Identity, Limits, OpenError, QueueContext, QueueFull, Request,
    Statistics, Tag,
};

/// The control side of a file system.
pub trait FileSystem: Send + Sync + fmt::Debug {
    /// What it says of itself.
    fn identity(&self) -> Identity;
    /// What requests may look like.
    fn limits(&self) -> Limits;
    /// What it can do.
    fn features(&self) -> Features;
    /// What it has done.
    fn statistics(&self) -> Statistics;
    /// The handle of its root directory. Every object of it is beneath that, and nothing above it can be reached.
    fn root(&self) -> FileHandle;
    /// What was last wrong with it, for people; `None` where nothing was.
    fn last_error(&self) -> Option<String> {
        None
    }
    /// The data side for one core, to be used only on that core's thread. The context's waker is woken whenever a completion may have become available, or the
    /// queue wants to be polled for reasons of its own, without a call to the queue.
    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn FileSystemQueue>, OpenError>;
}

/// One core's data side of a file system, shared by that core's connections.
///
/// No order holds between tags. `docs/filesystem-contract.md` has the promises.
pub trait FileSystemQueue {
    /// Takes a request, or gives it back when the queue is at its depth.
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull>;

    /// Asks that a request end soon. It always ends in a completion: cancelled, or whatever it came to.
    fn cancel(&mut self, tag: Tag);

    /// Adds all completions that are ready.
    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>);

    /// When the queue wants to be polled even if nothing wakes it.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}
