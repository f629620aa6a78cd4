//! What people are told of a queue pair that has ended, and of one that could not be made.

/// The peer refuses access to its memory.
pub(crate) const REMOTE_ACCESS: &str = "the peer refuses access to its memory";
/// The peer refuses a message.
pub(crate) const REMOTE_REFUSED: &str = "the peer refuses a message";
/// A message of the peer's does not fit.
pub(crate) const TOO_LONG: &str = "a message of the peer's is longer than the receive buffer";
/// The peer's adapter answers nothing.
pub(crate) const NO_ANSWER: &str = "an answer of the peer's adapter";
/// Nobody answers connection management.
pub(crate) const NO_CONNECTION: &str = "an answer to the connection request";
/// There is no adapter on the way.
pub(crate) const NO_ROUTE: &str =
    "no RDMA adapter of this machine leads to the peer: check `rdma link` and the routes";
/// The adapter fails at something that it has begun.
pub(crate) const FAILED: &str = "the adapter has failed";
/// The adapter has no room.
pub(crate) const NO_QUEUE_PAIR: &str = "the adapter has no room for another queue pair";
/// Memory cannot be registered.
pub(crate) const NO_MEMORY: &str =
    "the adapter cannot register memory: raise the limit of locked memory (ulimit -l, LimitMEMLOCK=)";
/// What a consumer says is too long for connection management.
pub(crate) const LONG_WORDS: &str = "private data that is longer than connection management carries";
/// The responder says no.
pub(crate) const REJECTED: &str = "the responder rejects the connection";
/// This side says no.
pub(crate) const REJECTED_HERE: &str = "the connection is rejected";
