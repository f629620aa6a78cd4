//! Identify Namespace of the NVM command set (CNS 05h, CSI 00h; NVM Command Set §4.1.5.3).

use wire::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The structure: what later versions of the command set say of a namespace. Formats without protection information and without
/// extensions are zeros.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct NvmNamespace {
    /// Storage tag mask.
    pub lbstm: U64,
    /// Protection information capabilities and attributes.
    pub pic: [u8; 2],
    reserved10: [u8; 2],
    /// Extended LBA formats.
    pub elbaf: [U32; 64],
    /// Preferred deallocate granularity, preferred read sizes, and others that say how to be fast.
    pub preferred: [U32; 6],
    /// Blocks in which allocation is tracked; 0 where it is not.
    pub tlbaag: U32,
    reserved296: [u8; 3800],
}

const _: () = assert!(size_of::<NvmNamespace>() == super::SIZE);

impl core::fmt::Debug for NvmNamespace {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("NvmNamespace").field("tlbaag", &self.tlbaag.get()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use super::*;

    #[test]
    fn fields_are_where_the_standard_has_them() {
        assert_eq!(offset_of!(NvmNamespace, elbaf), 12);
        assert_eq!(offset_of!(NvmNamespace, preferred), 268);
        assert_eq!(offset_of!(NvmNamespace, tlbaag), 292);
    }
}
