//! SGL descriptors (NVMe Base §4.3.2): where a command's data is.

use wire::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute, transmute_ref};

use crate::status::Status;
use crate::width::from_field;

/// One descriptor as it is on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SglDescriptor {
    /// Address, or the offset within the capsule's data.
    pub address: U64,
    /// Bytes.
    pub length: U32,
    reserved: [u8; 3],
    /// Descriptor type in the upper half, subtype in the lower.
    pub identifier: u8,
}

const _: () = assert!(size_of::<SglDescriptor>() == 16);

/// The same bytes as a Keyed SGL Data Block descriptor: memory of the host that a transport with remote memory reaches by a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct KeyedDescriptor {
    address: U64,
    /// Bytes: 24 bits.
    length: [u8; 3],
    key: U32,
    identifier: u8,
}

const _: () = assert!(size_of::<KeyedDescriptor>() == 16);

/// SGL Data Block with an offset: data within the capsule.
const DATA_BLOCK_OFFSET: u8 = 0x01;
/// Keyed SGL Data Block with an address: data in the host's memory.
const KEYED_DATA_BLOCK: u8 = 0x40;
/// The same, and the key is invalidated when the command has completed.
const KEYED_DATA_BLOCK_INVALIDATE: u8 = 0x4f;
/// Transport SGL Data Block: data moves as the transport says.
const TRANSPORT_DATA_BLOCK: u8 = 0x5a;

/// Bytes that a keyed descriptor cannot say any more.
const KEYED_LIMIT: usize = 1 << 24;

/// Which descriptors a transport has (NVMe Base §4.3.2, and its transport's specification). Every one has data right behind the queue entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SglSupport {
    /// Transport SGL Data Blocks.
    pub transport: bool,
    /// Keyed SGL Data Blocks.
    pub keyed: bool,
    /// Data in the capsule may begin behind its front, and be less than all of it.
    pub offsets: bool,
    /// Bytes of data that a capsule can carry at most, a multiple of 16; a subsystem may offer less.
    pub in_capsule: u32,
}

/// What came with a queue entry in its capsule, and which descriptors its transport has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capsule {
    /// Bytes of data behind the queue entry.
    pub data: usize,
    /// What the queue entry may say of its data.
    pub sgls: SglSupport,
    /// What it says; `None` when its descriptor is of no known kind.
    pub pointer: Option<DataPointer>,
}

/// Memory of the host that a key opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyedBlock {
    /// Where it begins, in the host's words.
    pub address: u64,
    /// What opens it to the controller.
    pub key: u32,
    /// Bytes, fewer than 2^24.
    pub length: usize,
    /// The key is to be invalidated when the command has completed.
    pub invalidate: bool,
}

/// Where a command's data is, as its descriptor says. Whether it may be there, [`check`](Self::check) says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataPointer {
    /// In the capsule, behind the queue entry.
    InCapsule {
        /// Where it begins in the capsule's data, in bytes.
        offset: usize,
        /// Bytes.
        length: usize,
    },
    /// Moved as the transport says.
    Transport {
        /// Bytes.
        length: usize,
    },
    /// In the host's memory.
    Keyed(KeyedBlock),
}

impl DataPointer {
    /// Bytes of data.
    #[inline]
    pub const fn length(self) -> usize {
        match self {
            Self::InCapsule { length, .. } | Self::Transport { length } => length,
            Self::Keyed(block) => block.length,
        }
    }

    /// True when the data came with the command.
    #[inline]
    pub const fn is_in_capsule(self) -> bool {
        matches!(self, Self::InCapsule { .. })
    }

    /// The host's memory, if the data is there.
    #[inline]
    pub const fn keyed_block(self) -> Option<KeyedBlock> {
        if let Self::Keyed(block) = self { Some(block) } else { None }
    }

    /// Whether the data may be there, given what the capsule carries, or the status that refuses it.
    #[inline]
    pub fn check(self, capsule: Capsule) -> Result<Self, Status> {
        match self {
            Self::InCapsule { offset, length } if capsule.sgls.offsets => {
                let room = capsule.data.checked_sub(offset).ok_or(Status::SGL_OFFSET_INVALID.dnr())?;
                if length > room { Err(Status::DATA_SGL_LENGTH_INVALID.dnr()) } else { Ok(self) }
            }
            Self::InCapsule { offset, .. } if offset != 0 => Err(Status::SGL_OFFSET_INVALID.dnr()),
            Self::InCapsule { length, .. } if length != capsule.data => {
                Err(Status::DATA_SGL_LENGTH_INVALID.dnr())
            }
            Self::Transport { .. } if !capsule.sgls.transport => Err(Status::SGL_TYPE_INVALID.dnr()),
            Self::Keyed(_) if !capsule.sgls.keyed => Err(Status::SGL_TYPE_INVALID.dnr()),
            Self::Transport { .. } | Self::Keyed(_) if capsule.data != 0 => Err(Status::INVALID_FIELD.dnr()),
            Self::InCapsule { .. } | Self::Transport { .. } | Self::Keyed(_) => Ok(self),
        }
    }
}

impl SglDescriptor {
    /// The keyed descriptor of no memory: of a command without data, where a transport wants a keyed one of every command.
    pub(crate) const NO_KEYED_DATA: Self = Self::of(KEYED_DATA_BLOCK, 0);

    /// The descriptor of `length` bytes right behind the queue entry.
    pub const fn in_capsule(length: u32) -> Self {
        Self::of(DATA_BLOCK_OFFSET, length)
    }

    /// The descriptor of `length` bytes that the transport moves as it says.
    pub const fn transport(length: u32) -> Self {
        Self::of(TRANSPORT_DATA_BLOCK, length)
    }

    /// The descriptor of memory that a key opens; `None` when it is too long for one.
    pub fn keyed(block: KeyedBlock) -> Option<Self> {
        let length = u32::try_from(block.length).ok().filter(|_| block.length < KEYED_LIMIT)?;
        let [low, middle, high, _] = length.to_le_bytes();
        Some(transmute!(KeyedDescriptor {
            address: U64::new(block.address),
            length: [low, middle, high],
            key: U32::new(block.key),
            identifier: if block.invalidate { KEYED_DATA_BLOCK_INVALIDATE } else { KEYED_DATA_BLOCK },
        }))
    }

    const fn of(identifier: u8, length: u32) -> Self {
        Self { address: U64::ZERO, length: U32::new(length), reserved: [0; 3], identifier }
    }

    /// Where the data is; `None` for a descriptor of no known kind.
    #[inline]
    pub fn data_pointer(&self) -> Option<DataPointer> {
        let length = from_field(self.length.get());
        match self.identifier {
            DATA_BLOCK_OFFSET => {
                Some(DataPointer::InCapsule { offset: wire::index(self.address.get()), length })
            }
            TRANSPORT_DATA_BLOCK => Some(DataPointer::Transport { length }),
            _ => self.keyed_block().map(DataPointer::Keyed),
        }
    }

    /// The memory that it names, if it is a keyed one.
    #[cold]
    fn keyed_block(&self) -> Option<KeyedBlock> {
        let invalidate = match self.identifier {
            KEYED_DATA_BLOCK => false,
            KEYED_DATA_BLOCK_INVALIDATE => true,
            _ => return None,
        };
        let keyed: &KeyedDescriptor = transmute_ref!(self);
        let [low, middle, high] = keyed.length;
        let length = from_field(u32::from_le_bytes([low, middle, high, 0]));
        Some(KeyedBlock { address: keyed.address.get(), key: keyed.key.get(), length, invalidate })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A transport that moves data itself.
    pub(crate) const MOVING: SglSupport =
        SglSupport { transport: true, keyed: false, offsets: false, in_capsule: u32::MAX };
    /// A transport with remote memory.
    const REMOTE: SglSupport =
        SglSupport { transport: false, keyed: true, offsets: true, in_capsule: u32::MAX };

    fn moving(data: usize) -> Capsule {
        Capsule { data, sgls: MOVING, pointer: None }
    }

    fn remote(data: usize) -> Capsule {
        Capsule { data, sgls: REMOTE, pointer: None }
    }

    /// Where a descriptor says that the data of this capsule is.
    fn decode(descriptor: SglDescriptor, capsule: Capsule) -> Result<DataPointer, Status> {
        descriptor.data_pointer().ok_or(Status::SGL_TYPE_INVALID.dnr())?.check(capsule)
    }

    #[test]
    fn golden_vectors() {
        let inside = SglDescriptor::in_capsule(0x1000);
        assert_eq!(inside.as_bytes(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0x01]);
        assert_eq!(decode(inside, moving(0x1000)), Ok(DataPointer::InCapsule { offset: 0, length: 0x1000 }));
        assert_eq!(decode(inside, moving(0x200)), Err(Status::DATA_SGL_LENGTH_INVALID.dnr()));
        let moved = SglDescriptor::transport(0x2_0000);
        assert_eq!(moved.as_bytes(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0x5a]);
        assert_eq!(decode(moved, moving(0)), Ok(DataPointer::Transport { length: 0x2_0000 }));
    }

    #[test]
    fn golden_vectors_of_keyed_blocks() {
        let block = KeyedBlock {
            address: 0x0807_0605_0403_0201,
            key: 0xaabb_ccdd,
            length: 0x12_3456,
            invalidate: false,
        };
        let keyed = SglDescriptor::keyed(block).unwrap();
        assert_eq!(
            keyed.as_bytes(),
            [1, 2, 3, 4, 5, 6, 7, 8, 0x56, 0x34, 0x12, 0xdd, 0xcc, 0xbb, 0xaa, 0x40]
        );
        assert_eq!(decode(keyed, remote(0)), Ok(DataPointer::Keyed(block)));
        assert_eq!(decode(keyed, remote(8)), Err(Status::INVALID_FIELD.dnr()));
        let once = KeyedBlock { invalidate: true, ..block };
        let keyed = SglDescriptor::keyed(once).unwrap();
        assert_eq!(keyed.as_bytes().last(), Some(&0x4f));
        assert_eq!(decode(keyed, remote(0)), Ok(DataPointer::Keyed(once)));
        assert_eq!(DataPointer::Keyed(once).length(), 0x12_3456);
        assert!(SglDescriptor::keyed(KeyedBlock { length: 1 << 24, ..block }).is_none());
    }

    #[test]
    fn data_may_begin_anywhere_in_a_capsule_where_offsets_are() {
        let mut inside = SglDescriptor::in_capsule(8);
        inside.address.set(64);
        assert_eq!(decode(inside, remote(72)), Ok(DataPointer::InCapsule { offset: 64, length: 8 }));
        assert_eq!(decode(inside, remote(71)), Err(Status::DATA_SGL_LENGTH_INVALID.dnr()));
        assert_eq!(decode(inside, remote(63)), Err(Status::SGL_OFFSET_INVALID.dnr()));
        inside.address.set(u64::MAX);
        assert_eq!(decode(inside, remote(72)), Err(Status::SGL_OFFSET_INVALID.dnr()));
    }

    #[test]
    fn foreign_descriptors_are_refused_each_with_its_status() {
        let mut odd = SglDescriptor::transport(8);
        for identifier in (0..=255).filter(|kind| ![DATA_BLOCK_OFFSET, TRANSPORT_DATA_BLOCK].contains(kind)) {
            odd.identifier = identifier;
            assert_eq!(decode(odd, moving(0)), Err(Status::SGL_TYPE_INVALID.dnr()));
        }
        let known = [DATA_BLOCK_OFFSET, KEYED_DATA_BLOCK, KEYED_DATA_BLOCK_INVALIDATE];
        for identifier in (0..=255).filter(|kind| !known.contains(kind)) {
            odd.identifier = identifier;
            assert_eq!(decode(odd, remote(0)), Err(Status::SGL_TYPE_INVALID.dnr()));
        }
        let mut offset = SglDescriptor::in_capsule(8);
        offset.address.set(64);
        assert_eq!(decode(offset, moving(8)), Err(Status::SGL_OFFSET_INVALID.dnr()));
    }
}
