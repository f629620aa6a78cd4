//! A pool's arenas: which there are, what of them is free, and who hears of them.
//!
//! Small blocks and large ones have arenas of their own, so that a few small ones that stay out do not break up the room for large ones.

use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

use crate::arena::{Arena, ArenaSpan, Piece};
use crate::gaps::Gaps;
use crate::limits::{ARENA, FIRST_ARENA, SMALL_BLOCK};
use crate::memory::{LARGEST, class_of, size_of};
use crate::observer::ArenaObserver;
use crate::source::MemorySource;

/// A pool's arenas. They are the owner's alone.
pub(crate) struct Arenas {
    source: Arc<dyn MemorySource>,
    /// In the order of their ids.
    table: Vec<Entry>,
    observers: Vec<Watching>,
    watches: u64,
}

struct Entry {
    arena: Arc<Arena>,
    gaps: Gaps,
    kind: Kind,
}

/// What an arena is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Small,
    Large,
}

impl Kind {
    fn of(class: usize) -> Self {
        if size_of(class) <= SMALL_BLOCK { Self::Small } else { Self::Large }
    }
}

struct Watching {
    watch: u64,
    observer: Rc<dyn ArenaObserver>,
}

impl Arenas {
    pub(crate) fn new(source: Arc<dyn MemorySource>) -> Self {
        Self { source, table: Vec::new(), observers: Vec::new(), watches: 0 }
    }

    /// A piece of an arena that is there for blocks of its kind.
    pub(crate) fn place(&mut self, class: usize) -> Option<Piece> {
        let kind = Kind::of(class);
        self.place_where(class, |entry| entry.kind == kind)
    }

    /// A piece of any arena that is there.
    pub(crate) fn place_anywhere(&mut self, class: usize) -> Option<Piece> {
        self.place_where(class, |_| true)
    }

    /// A piece where it breaks up least, and of several such places the oldest, so that newer arenas become empty.
    fn place_where(&mut self, class: usize, suits: impl Fn(&Entry) -> bool) -> Option<Piece> {
        let suitable = self.table.iter_mut().filter(|entry| suits(entry));
        let fitting = suitable.filter_map(|entry| entry.gaps.fit(class).map(|fit| (fit, entry)));
        let (_, entry) = fitting.min_by_key(|(fit, _)| *fit)?;
        let offset = entry.gaps.take(class)?;
        Some(Piece::new(&entry.arena, offset, class))
    }

    /// Bytes of the arena that a block of a class would have made, in a pool with this limit.
    pub(crate) fn next_len(&self, class: usize, limit: usize) -> usize {
        let kind = Kind::of(class);
        let is_first = kind == Kind::Small && self.table.iter().all(|entry| entry.kind != kind);
        let usual = if is_first { FIRST_ARENA } else { ARENA };
        let least = limit.checked_next_power_of_two().unwrap_or(LARGEST);
        size_of(class_of(usual.min(least)).max(class))
    }

    /// An arena of this length for blocks of a class, if the source has it.
    pub(crate) fn obtain(&mut self, class: usize, len: usize) -> Option<ArenaSpan> {
        let whole = class_of(len);
        let arena = Arena::new(self.source.obtain(len)?, whole)?;
        let span = arena.span();
        let entry = Entry { arena: Arc::new(arena), gaps: Gaps::new(whole), kind: Kind::of(class) };
        self.table.push(entry);
        Some(span)
    }

    /// Takes back a piece whose block is no more.
    pub(crate) fn give_back(&mut self, piece: &Piece) {
        if let Ok(at) = self.table.binary_search_by_key(&piece.arena(), |entry| entry.arena.id()) {
            self.table[at].gaps.give_back(piece.class(), piece.offset());
        }
    }

    /// Takes out the newest arena without blocks.
    pub(crate) fn take_empty(&mut self) -> Option<Arc<Arena>> {
        let at = self.table.iter().rposition(|entry| entry.gaps.is_whole())?;
        Some(self.table.remove(at).arena)
    }

    /// Takes out all of them. Those that blocks are left of stay for as long as these.
    pub(crate) fn end(&mut self) {
        drop(mem::take(&mut self.table));
    }

    pub(crate) fn spans(&self) -> Vec<ArenaSpan> {
        self.table.iter().map(|entry| entry.arena.span()).collect()
    }

    /// Has an observer hear of what comes and goes; the answer names the watch.
    pub(crate) fn watch(&mut self, observer: Rc<dyn ArenaObserver>) -> u64 {
        self.watches += 1;
        self.observers.push(Watching { watch: self.watches, observer });
        self.watches
    }

    /// Ends a watch. The observer is the caller's to drop, which may do anything.
    pub(crate) fn unwatch(&mut self, watch: u64) -> Option<Rc<dyn ArenaObserver>> {
        let at = self.observers.iter().position(|watching| watching.watch == watch)?;
        Some(self.observers.remove(at).observer)
    }

    /// Those that are to hear of something now.
    pub(crate) fn observers(&self) -> Vec<Rc<dyn ArenaObserver>> {
        self.observers.iter().map(|watching| Rc::clone(&watching.observer)).collect()
    }

    /// True while somebody hears of them.
    #[cfg(feature = "std")]
    pub(crate) fn is_watched(&self) -> bool {
        !self.observers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Heap;

    fn arenas(classes: &[usize]) -> Arenas {
        let mut arenas = Arenas::new(Arc::new(Heap));
        for len in classes {
            let class = class_of(*len);
            let len = arenas.next_len(class, 64 << 20);
            arenas.obtain(class, len).unwrap();
        }
        arenas
    }

    #[test]
    fn the_first_arena_is_small_and_the_largest_blocks_have_arenas_of_their_own() {
        let arenas = arenas(&[512, SMALL_BLOCK, 2 * SMALL_BLOCK, LARGEST]);
        let lens: Vec<_> = arenas.spans().iter().map(|span| span.len).collect();
        assert_eq!(lens, [FIRST_ARENA, ARENA, ARENA, LARGEST]);
        let fresh = Arenas::new(Arc::new(Heap));
        assert_eq!(fresh.next_len(class_of(512), 5000), 8192, "no longer than a small pool's limit");
        assert_eq!(fresh.next_len(class_of(LARGEST), usize::MAX), LARGEST);
    }

    #[test]
    fn a_small_block_lies_in_a_large_ones_arena_only_where_it_must() {
        let mut arenas = arenas(&[LARGEST]);
        let small = class_of(512);
        assert!(arenas.place(small).is_none());
        let piece = arenas.place_anywhere(small).unwrap();
        assert!(arenas.place(class_of(LARGEST)).is_none() && arenas.take_empty().is_none());
        arenas.give_back(&piece);
        assert!(arenas.take_empty().is_some() && arenas.spans().is_empty());
    }

    #[test]
    fn what_is_left_of_the_oldest_arena_is_used_before_a_newer_one_is_broken_up() {
        let mut arenas = arenas(&[512, 512]);
        let (first, small) = (arenas.spans()[0].id, class_of(512));
        let all: Vec<_> = (0..FIRST_ARENA / 512).map(|_| arenas.place(small).unwrap()).collect();
        assert!(all.iter().all(|piece| piece.arena() == first));
        assert_ne!(arenas.place(small).unwrap().arena(), first);
    }
}
