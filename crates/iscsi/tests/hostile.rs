//! Peers that mean harm: whatever they send, the connection stays bounded and ends in a close or goes on.
mod common;

use std::sync::Arc;

use buf::Pool;
use common::raw::Raw;
use common::{BLOCK, Bench, INITIATOR, config, portal};
use iscsi::datamover::tcp;
use iscsi::pdu::{NopOut, ScsiCommand};
use proptest::prelude::*;
use protocol::pair::{Half, aperiodic};
use protocol::{CloseReason, Connection, Ended, Instant, SeededEntropy};
use scsi::builder;
use volume::{Durability, Extent};

fn target() -> Half<tcp::TargetConnection> {
    let pool = Pool::new(16 << 20);
    Half::new(tcp::TargetConnection::new(Instant::ZERO, Arc::new(portal(64)), common::resources(&pool)))
}

/// Header bytes that are often nearly right.
fn header() -> impl Strategy<Value = Vec<u8>> {
    let opcode = prop_oneof![
        Just(0x00_u8),
        Just(0x01),
        Just(0x02),
        Just(0x04),
        Just(0x05),
        Just(0x06),
        Just(0x10),
        Just(0x40),
        Just(0x41),
        Just(0x42),
        Just(0x43),
        Just(0x44),
        Just(0x46),
        any::<u8>()
    ];
    (
        opcode,
        any::<u8>(),
        0_u8..4,
        0_u32..2048,
        any::<[u8; 8]>(),
        0_u32..6,
        0_u32..40,
        proptest::collection::vec(any::<u8>(), 20),
    )
        .prop_map(|(opcode, flags, ahs, length, lun, tag, cmd_sn, rest)| {
            let mut bytes = vec![opcode, flags, 0, 0, ahs];
            bytes.extend_from_slice(&length.to_be_bytes()[1..]);
            bytes.extend_from_slice(if lun[0] < 128 { &[0; 8] } else { &lun });
            bytes.extend_from_slice(&tag.to_be_bytes());
            bytes.extend_from_slice(&[0, 0, 16, 0]);
            bytes.extend_from_slice(&cmd_sn.to_be_bytes());
            bytes.extend_from_slice(&rest);
            bytes
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn random_bytes_to_a_target(bytes in proptest::collection::vec(any::<u8>(), 0..4096), chunk in 1_usize..512) {
        let mut half = target();
        for piece in bytes.chunks(chunk) {
            half.receive(Instant::ZERO, piece);
            half.transmit(Instant::ZERO);
        }
        half.end(Instant::ZERO, Ended::ByPeer);
    }

    #[test]
    fn random_requests_after_a_login(headers in proptest::collection::vec(header(), 1..40), seed in any::<u8>()) {
        let mut raw = Raw::logged_in(portal(64));
        for header in &headers {
            let mut bytes = header.clone();
            let length = u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize;
            let tail = usize::from(header[4]) * 4 + length.next_multiple_of(4);
            bytes.extend(std::iter::repeat_n(seed, tail));
            raw.send_bytes(&bytes);
        }
        raw.half.end(Instant::ZERO, Ended::ByPeer);
        raw.settle();
        prop_assert_eq!(raw.half.connection.outstanding(), 0, "everything is given up");
    }

    #[test]
    fn random_bytes_to_an_initiator(bytes in proptest::collection::vec(any::<u8>(), 0..4096)) {
        let pool = Pool::new(1 << 20);
        let entropy = Box::new(SeededEntropy::new(3));
        let mut half = Half::new(tcp::InitiatorConnection::new(Instant::ZERO, config(), pool, entropy));
        half.receive(Instant::ZERO, &bytes);
        half.transmit(Instant::ZERO);
        half.end(Instant::ZERO, Ended::ByPeer);
        while half.connection.poll_action().is_some() {}
    }

    #[test]
    fn a_target_that_breaks_off_completes_everything(cut in 0_usize..20_000) {
        let mut bench = Bench::ready(config(), portal(256));
        bench.submit(1, volume::Operation::Read { extent: Extent::new(0, 32), into: buf::Buf::zeroed(32 * BLOCK) });
        bench.submit(2, volume::Operation::Flush);
        bench.memory.hold = true;
        bench.run();
        bench.release();
        bench.done.clear();
        bench.submit(3, volume::Operation::Read { extent: Extent::new(0, 32), into: buf::Buf::zeroed(32 * BLOCK) });
        let command = bench.pair.near.transmit(Instant::ZERO);
        bench.pair.far.receive(Instant::ZERO, &command);
        bench.pair.near.end(Instant::ZERO, Ended::Failed(i32::try_from(cut % 100).unwrap()));
        bench.run();
        prop_assert!(bench.done.iter().any(|done| done.tag.0 == 3 && done.result.is_err()));
        prop_assert!(bench.failed.is_some());
    }
}

#[test]
fn huge_lengths_take_no_memory() {
    let mut raw = Raw::new(portal(64));
    let mut header = [0; 48];
    header[..8].copy_from_slice(&[0x43, 0x87, 0, 0, 0, 0xff, 0xff, 0xff]);
    raw.send_bytes(&header);
    assert_eq!(raw.closed(), Some(CloseReason::Violation("a data segment is longer than declared")));
    let mut raw = Raw::logged_in(portal(64));
    let mut header = NopOut::ping(1).to_bytes();
    header[5] = 0xff;
    raw.send_bytes(&header);
    assert!(raw.closed().is_some());
}

#[test]
fn damaged_digests_end_the_connection() {
    let mut config = config();
    config.tuning.header_digest = iscsi::keys::DigestPolicy::Require;
    config.tuning.data_digest = iscsi::keys::DigestPolicy::Require;
    for (at, reason) in [(20, "a header digest does not match"), (60, "a data digest does not match")] {
        let mut bench = Bench::ready(config.clone(), portal(64));
        let data = buf::BufList::from(buf::SharedBuf::from(aperiodic(BLOCK, 1)));
        let extent = Extent::new(0, 1);
        bench.submit(1, volume::Operation::Write { extent, data, durability: volume::Durability::Cached });
        let mut bytes = bench.pair.near.transmit(Instant::ZERO);
        bytes[at] ^= 1;
        bench.pair.far.receive(Instant::ZERO, &bytes);
        assert_eq!(bench.pair.far.connection.poll_close(), Some(CloseReason::Violation(reason)));
        assert!(bench.memory.bytes.iter().all(|byte| *byte == 0), "nothing damaged is written");
    }
}

#[test]
fn out_of_buffers_is_a_state() {
    let pool = Pool::new(64 * 1024);
    let mut bench = Bench::with_pool(config(), portal(512), &pool);
    bench.run();
    let hostage: Vec<_> = std::iter::from_fn(|| pool.take(512)).collect();
    let bytes = aperiodic(16 * BLOCK, 4);
    let data = buf::BufList::from(buf::SharedBuf::from(bytes.clone()));
    let extent = Extent::new(0, 16);
    bench.submit(1, volume::Operation::Write { extent, data, durability: volume::Durability::Cached });
    bench.run();
    assert!(bench.done.is_empty() && !bench.pair.far.connection.wants_bytes());
    drop(hostage);
    assert!(bench.pair.far.connection.wants_bytes());
    bench.pair.far.receive(Instant::ZERO, &[]);
    bench.run();
    assert!(bench.done.pop().unwrap().result.is_ok());
    let hostage: Vec<_> = std::iter::from_fn(|| pool.take(512)).collect();
    bench.submit(2, volume::Operation::Read { extent, into: buf::Buf::zeroed(16 * BLOCK) });
    bench.run();
    assert!(bench.done.is_empty(), "the read waits for a buffer");
    drop(hostage);
    bench.run();
    assert!(bench.done.pop().unwrap().result.is_ok());
}

/// Writes that wait for their data hold every buffer, and a command that needs one stands before that data.
#[test]
fn buffers_that_wait_for_the_stream_do_not_stop_it() {
    let mut config = config();
    config.tuning.immediate_data = false;
    config.tuning.initial_r2t = true;
    let pool = Pool::new(64 * 1024);
    let mut bench = Bench::with_pool(config, portal(512), &pool);
    bench.run();
    let submit = |bench: &mut Bench, tag: u64| {
        let data = buf::BufList::from(buf::SharedBuf::from(aperiodic(64 * BLOCK, 1)));
        let extent = Extent::new(64 * tag, 64);
        bench.submit(tag, volume::Operation::Write { extent, data, durability: volume::Durability::Cached });
    };
    for tag in 0..6 {
        submit(&mut bench, tag);
    }
    let extent = Extent::new(0, 64);
    bench.submit(6, volume::Operation::Read { extent, into: buf::Buf::zeroed(64 * BLOCK) });
    let (mut good, mut busy) = (0, 0);
    while good < 7 {
        bench.run();
        let done = core::mem::take(&mut bench.done);
        assert!(!done.is_empty(), "nothing moves: {good} are done");
        for completion in done {
            match completion.result {
                Ok(_) => good += 1,
                Err(volume::Failure { kind: volume::VolumeErrorKind::Busy, .. }) => {
                    busy += 1;
                    submit(&mut bench, completion.tag.0);
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
    assert_eq!(busy, 0, "a write without a buffer waits before its R2T, and is not refused");
}

#[test]
fn a_peer_that_does_not_read_is_not_listened_to() {
    let mut half = target();
    let mut text = iscsi::text::Text::new();
    text.put("InitiatorName", INITIATOR);
    text.put("SessionType", "Discovery");
    let request = iscsi::pdu::LoginRequest::new(
        iscsi::pdu::Stage::Operational,
        iscsi::pdu::LoginIdentity::new_session(common::ISID),
        0,
        1,
    )
    .transit(iscsi::pdu::Stage::FullFeature);
    let mut bytes = request.to_bytes().to_vec();
    bytes[6..8].copy_from_slice(&u16::try_from(text.bytes().len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(text.bytes());
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    half.receive(Instant::ZERO, &bytes);
    let joined = iscsi::target::Input::Group(iscsi::session::Reply::Joined { tsih: 1 });
    half.connection.handle_input(Instant::ZERO, joined);
    let ping = NopOut::ping(1).to_bytes();
    for _ in 0..2000 {
        half.receive(Instant::ZERO, &ping);
    }
    assert!(!half.connection.wants_bytes());
    assert!(half.staged() > 48 * 1400, "the pings beyond the limit stay in the stream");
}

#[test]
fn a_command_for_more_than_a_buffer_holds_is_answered() {
    let mut raw = Raw::logged_in(portal(64));
    let cdb = builder::write(Extent::new(0, 1 << 20), Durability::Cached);
    let header = ScsiCommand::new([0; 8], 2, 1, cdb).writing(512 << 20, 0);
    let answers = raw.send(header.to_bytes(), &[]);
    assert_eq!(answers.len(), 1, "a status, not a request for half a gigabyte");
}
