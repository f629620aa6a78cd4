//! Error information (LID 01h; NVMe Base §5.1.12.1.2). This controller keeps no entries, so the page is zeros.

use wire::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// One entry; an error count of zero says that it is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ErrorEntry {
    /// Errors since the beginning of time.
    pub count: U64,
    /// Queue.
    pub sqid: U16,
    /// Command.
    pub cid: U16,
    /// Status field.
    pub status: U16,
    /// Where in the command the error is.
    pub location: U16,
    /// First block.
    pub lba: U64,
    /// Namespace.
    pub nsid: U32,
    reserved: [u8; 36],
}

const _: () = assert!(size_of::<ErrorEntry>() == 64);

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros;

    use super::*;

    #[test]
    fn golden_vector() {
        let mut entry = ErrorEntry::new_zeroed();
        entry.status.set(0x8002);
        entry.nsid.set(1);
        assert_eq!((&entry.as_bytes()[12..14], entry.as_bytes()[24]), (&[0x02, 0x80][..], 1));
    }
}
