//! What the regions of both layouts have in common.

use core::sync::atomic::{Ordering, compiler_fence};

use crate::area::Area;

/// The version of both formats.
pub(super) const VERSION: u16 = 1;
/// Where both have it.
pub(super) const VERSION_AT: usize = 8;
/// Where both have the number of their entries.
pub(super) const ENTRIES_AT: usize = 10;
/// Keeps what was written so far in front of what follows: a process that ends has done all of the one before any of the other.
pub(super) fn in_order() {
    compiler_fence(Ordering::SeqCst);
}

/// A number of eight bytes.
pub(super) fn load_wide<A: Area>(area: &A, at: usize) -> u64 {
    let mut bytes = [0; 8];
    area.read(at, &mut bytes);
    u64::from_le_bytes(bytes)
}

/// One byte.
pub(super) fn load_byte<A: Area>(area: &A, at: usize) -> u8 {
    let mut byte = [0];
    area.read(at, &mut byte);
    byte[0]
}
