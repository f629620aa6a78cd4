//! What a core's queues can carry: the seam between the machinery of a core and what is served.
//!
//! A table of queues, epochs and fences, a withdrawal with its time, an end after a last request that secures everything: nothing of that depends on
//! whether blocks are served or files. What does is told by a [`ServedKind`]: what a request is, where it goes, and what secures. The machinery
//! is compiled once for each kind, so that a request of one pays nothing for another.

use std::fmt;
use std::sync::Arc;

use host::{Kind, Level};
use protocol::Instant;
use volume::{OpenError, QueueContext, Tag};

use crate::catalogue::ProposalError;
use crate::served_id::ServedId;

/// A request or a completion: what a tag is on.
pub(crate) trait Tagged {
    /// What it is called.
    fn tag(&self) -> Tag;

    /// It is called this from now on.
    fn set_tag(&mut self, tag: Tag);
}

/// What people are told of a request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Telling {
    pub(crate) kind: Kind,
    pub(crate) level: Level,
}

/// A kind of what is served, with queues of its own on every core.
pub(crate) trait ServedKind: fmt::Debug + Sized + 'static {
    /// One of this kind that is served, with its id and name.
    type Served: Clone;
    /// One core's queue of it, used on that core's thread alone.
    type Queue;
    /// What is submitted to a queue. Its own tag has at most 32 bits.
    type Request: Tagged + fmt::Debug;
    /// The end of a request. Every request that a queue has taken completes once.
    type Completion: Tagged + fmt::Debug;
    /// Why a request failed.
    type Error: fmt::Display + Copy;

    /// Why a connection is closed that uses one which is not served any more, for people.
    const WITHDRAWN: &'static str;

    /// What it is called between cores and connections.
    fn id(served: &Self::Served) -> ServedId;

    /// What its operator calls it.
    fn name(served: &Self::Served) -> &Arc<str>;

    /// Opens its queue for the core that the context describes.
    fn open(served: &Self::Served, context: &QueueContext) -> Result<Self::Queue, OpenError>;

    /// Why a catalogue with it is refused if that fails.
    fn refusal(served: &Self::Served, error: OpenError) -> ProposalError;

    /// What stands where no queue is: it takes no request.
    fn no_queue() -> Self::Queue;

    /// The request after all others, which secures what they have done. `None` where nothing can have changed.
    fn last(served: &Self::Served, tag: Tag) -> Option<Self::Request>;

    /// Submits a request; a queue that is full gives it back as it was.
    fn submit(queue: &mut Self::Queue, now: Instant, request: Self::Request) -> Result<(), Self::Request>;

    /// Asks that a request end soon.
    fn cancel(queue: &mut Self::Queue, tag: Tag);

    /// Adds all completions that are ready.
    fn poll(queue: &mut Self::Queue, now: Instant, done: &mut Vec<Self::Completion>);

    /// When a queue wants to be polled even if nothing wakes it.
    fn poll_timeout(queue: &Self::Queue) -> Option<Instant>;

    /// The end of a request that was cancelled before any queue took it.
    fn cancelled(request: Self::Request) -> Self::Completion;

    /// Why the request failed, if it did.
    fn error(completion: &Self::Completion) -> Option<Self::Error>;

    /// How people are told of that; not at all where the asker expects it.
    fn telling(error: Self::Error) -> Option<Telling>;
}
