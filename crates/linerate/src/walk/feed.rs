//! Where a walk's chunks come from: the places of a volume, or the bytes of a stream.

use buf::SharedBuf;

use super::map::Map;
use super::side::Span;
use crate::stream::Inlet;

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
    Failed(String),
}

/// Where chunks come from.
#[derive(Debug)]
pub(crate) enum Feed {
    /// The places of side 0.
    Volume(Map),
    /// A stream.
    Stream(Inlet),
}

impl Feed {
    /// The next chunk, in order.
    pub(crate) fn next(&mut self) -> Fed {
        match self {
            Self::Volume(map) => map.next(),
            Self::Stream(inlet) => inlet.next(),
        }
    }

    /// Bytes in all, if that is known.
    pub(crate) fn total(&self) -> Option<u64> {
        match self {
            Self::Volume(map) => Some(map.total()),
            Self::Stream(_) => None,
        }
    }
}
