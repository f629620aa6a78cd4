//! A queue pair: work requests in, completions out.

use alloc::vec::Vec;

use protocol::Instant;

use crate::{PostError, WorkCompletion, WorkId, WorkRequest};

/// What a queue pair is to hold: a consumer asks for it, and its provider is made with it.
///
/// With fewer `sends` or `regions` than it asks for, its requests wait for each other. With fewer `receives` there is no connection, or it ends when they are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLimits {
    /// Requests other than receives at a time.
    pub sends: usize,
    /// Receives at a time.
    pub receives: usize,
    /// Regions at a time, up to 65,536; zero where the consumer registers none.
    pub regions: usize,
    /// Bytes of the longest request, up to the provider's own limit.
    pub longest: usize,
}

/// What a queue pair can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePairLimits {
    /// Requests other than receives that may be under way at a time.
    pub sends: usize,
    /// Receives that may be posted at a time.
    pub receives: usize,
    /// Reads that may be under way at a time; further ones wait in the send queue.
    pub reads: usize,
    /// Regions that may be registered at a time.
    pub regions: usize,
    /// Bytes of the longest request.
    pub longest: usize,
    /// Send with Invalidate works on both sides. Where it does not, [`WorkRequest::Send`] ignores `invalidate`.
    pub remote_invalidation: bool,
}

/// How far a queue pair is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueuePairState {
    /// It carries work requests.
    Open,
    /// It takes none any more; what it had has ended, or is about to.
    Ended(EndReason),
}

/// Why a queue pair has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// This side has disconnected.
    ByUs,
    /// The peer has disconnected.
    ByPeer,
    /// The peer refuses something that this side has done, and says so (RFC 5040 §4.8, Terminate).
    Terminated(&'static str),
    /// The peer broke a rule; the text says which.
    Violation(&'static str),
    /// The transport has failed.
    Lost,
}

/// One end of a connection that carries messages and remote memory accesses.
///
/// The promises are those of docs/verbs-contract.md:
/// * Every request that [`post`](Self::post) takes completes exactly once and gives its memory back.
/// * Receives complete in the order of posting; so do all other requests among each other.
/// * Messages arrive whole, once, and in the order of sending. What was written before is there when a message arrives.
/// * Once it has ended, all that it had completes, most of it with [`WorkError::Flushed`](crate::WorkError::Flushed), and the peer
///   touches no memory of it. Regions stay until their owner invalidates them, which goes on to work, or drops the queue pair.
pub trait QueuePair {
    /// What it can hold; constant for its life.
    fn limits(&self) -> QueuePairLimits;

    /// Takes a work request.
    ///
    /// # Errors
    /// The request comes back untouched.
    fn post(&mut self, id: WorkId, request: WorkRequest) -> Result<(), PostError>;

    /// Adds what has completed to `done`.
    fn poll(&mut self, now: Instant, done: &mut Vec<WorkCompletion>);

    /// Ends the connection. Everything posted completes.
    fn disconnect(&mut self);

    /// How far it is.
    fn state(&self) -> QueuePairState;
}
