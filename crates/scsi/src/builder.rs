//! An initiator's side: command descriptor blocks, and what their answers say.

use volume::{Allocation, Durability, Extent, Features, Geometry, VolumeErrorKind};

use crate::cdb::Cdb;
use crate::error::volume_error;
pub use crate::reserve::{RESERVE_LIST, ReserveOut, read_full_status, reserve_in, reserve_out};
use crate::sense::{Additional, SenseKey};
use crate::vpd::incarnation as mark;

/// A command descriptor block of 16 bytes, the rest of a shorter one being zero.
pub type Block = [u8; 16];

/// Bytes of UNMAP's parameter list for one extent.
pub const UNMAP_LIST: usize = 24;

fn sixteen(opcode: u8, flags: u8, extent: Extent) -> Block {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[1] = flags;
    cdb[2..10].copy_from_slice(&extent.start.to_be_bytes());
    cdb[10..14].copy_from_slice(&wire::bounded::<u32>(extent.blocks).to_be_bytes());
    cdb
}

/// TEST UNIT READY.
pub fn test_unit_ready() -> Block {
    [0; 16]
}

/// INQUIRY of a vital product data page, or of standard data.
pub fn inquiry(page: Option<u8>, allocation: u16) -> Block {
    let [high, low] = allocation.to_be_bytes();
    let mut cdb = [0; 16];
    cdb[..6].copy_from_slice(&[0x12, u8::from(page.is_some()), page.unwrap_or(0), high, low, 0]);
    cdb
}

/// READ CAPACITY (16).
pub fn read_capacity(allocation: u32) -> Block {
    let mut cdb = [0; 16];
    cdb[0] = 0x9e;
    cdb[1] = 0x10;
    cdb[10..14].copy_from_slice(&allocation.to_be_bytes());
    cdb
}

/// REPORT LUNS of all but well-known units.
pub fn report_luns(allocation: u32) -> Block {
    let mut cdb = [0; 16];
    cdb[0] = 0xa0;
    cdb[6..10].copy_from_slice(&allocation.to_be_bytes());
    cdb
}

/// MODE SENSE (6) of the caching page, without block descriptors.
pub fn mode_sense_caching(allocation: u8) -> Block {
    let mut cdb = [0; 16];
    cdb[..6].copy_from_slice(&[0x1a, 0x08, 0x08, 0, allocation, 0]);
    cdb
}

/// READ (16).
pub fn read(extent: Extent) -> Block {
    sixteen(0x88, 0, extent)
}

/// The FUA bit, where a write must be durable.
const fn force_unit_access(durability: Durability) -> u8 {
    match durability {
        Durability::Durable => 0x08,
        Durability::Cached => 0,
    }
}

/// WRITE (16).
pub fn write(extent: Extent, durability: Durability) -> Block {
    sixteen(0x8a, force_unit_access(durability), extent)
}

/// SYNCHRONIZE CACHE (16) of everything.
pub fn synchronize_cache() -> Block {
    sixteen(0x91, 0, Extent::new(0, 0))
}

/// What WRITE SAME may do instead of writing: its UNMAP bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmap {
    /// Blocks are written.
    Never,
    /// Blocks may be unmapped if they then read as what would have been written.
    Allowed,
}

/// WRITE SAME (16) with one block of zeros to follow.
pub fn write_same(extent: Extent, unmap: Unmap) -> Block {
    let flags = match unmap {
        Unmap::Never => 0,
        Unmap::Allowed => 0x08,
    };
    sixteen(0x93, flags, extent)
}

/// What VERIFY looks at: its BYTCHK field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteCheck {
    /// Whether the medium can be read.
    Medium,
    /// Whether the blocks are the same as the data to follow.
    Data,
}

/// VERIFY (16).
pub fn verify(extent: Extent, byte_check: ByteCheck) -> Block {
    let flags = match byte_check {
        ByteCheck::Medium => 0,
        ByteCheck::Data => 0x02,
    };
    sixteen(0x8f, flags, extent)
}

/// COMPARE AND WRITE.
pub fn compare_and_write(extent: Extent, durability: Durability) -> Block {
    let mut cdb = sixteen(0x89, force_unit_access(durability), Extent::new(extent.start, 0));
    cdb[13] = wire::bounded::<u8>(extent.blocks);
    cdb
}

/// GET LBA STATUS from a block on.
pub fn lba_status(start: u64, allocation: u32) -> Block {
    sixteen(0x9e, 0x12, Extent::new(start, u64::from(allocation)))
}

/// UNMAP with a parameter list for one extent to follow.
pub fn unmap() -> Block {
    let mut cdb = [0; 16];
    cdb[0] = 0x42;
    cdb[8] = 24;
    cdb
}

/// UNMAP's parameter list.
pub fn unmap_list(extent: Extent) -> [u8; UNMAP_LIST] {
    let mut list = [0; UNMAP_LIST];
    list[1] = 22;
    list[3] = 16;
    list[8..16].copy_from_slice(&extent.start.to_be_bytes());
    list[16..20].copy_from_slice(&wire::bounded::<u32>(extent.blocks).to_be_bytes());
    list
}

/// What READ CAPACITY (16) data says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// The size.
    pub geometry: Geometry,
    /// Blocks can be unmapped, and then read as zeros (LBPME and LBPRZ).
    pub unmaps: bool,
}

/// Reads READ CAPACITY (16) data. `None` for blocks of another size than 512 or 4096 bytes.
pub fn capacity(data: &[u8]) -> Option<Capacity> {
    let reader = Cdb(data);
    if data.len() < 16 {
        return None;
    }
    let block_size = reader.u32(8);
    // What a volume's geometry allows; the exponent below then cannot overflow.
    if !matches!(block_size, 512 | 4096) {
        return None;
    }
    let physical_block_size = block_size << reader.bits(13, 3, 0);
    let geometry = Geometry { blocks: reader.u64(0).checked_add(1)?, block_size, physical_block_size };
    // A size in bytes that 64 bits cannot hold is none.
    geometry.blocks.checked_mul(block_size.into())?;
    Some(Capacity { geometry, unmaps: reader.bit(14, 7) && reader.bit(14, 6) })
}

/// What the Block Limits page says; zero where it sets no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockLimits {
    /// Blocks in one COMPARE AND WRITE; zero when it is not supported.
    pub compare_and_write: u8,
    /// Blocks in one transfer.
    pub transfer: u32,
    /// Blocks in one UNMAP.
    pub unmap: u32,
    /// Blocks in the unit that UNMAP releases.
    pub granularity: u32,
    /// Blocks in one WRITE SAME.
    pub write_same: u64,
}

/// Reads the Block Limits page.
pub fn block_limits(data: &[u8]) -> Option<BlockLimits> {
    let reader = Cdb(data);
    if data.len() < 16 || reader.u8(1) != 0xb0 {
        return None;
    }
    Some(BlockLimits {
        compare_and_write: reader.u8(5),
        transfer: reader.u32(8),
        unmap: reader.u32(20),
        granularity: reader.u32(28),
        write_same: reader.u64(36),
    })
}

/// The code of the page that [`incarnation`] reads.
pub const INCARNATION: u8 = mark::CODE;

/// Reads the incarnation mark of a logical unit of ours.
pub fn incarnation(data: &[u8]) -> Option<[u8; 16]> {
    let mark = data.get(4..)?.strip_prefix(mark::MAGIC)?;
    (data.get(1) == Some(&INCARNATION)).then(|| mark.first_chunk().copied()).flatten()
}

/// What MODE SENSE (6) data of the caching page says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caching {
    /// Whether there is a volatile cache, and whether the medium is write-protected.
    pub features: Features,
    /// Commands may have the FUA bit set (SBC-4 §6.5.1, DPOFUA).
    pub fua: bool,
}

/// Reads MODE SENSE (6) data of the caching page.
pub fn caching(data: &[u8]) -> Option<Caching> {
    let reader = Cdb(data);
    if data.len() < 7 || reader.u8(4) & 0x3f != 0x08 {
        return None;
    }
    let mut features = Features::empty();
    features.set(Features::VOLATILE_CACHE, reader.bit(6, 2));
    features.set(Features::READ_ONLY, reader.bit(2, 7));
    Some(Caching { features, fua: reader.bit(2, 4) })
}

/// The first descriptor of GET LBA STATUS data.
pub fn first_status(data: &[u8]) -> Option<Allocation> {
    let reader = Cdb(data);
    (data.len() >= 24).then(|| {
        let extent = Extent::new(reader.u64(8), u64::from(reader.u32(16)));
        Allocation { extent, mapped: reader.bits(20, 3, 0) == 0 }
    })
}

/// What sense data says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sense {
    /// The sense key.
    pub key: SenseKey,
    /// The additional sense code and its qualifier.
    pub code: Additional,
    /// The INFORMATION field, if it is valid.
    pub information: Option<u64>,
}

/// Reads sense data, in either format.
pub fn sense(data: &[u8]) -> Option<Sense> {
    let reader = Cdb(data);
    let (key, code, information) = match reader.bits(0, 6, 0) {
        0x70 | 0x71 => {
            let valid = reader.bit(0, 7);
            let information = valid.then(|| u64::from(reader.u32(3)));
            (reader.bits(2, 3, 0), Additional(reader.u8(12), reader.u8(13)), information)
        }
        0x72 | 0x73 => {
            let information = (reader.u8(8) == 0 && reader.u8(7) >= 12).then(|| reader.u64(12));
            (reader.bits(1, 3, 0), Additional(reader.u8(2), reader.u8(3)), information)
        }
        _ => return None,
    };
    Some(Sense { key: SenseKey::from_wire(key)?, code, information })
}

/// What a CHECK CONDITION with this sense data means for a request.
pub fn request_error(data: &[u8]) -> VolumeErrorKind {
    sense(data).map_or(VolumeErrorKind::Media, |Sense { key, code, information }| {
        volume_error(key, code, information)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caching_page_says_so_as_soon_as_its_flags_are_there() {
        let page = [0, 0, 0x90, 0, 0x88, 0x12, 0x04, 0];
        let cached = Features::VOLATILE_CACHE | Features::READ_ONLY;
        for length in 0..=page.len() {
            let expected = (length >= 7).then_some(Caching { features: cached, fua: true });
            assert_eq!(caching(&page[..length]), expected, "of {length} bytes");
        }
    }

    #[test]
    fn only_blocks_that_volumes_have_are_taken() {
        let mut data = [0; 32];
        data[7] = 99;
        data[13] = 0x0f;
        for (block_size, physical) in
            [(512_u32, Some(1 << 24)), (4096, Some(1 << 27)), (1 << 31, None), (1024, None)]
        {
            data[8..12].copy_from_slice(&block_size.to_be_bytes());
            let found = capacity(&data).map(|capacity| capacity.geometry.physical_block_size);
            assert_eq!(found, physical, "{block_size}");
        }
        data[..8].fill(0xff);
        assert_eq!(capacity(&data), None, "2^64 blocks");
    }
}
