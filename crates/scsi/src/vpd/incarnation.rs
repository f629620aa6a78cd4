//! The incarnation mark: a vendor-specific page of ours (SPC-4 §7.8.1 leaves C0h to FFh to vendors).
//!
//! A volatile cache does not outlive the process that has it. The mark changes whenever a process begins, so that an
//! initiator of ours that has lost its connection can tell whether what it was told is written can still be flushed.
//! Other initiators do not ask for the page.

use crate::device::{LogicalUnit, TargetDevice};
use crate::page::Page;

/// The page's code.
pub(crate) const CODE: u8 = 0xe1;
/// What the page begins with: other vendors use the same code for something else.
pub(crate) const MAGIC: &[u8; 8] = b"LINERATE";

pub(super) fn fill(page: &mut Page, _device: &TargetDevice, unit: &LogicalUnit) {
    if let Some(mark) = &unit.identity.incarnation {
        page.put(MAGIC).put(mark);
    }
}
