//! The iSER header before each PDU (RFC 7145 §9.2), and the words that both ends say while a connection is set up (InfiniBand's Annex A12, as Linux has it).

use verbs::{PrivateData, RemoteRegion, STag};
use wire::big_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::limits::ISER_HEADER;

/// The opcode of an iSCSI PDU's header, in the upper half of the first byte.
const CONTROL: u8 = 0x10;
const OPCODE: u8 = 0xf0;
/// WSV: the tag for write data is valid.
const WRITE_VALID: u8 = 0x08;
/// RSV: the tag for read data is valid.
const READ_VALID: u8 = 0x04;

/// The side does not take tagged offsets that begin at zero; it names addresses of its own.
const NO_ZERO_BASE: u8 = 0x80;
/// The side does not take, or does not use, Send with Invalidate.
const NO_INVALIDATION: u8 = 0x40;

/// The header of a message with an iSCSI PDU. RFC 5046 had it without base offsets, which nobody speaks any more.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct IserHeader {
    flags: u8,
    reserved: [u8; 3],
    write_stag: U32,
    write_base: U64,
    read_stag: U32,
    read_base: U64,
}

const _: () = assert!(size_of::<IserHeader>() == ISER_HEADER);

/// Where memory of the initiator begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaggedBase {
    /// Its region.
    pub stag: STag,
    /// The tagged offset of the first byte.
    pub offset: u64,
}

impl TaggedBase {
    /// `length` bytes of it that begin `skipped` bytes later; `None` where no offset can be that large.
    pub fn region(self, skipped: u32, length: u32) -> Option<RemoteRegion> {
        let offset = self.offset.checked_add(skipped.into())?;
        Some(RemoteRegion { stag: self.stag, offset, length })
    }
}

impl From<RemoteRegion> for TaggedBase {
    fn from(region: RemoteRegion) -> Self {
        Self { stag: region.stag, offset: region.offset }
    }
}

impl IserHeader {
    /// The header of a PDU that names no memory.
    pub fn new() -> Self {
        Self { flags: CONTROL, ..Self::new_zeroed() }
    }

    /// The same, with the memory that write data is read from.
    #[must_use]
    pub fn writing(mut self, base: TaggedBase) -> Self {
        self.flags |= WRITE_VALID;
        (self.write_stag, self.write_base) = (U32::new(base.stag.0), U64::new(base.offset));
        self
    }

    /// The same, with the memory that read data is written to.
    #[must_use]
    pub fn reading(mut self, base: TaggedBase) -> Self {
        self.flags |= READ_VALID;
        (self.read_stag, self.read_base) = (U32::new(base.stag.0), U64::new(base.offset));
        self
    }

    /// The header that these bytes are.
    pub fn from_bytes(bytes: &[u8; ISER_HEADER]) -> Self {
        zerocopy::transmute!(*bytes)
    }

    /// The header's bytes.
    pub fn to_bytes(self) -> [u8; ISER_HEADER] {
        zerocopy::transmute!(self)
    }

    /// An iSCSI PDU follows it.
    pub fn is_control(&self) -> bool {
        self.flags & OPCODE == CONTROL
    }

    /// The memory that write data is read from.
    pub fn write(&self) -> Option<TaggedBase> {
        let base = TaggedBase { stag: STag(self.write_stag.get()), offset: self.write_base.get() };
        (self.flags & WRITE_VALID != 0).then_some(base)
    }

    /// The memory that read data is written to.
    pub fn read(&self) -> Option<TaggedBase> {
        let base = TaggedBase { stag: STag(self.read_stag.get()), offset: self.read_base.get() };
        (self.flags & READ_VALID != 0).then_some(base)
    }
}

impl Default for IserHeader {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a side has to do with Send with Invalidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invalidation {
    /// An initiator takes it; a target uses it.
    Used,
    /// Neither.
    NotUsed,
}

/// What an initiator says while its connection is set up. Both roles' offsets begin where they like, so that neither counts on the other's.
pub fn private_data(invalidation: Invalidation) -> PrivateData {
    let flags = match invalidation {
        Invalidation::Used => NO_ZERO_BASE,
        Invalidation::NotUsed => NO_ZERO_BASE | NO_INVALIDATION,
    };
    PrivateData::new(&[flags, 0, 0, 0]).unwrap_or_default()
}

/// What the peer has said of Send with Invalidate. A peer that says nothing, as RFC 7145 has it over iWARP, gets none; what follows the four bytes is the padding of the
/// transport.
pub(super) fn invalidation_of(private_data: &[u8]) -> Invalidation {
    match private_data.first_chunk::<4>() {
        Some([flags, ..]) if flags & NO_INVALIDATION == 0 => Invalidation::Used,
        _ => Invalidation::NotUsed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by hand from RFC 7145 §9.2.
    #[test]
    fn golden_vector() {
        let vector = [
            0x1c, 0, 0, 0, 0x11, 0x12, 0x13, 0x14, 1, 2, 3, 4, 5, 6, 7, 8, 0x21, 0x22, 0x23, 0x24, 9, 10, 11,
            12, 13, 14, 15, 16,
        ];
        let write = TaggedBase { stag: STag(0x1112_1314), offset: 0x0102_0304_0506_0708 };
        let read = TaggedBase { stag: STag(0x2122_2324), offset: 0x090a_0b0c_0d0e_0f10 };
        assert_eq!(IserHeader::new().writing(write).reading(read).to_bytes(), vector);
        let header = IserHeader::from_bytes(&vector);
        assert!(header.is_control());
        assert_eq!((header.write(), header.read()), (Some(write), Some(read)));
        let plain = IserHeader::new();
        assert_eq!((plain.to_bytes()[0], plain.write(), plain.read()), (0x10, None, None));
        assert!(![0x20, 0x30, 0x00, 0xff].iter().any(|first| {
            let mut bytes = vector;
            bytes[0] = *first;
            IserHeader::from_bytes(&bytes).is_control()
        }));
    }

    /// Linux' initiator says 80 00 00 00.
    #[test]
    fn set_up_words_are_those_of_linux() {
        assert_eq!(private_data(Invalidation::Used).bytes(), [0x80, 0, 0, 0]);
        assert_eq!(private_data(Invalidation::NotUsed).bytes(), [0xc0, 0, 0, 0]);
        for (said, heard) in [
            (&[0x80, 0, 0, 0][..], Invalidation::Used),
            (&[0; 56], Invalidation::Used),
            (&[0xc0, 0, 0, 0], Invalidation::NotUsed),
            (&[0x80], Invalidation::NotUsed),
            (&[], Invalidation::NotUsed),
        ] {
            assert_eq!(invalidation_of(said), heard, "{said:x?}");
        }
    }

    #[test]
    fn offsets_do_not_wrap() {
        let base = TaggedBase { stag: STag(1), offset: u64::MAX - 5 };
        assert_eq!(base.region(5, 1).map(|region| region.offset), Some(u64::MAX));
        assert_eq!(base.region(6, 1), None);
    }
}
