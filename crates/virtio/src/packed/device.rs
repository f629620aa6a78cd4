//! The device's side of a packed queue (VIRTIO 1.2 §2.8.6 to §2.8.9).

use alloc::vec::Vec;
use core::sync::atomic::{Ordering, fence};

use super::layout::{
    DESCRIPTOR, Descriptor, PackedLayout, Place, ask, ask_not, flag, flags_of, is_asked, set_flags,
};
use crate::area::{AddressSpace, Area};
use crate::chain::{Chain, ChainKey, LeftBehind};
use crate::limits::SEGMENTS;
use crate::queue::{DeviceQueue, Features, Position};
use crate::violation::Violation;

/// A used descriptor that the driver does not see yet, as its flags are not written.
#[derive(Debug, Clone, Copy)]
struct Unseen {
    index: u16,
    flags: u16,
}

/// The device's side.
#[derive(Debug)]
pub struct PackedDevice<A> {
    layout: PackedLayout,
    ring: A,
    /// What the driver says of notifications.
    driver: A,
    /// What this side says.
    own: A,
    features: Features,
    next: Place,
    used: Place,
    /// How far the driver was told of, when it was last asked whether it wants to be.
    told: Place,
    unseen: Vec<Unseen>,
}

impl<A: Area> PackedDevice<A> {
    /// A queue that goes on where an earlier device stood; `None` if the areas are too short, or it cannot have stood there.
    pub fn new(layout: PackedLayout, areas: [A; 3], features: Features, position: Position) -> Option<Self> {
        let inside = position.next < layout.size() && position.used < layout.size();
        if !layout.fits(&areas) || !inside {
            return None;
        }
        let [ring, driver, own] = areas;
        let used = Place { index: position.used, wrap: position.used_wrap };
        let next = Place { index: position.next, wrap: position.next_wrap };
        Some(Self { layout, ring, driver, own, features, next, used, told: used, unseen: Vec::new() })
    }

    /// Whether the driver has seen a used descriptor at this place, which was available: it may have made it available again since.
    pub(crate) fn has_shown(&self, place: Place) -> bool {
        !place.is_available(flags_of(&self.ring, place.index))
    }

    /// Takes back what the driver has not seen because the first of its batch was not published.
    pub(crate) fn take_back(&self, from: Place, to: Place) {
        let mut place = from;
        while place != to {
            if place.is_used(flags_of(&self.ring, place.index)) {
                set_flags(&self.ring, place.index, place.available());
            }
            place = place.later(1, self.layout.size());
        }
    }

    /// Takes a buffer that an earlier device has left under way.
    ///
    /// # Errors
    /// The driver has described it wrongly.
    pub fn take_again(
        &self,
        left: &LeftBehind,
        space: &impl AddressSpace<Area = A>,
        chain: &mut Chain,
    ) -> Result<(), Violation> {
        chain.clear();
        chain.entry = left.entry;
        for descriptor in &left.descriptors {
            if self.take_one(*descriptor, space, chain)? {
                return Ok(());
            }
        }
        Err(Violation::EndlessChain)
    }

    fn walk(&self, space: &impl AddressSpace<Area = A>, chain: &mut Chain) -> Result<(), Violation> {
        let mut place = self.next;
        for _ in 0..self.layout.size() {
            let descriptor = Descriptor::read(&self.ring, usize::from(place.index));
            if self.take_one(descriptor, space, chain)? {
                return Ok(());
            }
            place = place.later(1, self.layout.size());
        }
        Err(Violation::EndlessChain)
    }

    /// One more descriptor of the ring; true if it was the buffer's last.
    fn take_one(
        &self,
        descriptor: Descriptor,
        space: &impl AddressSpace<Area = A>,
        chain: &mut Chain,
    ) -> Result<bool, Violation> {
        chain.descriptors += 1;
        chain.raw.push(descriptor);
        // The id is the last one's (§2.8.6).
        chain.id = descriptor.id;
        if descriptor.has(flag::INDIRECT) {
            if descriptor.has(flag::NEXT) || chain.descriptors > 1 || !self.features.indirect {
                return Err(Violation::BadIndirectTable);
            }
            walk_table(&descriptor, space, chain)?;
            return Ok(true);
        }
        add(&descriptor, chain)?;
        Ok(!descriptor.has(flag::NEXT))
    }
}

/// One more piece.
fn add(descriptor: &Descriptor, chain: &mut Chain) -> Result<(), Violation> {
    if chain.segments.len() == SEGMENTS {
        return Err(Violation::TooManySegments);
    }
    if chain.push(descriptor.segment()) { Ok(()) } else { Err(Violation::OutOfOrder) }
}

/// The pieces of an indirect table, which stand one behind the other (§2.8.7).
fn walk_table<S: AddressSpace>(table: &Descriptor, space: &S, chain: &mut Chain) -> Result<(), Violation> {
    let len = wire::index(u64::from(table.len));
    let whole = len > 0 && len.is_multiple_of(DESCRIPTOR);
    let area = space.area(table.address, len).filter(|_| whole).ok_or(Violation::BadIndirectTable)?;
    for at in 0..len / DESCRIPTOR {
        let descriptor = Descriptor::read(&area, at);
        if descriptor.has(flag::INDIRECT) {
            return Err(Violation::BadIndirectTable);
        }
        add(&descriptor, chain)?;
    }
    Ok(())
}

impl<A: Area> DeviceQueue for PackedDevice<A> {
    type Area = A;

    fn has_available(&self) -> bool {
        self.next.is_available(flags_of(&self.ring, self.next.index))
    }

    fn next_available(
        &mut self,
        space: &impl AddressSpace<Area = A>,
        chain: &mut Chain,
    ) -> Result<bool, Violation> {
        if !self.has_available() {
            return Ok(false);
        }
        chain.clear();
        self.walk(space, chain)?;
        self.next = self.next.later(chain.descriptors, self.layout.size());
        Ok(true)
    }

    fn add_used(&mut self, key: ChainKey, written: u32) {
        let place = self.used;
        let flags = place.used() | if written > 0 { flag::WRITE } else { 0 };
        Descriptor { address: 0, len: written, id: key.id, flags }.write(&self.ring, place.index);
        self.unseen.push(Unseen { index: place.index, flags });
        self.used = place.later(key.descriptors, self.layout.size());
    }

    fn publish(&mut self) -> bool {
        if self.unseen.is_empty() {
            return false;
        }
        // The first one comes last: before that, none of them has been used for the driver.
        for Unseen { index, flags } in self.unseen.drain(..).rev() {
            set_flags(&self.ring, index, flags);
        }
        let old = core::mem::replace(&mut self.told, self.used);
        fence(Ordering::SeqCst);
        is_asked(&self.driver, self.layout.size(), old, self.used)
    }

    fn await_available(&mut self) -> bool {
        ask(&self.own, self.features.event_index, self.next);
        fence(Ordering::SeqCst);
        self.has_available()
    }

    fn ignore_available(&mut self) {
        ask_not(&self.own);
    }

    fn position(&self) -> Position {
        Position {
            next: self.next.index,
            used: self.used.index,
            next_wrap: self.next.wrap,
            used_wrap: self.used.wrap,
        }
    }
}
