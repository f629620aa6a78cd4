//! What the FPDU that is coming is, and how much of its payload has been placed.

use verbs::RemoteRegion;

use crate::ddp::{Segment, Untagged};

/// What the FPDU that is coming is, by its header.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Arrival {
    /// It carries nothing.
    Empty,
    /// Data for a region, of which this much is left.
    Write(RemoteRegion),
    /// A part of a message.
    Send { header: Untagged, length: usize, placed: usize },
    /// A part of what is read.
    Response { length: usize, placed: usize, segment: Segment },
    /// A read of the peer's.
    ReadRequest(Untagged),
    /// The peer's last word.
    Terminate,
}
