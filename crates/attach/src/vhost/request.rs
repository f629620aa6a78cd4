//! From the buffers of a block device's queue to requests of a volume, and back.

use virtio::Chain;
use virtio::block::{DeviceConfig, FeatureBits, HEADER, Header, Kind, RANGE, Range, SECTOR};
use volume::{Durability, Extent, Features, Geometry, Limits};
use zerocopy::FromBytes;

use super::guest::{GuestMemory, total};
use super::limits::{LARGEST, MOST_SEGMENTS, RANGE_SECTORS};

/// The features of a volume's device.
pub(crate) fn features(features: Features, read_only: bool) -> FeatureBits {
    let always = FeatureBits::SEG_MAX
        | FeatureBits::BLOCK_SIZE
        | FeatureBits::FLUSH
        | FeatureBits::MULTI_QUEUE
        | FeatureBits::INDIRECT
        | FeatureBits::EVENT_INDEX
        | FeatureBits::VERSION_1
        | FeatureBits::PACKED
        | FeatureBits::PROTOCOL_FEATURES;
    if read_only {
        return always | FeatureBits::READ_ONLY;
    }
    let has = |feature, bit| if features.contains(feature) { bit } else { FeatureBits(0) };
    always
        | has(Features::DISCARD, FeatureBits::DISCARD)
        | has(Features::WRITE_ZEROES, FeatureBits::WRITE_ZEROES)
}

/// The configuration of a volume's device with this many queues.
pub(crate) fn configuration(
    geometry: Geometry,
    limits: &Limits,
    features: Features,
    queues: u16,
) -> DeviceConfig {
    let block_sectors = u64::from(geometry.block_size) / SECTOR;
    let most: u32 = wire::saturate(limits.max_discard.saturating_mul(block_sectors).min(RANGE_SECTORS));
    DeviceConfig {
        capacity: (geometry.blocks * block_sectors).into(),
        seg_max: MOST_SEGMENTS.into(),
        block_size: geometry.block_size.into(),
        writeback: 1,
        queues: queues.into(),
        max_discard_sectors: most.into(),
        max_discard_ranges: 1.into(),
        discard_alignment: u32::try_from(block_sectors).unwrap_or(1).into(),
        max_zeroes_sectors: most.into(),
        max_zeroes_ranges: 1.into(),
        zeroes_may_unmap: u8::from(features.contains(Features::DISCARD)),
        ..DeviceConfig::zeroed()
    }
}

/// When a change counts as done for a driver that has taken these features: one that cannot flush relies on each write that was answered
/// (VIRTIO 1.2 §5.2.6.2).
pub(crate) fn durability(taken: FeatureBits) -> Durability {
    if taken.has(FeatureBits::FLUSH) { Durability::Cached } else { Durability::Durable }
}

/// What a device's requests have to fit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) geometry: Geometry,
    pub(crate) limits: Limits,
    pub(crate) read_only: bool,
}

/// What a buffer asks for, and how much of it is data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Fill the memory.
    Read(Extent),
    /// Write what is in it behind the header.
    Write(Extent),
    Flush,
    Discard(Extent),
    WriteZeroes(Extent, bool),
    /// Say what the device calls itself.
    GetId,
    /// It is answered as failed.
    Failed,
    /// It is answered as not known.
    Unsupported,
}

/// A buffer as a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub(crate) wish: Wish,
    /// Bytes of data: to be written behind the header, or to be filled before the status.
    pub(crate) len: usize,
}

impl Shape {
    /// The blocks of `bytes` bytes from `sector`, if they are whole and within the volume.
    fn extent(&self, sector: u64, bytes: u64) -> Option<Extent> {
        let block = u64::from(self.geometry.block_size);
        let offset = sector.checked_mul(SECTOR)?;
        if !offset.is_multiple_of(block) || !bytes.is_multiple_of(block) {
            return None;
        }
        let extent = Extent::new(offset / block, bytes / block);
        self.geometry.check(extent).map(|_| extent)
    }

    /// What a buffer asks for. `None` if it has no room for a status: nobody can be answered.
    pub(crate) fn decode(&self, memory: &GuestMemory, chain: &Chain) -> Option<Decoded> {
        let (readable, writable) = (total(chain.to_read()), total(chain.to_write()));
        let room = writable.checked_sub(1)?;
        let failed = |wish| Some(Decoded { wish, len: 0 });
        let mut bytes = [0; HEADER];
        if !memory.has_all(chain.to_read())
            || !memory.has_all(chain.to_write())
            || !memory.read(chain.to_read(), &mut bytes)
        {
            return failed(Wish::Failed);
        }
        let Ok(header) = Header::read_from_bytes(&bytes) else { return failed(Wish::Failed) };
        let data = readable - HEADER;
        let Some(kind) = Kind::of(header.kind()) else { return failed(Wish::Unsupported) };
        if kind.changes() && self.read_only {
            return failed(Wish::Failed);
        }
        let longest = wire::index(u64::from(LARGEST));
        let place = |len: usize| self.extent(header.sector(), wire::widen(len)).filter(|_| len <= longest);
        Some(match kind {
            Kind::Read => place(room).map_or(Decoded { wish: Wish::Failed, len: 0 }, |extent| Decoded {
                wish: Wish::Read(extent),
                len: room,
            }),
            Kind::Write => place(data).map_or(Decoded { wish: Wish::Failed, len: 0 }, |extent| Decoded {
                wish: Wish::Write(extent),
                len: data,
            }),
            Kind::Flush => Decoded { wish: Wish::Flush, len: 0 },
            Kind::GetId => Decoded { wish: Wish::GetId, len: room },
            Kind::Discard | Kind::WriteZeroes => {
                Decoded { wish: self.zeroing(memory, chain, (kind, data)), len: 0 }
            }
        })
    }

    /// A discard or write zeroes, whose range lies behind the header.
    fn zeroing(&self, memory: &GuestMemory, chain: &Chain, (kind, data): (Kind, usize)) -> Wish {
        let mut bytes = [0; HEADER + RANGE];
        if data != RANGE || !memory.read(chain.to_read(), &mut bytes) {
            return Wish::Unsupported;
        }
        let Ok(range) = Range::read_from_bytes(&bytes[HEADER..]) else { return Wish::Failed };
        let place = self.extent(range.sector(), u64::from(range.sectors()) * SECTOR);
        let (Some(extent), Some(may_unmap)) = (place, range.may_unmap()) else { return Wish::Unsupported };
        if extent.blocks > self.limits.max_discard {
            return Wish::Failed;
        }
        if kind == Kind::Discard { Wish::Discard(extent) } else { Wish::WriteZeroes(extent, may_unmap) }
    }
}

/// What the device calls itself: 20 bytes at most (§5.2.6).
pub(crate) const ID: &[u8] = b"linerate";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_tells_size_and_blocks() {
        let geometry = Geometry::of(1 << 20, 4096).unwrap();
        let config = configuration(geometry, &Limits::default(), Features::DISCARD, 2);
        assert_eq!((config.capacity.get(), config.block_size.get(), config.queues.get()), (2048, 4096, 2));
        assert_eq!(config.zeroes_may_unmap, 1);
    }

    #[test]
    fn a_guest_that_cannot_flush_has_durable_writes() {
        let offered = features(Features::all(), false);
        assert_eq!(durability(offered), Durability::Cached);
        assert_eq!(durability(offered.without(FeatureBits::FLUSH)), Durability::Durable);
    }

    #[test]
    fn a_read_only_device_offers_no_changes() {
        let bits = features(Features::all(), true);
        assert!(!bits.has(FeatureBits::DISCARD) && !bits.has(FeatureBits::WRITE_ZEROES));
        assert!(bits.has(FeatureBits::READ_ONLY));
    }
}
