//! What durability reaches the volume: every command that writes, with and without force unit access (SBC-4 §4.16, §5).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::{BLOCK, Nexus, Shared, additional, cdb, data, device, pattern};

/// FUA in byte 1.
const FUA: u8 = 0x08;
/// BYTCHK 01b in byte 1.
const BYTES: u8 = 0x02;

/// What a command sends to the volume, with the promise that it makes.
struct Row {
    name: &'static str,
    cdb: Vec<u8>,
    sent: usize,
    expected: &'static [&'static str],
}

fn row(name: &'static str, cdb: Vec<u8>, sent: usize, expected: &'static [&'static str]) -> Row {
    Row { name, cdb, sent, expected }
}

/// Writes of two pieces and one of another, by the CDB's length.
fn write(opcode: u8, byte1: u8) -> Vec<u8> {
    match opcode {
        0x0a => cdb(6, &[(0, opcode), (4, 9)]),
        0x2a | 0x2e | 0x41 => cdb(10, &[(0, opcode), (1, byte1), (8, 9)]),
        0xaa | 0xae => cdb(12, &[(0, opcode), (1, byte1), (9, 9)]),
        _ => cdb(16, &[(0, opcode), (1, byte1), (13, 9)]),
    }
}

fn rows() -> Vec<Row> {
    const CACHED: &[&str] = &["write 0+8 Cached", "write 8+1 Cached"];
    const DURABLE: &[&str] = &["write 0+8 Durable", "write 8+1 Durable"];
    // What was written is verified on the medium, not in a cache (SBC-4 §5.50).
    const VERIFIED: &[&str] = &["write 0+8 Durable", "write 8+1 Durable", "verify 0+8", "verify 8+1"];
    let mut rows = vec![row("WRITE (6)", write(0x0a, 0), 9, CACHED)];
    for (name, opcode) in [("WRITE (10)", 0x2a), ("WRITE (12)", 0xaa), ("WRITE (16)", 0x8a)] {
        rows.push(row(name, write(opcode, 0), 9, CACHED));
        rows.push(row(name, write(opcode, FUA), 9, DURABLE));
    }
    for (name, opcode) in
        [("WRITE AND VERIFY (10)", 0x2e), ("WRITE AND VERIFY (12)", 0xae), ("WRITE AND VERIFY (16)", 0x8e)]
    {
        rows.push(row(name, write(opcode, 0), 9, VERIFIED));
        rows.push(row(name, write(opcode, BYTES), 9, DURABLE));
    }
    for (name, opcode) in [("WRITE SAME (10)", 0x41), ("WRITE SAME (16)", 0x93)] {
        rows.push(row(name, write(opcode, 0), 1, CACHED));
    }
    let compare = |byte1| cdb(16, &[(0, 0x89), (1, byte1), (13, 2)]);
    rows.push(row("COMPARE AND WRITE", compare(0), 4, &["compare and write 0+2 Cached"]));
    rows.push(row("COMPARE AND WRITE", compare(FUA), 4, &["compare and write 0+2 Durable"]));
    for (name, length, opcode) in [("SYNCHRONIZE CACHE (10)", 10, 0x35), ("SYNCHRONIZE CACHE (16)", 16, 0x91)]
    {
        rows.push(row(name, cdb(length, &[(0, opcode)]), 0, &["flush"]));
        let one_block = (if length == 10 { 8 } else { 13 }, 1);
        rows.push(row(name, cdb(length, &[(0, opcode), one_block]), 0, &["flush"]));
    }
    rows
}

#[test]
fn every_writing_command_reaches_the_volume_with_the_durability_that_it_promises() {
    for Row { name, cdb, sent, expected } in rows() {
        let (mut nexus, mut shared) = (Nexus::ready(device(), "a"), Shared::default());
        let mut bytes = pattern(sent, 0x17);
        if cdb[0] == 0x89 {
            // What is there is compared with first.
            bytes[..2 * BLOCK].fill(0);
        }
        let reply =
            if sent == 0 { nexus.control(&mut shared, &cdb) } else { nexus.send(&mut shared, &cdb, &bytes) };
        assert_eq!(additional(&reply), (0, 0, 0), "{name} {cdb:02x?}");
        assert_eq!(
            shared.disk.log, expected,
            "{name} {cdb:02x?} does not keep what it promises (SBC-4 §4.16: FUA reaches the medium before GOOD)"
        );
    }
}

/// Commands that need no row: they read, or change something else than the medium, or release blocks, of which none is promised to
/// outlive a loss of power.
const OTHERS: [u8; 27] = [
    0x00, 0x03, 0x08, 0x12, 0x15, 0x1a, 0x1b, 0x1e, 0x25, 0x28, 0x2f, 0x34, 0x42, 0x55, 0x5a, 0x5e, 0x5f,
    0x88, 0x8f, 0x90, 0x9e, 0xa0, 0xa3, 0xa8, 0xaf, 0xa3, 0x9e,
];

#[test]
fn no_command_that_writes_is_left_out() {
    let (mut nexus, mut shared) = (Nexus::ready(device(), "a"), Shared::default());
    let report = cdb(12, &[(0, 0xa3), (1, 0x0c), (8, 0xff)]);
    let listed = data(&nexus.control(&mut shared, &report));
    let known: Vec<u8> = rows().iter().map(|row| row.cdb[0]).chain(OTHERS).collect();
    for descriptor in listed[4..].chunks_exact(8) {
        let opcode = descriptor[0];
        assert!(
            known.contains(&opcode),
            "the command {opcode:#04x} is offered: say in this file what durability it promises"
        );
    }
    assert!(listed.len() > 4 + 8 * 20, "{} bytes list all commands", listed.len());
}
