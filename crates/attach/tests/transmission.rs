//! The transmission: requests, their replies, and what happens at every limit.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests")]

mod common;

use attach::nbd::Input;
use attach::nbd::limits::REQUESTS;
use attach::nbd::wire::{Command, CommandFlags, Failure, RequestHeader};
use common::{Answer, Bench, NOW, SIZE, narrow};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use protocol::pair::aperiodic;
use protocol::{CloseReason, Connection as _, Ended};
use volume::{Completion, Durability, Features, Operation, Outcome, VolumeErrorKind};
use zerocopy::IntoBytes;

const NONE: CommandFlags = CommandFlags::empty();

fn pattern(length: usize) -> Vec<u8> {
    aperiodic(length, 1)
}

#[test]
fn what_is_written_is_read_in_one_piece_or_in_many() {
    for structured in [false, true] {
        for transfer in [512, 4096, 8 << 20] {
            let mut bench = Bench::agreed(structured, |export| export.limits = narrow(transfer));
            let data = pattern(70_144);
            bench.write(1024, &data);
            assert_eq!(bench.read(1024, 70_144), data, "{structured} {transfer}");
            assert_eq!(bench.read(SIZE - 512, 512), [0; 512]);
        }
    }
}

#[test]
fn reads_in_chunks_carry_their_offset_and_errors_their_number() {
    let mut bench = Bench::agreed(true, |_| {});
    let answer = bench.ask(&RequestHeader::new(Command::READ, 1, 512, 512).with(CommandFlags::DF), &[]);
    assert_eq!((answer.chunk, answer.data.len()), (Some(1), 512));
    let answer = bench.ask(&RequestHeader::new(Command::READ, 1, SIZE, 512), &[]);
    assert_eq!((answer.chunk, answer.error), (Some(0x8001), Failure::INVAL.0));
    let answer = bench.ask(&RequestHeader::new(Command::FLUSH, 1, 0, 0), &[]);
    assert_eq!((answer.chunk, answer.error), (None, 0));
}

#[test]
fn zeroing_and_trimming_release_space_unless_they_may_not() {
    let mut bench = Bench::agreed(true, |_| {});
    bench.write(0, &pattern(262_144));
    let all = (0, 262_144);
    assert_eq!(bench.status(NONE, all), [(262_144, 0)]);
    assert_eq!(bench.error(Command::TRIM, NONE, (0, 65_536)), 0);
    assert_eq!(bench.error(Command::WRITE_ZEROES, CommandFlags::NO_HOLE, (65_536, 65_536)), 0);
    assert_eq!(bench.error(Command::WRITE_ZEROES, CommandFlags::FAST_ZERO, (131_072, 65_536)), 0);
    assert_eq!(bench.status(NONE, all), [(65_536, 3), (65_536, 0), (65_536, 3), (65_536, 0)]);
    assert_eq!(bench.status(CommandFlags::REQ_ONE, all), [(65_536, 3)]);
    assert_eq!(bench.read(0, 196_608), vec![0; 196_608]);
    assert_eq!(bench.read(196_608, 65_536), pattern(262_144)[196_608..]);
}

#[test]
fn long_trims_go_in_steps_that_the_volume_takes() {
    let mut bench = Bench::agreed(true, |export| export.limits = narrow(4096));
    bench.write(0, &pattern(65_536));
    assert_eq!(bench.error(Command::WRITE_ZEROES, NONE, (512, 60_000 / 512 * 512)), 0);
    assert_eq!(bench.read(512, 512), [0; 512]);
    assert_eq!(bench.read(0, 512), pattern(512));
    let header = RequestHeader::new(Command::TRIM, 1, 0, 5 * 512).with(CommandFlags::FUA);
    bench.half.receive(NOW, header.as_bytes());
    let mut steps = Vec::new();
    while bench.hold() > 0 {
        steps.push(match bench.held[0].operation {
            Operation::Discard { extent } => extent.blocks,
            Operation::Flush => 0,
            _ => panic!("not asked for"),
        });
        bench.release();
    }
    assert_eq!(steps, [3, 2, 0], "a trim that must last ends in a flush");
}

#[test]
fn durable_writes_are_asked_for_as_such() {
    let mut bench = Bench::agreed(false, |_| {});
    let mut ask = |command, flags, data: &[u8]| {
        bench.half.receive(NOW, RequestHeader::new(command, 1, 0, 512).with(flags).as_bytes());
        bench.half.receive(NOW, data);
        bench.hold();
        let durable = match &bench.held[0].operation {
            Operation::Write { durability, .. } | Operation::WriteZeroes { durability, .. } => *durability,
            other => panic!("{other:?}"),
        };
        bench.settle();
        durable
    };
    assert_eq!(ask(Command::WRITE, CommandFlags::FUA, &[1; 512]), Durability::Durable);
    assert_eq!(ask(Command::WRITE, NONE, &[1; 512]), Durability::Cached);
    assert_eq!(ask(Command::WRITE_ZEROES, CommandFlags::FUA, &[]), Durability::Durable);
}

#[test]
fn what_makes_no_sense_is_answered_and_does_no_harm() {
    let mut bench = Bench::agreed(true, |export| export.features.remove(Features::WRITE_ZEROES));
    for (command, flags, range, failure) in [
        (Command::READ, NONE, (0, 0), Failure::INVAL),
        (Command::READ, NONE, (1, 512), Failure::INVAL),
        (Command::READ, NONE, (0, 100), Failure::INVAL),
        (Command::READ, NONE, (SIZE - 512, 1024), Failure::INVAL),
        (Command::READ, NONE, (u64::MAX - 511, 512), Failure::INVAL),
        (Command::READ, CommandFlags::from_bits_retain(1 << 9), (0, 512), Failure::INVAL),
        (Command::TRIM, NONE, (SIZE, 512), Failure::NOSPC),
        (Command::WRITE_ZEROES, CommandFlags::FAST_ZERO, (0, 512), Failure::NOTSUP),
        (Command(5), NONE, (0, 512), Failure::INVAL),
        (Command(99), NONE, (0, 512), Failure::INVAL),
    ] {
        assert_eq!(bench.error(command, flags, range), failure.0, "{command:?} {range:?}");
    }
    let header = RequestHeader::new(Command::WRITE, 1, SIZE - 512, 1024);
    assert_eq!(bench.ask(&header, &[1; 1024]).error, Failure::NOSPC.0);
    assert_eq!(bench.read(SIZE - 512, 512), [0; 512], "a refused write's data is passed over");
    let mut plain = Bench::agreed(false, |_| {});
    assert_eq!(plain.error(Command::BLOCK_STATUS, NONE, (0, 512)), Failure::INVAL.0);
}

#[test]
fn a_read_only_export_refuses_every_change() {
    let mut bench = Bench::agreed(true, |export| export.read_only = true);
    let header = RequestHeader::new(Command::WRITE, 1, 0, 512);
    assert_eq!(bench.ask(&header, &[1; 512]).error, Failure::PERM.0);
    assert_eq!(bench.error(Command::TRIM, NONE, (0, 512)), Failure::PERM.0);
    assert_eq!(bench.error(Command::WRITE_ZEROES, NONE, (0, 512)), Failure::PERM.0);
    assert_eq!(bench.error(Command::FLUSH, NONE, (0, 0)), 0);
    assert_eq!(bench.read(0, 512), [0; 512]);
}

/// A request longer than the protocol's payload, refused before any memory is asked for.
#[test]
fn the_longest_request_is_bounded() {
    let size = 64 << 20;
    let mut bench = Bench::agreed(true, |export| {
        export.geometry = volume::Geometry::of(size, 512).unwrap();
    });
    assert_eq!(bench.error(Command::READ, NONE, (0, (32 << 20) + 512)), Failure::OVERFLOW.0);
}

#[test]
fn requests_beyond_the_limit_wait_unread() {
    let mut bench = Bench::agreed(false, |_| {});
    for cookie in 0..REQUESTS as u64 + 10 {
        bench.half.receive(NOW, RequestHeader::new(Command::FLUSH, cookie, 0, 0).as_bytes());
    }
    assert_eq!(bench.hold(), REQUESTS);
    assert!(!bench.half.connection.wants_bytes());
    assert_eq!(bench.half.staged(), 10 * 28);
    assert_eq!(bench.settle().len(), (REQUESTS + 10) * 16);
}

#[test]
fn short_memory_only_makes_requests_wait() {
    let mut bench = Bench::agreed(false, |_| {});
    let hog: Vec<_> =
        std::iter::from_fn(|| bench.pool.take(1 << 20).or_else(|| bench.pool.take(512))).collect();
    for cookie in 0..3 {
        bench.half.receive(NOW, RequestHeader::new(Command::READ, cookie, 0, 65_536).as_bytes());
    }
    bench.half.receive(NOW, RequestHeader::new(Command::WRITE, 3, 0, 32_768).as_bytes());
    bench.half.receive(NOW, &vec![1; 32_768]);
    assert_eq!(bench.hold(), 0);
    assert!(!bench.half.connection.wants_bytes());
    drop(hog);
    assert!(bench.half.connection.wants_bytes());
    let due = bench.half.connection.poll_timeout().unwrap();
    bench.half.connection.handle_timeout(due);
    assert_eq!(bench.settle().len(), 3 * (16 + 65_536) + 16);
}

#[test]
fn leave_is_taken_after_the_last_reply() {
    for how in ["client", "server"] {
        let mut bench = Bench::agreed(false, |_| {});
        bench.half.receive(NOW, RequestHeader::new(Command::READ, 1, 0, 512).as_bytes());
        assert_eq!(bench.hold(), 1);
        if how == "client" {
            bench.half.receive(NOW, RequestHeader::new(Command::DISC, 2, 0, 0).as_bytes());
        } else {
            bench.half.connection.handle_input(NOW, Input::Shutdown);
        }
        bench.half.receive(NOW, RequestHeader::new(Command::READ, 3, 0, 512).as_bytes());
        assert_eq!(bench.half.connection.poll_close(), None, "{how}");
        let out = bench.settle();
        assert_eq!(Answer::read(&out, 512).0.cookie, 1);
        assert_eq!(out.len(), 16 + 512, "nothing after the leave is answered");
        let reason = if how == "client" { CloseReason::Finished } else { CloseReason::ShuttingDown };
        assert_eq!(bench.half.connection.poll_close(), Some(reason));
    }
}

#[test]
fn a_write_that_is_half_received_is_finished_before_the_server_leaves() {
    let mut bench = Bench::agreed(false, |_| {});
    bench.half.receive(NOW, RequestHeader::new(Command::WRITE, 1, 0, 1024).as_bytes());
    bench.half.receive(NOW, &[5; 512]);
    bench.half.connection.handle_input(NOW, Input::Shutdown);
    assert_eq!(bench.half.connection.poll_close(), None);
    bench.half.receive(NOW, &[5; 512]);
    assert_eq!(bench.settle().len(), 16);
    assert_eq!(bench.half.connection.poll_close(), Some(CloseReason::ShuttingDown));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    /// Any bytes, in any chunks, during the negotiation and after it.
    #[test]
    fn hostile_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..600), chunk in 1_usize..64, agreed in any::<bool>()) {
        let mut bench = if agreed { Bench::agreed(true, |_| {}) } else { Bench::new(1 << 20, |_| {}) };
        for part in bytes.chunks(chunk) {
            bench.half.receive(NOW, part);
            bench.settle();
        }
        bench.half.end(NOW, Ended::ByPeer);
        bench.settle();
    }

    /// Any requests, in any chunks, against an array of bytes.
    #[test]
    fn the_export_is_an_array_of_bytes(
        steps in prop::collection::vec((0_u8..4, 0_u64..32, 1_u32..16, any::<u8>()), 1..40),
        chunk in 1_usize..5000,
        transfer in prop::sample::select(vec![512_u32, 1024, 8 << 20]),
        structured in any::<bool>(),
    ) {
        let mut bench = Bench::agreed(structured, |export| export.limits = narrow(transfer));
        let mut model = vec![0; 48 * 512];
        for (kind, block, blocks, byte) in steps {
            let (offset, length) = (block * 512, blocks * 512);
            let range = offset as usize..offset as usize + length as usize;
            match kind {
                0 => prop_assert_eq!(&bench.read(offset, length), &model[range]),
                1 => {
                    let header = RequestHeader::new(Command::WRITE, 5, offset, length);
                    let bytes = [header.as_bytes(), &vec![byte; length as usize]].concat();
                    for part in bytes.chunks(chunk) {
                        bench.half.receive(NOW, part);
                    }
                    prop_assert_eq!(bench.settle().len(), 16);
                    model[range].fill(byte);
                }
                2 => {
                    prop_assert_eq!(bench.error(Command::TRIM, NONE, (offset, length)), 0);
                    model[range].fill(0);
                }
                _ => {
                    prop_assert_eq!(bench.error(Command::WRITE_ZEROES, NONE, (offset, length)), 0);
                    model[range].fill(0);
                }
            }
        }
        prop_assert_eq!(&bench.read(0, 48 * 512), &model);
    }
}

#[test]
fn what_the_volume_could_not_make_durable_is_told_every_time() {
    let mut bench = Bench::agreed(false, |_| {});
    let fua = CommandFlags::FUA;
    for (command, flags, range, data) in [
        (Command::FLUSH, NONE, (0, 0), 0),
        (Command::FLUSH, NONE, (0, 0), 0),
        (Command::WRITE, fua, (0, 512), 512),
        (Command::WRITE_ZEROES, fua, (0, 512), 0),
        (Command::TRIM, fua, (0, 512), 0),
        (Command::FLUSH, NONE, (0, 0), 0),
    ] {
        let header = RequestHeader::new(command, 7, range.0, range.1).with(flags);
        bench.half.receive(NOW, header.as_bytes());
        bench.half.receive(NOW, &vec![1; data]);
        while bench.hold() > 0 {
            for request in std::mem::take(&mut bench.held) {
                let lost = matches!(
                    request.operation,
                    Operation::Flush
                        | Operation::Write { durability: Durability::Durable, .. }
                        | Operation::WriteZeroes { durability: Durability::Durable, .. }
                );
                let result = if lost { Err(VolumeErrorKind::Media) } else { Ok(Outcome::Done) };
                let completion =
                    Completion { tag: request.tag, result: result.map_err(VolumeErrorKind::into) };
                bench.half.connection.handle_input(NOW, Input::Completion(completion));
            }
        }
        let answer = Answer::read(&bench.half.transmit(NOW), 0).0;
        assert_eq!((answer.cookie, answer.error), (7, Failure::IO.0), "{command:?} {flags:?}");
    }
}
