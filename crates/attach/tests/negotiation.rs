//! The negotiation: every option has its answer, and only sensible ones begin the transmission.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests")]

mod common;

use attach::nbd::limits::{NEGOTIATION, OPTION_DATA};
use attach::nbd::wire::{Command, Info, OptionCode, OptionReply, RequestHeader};
use common::{Bench, NOW, SIZE, go, option, option_replies};
use protocol::{CloseReason, Connection as _};
use volume::Geometry;
use zerocopy::IntoBytes;

/// A connection that waits for options.
fn greeted() -> Bench {
    let mut bench = Bench::new(1 << 20, |_| {});
    assert_eq!(bench.half.transmit(NOW), b"NBDMAGICIHAVEOPT\x00\x03");
    bench.half.receive(NOW, &3_u32.to_be_bytes());
    bench
}

fn answers(bench: &mut Bench, code: OptionCode, data: &[u8]) -> Vec<(OptionReply, Vec<u8>)> {
    bench.half.receive(NOW, &option(code, data));
    option_replies(&bench.half.transmit(NOW))
}

fn kinds(bench: &mut Bench, code: OptionCode, data: &[u8]) -> Vec<OptionReply> {
    answers(bench, code, data).into_iter().map(|(kind, _)| kind).collect()
}

#[test]
fn an_export_is_described_and_then_used() {
    let mut bench = greeted();
    let wanted = [Info::NAME, Info::DESCRIPTION, Info::BLOCK_SIZE];
    for code in [OptionCode::INFO, OptionCode::GO] {
        let replies = answers(&mut bench, code, &go(&wanted));
        let kinds: Vec<_> = replies.iter().map(|(kind, _)| *kind).collect();
        let info = OptionReply::INFO;
        assert_eq!(kinds, [info, info, info, info, OptionReply::ACK]);
        assert_eq!(replies[0].1[..10], [&[0, 0][..], &SIZE.to_be_bytes()].concat());
        assert_eq!(replies[1].1, [0, 3, 0, 0, 2, 0, 0, 0, 16, 0, 2, 0, 0, 0]);
        assert_eq!(replies[2].1, [0, 1]);
        assert_eq!(replies[3].1, b"\x00\x02a test");
    }
    assert_eq!(bench.read(0, 512), [0; 512]);
}

#[test]
fn the_oldest_option_begins_too() {
    for (flags, padding) in [(3_u32, 0), (1, 124)] {
        let mut bench = Bench::new(1 << 20, |_| {});
        bench.half.transmit(NOW);
        bench.half.receive(NOW, &flags.to_be_bytes());
        bench.half.receive(NOW, &option(OptionCode::EXPORT_NAME, &[]));
        let out = bench.half.transmit(NOW);
        assert_eq!(out[..8], SIZE.to_be_bytes());
        assert_eq!(out.len(), 10 + padding);
        assert_eq!(bench.read(512, 512), [0; 512]);
    }
    let mut bench = greeted();
    bench.half.receive(NOW, &option(OptionCode::EXPORT_NAME, b"other"));
    assert!(matches!(bench.half.connection.poll_close(), Some(CloseReason::Refused(_))));
}

#[test]
fn what_is_not_known_or_makes_no_sense_is_refused_and_the_next_option_is_taken() {
    let mut bench = greeted();
    let other = [&5_u32.to_be_bytes()[..], b"other", &[0, 0]].concat();
    let context = [&[0; 4][..], &[0; 4]].concat();
    for (code, data, reply) in [
        (OptionCode(5), &[][..], OptionReply::ERR_UNSUP),
        (OptionCode(11), &[], OptionReply::ERR_UNSUP),
        (OptionCode(77), &[1, 2, 3], OptionReply::ERR_UNSUP),
        (OptionCode::LIST, &[1], OptionReply::ERR_INVALID),
        (OptionCode::STRUCTURED_REPLY, &[1], OptionReply::ERR_INVALID),
        (OptionCode::GO, &[0, 0, 0], OptionReply::ERR_INVALID),
        (OptionCode::GO, &[0, 0, 0, 9, 0, 0], OptionReply::ERR_INVALID),
        (OptionCode::GO, &[0, 0, 0, 0, 0, 2, 0, 0], OptionReply::ERR_INVALID),
        (OptionCode::GO, &[0, 0, 0, 0, 0, 0, 1], OptionReply::ERR_INVALID),
        (OptionCode::GO, &other, OptionReply::ERR_UNKNOWN),
        (OptionCode::INFO, &other, OptionReply::ERR_UNKNOWN),
        (OptionCode::SET_META_CONTEXT, &context, OptionReply::ERR_INVALID),
        (OptionCode::LIST, &[0; OPTION_DATA + 1], OptionReply::ERR_TOO_BIG),
    ] {
        assert_eq!(kinds(&mut bench, code, data), [reply], "{code:?} {}", data.len());
    }
    assert_eq!(kinds(&mut bench, OptionCode::LIST, &[]), [OptionReply::SERVER, OptionReply::ACK]);
    assert_eq!(kinds(&mut bench, OptionCode::ABORT, &[]), [OptionReply::ACK]);
    assert_eq!(bench.half.connection.poll_close(), Some(CloseReason::Finished));
}

#[test]
fn metadata_contexts_are_found_by_name() {
    let mut bench = greeted();
    assert_eq!(kinds(&mut bench, OptionCode::STRUCTURED_REPLY, &[]), [OptionReply::ACK]);
    let query = |names: &[&[u8]]| {
        let mut data = vec![0; 4];
        data.extend((names.len() as u32).to_be_bytes());
        for name in names {
            data.extend((name.len() as u32).to_be_bytes());
            data.extend(*name);
        }
        data
    };
    let (found, none) = ([OptionReply::META_CONTEXT, OptionReply::ACK], [OptionReply::ACK]);
    let (list, set) = (OptionCode::LIST_META_CONTEXT, OptionCode::SET_META_CONTEXT);
    assert_eq!(kinds(&mut bench, list, &query(&[])), found);
    assert_eq!(kinds(&mut bench, list, &query(&[b"base:"])), found);
    assert_eq!(kinds(&mut bench, list, &query(&[b"qemu:"])), none);
    assert_eq!(kinds(&mut bench, set, &query(&[b"base:"])), none);
    let replies = answers(&mut bench, set, &query(&[b"x", b"base:allocation"]));
    assert_eq!(replies[0].1, b"\x00\x00\x00\x01base:allocation");
    let mut cut = query(&[b"base:allocation"]);
    cut.pop();
    assert_eq!(kinds(&mut bench, set, &cut), [OptionReply::ERR_INVALID]);
}

#[test]
fn large_blocks_are_only_for_who_asks_for_their_size() {
    let mut bench = Bench::new(1 << 20, |export| export.geometry = Geometry::of(SIZE, 4096).unwrap());
    bench.half.transmit(NOW);
    bench.half.receive(NOW, &3_u32.to_be_bytes());
    assert_eq!(kinds(&mut bench, OptionCode::GO, &go(&[])), [OptionReply::ERR_BLOCK_SIZE_REQD]);
    let replies = kinds(&mut bench, OptionCode::GO, &go(&[Info::BLOCK_SIZE]));
    assert_eq!(replies.last(), Some(&OptionReply::ACK));
}

#[test]
fn violations_and_silence_end_the_connection() {
    for first in [4_u32, 2, u32::MAX] {
        let mut bench = Bench::new(1 << 20, |_| {});
        bench.half.receive(NOW, &first.to_be_bytes());
        assert!(matches!(bench.half.connection.poll_close(), Some(CloseReason::Violation(_))), "{first}");
    }
    let mut bench = greeted();
    bench.half.receive(NOW, RequestHeader::new(Command::READ, 1, 0, 512).as_bytes());
    assert!(matches!(bench.half.connection.poll_close(), Some(CloseReason::Violation(_))));
    let mut bench = greeted();
    let due = bench.half.connection.poll_timeout().unwrap();
    assert_eq!(due, NOW + NEGOTIATION);
    bench.half.connection.handle_timeout(due);
    assert!(matches!(bench.half.connection.poll_close(), Some(CloseReason::TimedOut(_))));
}
