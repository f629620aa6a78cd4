//! The digests of a connection, as ICReq and ICResp have them in their DGST (NVMe TCP Transport §3.6.2.2, §3.6.2.3).

const HEADER_DIGEST: u8 = 1 << 0;
const DATA_DIGEST: u8 = 1 << 1;

/// Which digests a side asks for, or agrees to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Digests {
    /// HDGST_ENABLE: PDUs have header digests.
    pub header: bool,
    /// DDGST_ENABLE: data has data digests.
    pub data: bool,
}

impl Digests {
    /// No digest.
    pub const NONE: Self = Self { header: false, data: false };
    /// Both digests.
    pub const BOTH: Self = Self { header: true, data: true };

    /// DGST, whose other bits are reserved.
    pub(super) fn dgst(self) -> u8 {
        (u8::from(self.header) * HEADER_DIGEST) | (u8::from(self.data) * DATA_DIGEST)
    }

    /// What DGST says.
    pub(super) const fn from_dgst(dgst: u8) -> Self {
        Self { header: dgst & HEADER_DIGEST != 0, data: dgst & DATA_DIGEST != 0 }
    }
}
