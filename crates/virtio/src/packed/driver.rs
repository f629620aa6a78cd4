//! The driver's side of a packed queue (VIRTIO 1.2 §2.8.21, §2.8.22).

use alloc::vec::Vec;
use core::sync::atomic::{Ordering, fence};

use super::layout::{Descriptor, PackedLayout, Place, ask, ask_not, flag, flags_of, is_asked, set_flags};
use crate::area::Area;
use crate::chain::Segment;
use crate::queue::{DriverQueue, Features, Used};
use crate::violation::Violation;

/// What the driver knows of a buffer by itself.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// Descriptors that it takes while it is the device's; 0 when it is not.
    chain: u16,
    /// Bytes that the device may write there.
    writable: u32,
}

/// The driver's side.
#[derive(Debug)]
pub struct PackedDriver<A> {
    layout: PackedLayout,
    ring: A,
    /// What this side says of notifications.
    own: A,
    /// What the device says.
    device: A,
    has_event_index: bool,
    /// By the names of buffers.
    known: Vec<Known>,
    /// Names that are free.
    free: Vec<u16>,
    room: u16,
    next: Place,
    /// How far the device was told of, when it was last asked whether it wants to be.
    told: Place,
    used: Place,
}

impl<A: Area> PackedDriver<A> {
    /// A new queue in areas of zeros: the ring, what this side says of notifications, and what the device says. `None` if they are too short.
    pub fn new(layout: PackedLayout, areas: [A; 3], features: Features) -> Option<Self> {
        if !layout.fits(&areas) {
            return None;
        }
        let [ring, own, device] = areas;
        let size = layout.size();
        Some(Self {
            layout,
            ring,
            own,
            device,
            has_event_index: features.event_index,
            known: core::iter::repeat_n(Known::default(), usize::from(size)).collect(),
            free: (0..size).rev().collect(),
            room: size,
            next: Place::START,
            told: Place::START,
            used: Place::START,
        })
    }
}

impl<A: Area> DriverQueue for PackedDriver<A> {
    fn size(&self) -> u16 {
        self.layout.size()
    }

    fn room(&self) -> u16 {
        self.room
    }

    fn add(&mut self, segments: &[Segment]) -> Option<u16> {
        let count = u16::try_from(segments.len()).ok().filter(|count| (1..=self.room).contains(count))?;
        let id = self.free.pop()?;
        let (first, mut place, mut writable) = (self.next, self.next, 0_u32);
        let mut first_flags = 0;
        for (left, segment) in (0..count).rev().zip(segments) {
            let Segment { address, len, is_written } = *segment;
            let more = if left > 0 { flag::NEXT } else { 0 };
            let flags = place.available() | more | if is_written { flag::WRITE } else { 0 };
            Descriptor { address, len, id, flags }.write(&self.ring, place.index);
            // The first one's flags make all of them the device's, and come last.
            if place == first {
                first_flags = flags;
            } else {
                set_flags(&self.ring, place.index, flags);
            }
            writable = writable.saturating_add(if is_written { len } else { 0 });
            place = place.later(1, self.layout.size());
        }
        set_flags(&self.ring, first.index, first_flags);
        (self.next, self.room) = (place, self.room - count);
        if let Some(known) = self.known.get_mut(usize::from(id)) {
            *known = Known { chain: count, writable };
        }
        Some(id)
    }

    fn publish(&mut self) -> bool {
        let (new, old) = (self.next, core::mem::replace(&mut self.told, self.next));
        if new == old {
            return false;
        }
        fence(Ordering::SeqCst);
        is_asked(&self.device, self.layout.size(), old, new)
    }

    fn has_used(&self) -> bool {
        self.room < self.layout.size() && self.used.is_used(flags_of(&self.ring, self.used.index))
    }

    fn next_used(&mut self) -> Result<Option<Used>, Violation> {
        if !self.has_used() {
            return Ok(None);
        }
        let Descriptor { id, len: written, .. } = Descriptor::read(&self.ring, usize::from(self.used.index));
        let known = self.known.get_mut(usize::from(id)).ok_or(Violation::NotOffered)?;
        let (count, writable) = (core::mem::take(&mut known.chain), known.writable);
        if count == 0 {
            return Err(Violation::NotOffered);
        }
        self.free.push(id);
        self.room += count;
        self.used = self.used.later(count, self.layout.size());
        if written > writable {
            return Err(Violation::TooMuchWritten);
        }
        Ok(Some(Used { id, written }))
    }

    fn await_used(&mut self) -> bool {
        ask(&self.own, self.has_event_index, self.used);
        fence(Ordering::SeqCst);
        self.has_used()
    }

    fn ignore_used(&mut self) {
        ask_not(&self.own);
    }
}
