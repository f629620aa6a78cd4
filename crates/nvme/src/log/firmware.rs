//! Firmware slot information (LID 03h; NVMe Base §5.1.12.1.4): one slot, in use.

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The page.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct FirmwareSlots {
    /// The slot in use, and the next one.
    pub afi: u8,
    reserved1: [u8; 7],
    /// Revisions of the slots.
    pub frs: [[u8; 8]; 7],
    reserved64: [u8; 448],
}

const _: () = assert!(size_of::<FirmwareSlots>() == 512);

impl FirmwareSlots {
    /// The page of a controller whose only slot holds `revision`.
    pub fn one(revision: [u8; 8]) -> Self {
        let mut page = Self::new_zeroed();
        page.afi = 1;
        if let Some(first) = page.frs.first_mut() {
            *first = revision;
        }
        page
    }
}

impl core::fmt::Debug for FirmwareSlots {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("FirmwareSlots").field("afi", &self.afi).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vector() {
        let page = FirmwareSlots::one(*b"0.1     ");
        assert_eq!(&page.as_bytes()[..17], b"\x01\0\0\0\0\0\0\x000.1     \0");
    }
}
