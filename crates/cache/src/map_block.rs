//! A block of the map as it lies on the fast volume: which line each slot holds, and which of its pages are valid and dirty.
//!
//! It is one block of the fast volume, which is written whole or not at all. All numbers are little-endian.

use wire::{Reader, Truncated, crc32c};

use crate::page_set::PageSet;

/// Bytes before the entries: CRC-32C of all that follows, kind, index, cache, sequence.
pub(crate) const HEADER: usize = 32;
/// Bytes of an entry: line, valid pages, dirty pages, and 8 that are zero.
pub(crate) const ENTRY: usize = 48;
/// `LnMB` in memory.
const KIND: u32 = 0x424d_6e4c;
/// The line of an empty slot.
pub(crate) const NO_LINE: u64 = u64::MAX;

/// What the map says of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The line's number, or [`NO_LINE`].
    pub(crate) line: u64,
    pub(crate) valid: PageSet,
    pub(crate) dirty: PageSet,
}

impl Entry {
    /// An empty slot.
    pub(crate) const EMPTY: Self = Self { line: NO_LINE, valid: PageSet::NONE, dirty: PageSet::NONE };
}

/// Which block it is, of which cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The cache's number, as its superblock has it.
    pub(crate) cache: u64,
    pub(crate) index: u32,
}

/// What is wrong with a map block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// The checksum does not match.
    Checksum,
    /// It is another block, or another cache's.
    Misplaced,
    /// An entry makes no sense.
    Entry,
}

impl Damage {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Checksum => "its checksum does not match",
            Self::Misplaced => "it belongs elsewhere",
            Self::Entry => "an entry makes no sense",
        }
    }
}

/// Writes a block of `size` bytes.
pub(crate) fn encode(
    place: Place,
    sequence: u64,
    entries: impl Iterator<Item = Entry>,
    size: usize,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size);
    bytes.extend([0; 4]);
    bytes.extend(KIND.to_le_bytes());
    bytes.extend(u64::from(place.index).to_le_bytes());
    bytes.extend(place.cache.to_le_bytes());
    bytes.extend(sequence.to_le_bytes());
    for entry in entries {
        bytes.extend(entry.line.to_le_bytes());
        bytes.extend(entry.valid.0.to_le_bytes());
        bytes.extend(entry.dirty.0.to_le_bytes());
        bytes.extend([0; 8]);
    }
    bytes.resize(size, 0);
    let sum = crc32c(bytes.get(4..).unwrap_or_default());
    if let Some(head) = bytes.first_chunk_mut() {
        *head = sum.to_le_bytes();
    }
    bytes
}

/// A block as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MapBlock {
    pub(crate) sequence: u64,
    pub(crate) entries: Vec<Entry>,
}

/// Reads the `count` entries of a block; `pages` are all that a line has.
pub(crate) fn decode(bytes: &[u8], place: Place, count: usize, pages: PageSet) -> Result<MapBlock, Damage> {
    let mut reader = Reader::new(bytes);
    read(&mut reader, place, count, pages).unwrap_or(Err(Damage::Entry))
}

fn read(
    reader: &mut Reader<'_>,
    place: Place,
    count: usize,
    pages: PageSet,
) -> Result<Result<MapBlock, Damage>, Truncated> {
    let sum = u32::from_le_bytes(reader.array()?);
    if sum != crc32c(reader.rest()) {
        return Ok(Err(Damage::Checksum));
    }
    let kind = u32::from_le_bytes(reader.array()?);
    let index = u64::from_le_bytes(reader.array()?);
    let cache = u64::from_le_bytes(reader.array()?);
    let sequence = u64::from_le_bytes(reader.array()?);
    if (kind, index, cache) != (KIND, u64::from(place.index), place.cache) {
        return Ok(Err(Damage::Misplaced));
    }
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let line = u64::from_le_bytes(reader.array()?);
        let valid = PageSet(u128::from_le_bytes(reader.array()?));
        let dirty = PageSet(u128::from_le_bytes(reader.array()?));
        reader.take(8)?;
        let sane = pages.has_all(valid) && valid.has_all(dirty) && (line != NO_LINE || valid.is_empty());
        if !sane {
            return Ok(Err(Damage::Entry));
        }
        entries.push(Entry { line, valid, dirty });
    }
    Ok(Ok(MapBlock { sequence, entries }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLACE: Place = Place { cache: 77, index: 3 };

    fn entries() -> impl Strategy<Value = Vec<Entry>> {
        let entry = (any::<u64>(), any::<u128>(), any::<u128>()).prop_map(|(line, valid, dirty)| {
            let valid = if line == NO_LINE { PageSet::NONE } else { PageSet(valid) };
            Entry { line, valid, dirty: PageSet(dirty).both(valid) }
        });
        proptest::collection::vec(entry, 10)
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(entries in entries(), sequence: u64) {
            let bytes = encode(PLACE, sequence, entries.iter().copied(), 512);
            prop_assert_eq!(bytes.len(), 512);
            let read = decode(&bytes, PLACE, 10, PageSet(u128::MAX));
            prop_assert_eq!(read, Ok(MapBlock { sequence, entries }));
        }

        #[test]
        fn any_damage_is_found(entries in entries(), at in 0_usize..512, bit in 0_u8..8) {
            let mut bytes = encode(PLACE, 1, entries.into_iter(), 512);
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(decode(&bytes, PLACE, 10, PageSet(u128::MAX)), Err(Damage::Checksum));
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            prop_assert!(decode(&bytes, PLACE, 10, PageSet(u128::MAX)).is_err());
        }
    }

    #[test]
    fn a_block_of_another_place_or_with_pages_that_are_not_there_is_refused() {
        let entry = Entry { line: 5, valid: PageSet::run(0, 17), dirty: PageSet::NONE };
        let bytes = encode(PLACE, 1, [entry].into_iter(), 512);
        let other = Place { index: 4, ..PLACE };
        assert_eq!(decode(&bytes, other, 1, PageSet(u128::MAX)), Err(Damage::Misplaced));
        assert_eq!(decode(&bytes, PLACE, 1, PageSet::run(0, 16)), Err(Damage::Entry));
    }
}
