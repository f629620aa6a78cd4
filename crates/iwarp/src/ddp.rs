//! DDP's segments: a header in front of a part of a message, which names where the part goes (RFC 5041 §4).
//!
//! The second byte of each header is RDMAP's (RFC 5040 §4.1), and so are four bytes of an untagged one.

use wire::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::rdmap::Opcode;

/// The two bytes that every segment begins with: DDP's control and RDMAP's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Control {
    ddp: u8,
    rdmap: u8,
}

const TAGGED_FLAG: u8 = 1 << 7;
const LAST: u8 = 1 << 6;
const DDP_VERSION: u8 = 0b11;
const RDMAP_VERSION_SHIFT: u32 = 6;
const OPCODE: u8 = 0b1111;
/// The version of DDP and of RDMAP.
const VERSION: u8 = 1;

/// Where a segment stands in its message: the L flag (RFC 5041 §4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segment {
    /// More of the message follows.
    Intermediate,
    /// The message ends with it.
    Last,
}

impl Segment {
    /// The segment that leaves so many bytes of its message to send.
    pub(crate) const fn before(rest: usize) -> Self {
        if rest == 0 { Self::Last } else { Self::Intermediate }
    }
}

impl Control {
    /// For a segment of a message of this kind.
    pub const fn new(opcode: Opcode, segment: Segment) -> Self {
        let tagged = if opcode.is_tagged() { TAGGED_FLAG } else { 0 };
        let last = match segment {
            Segment::Last => LAST,
            Segment::Intermediate => 0,
        };
        Self { ddp: tagged | last | VERSION, rdmap: (VERSION << RDMAP_VERSION_SHIFT) | opcode.0 }
    }

    /// The header is a [`Tagged`] one.
    pub const fn is_tagged(self) -> bool {
        self.ddp & TAGGED_FLAG != 0
    }

    /// Where the segment stands in its message.
    pub const fn segment(self) -> Segment {
        if self.ddp & LAST != 0 { Segment::Last } else { Segment::Intermediate }
    }

    /// It is the message's last segment.
    pub const fn is_last(self) -> bool {
        matches!(self.segment(), Segment::Last)
    }

    /// The version of DDP is ours.
    pub const fn is_our_ddp(self) -> bool {
        self.ddp & DDP_VERSION == VERSION
    }

    /// The version of RDMAP is ours.
    pub const fn is_our_rdmap(self) -> bool {
        self.rdmap >> RDMAP_VERSION_SHIFT == VERSION
    }

    /// The kind of message.
    pub const fn opcode(self) -> Opcode {
        Opcode(self.rdmap & OPCODE)
    }
}

/// The header of a segment for memory that is named by its tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Tagged {
    /// What it is.
    pub control: Control,
    /// The steering tag.
    pub stag: U32,
    /// The tagged offset.
    pub offset: U64,
}

/// The header of a segment for the next buffer of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Untagged {
    /// What it is.
    pub control: Control,
    /// RDMAP's: a steering tag that a Send invalidates (RFC 5040 §4.1).
    pub invalidate: U32,
    /// The queue.
    pub queue: U32,
    /// The message's number in its queue, from 1 on.
    pub sequence: U32,
    /// Where in its message the segment begins.
    pub offset: U32,
}

/// Bytes of a tagged segment's header.
pub const TAGGED: usize = size_of::<Tagged>();
/// Bytes of an untagged segment's header.
pub const UNTAGGED: usize = size_of::<Untagged>();

const _: () = assert!(TAGGED == 14 && UNTAGGED == 18);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdmap::SEND_QUEUE;

    /// As Linux' siw sends it: the first capsule of NVMe/RDMA.
    #[test]
    fn golden_vector_of_a_send() {
        let header = Untagged {
            control: Control::new(Opcode::SEND, Segment::Last),
            invalidate: U32::ZERO,
            queue: U32::new(SEND_QUEUE),
            sequence: U32::new(1),
            offset: U32::ZERO,
        };
        assert_eq!(header.as_bytes(), [0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
        assert!(!header.control.is_tagged() && header.control.is_our_ddp() && header.control.is_our_rdmap());
    }

    #[test]
    fn golden_vector_of_a_write() {
        let header = Tagged {
            control: Control::new(Opcode::WRITE, Segment::Intermediate),
            stag: U32::new(0x1234_5678),
            offset: U64::new(0x0102_0304_0506_0708),
        };
        assert_eq!(header.as_bytes(), [0x81, 0x40, 0x12, 0x34, 0x56, 0x78, 1, 2, 3, 4, 5, 6, 7, 8]);
        let control = header.control;
        assert!(control.is_tagged() && !control.is_last());
        assert_eq!(control.opcode(), Opcode::WRITE);
    }

    #[test]
    fn other_versions_are_seen() {
        let other = Control { ddp: 0x42, rdmap: 0x03 };
        assert!(!other.is_our_ddp() && !other.is_our_rdmap());
        assert_eq!(
            Control { ddp: 0xfd, rdmap: 0x7f }.opcode(),
            Opcode(15),
            "reserved bits are not looked at"
        );
        assert!(Control { ddp: 0xfd, rdmap: 0x7f }.is_our_ddp());
    }
}
