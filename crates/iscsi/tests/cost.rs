//! What an I/O costs on the wire: PDUs and bytes each way, as a text that is read in review.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use core::fmt::Write as _;

use buf::{Buf, BufList, SharedBuf};
use common::{BLOCK, Bench, config, portal};
use iscsi::keys::{DigestPolicy, Tuning};
use iscsi::pdu::{BasicHeaderSegment, Opcode, padding};
use iscsi::target::{Action, Input};
use protocol::{Connection, Instant};
use volume::{Durability, Extent, Operation, Submission};

fn name(opcode: Opcode) -> &'static str {
    match opcode {
        Opcode::SCSI_COMMAND => "command",
        Opcode::DATA_OUT => "data-out",
        Opcode::DATA_IN => "data-in",
        Opcode::SCSI_RESPONSE => "response",
        Opcode::R2T => "r2t",
        _ => "other",
    }
}

/// The PDUs of a send, with digests if there are any.
fn walk(bytes: &[u8], digest: usize) -> String {
    let mut rest = bytes;
    let mut names: Vec<&str> = Vec::new();
    while !rest.is_empty() {
        let view = BasicHeaderSegment::from_bytes(rest[..48].try_into().unwrap());
        let length = view.data_length() as usize;
        let data = if length == 0 { 0 } else { length + padding(length) + digest };
        names.push(name(view.opcode()));
        rest = &rest[48 + digest + data..];
    }
    names.join(" ")
}

fn cost(table: &mut String, title: &str, tuning: Tuning) {
    let mut config = config();
    config.tuning = tuning;
    let mut bench = Bench::ready(config, portal(4096));
    let digest = if tuning.header_digest == DigestPolicy::Require { 4 } else { 0 };
    for (blocks, write) in [(8, false), (8, true), (256, false), (256, true), (2048, true)] {
        let extent = Extent::new(0, blocks as u64);
        let operation = if write {
            let data = BufList::from(SharedBuf::from(vec![1; blocks * BLOCK]));
            Operation::Write { extent, data, durability: Durability::Cached }
        } else {
            Operation::Read { extent, into: Buf::zeroed(blocks * BLOCK) }
        };
        bench.submit(1, operation);
        let kind = if write { "write" } else { "read" };
        writeln!(table, "{title}: {kind} {} KiB", blocks / 2).unwrap();
        while bench.done.is_empty() {
            let out = bench.pair.near.transmit(Instant::ZERO);
            if !out.is_empty() {
                writeln!(table, "  → {} bytes: {}", out.len(), walk(&out, digest)).unwrap();
            }
            bench.pair.far.receive(Instant::ZERO, &out);
            while let Some(action) = bench.pair.far.connection.poll_action() {
                if let Action::Submit(Submission { request, .. }) = action {
                    let completion = bench.memory.carry_out(request);
                    bench.pair.far.connection.handle_input(Instant::ZERO, Input::Completion(completion));
                }
            }
            let back = bench.pair.far.transmit(Instant::ZERO);
            if !back.is_empty() {
                writeln!(table, "  ← {} bytes: {}", back.len(), walk(&back, digest)).unwrap();
            }
            bench.pair.near.receive(Instant::ZERO, &back);
            bench.act_near();
        }
        bench.done.clear();
    }
}

#[test]
fn costs_are_as_written_down() {
    let mut table = String::new();
    let plain =
        Tuning { header_digest: DigestPolicy::Off, data_digest: DigestPolicy::Off, ..Tuning::default() };
    cost(&mut table, "default", plain);
    let digests = Tuning {
        header_digest: DigestPolicy::Require,
        data_digest: DigestPolicy::Require,
        ..Tuning::default()
    };
    cost(&mut table, "digests", digests);
    cost(&mut table, "R2T only", Tuning { immediate_data: false, initial_r2t: true, ..plain });
    assert_eq!(table, include_str!("cost.golden"), "the new table:\n{table}");
}
