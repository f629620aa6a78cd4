//! The device's side of a split queue (VIRTIO 1.2 §2.7.7, §2.7.8).

use core::sync::atomic::{Ordering, fence};

use super::layout::{DESCRIPTOR, Descriptor, FLAGS, INDEX, NO_NOTIFICATION, SplitAreas, SplitLayout, flag};
use crate::area::{AddressSpace, Area};
use crate::chain::{Chain, ChainKey};
use crate::event::has_come;
use crate::limits::SEGMENTS;
use crate::queue::{DeviceQueue, Features, Position};
use crate::violation::Violation;

/// The device's side.
#[derive(Debug)]
pub struct SplitDevice<A> {
    layout: SplitLayout,
    areas: SplitAreas<A>,
    features: Features,
    /// The index of the next available buffer.
    available: u16,
    /// The index behind the newest used one, whether the driver sees it yet or not.
    used: u16,
    /// How far the driver was told of, when it was last asked whether it wants to be.
    told: u16,
}

impl<A: Area> SplitDevice<A> {
    /// A queue that goes on with the available buffer of this index, and behind the used ones that the ring has; `None` if the areas are too short.
    pub fn new(
        layout: SplitLayout,
        areas: SplitAreas<A>,
        features: Features,
        available: u16,
    ) -> Option<Self> {
        if !layout.fits(&areas) {
            return None;
        }
        let used = areas.used.load(INDEX);
        Some(Self { layout, areas, features, available, used, told: used })
    }

    /// The index of the next used buffer.
    pub fn used_index(&self) -> u16 {
        self.used
    }

    /// Takes the buffer that begins at a descriptor, whether the ring has it or not: one that an earlier device has left.
    ///
    /// # Errors
    /// The driver has described it wrongly.
    pub fn take_again(
        &self,
        head: u16,
        space: &impl AddressSpace<Area = A>,
        chain: &mut Chain,
    ) -> Result<(), Violation> {
        chain.clear();
        chain.id = head;
        self.walk(head, space, chain)
    }

    fn walk(
        &self,
        head: u16,
        space: &impl AddressSpace<Area = A>,
        chain: &mut Chain,
    ) -> Result<(), Violation> {
        let size = self.layout.size();
        let mut at = head;
        loop {
            if at >= size {
                return Err(Violation::NoSuchDescriptor);
            }
            if chain.descriptors == size {
                return Err(Violation::EndlessChain);
            }
            chain.descriptors += 1;
            let descriptor = Descriptor::read(&self.areas.table, usize::from(at));
            if descriptor.has(flag::INDIRECT) {
                if descriptor.has(flag::NEXT) || !self.features.indirect {
                    return Err(Violation::BadIndirectTable);
                }
                return walk_table(descriptor, space, chain);
            }
            add(descriptor, chain)?;
            if !descriptor.has(flag::NEXT) {
                return Ok(());
            }
            at = descriptor.next;
        }
    }
}

/// One more piece.
fn add(descriptor: Descriptor, chain: &mut Chain) -> Result<(), Violation> {
    if chain.segments.len() == SEGMENTS {
        return Err(Violation::TooManySegments);
    }
    if chain.push(descriptor.segment()) { Ok(()) } else { Err(Violation::OutOfOrder) }
}

/// The pieces of an indirect table (§2.7.5.3).
fn walk_table<S: AddressSpace>(table: Descriptor, space: &S, chain: &mut Chain) -> Result<(), Violation> {
    let len = wire::index(u64::from(table.len));
    let entries = len / DESCRIPTOR;
    let whole = len > 0 && len.is_multiple_of(DESCRIPTOR);
    let area = space.area(table.address, len).filter(|_| whole).ok_or(Violation::BadIndirectTable)?;
    let mut at = 0;
    for _ in 0..entries {
        if at >= entries {
            return Err(Violation::NoSuchDescriptor);
        }
        let descriptor = Descriptor::read(&area, at);
        if descriptor.has(flag::INDIRECT) {
            return Err(Violation::BadIndirectTable);
        }
        add(descriptor, chain)?;
        if !descriptor.has(flag::NEXT) {
            return Ok(());
        }
        at = usize::from(descriptor.next);
    }
    Err(Violation::EndlessChain)
}

impl<A: Area> DeviceQueue for SplitDevice<A> {
    type Area = A;

    fn has_available(&self) -> bool {
        self.areas.available.load(INDEX) != self.available
    }

    fn next_available(
        &mut self,
        space: &impl AddressSpace<Area = A>,
        chain: &mut Chain,
    ) -> Result<bool, Violation> {
        let waiting = self.areas.available.load(INDEX).wrapping_sub(self.available);
        if waiting == 0 {
            return Ok(false);
        }
        if waiting > self.layout.size() {
            return Err(Violation::TooManyAvailable);
        }
        let head = self.areas.available.load(self.layout.available_entry(self.available));
        self.take_again(head, space, chain)?;
        self.available = self.available.wrapping_add(1);
        Ok(true)
    }

    fn add_used(&mut self, key: ChainKey, written: u32) {
        let place = self.layout.used_entry(self.used);
        let [i0, i1] = key.id.to_le_bytes();
        let [l0, l1, l2, l3] = written.to_le_bytes();
        self.areas.used.write(place, &[i0, i1, 0, 0, l0, l1, l2, l3]);
        self.used = self.used.wrapping_add(1);
    }

    fn publish(&mut self) -> bool {
        let (new, old) = (self.used, core::mem::replace(&mut self.told, self.used));
        if new == old {
            return false;
        }
        self.areas.used.store(INDEX, new);
        // What the driver says it waits for must not be read before it can see what there is.
        fence(Ordering::SeqCst);
        if self.features.event_index {
            has_come(self.areas.available.load(self.layout.used_event()), new, old)
        } else {
            self.areas.available.load(FLAGS) & NO_NOTIFICATION == 0
        }
    }

    fn await_available(&mut self) -> bool {
        if self.features.event_index {
            self.areas.used.store(self.layout.available_event(), self.available);
        } else {
            self.areas.used.store(FLAGS, 0);
        }
        fence(Ordering::SeqCst);
        self.has_available()
    }

    fn ignore_available(&mut self) {
        if self.features.event_index {
            self.areas.used.store(self.layout.available_event(), self.available.wrapping_sub(1));
        } else {
            self.areas.used.store(FLAGS, NO_NOTIFICATION);
        }
    }

    fn position(&self) -> Position {
        Position { next: self.available, used: self.used, next_wrap: false, used_wrap: false }
    }
}
