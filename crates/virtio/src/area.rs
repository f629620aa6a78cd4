//! Memory that two sides share: each reads and writes it while the other does.

use alloc::rc::Rc;
use core::cell::Cell;

/// One stretch of shared memory.
///
/// The other side may change any byte of it between two calls, and during one. What lies behind its end reads as zeros, and is not written: a queue checks once that its areas are
/// long enough, and each of its accesses then lies within them.
pub trait Area {
    /// Bytes.
    fn len(&self) -> usize;

    /// True for an area of no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the bytes from `at` on. They need not be from one moment.
    fn read(&self, at: usize, into: &mut [u8]);

    /// Writes bytes from `at` on. The other side may see them in any order.
    fn write(&self, at: usize, bytes: &[u8]);

    /// The two bytes at `at`, an even place, as a little-endian number of one moment. What the other side wrote before it [stored](Self::store) this number is seen by every
    /// read that follows.
    fn load(&self, at: usize) -> u16;

    /// Writes two bytes at `at`, an even place, at one moment. Whoever [loads](Self::load) them sees everything that was written before.
    fn store(&self, at: usize, number: u16);
}

/// All memory that the other side has lent, by its addresses.
pub trait AddressSpace {
    /// A stretch of it.
    type Area: Area;

    /// The bytes from `address` on; `None` unless all of them are there, in one piece.
    fn area(&self, address: u64, len: usize) -> Option<Self::Area>;
}

/// Memory of this thread, which stands for shared memory in simulations and tests. Clones are the same memory.
#[derive(Debug, Clone)]
pub struct LocalArea {
    bytes: Rc<[Cell<u8>]>,
    start: usize,
    len: usize,
}

impl LocalArea {
    /// As many zeros.
    pub fn new(len: usize) -> Self {
        Self { bytes: core::iter::repeat_n(Cell::new(0), len).collect(), start: 0, len }
    }

    /// A part of it; `None` unless it has all those bytes.
    pub fn part(&self, at: usize, len: usize) -> Option<Self> {
        let end = at.checked_add(len)?;
        (end <= self.len).then(|| Self { bytes: Rc::clone(&self.bytes), start: self.start + at, len })
    }

    fn cell(&self, at: usize) -> Option<&Cell<u8>> {
        if at < self.len { self.bytes.get(self.start + at) } else { None }
    }
}

impl Area for LocalArea {
    fn len(&self) -> usize {
        self.len
    }

    fn read(&self, at: usize, into: &mut [u8]) {
        for (place, byte) in (at..).zip(into) {
            *byte = self.cell(place).map_or(0, Cell::get);
        }
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        for (place, byte) in (at..).zip(bytes) {
            if let Some(cell) = self.cell(place) {
                cell.set(*byte);
            }
        }
    }

    fn load(&self, at: usize) -> u16 {
        let mut bytes = [0; 2];
        self.read(at, &mut bytes);
        u16::from_le_bytes(bytes)
    }

    fn store(&self, at: usize, number: u16) {
        self.write(at, &number.to_le_bytes());
    }
}

impl AddressSpace for LocalArea {
    type Area = Self;

    fn area(&self, address: u64, len: usize) -> Option<Self> {
        self.part(usize::try_from(address).ok()?, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_the_same_memory_and_ends_where_it_ends() {
        let all = LocalArea::new(16);
        let part = all.part(4, 8).unwrap();
        part.store(6, 0x0102);
        part.write(7, &[9, 9]);
        assert_eq!((all.load(10), part.load(8)), (0x0902, 0));
        assert!(all.part(9, 8).is_none() && part.part(usize::MAX, 2).is_none());
    }
}
