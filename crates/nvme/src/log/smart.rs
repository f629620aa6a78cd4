//! SMART and health information (LID 02h; NVMe Base §5.1.12.1.3).

use wire::little_endian::U16;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The page, with the fields that mean something for a volume of software.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SmartHealth {
    /// Critical warnings; none.
    pub critical_warning: u8,
    /// Composite temperature in kelvin.
    pub temperature: U16,
    /// Spare capacity in per cent.
    pub available_spare: u8,
    /// Where spare capacity becomes critical, in per cent.
    pub spare_threshold: u8,
    /// Endurance used, in per cent.
    pub percentage_used: u8,
    reserved: [u8; 506],
}

const _: () = assert!(size_of::<SmartHealth>() == 512);

/// Room temperature: a volume of software has none of its own.
const TEMPERATURE: u16 = 298;

impl SmartHealth {
    /// A volume in good health.
    pub fn good() -> Self {
        let mut page = Self::new_zeroed();
        page.temperature.set(TEMPERATURE);
        page.available_spare = 100;
        page.spare_threshold = 10;
        page
    }
}

impl core::fmt::Debug for SmartHealth {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SmartHealth").field("warning", &self.critical_warning).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vector() {
        assert_eq!(&SmartHealth::good().as_bytes()[..7], &[0, 0x2a, 1, 100, 10, 0, 0]);
    }
}
