//! R2T (NVMe TCP Transport §3.6.2.10): the controller is ready to receive a command's data.

use wire::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{CommonHeader, PduType};

/// The header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct R2t {
    /// The common header.
    pub header: CommonHeader,
    /// The command that this belongs to.
    pub cccid: U16,
    /// The controller's transfer tag, to be repeated in H2CData.
    pub ttag: U16,
    /// The first byte, counted from the start of the command's data.
    pub r2to: U32,
    /// Bytes.
    pub r2tl: U32,
    reserved: [u8; 4],
}

const _: () = assert!(size_of::<R2t>() == 24);

impl R2t {
    /// Its header's length.
    pub const HLEN: u8 = 24;

    /// The header for `length` bytes at `offset` of command `cccid` under transfer tag `ttag`.
    pub fn new(cccid: u16, ttag: u16, offset: u32, length: u32) -> Self {
        Self {
            header: CommonHeader::bare(PduType::R2T, Self::HLEN),
            cccid: U16::new(cccid),
            ttag: U16::new(ttag),
            r2to: U32::new(offset),
            r2tl: U32::new(length),
            reserved: [0; 4],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vector() {
        let bytes = R2t::new(0x0102, 3, 0x2000, 0x1000);
        assert_eq!(
            bytes.as_bytes(),
            [9, 0, 24, 0, 24, 0, 0, 0, 2, 1, 3, 0, 0, 0x20, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0]
        );
    }
}
