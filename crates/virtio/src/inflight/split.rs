//! The region of a split queue.

use alloc::vec::Vec;

use super::format::{ENTRIES_AT, VERSION, VERSION_AT, in_order, load_byte, load_wide};
use crate::area::Area;

/// Bytes before the entries.
const HEADER: usize = 16;
/// Bytes of an entry.
const ENTRY: usize = 16;
/// Where the last batch of used buffers begins.
const LAST_BATCH: usize = 12;
/// The used ring's index as of the last batch that is wholly recorded.
const USED: usize = 14;
/// In an entry: 1 while the buffer is under way.
const UNDER_WAY: usize = 0;
/// In an entry: the next of the last batch.
const NEXT: usize = 6;
/// In an entry: its number in the order of buffers.
const COUNTER: usize = 8;

/// Bytes of the region of a queue of this size.
pub(super) const fn len(size: u16) -> usize {
    HEADER + ENTRY * size as usize
}

/// Keeps track of one split queue's buffers, by the descriptors that they begin at.
#[derive(Debug)]
pub struct SplitTracker<A> {
    area: A,
    counter: u64,
    /// What was given back and is not published.
    batch: Vec<u16>,
}

/// A tracker that goes on in a region.
#[derive(Debug)]
pub struct ResumedSplit<A> {
    /// It.
    pub tracker: SplitTracker<A>,
    /// Where the buffers begin that an earlier device has left under way, in order.
    pub heads: Vec<u16>,
}

fn entry(head: u16) -> usize {
    HEADER + ENTRY * usize::from(head)
}

impl<A: Area> SplitTracker<A> {
    /// Begins in a region, and says which buffers an earlier device has left under way, in their order. `used` is the index of the used ring. `None` if the region is another queue's.
    pub fn begin(area: A, size: u16, used: u16) -> Option<ResumedSplit<A>> {
        if area.len() < len(size) {
            return None;
        }
        match area.load(VERSION_AT) {
            0 => {
                area.store(ENTRIES_AT, size);
                area.store(USED, used);
                in_order();
                area.store(VERSION_AT, VERSION);
            }
            VERSION if area.load(ENTRIES_AT) == size => complete_last_batch(&area, size, used),
            _ => return None,
        }
        let mut left: Vec<(u64, u16)> = (0..size)
            .filter(|head| load_byte(&area, entry(*head) + UNDER_WAY) == 1)
            .map(|head| (load_wide(&area, entry(head) + COUNTER), head))
            .collect();
        left.sort_unstable();
        let counter = left.last().map_or(0, |(counter, _)| counter.wrapping_add(1));
        let heads = left.into_iter().map(|(_, head)| head).collect();
        Some(ResumedSplit { tracker: Self { area, counter, batch: Vec::new() }, heads })
    }

    /// A buffer was taken off the queue.
    pub fn taken(&mut self, head: u16) {
        self.area.write(entry(head) + COUNTER, &self.counter.to_le_bytes());
        self.counter = self.counter.wrapping_add(1);
        in_order();
        self.area.write(entry(head) + UNDER_WAY, &[1]);
    }

    /// A buffer is about to be given back.
    pub fn returning(&mut self, head: u16) {
        self.area.store(entry(head) + NEXT, self.area.load(LAST_BATCH));
        in_order();
        self.area.store(LAST_BATCH, head);
        self.batch.push(head);
    }

    /// The used ring has this index now.
    pub fn published(&mut self, used: u16) {
        in_order();
        for head in self.batch.drain(..) {
            self.area.write(entry(head) + UNDER_WAY, &[0]);
        }
        in_order();
        self.area.store(USED, used);
    }
}

/// What the driver saw of the last batch is not under way, whether its device could still say so or not.
fn complete_last_batch<A: Area>(area: &A, size: u16, used: u16) {
    let count = used.wrapping_sub(area.load(USED));
    let mut head = area.load(LAST_BATCH);
    for _ in 0..count.min(size) {
        if head >= size {
            break;
        }
        area.write(entry(head) + UNDER_WAY, &[0]);
        head = area.load(entry(head) + NEXT);
    }
    in_order();
    area.store(USED, used);
}
