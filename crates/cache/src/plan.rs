//! Where the blocks of a request are: its parts by line, and the pieces in which it goes to the two volumes.

use core::ops::Range;

use volume::Extent;

use crate::directory::SlotId;
use crate::layout::Layout;
use crate::page_set::PageSet;

/// The part of a request that lies in one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) line: u64,
    pub(crate) first: u32,
    pub(crate) count: u32,
    /// Pages of the request before it.
    pub(crate) before: u64,
}

impl Part {
    /// Its pages, in the line.
    pub(crate) fn pages(&self) -> PageSet {
        PageSet::run(self.first, self.count)
    }

    /// Its runs of pages that are in `pages`, as parts of their own.
    pub(crate) fn within(self, pages: PageSet) -> impl Iterator<Item = Self> {
        let within = self.pages().both(pages).runs();
        within.map(move |(first, count)| Self {
            first,
            count,
            before: self.before + u64::from(first - self.first),
            ..self
        })
    }
}

/// The parts of an extent, in order.
pub(crate) fn parts(layout: &Layout, extent: Extent) -> impl Iterator<Item = Part> + use<> {
    let pages = u64::from(layout.pages().max(1));
    let end = extent.start.saturating_add(extent.blocks);
    let mut at = extent.start;
    core::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let (line, first) = (at / pages, at % pages);
        let count = (pages - first).min(end - at);
        let part = Part {
            line,
            first: wire::bounded(first),
            count: wire::bounded(count),
            before: at - extent.start,
        };
        at += count;
        Some(part)
    })
}

/// The lines that an extent touches.
pub(crate) fn lines(layout: &Layout, extent: Extent) -> Range<u64> {
    let pages = u64::from(layout.pages().max(1));
    let end = extent.start.saturating_add(extent.blocks);
    extent.start / pages..end.div_ceil(pages)
}

/// The pages of a line that lie in an extent.
pub(crate) fn pages_of(layout: &Layout, line: u64, extent: Extent) -> PageSet {
    let pages = u64::from(layout.pages());
    let start = line * pages;
    let first = extent.start.max(start);
    let end = extent.start.saturating_add(extent.blocks).min(start + pages);
    if first >= end {
        return PageSet::NONE;
    }
    PageSet::run(wire::bounded(first - start), wire::bounded(end - first))
}

/// One of the two volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Fast,
    Capacity,
}

/// What goes to one of the volumes in one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) side: Side,
    /// In that volume's blocks.
    pub(crate) extent: Extent,
    /// Where its data lies in the request's, in bytes.
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

/// Collects pieces; neighbours on the capacity volume become one.
#[derive(Debug)]
pub(crate) struct Pieces<'a> {
    layout: &'a Layout,
    pub(crate) list: Vec<Piece>,
}

impl<'a> Pieces<'a> {
    pub(crate) fn new(layout: &'a Layout) -> Self {
        Self::within(layout, Vec::new())
    }

    /// The same, in the memory of a list that is not used any more.
    pub(crate) fn within(layout: &'a Layout, mut list: Vec<Piece>) -> Self {
        list.clear();
        Self { layout, list }
    }

    /// `count` pages from `first` of a slot, which lie `before` pages behind the request's beginning.
    pub(crate) fn fast(&mut self, slot: SlotId, first: u32, count: u32, before: u64) {
        let start = self.layout.page_at(slot.0, first);
        let extent = Extent::new(start, self.layout.blocks(count));
        let (offset, bytes) = (self.bytes(before), self.bytes(u64::from(count)));
        self.list.push(Piece { side: Side::Fast, extent, offset, bytes });
    }

    /// `count` pages from `first` of a line on the capacity volume.
    pub(crate) fn capacity(&mut self, line: u64, first: u32, count: u32, before: u64) {
        let start = line * u64::from(self.layout.pages()) + u64::from(first);
        let (offset, bytes) = (self.bytes(before), self.bytes(u64::from(count)));
        if let Some(last) = self.list.iter_mut().rev().find(|piece| piece.side == Side::Capacity)
            && last.extent.end() == Some(start)
            && last.offset + last.bytes == offset
        {
            last.extent.blocks += u64::from(count);
            last.bytes += bytes;
            return;
        }
        let extent = Extent::new(start, u64::from(count));
        self.list.push(Piece { side: Side::Capacity, extent, offset, bytes });
    }

    fn bytes(&self, pages: u64) -> usize {
        wire::index(pages * u64::from(self.layout.page))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use volume::Geometry;

    use super::*;

    fn layout() -> Layout {
        let geometry = |bytes| Geometry::of(bytes, 512).unwrap();
        Layout::new(geometry(4 << 20), geometry(64 << 20), 8 << 10).unwrap()
    }

    proptest! {
        #[test]
        fn parts_cover_an_extent_and_no_more(start in 0_u64..10_000, blocks in 0_u64..300) {
            let (layout, extent) = (layout(), Extent::new(start, blocks));
            let mut at = start;
            for part in parts(&layout, extent) {
                prop_assert_eq!(part.line * 16 + u64::from(part.first), at);
                prop_assert_eq!(part.before, at - start);
                prop_assert_eq!(part.pages(), pages_of(&layout, part.line, extent));
                prop_assert!(lines(&layout, extent).contains(&part.line) && part.count > 0);
                at += u64::from(part.count);
            }
            prop_assert_eq!(at, start + blocks);
        }
    }

    #[test]
    fn neighbours_on_the_capacity_volume_become_one_piece() {
        let layout = layout();
        let mut pieces = Pieces::new(&layout);
        pieces.capacity(3, 10, 6, 0);
        pieces.capacity(4, 0, 2, 6);
        pieces.fast(SlotId(0), 2, 1, 8);
        pieces.capacity(4, 3, 1, 9);
        let extents: Vec<_> =
            pieces.list.iter().map(|piece| (piece.extent.start, piece.extent.blocks)).collect();
        assert_eq!(extents[0], (58, 8));
        assert_eq!(extents[2], (67, 1));
        assert_eq!(pieces.list[2].offset, 9 * 512);
    }
}
