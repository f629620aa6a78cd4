//! ICResp (NVMe TCP Transport §3.6.2.3): the controller agrees to a connection.

use wire::little_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{CommonHeader, Digests, PduType};

/// The controller's first PDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct IcResp {
    /// The common header.
    pub header: CommonHeader,
    /// PDU format version; 0.
    pub pfv: U16,
    /// Alignment of data in PDUs to the controller, in dwords, counted from zero.
    pub cpda: u8,
    /// Digests that are used.
    pub dgst: u8,
    /// The most data in one H2CData PDU, in bytes.
    pub maxh2cdata: U32,
    reserved: [u8; 112],
}

const _: () = assert!(size_of::<IcResp>() == 128);

impl IcResp {
    /// Its header's length.
    pub const HLEN: u8 = 128;

    /// A response that agrees to the given digests, without alignment.
    pub fn new(digests: Digests, maxh2cdata: u32) -> Self {
        let mut pdu = Self::new_zeroed();
        pdu.header = CommonHeader::bare(PduType::IC_RESP, Self::HLEN);
        pdu.dgst = digests.dgst();
        pdu.maxh2cdata.set(maxh2cdata);
        pdu
    }

    /// The digests that it agrees to.
    pub const fn digests(&self) -> Digests {
        Digests::from_dgst(self.dgst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vector() {
        let bytes = IcResp::new(Digests { header: false, data: true }, 1 << 20);
        assert_eq!(&bytes.as_bytes()[..16], &[1, 0, 128, 0, 128, 0, 0, 0, 0, 0, 0, 2, 0, 0, 16, 0]);
    }
}
