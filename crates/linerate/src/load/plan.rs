//! What a load is asked to do, and whether a volume can take it.

use std::time::Duration;

use reactor::Congestion;
use volume::{Geometry, OpenError, Volume};

use super::verifier::VERIFY_BYTES;

/// The most requests under way that a load may ask for.
pub const MOST_DEPTH: usize = 65_536;

/// The most bytes under way that a load may ask for: each has memory of its own.
pub(super) const MOST_UNDER_WAY: usize = 4 << 30;

/// What kind of I/O to do, in fio's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Sequential reads.
    Read,
    /// Sequential writes.
    Write,
    /// Sequential reads and writes.
    ReadWrite,
    /// Reads at random offsets.
    RandRead,
    /// Writes at random offsets.
    RandWrite,
    /// Reads and writes at random offsets.
    RandRw,
}

impl Pattern {
    /// Whether it may write, whatever the plan's mix is.
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Read | Self::RandRead)
    }

    pub(crate) const fn random(self) -> bool {
        matches!(self, Self::RandRead | Self::RandWrite | Self::RandRw)
    }

    /// Reads among a hundred requests when the plan asks for `mix`.
    pub(crate) const fn read_percent(self, mix: u8) -> u8 {
        match self {
            Self::Read | Self::RandRead => 100,
            Self::Write | Self::RandWrite => 0,
            Self::ReadWrite | Self::RandRw => mix,
        }
    }
}

/// A load.
#[derive(Debug, Clone, Copy)]
pub struct LoadPlan {
    /// Reads or writes, in order or not.
    pub pattern: Pattern,
    /// Reads among a hundred requests of a mixed pattern, 0 to 100.
    pub read_percent: u8,
    /// Bytes in each request; a multiple of the volumes' block size.
    pub block: usize,
    /// Bytes of each volume that are used, from its beginning; all when `None`.
    pub size: Option<u64>,
    /// Requests under way at a time, over all volumes, 1 to [`MOST_DEPTH`]. In a closed loop each volume keeps its share, where there
    /// is at least one for each.
    pub depth: usize,
    /// Count failures and go on to the end; without it the first one ends the load, as fio does.
    pub continue_on_error: bool,
    /// Requests to start per second, whether earlier ones have been answered or not: an open loop. `None` is a closed
    /// loop, in which each request waits for an earlier one.
    pub rate: Option<u32>,
    /// How long to run before anything is counted.
    pub ramp: Duration,
    /// How long to count.
    pub runtime: Duration,
    /// Seed of the offsets.
    pub seed: u64,
    /// How long the event loop looks for an answer before it sleeps; `None` for what suits the machine.
    pub spin: Option<Duration>,
    /// TCP congestion control of the connections.
    pub congestion: Congestion,
    /// Write, read back and compare blocks of the last [`VERIFY_BYTES`] of each volume beside the load, ten requests a second. The load
    /// leaves them alone, even where `size` reaches into them.
    pub verify: bool,
}

impl Default for LoadPlan {
    fn default() -> Self {
        Self {
            pattern: Pattern::RandRead,
            read_percent: 50,
            block: 4096,
            size: None,
            depth: 32,
            continue_on_error: false,
            rate: None,
            ramp: Duration::ZERO,
            runtime: Duration::from_secs(5),
            seed: 1,
            spin: None,
            congestion: Congestion::default(),
            verify: false,
        }
    }
}

impl LoadPlan {
    /// Whether the numbers make sense by themselves.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        if self.depth == 0 || self.depth > MOST_DEPTH {
            return Err(OpenError::new(format!("the queue depth must be from 1 to {MOST_DEPTH}")));
        }
        if self.depth.saturating_mul(self.block) > MOST_UNDER_WAY {
            return Err(OpenError::new(format!(
                "{} requests of {} bytes at a time are above the limit of {MOST_UNDER_WAY} bytes under way: ask for fewer or smaller ones",
                self.depth, self.block
            )));
        }
        if self.read_percent > 100 {
            return Err(OpenError::new("the share of reads must be from 0 to 100 per cent"));
        }
        if self.rate == Some(0) {
            return Err(OpenError::new("a rate of 0 requests per second would do nothing: leave it out"));
        }
        Ok(())
    }

    /// Whether `volume` can take it.
    pub(crate) fn check_volume(&self, volume: &dyn Volume) -> Result<(), OpenError> {
        let geometry = volume.geometry();
        let block_size = geometry.block_size as usize;
        let limit = volume.limits().max_transfer as usize;
        if self.block == 0 || !self.block.is_multiple_of(block_size) {
            return Err(OpenError::new(format!(
                "a block of {} bytes does not fit: the volume's blocks have {block_size} bytes, use a multiple of that",
                self.block
            )));
        }
        if self.block > limit {
            return Err(OpenError::new(format!(
                "a block of {} bytes is above the volume's limit of {limit}",
                self.block
            )));
        }
        let size = self.size.unwrap_or(self.block as u64);
        if size.max(self.block as u64) > geometry.bytes() {
            return Err(OpenError::new(format!("the volume has only {} bytes", geometry.bytes())));
        }
        if self.used(geometry) < self.block as u64 && self.verify {
            return Err(OpenError::new(format!(
                "the volume has only {} bytes: too few for a block of {} beside the {VERIFY_BYTES} that are verified",
                geometry.bytes(),
                self.block
            )));
        }
        if size < self.block as u64 {
            return Err(OpenError::new(format!(
                "a size of {size} bytes holds no block of {}: raise the size",
                self.block
            )));
        }
        Ok(())
    }

    /// Bytes of a volume that the load uses.
    pub(super) fn used(&self, geometry: Geometry) -> u64 {
        let all = geometry.bytes();
        let free = if self.verify { all.saturating_sub(VERIFY_BYTES) } else { all };
        self.size.map_or(free, |size| size.min(free))
    }
}
