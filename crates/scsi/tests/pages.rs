//! Parameter data, byte for byte: a page that changes is a line that changes in `pages.golden`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::fmt::Write as _;

use common::{Nexus, Shared, cdb, data, device};
use scsi::builder;

/// Every command that answers with data of its own, by name.
fn questions() -> Vec<(&'static str, Vec<u8>)> {
    let page = |code| builder::inquiry(Some(code), 1024).to_vec();
    let sense = |code: u8, control: u8| cdb(10, &[(0, 0x5a), (1, 0x08), (2, code | control << 6), (7, 4)]);
    vec![
        ("INQUIRY", builder::inquiry(None, 1024).to_vec()),
        ("VPD 00h", page(0x00)),
        ("VPD 80h", page(0x80)),
        ("VPD 83h", page(0x83)),
        ("VPD 86h", page(0x86)),
        ("VPD B0h", page(0xb0)),
        ("VPD B1h", page(0xb1)),
        ("VPD B2h", page(0xb2)),
        ("VPD E1h", page(0xe1)),
        ("READ CAPACITY (10)", cdb(10, &[(0, 0x25)])),
        ("READ CAPACITY (16)", builder::read_capacity(32).to_vec()),
        ("REPORT LUNS", builder::report_luns(1024).to_vec()),
        ("MODE SENSE current", sense(0x3f, 0)),
        ("MODE SENSE changeable", sense(0x3f, 1)),
        ("MODE SENSE default", sense(0x3f, 2)),
        ("MODE SENSE (6) with a block descriptor", cdb(6, &[(0, 0x1a), (2, 0x08), (4, 255)])),
        ("REPORT CAPABILITIES", cdb(10, &[(0, 0x5e), (1, 2), (7, 4)])),
        ("REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS", cdb(12, &[(0, 0xa3), (1, 0x0d), (2, 0x80), (9, 255)])),
    ]
}

fn hex(text: &mut String, bytes: &[u8]) {
    for line in bytes.chunks(16) {
        for byte in line {
            write!(text, " {byte:02x}").unwrap();
        }
        text.push('\n');
    }
}

#[test]
fn pages_are_as_recorded() {
    let (mut nexus, mut shared) = (Nexus::ready(device(), "a"), Shared::default());
    let mut text = String::new();
    for (name, question) in questions() {
        writeln!(text, "{name}").unwrap();
        hex(&mut text, &data(&nexus.control(&mut shared, &question)));
    }
    assert_eq!(text, include_str!("pages.golden"), "if that is meant, record it:\n{text}");
}

/// The table as initiators see it: operation code, service action, and the bits of the CDB that count.
#[test]
fn commands_are_as_recorded() {
    let (mut nexus, mut shared) = (Nexus::ready(device(), "a"), Shared::default());
    let all = data(&nexus.control(&mut shared, &cdb(12, &[(0, 0xa3), (1, 0x0c), (8, 64)])));
    let mut text = String::new();
    for entry in all[4..].chunks(8) {
        let (opcode, action, has_action) = (entry[0], entry[3], entry[5] & 1);
        let one = [(0, 0xa3), (1, 0x0c), (2, 1 + has_action), (3, opcode), (5, action), (8, 1)];
        let one = data(&nexus.control(&mut shared, &cdb(12, &one)));
        assert_eq!(one[1], 3, "{opcode:#x} is supported as the standard says");
        assert_eq!(one[2..4], entry[6..8], "both reports give one length");
        hex(&mut text, &one[4..]);
    }
    assert_eq!(text, include_str!("commands.golden"), "if that is meant, record it:\n{text}");
}

#[test]
fn data_is_cut_to_the_allocation_length_and_keeps_its_own_length_field() {
    let (mut nexus, mut shared) = (Nexus::ready(device(), "a"), Shared::default());
    let whole = data(&nexus.control(&mut shared, &builder::inquiry(Some(0x83), 1024)));
    let reply = nexus.control(&mut shared, &builder::inquiry(Some(0x83), 10));
    assert_eq!(data(&reply), whole[..10]);
    assert_eq!(reply.full_length, 10);
}
