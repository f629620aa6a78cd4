//! Every violation of a peer, and the error code of the Terminate that answers it (RFC 5040 §4.8 and §7, RFC 5041 §7.1, RFC 5044 §8, RFC 6581 §11).

use verbs::{RegionError, RemoteRegion};

/// What a peer did that ends the connection, once both ends may send FPDUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// The CRC of an FPDU is wrong.
    Crc,
    /// A marker does not point to its FPDU.
    Marker,
    /// The responder wants more RDMA Reads under way than are served here.
    InsufficientIrd,
    /// The responder accepts no way to show readiness that this side has.
    NoMatchingRtr,
    /// A write to a tag that names no region, or no read of ours.
    WriteStag,
    /// A write outside of its region, or a response that is not where its read goes on.
    WriteBounds,
    /// A write to a region that is not for writing.
    WriteRights,
    /// A write whose end is beyond the largest offset.
    WriteWrap,
    /// A tagged segment of another version of DDP.
    TaggedVersion,
    /// An untagged segment for a queue that does not exist.
    QueueNumber,
    /// A message for which no receive is posted, or an RDMA Read beyond those that are served.
    NoBuffer,
    /// A message that is not the next of its queue.
    MessageSequence,
    /// A segment that is not where its message goes on.
    MessageOffset,
    /// A message that is longer than its buffer.
    MessageTooLong,
    /// An untagged segment of another version of DDP.
    UntaggedVersion,
    /// A read of a tag that names no region.
    ReadStag,
    /// A read outside of its region.
    ReadBounds,
    /// A read of a region that is not for reading.
    ReadRights,
    /// A read whose end is beyond the largest offset.
    ReadWrap,
    /// A tag to be invalidated that names no region.
    Invalidate,
    /// Another version of RDMAP.
    RdmapVersion,
    /// A kind of message that does not exist, or is not due here.
    Opcode,
    /// A ULPDU that is too short for its headers, or has more than them where nothing may follow.
    Length,
}

/// A Terminate's error, as it goes on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorCode {
    /// The layer that found it, in 4 bits: RDMAP, DDP, or what is below.
    pub layer: u8,
    /// The type of error, in 4 bits.
    pub kind: u8,
    /// Which one.
    pub code: u8,
}

/// Errors of RDMAP, of DDP, and of MPA.
const RDMAP: u8 = 0;
const DDP: u8 = 1;
const MPA: u8 = 2;
/// Types of RDMAP's.
const PROTECTION: u8 = 1;
const OPERATION: u8 = 2;
/// Types of DDP's.
const TAGGED: u8 = 1;
const UNTAGGED: u8 = 2;

impl ErrorCode {
    const fn new(layer: u8, kind: u8, code: u8) -> Self {
        Self { layer, kind, code }
    }

    /// It speaks of the stream alone, so that no header goes with it.
    pub const fn is_of_stream(self) -> bool {
        self.layer == MPA
    }

    /// It refuses an access to memory.
    pub const fn refuses_access(self) -> bool {
        matches!((self.layer, self.kind), (RDMAP, PROTECTION) | (DDP, TAGGED))
    }

    /// The error in words.
    pub const fn describe(self) -> &'static str {
        match (self.layer, self.kind, self.code) {
            (RDMAP, PROTECTION, 0) | (DDP, TAGGED, 0) => "the peer says: invalid STag",
            (RDMAP, PROTECTION, 1) | (DDP, TAGGED, 1) => "the peer says: base or bounds violation",
            (RDMAP, PROTECTION, 2) => "the peer says: access rights violation",
            (RDMAP, PROTECTION, 3) | (DDP, TAGGED, 2) => "the peer says: STag of another stream",
            (RDMAP, PROTECTION, 4) | (DDP, TAGGED, 3) => "the peer says: tagged offset wraps",
            (RDMAP, PROTECTION | OPERATION, 9) => "the peer says: STag cannot be invalidated",
            (DDP, TAGGED, 4) | (DDP, UNTAGGED, 6) => "the peer says: invalid DDP version",
            (DDP, UNTAGGED, 1) => "the peer says: invalid queue number",
            (DDP, UNTAGGED, 2) => "the peer says: no buffer available",
            (DDP, UNTAGGED, 3) => "the peer says: invalid message sequence number",
            (DDP, UNTAGGED, 4) => "the peer says: invalid message offset",
            (DDP, UNTAGGED, 5) => "the peer says: message too long for its buffer",
            (RDMAP, OPERATION, 5) => "the peer says: invalid RDMAP version",
            (RDMAP, OPERATION, 6) => "the peer says: unexpected opcode",
            (MPA, 0, 1) => "the peer says: TCP connection lost",
            (MPA, 0, 2) => "the peer says: MPA CRC does not match",
            (MPA, 0, 3) => "the peer says: MPA marker and ULPDU length do not match",
            (MPA, 0, 4) => "the peer says: invalid MPA request or reply",
            (MPA, 0, 6) => "the peer says: insufficient IRD",
            (MPA, 0, 7) => "the peer says: no matching RTR option",
            (RDMAP | DDP, 0, _) | (RDMAP, OPERATION, 7 | 8) | (MPA, 0, 5) => {
                "the peer says: catastrophic error"
            }
            _ => "the peer says: unspecified error",
        }
    }
}

impl Violation {
    /// A write that a region does not allow.
    pub(crate) const fn of_write(error: RegionError, to: RemoteRegion) -> Self {
        match error {
            RegionError::InvalidStag => Self::WriteStag,
            RegionError::AccessRights => Self::WriteRights,
            RegionError::Bounds if wraps(to) => Self::WriteWrap,
            RegionError::Bounds => Self::WriteBounds,
        }
    }

    /// A read that a region does not allow.
    pub(crate) const fn of_read(error: RegionError, from: RemoteRegion) -> Self {
        match error {
            RegionError::InvalidStag => Self::ReadStag,
            RegionError::AccessRights => Self::ReadRights,
            RegionError::Bounds if wraps(from) => Self::ReadWrap,
            RegionError::Bounds => Self::ReadBounds,
        }
    }

    /// The answer that the standards prescribe. What they leave open: DDP has no code for rights, which is RDMAP's; an RDMA Read beyond those that are served finds no
    /// buffer in DDP's queue of requests; what is too short or too long for its kind is RDMAP's "unspecified".
    pub const fn error_code(self) -> ErrorCode {
        match self {
            Self::Crc => ErrorCode::new(MPA, 0, 0x02),
            Self::Marker => ErrorCode::new(MPA, 0, 0x03),
            Self::InsufficientIrd => ErrorCode::new(MPA, 0, 0x06),
            Self::NoMatchingRtr => ErrorCode::new(MPA, 0, 0x07),
            Self::WriteStag => ErrorCode::new(DDP, TAGGED, 0x00),
            Self::WriteBounds => ErrorCode::new(DDP, TAGGED, 0x01),
            Self::WriteWrap => ErrorCode::new(DDP, TAGGED, 0x03),
            Self::TaggedVersion => ErrorCode::new(DDP, TAGGED, 0x04),
            Self::QueueNumber => ErrorCode::new(DDP, UNTAGGED, 0x01),
            Self::NoBuffer => ErrorCode::new(DDP, UNTAGGED, 0x02),
            Self::MessageSequence => ErrorCode::new(DDP, UNTAGGED, 0x03),
            Self::MessageOffset => ErrorCode::new(DDP, UNTAGGED, 0x04),
            Self::MessageTooLong => ErrorCode::new(DDP, UNTAGGED, 0x05),
            Self::UntaggedVersion => ErrorCode::new(DDP, UNTAGGED, 0x06),
            Self::ReadStag => ErrorCode::new(RDMAP, PROTECTION, 0x00),
            Self::ReadBounds => ErrorCode::new(RDMAP, PROTECTION, 0x01),
            Self::WriteRights | Self::ReadRights => ErrorCode::new(RDMAP, PROTECTION, 0x02),
            Self::ReadWrap => ErrorCode::new(RDMAP, PROTECTION, 0x04),
            Self::Invalidate => ErrorCode::new(RDMAP, PROTECTION, 0x09),
            Self::RdmapVersion => ErrorCode::new(RDMAP, OPERATION, 0x05),
            Self::Opcode => ErrorCode::new(RDMAP, OPERATION, 0x06),
            Self::Length => ErrorCode::new(RDMAP, OPERATION, 0xff),
        }
    }

    /// The violation in words, for the log.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Crc => "an FPDU whose CRC does not match",
            Self::Marker => "a marker that does not point to its FPDU",
            Self::InsufficientIrd => "more RDMA Reads wanted than are served",
            Self::NoMatchingRtr => "no common way to show readiness",
            Self::WriteStag => "a write to an invalid STag",
            Self::WriteBounds => "a write outside of its bounds",
            Self::WriteRights => "a write to memory that is not for writing",
            Self::WriteWrap => "a write whose tagged offset wraps",
            Self::TaggedVersion => "a tagged segment of another DDP version",
            Self::QueueNumber => "a segment for a queue that does not exist",
            Self::NoBuffer => "a message for which there is no buffer",
            Self::MessageSequence => "a message out of sequence",
            Self::MessageOffset => "a segment out of sequence",
            Self::MessageTooLong => "a message longer than its receive buffer",
            Self::UntaggedVersion => "an untagged segment of another DDP version",
            Self::ReadStag => "an RDMA Read of an invalid STag",
            Self::ReadBounds => "an RDMA Read outside of its bounds",
            Self::ReadRights => "an RDMA Read of memory that is not for reading",
            Self::ReadWrap => "an RDMA Read whose tagged offset wraps",
            Self::Invalidate => "a Send that invalidates an invalid STag",
            Self::RdmapVersion => "a message of another RDMAP version",
            Self::Opcode => "an RDMAP message that does not belong here",
            Self::Length => "an RDMAP message of the wrong length",
        }
    }
}

/// The end lies beyond the largest tagged offset (RFC 5041 §7.1).
const fn wraps(region: RemoteRegion) -> bool {
    // A length has 32 bits, so that nothing is lost.
    region.offset.checked_add(region.length as u64).is_none()
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const ALL: &[Violation] = &[
        Violation::Crc,
        Violation::Marker,
        Violation::InsufficientIrd,
        Violation::NoMatchingRtr,
        Violation::WriteStag,
        Violation::WriteBounds,
        Violation::WriteRights,
        Violation::WriteWrap,
        Violation::TaggedVersion,
        Violation::QueueNumber,
        Violation::NoBuffer,
        Violation::MessageSequence,
        Violation::MessageOffset,
        Violation::MessageTooLong,
        Violation::UntaggedVersion,
        Violation::ReadStag,
        Violation::ReadBounds,
        Violation::ReadRights,
        Violation::ReadWrap,
        Violation::Invalidate,
        Violation::RdmapVersion,
        Violation::Opcode,
        Violation::Length,
    ];

    #[test]
    fn each_violation_has_words_and_a_code_that_a_peer_understands() {
        let source = include_str!("violation.rs");
        let variants = source.split("pub enum Violation {").nth(1).unwrap().split("\n}").next().unwrap();
        let named = variants.lines().filter(|line| line.trim_start().starts_with(char::is_uppercase));
        assert_eq!(named.count(), ALL.len(), "ALL lists every variant of Violation");
        let mut words: Vec<_> = ALL.iter().map(|violation| violation.describe()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), ALL.len());
        for violation in ALL {
            let code = violation.error_code();
            let is_known = code.describe() != "the peer says: unspecified error";
            assert_eq!(is_known, code.code != 0xff, "{violation:?}");
        }
    }
}
