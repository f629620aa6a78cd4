//! What a consumer asks of a queue pair, and what it hears of it.

use buf::{Buf, BufList};

use crate::{RegionMemory, RemoteRegion, STag};

/// A consumer's own name for a work request, given back with its completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkId(pub u64);

/// Something that a queue pair is to do.
#[derive(Debug)]
pub enum WorkRequest {
    /// Sends a message into the buffer of the peer's oldest [`WorkRequest::Receive`].
    Send {
        /// The message; it may be empty.
        data: BufList,
        /// A region of the peer's that it is to invalidate before it hears of the message (RFC 5040 §4.3, Send with Invalidate).
        invalidate: Option<STag>,
    },
    /// Takes one message of the peer.
    Receive {
        /// Where it goes. A message that is longer ends the queue pair.
        into: Buf,
    },
    /// Writes to the peer's memory; the peer hears nothing of it. What is written is there before any message that is sent later arrives.
    Write {
        /// The data; no longer than the region.
        data: BufList,
        /// Where it goes.
        to: RemoteRegion,
    },
    /// Reads the peer's memory; the peer hears nothing of it.
    Read {
        /// Where it goes; at least as long as the region.
        into: Buf,
        /// What is read, whole.
        from: RemoteRegion,
    },
    /// Registers memory, so that the peer may use it from now on.
    Register {
        /// The memory. What kind it is says what the peer may do.
        memory: RegionMemory,
    },
    /// Ends a region. The completion gives its memory back, once nothing that the peer does can touch it any more, also if the peer has invalidated it.
    Invalidate {
        /// The region.
        stag: STag,
    },
}

/// A work request that was not taken.
#[derive(Debug)]
pub struct PostError {
    /// Why.
    pub reason: Refusal,
    /// The request, with its memory.
    pub request: WorkRequest,
}

/// Why a work request is not taken. Nothing of it has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// As many requests other than receives are under way as [`QueuePairLimits::sends`](crate::QueuePairLimits::sends) allows.
    #[error("the send queue is full")]
    SendQueueFull,
    /// As many receives are posted as [`QueuePairLimits::receives`](crate::QueuePairLimits::receives) allows.
    #[error("the receive queue is full")]
    ReceiveQueueFull,
    /// As many regions are registered as [`QueuePairLimits::regions`](crate::QueuePairLimits::regions) allows.
    #[error("no more memory regions can be registered")]
    RegionsFull,
    /// It is longer than [`QueuePairLimits::longest`](crate::QueuePairLimits::longest) allows, or than the memory that it names.
    #[error("the data is longer than its place")]
    TooLong,
    /// There is no region of that tag here.
    #[error("there is no memory region of that tag")]
    UnknownRegion,
    /// The queue pair has ended, and the request is not [`WorkRequest::Invalidate`].
    #[error("the queue pair has ended")]
    Ended,
}

/// The end of a work request.
#[derive(Debug)]
pub struct WorkCompletion {
    /// Which one.
    pub id: WorkId,
    /// What it came to.
    pub result: Result<WorkDone, WorkError>,
    /// The memory that it had, whatever it came to; a registered region's comes back when it is invalidated.
    pub memory: WorkMemory,
}

/// What a work request came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkDone {
    /// The message is on its way, and will arrive unless the queue pair ends.
    Sent,
    /// A message has come.
    Received {
        /// Its bytes, at the front of the buffer.
        length: usize,
        /// A region of this side that the peer has invalidated with it. Its memory stays until [`WorkRequest::Invalidate`].
        invalidated: Option<STag>,
    },
    /// The data is on its way, and will be there before what is sent later.
    Written,
    /// The peer's memory is in the buffer.
    Read,
    /// The peer may use the memory under this name.
    Registered(RemoteRegion),
    /// The region is no more.
    Invalidated,
}

/// Why a work request failed. Whatever the reason, its queue pair has ended, or is about to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WorkError {
    /// The queue pair ended first. What the peer has seen of it is unknown.
    #[error("the queue pair ended before the work request")]
    Flushed,
    /// A message was longer than the buffer of its receive.
    #[error("the message is longer than the receive buffer")]
    MessageTooLong,
    /// The peer refuses the access: no such region, outside of its bounds, or without the right.
    #[error("the peer refuses access to its memory")]
    RemoteAccess,
}

/// The memory of a work request that has ended.
#[derive(Debug)]
pub enum WorkMemory {
    /// It had none, or a region has it.
    None,
    /// Of a receive or a read.
    Buf(Buf),
    /// Of a send or a write.
    List(BufList),
    /// Of a region that was invalidated, or could not be registered.
    Region(RegionMemory),
}

impl WorkRequest {
    /// The memory of a request that will not be carried out.
    pub fn into_memory(self) -> WorkMemory {
        match self {
            Self::Send { data, .. } | Self::Write { data, .. } => WorkMemory::List(data),
            Self::Receive { into } | Self::Read { into, .. } => WorkMemory::Buf(into),
            Self::Register { memory } => WorkMemory::Region(memory),
            Self::Invalidate { .. } => WorkMemory::None,
        }
    }
}
