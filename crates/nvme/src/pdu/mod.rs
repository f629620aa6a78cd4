//! The PDUs of the TCP transport (NVMe TCP Transport §3.6), one file each.

use wire::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

mod c2h_data;
mod c2h_term_req;
mod capsule_cmd;
mod capsule_resp;
mod digests;
mod h2c_data;
mod h2c_term_req;
mod ic_req;
mod ic_resp;
mod r2t;

pub use c2h_data::C2hData;
pub use c2h_term_req::C2hTermReq;
pub use capsule_cmd::CapsuleCmd;
pub use capsule_resp::CapsuleResp;
pub use digests::Digests;
pub use h2c_data::H2cData;
pub use h2c_term_req::H2cTermReq;
pub use ic_req::IcReq;
pub use ic_resp::IcResp;
pub use r2t::R2t;

/// A PDU's type; unknown values are kept.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(transparent)]
pub struct PduType(pub u8);

impl PduType {
    /// Initialize Connection Request.
    pub const IC_REQ: Self = Self(0x00);
    /// Initialize Connection Response.
    pub const IC_RESP: Self = Self(0x01);
    /// Host to Controller Terminate Connection Request.
    pub const H2C_TERM_REQ: Self = Self(0x02);
    /// Controller to Host Terminate Connection Request.
    pub const C2H_TERM_REQ: Self = Self(0x03);
    /// Command Capsule.
    pub const CAPSULE_CMD: Self = Self(0x04);
    /// Response Capsule.
    pub const CAPSULE_RESP: Self = Self(0x05);
    /// Host to Controller Data Transfer.
    pub const H2C_DATA: Self = Self(0x06);
    /// Controller to Host Data Transfer.
    pub const C2H_DATA: Self = Self(0x07);
    /// Ready to Transfer.
    pub const R2T: Self = Self(0x09);
}

/// Flags of the common header.
pub mod flags {
    /// A header digest follows the header.
    pub const HDGST: u8 = 1 << 0;
    /// A data digest follows the data.
    pub const DDGST: u8 = 1 << 1;
    /// The last data PDU of its command or of its R2T.
    pub const LAST: u8 = 1 << 2;
    /// The command succeeded; no response capsule follows.
    pub const SUCCESS: u8 = 1 << 3;
}

/// What every PDU begins with (§3.6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct CommonHeader {
    /// What it is.
    pub kind: PduType,
    /// See [`flags`].
    pub flags: u8,
    /// Bytes of the header, digest not counted.
    pub hlen: u8,
    /// Where the data begins, counted from the PDU's first byte.
    pub pdo: u8,
    /// Bytes of the whole PDU, digests and padding counted.
    pub plen: U32,
}

const _: () = assert!(size_of::<CommonHeader>() == 8);

impl CommonHeader {
    /// The header of a PDU without data, whose length is its header's.
    pub(crate) const fn bare(kind: PduType, hlen: u8) -> Self {
        Self { kind, flags: 0, hlen, pdo: 0, plen: U32::new(hlen as u32) }
    }

    /// True when `flag` is set.
    pub const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}
