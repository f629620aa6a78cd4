//! Identify Namespace (CNS 00h; NVM Command Set §4.1.5.1).

use volume::Geometry;
use wire::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// An LBA format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct LbaFormat {
    /// Bytes of metadata for each block.
    pub ms: U16,
    /// Block size as a power of two.
    pub lbads: u8,
    /// Relative performance.
    pub rp: u8,
}

/// The structure.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct IdentifyNamespace {
    /// Size in blocks.
    pub nsze: U64,
    /// Capacity in blocks.
    pub ncap: U64,
    /// Blocks in use.
    pub nuse: U64,
    /// Features.
    pub nsfeat: u8,
    /// LBA formats, counted from zero.
    pub nlbaf: u8,
    /// The format in use.
    pub flbas: u8,
    /// Metadata capabilities.
    pub mc: u8,
    /// Protection capabilities.
    pub dpc: u8,
    /// Protection settings.
    pub dps: u8,
    /// Sharing.
    pub nmic: u8,
    /// Reservation capabilities.
    pub rescap: u8,
    /// Format progress.
    pub fpi: u8,
    /// Deallocation.
    pub dlfeat: u8,
    /// Atomic write unit, counted from zero.
    pub nawun: U16,
    /// The same across power failure.
    pub nawupf: U16,
    reserved38: [u8; 10],
    /// Capacity in bytes.
    pub nvmcap: [U64; 2],
    /// Preferred write granularity, in blocks, counted from zero.
    pub npwg: U16,
    /// Preferred write alignment.
    pub npwa: U16,
    /// Preferred deallocate granularity.
    pub npdg: U16,
    /// Preferred deallocate alignment.
    pub npda: U16,
    /// Optimal write size.
    pub nows: U16,
    reserved74: [u8; 25],
    /// Attributes: write protection.
    pub nsattr: u8,
    reserved100: [u8; 4],
    /// Globally unique identifier.
    pub nguid: [u8; 16],
    /// IEEE extended unique identifier.
    pub eui64: [u8; 8],
    /// LBA formats.
    pub lbaf: [LbaFormat; 64],
    /// Vendor-specific from here on: what a namespace of ours begins it with, zeros elsewhere.
    mark: [u8; 8],
    /// What changes whenever what was acknowledged and not flushed may be lost.
    incarnation: [u8; 16],
    vendor408: [u8; 3688],
}

const _: () = assert!(size_of::<IdentifyNamespace>() == super::SIZE);

/// What the vendor-specific part of a namespace of ours begins with.
const OURS: &[u8; 8] = b"LINERATE";

/// NSFEAT: thin provisioned; preferred write and deallocate sizes are given.
pub(crate) const NSFEAT_THIN: u8 = 1 << 0;
pub(crate) const NSFEAT_PREFERRED: u8 = 1 << 4;
/// NMIC: more than one controller may use it.
pub(crate) const NMIC_SHARED: u8 = 1 << 0;
/// RESCAP: all six types, and IEKEY as NVMe 1.3 has it; nothing that persists through a loss of power.
pub(crate) const RESCAP: u8 = 0b1111_1110;
/// DLFEAT: deallocated blocks read as zeros; Write Zeroes may deallocate.
pub(crate) const DLFEAT_ZEROS: u8 = 1;
pub(crate) const DLFEAT_WRITE_ZEROES: u8 = 1 << 3;
/// NSATTR: write-protected.
pub(crate) const NSATTR_READ_ONLY: u8 = 1 << 0;

impl IdentifyNamespace {
    /// What changes whenever writes that were acknowledged and not flushed may be lost. Only namespaces of ours say it.
    pub fn incarnation(&self) -> Option<[u8; 16]> {
        (self.mark == *OURS).then_some(self.incarnation)
    }

    /// Sets the mark of a namespace of ours.
    pub fn set_incarnation(&mut self, mark: [u8; 16]) {
        (self.mark, self.incarnation) = (*OURS, mark);
    }

    /// The namespace's shape, if its blocks are 512 or 4096 bytes without metadata.
    pub fn geometry(&self) -> Option<Geometry> {
        let index = usize::from(self.flbas & 0xf) | usize::from(self.flbas & 0x60) >> 1;
        let format = self.lbaf.get(index)?;
        let block_size =
            1_u32.checked_shl(u32::from(format.lbads)).filter(|size| [512, 4096].contains(size))?;
        if format.ms.get() != 0 {
            return None;
        }
        let physical = if self.nsfeat & NSFEAT_PREFERRED == 0 { 0 } else { u32::from(self.npwg.get()) };
        let physical_block_size = block_size.saturating_mul(physical.saturating_add(1));
        Some(Geometry { blocks: self.nsze.get(), block_size, physical_block_size })
    }
}

impl core::fmt::Debug for IdentifyNamespace {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("IdentifyNamespace").field("geometry", &self.geometry()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use zerocopy::FromZeros as _;

    use super::*;

    #[test]
    fn only_a_namespace_of_ours_has_an_incarnation() {
        let mut identify = IdentifyNamespace::new_zeroed();
        assert_eq!(identify.incarnation(), None, "others have zeros there, or something else");
        identify.set_incarnation([7; 16]);
        assert_eq!(identify.incarnation(), Some([7; 16]));
    }

    #[test]
    fn fields_are_where_the_standard_has_them() {
        assert_eq!(offset_of!(IdentifyNamespace, nmic), 30);
        assert_eq!(offset_of!(IdentifyNamespace, dlfeat), 33);
        assert_eq!(offset_of!(IdentifyNamespace, nvmcap), 48);
        assert_eq!(offset_of!(IdentifyNamespace, npwg), 64);
        assert_eq!(offset_of!(IdentifyNamespace, nsattr), 99);
        assert_eq!(offset_of!(IdentifyNamespace, nguid), 104);
        assert_eq!(offset_of!(IdentifyNamespace, eui64), 120);
        assert_eq!(offset_of!(IdentifyNamespace, mark), 384);
        assert_eq!(offset_of!(IdentifyNamespace, lbaf), 128);
    }
}
