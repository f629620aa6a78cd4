//! A buffer as its driver describes it: pieces of memory, those that the device reads before those that it writes (VIRTIO 1.2 §2.7.4.2, §2.8.6).

use alloc::vec::Vec;

/// One piece of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins, as the driver counts.
    pub address: u64,
    /// Bytes.
    pub len: u32,
    /// The device writes it; otherwise the device reads it.
    pub is_written: bool,
}

/// A buffer that a device has taken off its queue. It is filled anew each time, so that taking one allocates nothing once it has had its longest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    /// What the driver calls it, until it is used.
    pub id: u16,
    /// Descriptors of the ring that it takes.
    pub(crate) descriptors: u16,
    /// The pieces.
    pub(crate) segments: Vec<Segment>,
    /// How many of them the device reads: the first ones.
    pub(crate) read: usize,
    /// In a packed queue, the descriptors as they lie in the ring.
    pub(crate) raw: Vec<Raw>,
    /// Where a packed queue's tracker has it.
    pub(crate) entry: u16,
}

/// A descriptor of a packed queue's ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Raw {
    pub(crate) address: u64,
    pub(crate) len: u32,
    pub(crate) id: u16,
    pub(crate) flags: u16,
}

impl Chain {
    /// The pieces that the device reads, in order.
    pub fn to_read(&self) -> &[Segment] {
        self.segments.get(..self.read).unwrap_or_default()
    }

    /// The pieces that it writes, in order.
    pub fn to_write(&self) -> &[Segment] {
        self.segments.get(self.read..).unwrap_or_default()
    }

    /// All of its pieces.
    pub fn pieces(&self) -> usize {
        self.segments.len()
    }

    /// What its queue is told when it is used.
    pub fn key(&self) -> ChainKey {
        ChainKey { id: self.id, descriptors: self.descriptors, entry: self.entry }
    }

    pub(crate) fn clear(&mut self) {
        self.segments.clear();
        self.raw.clear();
        self.read = 0;
        self.descriptors = 0;
    }

    /// One more piece; false if the device would read it behind one that it writes.
    #[must_use]
    pub(crate) fn push(&mut self, segment: Segment) -> bool {
        let in_order = segment.is_written || self.read == self.segments.len();
        self.read += usize::from(!segment.is_written);
        self.segments.push(segment);
        in_order
    }
}

/// Which buffer was used: what of a [`Chain`] is kept while it is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainKey {
    /// What the driver calls it.
    pub id: u16,
    pub(crate) descriptors: u16,
    pub(crate) entry: u16,
}

/// A buffer that an earlier device has left under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftBehind {
    /// Where its tracker has it.
    pub(crate) entry: u16,
    /// Its descriptors.
    pub(crate) descriptors: Vec<Raw>,
}
