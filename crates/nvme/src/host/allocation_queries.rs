//! Allocation queries of an admin queue: a few are under way at a time, so that Keep Alive and events have places in the queue.

use alloc::collections::VecDeque;

use volume::{Extent, Tag};

use crate::limits::ALLOCATION_COMMANDS;

/// A request to know how blocks are allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AllocationQuery {
    pub(super) tag: Tag,
    pub(super) extent: Extent,
}

/// Those of a queue.
#[derive(Debug, Default)]
pub(super) struct AllocationQueries {
    under_way: usize,
    pending: VecDeque<AllocationQuery>,
}

impl AllocationQueries {
    /// One more is asked for.
    pub(super) fn push(&mut self, query: AllocationQuery) {
        self.pending.push_back(query);
    }

    /// The next one that may be sent, which is under way from now on.
    pub(super) fn start_next(&mut self) -> Option<AllocationQuery> {
        if self.under_way >= ALLOCATION_COMMANDS {
            return None;
        }
        let query = self.pending.pop_front()?;
        self.under_way = self.under_way.saturating_add(1);
        Some(query)
    }

    /// One that was under way has ended.
    pub(super) fn on_end(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// Forgets all; gives those that were not sent.
    pub(super) fn end_all(&mut self) -> VecDeque<AllocationQuery> {
        self.under_way = 0;
        core::mem::take(&mut self.pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_are_under_way_and_the_others_follow_in_order() {
        let query = |tag| AllocationQuery { tag: Tag(tag), extent: Extent::new(tag, 1) };
        let mut queries = AllocationQueries::default();
        (0..12).for_each(|tag| queries.push(query(tag)));
        let started: alloc::vec::Vec<_> = core::iter::from_fn(|| queries.start_next()).collect();
        assert_eq!((started.len(), started.last()), (ALLOCATION_COMMANDS, Some(&query(7))));
        queries.on_end();
        assert_eq!((queries.start_next(), queries.start_next()), (Some(query(8)), None));
        assert_eq!(queries.end_all().len(), 3);
        queries.push(query(20));
        assert_eq!(queries.start_next(), Some(query(20)), "nothing is under way any more");
    }
}
