//! The driver's side of a split queue (VIRTIO 1.2 §2.7.13, §2.7.14).

use alloc::vec::Vec;
use core::sync::atomic::{Ordering, fence};

use super::layout::{Descriptor, FLAGS, INDEX, NO_NOTIFICATION, SplitAreas, SplitLayout, flag};
use crate::area::Area;
use crate::chain::Segment;
use crate::event::has_come;
use crate::queue::{DriverQueue, Features, Used};
use crate::violation::Violation;

/// What the driver knows of a descriptor by itself, whatever the table says.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// The next of its chain, or of the free ones.
    next: u16,
    /// Descriptors of the chain that begins here and is the device's; 0 for none.
    chain: u16,
    /// Bytes that the device may write there.
    writable: u32,
}

/// The driver's side.
#[derive(Debug)]
pub struct SplitDriver<A> {
    layout: SplitLayout,
    areas: SplitAreas<A>,
    has_event_index: bool,
    known: Vec<Known>,
    /// The first free descriptor, where there is one.
    free: u16,
    free_count: u16,
    /// Buffers that are the device's.
    under_way: u16,
    /// The index behind the newest buffer in the available ring.
    available: u16,
    /// How far the device was told of, when it was last asked whether it wants to be.
    told: u16,
    /// The index of the next used buffer.
    used: u16,
}

impl<A: Area> SplitDriver<A> {
    /// A new queue in areas of zeros; `None` if they are too short.
    pub fn new(layout: SplitLayout, areas: SplitAreas<A>, features: Features) -> Option<Self> {
        let size = layout.size();
        let next = (1..=size).map(|next| Known { next, ..Known::default() });
        layout.fits(&areas).then(|| Self {
            layout,
            areas,
            has_event_index: features.event_index,
            known: next.collect(),
            free: 0,
            free_count: size,
            under_way: 0,
            available: 0,
            told: 0,
            used: 0,
        })
    }

    fn known(&mut self, number: u16) -> Option<&mut Known> {
        self.known.get_mut(usize::from(number))
    }

    /// The next of the free descriptors behind this one.
    fn next_of(&self, number: u16) -> u16 {
        self.known.get(usize::from(number)).map_or(0, |known| known.next)
    }

    /// Gives the descriptors of a chain back.
    fn release(&mut self, head: u16, count: u16) {
        let last = (1..count).fold(head, |at, _| self.next_of(at));
        let free = self.free;
        if let Some(known) = self.known(last) {
            known.next = free;
        }
        self.free = head;
        self.free_count += count;
    }
}

impl<A: Area> DriverQueue for SplitDriver<A> {
    fn size(&self) -> u16 {
        self.layout.size()
    }

    fn room(&self) -> u16 {
        self.free_count
    }

    fn add(&mut self, segments: &[Segment]) -> Option<u16> {
        let count =
            u16::try_from(segments.len()).ok().filter(|count| (1..=self.free_count).contains(count))?;
        let head = self.free;
        let mut at = head;
        let mut writable = 0_u32;
        for (left, segment) in (0..count).rev().zip(segments) {
            let next = self.next_of(at);
            let more = if left > 0 { flag::NEXT } else { 0 };
            let written = if segment.is_written { flag::WRITE } else { 0 };
            let next_field = if left > 0 { next } else { 0 };
            Descriptor {
                address: segment.address,
                len: segment.len,
                flags: more | written,
                next: next_field,
            }
            .write(&self.areas.table, usize::from(at));
            writable = writable.saturating_add(if segment.is_written { segment.len } else { 0 });
            at = next;
        }
        (self.free, self.free_count) = (at, self.free_count - count);
        if let Some(known) = self.known(head) {
            (known.chain, known.writable) = (count, writable);
        }
        self.areas.available.store(self.layout.available_entry(self.available), head);
        self.available = self.available.wrapping_add(1);
        self.under_way += 1;
        Some(head)
    }

    fn publish(&mut self) -> bool {
        self.areas.available.store(INDEX, self.available);
        // What the device says it waits for must not be read before it can see what there is (§2.7.13.4.1).
        fence(Ordering::SeqCst);
        let (new, old) = (self.available, core::mem::replace(&mut self.told, self.available));
        if new == old {
            return false;
        }
        if self.has_event_index {
            has_come(self.areas.used.load(self.layout.available_event()), new, old)
        } else {
            self.areas.used.load(FLAGS) & NO_NOTIFICATION == 0
        }
    }

    fn has_used(&self) -> bool {
        self.areas.used.load(INDEX) != self.used
    }

    fn next_used(&mut self) -> Result<Option<Used>, Violation> {
        let index = self.areas.used.load(INDEX);
        if index == self.used {
            return Ok(None);
        }
        if index.wrapping_sub(self.used) > self.under_way {
            return Err(Violation::TooManyUsed);
        }
        let mut entry = [0; 8];
        self.areas.used.read(self.layout.used_entry(self.used), &mut entry);
        let [i0, i1, i2, i3, l0, l1, l2, l3] = entry;
        let (id, written) = (u32::from_le_bytes([i0, i1, i2, i3]), u32::from_le_bytes([l0, l1, l2, l3]));
        let id = u16::try_from(id).map_err(|_| Violation::NotOffered)?;
        let known = self.known(id).ok_or(Violation::NotOffered)?;
        let (count, writable) = (core::mem::take(&mut known.chain), known.writable);
        if count == 0 {
            return Err(Violation::NotOffered);
        }
        self.release(id, count);
        self.under_way -= 1;
        self.used = self.used.wrapping_add(1);
        if written > writable {
            return Err(Violation::TooMuchWritten);
        }
        Ok(Some(Used { id, written }))
    }

    fn await_used(&mut self) -> bool {
        if self.has_event_index {
            self.areas.available.store(self.layout.used_event(), self.used);
        } else {
            self.areas.available.store(FLAGS, 0);
        }
        fence(Ordering::SeqCst);
        self.has_used()
    }

    fn ignore_used(&mut self) {
        if self.has_event_index {
            // An index that comes last of all: behind everything that can be used before this side looks again.
            self.areas.available.store(self.layout.used_event(), self.used.wrapping_sub(1));
        } else {
            self.areas.available.store(FLAGS, NO_NOTIFICATION);
        }
    }
}
