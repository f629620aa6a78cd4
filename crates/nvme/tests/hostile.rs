//! Peers that break the rules: every violation has its answer, and none does harm.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of tests")]

mod common;

use std::sync::Arc;

use buf::Pool;
use common::Bench;
use nvme::controller::{self, Action};
use nvme::fabrics::{Connect, ConnectData, Property, PropertySize};
use nvme::host;
use nvme::lifetime::Lifetime;
use nvme::limits::{CONNECT_TIME, DISCOVERY_IDLE};
use nvme::pdu::{C2hData, CapsuleCmd, Digests, H2cData, IcReq, IcResp, R2t, flags};
use nvme::sgl::{Capsule, KeyedBlock, SglDescriptor, SglSupport};
use nvme::sqe::SubmissionQueueEntry;
use nvme::status::Status;
use nvme::subsystem::Reply;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use protocol::pair::Half;
use protocol::{CloseReason, Connection as _, Ended, Instant};
use zerocopy::IntoBytes;

const NOW: Instant = Instant::ZERO;

fn controller() -> Half<controller::Connection> {
    Half::new(controller::Connection::new(Arc::new(common::portal()), Pool::new(16 << 20), NOW))
}

/// A connection after ICReq and Connect: of the admin queue, or of I/O queue 1.
fn connected(qid: u16) -> Half<controller::Connection> {
    let mut half = controller();
    half.receive(NOW, IcReq::new(Digests::NONE, 0).as_bytes());
    let cntlid = if qid == 0 { 0xffff } else { 1 };
    let data = ConnectData::new(&common::host_identity(), cntlid, common::NQN);
    half.receive(NOW, &capsule(Connect::entry(qid, 31, 0), data.as_bytes()));
    assert!(matches!(half.connection.poll_action(), Some(Action::Group(_))));
    half.connection.handle_input(
        NOW,
        controller::Input::Group(Reply::Joined { cntlid: 1, hostid: [5; 16], lifetime: Lifetime::new() }),
    );
    assert_eq!(half.transmit(NOW).len(), 128 + 24);
    half
}

fn capsule(mut entry: SubmissionQueueEntry, data: &[u8]) -> Vec<u8> {
    if !data.is_empty() {
        entry.dptr = SglDescriptor::in_capsule(data.len() as u32);
    }
    let mut pdu = CapsuleCmd::new(entry);
    pdu.header.pdo = if data.is_empty() { 0 } else { 72 };
    pdu.header.plen.set(72 + data.len() as u32);
    [pdu.as_bytes(), data].concat()
}

/// Status code of the only completion that is sent.
fn status(half: &mut Half<controller::Connection>) -> Status {
    let bytes = half.transmit(NOW);
    assert_eq!((bytes.len(), bytes[0]), (24, 5), "{bytes:x?}");
    nvme_status(&bytes)
}

fn nvme_status(bytes: &[u8]) -> Status {
    use zerocopy::FromBytes;
    nvme::pdu::CapsuleResp::read_from_bytes(bytes).unwrap().entry.status()
}

/// Fatal error status and information of the termination request that is sent.
fn fatal(half: &mut Half<controller::Connection>) -> (u16, u32) {
    let bytes = half.transmit(NOW);
    assert_eq!(bytes[0], 3, "{bytes:x?}");
    assert!(matches!(half.connection.poll_close(), Some(CloseReason::Violation(_))));
    let number = |range: std::ops::Range<usize>| {
        bytes[range].iter().rev().fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte))
    };
    (number(8..10) as u16, number(10..14))
}

fn io(opcode: u8, length: u32) -> SubmissionQueueEntry {
    let mut entry = SubmissionQueueEntry::new(opcode, 1).with(12, length / 512 - 1);
    entry.dptr = SglDescriptor::transport(length);
    entry
}

#[test]
fn memory_that_only_a_key_opens_is_refused() {
    for invalidate in [false, true] {
        let block = KeyedBlock { address: 4096, key: 7, length: 512, invalidate };
        let mut entry = SubmissionQueueEntry::new(0x02, 1);
        entry.dptr = SglDescriptor::keyed(block).unwrap();
        let mut half = connected(1);
        half.receive(NOW, &capsule(entry, &[]));
        assert_eq!(status(&mut half), Status::SGL_TYPE_INVALID.dnr());
    }
}

#[test]
fn data_of_a_command_that_has_none_is_passed_over() {
    let mut half = connected(0);
    half.receive(NOW, &capsule(Property::set(0x14, 0x0046_0001), &[]));
    assert_eq!(status(&mut half), Status::SUCCESS);
    // An Asynchronous Event Request stays; what follows its data is understood.
    half.receive(NOW, &capsule(SubmissionQueueEntry::new(0x0c, 0), &[0xff; 24]));
    let mut keep_alive = SubmissionQueueEntry::new(0x18, 0);
    keep_alive.cid.set(1);
    half.receive(NOW, &capsule(keep_alive, &[]));
    assert_eq!(status(&mut half), Status::SUCCESS);
}

#[test]
fn unsound_pdus_end_in_the_prescribed_termination() {
    let mut half = controller();
    half.receive(NOW, &[4, 0, 72, 0, 72, 0, 0, 0]);
    half.receive(NOW, &[0; 64]);
    assert_eq!(fatal(&mut half), (2, 0), "a command before ICReq");
    let mut half = controller();
    let mut request = IcReq::new(Digests::NONE, 0);
    request.pfv.set(1);
    half.receive(NOW, request.as_bytes());
    assert_eq!(fatal(&mut half), (6, 8));
    let mut half = connected(1);
    half.receive(NOW, IcReq::new(Digests::NONE, 0).as_bytes());
    assert_eq!(fatal(&mut half), (2, 0), "a second ICReq");
    let mut half = connected(1);
    half.receive(NOW, &[4, 0, 72, 72, 0xff, 0xff, 0xff, 0xff]);
    assert_eq!(fatal(&mut half), (1, 4), "four gigabytes");
    let mut half = connected(1);
    half.receive(NOW, &[0xee, 0, 72, 72, 0, 0, 0, 0]);
    assert_eq!(fatal(&mut half), (1, 0), "an unknown type");
}

fn h2c(half: &mut Half<controller::Connection>, (ttag, offset, length): (u16, u32, u32), last: bool) {
    let mut pdu = H2cData::new(0, ttag, offset, length);
    pdu.header.flags = u8::from(last) * flags::LAST;
    pdu.header.pdo = 24;
    pdu.header.plen.set(24 + length);
    half.receive(NOW, pdu.as_bytes());
    half.receive(NOW, &vec![0; length as usize]);
}

#[test]
fn data_that_was_not_asked_for_is_fatal() {
    let asked = || {
        let mut half = connected(1);
        half.receive(NOW, &capsule(io(1, 65536), &[]));
        let r2t = half.transmit(NOW);
        assert_eq!((r2t.len(), r2t[0], &r2t[16..20]), (24, 9, &[0, 0, 1, 0][..]));
        let ttag = u16::from_le_bytes([r2t[10], r2t[11]]);
        (half, ttag)
    };
    let (mut half, ttag) = asked();
    h2c(&mut half, (ttag, 0, 32768), false);
    h2c(&mut half, (ttag, 32768, 32768), true);
    assert!(matches!(half.connection.poll_action(), Some(Action::Submit(_))));
    h2c(&mut half, (ttag, 0, 512), false);
    assert_eq!(fatal(&mut half), (1, 8), "the transfer is over");
    let (mut half, ttag) = asked();
    h2c(&mut half, (ttag, 512, 512), false);
    assert_eq!(fatal(&mut half), (4, 0), "out of order");
    let (mut half, ttag) = asked();
    h2c(&mut half, (ttag, 0, 131_072), true);
    assert_eq!(fatal(&mut half), (4, 0), "too much");
    let (mut half, ttag) = asked();
    h2c(&mut half, (ttag, 0, 512), true);
    assert_eq!(fatal(&mut half), (1, 1), "not the last");
    let (mut half, _) = asked();
    h2c(&mut half, (999, 0, 512), false);
    assert_eq!(fatal(&mut half), (1, 10), "an unknown tag");
}

/// NVMe/TCP §3.6.2.4: a transfer tag and its command belong together, and DATAL is what follows the header.
#[test]
fn data_whose_header_contradicts_itself_is_fatal() {
    type Change = fn(&mut H2cData);
    let cases: [(&str, Change, bool); 5] = [
        ("nothing is wrong", |_| {}, false),
        ("another command's", |pdu| pdu.cccid.set(1), true),
        ("more than follows", |pdu| pdu.datal.set(1024), true),
        ("less than follows", |pdu| pdu.datal.set(256), true),
        ("nothing of what follows", |pdu| pdu.datal.set(0), true),
    ];
    for (what, change, wrong) in cases {
        let mut half = connected(1);
        half.receive(NOW, &capsule(io(1, 65536), &[]));
        let r2t = half.transmit(NOW);
        let mut pdu = H2cData::new(0, u16::from_le_bytes([r2t[10], r2t[11]]), 0, 512);
        pdu.header.pdo = 24;
        pdu.header.plen.set(24 + 512);
        change(&mut pdu);
        half.receive(NOW, pdu.as_bytes());
        half.receive(NOW, &[0; 512]);
        assert_eq!(half.connection.poll_close().is_some(), wrong, "{what}");
        if wrong {
            fatal(&mut half);
        }
    }
}

#[test]
fn unsound_commands_are_answered_each_with_its_status() {
    let cases: &[(SubmissionQueueEntry, Status)] = &[
        (SubmissionQueueEntry::new(0x7e, 1), Status::INVALID_OPCODE),
        (io(2, 2 << 20), Status::INVALID_FIELD),
        (io(2, 512).with(10, 0xffff_ffff), Status::LBA_OUT_OF_RANGE),
        (io(2, 512).with(12, 1), Status::DATA_SGL_LENGTH_INVALID),
        (io(2, 512).with(12, 1 << 29), Status::INVALID_FIELD),
        (Property::get(0, PropertySize::Eight), Status::INVALID_FIELD),
        (Connect::entry(1, 31, 0), Status::COMMAND_SEQUENCE),
    ];
    let mut half = connected(1);
    for (entry, expected) in cases {
        half.receive(NOW, &capsule(*entry, &[]));
        assert_eq!(status(&mut half), expected.dnr(), "{entry:?}");
    }
    let mut elsewhere = io(2, 512);
    elsewhere.nsid.set(2);
    half.receive(NOW, &capsule(elsewhere, &[]));
    assert_eq!(status(&mut half), Status::INVALID_NAMESPACE.dnr());
    // Data of a refused command is passed over.
    half.receive(NOW, &capsule(elsewhere, &[7; 512]));
    assert_eq!(status(&mut half), Status::INVALID_NAMESPACE.dnr());
    half.receive(NOW, &capsule(io(2, 512), &[]));
    assert!(matches!(half.connection.poll_action(), Some(Action::Submit(_))));
    half.receive(NOW, &capsule(io(2, 512), &[]));
    assert_eq!(status(&mut half), Status::COMMAND_ID_CONFLICT.dnr());
}

#[test]
fn admin_commands_before_the_controller_is_enabled_are_out_of_sequence() {
    let mut half = connected(0);
    let mut identify = SubmissionQueueEntry::new(6, 0).with(10, 1);
    identify.dptr = SglDescriptor::transport(4096);
    half.receive(NOW, &capsule(identify, &[]));
    assert_eq!(status(&mut half), Status::COMMAND_SEQUENCE.dnr());
    half.receive(NOW, &capsule(Property::set(0x14, 0x0046_0001), &[]));
    assert_eq!(status(&mut half), Status::SUCCESS);
    half.receive(NOW, &capsule(identify, &[]));
    // Queue flow control is off, so that success needs no response capsule.
    assert_eq!(half.transmit(NOW).len(), 24 + 4096);
}

#[test]
fn a_damaged_header_ends_the_connection_and_damaged_data_one_command() {
    // A byte of the command, or a byte of the data.
    for (offset, ends) in [(8, true), (76 + 100, false)] {
        let mut bench = Bench::new();
        bench.session(1, 1, (true, true));
        let link = &mut bench.links[1];
        link.write(1, 0, protocol::pair::aperiodic(4096, 1));
        let mut bytes = link.pair.near.transmit(NOW);
        bytes[offset] ^= 1;
        link.pair.far.receive(NOW, &bytes);
        bench.run();
        let far = &bench.links[1].pair.far.connection;
        assert_eq!(far.poll_close().is_some(), ends);
        if !ends {
            let (_, result) = bench.links[1].completions().remove(0);
            assert!(result.is_err(), "the data was damaged");
            assert!(bench.disks[0].iter().all(|byte| *byte == 0), "nothing of it was written");
        }
    }
}

#[test]
fn silence_ends_a_connection_in_every_early_state() {
    for bytes in [&[][..], IcReq::new(Digests::NONE, 0).as_bytes(), &[0, 0, 128]] {
        let mut half = controller();
        half.receive(NOW, bytes);
        let deadline = NOW + CONNECT_TIME;
        assert_eq!(half.connection.poll_timeout(), Some(deadline));
        half.connection.handle_timeout(deadline);
        assert!(matches!(half.connection.poll_close(), Some(CloseReason::TimedOut(_))));
    }
    let mut host = Half::new(host::Connection::new(common::admin(1), NOW));
    let deadline = NOW + CONNECT_TIME;
    assert_eq!(host.connection.poll_timeout(), Some(deadline));
    host.connection.handle_timeout(deadline);
    assert!(matches!(host.connection.poll_close(), Some(CloseReason::TimedOut(_))));
}

fn unharmed(qid: Option<u16>, chunks: &[Vec<u8>]) {
    let mut half = qid.map_or_else(controller, connected);
    for chunk in chunks {
        half.receive(NOW, chunk);
        while half.connection.poll_action().is_some() {}
        assert!(half.transmit(NOW).len() < 8 << 20);
    }
    half.end(NOW, Ended::ByPeer);
}

/// Anything, but often with a PDU's beginning.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let shaped = (0_u8..10, any::<[u8; 64]>(), 0_u32..9000).prop_map(|(kind, body, extra)| {
        let hlen = [128, 128, 24, 24, 72, 24, 24, 24, 8, 24][usize::from(kind)];
        let data = if extra < 4500 { 0 } else { extra & !3 };
        let mut bytes = vec![kind, if data == 0 { 0 } else { 4 }, hlen, hlen];
        bytes.extend_from_slice(&(u32::from(hlen) + data).to_le_bytes());
        bytes.extend_from_slice(&body);
        if kind == 4 {
            bytes[8] &= 0x1f;
            bytes[9] = 0x40;
            bytes[12..16].copy_from_slice(&1_u32.to_le_bytes());
        }
        bytes.resize(usize::from(hlen) + data as usize, 0);
        bytes
    });
    prop_oneof![shaped, proptest::collection::vec(any::<u8>(), 0..300)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, rng_seed: RngSeed::Fixed(4420), ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_harm_a_controller(
        qid in proptest::option::of(0_u16..2),
        chunks in proptest::collection::vec(garbage(), 0..20),
    ) {
        unharmed(qid, &chunks);
    }

    #[test]
    fn no_bytes_harm_a_host(chunks in proptest::collection::vec(garbage(), 0..20), io in any::<bool>()) {
        let mut half = Half::new(host::Connection::new(common::admin(1), NOW));
        half.transmit(NOW);
        if io {
            half.receive(NOW, IcResp::new(Digests::NONE, 8192).as_bytes());
            half.receive(NOW, C2hData::new(0, 0, 0).as_bytes());
        }
        for chunk in &chunks {
            half.receive(NOW, chunk);
            half.receive(NOW, R2t::new(0, 0, 0, 1024).as_bytes());
            while half.connection.poll_action().is_some() {}
            half.transmit(NOW);
        }
        half.end(NOW, Ended::ByPeer);
    }

    #[test]
    fn every_entry_decodes_and_encodes_again(bytes in any::<[[u8; 32]; 2]>()) {
        let entry: SubmissionQueueEntry = zerocopy::transmute!(bytes);
        let block = nvme::nvm::BlockCommand::decode(&entry);
        let again = nvme::nvm::BlockCommand::decode(&block.encode(entry.opcode, entry.nsid.get()));
        prop_assert_eq!(again.extent, block.extent);
        let log = nvme::log::GetLogPage::decode(&entry);
        let length = u32::try_from(log.length).unwrap_or(u32::MAX - 3);
        let again = nvme::log::GetLogPage::decode(&nvme::log::GetLogPage::entry(log.lid, log.offset, length));
        prop_assert_eq!((again.lid, again.offset), (log.lid, log.offset));
        let sgls = SglSupport { transport: true, keyed: true, offsets: true, in_capsule: u32::MAX };
        let pointer = entry.dptr.data_pointer();
        let capsule = Capsule { data: 512, sgls, pointer };
        let _ = (entry.data_pointer(capsule), entry.no_data(0), entry.fctype());
        let _ = nvme::features::FeatureCommand::decode(&entry);
        let _ = nvme::identify::Identify::decode(&entry);
    }
}

/// NVMe Base §3.1.3.3: a host that reads a discovery log needs no keep alive timer, and does not stay for ever either.
#[test]
fn a_discovery_controller_without_a_timer_ends_when_it_is_idle() {
    let mut half = controller();
    half.receive(NOW, IcReq::new(Digests::NONE, 0).as_bytes());
    let data = ConnectData::new(&common::host_identity(), 0xffff, nvme::DISCOVERY_NQN);
    half.receive(NOW, &capsule(Connect::entry(0, 31, 0), data.as_bytes()));
    assert!(matches!(half.connection.poll_action(), Some(Action::Group(_))));
    let joined = Reply::Joined { cntlid: 1, hostid: [5; 16], lifetime: Lifetime::new() };
    half.connection.handle_input(NOW, controller::Input::Group(joined));
    half.transmit(NOW);
    let due = NOW + DISCOVERY_IDLE;
    assert_eq!(half.connection.poll_timeout(), Some(due));
    half.connection.handle_timeout(due);
    assert!(matches!(half.connection.poll_close(), Some(CloseReason::TimedOut(_))));
}
