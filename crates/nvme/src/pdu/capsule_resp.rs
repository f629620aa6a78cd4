//! CapsuleResp (NVMe TCP Transport §3.6.2.7): a completion.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{CommonHeader, PduType};
use crate::cqe::CompletionQueueEntry;

/// The header with the completion; this transport has no response data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct CapsuleResp {
    /// The common header.
    pub header: CommonHeader,
    /// The completion.
    pub entry: CompletionQueueEntry,
}

const _: () = assert!(size_of::<CapsuleResp>() == 24);

impl CapsuleResp {
    /// Its header's length.
    pub const HLEN: u8 = 24;

    /// The capsule of `entry`.
    pub const fn new(entry: CompletionQueueEntry) -> Self {
        Self { header: CommonHeader::bare(PduType::CAPSULE_RESP, Self::HLEN), entry }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Status;

    #[test]
    fn golden_vector() {
        let bytes = CapsuleResp::new(CompletionQueueEntry::new(5, 2, Status::SUCCESS));
        assert_eq!(
            bytes.as_bytes(),
            [5, 0, 24, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0]
        );
    }
}
