//! Where everything lies on the fast volume: two superblocks, the map, and the lines. It follows from sizes alone, so that the map is found at fixed places.

use volume::{Geometry, OpenError};

use crate::limits::{PAGES, SHORTEST_LINE, WAYS};
use crate::map_block::ENTRY;
use crate::map_block::HEADER;

/// Bytes between the two superblocks, and between the second one and the map: they share no physical block.
pub(crate) const SUPERBLOCK_SPACE: u64 = 4096;

/// Where everything lies. Places on the fast volume are in its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Bytes of a block of the fast volume.
    pub(crate) block: u32,
    /// Bytes of a page: of a block of the capacity volume.
    pub(crate) page: u32,
    /// Bytes of a line.
    pub(crate) line: u32,
    /// Places for lines.
    pub(crate) slots: u32,
    /// Slots in which a line may lie.
    pub(crate) ways: u32,
    /// Map entries in one block.
    pub(crate) entries: u32,
    pub(crate) map_start: u64,
    pub(crate) map_blocks: u32,
    pub(crate) lines_start: u64,
}

impl Layout {
    /// The layout of a cache with lines of `line` bytes on `fast`, before `capacity`.
    pub(crate) fn new(fast: Geometry, capacity: Geometry, line: u64) -> Result<Self, OpenError> {
        if fast.block_size > capacity.block_size {
            return Err(OpenError::new(format!(
                "the fast volume has blocks of {} bytes and the capacity volume of {}: open the fast one with block={}, or take another",
                fast.block_size, capacity.block_size, capacity.block_size
            )));
        }
        let (block, page) = (u64::from(fast.block_size), u64::from(capacity.block_size));
        let longest = page * u64::from(PAGES);
        if !line.is_power_of_two() || line < SHORTEST_LINE.max(page) || line > longest {
            return Err(OpenError::new(format!(
                "a line of {line} bytes is not possible: give line= a power of two from {} to {longest}, as the capacity volume has blocks of {page} bytes",
                SHORTEST_LINE.max(page)
            )));
        }
        let entries = (block - HEADER as u64) / ENTRY as u64;
        let map_start = 2 * SUPERBLOCK_SPACE / block;
        let lines_at = |slots: u64| {
            let map_end = (map_start + slots.div_ceil(entries)) * block;
            map_end.next_multiple_of(SUPERBLOCK_SPACE)
        };
        let fits = |slots: u64| lines_at(slots) + slots * line <= fast.bytes();
        // Each slot needs its line and its entry: nearly as many as that gives, but for what is rounded.
        let mut slots = (fast.bytes() / (line + ENTRY as u64)).min(u64::from(u32::MAX / 2));
        while slots > 0 && !fits(slots) {
            slots -= 1;
        }
        let ways = slots.clamp(1, WAYS);
        slots -= slots % ways;
        if slots == 0 {
            return Err(OpenError::new(format!(
                "the fast volume of {} bytes is too small for a line of {line} bytes and its map: take a larger one",
                fast.bytes()
            )));
        }
        Ok(Self {
            block: fast.block_size,
            page: capacity.block_size,
            line: wire::bounded(line),
            slots: wire::bounded(slots),
            ways: wire::bounded(ways),
            entries: wire::bounded(entries),
            map_start,
            map_blocks: wire::bounded(slots.div_ceil(entries)),
            lines_start: lines_at(slots) / block,
        })
    }

    /// Pages of a line.
    pub(crate) fn pages(&self) -> u32 {
        self.line / self.page
    }

    /// The block of the fast volume at which a superblock begins.
    pub(crate) fn superblock(&self, second: bool) -> u64 {
        if second { SUPERBLOCK_SPACE / u64::from(self.block) } else { 0 }
    }

    /// The block of the fast volume that holds map block `index`.
    pub(crate) fn map_block(&self, index: u32) -> u64 {
        self.map_start + u64::from(index)
    }

    /// Which map block has the entry of a slot.
    pub(crate) fn map_block_of(&self, slot: u32) -> u32 {
        slot / self.entries
    }

    /// The slots whose entries a map block has.
    pub(crate) fn slots_of(&self, index: u32) -> core::ops::Range<u32> {
        let first = index.saturating_mul(self.entries);
        first..first.saturating_add(self.entries).min(self.slots)
    }

    /// The block of the fast volume at which a page of a slot begins.
    pub(crate) fn page_at(&self, slot: u32, page: u32) -> u64 {
        let bytes = u64::from(slot) * u64::from(self.line) + u64::from(page) * u64::from(self.page);
        self.lines_start + bytes / u64::from(self.block)
    }

    /// Blocks of the fast volume in so many pages.
    pub(crate) fn blocks(&self, pages: u32) -> u64 {
        u64::from(pages) * u64::from(self.page / self.block)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn geometry(bytes: u64, block: u32) -> Geometry {
        Geometry::of(bytes, block).unwrap()
    }

    proptest! {
        #[test]
        fn nothing_overlaps_and_everything_fits(kib in 64_u64..1 << 20, shift in 12_u32..17, small: bool) {
            let block = if small { 512 } else { 4096 };
            let fast = geometry((kib << 10).next_multiple_of(4096), block);
            let layout = Layout::new(fast, geometry(1 << 30, block), 1 << shift);
            let Ok(layout) = layout else { return Ok(()) };
            prop_assert_eq!(layout.slots % layout.ways, 0);
            prop_assert!(layout.superblock(true) >= 1 && layout.superblock(true) < layout.map_start);
            prop_assert!(layout.map_block(layout.map_blocks - 1) < layout.lines_start);
            let last = layout.slots - 1;
            prop_assert_eq!(layout.map_block_of(last), layout.map_blocks - 1);
            prop_assert!(layout.page_at(last, layout.pages() - 1) + layout.blocks(1) <= fast.blocks);
            prop_assert_eq!(layout.slots_of(layout.map_blocks - 1).end, layout.slots);
        }
    }

    #[test]
    fn what_is_not_possible_says_what_is() {
        let capacity = geometry(1 << 30, 512);
        let refuse = |fast, capacity, line| Layout::new(fast, capacity, line).unwrap_err().to_string();
        assert!(
            refuse(geometry(1 << 20, 4096), capacity, 65536).contains("open the fast one with block=512")
        );
        assert!(refuse(geometry(1 << 20, 512), capacity, 3000).contains("from 4096 to 65536"));
        assert!(refuse(geometry(32 << 10, 512), capacity, 65536).contains("too small"));
    }
}
