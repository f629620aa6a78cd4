//! Targets that lie, flood or dally: an initiator stays bounded, returns nothing that it was not given, and gives up in time.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use core::time::Duration;

use common::evil::{Evil, split};
use common::raw::Pdu;
use common::{BLOCK, Bench, TARGET, config, portal};
use iscsi::chap::{Credentials, Secret};
use iscsi::initiator::{Action, Config, Input};
use iscsi::keys::DigestPolicy;
use iscsi::limits;
use iscsi::pdu::{
    AsyncEvent, AsyncMessage, Bhs, DataIn, DataOut, DataRange, NopIn, Opcode, R2t, Residual, ScsiCommand,
    ScsiResponse, Stage, TaskTags, TextResponse,
};
use protocol::pair::aperiodic;
use protocol::{CloseReason, Connection as _, Instant};
use volume::{Durability, Extent, Operation, Outcome, VolumeErrorKind};

const NONE: (usize, usize) = (0, 0);

fn write(bytes: Vec<u8>) -> Operation {
    let extent = Extent::new(0, (bytes.len() / BLOCK) as u64);
    let data = buf::BufList::from(buf::SharedBuf::from(bytes));
    Operation::Write { extent, data, durability: Durability::Cached }
}

fn read(len: usize) -> Operation {
    Operation::Read { extent: Extent::new(0, (len / BLOCK) as u64), into: buf::Buf::zeroed(len) }
}

/// A bench whose initiator waits for R2Ts, of which the target may have two open, and the command of one operation.
fn commanded(operation: Operation) -> (Bench, ScsiCommand) {
    let mut config = config();
    config.tuning.immediate_data = false;
    config.tuning.initial_r2t = true;
    config.tuning.outstanding_r2t = 2;
    config.tuning.max_burst = 64 << 10;
    let mut bench = Bench::ready(config, portal(4096));
    bench.submit(1, operation);
    let sent = split(&bench.pair.near.transmit(Instant::ZERO), NONE);
    assert_eq!(sent.len(), 1);
    (bench, ScsiCommand::from_bytes(&sent[0].header))
}

/// What the target sends, as it is.
fn tell(bench: &mut Bench, mut header: Bhs, data: &[u8]) {
    header[5..8].copy_from_slice(&u32::try_from(data.len()).unwrap().to_be_bytes()[1..]);
    let mut bytes = header.to_vec();
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bench.pair.near.receive(bench.pair.now, &bytes);
    bench.act_near();
}

fn result(bench: &mut Bench) -> Option<Result<Outcome, VolumeErrorKind>> {
    bench.done.pop().map(volume::Completion::outcome)
}

#[test]
fn pings_whose_answers_are_not_read_stop_the_receiving_within_the_limit() {
    let mut bench = Bench::ready(config(), portal(64));
    let ping = NopIn::ping(7).to_bytes();
    let flood = ping.repeat(1000);
    for _ in 0..100 {
        bench.pair.near.receive(Instant::ZERO, &flood);
    }
    assert!(
        !bench.pair.near.connection.wants_bytes(),
        "RFC 7143 §11.18: each answer must be sent, so each is held"
    );
    let taken = 100_000 - bench.pair.near.staged() / ping.len();
    assert!(
        taken * ping.len() <= limits::ANSWERS,
        "{taken} pings were taken, beyond the limit of ANSWERS bytes"
    );
    // Once the answers are read, it goes on: every ping is answered.
    let mut answers = 0;
    loop {
        let sent = split(&bench.pair.near.transmit(Instant::ZERO), NONE);
        bench.pair.near.receive(Instant::ZERO, &[]);
        if sent.is_empty() {
            break;
        }
        answers += sent.len();
    }
    assert_eq!((answers, bench.pair.near.staged()), (100_000, 0));
}

#[test]
fn a_target_that_pings_but_does_not_read_is_given_up() {
    let mut bench = Bench::ready(config(), portal(64));
    let flood = NopIn::ping(7).to_bytes().repeat(5000);
    bench.pair.near.receive(Instant::ZERO, &flood);
    let mut now = Instant::ZERO;
    for _ in 0..30 {
        now = now + Duration::from_secs(1);
        bench.pair.near.receive(now, &[]);
        bench.pair.near.connection.handle_timeout(now);
    }
    bench.act_near();
    assert!(bench.failed.unwrap().contains("silent"));
}

#[test]
fn r2ts_ask_in_order_for_nothing_twice_and_not_for_more_than_agreed() {
    const KIB: u32 = 1024;
    // R2TSN, offset and length of each R2T for a write of 256 KiB, and what the last one is called.
    type Asked = (u32, u32, u32);
    let cases: &[(&[Asked], &str)] = &[
        (&[(0, 0, 64 * KIB), (1, 64 * KIB, 64 * KIB)], "it goes on"),
        (&[(0, 0, 64 * KIB), (0, 64 * KIB, 64 * KIB)], "out of order"),
        (&[(1, 0, 64 * KIB)], "out of order"),
        (&[(0, 0, 64 * KIB), (1, 0, 64 * KIB)], "out of order"),
        (&[(0, 0, 64 * KIB), (1, 32 * KIB, 64 * KIB)], "out of order"),
        (&[(0, 0, KIB), (1, KIB, KIB), (2, 2 * KIB, KIB)], "more open R2Ts"),
        (&[(0, 0, 65 * KIB)], "beyond the expected"),
        (&[(0, 200 * KIB, 64 * KIB)], "beyond the expected"),
        (&[(0, u32::MAX, 2)], "beyond the expected"),
        (&[(0, 0, 0)], "beyond the expected"),
    ];
    for (r2ts, said) in cases {
        let (mut bench, command) = commanded(write(aperiodic(256 << 10, 1)));
        for (number, offset, length) in *r2ts {
            let r2t = R2t::new(
                [0; 8],
                TaskTags { initiator: command.task_tag(), target: 9 },
                *number,
                DataRange { offset: *offset, length: *length },
            );
            tell(&mut bench, r2t.to_bytes(), &[]);
        }
        let failed = bench.failed.unwrap_or_else(|| "it goes on".to_owned());
        assert!(failed.contains(said), "RFC 7143 §11.8, §13.17, §13.19: {r2ts:?} came to: {failed}");
    }
    let (mut bench, command) = commanded(read(4096));
    tell(
        &mut bench,
        R2t::new(
            [0; 8],
            TaskTags { initiator: command.task_tag(), target: 9 },
            0,
            DataRange { offset: 0, length: 512 },
        )
        .to_bytes(),
        &[],
    );
    assert!(bench.failed.is_some(), "a read has nothing to send");
}

#[test]
fn every_byte_is_asked_for_once_and_sent_once() {
    let bytes = aperiodic(256 << 10, 2);
    let (mut bench, command) = commanded(write(bytes.clone()));
    let mut sent = vec![0_u8; bytes.len()];
    for number in 0..4 {
        let r2t = R2t::new(
            [0; 8],
            TaskTags { initiator: command.task_tag(), target: 9 },
            number,
            DataRange { offset: number << 16, length: 64 << 10 },
        );
        tell(&mut bench, r2t.to_bytes(), &[]);
        for Pdu { header, data } in split(&bench.pair.near.transmit(Instant::ZERO), NONE) {
            let offset = DataOut::from_bytes(&header).buffer_offset() as usize;
            sent[offset..offset + data.len()].copy_from_slice(&data);
        }
    }
    assert!(sent == bytes);
    let good = ScsiResponse::new(command.task_tag(), 0, Residual::None, 0);
    tell(&mut bench, good.to_bytes(), &[]);
    assert!(matches!(result(&mut bench), Some(Ok(Outcome::Done))));
}

#[test]
fn a_write_is_not_done_before_its_data_was_sent() {
    for asked in [0, 64 << 10, 128 << 10] {
        let (mut bench, command) = commanded(write(aperiodic(192 << 10, 3)));
        for number in 0..asked >> 16 {
            let r2t = R2t::new(
                [0; 8],
                TaskTags { initiator: command.task_tag(), target: 9 },
                number,
                DataRange { offset: number << 16, length: 64 << 10 },
            );
            tell(&mut bench, r2t.to_bytes(), &[]);
            bench.pair.near.transmit(Instant::ZERO);
        }
        let good = ScsiResponse::new(command.task_tag(), 0, Residual::None, 0);
        tell(&mut bench, good.to_bytes(), &[]);
        let done = result(&mut bench).unwrap();
        assert_eq!(done.unwrap_err(), VolumeErrorKind::Media, "GOOD after {asked} of 196608 bytes");
    }
}

/// What the initiator sends for a write that is submitted now: its command, and bytes of data that go unasked.
fn sent_for(bench: &mut Bench, length: usize) -> (ScsiCommand, usize) {
    bench.submit(1, write(aperiodic(length, 4)));
    let sent = split(&bench.pair.near.transmit(bench.pair.now), NONE);
    (ScsiCommand::from_bytes(&sent[0].header), sent.iter().map(|pdu| pdu.data.len()).sum())
}

/// Asks for all data of a write, and ends it well.
fn serve(bench: &mut Bench, command: &ScsiCommand, length: usize) {
    let r2t = R2t::new(
        [0; 8],
        TaskTags { initiator: command.task_tag(), target: 9 },
        0,
        DataRange { offset: 0, length: u32::try_from(length).unwrap() },
    );
    tell(bench, r2t.to_bytes(), &[]);
    let sent = split(&bench.pair.near.transmit(bench.pair.now), NONE);
    assert_eq!(sent.iter().map(|pdu| pdu.data.len()).sum::<usize>(), length);
    let good = ScsiResponse::new(command.task_tag(), 0, Residual::None, 1);
    tell(bench, good.to_bytes(), &[]);
    assert!(matches!(result(bench), Some(Ok(Outcome::Done))));
}

/// A target that has no memory for data which comes unasked can only let it wait for a moment, and then has forgotten the command.
#[test]
fn writes_wait_for_r2ts_once_the_target_was_too_busy_for_their_data() {
    const LENGTH: usize = 128 << 10;
    let mut bench = Bench::ready(config(), portal(4096));
    let (command, unasked) = sent_for(&mut bench, LENGTH);
    assert_eq!(unasked, LENGTH);
    let full = ScsiResponse::new(command.task_tag(), 0x28, Residual::None, 0);
    tell(&mut bench, full.to_bytes(), &[]);
    assert!(matches!(result(&mut bench), Some(Err(VolumeErrorKind::Busy))));
    let (command, unasked) = sent_for(&mut bench, LENGTH);
    assert_eq!(unasked, LENGTH, "TASK SET FULL says nothing of the data");
    let busy = ScsiResponse::new(command.task_tag(), 0x08, Residual::None, 0);
    tell(&mut bench, busy.to_bytes(), &[]);
    assert!(matches!(result(&mut bench), Some(Err(VolumeErrorKind::Busy))));
    for length in [LENGTH, 512] {
        let (command, unasked) = sent_for(&mut bench, length);
        assert_eq!((command.is_final(), unasked), (true, 0), "RFC 7143 §11.3.1: no unsolicited data follows");
        serve(&mut bench, &command, length);
    }
    bench.pair.now = bench.pair.now + limits::ASKED_TIME;
    let (command, unasked) = sent_for(&mut bench, LENGTH);
    assert_eq!(unasked, 0);
    serve(&mut bench, &command, LENGTH);
    assert_eq!(sent_for(&mut bench, LENGTH).1, LENGTH, "what was agreed holds again");
}

#[test]
fn an_answer_to_what_was_not_sent_is_none() {
    for answer in 0..3 {
        let (mut bench, _) = commanded(read(4096));
        // The next command's tag can be guessed: it is the first in its slot, which is the second.
        bench.submit(2, if answer == 2 { write(aperiodic(4096, 4)) } else { read(4096) });
        let tag = 0x0100_0001;
        let header = match answer {
            0 => ScsiResponse::new(tag, 0, Residual::None, 0).to_bytes(),
            1 => DataIn::new(tag, 0, DataRange { offset: 0, length: 4096 })
                .ending()
                .with_status(0, Residual::None)
                .to_bytes(),
            _ => R2t::new(
                [0; 8],
                TaskTags { initiator: tag, target: 9 },
                0,
                DataRange { offset: 0, length: 4096 },
            )
            .to_bytes(),
        };
        tell(&mut bench, header, if answer == 1 { &[7; 4096] } else { &[] });
        assert!(bench.failed.as_ref().unwrap().contains("a response to no request"), "{:?}", bench.failed);
        assert!(bench.done.iter().all(|done| done.result.is_err()));
    }
}

#[test]
fn a_read_that_is_not_whole_is_an_error_and_never_old_memory() {
    // DataSN, offset, bytes, residual: lies about each.
    type Lie = (u32, u32, usize, Residual);
    let whole = |tag| DataIn::new(tag, 0, DataRange { offset: 0, length: 8192 }).ending();
    let lies: [Lie; 7] = [
        (0, 0, 4096, Residual::None),
        (0, 0, 0, Residual::None),
        (0, 0, 8192, Residual::Underflow(512)),
        (0, 0, 8192, Residual::Overflow(512)),
        (1, 0, 8192, Residual::None),
        (0, 512, 7680, Residual::None),
        (0, 0, 8704, Residual::None),
    ];
    for lie in lies {
        let (number, offset, len, residual) = lie;
        let (mut bench, command) = commanded(read(8192));
        let header =
            DataIn::new(command.task_tag(), number, DataRange { offset, length: 0 }).with_status(0, residual);
        tell(&mut bench, header.to_bytes(), &aperiodic(len, 5));
        bench.act_near();
        let done = result(&mut bench).expect("the read has ended");
        assert!(done.is_err(), "RFC 7143 §11.7: success although {lie:?}");
    }
    let (mut bench, command) = commanded(read(8192));
    tell(
        &mut bench,
        whole(command.task_tag()).with_status(0, Residual::None).to_bytes(),
        &aperiodic(8192, 6),
    );
    let Some(Ok(Outcome::Data(data))) = result(&mut bench) else { panic!("an honest read") };
    assert!(*data.into_one() == *aperiodic(8192, 6));
    // Data after the status belongs to no command.
    tell(&mut bench, whole(command.task_tag()).to_bytes(), &aperiodic(8192, 6));
    assert!(bench.failed.unwrap().contains("a response to no request"));
}

#[test]
fn pings_do_not_make_up_for_commands_that_never_end() {
    // One command that was sent, and one that the target's window never lets through.
    for closed in [false, true] {
        let mut bench = Bench::ready(config(), portal(64));
        if closed {
            for tag in 100..100 + u64::from(limits::QUEUE_DEPTH) {
                bench.submit(tag, read(512));
            }
        }
        bench.submit(1, read(512));
        bench.pair.near.transmit(Instant::ZERO);
        let mut now = Instant::ZERO;
        let ended = |bench: &Bench| bench.done.iter().any(|done| done.tag.0 == 1 && done.result.is_err());
        while !ended(&bench) && now < Instant::ZERO + Duration::from_secs(90) {
            now = now + Duration::from_secs(1);
            bench.pair.near.receive(now, &NopIn::ping(7).to_bytes());
            bench.pair.near.transmit(now);
            if bench.pair.near.connection.poll_timeout().is_some_and(|due| due <= now) {
                bench.pair.near.connection.handle_timeout(now);
            }
            bench.act_near();
        }
        let most = limits::COMMAND_TIME + limits::ABORT_TIME + Duration::from_secs(1);
        assert!(
            now.since(Instant::ZERO) <= most,
            "closed window: {closed}; it took {:?}",
            now.since(Instant::ZERO)
        );
    }
}

fn discovering() -> Evil {
    let mut evil = Evil::new(Config { target: None, ..config() });
    let (first, _) = evil.login_request();
    evil.login_response(&first, Some(Stage::Operational), &[("AuthMethod", "None")]);
    let (second, keys) = evil.login_request();
    let segment = keys.iter().find(|(key, _)| key == "MaxRecvDataSegmentLength").unwrap();
    assert_eq!(segment.1, "8192", "what a discovery declares is what it can take as text");
    evil.login_response(&second, Some(Stage::FullFeature), &[]);
    let asked = evil.requests();
    assert_eq!(asked[0].opcode(), Opcode::TEXT_REQUEST);
    evil
}

#[test]
fn a_list_of_targets_ends() {
    // Answers without end, with and without text, read or not; and one that is too long for what was declared.
    let mut evil = discovering();
    for _ in 0..2 * limits::MOST_TEXT_PDUS {
        evil.send(TextResponse::partial(0x0300_0000, 5).to_bytes(), &[]);
    }
    assert!(evil.failure().contains("too much text"), "{}", evil.failure());
    let mut evil = discovering();
    let text = b"TargetAddress=192.0.2.1:3260,1\0".repeat(200);
    for _ in 0..limits::MOST_TEXT_PDUS {
        evil.send(TextResponse::partial(0x0300_0000, 5).continuing().to_bytes(), &text);
    }
    assert!(evil.failure().contains("too much text"), "{}", evil.failure());
    let mut evil = discovering();
    evil.send(TextResponse::last(0x0300_0000).to_bytes(), &vec![b'x'; limits::STAGED + 4]);
    assert!(evil.failure().contains("longer than declared"), "{}", evil.failure());
    // Pings are no answer.
    let mut evil = discovering();
    while evil.failed.is_none() && evil.now < Instant::ZERO + 2 * limits::DISCOVERY_TIME {
        evil.now = evil.now + Duration::from_secs(1);
        evil.send(NopIn::ping(7).to_bytes(), &[]);
        evil.half.connection.handle_timeout(evil.now);
        evil.requests();
    }
    assert!(evil.failure().contains("does not end its list"), "{}", evil.failure());
}

#[test]
fn text_that_nobody_asked_for_and_long_pdus_that_are_no_data_end_the_connection() {
    let mut bench = Bench::ready(config(), portal(64));
    tell(&mut bench, TextResponse::last(0x0300_0000).to_bytes(), &[]);
    assert!(bench.failed.unwrap().contains("a response to no request"));
    for header in [NopIn::ping(7).to_bytes(), ScsiResponse::new(1, 0, Residual::None, 0).to_bytes()] {
        let mut bench = Bench::ready(config(), portal(64));
        tell(&mut bench, header, &vec![1; limits::STAGED + 4]);
        assert!(bench.failed.unwrap().contains("longer than declared"));
    }
}

#[test]
fn a_unit_that_is_too_busy_to_say_its_name_is_not_taken_for_one_without() {
    let mut evil = Evil::new(config());
    evil.log_in(&[]);
    let inquiry = evil.requests().remove(0);
    let answer = DataIn::new(inquiry.view().task_tag(), 0, DataRange { offset: 0, length: 36 }).ending();
    let mut standard = [0; 36];
    standard[8..16].copy_from_slice(b"LINERATE");
    evil.send(answer.with_status(0, Residual::Underflow(252 - 36)).to_bytes(), &standard);
    let serial = evil.requests().remove(0);
    let busy = ScsiResponse::new(serial.view().task_tag(), 8, Residual::None, 0);
    evil.send(busy.to_bytes(), &[]);
    assert!(evil.failure().contains("does not answer what it is"), "{}", evil.failure());
}

/// RFC 7143 §11.9.1: each event that a target may tell of has its consequence.
#[test]
fn every_asynchronous_event_is_obeyed() {
    for (event, sends, failure) in [
        (AsyncEvent::SCSI, None, None),
        (AsyncEvent::LOGOUT_REQUESTED, Some(Opcode::LOGOUT_REQUEST), None),
        (AsyncEvent::CONNECTION_DROPPED, None, Some("drops the session")),
        (AsyncEvent::SESSION_DROPPED, None, Some("drops the session")),
        (AsyncEvent(248), None, None),
    ] {
        let mut bench = Bench::ready(config(), portal(64));
        let mut header = AsyncMessage::logout_requested(3).to_bytes();
        header[36] = event.0;
        tell(&mut bench, header, &[]);
        let sent = split(&bench.pair.near.transmit(Instant::ZERO), NONE);
        assert_eq!(sent.first().map(Pdu::opcode), sends, "{event:?}");
        let failed = bench.failed.as_deref();
        assert!(
            failed.is_some() == failure.is_some()
                && failed.unwrap_or_default().contains(failure.unwrap_or_default()),
            "{event:?}: {failed:?}"
        );
    }
}

fn requiring(header: bool, data: bool, target: bool) -> Config {
    let mut config = config();
    let policy = |wanted| if wanted { DigestPolicy::Require } else { DigestPolicy::Allow };
    (config.tuning.header_digest, config.tuning.data_digest) = (policy(header), policy(data));
    if !target {
        config.target = None;
    }
    config
}

#[test]
fn a_required_digest_cannot_be_left_out() {
    for target in [true, false] {
        for (header, data) in [(true, false), (false, true), (true, true)] {
            // By omission, by refusal in every form, and by granting only the other one.
            let mut answers: Vec<Vec<(&str, &str)>> = vec![vec![], vec![("MaxBurstLength", "65536")]];
            for no in ["None", "Reject", "NotUnderstood", "Irrelevant"] {
                answers.push(vec![("HeaderDigest", no), ("DataDigest", no)]);
            }
            if header {
                answers.push(vec![("DataDigest", "CRC32C")]);
            }
            if data {
                answers.push(vec![("HeaderDigest", "CRC32C")]);
            }
            for keys in answers {
                let mut evil = Evil::new(requiring(header, data, target));
                evil.log_in(&keys);
                assert!(evil.failed.is_some(), "RFC 7143 §13.1: {header} {data} required, answered {keys:?}");
                assert!(evil.requests().is_empty(), "nothing more is sent without them");
            }
            let mut evil = Evil::new(requiring(header, data, target));
            evil.log_in(&[]);
            let named = if target { TARGET } else { "the discovery service" };
            assert!(
                evil.failure().contains(named) && evil.failure().contains("requires"),
                "{}",
                evil.failure()
            );
        }
    }
}

#[test]
fn a_target_does_not_lead_around_the_stages() {
    // Straight to the full feature phase, before anything was offered; or out of a stage that the initiator is not in.
    for (stage, next) in [(0, Stage::FullFeature), (4, Stage::FullFeature), (4, Stage::Operational)] {
        let mut evil = Evil::new(requiring(true, true, true));
        let (first, _) = evil.login_request();
        let mut header =
            iscsi::pdu::LoginResponse::new(&first, iscsi::pdu::Status::SUCCESS).transit(next).to_bytes();
        header[1] = header[1] & 0xf3 | stage;
        evil.send(header, b"AuthMethod=None\0");
        assert!(evil.failure().contains("the wrong stage"), "{}", evil.failure());
    }
}

fn credentials(user: &str, secret: &str) -> Credentials {
    Credentials { user: user.into(), secret: Secret::new(secret) }
}

fn guarded(target: bool) -> Config {
    let mut config = requiring(false, false, target);
    config.chap = Some(credentials("alice", "a secret of alice"));
    config.mutual = Some(credentials("disk", "a secret of the disk"));
    config
}

#[test]
fn authentication_cannot_be_left_out() {
    for target in [true, false] {
        // No method, another one, and the stage's end instead of it.
        for (keys, next) in [
            (&[][..], None),
            (&[][..], Some(Stage::Operational)),
            (&[("AuthMethod", "None")][..], None),
            (&[("AuthMethod", "None")][..], Some(Stage::Operational)),
            (&[("AuthMethod", "None")][..], Some(Stage::FullFeature)),
            (&[("AuthMethod", "CHAP")][..], Some(Stage::Operational)),
            (&[("AuthMethod", "CHAP")][..], Some(Stage::FullFeature)),
        ] {
            let mut evil = Evil::new(guarded(target));
            let (first, _) = evil.login_request();
            evil.login_response(&first, next, keys);
            assert!(evil.failed.is_some(), "{keys:?} and {next:?} let it in");
        }
        // The challenge is asked of the target too, and it leaves out one part of the proof or both.
        for proof in
            [&[][..], &[("CHAP_N", "disk")][..], &[("CHAP_R", "0x00112233445566778899aabbccddeeff")][..]]
        {
            for next in [None, Some(Stage::Operational)] {
                let mut evil = Evil::new(guarded(target));
                let (first, _) = evil.login_request();
                evil.login_response(&first, None, &[("AuthMethod", "CHAP")]);
                let (second, _) = evil.login_request();
                let challenge =
                    [("CHAP_A", "5"), ("CHAP_I", "1"), ("CHAP_C", "0x000102030405060708090a0b0c0d0e0f")];
                evil.login_response(&second, None, &challenge);
                let (third, keys) = evil.login_request();
                assert!(keys.iter().any(|(key, _)| key == "CHAP_C"), "the target is challenged");
                evil.login_response(&third, next, proof);
                assert!(evil.failure().contains("does not prove who it is"), "{proof:?}: {}", evil.failure());
            }
        }
        // The stage's end instead of a challenge.
        let mut evil = Evil::new(guarded(target));
        let (first, _) = evil.login_request();
        evil.login_response(&first, None, &[("AuthMethod", "CHAP")]);
        let (second, _) = evil.login_request();
        evil.login_response(&second, Some(Stage::Operational), &[]);
        assert!(evil.failed.is_some());
    }
}

/// Each PDU's header and data of one exchange is damaged in turn; nothing damaged is stored or returned.
#[test]
fn damage_of_every_pdu_in_each_direction_and_size_is_found() {
    for (immediate, initial_r2t) in [(true, true), (true, false), (false, false), (false, true)] {
        for len in [512, 1024, 1536, 4096, 8192, 8704, 65536, 300 << 10, 1 << 20] {
            for writes in [true, false] {
                let mut nth = 0;
                while damaged(((immediate, initial_r2t), len, writes), nth) {
                    nth += 1;
                }
                assert!(nth >= 2, "there was nothing to damage");
            }
        }
    }
}

type Case = ((bool, bool), usize, bool);

/// Carries out one request, flipping a bit of the `nth` place that may be damaged: header, then data of each PDU both ways. False
/// when there is no such place.
fn damaged(case: Case, nth: usize) -> bool {
    let ((immediate, initial_r2t), len, writes) = case;
    let mut config = requiring(true, true, true);
    (config.tuning.immediate_data, config.tuning.initial_r2t) = (immediate, initial_r2t);
    let mut bench = Bench::ready(config, portal(4096));
    let bytes = aperiodic(len, 9 + nth as u64);
    if !writes {
        bench.memory.bytes[..len].copy_from_slice(&bytes);
    }
    bench.submit(1, if writes { write(bytes.clone()) } else { read(len) });
    let (mut seen, mut hit) = (0, false);
    for _ in 0..20 {
        let mut out = bench.pair.near.transmit(Instant::ZERO);
        hit |= flip(&mut out, &mut seen, nth);
        bench.pair.far.receive(Instant::ZERO, &out);
        bench.act_far();
        let mut back = bench.pair.far.transmit(Instant::ZERO);
        hit |= flip(&mut back, &mut seen, nth);
        bench.pair.near.receive(Instant::ZERO, &back);
        bench.act_near();
    }
    if hit {
        let far = bench.pair.far.connection.poll_close();
        let found = far.is_some() || bench.failed.is_some();
        assert!(found, "RFC 7143 §13.1: nobody found the damage of place {nth} of {case:?}");
        let stored = &bench.memory.bytes[..len];
        let intact = |part: &[u8], whole: &[u8]| part == whole || part.iter().all(|byte| *byte == 0);
        let blocks = stored.chunks(BLOCK).zip(bytes.chunks(BLOCK));
        assert!(
            blocks.into_iter().all(|(part, whole)| intact(part, whole)),
            "stored damage: {nth} of {case:?}"
        );
        if let Some(Ok(Outcome::Data(data))) = result(&mut bench) {
            assert!(*data.into_one() == *bytes, "returned damage: {nth} of {case:?}");
        }
    } else {
        assert!(result(&mut bench).unwrap().is_ok());
    }
    hit
}

/// Flips a bit in the `nth` place: places are counted over all sends, a header and its data being one each.
fn flip(bytes: &mut [u8], seen: &mut usize, nth: usize) -> bool {
    let mut at = 0;
    while at < bytes.len() {
        let length = u32::from_be_bytes([0, bytes[at + 5], bytes[at + 6], bytes[at + 7]]) as usize;
        let data = if length == 0 { 0 } else { length.next_multiple_of(4) + 4 };
        // The tag of a header, and the last byte of the data, which is the farthest from what is looked at first.
        let places = [Some(at + 18), (length > 0).then(|| at + 52 + length - 1)];
        for place in places.into_iter().flatten() {
            if *seen == nth {
                bytes[place] ^= 0x10;
                *seen += 1;
                return true;
            }
            *seen += 1;
        }
        at += 52 + data;
    }
    false
}

#[test]
fn a_closed_connection_holds_no_answers() {
    let mut bench = Bench::ready(config(), portal(64));
    bench.pair.near.receive(Instant::ZERO, &NopIn::ping(7).to_bytes().repeat(5000));
    bench.pair.near.connection.handle_input(Instant::ZERO, Input::Abandon);
    assert!(bench.pair.near.connection.wants_bytes(), "what comes is thrown away");
    assert!(bench.pair.near.transmit(Instant::ZERO).is_empty());
    assert!(matches!(bench.pair.near.connection.poll_close(), Some(CloseReason::Finished)));
    assert!(matches!(bench.pair.near.connection.poll_action(), Some(Action::Failed { .. })));
}

/// RFC 7143 §11.8, §11.19: an R2T and a ping carry the next StatSN and do not take it. An initiator that counts them acknowledges
/// a status that was never sent.
#[test]
fn only_what_takes_a_status_number_is_acknowledged() {
    const NUMBER: u32 = 77;
    type Told = fn(u32) -> Bhs;
    let mut event = AsyncMessage::logout_requested(3).to_bytes();
    event[36] = AsyncEvent::SCSI.0;
    let cases: [(&str, Told, u32); 3] = [
        ("a ping", |_| NopIn::ping(7).to_bytes(), 0),
        (
            "an R2T",
            |tag| {
                R2t::new(
                    [0; 8],
                    TaskTags { initiator: tag, target: 9 },
                    0,
                    DataRange { offset: 0, length: 4096 },
                )
                .to_bytes()
            },
            0,
        ),
        ("a response", |tag| ScsiResponse::new(tag, 8, Residual::None, 0).to_bytes(), 1),
    ];
    for (what, told, taken) in cases {
        let (mut bench, command) = commanded(write(aperiodic(64 << 10, 5)));
        let number = |mut header: Bhs, stat_sn: u32| {
            header[24..28].copy_from_slice(&stat_sn.to_be_bytes());
            header
        };
        tell(&mut bench, number(event, NUMBER - 1), &[]);
        tell(&mut bench, number(told(command.task_tag()), NUMBER), &[]);
        tell(&mut bench, number(NopIn::ping(8).to_bytes(), NUMBER + taken), &[]);
        let sent = split(&bench.pair.near.transmit(Instant::ZERO), NONE);
        let answer = sent.iter().rfind(|pdu| pdu.opcode() == Opcode::NOP_OUT).unwrap();
        assert_eq!(answer.view().exp_stat_sn(), NUMBER + taken, "after {what} with StatSN {NUMBER}");
    }
}

/// A target may answer commands in any order: what it says of its size may be older than the change that it has told of meanwhile.
#[test]
fn a_size_that_changes_again_while_it_is_asked_for_is_asked_for_again() {
    let changed = [0, 18, 0x70, 0, 6, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x2a, 0x09, 0, 0, 0, 0];
    let mut bench = Bench::ready(config(), portal(256));
    let sent = |bench: &mut Bench| {
        let pdus = split(&bench.pair.near.transmit(Instant::ZERO), NONE);
        pdus.iter().map(|pdu| ScsiCommand::from_bytes(&pdu.header)).collect::<Vec<_>>()
    };
    let attention = |bench: &mut Bench, command: &ScsiCommand| {
        let header = ScsiResponse::new(command.task_tag(), 2, Residual::None, 0).to_bytes();
        tell(bench, header, &changed);
    };
    let size = |bench: &mut Bench, command: &ScsiCommand, blocks: u64| {
        let mut answer = [0; 32];
        answer[..8].copy_from_slice(&(blocks - 1).to_be_bytes());
        answer[8..12].copy_from_slice(&512_u32.to_be_bytes());
        let length = command.expected_length();
        let header = DataIn::new(command.task_tag(), 0, DataRange { offset: 0, length: 32 }).ending();
        let header = header.with_status(0, Residual::Underflow(length - 32));
        tell(bench, header.to_bytes(), &answer);
    };
    let asks = |command: &&ScsiCommand| command.cdb[..2] == [0x9e, 0x10];
    bench.submit(1, read(512));
    bench.submit(2, read(512));
    let reads = sent(&mut bench);
    attention(&mut bench, &reads[0]);
    let first = sent(&mut bench);
    let first: Vec<_> = first.iter().filter(asks).collect();
    assert_eq!(first.len(), 1, "READ CAPACITY (16)");
    attention(&mut bench, &reads[1]);
    assert_eq!(sent(&mut bench).iter().filter(asks).count(), 0, "one is under way");
    size(&mut bench, first[0], 512);
    let second = sent(&mut bench);
    let second: Vec<_> = second.iter().filter(asks).collect();
    assert_eq!(second.len(), 1, "the answer may be older than the second change");
    size(&mut bench, second[0], 1024);
    assert_eq!(sent(&mut bench).iter().filter(asks).count(), 0, "nothing has changed since");
    assert_eq!(bench.resized.iter().map(|geometry| geometry.blocks).collect::<Vec<_>>(), [512, 1024]);
}
