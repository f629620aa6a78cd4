//! What of an arena is free: extents whose lengths are powers of two, each at a multiple of its length.
//!
//! An extent has one buddy, the other half of the extent twice as long. One that is too long is halved; two buddies that are free become one again, so that an
//! arena without blocks is one extent. The shortest that will do is taken, and of several the first, which keeps the ends of arenas untouched.

use alloc::collections::BTreeSet;

use crate::memory::size_of;

/// A free part of an arena, in the order in which they are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Extent {
    class: usize,
    offset: usize,
}

impl Extent {
    fn buddy(self) -> Self {
        let size = size_of(self.class);
        let is_first = (self.offset / size).is_multiple_of(2);
        Self { offset: if is_first { self.offset + size } else { self.offset - size }, ..self }
    }
}

/// An arena's free extents.
#[derive(Debug)]
pub(crate) struct Extents {
    whole: Extent,
    free: BTreeSet<Extent>,
}

impl Extents {
    /// Those of an arena as long as a class's memory, all of which is free.
    pub(crate) fn new(class: usize) -> Self {
        let whole = Extent { class, offset: 0 };
        Self { whole, free: BTreeSet::from([whole]) }
    }

    /// True when nothing of the arena is taken.
    pub(crate) fn is_whole(&self) -> bool {
        self.free.contains(&self.whole)
    }

    fn shortest(&self, class: usize) -> Option<Extent> {
        self.free.range(Extent { class, offset: 0 }..).next().copied()
    }

    /// The class of the extent that [`Extents::take`] would take from.
    pub(crate) fn fit(&self, class: usize) -> Option<usize> {
        self.shortest(class).map(|extent| extent.class)
    }

    /// Takes an extent of a class: where it begins.
    pub(crate) fn take(&mut self, class: usize) -> Option<usize> {
        let found = self.shortest(class)?;
        self.free.remove(&found);
        for half in class..found.class {
            self.free.insert(Extent { class: half, offset: found.offset + size_of(half) });
        }
        Some(found.offset)
    }

    /// Takes back what [`Extents::take`] gave.
    pub(crate) fn give_back(&mut self, class: usize, offset: usize) {
        let mut extent = Extent { class, offset };
        while extent.class < self.whole.class && self.free.remove(&extent.buddy()) {
            let offset = extent.offset.min(extent.buddy().offset);
            extent = Extent { class: extent.class + 1, offset };
        }
        debug_assert!(!self.free.contains(&extent));
        self.free.insert(extent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::class_of;

    #[test]
    fn extents_are_halved_for_a_block_and_joined_when_it_comes_back() {
        let mut extents = Extents::new(class_of(8192));
        let (page, small) = (class_of(4096), class_of(512));
        assert_eq!(extents.take(small), Some(0));
        assert_eq!(extents.take(page), Some(4096));
        assert_eq!(extents.take(page), None);
        assert_eq!(extents.fit(small), Some(small), "the buddy of the first");
        assert_eq!(extents.take(small), Some(512));
        extents.give_back(small, 0);
        extents.give_back(page, 4096);
        assert!(!extents.is_whole());
        extents.give_back(small, 512);
        assert!(extents.is_whole());
        assert_eq!(extents.take(class_of(8192)), Some(0));
    }

    #[test]
    fn the_shortest_extent_that_will_do_is_taken_first() {
        let mut extents = Extents::new(class_of(8192));
        let small = class_of(512);
        let taken: Vec<_> = (0..16).filter_map(|_| extents.take(small)).collect();
        assert_eq!(taken, (0..16).map(|at| at * 512).collect::<Vec<_>>());
        extents.give_back(small, 512);
        extents.give_back(small, 4096);
        extents.give_back(small, 4608);
        assert_eq!(extents.take(small), Some(512), "not half of the kilobyte");
    }
}
