//! Vital product data pages (SPC-4 §7.8, SBC-4 §6.6): one file per page that has more than a list in it.

mod block_limits;
mod characteristics;
mod extended_inquiry;
mod identification;
pub(crate) mod incarnation;
mod provisioning;

use alloc::vec::Vec;

use crate::device::{LogicalUnit, TargetDevice};
use crate::inquiry::DISK;
use crate::page::Page;

/// A page: its code, and what fills it after the four bytes of its head.
type Fill = fn(&mut Page, &TargetDevice, &LogicalUnit);

/// Every page, in ascending order of codes.
const PAGES: &[(u8, Fill)] = &[
    (0x00, supported),
    (0x80, serial_number),
    (0x83, identification::fill),
    (0x86, extended_inquiry::fill),
    (0xb0, block_limits::fill),
    (0xb1, characteristics::fill),
    (0xb2, provisioning::fill),
    (incarnation::CODE, incarnation::fill),
];

/// The whole page with `code`, or `None` if there is no such page.
pub(crate) fn page(code: u8, device: &TargetDevice, unit: &LogicalUnit) -> Option<Vec<u8>> {
    let (_, fill) = PAGES.iter().find(|(known, _)| *known == code && exists(*known, unit))?;
    let mut page = Page::new();
    page.u8(DISK).u8(code).u16(0);
    fill(&mut page, device, unit);
    Some(page.length_u16(2).take())
}

/// SPC-4 §7.8.14.
fn supported(page: &mut Page, _device: &TargetDevice, unit: &LogicalUnit) {
    for (code, _) in PAGES.iter().filter(|(code, _)| exists(*code, unit)) {
        page.u8(*code);
    }
}

/// Only a unit that has a mark has the page for it.
fn exists(code: u8, unit: &LogicalUnit) -> bool {
    code != incarnation::CODE || unit.identity.incarnation.is_some()
}

/// SPC-4 §7.8.16.
fn serial_number(page: &mut Page, _device: &TargetDevice, unit: &LogicalUnit) {
    page.put(unit.identity.serial.as_bytes());
}
