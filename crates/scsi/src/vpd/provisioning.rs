//! Logical Block Provisioning (SBC-4 §6.6.6).

use crate::device::{LogicalUnit, TargetDevice};
use crate::page::Page;

/// LBPU, LBPWS, LBPWS10, LBPRZ: UNMAP and both WRITE SAME commands unmap, and unmapped blocks read as zeros.
const UNMAPS: u8 = 0xe4;
/// PROVISIONING TYPE: thin.
const THIN: u8 = 0x02;
/// PROVISIONING TYPE: full.
const FULL: u8 = 0x00;

pub(super) fn fill(page: &mut Page, _device: &TargetDevice, unit: &LogicalUnit) {
    if unit.thin() {
        page.u8(0).u8(UNMAPS).u8(THIN).u8(0);
    } else {
        page.u8(0).u8(0).u8(FULL).u8(0);
    }
}
