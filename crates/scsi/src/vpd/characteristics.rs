//! Block Device Characteristics (SBC-4 §6.6.2).

use crate::device::{LogicalUnit, TargetDevice};
use crate::page::Page;

/// MEDIUM ROTATION RATE of a medium that does not rotate.
const NON_ROTATING: u16 = 1;
/// Bytes of the page, head included.
const LENGTH: usize = 64;

pub(super) fn fill(page: &mut Page, _device: &TargetDevice, _unit: &LogicalUnit) {
    page.u16(NON_ROTATING).pad_to(LENGTH);
}
