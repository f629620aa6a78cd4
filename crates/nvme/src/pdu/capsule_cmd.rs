//! CapsuleCmd (NVMe TCP Transport §3.6.2.6): a command, and perhaps its data.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{CommonHeader, PduType};
use crate::sqe::SubmissionQueueEntry;

/// The header with the command; in-capsule data follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct CapsuleCmd {
    /// The common header.
    pub header: CommonHeader,
    /// The command.
    pub entry: SubmissionQueueEntry,
}

const _: () = assert!(size_of::<CapsuleCmd>() == 72);

impl CapsuleCmd {
    /// Its header's length.
    pub const HLEN: u8 = 72;

    /// The capsule of `entry`; the common header's lengths are those without data.
    pub const fn new(entry: SubmissionQueueEntry) -> Self {
        Self { header: CommonHeader::bare(PduType::CAPSULE_CMD, Self::HLEN), entry }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vector() {
        let bytes = CapsuleCmd::new(SubmissionQueueEntry::new(0x18, 0));
        assert_eq!(&bytes.as_bytes()[..12], &[4, 0, 72, 0, 72, 0, 0, 0, 0x18, 0x40, 0, 0]);
    }
}
