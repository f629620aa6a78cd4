//! The completion queue entry (NVMe Base §4.2).

use wire::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::status::Status;

/// A completion as it is on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct CompletionQueueEntry {
    /// Command-specific result, dword 0.
    pub dw0: U32,
    /// Command-specific result, dword 1.
    pub dw1: U32,
    /// Submission queue head pointer.
    pub sqhd: U16,
    /// Submission queue identifier; reserved over fabrics.
    pub sqid: U16,
    /// The command that this completes.
    pub cid: U16,
    status: U16,
}

const _: () = assert!(size_of::<CompletionQueueEntry>() == 16);

impl CompletionQueueEntry {
    /// The completion of `cid`, with nothing in the result dwords.
    pub const fn new(cid: u16, sqhd: u16, status: Status) -> Self {
        Self {
            dw0: U32::ZERO,
            dw1: U32::ZERO,
            sqhd: U16::new(sqhd),
            sqid: U16::ZERO,
            cid: U16::new(cid),
            status: U16::new(status.to_wire()),
        }
    }

    /// The status, without the phase tag that fabrics do not use.
    pub const fn status(&self) -> Status {
        Status::from_wire(self.status.get())
    }

    /// Both result dwords as one number.
    pub const fn result(&self) -> u64 {
        (self.dw1.get() as u64) << 32 | self.dw0.get() as u64
    }

    /// Sets both result dwords.
    #[must_use]
    pub fn with_result(mut self, result: u64) -> Self {
        let bytes = result.to_le_bytes();
        let (low, high) = bytes.split_at(4);
        self.dw0.as_mut_bytes().copy_from_slice(low);
        self.dw1.as_mut_bytes().copy_from_slice(high);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vector() {
        let entry =
            CompletionQueueEntry::new(0x1234, 7, Status::LBA_OUT_OF_RANGE.dnr()).with_result(0x1_0000_0002);
        assert_eq!(entry.as_bytes(), [2, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0x34, 0x12, 0x00, 0x81]);
        assert_eq!(entry.status(), Status::LBA_OUT_OF_RANGE.dnr());
        assert_eq!(entry.result(), 0x1_0000_0002);
    }
}
