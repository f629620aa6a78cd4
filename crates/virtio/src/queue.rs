//! A virtqueue from each side, whatever its layout.

use crate::area::{AddressSpace, Area};
use crate::chain::{Chain, ChainKey, Segment};
use crate::violation::Violation;

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
