//! CRC32C, as a one-shot function and as a running sum over scattered memory; CRC-32 as a running sum.

#[cfg(feature = "std")]
use crate::processor::{Sum, sum_of};
#[cfg(not(feature = "std"))]
use crate::table::{Sum, sum_of};

/// The CRC32C of `bytes`, as the number whose little-endian bytes go on the wire (RFC 7143 §13.1).
pub fn crc32c(bytes: &[u8]) -> u32 {
    sum_of(bytes)
}

/// A running CRC32C over several pieces of memory.
#[derive(Debug, Clone)]
pub struct Crc32c(Sum);

impl Crc32c {
    /// The sum of nothing.
    pub fn new() -> Self {
        Self(Sum::castagnoli())
    }

    /// Adds the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The CRC32C of all pieces so far.
    pub fn finish(&self) -> u32 {
        self.0.finish()
    }
}

impl Default for Crc32c {
    fn default() -> Self {
        Self::new()
    }
}

/// A running CRC-32 (IEEE 802.3 §3.2.9), the sum of RoCE's ICRC, over several pieces of memory.
#[derive(Debug, Clone)]
pub struct Crc32(Sum);

impl Crc32 {
    /// The sum of nothing.
    pub fn new() -> Self {
        Self(Sum::ieee())
    }

    /// Adds the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The CRC-32 of all pieces so far.
    pub fn finish(&self) -> u32 {
        self.0.finish()
    }
}

impl Default for Crc32 {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7143 appendix A.4 (there as bytes in wire order) names these.
    #[test]
    fn golden_vectors() {
        assert_eq!(crc32c(&[0; 32]).to_le_bytes(), [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(crc32c(&[0xff; 32]).to_le_bytes(), [0x43, 0xab, 0xa8, 0x62]);
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&ascending).to_le_bytes(), [0x4e, 0x79, 0xdd, 0x46]);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    /// The check value that catalogues of CRCs give for CRC-32/ISO-HDLC.
    #[test]
    fn golden_vector_of_crc_32() {
        let mut sum = Crc32::new();
        sum.update(b"12345");
        sum.update(b"6789");
        assert_eq!(sum.finish(), 0xcbf4_3926);
    }

    #[test]
    fn pieces_equal_the_whole() {
        let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
        for cut in [0, 1, 3, 511, 4096, 5000] {
            let (head, tail) = bytes.split_at(cut);
            let mut sum = Crc32c::new();
            sum.update(head);
            sum.update(tail);
            assert_eq!(sum.finish(), crc32c(&bytes), "cut at {cut}");
        }
    }
}
