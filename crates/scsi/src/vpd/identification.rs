//! Device Identification (SPC-4 §7.8.6): the designators by which hosts put paths together.

use crate::device::{LogicalUnit, TargetDevice};
use crate::page::Page;

/// Code sets (SPC-4 table 592).
const BINARY: u8 = 1;
const ASCII: u8 = 2;
const UTF8: u8 = 3;
/// Associations, already in their place in the byte, with PIV set where a protocol identifier applies.
const UNIT: u8 = 0x00;
const PORT: u8 = 0x90;
const DEVICE: u8 = 0xa0;
/// Protocol identifier of iSCSI, in its place.
const ISCSI: u8 = 0x50;
/// Designator types (SPC-4 table 594).
const T10_VENDOR: u8 = 1;
const NAA: u8 = 3;
const RELATIVE_PORT: u8 = 4;
const PORT_GROUP: u8 = 5;
const NAME_STRING: u8 = 8;
const UUID: u8 = 10;
/// The longest designator.
const LONGEST: usize = 255;

pub(super) fn fill(page: &mut Page, device: &TargetDevice, unit: &LogicalUnit) {
    let identity = &unit.identity;
    designator(page, (ASCII, UNIT | T10_VENDOR), |body| {
        body.ascii(&identity.vendor, 8).put(identity.serial.as_bytes());
    });
    designator(page, (BINARY, UNIT | NAA), |body| {
        body.put(&identity.naa);
    });
    designator(page, (BINARY, UNIT | UUID), |body| {
        body.u8(0x10).u8(0).put(&identity.uuid);
    });
    designator(page, (BINARY | ISCSI, PORT | RELATIVE_PORT), |body| {
        body.u16(0).u16(device.relative_port);
    });
    designator(page, (BINARY | ISCSI, PORT | PORT_GROUP), |body| {
        body.u16(0).u16(device.port_group);
    });
    designator(page, (UTF8 | ISCSI, PORT | NAME_STRING), |body| name(body, &device.port_name));
    designator(page, (UTF8 | ISCSI, DEVICE | NAME_STRING), |body| name(body, &device.device_name));
}

/// A name string: null-terminated and padded to a multiple of four (SPC-4 §7.8.6.11).
fn name(body: &mut Page, text: &str) {
    body.put(text.as_bytes()).u8(0);
    let padded = body.len().next_multiple_of(4);
    body.pad_to(padded);
}

fn designator(page: &mut Page, (set, kind): (u8, u8), fill: impl FnOnce(&mut Page)) {
    let mut body = Page::new();
    fill(&mut body);
    let bytes = body.take();
    let bytes = bytes.get(..bytes.len().min(LONGEST)).unwrap_or_default();
    page.u8(set).u8(kind).u8(0).u8(u8::try_from(bytes.len()).unwrap_or(0)).put(bytes);
}
