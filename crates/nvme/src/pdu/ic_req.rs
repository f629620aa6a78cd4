//! ICReq (NVMe TCP Transport §3.6.2.2): the host opens a connection.

use wire::little_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{CommonHeader, Digests, PduType};

/// The first PDU of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct IcReq {
    /// The common header.
    pub header: CommonHeader,
    /// PDU format version; 0.
    pub pfv: U16,
    /// Alignment of data in PDUs to the host, in dwords, counted from zero.
    pub hpda: u8,
    /// Digests that the host wants.
    pub dgst: u8,
    /// R2Ts per command that the host can handle, counted from zero.
    pub maxr2t: U32,
    reserved: [u8; 112],
}

const _: () = assert!(size_of::<IcReq>() == 128);

impl IcReq {
    /// Its header's length.
    pub const HLEN: u8 = 128;

    /// A request for the given digests, without alignment.
    pub fn new(digests: Digests, maxr2t: u32) -> Self {
        let mut pdu = Self::new_zeroed();
        pdu.header = CommonHeader::bare(PduType::IC_REQ, Self::HLEN);
        pdu.dgst = digests.dgst();
        pdu.maxr2t.set(maxr2t);
        pdu
    }

    /// The digests that it asks for.
    pub const fn digests(&self) -> Digests {
        Digests::from_dgst(self.dgst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vector() {
        let bytes = IcReq::new(Digests::BOTH, 0);
        assert_eq!(&bytes.as_bytes()[..16], &[0, 0, 128, 0, 128, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0]);
    }
}
