//! The region of a packed queue. Used descriptors overwrite those that are available, so it has copies of all that are under way, in entries of its own, which a list of free ones goes through.

use alloc::vec::Vec;

use super::format::{ENTRIES_AT, VERSION, VERSION_AT, in_order, load_byte, load_wide};
use crate::area::Area;
use crate::chain::{Chain, ChainKey, LeftBehind, Raw};
use crate::packed::{PackedDevice, Place};
use crate::queue::Position;

/// Bytes before the entries.
const HEADER: usize = 32;
/// Bytes of an entry.
const ENTRY: usize = 32;
/// The first free entry, and what it was before the last batch.
const FREE: [usize; 2] = [12, 14];
/// Where the device stood among used descriptors, and where before the last batch.
const USED: [usize; 2] = [16, 18];
/// The same of the wrap counter.
const WRAP: [usize; 2] = [20, 21];

/// In an entry: 1 while the buffer that begins there is under way.
const UNDER_WAY: usize = 0;
/// In an entry: the next one.
const NEXT: usize = 2;
/// In a buffer's first entry: its last one.
const LAST: usize = 4;
/// In a buffer's first entry: how many it has.
const COUNT: usize = 6;
/// In a buffer's first entry: its number in the order of buffers.
const COUNTER: usize = 8;
/// In an entry: what the descriptor called the buffer.
const ID: usize = 16;
/// In an entry: the descriptor's flags.
const FLAGS: usize = 18;
/// In an entry: its length.
const LEN: usize = 20;
/// In an entry: its address.
const ADDRESS: usize = 24;

/// Bytes of the region of a queue of this size.
pub(super) const fn len(size: u16) -> usize {
    HEADER + ENTRY * size as usize
}

/// Keeps track of one packed queue's buffers.
#[derive(Debug)]
pub struct PackedTracker<A> {
    area: A,
    size: u16,
    counter: u64,
    free: u16,
    /// First entries of what was given back and is not published.
    batch: Vec<u16>,
}

/// A tracker that goes on in a region.
#[derive(Debug)]
pub struct ResumedPacked<A> {
    /// It.
    pub tracker: PackedTracker<A>,
    /// Where the device stands.
    pub position: Position,
    /// What an earlier device has left under way, in order.
    pub left: Vec<LeftBehind>,
}

fn entry(number: u16) -> usize {
    HEADER + ENTRY * usize::from(number)
}

impl<A: Area> PackedTracker<A> {
    /// Begins in a region, and says where the device stands and which buffers an earlier one has left under way, in their order. `device` is one in the queue's ring, wherever it
    /// stands; `fresh` is where a first one begins. `None` if the region is another queue's, or makes no sense.
    pub fn begin(area: A, size: u16, fresh: Position, device: &PackedDevice<A>) -> Option<ResumedPacked<A>> {
        if area.len() < len(size) {
            return None;
        }
        match area.load(VERSION_AT) {
            0 => initialize(&area, size, fresh),
            VERSION if area.load(ENTRIES_AT) == size => settle(&area, size, device)?,
            _ => return None,
        }
        let mut free = Vec::new();
        let mut at = area.load(FREE[0]);
        while free.len() < usize::from(size) && at < size {
            free.push(at);
            area.write(entry(at) + UNDER_WAY, &[0]);
            at = area.load(entry(at) + NEXT);
        }
        let mut left: Vec<(u64, u16)> = (0..size)
            .filter(|first| load_byte(&area, entry(*first) + UNDER_WAY) == 1)
            .map(|first| (load_wide(&area, entry(first) + COUNTER), first))
            .collect();
        left.sort_unstable();
        let counter = left.last().map_or(0, |(counter, _)| counter.wrapping_add(1));
        let used = Place { index: area.load(USED[0]), wrap: load_byte(&area, WRAP[0]) & 1 == 1 };
        if used.index >= size {
            return None;
        }
        let left: Option<Vec<LeftBehind>> =
            left.into_iter().map(|(_, first)| read(&area, size, first)).collect();
        let left = left?;
        let descriptors: usize = left.iter().map(|one| one.descriptors.len()).sum();
        let descriptors = u16::try_from(descriptors).ok().filter(|count| *count <= size)?;
        let next = used.later(descriptors, size);
        let position =
            Position { next: next.index, used: used.index, next_wrap: next.wrap, used_wrap: used.wrap };
        let free = area.load(FREE[0]);
        let tracker = Self { area, size, counter, free, batch: Vec::new() };
        Some(ResumedPacked { tracker, position, left })
    }

    /// A buffer was taken off the queue: its descriptors are copied.
    pub fn taken(&mut self, chain: &mut Chain) {
        let first = self.free;
        let (mut at, mut last) = (first, first);
        for raw in &chain.raw {
            if at >= self.size {
                return;
            }
            let place = entry(at);
            self.area.store(place + ID, raw.id);
            self.area.store(place + FLAGS, raw.flags);
            self.area.write(place + LEN, &raw.len.to_le_bytes());
            self.area.write(place + ADDRESS, &raw.address.to_le_bytes());
            last = at;
            at = self.area.load(place + NEXT);
        }
        let place = entry(first);
        self.area.store(place + LAST, last);
        self.area.store(place + COUNT, wire::saturate(chain.raw.len()));
        self.area.write(place + COUNTER, &self.counter.to_le_bytes());
        self.counter = self.counter.wrapping_add(1);
        in_order();
        self.area.write(place + UNDER_WAY, &[1]);
        in_order();
        self.free = at;
        for place in FREE {
            self.area.store(place, at);
        }
        chain.entry = first;
    }

    /// A buffer is about to be given back: its entries are free.
    pub fn returning(&mut self, key: ChainKey) {
        let last = self.area.load(entry(key.entry) + LAST);
        if last >= self.size {
            return;
        }
        self.area.store(entry(last) + NEXT, self.free);
        in_order();
        self.free = key.entry;
        self.area.store(FREE[0], key.entry);
        self.batch.push(key.entry);
    }

    /// The driver is about to see what was given back.
    pub fn publishing(&mut self, position: Position) {
        self.area.store(USED[0], position.used);
        self.area.write(WRAP[0], &[u8::from(position.used_wrap)]);
        in_order();
    }

    /// It sees it.
    pub fn published(&mut self) {
        in_order();
        for first in self.batch.drain(..) {
            self.area.write(entry(first) + UNDER_WAY, &[0]);
        }
        in_order();
        confirm(&self.area);
    }
}

/// A region for a first device: all entries are free, one behind the other.
fn initialize<A: Area>(area: &A, size: u16, fresh: Position) {
    (0..size).for_each(|number| area.store(entry(number) + NEXT, number + 1));
    area.store(USED[0], fresh.used);
    area.write(WRAP[0], &[u8::from(fresh.used_wrap)]);
    confirm(area);
    area.store(ENTRIES_AT, size);
    in_order();
    area.store(VERSION_AT, VERSION);
}

/// What is now counts.
fn confirm<A: Area>(area: &A) {
    area.store(FREE[1], area.load(FREE[0]));
    area.store(USED[1], area.load(USED[0]));
    area.write(WRAP[1], &[load_byte(area, WRAP[0])]);
}

/// What was before counts.
fn take_back<A: Area>(area: &A) {
    area.store(FREE[0], area.load(FREE[1]));
    area.store(USED[0], area.load(USED[1]));
    area.write(WRAP[0], &[load_byte(area, WRAP[1])]);
}

/// Decides about a last batch that was being published: it counts if the driver has seen its first descriptor.
fn settle<A: Area>(area: &A, size: u16, device: &PackedDevice<A>) -> Option<()> {
    let [new, old] =
        [0, 1].map(|at| Place { index: area.load(USED[at]), wrap: load_byte(area, WRAP[at]) & 1 == 1 });
    if new.index >= size || old.index >= size {
        return None;
    }
    // The two halves of a place are written one after the other, and nothing is published in between: what lies further than a round is half of one.
    let has_moved = (1..=size).contains(&old.steps_to(new, size));
    if has_moved && device.has_shown(old) {
        confirm(area);
        return Some(());
    }
    if has_moved {
        device.take_back(old, new);
    }
    take_back(area);
    Some(())
}

/// A buffer from its first entry on.
fn read<A: Area>(area: &A, size: u16, first: u16) -> Option<LeftBehind> {
    let mut descriptors = Vec::new();
    let mut at = first;
    for _ in 0..area.load(entry(first) + COUNT).min(size) {
        if at >= size {
            return None;
        }
        let place = entry(at);
        let mut len = [0; 4];
        area.read(place + LEN, &mut len);
        descriptors.push(Raw {
            address: load_wide(area, place + ADDRESS),
            len: u32::from_le_bytes(len),
            id: area.load(place + ID),
            flags: area.load(place + FLAGS),
        });
        at = area.load(place + NEXT);
    }
    (!descriptors.is_empty()).then_some(LeftBehind { entry: first, descriptors })
}
