//! Get LBA Status at the controller: what is asked, and how far the answer is.

use buf::Buf;
use volume::{Extent, VolumeId};

use crate::allocation::Ranges;

/// What a command asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Query {
    pub(crate) volume: VolumeId,
    pub(crate) extent: Extent,
    /// Bytes of the answer.
    pub(crate) length: usize,
}

/// A command whose answer is being found out.
#[derive(Debug)]
pub(crate) struct Asking {
    pub(crate) volume: VolumeId,
    /// What was not looked at yet.
    pub(crate) left: Extent,
    pub(crate) ranges: Ranges,
    pub(crate) answer: Buf,
    /// Runs that may still be looked at.
    pub(crate) queries: usize,
}
