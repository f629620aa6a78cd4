//! Extended INQUIRY Data (SPC-4 §7.8.7).

use crate::device::{LogicalUnit, TargetDevice};
use crate::page::Page;

/// SIMPSUP alone: a task of any attribute is accepted and treated as a SIMPLE one, so HEADSUP and ORDSUP would promise too much.
const TASK_ATTRIBUTES: u8 = 0x01;
/// Bytes of the page, head included.
const LENGTH: usize = 64;

pub(super) fn fill(page: &mut Page, _device: &TargetDevice, unit: &LogicalUnit) {
    // V_SUP: there is a volatile cache.
    let cache = unit.features.contains(volume::Features::VOLATILE_CACHE);
    page.u8(0).u8(TASK_ATTRIBUTES).u8(u8::from(cache)).pad_to(LENGTH);
}
