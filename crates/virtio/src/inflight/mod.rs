//! What a device has under way, in memory that outlives it (vhost-user, *Inflight I/O tracking*): whoever comes after it serves the same buffers again, in their order, and none that
//! was used.
//!
//! The driver's side keeps the memory and hands it to the next device; it never looks into it. A device may end between any two writes, so each of them leaves what can be read.

mod format;
mod packed;
mod split;
#[cfg(test)]
mod tests;

pub use packed::{PackedTracker, ResumedPacked};
pub use split::{ResumedSplit, SplitTracker};

use crate::area::Area;
use crate::chain::{Chain, ChainKey};
use crate::either::Layout;
use crate::queue::Position;

/// Bytes that the regions of queues are a multiple of, so that no two share a line of the cache.
const ALIGNMENT: usize = 64;

/// Bytes of the region of a queue.
pub fn region_len(layout: Layout) -> usize {
    let len = match layout {
        Layout::Split(layout) => split::len(layout.size()),
        Layout::Packed(layout) => packed::len(layout.size()),
    };
    len.next_multiple_of(ALIGNMENT)
}

/// Keeps track of one queue's buffers.
#[derive(Debug)]
pub enum Tracker<A> {
    /// Of a split queue.
    Split(SplitTracker<A>),
    /// Of a packed one.
    Packed(PackedTracker<A>),
}

impl<A: Area> Tracker<A> {
    /// A buffer was taken off the queue: from now on a successor serves it.
    pub fn taken(&mut self, chain: &mut Chain) {
        match self {
            Self::Split(tracker) => tracker.taken(chain.id),
            Self::Packed(tracker) => tracker.taken(chain),
        }
    }

    /// A buffer is about to be given back; before the driver sees it.
    pub fn returning(&mut self, key: ChainKey) {
        match self {
            Self::Split(tracker) => tracker.returning(key.id),
            Self::Packed(tracker) => tracker.returning(key),
        }
    }

    /// The driver is about to see what was given back, up to this position.
    pub fn publishing(&mut self, position: Position) {
        match self {
            Self::Split(_) => {}
            Self::Packed(tracker) => tracker.publishing(position),
        }
    }

    /// The driver sees it.
    pub fn published(&mut self, position: Position) {
        match self {
            Self::Split(tracker) => tracker.published(position.used),
            Self::Packed(tracker) => tracker.published(),
        }
    }
}
