//! Where the parts of a split queue lie (VIRTIO 1.2 §2.7.5 to §2.7.8), all little-endian.

use crate::area::Area;
use crate::chain::Segment;

/// Bytes of a descriptor: address, length, flags, next.
pub(super) const DESCRIPTOR: usize = 16;

/// Flags of a descriptor.
pub(super) mod flag {
    pub(crate) const NEXT: u16 = 1;
    pub(crate) const WRITE: u16 = 2;
    pub(crate) const INDIRECT: u16 = 4;
}

/// In a ring's flags: whoever reads the ring wants no notification. Of the driver about used buffers, of the device about available ones.
pub(super) const NO_NOTIFICATION: u16 = 1;
/// Where both rings have their flags.
pub(super) const FLAGS: usize = 0;
/// Where both rings have their index.
pub(super) const INDEX: usize = 2;
/// Where their entries begin.
const ENTRIES: usize = 4;

/// How many descriptors a queue has, and so where everything is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitLayout {
    size: u16,
}

/// The areas of a queue.
#[derive(Debug, Clone)]
pub struct SplitAreas<A> {
    /// The table of descriptors, at an address that is a multiple of 16.
    pub table: A,
    /// The available ring, at a multiple of 2.
    pub available: A,
    /// The used ring, at a multiple of 4.
    pub used: A,
}

impl SplitLayout {
    /// A queue of `size` descriptors; `None` unless that is a power of two and at most 32,768 (§2.7).
    pub fn new(size: u16) -> Option<Self> {
        (size.is_power_of_two() && size <= crate::limits::LARGEST_QUEUE).then_some(Self { size })
    }

    /// Descriptors.
    pub fn size(self) -> u16 {
        self.size
    }

    /// Bytes of the table.
    pub fn table_len(self) -> usize {
        usize::from(self.size) * DESCRIPTOR
    }

    /// Bytes of the available ring.
    pub fn available_len(self) -> usize {
        ENTRIES + usize::from(self.size) * 2 + 2
    }

    /// Bytes of the used ring.
    pub fn used_len(self) -> usize {
        ENTRIES + usize::from(self.size) * 8 + 2
    }

    /// Whether the areas are long enough.
    pub(super) fn fits<A: Area>(self, areas: &SplitAreas<A>) -> bool {
        areas.table.len() >= self.table_len()
            && areas.available.len() >= self.available_len()
            && areas.used.len() >= self.used_len()
    }

    fn slot(self, index: u16) -> usize {
        usize::from(index & (self.size - 1))
    }

    /// Where the available ring has the entry of an index.
    pub(super) fn available_entry(self, index: u16) -> usize {
        ENTRIES + self.slot(index) * 2
    }

    /// Where the used ring has it.
    pub(super) fn used_entry(self, index: u16) -> usize {
        ENTRIES + self.slot(index) * 8
    }

    /// Where the available ring says which used buffer the driver waits for.
    pub(super) fn used_event(self) -> usize {
        self.available_entry(0) + usize::from(self.size) * 2
    }

    /// Where the used ring says which available buffer the device waits for.
    pub(super) fn available_event(self) -> usize {
        self.used_entry(0) + usize::from(self.size) * 8
    }
}

/// A descriptor as it lies in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub(super) address: u64,
    pub(super) len: u32,
    pub(super) flags: u16,
    pub(super) next: u16,
}

impl Descriptor {
    pub(super) fn read<A: Area>(table: &A, number: usize) -> Self {
        let mut bytes = [0; DESCRIPTOR];
        table.read(number * DESCRIPTOR, &mut bytes);
        let [a0, a1, a2, a3, a4, a5, a6, a7, l0, l1, l2, l3, f0, f1, n0, n1] = bytes;
        Self {
            address: u64::from_le_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
            len: u32::from_le_bytes([l0, l1, l2, l3]),
            flags: u16::from_le_bytes([f0, f1]),
            next: u16::from_le_bytes([n0, n1]),
        }
    }

    pub(super) fn write<A: Area>(self, table: &A, number: usize) {
        let mut bytes = [0; DESCRIPTOR];
        let (address, rest) = bytes.split_at_mut(8);
        address.copy_from_slice(&self.address.to_le_bytes());
        let (len, rest) = rest.split_at_mut(4);
        len.copy_from_slice(&self.len.to_le_bytes());
        let (flags, next) = rest.split_at_mut(2);
        flags.copy_from_slice(&self.flags.to_le_bytes());
        next.copy_from_slice(&self.next.to_le_bytes());
        table.write(number * DESCRIPTOR, &bytes);
    }

    pub(super) fn has(self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn segment(self) -> Segment {
        Segment { address: self.address, len: self.len, is_written: self.has(flag::WRITE) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::area::LocalArea;

    #[test]
    fn parts_have_the_lengths_of_the_standard() {
        let layout = SplitLayout::new(256).unwrap();
        assert_eq!((layout.table_len(), layout.available_len(), layout.used_len()), (4096, 518, 2054));
        assert_eq!((layout.used_event(), layout.available_event()), (516, 2052));
        assert_eq!((layout.available_entry(257), layout.used_entry(257)), (6, 12));
        assert!([0, 3, 32_769].map(SplitLayout::new).iter().all(Option::is_none));
        assert!(SplitLayout::new(1).is_some() && SplitLayout::new(32_768).is_some());
    }

    #[test]
    fn a_descriptor_lies_as_the_standard_has_it() {
        let table = LocalArea::new(32);
        let descriptor =
            Descriptor { address: 0x0102_0304_0506_0708, len: 0x1112_1314, flags: 3, next: 0x2122 };
        descriptor.write(&table, 1);
        let mut bytes = [0; 16];
        table.read(16, &mut bytes);
        assert_eq!(bytes, [8, 7, 6, 5, 4, 3, 2, 1, 0x14, 0x13, 0x12, 0x11, 3, 0, 0x22, 0x21]);
        assert_eq!(Descriptor::read(&table, 1), descriptor);
    }
}
