//! Memory that a buffer may wrap and that no pool owns.

use alloc::vec::Vec;

/// Memory that somebody else provides for the time of an I/O.
///
/// Dropping the owner is the sign that the memory is no longer used.
pub trait Foreign: Send + Sync {
    /// The memory; called once. It must not move, and nobody else may touch it, until the owner is dropped.
    fn memory(&mut self) -> &mut [u8];
}

impl Foreign for Vec<u8> {
    fn memory(&mut self) -> &mut [u8] {
        self
    }
}
