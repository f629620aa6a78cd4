//! Commits of the map: which of its blocks have changed, which commit covers what, and who carries the next one out.
//!
//! One commit is under way at a time, in one queue, for all. It takes the blocks that have changed longest ago, notes what they are to say, makes durable what they speak
//! of, writes them, and makes them durable. What changes meanwhile is the next one's. Whoever needs something durable waits for a [`Need`].

use std::collections::VecDeque;

use crate::limits::COMMIT_BLOCKS;

/// What somebody waits for: everything that had changed, and everything that had been written, when it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Need {
    /// The change that must be on media.
    change: u64,
    /// The commit that must have ended, as only one that begins after this was asked for covers what was written before.
    commit: u64,
}

/// The changes of a map and its commits.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    /// Changed blocks with the number of the change, longest ago first.
    changed: VecDeque<(u64, u32)>,
    /// Whether a block is among them.
    is_changed: Vec<bool>,
    changes: u64,
    /// All changes up to this one are on media.
    on_media: u64,
    begun: u64,
    ended: u64,
    /// One is under way.
    running: bool,
}

/// What a commit writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Batch {
    /// The blocks, each with its change.
    pub(crate) blocks: Vec<(u64, u32)>,
}

impl Commits {
    /// For a map of so many blocks.
    pub(crate) fn new(blocks: u32) -> Self {
        Self { is_changed: vec![false; wire::index(u64::from(blocks))], ..Self::default() }
    }

    /// A block has changed.
    pub(crate) fn change(&mut self, block: u32) {
        let Some(changed) = self.is_changed.get_mut(wire::index(u64::from(block))) else { return };
        if !core::mem::replace(changed, true) {
            self.changes += 1;
            self.changed.push_back((self.changes, block));
        }
    }

    /// What makes everything up to now durable.
    pub(crate) fn need(&self) -> Need {
        Need { change: self.changes, commit: self.begun + 1 }
    }

    /// True when everything that was needed is durable.
    pub(crate) fn meets(&self, need: Need) -> bool {
        self.ended >= need.commit && self.on_media >= need.change
    }

    /// True if nothing has changed that is not on media, and no commit is under way.
    pub(crate) fn is_settled(&self) -> bool {
        self.changed.is_empty() && !self.running
    }

    /// Begins a commit if what is needed is not durable, and none is under way.
    pub(crate) fn begin(&mut self, need: Need) -> Option<Batch> {
        if self.running || self.meets(need) {
            return None;
        }
        (self.running, self.begun) = (true, self.begun + 1);
        let count = self.changed.len().min(COMMIT_BLOCKS);
        let blocks: Vec<_> = self.changed.drain(..count).collect();
        for (_, block) in &blocks {
            if let Some(changed) = self.is_changed.get_mut(wire::index(u64::from(*block))) {
                *changed = false;
            }
        }
        Some(Batch { blocks })
    }

    /// How many have begun.
    pub(crate) fn begun(&self) -> u64 {
        self.begun
    }

    /// The commit has ended well.
    pub(crate) fn end(&mut self, batch: &Batch) {
        (self.running, self.ended) = (false, self.begun);
        let left = self.changed.front().map_or(self.changes, |(change, _)| change - 1);
        let last = batch.blocks.last().map_or(left, |(change, _)| *change);
        self.on_media = self.on_media.max(last.min(left));
    }

    /// The commit has not ended well: its blocks have changed as before.
    pub(crate) fn abandon(&mut self, batch: Batch) {
        self.running = false;
        for (change, block) in batch.blocks.into_iter().rev() {
            let Some(changed) = self.is_changed.get_mut(wire::index(u64::from(block))) else { continue };
            if !core::mem::replace(changed, true) {
                self.changed.push_front((change, block));
            } else if let Some(at) = self.changed.iter().position(|(_, other)| *other == block) {
                // It has changed again meanwhile: the earlier change counts.
                self.changed.remove(at);
                self.changed.push_front((change, block));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_during_a_commit_is_the_next_ones() {
        let mut commits = Commits::new(8);
        commits.change(3);
        let first = commits.need();
        let batch = commits.begin(first).unwrap();
        assert_eq!(batch.blocks, [(1, 3)]);
        commits.change(3);
        let second = commits.need();
        assert_eq!(commits.begin(second), None, "one at a time");
        commits.end(&batch);
        assert!(commits.meets(first) && !commits.meets(second));
        let batch = commits.begin(second).unwrap();
        commits.end(&batch);
        assert!(commits.meets(second) && commits.is_settled());
    }

    #[test]
    fn data_that_changes_no_block_needs_a_commit_that_begins_afterwards() {
        let mut commits = Commits::new(8);
        let first = commits.need();
        let batch = commits.begin(first).unwrap();
        let late = commits.need();
        commits.end(&batch);
        assert!(commits.meets(first) && !commits.meets(late));
    }

    #[test]
    fn many_changes_take_several_commits() {
        let mut commits = Commits::new(1000);
        (0..600).for_each(|block| commits.change(block));
        let need = commits.need();
        for _ in 0..3 {
            assert!(!commits.meets(need));
            let batch = commits.begin(need).unwrap();
            assert!(batch.blocks.len() <= COMMIT_BLOCKS);
            commits.end(&batch);
        }
        assert!(commits.meets(need));
    }

    #[test]
    fn an_abandoned_commit_is_made_again() {
        let mut commits = Commits::new(8);
        commits.change(1);
        commits.change(2);
        let need = commits.need();
        let batch = commits.begin(need).unwrap();
        commits.change(2);
        commits.change(5);
        commits.abandon(batch);
        assert!(!commits.meets(need));
        let batch = commits.begin(need).unwrap();
        assert_eq!(batch.blocks.iter().map(|(_, block)| *block).collect::<Vec<_>>(), [1, 2, 5]);
        commits.end(&batch);
        assert!(commits.meets(need));
    }
}
