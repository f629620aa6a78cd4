//! Identify Namespace independent of the I/O command set (CNS 08h; NVMe Base §5.1.13.2.8).

use wire::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The structure.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct IndependentNamespace {
    /// Features.
    pub nsfeat: u8,
    /// Sharing.
    pub nmic: u8,
    /// Reservation capabilities.
    pub rescap: u8,
    /// Format progress.
    pub fpi: u8,
    /// ANA group.
    pub anagrpid: U32,
    /// Attributes: write protection.
    pub nsattr: u8,
    reserved9: u8,
    /// NVM set.
    pub nvmsetid: U16,
    /// Endurance group.
    pub endgid: U16,
    /// Status: bit 0 says ready.
    pub nstat: u8,
    reserved15: [u8; 4081],
}

const _: () = assert!(size_of::<IndependentNamespace>() == super::SIZE);

/// NSTAT: ready.
pub(crate) const NSTAT_READY: u8 = 1;

impl core::fmt::Debug for IndependentNamespace {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("IndependentNamespace").field("nstat", &self.nstat).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros;

    use super::*;

    #[test]
    fn the_status_is_where_the_standard_has_it() {
        let mut identify = IndependentNamespace::new_zeroed();
        identify.nstat = NSTAT_READY;
        identify.nsattr = 2;
        assert_eq!((identify.as_bytes()[14], identify.as_bytes()[8]), (1, 2));
    }
}
