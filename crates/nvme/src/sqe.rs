//! The submission queue entry (NVMe Base §4.1.1).

use wire::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::sgl::{Capsule, DataPointer, SglDescriptor};
use crate::status::Status;

/// A command as it is on the wire: 64 bytes, any bits legal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SubmissionQueueEntry {
    /// Opcode.
    pub opcode: u8,
    /// Fused operation (bits 1:0) and PRP or SGL (bits 7:6).
    pub flags: u8,
    /// Command identifier, the host's own mark.
    pub cid: U16,
    /// Namespace identifier; in a Fabrics command its first byte is FCTYPE.
    pub nsid: U32,
    /// Command dword 2.
    pub cdw2: U32,
    /// Command dword 3.
    pub cdw3: U32,
    /// Metadata pointer.
    pub mptr: U64,
    /// Data pointer.
    pub dptr: SglDescriptor,
    /// Command dwords 10 to 15.
    pub cdw: [U32; 6],
}

const _: () = assert!(size_of::<SubmissionQueueEntry>() == 64);

/// Broadcast namespace identifier.
pub const ALL_NAMESPACES: u32 = 0xffff_ffff;

/// PSDT 01b: the data pointer is an SGL; the only kind that fabrics know (NVMe Base §4.1.1).
const PSDT_SGL: u8 = 0x40;
const PSDT_MASK: u8 = 0xc0;
const FUSE_MASK: u8 = 0x03;

impl SubmissionQueueEntry {
    /// All zeros: no command.
    pub(crate) const NONE: Self = zerocopy::transmute!([0_u8; 64]);

    /// A command without data.
    pub fn new(opcode: u8, nsid: u32) -> Self {
        let mut entry = Self::new_zeroed();
        entry.opcode = opcode;
        entry.flags = PSDT_SGL;
        entry.nsid.set(nsid);
        entry
    }

    /// Sets one of the command dwords 10 to 15; others do not exist.
    #[must_use]
    pub fn with(mut self, dword: usize, value: u32) -> Self {
        if let Some(field) = dword.checked_sub(10).and_then(|index| self.cdw.get_mut(index)) {
            field.set(value);
        }
        self
    }

    /// Sets two consecutive command dwords, the lower half first.
    #[must_use]
    pub fn with_quad(self, low: usize, value: u64) -> Self {
        let mut halves = [U32::ZERO; 2];
        halves.as_mut_bytes().copy_from_slice(&value.to_le_bytes());
        let [lower, upper] = halves;
        self.with(low, lower.get()).with(low.saturating_add(1), upper.get())
    }

    /// One of the command dwords 10 to 15; zero for others.
    pub fn dword(&self, dword: usize) -> u32 {
        dword.checked_sub(10).and_then(|index| self.cdw.get(index)).map_or(0, |field| field.get())
    }

    /// Two consecutive dwords as one number.
    pub fn quad(&self, low: usize) -> u64 {
        u64::from(self.dword(low.saturating_add(1))) << 32 | u64::from(self.dword(low))
    }

    /// FCTYPE, if this is a Fabrics command.
    pub fn fctype(&self) -> u8 {
        self.nsid.as_bytes().first().copied().unwrap_or_default()
    }

    /// Checks what every command must obey here, and says where its data is: SGLs only, nothing fused,
    /// no metadata.
    pub fn data_pointer(&self, capsule: Capsule) -> Result<DataPointer, Status> {
        if self.flags & FUSE_MASK != 0 || self.flags & PSDT_MASK != PSDT_SGL {
            return Err(Status::INVALID_FIELD.dnr());
        }
        capsule.pointer.ok_or(Status::SGL_TYPE_INVALID.dnr())?.check(capsule)
    }

    /// Checks a command that has no data.
    pub fn no_data(&self, in_capsule: usize) -> Result<(), Status> {
        if self.flags & FUSE_MASK != 0 || in_capsule != 0 {
            return Err(Status::INVALID_FIELD.dnr());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sgl::tests::MOVING;

    #[test]
    fn golden_vector() {
        let mut entry = SubmissionQueueEntry::new(0x02, 1).with(10, 0x1122_3344).with(12, 7).with(15, 9);
        entry.cid.set(0xbeef);
        entry.dptr = SglDescriptor::transport(4096);
        let bytes = entry.as_bytes();
        assert_eq!(&bytes[..8], &[0x02, 0x40, 0xef, 0xbe, 1, 0, 0, 0]);
        assert_eq!(
            &bytes[24..44],
            &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0x5a, 0x44, 0x33, 0x22, 0x11]
        );
        assert_eq!((bytes[48], bytes[60]), (7, 9));
        assert_eq!(entry.quad(10), 0x1122_3344);
        assert_eq!((entry.dword(9), entry.dword(16)), (0, 0));
    }

    #[test]
    fn prps_and_fused_commands_are_refused() {
        let mut entry = SubmissionQueueEntry::new(0x02, 1);
        entry.dptr = SglDescriptor::transport(512);
        let bare = Capsule { data: 0, sgls: MOVING, pointer: entry.dptr.data_pointer() };
        assert!(entry.data_pointer(bare).is_ok());
        for flags in [0x00, 0x80, 0xc0, 0x41, 0x42] {
            entry.flags = flags;
            assert_eq!(entry.data_pointer(bare), Err(Status::INVALID_FIELD.dnr()));
        }
    }
}
