//! What the other side of a queue may do wrong. A queue is broken from then on: whoever serves it stops, and says which of these it was.

use core::fmt;

/// A rule of VIRTIO 1.2 that the other side has broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// The driver offers more buffers than its queue has descriptors (§2.7.13.3).
    TooManyAvailable,
    /// A buffer begins or goes on at a descriptor that the queue does not have (§2.7.5).
    NoSuchDescriptor,
    /// A chain of descriptors is longer than its queue, or comes back to itself (§2.7.5.2).
    EndlessChain,
    /// A buffer has more pieces than are looked at ([`SEGMENTS`](crate::limits::SEGMENTS)).
    TooManySegments,
    /// What the device reads stands behind what it writes (§2.7.4.2).
    OutOfOrder,
    /// An indirect table that was not agreed on, lies outside of memory, has half a descriptor, or stands inside another one or beside a chain (§2.7.5.3).
    BadIndirectTable,
    /// The device used what it did not have (§2.7.8.2).
    NotOffered,
    /// The device says that it used more buffers than it has.
    TooManyUsed,
    /// The device says that it wrote more bytes than it was given (§2.7.8.2).
    TooMuchWritten,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooManyAvailable => "the driver offers more buffers than its queue has descriptors",
            Self::NoSuchDescriptor => "a descriptor is named that the queue does not have",
            Self::EndlessChain => "a chain of descriptors does not end",
            Self::TooManySegments => "a buffer has too many pieces",
            Self::OutOfOrder => "a buffer has memory to read behind memory to write",
            Self::BadIndirectTable => "an indirect table is none",
            Self::NotOffered => "the device used a buffer that it did not have",
            Self::TooManyUsed => "the device used more buffers than it had",
            Self::TooMuchWritten => "the device wrote more than it was given",
        })
    }
}

impl core::error::Error for Violation {}
