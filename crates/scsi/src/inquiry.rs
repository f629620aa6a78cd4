//! Standard INQUIRY data (SPC-4 §6.6.2).

use alloc::vec::Vec;

use crate::device::LogicalUnit;
use crate::page::Page;

/// Peripheral qualifier and type of a disk that is there.
pub(crate) const DISK: u8 = 0x00;
/// Peripheral qualifier 011b and type 1Fh: no such logical unit.
pub(crate) const NO_UNIT: u8 = 0x7f;
/// SPC-4.
const VERSION: u8 = 0x06;
/// HISUP, and response data format 2.
const HISUP_FORMAT_2: u8 = 0x12;
/// TPGS 01b: implicit asymmetric access is not offered, so zero; 3PC zero; PROTECT zero.
const FLAGS_5: u8 = 0x00;
/// CMDQUE.
const FLAGS_7: u8 = 0x02;
/// SAM-5, SPC-4, SBC-3, iSCSI (SPC-4 table 149).
const VERSION_DESCRIPTORS: [u16; 4] = [0x00a0, 0x0460, 0x04c0, 0x0960];
/// Bytes of standard data with version descriptors and the reserved bytes after them.
const LENGTH: usize = 96;

/// The data; `unit` is `None` for a LUN without a logical unit.
pub(crate) fn standard(unit: Option<&LogicalUnit>) -> Vec<u8> {
    let mut page = Page::new();
    page.u8(if unit.is_some() { DISK } else { NO_UNIT }).u8(0).u8(VERSION).u8(HISUP_FORMAT_2).u8(0);
    page.u8(FLAGS_5).u8(0).u8(FLAGS_7);
    let identity = unit.map(|unit| &unit.identity);
    page.ascii(identity.map_or("LINERATE", |identity| &identity.vendor), 8);
    page.ascii(identity.map_or("", |identity| &identity.product), 16);
    page.ascii(identity.map_or("", |identity| &identity.revision), 4);
    page.pad_to(58);
    for descriptor in VERSION_DESCRIPTORS {
        page.u16(descriptor);
    }
    page.pad_to(LENGTH).length_u8(4).take()
}
