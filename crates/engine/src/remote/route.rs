//! A protocol's route to a volume: how a queue gets its connections.

use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use ::volume::{Completion, CoreId, OpenError, Request};

use super::far_end::Facts;
use super::link::Link;

/// A protocol's route to a volume, for one queue.
pub(crate) trait Route {
    /// Begins to make a connection.
    fn begin(&mut self) -> Box<dyn Attempt>;

    /// Offers an allocation query to the admin queue, where the protocol has one. Returns the query if the connection has to answer it.
    fn submit_admin(&mut self, request: Request) -> Option<Request> {
        Some(request)
    }

    /// Moves the completions of such queries to `done`.
    fn take_admin_done(&mut self, _done: &mut Vec<Completion>) {}

    /// Why the open connection is useless although it has not ended: something that it depends on has.
    fn breach(&self) -> Option<String> {
        None
    }

    /// The queue's connection has ended, or the queue abandons it.
    fn handle_lost(&mut self, _why: &str) {}

    /// How long after a connection was lost a command that it carried may still take effect, unless another connection has
    /// ended its nexus ([`Facts::nexus`]).
    fn quiet_time(&self) -> Duration;
}

/// Why a connection was not made, in the words that users read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotConnected(pub(crate) String);

/// An open connection, and what it found at the other end.
#[derive(Debug, Clone)]
pub(crate) struct Connected {
    pub(crate) link: Rc<Link>,
    pub(crate) facts: Facts,
}

/// A connection that is being made.
pub(crate) trait Attempt {
    /// The open connection, or why it failed, once that is known.
    fn poll(&mut self) -> Option<Result<Connected, NotConnected>>;

    /// The queue abandons the attempt.
    fn give_up(&mut self);
}

/// Makes the route of one more queue, on the calling core.
pub(crate) type OpenRoute = dyn Fn(CoreId, Waker) -> Result<Box<dyn Route>, OpenError> + Send + Sync;
