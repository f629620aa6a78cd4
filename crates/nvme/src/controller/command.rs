//! What is to be done with a command, decided from its queue entry alone.

use alloc::vec::Vec;

use volume::{Extent, Operation, VolumeId};

use crate::sgl::DataPointer;
use crate::status::Status;

/// A decision.
#[derive(Debug)]
pub(crate) enum Plan {
    /// Complete it now, with a status and a result.
    Finish(Status, u64),
    /// Complete it now with data to the host, of exactly the length that its data pointer says.
    Respond(Vec<u8>),
    /// Get its data first.
    Receive(DataPointer),
    /// Read blocks for the host.
    Read { volume: VolumeId, extent: Extent, length: usize },
    /// Submit a request without data; further steps follow from the queue entry.
    Submit { volume: VolumeId, operation: Operation },
    /// Keep it until something happens.
    Hold,
    /// Abort the command that it names, and keep it until that has ended.
    Abort,
}

impl Plan {
    pub(crate) const fn fail(status: Status) -> Self {
        Self::Finish(status, 0)
    }

    pub(crate) const fn success(result: u64) -> Self {
        Self::Finish(Status::SUCCESS, result)
    }
}
