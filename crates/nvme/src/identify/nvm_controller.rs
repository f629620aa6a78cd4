//! Identify Controller of the NVM command set (CNS 06h, CSI 00h; NVM Command Set §4.1.5.4).

use wire::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The structure: limits of commands without data.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct NvmController {
    /// Verify size limit, as MDTS.
    pub vsl: u8,
    /// Write Zeroes size limit, as MDTS.
    pub wzsl: u8,
    /// Write Uncorrectable size limit, as MDTS.
    pub wusl: u8,
    /// Dataset Management ranges limit.
    pub dmrl: u8,
    /// Blocks in one range.
    pub dmrsl: U32,
    /// Blocks in all ranges.
    pub dmsl: U64,
    reserved16: [u8; 4080],
}

const _: () = assert!(size_of::<NvmController>() == super::SIZE);

impl core::fmt::Debug for NvmController {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("NvmController").field("dmrsl", &self.dmrsl.get()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros;

    use super::*;

    #[test]
    fn golden_vector() {
        let mut identify = NvmController::new_zeroed();
        identify.dmrl = 255;
        identify.dmrsl.set(0x0102_0304);
        assert_eq!(&identify.as_bytes()[..9], &[0, 0, 0, 255, 4, 3, 2, 1, 0]);
    }
}
