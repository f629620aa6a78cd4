//! C2HData (NVMe TCP Transport §3.6.2.9): a piece of data from the controller.

use wire::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{CommonHeader, PduType};

/// The header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct C2hData {
    /// The common header.
    pub header: CommonHeader,
    /// The command that this belongs to.
    pub cccid: U16,
    /// Reserved.
    unused: U16,
    /// The first byte, counted from the start of the command's data.
    pub datao: U32,
    /// Bytes.
    pub datal: U32,
    reserved: [u8; 4],
}

const _: () = assert!(size_of::<C2hData>() == 24);

impl C2hData {
    /// Its header's length.
    pub const HLEN: u8 = 24;

    /// The header for `length` bytes at `offset` of command `cccid`.
    pub fn new(cccid: u16, offset: u32, length: u32) -> Self {
        Self {
            header: CommonHeader::bare(PduType::C2H_DATA, Self::HLEN),
            cccid: U16::new(cccid),
            unused: U16::ZERO,
            datao: U32::new(offset),
            datal: U32::new(length),
            reserved: [0; 4],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vector() {
        let bytes = C2hData::new(0x0102, 0x2000, 0x1000);
        assert_eq!(
            bytes.as_bytes(),
            [7, 0, 24, 0, 24, 0, 0, 0, 2, 1, 0, 0, 0, 0x20, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0]
        );
    }
}
