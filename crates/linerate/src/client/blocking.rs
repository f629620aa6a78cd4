//! A disk for threads that may wait.

use super::answer::block_on;
use super::core::is_core;
use super::disk::{Disk, Run};
use super::error::DiskError;
use ::volume::VolumeErrorKind;

/// A [`Disk`] whose calls wait for their end. Clones are the same disk; each call is a whole request, so that several
/// threads may share one.
///
/// No call may be made in a callback, where it would wait for itself: it is refused there.
#[derive(Debug, Clone)]
pub struct BlockingDisk(Disk);

impl Disk {
    /// The same disk for threads that may wait.
    pub fn blocking(&self) -> BlockingDisk {
        BlockingDisk(self.clone())
    }
}

impl BlockingDisk {
    /// The disk itself, for what does not wait.
    pub fn disk(&self) -> &Disk {
        &self.0
    }

    /// Fills `into` from byte `offset`. Both must be multiples of the block size.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), DiskError> {
        self.wait(self.0.read(offset, into))
    }

    /// Writes `data` at byte `offset`. Both must be multiples of the block size. It is durable after a flush.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DiskError> {
        self.wait(self.0.write(offset, data))
    }

    /// The same, and ends only once it is on stable media (force unit access).
    pub fn write_durable_at(&self, offset: u64, data: &[u8]) -> Result<(), DiskError> {
        self.wait(self.0.write_durable(offset, data))
    }

    /// Makes every write that has ended durable.
    pub fn flush(&self) -> Result<(), DiskError> {
        self.wait(self.0.flush())
    }

    /// How the bytes from `offset` on are allocated; see [`Disk::allocation`].
    pub fn allocation(&self, offset: u64, len: u64) -> Result<Run, DiskError> {
        self.wait(self.0.allocation(offset, len))
    }

    /// Says that `len` bytes from byte `offset` are no longer needed.
    pub fn discard(&self, offset: u64, len: u64) -> Result<(), DiskError> {
        self.wait(self.0.discard(offset, len))
    }

    /// Makes `len` bytes from byte `offset` read as zeros.
    pub fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), DiskError> {
        self.wait(self.0.write_zeroes(offset, len))
    }

    /// Compares the bytes from `offset` with `compare`, and only if they are equal writes `write`; see
    /// [`Disk::compare_and_write`].
    pub fn compare_and_write(&self, offset: u64, compare: &[u8], write: &[u8]) -> Result<(), DiskError> {
        self.wait(self.0.compare_and_write(offset, compare, write))
    }

    fn wait<T>(&self, request: impl Future<Output = Result<T, DiskError>>) -> Result<T, DiskError> {
        if is_core() {
            let why = "a callback must not wait: submit another request, or hand the work to another thread";
            return Err(DiskError::new(VolumeErrorKind::Unsupported, format!("{}: {why}", self.0.url())));
        }
        block_on(request)
    }
}
