//! A virtqueue of either layout, from each side.

use alloc::boxed::Box;

use crate::area::{AddressSpace, Area};
use crate::chain::{Chain, ChainKey, Segment};
use crate::packed::{PackedDevice, PackedDriver, PackedLayout};
use crate::split::{SplitAreas, SplitDevice, SplitDriver, SplitLayout};
use crate::violation::Violation;

/// How a queue lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// VIRTIO 1.2 §2.7.
    Split(SplitLayout),
    /// VIRTIO 1.2 §2.8.
    Packed(PackedLayout),
}

impl Layout {
    /// A queue of `size` descriptors; `None` if there is none of that size.
    pub fn new(size: u16, is_packed: bool) -> Option<Self> {
        if is_packed { PackedLayout::new(size).map(Self::Packed) } else { SplitLayout::new(size).map(Self::Split) }
    }

    /// Descriptors.
    pub fn size(self) -> u16 {
        match self {
            Self::Split(layout) => layout.size(),
            Self::Packed(layout) => layout.size(),
        }
    }

    /// Bytes of the table of descriptors, of what the driver writes and of what the device writes: the areas that VIRTIO calls Descriptor, Driver and Device Area (§2.6).
    pub fn lens(self) -> [usize; 3] {
        match self {
            Self::Split(layout) => [layout.table_len(), layout.available_len(), layout.used_len()],
            Self::Packed(layout) => layout.lens(),
        }
    }
}

/// What both sides have agreed on that changes how a queue works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// `VIRTIO_F_EVENT_IDX`: a side may say which buffer it waits for.
    pub event_index: bool,
    /// `VIRTIO_F_INDIRECT_DESC`: a descriptor may stand for a table of them.
    pub indirect: bool,
}

/// Where a device stands in its queue: what its successor has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// The next buffer that the driver makes available.
    pub next: u16,
    /// The next one that is used.
    pub used: u16,
    /// In a packed queue, the wrap counter of `next` (§2.8.1).
    pub next_wrap: bool,
    /// In a packed queue, that of `used`.
    pub used_wrap: bool,
}

/// A buffer that the device has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// What [`DriverQueue::add`] called it; free from now on.
    pub id: u16,
    /// Bytes that the device says it wrote, no more than it was given.
    pub written: u32,
}

/// The driver's side of a queue.
pub trait DriverQueue {
    /// Descriptors.
    fn size(&self) -> u16;

    /// Descriptors that are free.
    fn room(&self) -> u16;

    /// Describes a buffer, and says what it is called until it is used: a number below [`size`](Self::size). The device may see it at once. `None` if it has no piece, or more than
    /// there is room for. What the device reads has to come first.
    fn add(&mut self, segments: &[Segment]) -> Option<u16>;

    /// Lets the device see what was added. True if it wants to be notified.
    fn publish(&mut self) -> bool;

    /// Whether the device has used a buffer that was not taken.
    fn has_used(&self) -> bool;

    /// The next buffer that the device has used.
    ///
    /// # Errors
    /// The device has broken a rule: nothing of the queue can be relied on.
    fn next_used(&mut self) -> Result<Option<Used>, Violation>;

    /// Asks for a notification once another buffer is used. True if one is already: none may come for that.
    fn await_used(&mut self) -> bool;

    /// Asks for none.
    fn ignore_used(&mut self);
}

/// The device's side of a queue.
pub trait DeviceQueue {
    /// What it lies in.
    type Area: Area;

    /// Whether the driver has made a buffer available that was not taken.
    fn has_available(&self) -> bool;

    /// Takes the next buffer off the queue; false if there is none. `chain` is then what it was, or nothing.
    ///
    /// # Errors
    /// The driver has broken a rule: nothing of the queue can be relied on.
    fn next_available(
        &mut self,
        space: &impl AddressSpace<Area = Self::Area>,
        chain: &mut Chain,
    ) -> Result<bool, Violation>;

    /// Gives a buffer back, of which `written` bytes were written.
    fn add_used(&mut self, key: ChainKey, written: u32);

    /// Lets the driver see what was given back. True if it wants to be notified.
    fn publish(&mut self) -> bool;

    /// Asks for a notification once another buffer is available. True if one is already: none may come for that.
    fn await_available(&mut self) -> bool;

    /// Asks for none.
    fn ignore_available(&mut self);

    /// Where it stands.
    fn position(&self) -> Position;
}

/// The driver's side of a queue of either layout.
#[derive(Debug)]
pub enum AnyDriver<A> {
    /// A split one.
    Split(Box<SplitDriver<A>>),
    /// A packed one.
    Packed(Box<PackedDriver<A>>),
}

/// The device's side of a queue of either layout.
#[derive(Debug)]
pub enum AnyDevice<A> {
    /// A split one.
    Split(Box<SplitDevice<A>>),
    /// A packed one.
    Packed(Box<PackedDevice<A>>),
}

impl<A: Area> AnyDriver<A> {
    /// A new queue in areas of zeros, in the order of [`Layout::lens`]; `None` if they are too short.
    pub fn new(layout: Layout, [table, driver, device]: [A; 3], features: Features) -> Option<Self> {
        Some(match layout {
            Layout::Split(layout) => {
                let areas = SplitAreas { table, available: driver, used: device };
                Self::Split(Box::new(SplitDriver::new(layout, areas, features.event_index)?))
            }
            Layout::Packed(layout) => {
                Self::Packed(Box::new(PackedDriver::new(layout, [table, driver, device], features.event_index)?))
            }
        })
    }
}

impl<A: Area> AnyDevice<A> {
    /// A queue that goes on where an earlier device stood; `None` if its areas are too short.
    pub fn new(
        layout: Layout,
        [table, driver, device]: [A; 3],
        features: Features,
        position: Position,
    ) -> Option<Self> {
        Some(match layout {
            Layout::Split(layout) => {
                let areas = SplitAreas { table, available: driver, used: device };
                Self::Split(Box::new(SplitDevice::new(layout, areas, features, position.next)?))
            }
            Layout::Packed(layout) => {
                Self::Packed(Box::new(PackedDevice::new(layout, [table, driver, device], features, position)?))
            }
        })
    }
}

/// Does the same on whichever layout it is.
macro_rules! either {
    ($queue:expr, $inner:ident => $done:expr) => {
        match $queue {
            Self::Split($inner) => $done,
            Self::Packed($inner) => $done,
        }
    };
}

impl<A: Area> DriverQueue for AnyDriver<A> {
    fn size(&self) -> u16 {
        either!(self, queue => queue.size())
    }

    fn room(&self) -> u16 {
        either!(self, queue => queue.room())
    }

    fn add(&mut self, segments: &[Segment]) -> Option<u16> {
        either!(self, queue => queue.add(segments))
    }

    fn publish(&mut self) -> bool {
        either!(self, queue => queue.publish())
    }

    fn has_used(&self) -> bool {
        either!(self, queue => queue.has_used())
    }

    fn next_used(&mut self) -> Result<Option<Used>, Violation> {
        either!(self, queue => queue.next_used())
    }

    fn await_used(&mut self) -> bool {
        either!(self, queue => queue.await_used())
    }

    fn ignore_used(&mut self) {
        either!(self, queue => queue.ignore_used());
    }
}

impl<A: Area> DeviceQueue for AnyDevice<A> {
    type Area = A;

    fn has_available(&self) -> bool {
        either!(self, queue => queue.has_available())
    }

    fn next_available(
        &mut self,
        space: &impl AddressSpace<Area = A>,
        chain: &mut Chain,
    ) -> Result<bool, Violation> {
        either!(self, queue => queue.next_available(space, chain))
    }

    fn add_used(&mut self, key: ChainKey, written: u32) {
        either!(self, queue => queue.add_used(key, written));
    }

    fn publish(&mut self) -> bool {
        either!(self, queue => queue.publish())
    }

    fn await_available(&mut self) -> bool {
        either!(self, queue => queue.await_available())
    }

    fn ignore_available(&mut self) {
        either!(self, queue => queue.ignore_available());
    }

    fn position(&self) -> Position {
        either!(self, queue => queue.position())
    }
}
