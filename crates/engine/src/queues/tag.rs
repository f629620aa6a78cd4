//! Who asked: what a request's tag says within a core's queue.

use volume::Tag;

/// A driver's place in the hub's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(pub(crate) u32);

impl Slot {
    /// The place with this index. A core has far fewer connections than 32 bits count.
    pub(crate) fn at(index: usize) -> Self {
        Self(wire::bounded::<u32>(index))
    }
}

const SLOT_SHIFT: u32 = 33;
const SIDE_BIT: u64 = 1 << 32;
const OWN_MASK: u64 = SIDE_BIT - 1;

/// The asker's slot, the side of the fences that the request was submitted on, and the asker's own tag, in one.
pub(super) fn join(slot: Slot, side: usize, own: Tag) -> Tag {
    let side_bit = if side == 0 { 0 } else { SIDE_BIT };
    Tag(u64::from(slot.0) << SLOT_SHIFT | side_bit | own.0 & OWN_MASK)
}

pub(super) fn split(tag: Tag) -> (Slot, usize, Tag) {
    let slot = Slot(wire::bounded::<u32>(tag.0 >> SLOT_SHIFT));
    (slot, usize::from(tag.0 & SIDE_BIT != 0), Tag(tag.0 & OWN_MASK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_keep_slot_side_and_number() {
        for slot in [0, 1, 0x7fff_ffff] {
            for side in [0, 1] {
                for own in [0, 7, u64::from(u32::MAX)] {
                    assert_eq!(split(join(Slot(slot), side, Tag(own))), (Slot(slot), side, Tag(own)));
                }
            }
        }
    }
}
