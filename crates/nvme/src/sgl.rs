//! SGL descriptors (NVMe Base §4.3.2): where a command's data is.

use wire::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

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

/// SGL Data Block with an offset: data within the capsule.
const DATA_BLOCK_OFFSET: u8 = 0x01;
/// Transport SGL Data Block: data moves as the transport says.
const TRANSPORT_DATA_BLOCK: u8 = 0x5a;

/// Where a command's data is, once its descriptor was found legal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataPointer {
    /// In the capsule, right behind the queue entry.
    InCapsule {
        /// Bytes.
        length: usize,
    },
    /// Moved by data PDUs.
    Transport {
        /// Bytes.
        length: usize,
    },
}

impl DataPointer {
    /// Bytes of data.
    pub const fn length(self) -> usize {
        match self {
            Self::InCapsule { length } | Self::Transport { length } => length,
        }
    }
}

impl SglDescriptor {
    /// The descriptor of `length` bytes right behind the queue entry.
    pub const fn in_capsule(length: u32) -> Self {
        Self::of(DATA_BLOCK_OFFSET, length)
    }

    /// The descriptor of `length` bytes that data PDUs move.
    pub const fn transport(length: u32) -> Self {
        Self::of(TRANSPORT_DATA_BLOCK, length)
    }

    const fn of(identifier: u8, length: u32) -> Self {
        Self { address: U64::ZERO, length: U32::new(length), reserved: [0; 3], identifier }
    }

    /// True when it says that the data is in the capsule.
    pub(crate) const fn is_in_capsule(&self) -> bool {
        self.identifier == DATA_BLOCK_OFFSET
    }

    /// Where the data is, given that the capsule carries `in_capsule` bytes, or the status that refuses it.
    pub fn decode(&self, in_capsule: usize) -> Result<DataPointer, Status> {
        let length = from_field(self.length.get());
        match self.identifier {
            DATA_BLOCK_OFFSET if self.address.get() != 0 => Err(Status::SGL_OFFSET_INVALID.dnr()),
            DATA_BLOCK_OFFSET if length != in_capsule => Err(Status::DATA_SGL_LENGTH_INVALID.dnr()),
            DATA_BLOCK_OFFSET => Ok(DataPointer::InCapsule { length }),
            TRANSPORT_DATA_BLOCK if in_capsule != 0 => Err(Status::INVALID_FIELD.dnr()),
            TRANSPORT_DATA_BLOCK => Ok(DataPointer::Transport { length }),
            _ => Err(Status::SGL_TYPE_INVALID.dnr()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vectors() {
        let inside = SglDescriptor::in_capsule(0x1000);
        assert_eq!(inside.as_bytes(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0x01]);
        assert_eq!(inside.decode(0x1000), Ok(DataPointer::InCapsule { length: 0x1000 }));
        assert_eq!(inside.decode(0x200), Err(Status::DATA_SGL_LENGTH_INVALID.dnr()));
        let moved = SglDescriptor::transport(0x2_0000);
        assert_eq!(moved.as_bytes(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0x5a]);
        assert_eq!(moved.decode(0), Ok(DataPointer::Transport { length: 0x2_0000 }));
    }

    #[test]
    fn foreign_descriptors_are_refused_each_with_its_status() {
        let mut odd = SglDescriptor::transport(8);
        for identifier in (0..=255).filter(|kind| ![DATA_BLOCK_OFFSET, TRANSPORT_DATA_BLOCK].contains(kind)) {
            odd.identifier = identifier;
            assert_eq!(odd.decode(0), Err(Status::SGL_TYPE_INVALID.dnr()));
        }
        let mut offset = SglDescriptor::in_capsule(8);
        offset.address.set(64);
        assert_eq!(offset.decode(8), Err(Status::SGL_OFFSET_INVALID.dnr()));
    }
}
