//! What is to be done with a command, decided from its queue entry alone.

use buf::SharedBuf;
use volume::{Epoch, Extent, Operation, VolumeId};

use super::allocation::Query;
use crate::sgl::DataPointer;
use crate::status::Status;

/// Where a request goes, and what it was judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) volume: VolumeId,
    pub(crate) epoch: Epoch,
}

/// Blocks that the host wants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Read {
    pub(crate) place: Place,
    pub(crate) extent: Extent,
    /// Bytes of them.
    pub(crate) length: usize,
}

/// A decision.
#[derive(Debug)]
pub(crate) enum Plan {
    /// Complete it now, with a status and a result.
    Finish(Status, u64),
    /// Complete it now with data to the host, of exactly the length that its data pointer says.
    Respond(SharedBuf),
    /// Get its data first.
    Receive(DataPointer),
    /// Read blocks for the host.
    Read(Read),
    /// Submit a request without data; further steps follow from the queue entry.
    Submit { place: Place, operation: Operation },
    /// Look how blocks are allocated.
    Query(Query),
    /// Keep it until something happens.
    Hold,
    /// Abort the command that it names, and keep it until that has ended.
    Abort,
    /// Keep it until the controller's I/O queues have ended.
    Quiesce,
    /// End the queue, and keep it until the queue's other commands have ended.
    Disconnect,
}

impl Plan {
    pub(crate) const fn fail(status: Status) -> Self {
        Self::Finish(status, 0)
    }

    pub(crate) const fn success(result: u64) -> Self {
        Self::Finish(Status::SUCCESS, result)
    }
}
