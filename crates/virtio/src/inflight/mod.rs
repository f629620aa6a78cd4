//! What a device has under way, in memory that outlives it (vhost-user, *Inflight I/O tracking*): whoever comes after it serves the same buffers again, in their order, and none that
//! was used.
//!
//! The driver's side keeps the memory and hands it to the next device; it never looks into it. A device may end between any two writes, so each of them leaves what can be read.

mod packed;
mod split;
#[cfg(test)]
mod tests;

pub use packed::{LeftBehind, PackedTracker};
pub use split::SplitTracker;

use core::sync::atomic::{Ordering, compiler_fence};

use crate::area::Area;
use crate::chain::{Chain, ChainKey};
use crate::queue::{Layout, Position};

/// The version of both formats.
const VERSION: u16 = 1;
/// Where both have it.
const VERSION_AT: usize = 8;
/// Where both have the number of their entries.
const ENTRIES_AT: usize = 10;
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

/// Keeps what was written so far in front of what follows: a process that ends has done all of the one before any of the other.
fn in_order() {
    compiler_fence(Ordering::SeqCst);
}

/// A number of eight bytes.
fn load_wide<A: Area>(area: &A, at: usize) -> u64 {
    let mut bytes = [0; 8];
    area.read(at, &mut bytes);
    u64::from_le_bytes(bytes)
}

/// One byte.
fn load_byte<A: Area>(area: &A, at: usize) -> u8 {
    let mut byte = [0];
    area.read(at, &mut byte);
    byte[0]
}
