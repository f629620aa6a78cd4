//! READ CAPACITY (SBC-4 §5.20, §5.21).

use alloc::vec::Vec;

use crate::device::LogicalUnit;
use crate::page::Page;

/// Bytes of READ CAPACITY (16) data.
const LENGTH_16: usize = 32;
/// LBPME and LBPRZ in byte 14.
const THIN_READS_ZEROS: u8 = 0xc0;

/// READ CAPACITY (10) data: the last block, or all ones when it does not fit, and the block length.
pub(crate) fn short(unit: &LogicalUnit) -> Vec<u8> {
    let last = unit.geometry.blocks.saturating_sub(1);
    Page::new().u32(wire::saturate::<u32>(last)).u32(unit.geometry.block_size).take()
}

/// READ CAPACITY (16) data.
pub(crate) fn long(unit: &LogicalUnit) -> Vec<u8> {
    let geometry = unit.geometry;
    let ratio = geometry.physical_block_size.checked_div(geometry.block_size).unwrap_or(1).max(1);
    let exponent = u8::try_from(ratio.trailing_zeros()).unwrap_or(0);
    let mut page = Page::new();
    page.u64(geometry.blocks.saturating_sub(1)).u32(geometry.block_size).u8(0).u8(exponent);
    page.u8(if unit.thin() { THIN_READS_ZEROS } else { 0 });
    page.pad_to(LENGTH_16).take()
}
