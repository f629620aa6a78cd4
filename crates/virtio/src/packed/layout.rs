//! How a packed queue lies in memory (VIRTIO 1.2 §2.8.13, §2.8.14), all little-endian.

use crate::area::Area;
use crate::chain::Segment;
use crate::event::has_come;

/// Bytes of a descriptor: address, length, id, flags.
pub(super) const DESCRIPTOR: usize = 16;
/// Where a descriptor has its flags.
const FLAGS: usize = 14;
/// Bytes of what a side says of notifications.
const SUPPRESSION: usize = 4;

/// Flags of a descriptor.
pub(super) mod flag {
    pub(crate) const NEXT: u16 = 1;
    pub(crate) const WRITE: u16 = 2;
    pub(crate) const INDIRECT: u16 = 4;
    pub(crate) const AVAILABLE: u16 = 1 << 7;
    pub(crate) const USED: u16 = 1 << 15;
}

/// How many descriptors a queue has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedLayout {
    size: u16,
}

impl PackedLayout {
    /// A queue of `size` descriptors; `None` unless that is 1 to 32,768, and any number of those will do (§2.8.10.1).
    pub fn new(size: u16) -> Option<Self> {
        (1..=crate::limits::LARGEST_QUEUE).contains(&size).then_some(Self { size })
    }

    /// Descriptors.
    pub fn size(self) -> u16 {
        self.size
    }

    /// Bytes of the ring, of what the driver says of notifications, and of what the device says.
    pub(crate) fn lens(self) -> [usize; 3] {
        [usize::from(self.size) * DESCRIPTOR, SUPPRESSION, SUPPRESSION]
    }

    /// Whether the areas are long enough.
    pub(super) fn fits<A: Area>(self, areas: &[A; 3]) -> bool {
        areas.iter().zip(self.lens()).all(|(area, len)| area.len() >= len)
    }
}

/// A place in the ring, with the count of rounds, of which only whether it is odd matters (§2.8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) index: u16,
    pub(crate) wrap: bool,
}

impl Place {
    /// The first one of the first round.
    pub(super) const START: Self = Self { index: 0, wrap: true };

    /// So many descriptors later, at most as many as the queue has.
    pub(crate) fn later(self, count: u16, size: u16) -> Self {
        let index = u32::from(self.index) + u32::from(count);
        let size = u32::from(size);
        let (index, wrap) = if index >= size { (index - size, !self.wrap) } else { (index, self.wrap) };
        Self { index: wire::saturate(index), wrap }
    }

    /// How many descriptors later another place comes, in this round or the next.
    pub(crate) fn steps_to(self, other: Self, size: u16) -> u16 {
        let round = |place: Self| if place.wrap == self.wrap { 0 } else { u32::from(size) };
        let (from, to) = (u32::from(self.index), u32::from(other.index) + round(other));
        let both = 2 * u32::from(size);
        wire::saturate((to + both - from) % both)
    }

    /// Flags of a descriptor that is the device's, in this round.
    pub(super) fn available(self) -> u16 {
        if self.wrap { flag::AVAILABLE } else { flag::USED }
    }

    /// Flags of one that the device has used, in this round.
    pub(super) fn used(self) -> u16 {
        if self.wrap { flag::AVAILABLE | flag::USED } else { 0 }
    }

    /// Whether these flags say that it is the device's.
    pub(super) fn is_available(self, flags: u16) -> bool {
        flags & (flag::AVAILABLE | flag::USED) == self.available()
    }

    /// Whether they say that it was used.
    pub(crate) fn is_used(self, flags: u16) -> bool {
        flags & (flag::AVAILABLE | flag::USED) == self.used()
    }
}

/// A descriptor of the ring.
pub(super) use crate::chain::Raw as Descriptor;

impl Descriptor {
    /// All of it. What its flags say of the rest is true if they were [looked at](flags_of) before.
    pub(super) fn read<A: Area>(ring: &A, number: usize) -> Self {
        let mut bytes = [0; DESCRIPTOR];
        ring.read(number * DESCRIPTOR, &mut bytes);
        let [a0, a1, a2, a3, a4, a5, a6, a7, l0, l1, l2, l3, i0, i1, f0, f1] = bytes;
        Self {
            address: u64::from_le_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
            len: u32::from_le_bytes([l0, l1, l2, l3]),
            id: u16::from_le_bytes([i0, i1]),
            flags: u16::from_le_bytes([f0, f1]),
        }
    }

    /// All but the flags.
    pub(super) fn write<A: Area>(&self, ring: &A, index: u16) {
        let mut bytes = [0; FLAGS];
        let (address, rest) = bytes.split_at_mut(8);
        address.copy_from_slice(&self.address.to_le_bytes());
        let (len, id) = rest.split_at_mut(4);
        len.copy_from_slice(&self.len.to_le_bytes());
        id.copy_from_slice(&self.id.to_le_bytes());
        ring.write(usize::from(index) * DESCRIPTOR, &bytes);
    }

    pub(super) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn segment(&self) -> Segment {
        Segment { address: self.address, len: self.len, is_written: self.has(flag::WRITE) }
    }
}

/// The flags of a descriptor. What was written before them can be read after this.
pub(super) fn flags_of<A: Area>(ring: &A, index: u16) -> u16 {
    ring.load(usize::from(index) * DESCRIPTOR + FLAGS)
}

/// Writes the flags of a descriptor, behind everything else.
pub(super) fn set_flags<A: Area>(ring: &A, index: u16, flags: u16) {
    ring.store(usize::from(index) * DESCRIPTOR + FLAGS, flags);
}

/// What a side says of notifications (§2.8.14): its bits 0 and 1.
mod event_flag {
    pub(super) const ENABLE: u16 = 0;
    pub(super) const DISABLE: u16 = 1;
    pub(super) const DESCRIPTOR: u16 = 2;
}

/// Asks for a notification: of the descriptor at `place`, where both sides have agreed on event indexes, else of any.
pub(super) fn ask<A: Area>(suppression: &A, has_event_index: bool, place: Place) {
    if has_event_index {
        suppression.store(0, place.index | u16::from(place.wrap) << 15);
        suppression.store(2, event_flag::DESCRIPTOR);
    } else {
        suppression.store(2, event_flag::ENABLE);
    }
}

/// Asks for none.
pub(super) fn ask_not<A: Area>(suppression: &A) {
    suppression.store(2, event_flag::DISABLE);
}

/// Whether the other side wants a notification of what lies from `old` up to before `new`.
pub(super) fn is_asked<A: Area>(suppression: &A, size: u16, old: Place, new: Place) -> bool {
    match suppression.load(2) & 3 {
        event_flag::DESCRIPTOR => {
            let word = suppression.load(0);
            // All three as they would be without rounds, seen from the newest.
            let at = |index: u16, wrap: bool| if wrap == new.wrap { index } else { index.wrapping_sub(size) };
            has_come(at(word & 0x7fff, word & 0x8000 != 0), new.index, at(old.index, old.wrap))
        }
        event_flag::DISABLE => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::area::LocalArea;

    #[test]
    fn rounds_count() {
        let last = Place { index: 2, wrap: true };
        assert_eq!(last.later(1, 3), Place { index: 0, wrap: false });
        assert_eq!(last.later(3, 3), Place { index: 2, wrap: false });
        for steps in 0..6 {
            assert_eq!(last.steps_to((0..steps).fold(last, |place, _| place.later(1, 3)), 3), steps);
        }
        assert_eq!(Place::START.later(2, 3), last);
        for place in [Place::START, Place { index: 0, wrap: false }] {
            assert!(place.is_available(place.available() | flag::NEXT) && !place.is_used(place.available()));
            assert!(place.is_used(place.used()) && !place.is_available(place.used()));
            let other = Place { wrap: !place.wrap, ..place };
            assert!(!other.is_available(place.available()) && !other.is_used(place.used()));
        }
    }

    #[test]
    fn a_descriptor_that_is_waited_for_has_come_across_the_end_of_a_round() {
        let area = LocalArea::new(4);
        let place = |index, wrap| Place { index, wrap };
        let asked = |of: Place, old: Place, new: Place| {
            ask(&area, true, of);
            is_asked(&area, 8, old, new)
        };
        assert!(asked(place(7, true), place(6, true), place(1, false)));
        assert!(asked(place(0, false), place(6, true), place(1, false)));
        assert!(!asked(place(1, false), place(6, true), place(1, false)), "the next one is waited for");
        assert!(!asked(place(5, true), place(6, true), place(1, false)), "it came before");
        assert!(asked(place(3, false), place(3, false), place(4, false)));
        ask_not(&area);
        assert!(!is_asked(&area, 8, place(0, true), place(1, true)));
        ask(&area, false, Place::START);
        assert!(is_asked(&area, 8, place(0, true), place(1, true)));
    }
}
