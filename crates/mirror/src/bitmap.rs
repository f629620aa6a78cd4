//! The dirty-region bitmap as it lies on a leg, part by part.
//!
//! A part is one block of the leg. What is damaged cannot tell which regions are clean, so that all of its regions count as dirty.

use crate::bits::Bits;
use crate::limits::{PART_REGIONS, SLOTS, UNIT};

const MAGIC: [u8; 4] = *b"LMBM";
/// Bytes before the bits: magic, number of the part, the first half of the mirror's UUID, sequence.
const HEADER: usize = 24;
const BODY: usize = UNIT - 4;
const BITS: usize = 480;

const _: () = assert!(HEADER + BITS <= BODY && BITS as u64 * 8 == PART_REGIONS);

/// Parts of the bitmap of so many regions.
pub(crate) fn parts(regions: u64) -> u64 {
    regions.div_ceil(PART_REGIONS)
}

/// The bytes of a part of `bits`.
pub(crate) fn encode(uuid: &[u8; 16], part: u64, sequence: u64, bits: &Bits) -> [u8; UNIT] {
    let mut bytes = [0; UNIT];
    let fields = [
        (0, &MAGIC[..]),
        (4, &wire::bounded::<u32>(part).to_le_bytes()[..]),
        (8, uuid.get(..8).unwrap_or_default()),
        (16, &sequence.to_le_bytes()[..]),
    ];
    for (at, field) in fields {
        if let Some(place) = bytes.get_mut(at..at + field.len()) {
            place.copy_from_slice(field);
        }
    }
    let first = part * PART_REGIONS;
    for bit in 0..PART_REGIONS {
        if bits.contains(first + bit)
            && let Some(byte) = bytes.get_mut(HEADER + wire::index(bit / 8))
        {
            *byte |= 1 << (bit % 8);
        }
    }
    let (body, sum) = bytes.split_at_mut(BODY);
    sum.copy_from_slice(&wire::crc32c(body).to_le_bytes());
    bytes
}

/// Adds the dirty regions of a part to `bits`, as the newer of its two places tells them; all of them if neither was ever written, or one is damaged.
pub(crate) fn decode(uuid: &[u8; 16], part: u64, places: [&[u8]; SLOTS], bits: &mut Bits) {
    let first = part * PART_REGIONS;
    let written = || places.iter().filter(|place| place.iter().any(|byte| *byte != 0));
    let found: Option<Vec<_>> = written().map(|place| checked(uuid, part, place)).collect();
    let Some((_, regions)) = found.and_then(|found| found.into_iter().max_by_key(|(sequence, _)| *sequence))
    else {
        return (first..first + PART_REGIONS).for_each(|region| bits.insert(region));
    };
    for (index, byte) in (0..).zip(regions).filter(|(_, byte)| **byte != 0) {
        let dirty = (0..8).filter(|bit| byte & (1 << bit) != 0);
        dirty.for_each(|bit| bits.insert(first + index * 8 + bit));
    }
}

/// The number of the write that made this part what it is, if it is whole.
pub(crate) fn sequence(uuid: &[u8; 16], part: u64, block: &[u8]) -> Option<u64> {
    checked(uuid, part, block).map(|(sequence, _)| sequence)
}

/// The sequence and the bits of a part that was written whole.
fn checked<'a>(uuid: &[u8; 16], part: u64, block: &'a [u8]) -> Option<(u64, &'a [u8])> {
    let (body, sum) = block.get(..UNIT)?.split_at(BODY);
    let number = u32::try_from(part).ok()?.to_le_bytes();
    let is_ours =
        body.starts_with(&MAGIC) && body.get(4..8)? == number && body.get(8..16)? == uuid.get(..8)?;
    if !is_ours || wire::crc32c(body).to_le_bytes() != sum {
        return None;
    }
    let sequence = u64::from_le_bytes(body.get(16..HEADER)?.try_into().ok()?);
    Some((sequence, body.get(HEADER..HEADER + BITS)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REGIONS: u64 = PART_REGIONS + 100;
    const NEVER: [u8; UNIT] = [0; UNIT];

    fn read(uuid: &[u8; 16], blocks: &[[u8; UNIT]]) -> Bits {
        let mut bits = Bits::new(REGIONS);
        (0..).zip(blocks).for_each(|(part, block)| decode(uuid, part, [block, &NEVER], &mut bits));
        bits
    }

    proptest! {
        #[test]
        fn a_bitmap_is_found_as_it_was_written_and_damage_makes_its_regions_dirty(
            regions in proptest::collection::vec(0..REGIONS, 0..40), at in 0..UNIT, flip in 1_u8..=255,
        ) {
            let uuid = [9; 16];
            let mut bits = Bits::new(REGIONS);
            for region in &regions {
                bits.insert(*region);
            }
            prop_assert_eq!(parts(REGIONS), 2);
            let mut blocks = [0, 1].map(|part| encode(&uuid, part, 4, &bits));
            prop_assert_eq!(&read(&uuid, &blocks), &bits);
            blocks[1][at] ^= flip;
            let found = read(&uuid, &blocks);
            prop_assert!((PART_REGIONS..REGIONS).all(|region| found.contains(region)));
            prop_assert!((0..PART_REGIONS).all(|region| found.contains(region) == bits.contains(region)));
        }
    }

    #[test]
    fn a_part_of_another_mirror_or_place_tells_nothing() {
        let bits = Bits::new(REGIONS);
        let blocks = [0, 1].map(|part| encode(&[1; 16], part, 4, &bits));
        assert_eq!(read(&[2; 16], &blocks).count(), REGIONS);
        assert_eq!(read(&[1; 16], &[blocks[1], blocks[0]]).count(), REGIONS);
        assert_eq!(read(&[1; 16], &[NEVER; 2]).count(), REGIONS);
        assert_eq!(read(&[1; 16], &blocks).count(), 0);
    }

    #[test]
    fn of_two_places_the_newer_counts_and_a_damaged_one_is_no_older_one() {
        let uuid = [1; 16];
        let mut dirty = Bits::new(REGIONS);
        dirty.insert(5);
        let (old, new) = (encode(&uuid, 0, 4, &Bits::new(REGIONS)), encode(&uuid, 0, 5, &dirty));
        for places in [[&old, &new], [&new, &old]] {
            let mut bits = Bits::new(REGIONS);
            decode(&uuid, 0, places.map(|place| &place[..]), &mut bits);
            assert_eq!(bits, dirty);
        }
        let mut bits = Bits::new(REGIONS);
        decode(&uuid, 0, [&old, &[1; UNIT]], &mut bits);
        assert_eq!(bits.count(), PART_REGIONS);
    }
}
