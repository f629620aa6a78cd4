//! A virtqueue of either layout, from each side.

use alloc::boxed::Box;

use crate::area::{AddressSpace, Area};
use crate::block::FeatureBits;
use crate::chain::{Chain, ChainKey, Segment};
use crate::packed::{PackedDevice, PackedDriver, PackedLayout};
use crate::queue::{DeviceQueue, DriverQueue, Features, Position, Used};
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
    /// A split queue of `size` descriptors; `None` if there is none of that size.
    pub fn split(size: u16) -> Option<Self> {
        SplitLayout::new(size).map(Self::Split)
    }

    /// A packed queue of `size` descriptors; `None` if there is none of that size.
    pub fn packed(size: u16) -> Option<Self> {
        PackedLayout::new(size).map(Self::Packed)
    }

    /// A queue of `size` descriptors as both sides have agreed; `None` if there is none of that size.
    pub fn agreed(size: u16, features: FeatureBits) -> Option<Self> {
        if features.has(FeatureBits::PACKED) { Self::packed(size) } else { Self::split(size) }
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
                Self::Split(Box::new(SplitDriver::new(layout, areas, features)?))
            }
            Layout::Packed(layout) => {
                Self::Packed(Box::new(PackedDriver::new(layout, [table, driver, device], features)?))
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
            Layout::Packed(layout) => Self::Packed(Box::new(PackedDevice::new(
                layout,
                [table, driver, device],
                features,
                position,
            )?)),
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
