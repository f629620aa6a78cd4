//! Every limit of this crate, with its unit and the reason for its value.

/// Descriptors of the largest queue (VIRTIO 1.2 §2.7, §2.8.10.1).
pub const LARGEST_QUEUE: u16 = 32_768;

/// Descriptors of a buffer, those of an indirect table too: what Linux' driver puts into one at most with room to spare, and what a hostile driver can make a device walk
/// through for each entry of its queue.
pub const SEGMENTS: usize = 256;
