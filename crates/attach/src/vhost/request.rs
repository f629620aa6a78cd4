//! Requests of a virtio block device and its configuration, as they lie in the guest's memory (VIRTIO 1.2 §5.2.4, §5.2.6):
//! little-endian throughout.

use volume::{Durability, Features, Geometry};
use wire::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};
use zerocopy::{Immutable, KnownLayout, Unaligned};

use super::limits::{LARGEST, MOST_SEGMENTS};
use crate::convert::index;

/// Bytes of a sector, which offsets are counted in whatever the block size.
pub(crate) const SECTOR: u64 = 512;

/// Feature bits that are offered to every guest.
pub(crate) mod feature {
    pub(crate) const SEG_MAX: u64 = 1 << 2;
    pub(crate) const READ_ONLY: u64 = 1 << 5;
    pub(crate) const BLOCK_SIZE: u64 = 1 << 6;
    pub(crate) const FLUSH: u64 = 1 << 9;
    pub(crate) const MULTI_QUEUE: u64 = 1 << 12;
    pub(crate) const DISCARD: u64 = 1 << 13;
    pub(crate) const WRITE_ZEROES: u64 = 1 << 14;
    pub(crate) const INDIRECT: u64 = 1 << 28;
    pub(crate) const EVENT_INDEX: u64 = 1 << 29;
    pub(crate) const VERSION_1: u64 = 1 << 32;
}

/// Kinds of requests.
pub(crate) mod kind {
    pub(crate) const READ: u32 = 0;
    pub(crate) const WRITE: u32 = 1;
    pub(crate) const FLUSH: u32 = 4;
    pub(crate) const GET_ID: u32 = 8;
    pub(crate) const DISCARD: u32 = 11;
    pub(crate) const WRITE_ZEROES: u32 = 13;
}

/// What a request came to, in its last byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// Done.
    Ok,
    /// Failed.
    Failed,
    /// Not known here.
    Unsupported,
}

impl Status {
    /// The byte.
    pub(crate) fn byte(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failed => 1,
            Self::Unsupported => 2,
        }
    }
}

/// The header of every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Header {
    /// One of [`kind`].
    pub(crate) kind: U32,
    reserved: U32,
    /// The first sector.
    pub(crate) sector: U64,
}

const _: () = assert!(size_of::<Header>() == 16);

/// What a discard or zeroing concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Segment {
    /// The first sector.
    pub(crate) sector: U64,
    /// Sectors.
    pub(crate) sectors: U32,
    /// Bit 0: the space may be released.
    flags: U32,
}

const _: () = assert!(size_of::<Segment>() == 16);

impl Segment {
    /// Whether zeroed space may be released; `None` when an unknown flag is set.
    pub(crate) fn may_unmap(&self) -> Option<bool> {
        match self.flags.get() {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

/// The device's configuration, as far as it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct DeviceConfig {
    capacity: U64,
    size_max: U32,
    seg_max: U32,
    cylinders: U16,
    heads: u8,
    sectors: u8,
    blk_size: U32,
    physical_block_exp: u8,
    alignment_offset: u8,
    min_io_size: U16,
    opt_io_size: U32,
    writeback: u8,
    unused: u8,
    num_queues: U16,
    max_discard_sectors: U32,
    max_discard_seg: U32,
    discard_sector_alignment: U32,
    max_write_zeroes_sectors: U32,
    max_write_zeroes_seg: U32,
    write_zeroes_may_unmap: u8,
    unused_too: [u8; 3],
}

const _: () = assert!(size_of::<DeviceConfig>() == 60);

impl DeviceConfig {
    /// The configuration of a volume with this many queues.
    pub(crate) fn of(geometry: Geometry, features: Features, queues: u16) -> Self {
        let block_sectors = u64::from(geometry.block_size) / SECTOR;
        let most = wire::bounded::<u32>(u64::from(LARGEST) * 64 / SECTOR);
        Self {
            capacity: (geometry.blocks * block_sectors).into(),
            size_max: 0.into(),
            seg_max: MOST_SEGMENTS.into(),
            cylinders: 0.into(),
            heads: 0,
            sectors: 0,
            blk_size: geometry.block_size.into(),
            physical_block_exp: 0,
            alignment_offset: 0,
            min_io_size: 0.into(),
            opt_io_size: 0.into(),
            writeback: 1,
            unused: 0,
            num_queues: queues.into(),
            max_discard_sectors: most.into(),
            max_discard_seg: 1.into(),
            discard_sector_alignment: u32::try_from(block_sectors).unwrap_or(1).into(),
            max_write_zeroes_sectors: most.into(),
            max_write_zeroes_seg: 1.into(),
            write_zeroes_may_unmap: u8::from(features.contains(Features::DISCARD)),
            unused_too: [0; 3],
        }
    }

    /// A part of the configuration; behind its end are zeros.
    pub(crate) fn part(&self, offset: u32, length: u32) -> Vec<u8> {
        let place = |number: u32| index(u64::from(number));
        let known = self.as_bytes().get(place(offset)..).unwrap_or_default();
        let mut part: Vec<u8> = known.iter().copied().take(place(length)).collect();
        part.resize(place(length), 0);
        part
    }
}

/// The feature bits of a volume.
pub(crate) fn features(features: Features, read_only: bool) -> u64 {
    let always = feature::SEG_MAX
        | feature::BLOCK_SIZE
        | feature::FLUSH
        | feature::MULTI_QUEUE
        | feature::INDIRECT
        | feature::EVENT_INDEX
        | feature::VERSION_1;
    if read_only {
        return always | feature::READ_ONLY;
    }
    let discard = if features.contains(Features::DISCARD) { feature::DISCARD } else { 0 };
    always | discard | feature::WRITE_ZEROES
}

/// When a change counts as done for a guest that has taken these features: one that cannot flush relies on each write that was answered
/// (VIRTIO 1.2 §5.2.6.2).
pub(crate) fn durability(acknowledged: u64) -> Durability {
    if acknowledged & feature::FLUSH == 0 { Durability::Durable } else { Durability::Cached }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_tells_size_and_blocks() {
        let geometry = Geometry::of(1 << 20, 4096).unwrap();
        let config = DeviceConfig::of(geometry, Features::DISCARD, 2);
        assert_eq!(config.part(0, 8), 2048_u64.to_le_bytes());
        assert_eq!(config.part(20, 4), 4096_u32.to_le_bytes());
        assert_eq!(config.part(34, 2), [2, 0]);
        assert_eq!(config.part(56, 8), [1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(config.part(600, 2), [0, 0]);
    }

    #[test]
    fn a_guest_that_cannot_flush_has_durable_writes() {
        let offered = features(Features::all(), false);
        assert_eq!(durability(offered), Durability::Cached);
        assert_eq!(durability(offered & !feature::FLUSH), Durability::Durable);
    }

    #[test]
    fn a_read_only_device_offers_no_changes() {
        let bits = features(Features::all(), true);
        assert_eq!(bits & (feature::DISCARD | feature::WRITE_ZEROES), 0);
        assert_ne!(bits & feature::READ_ONLY, 0);
    }
}
