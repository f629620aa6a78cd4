//! A protocol's way to a volume: how a queue gets its connections.

use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use ::volume::{Completion, CoreId, OpenError, Request};

use super::far_end::Facts;
use super::link::Link;

/// A protocol's way to a volume, for one queue.
pub(crate) trait Route {
    /// Begins to make a connection.
    fn begin(&mut self) -> Box<dyn Attempt>;

    /// Has an allocation query done by something else than the queue's connection; gives it back where that is for the connection.
    fn aside(&mut self, request: Request) -> Option<Request> {
        Some(request)
    }

    /// Moves the answers to those.
    fn take_aside(&mut self, _done: &mut Vec<Completion>) {}

    /// Why the open connection is of no use though it has not ended itself, if so: what it depends on has ended.
    fn breach(&self) -> Option<String> {
        None
    }

    /// The queue's connection has ended, or is not wanted any more.
    fn handle_lost(&mut self, _why: &str) {}

    /// How long after a connection was lost a command that it carried may still take effect, unless another connection has
    /// ended its nexus ([`Facts::nexus`]).
    fn quiet_time(&self) -> Duration;
}

/// Why a connection was not made, in the words that users read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotConnected(pub(crate) String);

/// A connection that is being made.
pub(crate) trait Attempt {
    /// The open connection with what it found, or why it failed, once that is known.
    fn poll(&mut self) -> Option<Result<(Rc<Link>, Facts), NotConnected>>;

    /// It is not wanted any more.
    fn give_up(&mut self);
}

/// Gives one more queue its way to the volume, on the calling core.
pub(crate) type OpenRoute = dyn Fn(CoreId, Waker) -> Result<Box<dyn Route>, OpenError> + Send + Sync;
