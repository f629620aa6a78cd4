//! CRC32C and CRC-32 by the processor's own instructions, which are looked for at run time.

use crc_fast::{CrcAlgorithm, Digest};

/// The CRC32C of `bytes`.
#[inline]
pub(crate) fn sum_of(bytes: &[u8]) -> u32 {
    low_half(crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes))
}

/// A running sum.
#[derive(Debug, Clone)]
pub(crate) struct Sum(Digest);

impl Sum {
    #[inline]
    pub(crate) fn castagnoli() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    #[inline]
    pub(crate) fn ieee() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32IsoHdlc))
    }

    #[inline]
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    #[inline]
    pub(crate) fn finish(&self) -> u32 {
        low_half(self.0.finalize())
    }
}

/// The library answers every width in 64 bits; a 32-bit sum fills the low half only.
fn low_half(sum: u64) -> u32 {
    u32::try_from(sum & u64::from(u32::MAX)).unwrap_or(0)
}
