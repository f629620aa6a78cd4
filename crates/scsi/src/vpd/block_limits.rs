//! Block Limits (SBC-4 §6.6.4).

use crate::device::{LogicalUnit, TargetDevice};
use crate::limits;
use crate::page::Page;

/// Bytes of the page, head included.
const LENGTH: usize = 64;

pub(super) fn fill(page: &mut Page, _device: &TargetDevice, unit: &LogicalUnit) {
    let block = u64::from(unit.geometry.block_size.max(1));
    let blocks = |bytes: u64| wire::saturate::<u32>(bytes.checked_div(block).unwrap_or(0));
    let physical = u64::from(unit.geometry.physical_block_size);
    // WSNZ zero: a WRITE SAME without a length reaches to the end.
    page.u8(0).u8(limits::compare_and_write_blocks(unit));
    page.u16(u16::try_from(blocks(physical)).unwrap_or(1).max(1));
    page.u32(blocks(limits::TRANSFER_BYTES));
    page.u32(blocks(u64::from(unit.limits.max_transfer)));
    // No prefetch limit is reported.
    page.u32(0);
    if unit.thin() {
        page.u32(limits::UNMAP_BLOCKS).u32(limits::UNMAP_DESCRIPTORS);
        page.u32(unit.limits.discard_granularity.max(1));
        // UGAVALID, with an alignment of zero.
        page.u32(0x8000_0000);
    } else {
        page.zeros(16);
    }
    page.u64(limits::WRITE_SAME_BLOCKS);
    page.pad_to(LENGTH);
}
