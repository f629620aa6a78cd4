//! Which legs hold which blocks.
//!
//! Without `copies=` every member holds everything, at the same place. With c copies over n members the volume is cut into slabs: slab s = q·n + r lies on
//! the members m with (m − r) mod n < c, at place q·c + ((m − r) mod n) of each. Every member then holds c/n of the volume, and every c neighbours hold one
//! slab in n together.

use volume::Extent;

/// How the blocks of a mirror are laid out on its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placement {
    /// Members: legs that hold data, spares apart.
    pub(crate) members: u64,
    /// Members that hold each slab.
    pub(crate) copies: u64,
    /// Blocks of a slab.
    pub(crate) slab: u64,
}

impl Placement {
    fn is_whole(self) -> bool {
        self.copies >= self.members
    }

    /// Blocks of the mirror where each member has room for `blocks`.
    pub(crate) fn size(self, blocks: u64) -> u64 {
        if self.is_whole() {
            return blocks;
        }
        (blocks / self.slab / self.copies).saturating_mul(self.members).saturating_mul(self.slab)
    }

    /// Rows: slabs of the same row have the same members. One if every member holds everything.
    pub(crate) fn rows(self) -> u64 {
        if self.is_whole() { 1 } else { self.members }
    }

    /// The row of a block.
    pub(crate) fn row(self, block: u64) -> u64 {
        if self.is_whole() { 0 } else { (block / self.slab) % self.members }
    }

    /// The members that hold a row.
    pub(crate) fn members_of(self, row: u64) -> impl Iterator<Item = usize> {
        let copies = self.copies.min(self.members);
        (0..copies).map(move |copy| wire::index((row + copy) % self.members))
    }

    /// True if a member holds a row.
    pub(crate) fn holds(self, member: usize, row: u64) -> bool {
        self.is_whole() || self.members_of(row).any(|other| other == member)
    }

    /// Where a member has a block that it holds.
    pub(crate) fn block_on(self, member: usize, block: u64) -> u64 {
        if self.is_whole() {
            return block;
        }
        let slab = block / self.slab;
        let (turn, row) = (slab / self.members, slab % self.members);
        let copy = (wire::widen(member) + self.members - row) % self.members;
        (turn * self.copies + copy) * self.slab + block % self.slab
    }

    /// True if an extent has one part.
    pub(crate) fn is_one_piece(self, extent: Extent) -> bool {
        self.is_whole() || extent.start % self.slab + extent.blocks <= self.slab
    }

    /// The parts of an extent that each lie in one slab.
    pub(crate) fn pieces(self, extent: Extent) -> impl Iterator<Item = Extent> {
        let (mut start, end) = (extent.start, extent.start.saturating_add(extent.blocks));
        let slab = if self.is_whole() { u64::MAX } else { self.slab };
        std::iter::from_fn(move || {
            let blocks = (slab - start % slab).min(end - start);
            let piece = Extent::new(start, blocks);
            start += blocks;
            (blocks > 0).then_some(piece)
        })
    }
}

/// An extent of the mirror in a leg's blocks, where the leg has it from block `at` of the mirror's size.
pub(crate) fn on_leg(at: u64, blocks: u64, factor: u64) -> Extent {
    Extent::new(at.saturating_mul(factor), blocks.saturating_mul(factor))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn three_copies_over_four_members_lie_as_the_formula_says() {
        let placement = Placement { members: 4, copies: 3, slab: 10 };
        assert_eq!((placement.size(65), placement.rows()), (80, 4));
        assert_eq!(placement.members_of(3).collect::<Vec<_>>(), [3, 0, 1]);
        assert_eq!([0, 1, 2].map(|member| placement.block_on(member, 45)), [35, 45, 55]);
        let pieces: Vec<_> = placement.pieces(Extent::new(8, 14)).collect();
        assert_eq!(pieces, [Extent::new(8, 2), Extent::new(10, 10), Extent::new(20, 2)]);
    }

    proptest! {
        #[test]
        fn no_two_blocks_share_a_place(members in 1_u64..9, copies in 1_u64..9, slab in 1_u64..4, room in 1_u64..60) {
            let placement = Placement { members, copies: copies.min(members), slab };
            let size = placement.size(room);
            let mut places = BTreeSet::new();
            for block in 0..size {
                let row = placement.row(block);
                let held: Vec<_> = placement.members_of(row).collect();
                prop_assert_eq!(held.len() as u64, placement.copies);
                for member in held {
                    prop_assert!(placement.holds(member, row));
                    let place = placement.block_on(member, block);
                    prop_assert!(place < room && places.insert((member, place)));
                }
            }
            let whole: Vec<_> = placement.pieces(Extent::new(0, size)).collect();
            prop_assert_eq!(whole.iter().map(|piece| piece.blocks).sum::<u64>(), size);
            for piece in &whole {
                prop_assert!(placement.is_one_piece(*piece));
            }
            prop_assert_eq!(placement.is_one_piece(Extent::new(0, size)), whole.len() <= 1);
            for piece in whole {
                prop_assert_eq!(placement.row(piece.start), placement.row(piece.start + piece.blocks - 1));
            }
        }
    }
}
