//! The chunks of a walk: what map and streams hand out, and the walk takes.

use buf::SharedBuf;

use crate::error::StreamError;

/// A run of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// Its first byte.
    pub(crate) at: u64,
    /// How many; never zero.
    pub(crate) len: u64,
}

/// What a chunk holds, as far as that is known.
#[derive(Debug)]
pub(crate) enum Content {
    /// The volume has to be read.
    Volume,
    /// Zeros: nothing is behind it.
    Hole,
    /// These bytes.
    Here(SharedBuf),
}

/// A chunk.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Where it belongs.
    pub(crate) span: Span,
    /// What it holds.
    pub(crate) content: Content,
}

/// What a feed has now.
#[derive(Debug)]
pub(crate) enum Fed {
    /// The next chunk.
    Piece(Piece),
    /// Nothing yet; the waker will be woken, or a query is under way.
    Later,
    /// Nothing any more.
    End,
    /// It cannot go on.
    Failed(StreamError),
}
