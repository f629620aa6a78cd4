//! The superblock of the fast volume: whose cache this is, how it is laid out, and whether it was left in order.
//!
//! There are two, written in turn: the one with the higher sequence counts. Each is one block, which is written whole or not at all. All numbers are
//! little-endian.

use wire::{Reader, Truncated, crc32c};

use crate::limits::NAME;

/// What a superblock begins with.
const MAGIC: [u8; 16] = *b"LinerateCache\0\0\x01";
/// The version of the layout.
const VERSION: u32 = 1;

/// What a superblock says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// Moves with each one that is written.
    pub(crate) sequence: u64,
    /// A random number, which every map block has, too.
    pub(crate) cache: u64,
    pub(crate) line: u32,
    pub(crate) page: u32,
    pub(crate) slots: u32,
    pub(crate) ways: u32,
    /// The capacity volume's size in blocks.
    pub(crate) capacity_blocks: u64,
    /// What the capacity volume says of itself; empty if nothing.
    pub(crate) capacity_name: String,
    /// The cache was detached: everything that the map says holds. Otherwise only what is dirty.
    pub(crate) clean: bool,
    /// The map may have dirty pages.
    pub(crate) may_be_dirty: bool,
}

/// What a block at a superblock's place holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// Zeros.
    Blank,
    /// A superblock.
    Superblock(Superblock),
    /// A superblock that is damaged, or only begun.
    Damaged,
    /// A superblock of a later version.
    Version(
        /// Which.
        u32,
    ),
    /// Something else.
    Foreign,
}

impl Superblock {
    /// Its bytes, `size` of them.
    pub(crate) fn encode(&self, size: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(size);
        bytes.extend(MAGIC);
        bytes.extend([0; 4]);
        bytes.extend(VERSION.to_le_bytes());
        for number in [self.sequence, self.cache, self.capacity_blocks] {
            bytes.extend(number.to_le_bytes());
        }
        for number in [self.line, self.page, self.slots, self.ways] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend([u8::from(self.clean), u8::from(self.may_be_dirty)]);
        let name = self.capacity_name.as_bytes();
        let name = name.get(..name.len().min(NAME)).unwrap_or_default();
        bytes.push(wire::bounded(name.len()));
        bytes.extend(name);
        bytes.resize(size, 0);
        let sum = crc32c(&bytes);
        if let Some(place) = bytes.get_mut(MAGIC.len()..MAGIC.len() + 4) {
            place.copy_from_slice(&sum.to_le_bytes());
        }
        bytes
    }

    /// What a block holds.
    pub(crate) fn decode(bytes: &[u8]) -> Found {
        if bytes.iter().all(|byte| *byte == 0) {
            return Found::Blank;
        }
        if !bytes.starts_with(&MAGIC) {
            return Found::Foreign;
        }
        Self::read(bytes).unwrap_or(Found::Damaged)
    }

    fn read(bytes: &[u8]) -> Result<Found, Truncated> {
        let mut reader = Reader::new(bytes);
        reader.take(MAGIC.len())?;
        let sum = u32::from_le_bytes(reader.array()?);
        let mut unsummed = bytes.to_vec();
        if let Some(place) = unsummed.get_mut(MAGIC.len()..MAGIC.len() + 4) {
            place.fill(0);
        }
        if sum != crc32c(&unsummed) {
            return Ok(Found::Damaged);
        }
        let version = u32::from_le_bytes(reader.array()?);
        if version != VERSION {
            return Ok(Found::Version(version));
        }
        let [sequence, cache, capacity_blocks] =
            [reader.array()?, reader.array()?, reader.array()?].map(u64::from_le_bytes);
        let [line, page, slots, ways] =
            [reader.array()?, reader.array()?, reader.array()?, reader.array()?].map(u32::from_le_bytes);
        let [clean, may_be_dirty, len] = reader.array()?;
        let name = String::from_utf8_lossy(reader.take(usize::from(len))?).into_owned();
        Ok(Found::Superblock(Self {
            sequence,
            cache,
            line,
            page,
            slots,
            ways,
            capacity_blocks,
            capacity_name: name,
            clean: clean != 0,
            may_be_dirty: may_be_dirty != 0,
        }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn superblock() -> Superblock {
        Superblock {
            sequence: 9,
            cache: 0x1234_5678_9abc_def0,
            line: 65536,
            page: 512,
            slots: 1600,
            ways: 16,
            capacity_blocks: 1 << 21,
            capacity_name: "naa 600140500000".to_owned(),
            clean: true,
            may_be_dirty: false,
        }
    }

    #[test]
    fn what_was_written_is_read_and_anything_else_is_told_apart() {
        let bytes = superblock().encode(512);
        assert_eq!(Superblock::decode(&bytes), Found::Superblock(superblock()));
        assert_eq!(Superblock::decode(&[0; 512]), Found::Blank);
        assert_eq!(Superblock::decode(&[1; 512]), Found::Foreign);
        assert_eq!(Superblock::decode(bytes.get(..60).unwrap()), Found::Damaged);
    }

    #[test]
    fn a_name_that_is_too_long_is_cut_where_it_fits() {
        let long = Superblock { capacity_name: "x".repeat(400), ..superblock() };
        let bytes = long.encode(512);
        let Found::Superblock(read) = Superblock::decode(&bytes) else { panic!("no superblock") };
        assert_eq!(read.capacity_name, "x".repeat(NAME));
    }

    proptest! {
        #[test]
        fn any_damage_is_found(at in 0_usize..512, bit in 0_u8..8) {
            let mut bytes = superblock().encode(512);
            bytes[at] ^= 1 << bit;
            let found = Superblock::decode(&bytes);
            prop_assert!(matches!(found, Found::Damaged | Found::Foreign), "{:?}", found);
        }
    }
}
