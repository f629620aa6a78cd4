//! The block device (VIRTIO 1.2 §5.2): its features, its configuration and its requests, little-endian throughout.

use core::ops::BitOr;

use wire::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a sector, which offsets are counted in whatever the block size.
pub const SECTOR: u64 = 512;

/// What a device offers, and a driver takes (§5.2.3, §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FeatureBits(pub u64);

impl FeatureBits {
    /// The configuration has the most bytes of a segment.
    pub const SIZE_MAX: Self = Self(1 << 1);
    /// The configuration has the most segments of a request.
    pub const SEG_MAX: Self = Self(1 << 2);
    /// The device is read-only.
    pub const READ_ONLY: Self = Self(1 << 5);
    /// The configuration has the block size.
    pub const BLOCK_SIZE: Self = Self(1 << 6);
    /// Flushes are known.
    pub const FLUSH: Self = Self(1 << 9);
    /// The configuration tells of alignment.
    pub const TOPOLOGY: Self = Self(1 << 10);
    /// The driver may change between write-through and write-back.
    pub const CONFIG_WRITEBACK: Self = Self(1 << 11);
    /// There are several queues.
    pub const MULTI_QUEUE: Self = Self(1 << 12);
    /// Discards are known.
    pub const DISCARD: Self = Self(1 << 13);
    /// Write zeroes is known.
    pub const WRITE_ZEROES: Self = Self(1 << 14);
    /// Descriptors may stand for tables (§2.7.5.3).
    pub const INDIRECT: Self = Self(1 << 28);
    /// Either side may say which buffer it waits for (§2.7.10).
    pub const EVENT_INDEX: Self = Self(1 << 29);
    /// vhost-user's own: there are protocol features to agree on.
    pub const PROTOCOL_FEATURES: Self = Self(1 << 30);
    /// It is a device of VIRTIO 1.
    pub const VERSION_1: Self = Self(1 << 32);
    /// Queues may be packed (§2.8).
    pub const PACKED: Self = Self(1 << 34);

    /// Whether all of these are among them.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Those that both have.
    #[must_use]
    pub const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those that the other has not.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOr for FeatureBits {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What a request asks for (§5.2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Fill the memory from the sector on.
    Read,
    /// Write the memory from the sector on.
    Write,
    /// Make what was written durable.
    Flush,
    /// Say what the device calls itself: 20 bytes.
    GetId,
    /// Sectors that are no longer needed, as [`Range`]s.
    Discard,
    /// Sectors that are to read as zeros, as [`Range`]s.
    WriteZeroes,
}

impl Kind {
    /// The number.
    pub const fn number(self) -> u32 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Flush => 4,
            Self::GetId => 8,
            Self::Discard => 11,
            Self::WriteZeroes => 13,
        }
    }

    /// Of a number; `None` for one that is not known here.
    pub const fn of(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Read),
            1 => Some(Self::Write),
            4 => Some(Self::Flush),
            8 => Some(Self::GetId),
            11 => Some(Self::Discard),
            13 => Some(Self::WriteZeroes),
            _ => None,
        }
    }

    /// Whether it changes the volume.
    pub const fn changes(self) -> bool {
        matches!(self, Self::Write | Self::Discard | Self::WriteZeroes)
    }
}

/// What a request came to: its last byte, which the device writes (§5.2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Done.
    Ok,
    /// Failed.
    Failed,
    /// Not known to the device.
    Unsupported,
}

impl Status {
    /// The byte.
    pub const fn byte(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failed => 1,
            Self::Unsupported => 2,
        }
    }

    /// Of a byte; what no device says is a failure.
    pub const fn of(byte: u8) -> Self {
        match byte {
            0 => Self::Ok,
            2 => Self::Unsupported,
            _ => Self::Failed,
        }
    }
}

/// The beginning of every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Header {
    kind: U32,
    reserved: U32,
    sector: U64,
}

/// Bytes of a [`Header`].
pub const HEADER: usize = 16;
const _: () = assert!(size_of::<Header>() == HEADER);

impl Header {
    /// A request at a sector.
    pub fn new(kind: Kind, sector: u64) -> Self {
        Self { kind: kind.number().into(), reserved: 0.into(), sector: sector.into() }
    }

    /// The number of what it asks for.
    pub fn kind(&self) -> u32 {
        self.kind.get()
    }

    /// The first sector.
    pub fn sector(&self) -> u64 {
        self.sector.get()
    }
}

/// What becomes of the space of zeroed sectors (§5.2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Space {
    /// It stays the volume's.
    Stays = 0,
    /// It may be released.
    MayGo = 1,
}

/// What a discard or write zeroes concerns (§5.2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Range {
    sector: U64,
    sectors: U32,
    flags: U32,
}

/// Bytes of a [`Range`].
pub const RANGE: usize = 16;
const _: () = assert!(size_of::<Range>() == RANGE);

impl Range {
    /// Sectors from `sector` on.
    pub fn new(sector: u64, sectors: u32, space: Space) -> Self {
        Self { sector: sector.into(), sectors: sectors.into(), flags: (space as u32).into() }
    }

    /// The first sector.
    pub fn sector(&self) -> u64 {
        self.sector.get()
    }

    /// Sectors.
    pub fn sectors(&self) -> u32 {
        self.sectors.get()
    }

    /// Whether zeroed space may be released; `None` when an unknown flag is set.
    pub fn may_unmap(&self) -> Option<bool> {
        match self.flags.get() {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

/// The device's configuration (§5.2.4), up to what write zeroes may do. Which fields mean something depends on the features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DeviceConfig {
    /// Sectors.
    pub capacity: U64,
    /// Bytes of a segment, at most.
    pub size_max: U32,
    /// Segments of a request, at most.
    pub seg_max: U32,
    /// Of a geometry that nobody uses.
    pub cylinders: U16,
    /// As above.
    pub heads: u8,
    /// As above.
    pub sectors: u8,
    /// Bytes of a block.
    pub block_size: U32,
    /// Blocks of a physical block, as a power of two.
    pub physical_block_exponent: u8,
    /// Blocks before the first aligned one.
    pub alignment_offset: u8,
    /// Blocks of the least I/O that is not slow.
    pub min_io_size: U16,
    /// Blocks of the best one.
    pub opt_io_size: U32,
    /// 1 while the device has a cache that a flush empties.
    pub writeback: u8,
    /// Zero.
    pub unused: u8,
    /// Queues.
    pub queues: U16,
    /// Sectors of a discard's range, at most.
    pub max_discard_sectors: U32,
    /// Ranges of a discard, at most.
    pub max_discard_ranges: U32,
    /// Sectors that a discard's ranges are a multiple of.
    pub discard_alignment: U32,
    /// Sectors of a range of write zeroes, at most.
    pub max_zeroes_sectors: U32,
    /// Its ranges, at most.
    pub max_zeroes_ranges: U32,
    /// 1 if write zeroes may release space.
    pub zeroes_may_unmap: u8,
    /// Zeros.
    pub unused_too: [u8; 3],
}

/// Bytes of a [`DeviceConfig`].
pub const CONFIG: usize = 60;
const _: () = assert!(size_of::<DeviceConfig>() == CONFIG);

impl DeviceConfig {
    /// One that says nothing.
    pub fn zeroed() -> Self {
        Self::new_zeroed()
    }

    /// From as many bytes of it as a device has; the rest says nothing.
    pub fn of(bytes: &[u8]) -> Self {
        let mut config = Self::new_zeroed();
        for (place, byte) in config.as_mut_bytes().iter_mut().zip(bytes) {
            *place = *byte;
        }
        config
    }

    /// Fills `part` with its bytes from `offset` on; behind its end are zeros.
    pub fn part(&self, offset: usize, part: &mut [u8]) {
        let known = self.as_bytes().get(offset..).unwrap_or_default();
        let all = known.iter().copied().chain(core::iter::repeat(0));
        part.iter_mut().zip(all).for_each(|(place, byte)| *place = byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_statuses_are_those_of_the_standard() {
        for number in 0..32 {
            assert!(Kind::of(number).is_none_or(|kind| kind.number() == number), "{number}");
        }
        assert_eq!([0, 1, 4, 8, 11, 13].map(|number| Kind::of(number).is_some()), [true; 6]);
        for status in [Status::Ok, Status::Failed, Status::Unsupported] {
            assert_eq!(Status::of(status.byte()), status);
        }
        assert_eq!(Status::of(0xff), Status::Failed);
    }

    #[test]
    fn requests_lie_as_the_standard_has_them() {
        let header = Header::new(Kind::WriteZeroes, 0x0102_0304_0506_0708);
        assert_eq!(header.as_bytes(), [13, 0, 0, 0, 0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1]);
        let range = Range::new(3, 5, Space::MayGo);
        assert_eq!(range.as_bytes(), [3, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(range.may_unmap(), Some(true));
        assert_eq!(Range::read_from_bytes(&[0xff; 16]).unwrap().may_unmap(), None);
    }

    #[test]
    fn a_configuration_can_be_read_in_parts_and_behind_its_end() {
        let config = DeviceConfig {
            capacity: 2048.into(),
            block_size: 4096.into(),
            queues: 2.into(),
            zeroes_may_unmap: 1,
            ..DeviceConfig::zeroed()
        };
        let part = |offset, len| {
            let mut bytes = alloc::vec![0xee; len];
            config.part(offset, &mut bytes);
            bytes
        };
        assert_eq!(part(0, 8), 2048_u64.to_le_bytes());
        assert_eq!((part(20, 4), part(34, 2)), (4096_u32.to_le_bytes().to_vec(), alloc::vec![2, 0]));
        assert_eq!((part(56, 8), part(600, 2)), (alloc::vec![1, 0, 0, 0, 0, 0, 0, 0], alloc::vec![0, 0]));
        assert_eq!(DeviceConfig::of(&part(0, 36)), DeviceConfig { zeroes_may_unmap: 0, ..config });
    }
}
