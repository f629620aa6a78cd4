//! What of an arena is free: gaps whose lengths are powers of two, each at a multiple of its length.
//!
//! A gap has one buddy, the other half of the gap twice as long. One that is too long is halved; two buddies that are free become one again, so that an
//! arena without blocks is one gap. The shortest that will do is taken, and of several the first, which keeps the ends of arenas untouched.

use alloc::collections::BTreeSet;

use crate::memory::size_of;

/// A free part of an arena. Their order is that in which they are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Gap {
    class: usize,
    offset: usize,
}

impl Gap {
    fn buddy(self) -> Self {
        let size = size_of(self.class);
        let is_first = (self.offset / size).is_multiple_of(2);
        Self { offset: if is_first { self.offset + size } else { self.offset - size }, ..self }
    }
}

/// The gaps of an arena.
#[derive(Debug)]
pub(crate) struct Gaps {
    whole: Gap,
    free: BTreeSet<Gap>,
}

impl Gaps {
    /// Those of an arena as long as a class's memory, all of which is free.
    pub(crate) fn new(class: usize) -> Self {
        let whole = Gap { class, offset: 0 };
        Self { whole, free: BTreeSet::from([whole]) }
    }

    /// True when nothing of the arena is taken.
    pub(crate) fn is_whole(&self) -> bool {
        self.free.contains(&self.whole)
    }

    fn shortest(&self, class: usize) -> Option<Gap> {
        self.free.range(Gap { class, offset: 0 }..).next().copied()
    }

    /// The class of the gap that [`Gaps::take`] would take from.
    pub(crate) fn fit(&self, class: usize) -> Option<usize> {
        self.shortest(class).map(|gap| gap.class)
    }

    /// Takes a gap of a class: where it begins.
    pub(crate) fn take(&mut self, class: usize) -> Option<usize> {
        let found = self.shortest(class)?;
        self.free.remove(&found);
        for half in class..found.class {
            self.free.insert(Gap { class: half, offset: found.offset + size_of(half) });
        }
        Some(found.offset)
    }

    /// Takes back what [`Gaps::take`] gave.
    pub(crate) fn give_back(&mut self, class: usize, offset: usize) {
        let mut gap = Gap { class, offset };
        while gap.class < self.whole.class && self.free.remove(&gap.buddy()) {
            let offset = gap.offset.min(gap.buddy().offset);
            gap = Gap { class: gap.class + 1, offset };
        }
        debug_assert!(!self.free.contains(&gap));
        self.free.insert(gap);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::class_of;

    #[test]
    fn gaps_are_halved_for_a_block_and_joined_when_it_comes_back() {
        let mut gaps = Gaps::new(class_of(8192));
        let (page, small) = (class_of(4096), class_of(512));
        assert_eq!(gaps.take(small), Some(0));
        assert_eq!(gaps.take(page), Some(4096));
        assert_eq!(gaps.take(page), None);
        assert_eq!(gaps.fit(small), Some(small), "the buddy of the first");
        assert_eq!(gaps.take(small), Some(512));
        gaps.give_back(small, 0);
        gaps.give_back(page, 4096);
        assert!(!gaps.is_whole());
        gaps.give_back(small, 512);
        assert!(gaps.is_whole());
        assert_eq!(gaps.take(class_of(8192)), Some(0));
    }

    #[test]
    fn the_shortest_gap_that_will_do_is_taken_first() {
        let mut gaps = Gaps::new(class_of(8192));
        let small = class_of(512);
        let taken: Vec<_> = (0..16).filter_map(|_| gaps.take(small)).collect();
        assert_eq!(taken, (0..16).map(|at| at * 512).collect::<Vec<_>>());
        gaps.give_back(small, 512);
        gaps.give_back(small, 4096);
        gaps.give_back(small, 4608);
        assert_eq!(gaps.take(small), Some(512), "not half of the kilobyte");
    }
}
