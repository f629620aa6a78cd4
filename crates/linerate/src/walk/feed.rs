//! Where a walk's chunks come from: the places of a volume, or the bytes of a stream.

use super::map::Map;
use super::piece::Fed;
use crate::stream::Inlet;

/// Where chunks come from.
#[derive(Debug)]
pub(crate) enum Feed {
    /// The places of end 0.
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
