//! The data side of a volume: one queue per core.

use alloc::vec::Vec;

use protocol::Instant;

use crate::{Completion, QueueFull, Request, Tag};

/// One core's data side of a volume, shared by that core's connections.
///
/// No order holds between tags. `docs/volume-contract.md` has the promises.
pub trait VolumeQueue {
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
