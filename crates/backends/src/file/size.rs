//! How many blocks a file has now: the one thing of its shape that may change while it is open.

use std::sync::atomic::{AtomicU64, Ordering};

use volume::Listeners;

/// The size that requests are held against, by every queue.
#[derive(Debug)]
pub(super) struct Size {
    blocks: AtomicU64,
    /// How often it has changed.
    changes: AtomicU64,
    pub(super) listeners: Listeners,
}

impl Size {
    pub(super) fn new(blocks: u64) -> Self {
        Self { blocks: AtomicU64::new(blocks), changes: AtomicU64::new(0), listeners: Listeners::default() }
    }

    pub(super) fn blocks(&self) -> u64 {
        self.blocks.load(Ordering::Acquire)
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// It has so many blocks from now on. Requests that are under way already go on.
    pub(super) fn set(&self, blocks: u64) {
        if self.blocks.swap(blocks, Ordering::AcqRel) != blocks {
            self.changes.fetch_add(1, Ordering::AcqRel);
            self.listeners.wake();
        }
    }
}
