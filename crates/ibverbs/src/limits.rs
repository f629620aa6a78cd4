//! The limits of queue pairs at adapters; `docs/limits.md` lists all.

use std::time::Duration;

/// Bounce buffers of one size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BufferKind {
    /// Bytes of one.
    pub(crate) size: usize,
    /// How many are registered at a time, in one region.
    pub(crate) at_once: usize,
}

/// For headers: NVMe's capsules of 64 and 16 bytes, iSER's of 76, with a little data.
pub(crate) const SHORT_BUFFER: BufferKind = BufferKind { size: 256, at_once: 64 };

/// For messages with a page of data: a capsule of 64 + 4,096 bytes.
pub(crate) const USUAL_BUFFER: BufferKind = BufferKind { size: 4096 + 256, at_once: 16 };

/// Longer buffers that are kept for another message: those of an iSCSI login.
pub(crate) const KEPT_LONG_BUFFERS: usize = 8;

/// Bytes of data up to which it is copied through a bounce buffer rather than registered: a page with its header.
pub(crate) const COPIED: usize = USUAL_BUFFER.size;

/// How long connection management may look for the device of an address, and for the route: as the kernel's own initiators.
pub(crate) const RESOLVE: Duration = Duration::from_secs(5);

/// How long a connection that has ended may still wait for its peer to hear of it.
pub(crate) const LEAVE: Duration = Duration::from_secs(2);

/// How long it may take from the first sign of a connection's end to the word of connection management that says why.
pub(crate) const REASON: Duration = Duration::from_millis(500);

/// Requests for connections that wait at one listener for a decision, which comes in the same turn: a burst of more is refused.
pub(crate) const REQUESTS: usize = 64;

/// Completions that are taken from a completion queue in one call.
pub(crate) const COMPLETIONS_AT_ONCE: usize = 16;
