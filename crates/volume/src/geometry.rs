//! A volume's shape, what it can do, and how that may change while it is open.

use alloc::format;
use bitflags::bitflags;

use crate::OpenError;

/// A run of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Extent {
    /// The first block.
    pub start: u64,
    /// How many blocks; may be zero, which does nothing successfully.
    pub blocks: u64,
}

impl Extent {
    /// The run of `blocks` blocks from `start`.
    pub const fn new(start: u64, blocks: u64) -> Self {
        Self { start, blocks }
    }

    /// The block after the last one, or `None` if that number does not exist.
    pub const fn end(self) -> Option<u64> {
        self.start.checked_add(self.blocks)
    }

    /// True when both runs have a block in common.
    pub const fn overlaps(self, other: Self) -> bool {
        self.start < other.start.saturating_add(other.blocks)
            && other.start < self.start.saturating_add(self.blocks)
    }
}

/// A volume's size and block size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Number of logical blocks.
    pub blocks: u64,
    /// Bytes in a logical block: 512 or 4096.
    pub block_size: u32,
    /// Bytes in a physical block (the unit the medium writes without read-modify-write); a multiple of
    /// `block_size`.
    pub physical_block_size: u32,
}

impl Geometry {
    /// The geometry of `size` bytes in blocks of `block_size`, if both are possible.
    pub fn of(size: u64, block_size: u32) -> Result<Self, OpenError> {
        if block_size != 512 && block_size != 4096 {
            return Err(OpenError::new(format!(
                "a volume cannot have blocks of {block_size} bytes; ask for block=512 or block=4096"
            )));
        }
        let blocks = size / u64::from(block_size);
        if blocks == 0 || blocks * u64::from(block_size) != size {
            return Err(OpenError::new(format!(
                "{size} bytes are not a whole number, above zero, of {block_size}-byte blocks; give a size that is"
            )));
        }
        Ok(Self { blocks, block_size, physical_block_size: block_size.max(4096) })
    }

    /// Size in bytes.
    pub const fn bytes(self) -> u64 {
        self.blocks.saturating_mul(self.block_size as u64)
    }

    /// Bytes of an extent of this volume, or `None` when it reaches beyond the end.
    pub fn check(self, extent: Extent) -> Option<u64> {
        match extent.end() {
            Some(end) if end <= self.blocks => extent.blocks.checked_mul(u64::from(self.block_size)),
            _ => None,
        }
    }
}

/// What a request may look like. Everything is in bytes but where said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest read, write, compare or verify; a multiple of the block size, at most
    /// [`buf::LARGEST`].
    pub max_transfer: u32,
    /// What memory must be aligned to, a power of two; 1 when it does not matter. Pool buffers are aligned to 4096.
    pub memory_alignment: u32,
    /// Requests that one queue takes at a time; more are refused with `QueueFull`.
    pub depth: u32,
    /// Blocks in the unit that discards release, at least 1.
    pub discard_granularity: u32,
    /// The most blocks in one discard or write-zeroes.
    pub max_discard: u64,
    /// Blocks that are written all or nothing even across a power failure: 1 unless truly so.
    pub atomic_blocks: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_transfer: 8 << 20,
            memory_alignment: 1,
            depth: 1024,
            discard_granularity: 1,
            max_discard: u64::MAX,
            atomic_blocks: 1,
        }
    }
}

bitflags! {
    /// What a volume can do beyond reading and writing.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Features: u32 {
        /// It has a volatile write cache, so `Flush` matters. `Flush` succeeds on every volume.
        const VOLATILE_CACHE = 1 << 0;
        /// Discard releases space, and discarded blocks read as zeros.
        const DISCARD = 1 << 1;
        /// Write zeroes is cheaper than writing zeros.
        const WRITE_ZEROES = 1 << 2;
        /// Compare and compare-and-write (atomic against all other requests of the volume).
        const COMPARE = 1 << 3;
        /// Allocation queries tell holes from data.
        const ALLOCATION = 1 << 4;
        /// Writes are refused with `ReadOnly`.
        const READ_ONLY = 1 << 5;
    }
}

/// What has changed on a volume since somebody last looked: compare numbers, then read the new values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changes {
    /// Moves when the geometry changed.
    pub resized: u64,
    /// Moves when limits or features changed.
    pub reshaped: u64,
    /// Moves when a thin volume crossed its space threshold.
    pub threshold: u64,
    /// Moves when the state of the path changed: see [`Volume::path`](crate::Volume::path). Not with each request that fails for it.
    pub path: u64,
}
