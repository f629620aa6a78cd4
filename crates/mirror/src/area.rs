//! A leg's own blocks as they are read: superblocks and bitmap, and of a leg without a superblock the beginning of its data.

use volume::Extent;

use crate::bitmap;
use crate::bits::Bits;
use crate::limits::{HEAD, PARTS, RESERVE, SLOTS};
use crate::superblock::{Found, Superblock};

// Everything has its place, in the largest blocks.
const _: () = assert!((1 + PARTS) * SLOTS as u64 * 4096 <= RESERVE);

/// What has been read of a leg's own blocks.
#[derive(Debug, Clone)]
pub(crate) struct Area {
    reserve: u64,
    block_size: u32,
    /// Blocks that are to be read.
    wanted: u64,
    bytes: Vec<u8>,
    /// What was read of the beginning, if that was asked for.
    head: Option<Vec<u8>>,
}

impl Area {
    /// Nothing yet of the blocks from `reserve` on; the superblocks are to be read.
    pub(crate) fn new(reserve: u64, block_size: u32) -> Self {
        Self { reserve, block_size, wanted: wire::widen(SLOTS), bytes: Vec::new(), head: None }
    }

    /// The bitmap of so many regions is to be read too.
    pub(crate) fn want_bitmap(&mut self, regions: u64) {
        self.wanted = wire::widen(SLOTS) * (1 + bitmap::parts(regions));
    }

    /// True once the bitmap was asked for.
    pub(crate) fn wants_bitmap(&self) -> bool {
        self.wanted > wire::widen(SLOTS)
    }

    /// The leg holds nothing of a mirror's: the beginning of its data is to be read too, unless it was. True if it is to be.
    pub(crate) fn want_head(&mut self) -> bool {
        let wants = self.head.is_none();
        if wants {
            self.head = Some(Vec::new());
        }
        wants
    }

    /// The beginning of its data, as far as it was read, is not all zeros: somebody uses the volume for something else.
    pub(crate) fn holds_data(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.iter().any(|byte| *byte != 0))
    }

    /// What of the beginning is left to be read.
    fn rest_of_head(&self) -> Option<Extent> {
        let size = u64::from(self.block_size);
        let have = wire::widen(self.head.as_ref()?.len()) / size;
        let left = (HEAD / size).min(self.reserve).saturating_sub(have);
        (left > 0).then(|| Extent::new(have, left))
    }

    /// What to read next, with transfers of so many bytes at most; `None` once everything is there.
    pub(crate) fn next(&self, max_transfer: u32) -> Option<Extent> {
        let have = wire::widen(self.bytes.len()) / u64::from(self.block_size);
        let most = u64::from(max_transfer / self.block_size).max(1);
        if let Some(rest) = self.rest_of_head() {
            return Some(Extent::new(rest.start, rest.blocks.min(most)));
        }
        let left = self.wanted.saturating_sub(have);
        (left > 0).then(|| Extent::new(self.reserve + have, left.min(most)))
    }

    /// What was read.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        if self.rest_of_head().is_some() {
            self.head.get_or_insert_default().extend_from_slice(bytes);
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }

    fn unit(&self, unit: u64) -> &[u8] {
        let size = self.block_size as usize;
        let start = wire::index(unit).saturating_mul(size);
        self.bytes.get(start..start.saturating_add(size)).unwrap_or_default()
    }

    /// The newest record; what else is there if there is none.
    pub(crate) fn superblock(&self) -> Found {
        let found: Vec<Found> =
            (0..wire::widen(SLOTS)).map(|slot| Superblock::decode(self.unit(slot))).collect();
        let records = found.iter().filter_map(|found| match found {
            Found::Record(record) => Some(record),
            _ => None,
        });
        if let Some(newest) = records.max_by_key(|record| record.version) {
            // A later version of the format beside it means that a later program has used the leg.
            let later = found.iter().find(|found| matches!(found, Found::Later(_)));
            return later.cloned().unwrap_or_else(|| Found::Record(newest.clone()));
        }
        found.into_iter().find(|found| *found != Found::Blank).unwrap_or(Found::Blank)
    }

    /// The number of the newest write of the dirty log; zero if there is none.
    pub(crate) fn newest_log(&self, uuid: &[u8; 16], regions: u64) -> u64 {
        let slots = wire::widen(SLOTS);
        let parts = (0..bitmap::parts(regions)).flat_map(|part| (0..slots).map(move |slot| (part, slot)));
        let sequences = parts
            .filter_map(|(part, slot)| bitmap::sequence(uuid, part, self.unit(slots + part * slots + slot)));
        sequences.max().unwrap_or(0)
    }

    /// The dirty regions; what cannot be read counts as dirty.
    pub(crate) fn dirty(&self, uuid: &[u8; 16], regions: u64) -> Bits {
        let mut bits = Bits::new(regions);
        let slots = wire::widen(SLOTS);
        for part in 0..bitmap::parts(regions) {
            let first = slots + part * slots;
            bitmap::decode(uuid, part, [self.unit(first), self.unit(first + 1)], &mut bits);
        }
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::superblock::tests::record;

    const SIZE: usize = 4096;

    fn area(units: &[Vec<u8>]) -> Area {
        let mut area = Area::new(100, 4096);
        for unit in units {
            let mut block = unit.clone();
            block.resize(SIZE, 0);
            area.add(&block);
        }
        area
    }

    #[test]
    fn the_newest_record_counts_and_one_that_is_damaged_leaves_the_other() {
        let (old, mut new) = (record(), record());
        new.version.sequence += 1;
        let (one, two) = (old.encode().to_vec(), new.encode().to_vec());
        for units in [[one.clone(), two.clone()], [two.clone(), one.clone()]] {
            assert_eq!(area(&units).superblock(), Found::Record(Box::new(new.clone())));
        }
        let mut damaged = two;
        damaged[100] ^= 1;
        assert_eq!(area(&[damaged.clone(), one]).superblock(), Found::Record(Box::new(old)));
        assert_eq!(area(&[damaged.clone(), vec![]]).superblock(), Found::Damaged);
        assert_eq!(area(&[vec![], vec![]]).superblock(), Found::Blank);
        assert_eq!(area(&[vec![0; 600], vec![1; 4]]).superblock(), Found::Foreign);
        let mut behind = vec![0; SIZE];
        behind[4000] = 1;
        assert_eq!(area(&[behind, vec![]]).superblock(), Found::Foreign, "not zeros alone");
    }

    #[test]
    fn it_is_read_in_transfers_that_the_leg_takes() {
        let mut area = Area::new(100, 4096);
        assert_eq!(area.next(u32::MAX), Some(Extent::new(100, 2)));
        area.add(&[0; 2 * SIZE]);
        assert_eq!(area.next(u32::MAX), None);
        area.want_bitmap(4000);
        assert_eq!(area.next(8192), Some(Extent::new(102, 2)));
        area.add(&[0; 2 * SIZE]);
        assert_eq!(area.next(u32::MAX), Some(Extent::new(104, 2)));
        assert_eq!(area.dirty(&[1; 16], 4000).count(), 4000, "what was never written says nothing");
    }

    #[test]
    fn the_beginning_of_a_blank_leg_tells_whether_it_is_used() {
        let mut area = area(&[vec![], vec![]]);
        assert_eq!((area.next(1 << 20), area.holds_data()), (None, false));
        assert!(area.want_head() && !area.want_head());
        // The leg has a hundred blocks in front of the mirror's own.
        assert_eq!(area.next(40 * 4096), Some(Extent::new(0, 40)));
        area.add(&vec![0; 40 * SIZE]);
        assert_eq!(area.next(1 << 20), Some(Extent::new(40, 60)));
        let mut rest = vec![0; 60 * SIZE];
        rest[7] = 1;
        area.add(&rest);
        assert_eq!((area.next(1 << 20), area.holds_data(), area.superblock()), (None, true, Found::Blank));
    }
}
