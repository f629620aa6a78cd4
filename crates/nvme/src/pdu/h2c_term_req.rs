//! H2CTermReq (NVMe TCP Transport §3.6.2.4): the host names the controller's fatal error.

use wire::little_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{CommonHeader, PduType};

/// The header; up to 128 bytes of the offending PDU's header follow as data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct H2cTermReq {
    /// The common header.
    pub header: CommonHeader,
    /// Fatal error status.
    pub fes: U16,
    /// Fatal error information, unaligned.
    pub fei: U32,
    reserved: [u8; 10],
}

const _: () = assert!(size_of::<H2cTermReq>() == 24);

impl H2cTermReq {
    /// Its header's length.
    pub const HLEN: u8 = 24;

    /// The request, with `offending` bytes of header following.
    pub fn new(fes: u16, fei: u32, offending: u8) -> Self {
        let mut pdu = Self::new_zeroed();
        pdu.header = CommonHeader::bare(PduType::H2C_TERM_REQ, Self::HLEN);
        pdu.header.plen.set(u32::from(Self::HLEN).saturating_add(u32::from(offending)));
        pdu.fes.set(fes);
        pdu.fei.set(fei);
        pdu
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vector() {
        let bytes = H2cTermReq::new(1, 0x0102_0304, 8);
        assert_eq!(&bytes.as_bytes()[..16], &[2, 0, 24, 0, 32, 0, 0, 0, 1, 0, 4, 3, 2, 1, 0, 0]);
    }
}
