//! What a target holds for its initiators, and for how long: bytes against the pool and a share of it, deadlines for data and for reading, and silence.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of tests")]

mod common;

use std::time::Duration;

use buf::{Account, Pool};
use common::raw::{Pdu, Raw};
use common::{INITIATOR, ISID, portal};
use iscsi::limits;
use iscsi::pdu::{
    BasicHeaderSegment, DataOut, DataRange, LoginIdentity, LoginRequest, NopOut, Opcode, R2t, RESERVED_TAG,
    ScsiCommand, ScsiResponse, Stage, TaskTags,
};
use iscsi::target::Action;
use iscsi::text::Text;
use protocol::{CloseReason, Connection as _, Transmit};
use scsi::builder;
use volume::{Durability, Extent};

const LIMIT: usize = 64 << 20;
const LUN: [u8; 8] = [0; 8];
/// The longest write, in bytes and in blocks.
const LONGEST: u32 = 8 << 20;
const BLOCKS: u64 = 16_384;

/// A session that has heard of its power-on.
fn session(pool: &Pool) -> Raw {
    let mut raw = Raw::with_pool(portal(BLOCKS as usize), pool);
    raw.log_in(&[("InitialR2T", "No"), ("MaxRecvDataSegmentLength", "65536")]).unwrap();
    command(&mut raw, (LUN, 1, builder::test_unit_ready()), |command| command, &[]);
    raw
}

fn discovery(pool: &Pool) -> Raw {
    let mut raw = Raw::with_pool(portal(64), pool);
    let mut text = Text::new();
    text.put("InitiatorName", INITIATOR);
    text.put("SessionType", "Discovery");
    let request = LoginRequest::new(Stage::Operational, LoginIdentity::new_session(ISID), 0, 1)
        .transit(Stage::FullFeature);
    raw.login(request, &text).unwrap();
    raw
}

fn command(
    raw: &mut Raw,
    (lun, tag, cdb): ([u8; 8], u32, [u8; 16]),
    shape: impl Fn(ScsiCommand) -> ScsiCommand,
    data: &[u8],
) -> Vec<Pdu> {
    let header = shape(ScsiCommand::new(lun, tag, raw.cmd_sn, cdb));
    raw.cmd_sn += 1;
    raw.send(header.to_bytes(), data)
}

/// A write of the longest kind whose data never comes.
fn hoard(raw: &mut Raw, tag: u32) -> Vec<Pdu> {
    hoard_bytes(raw, tag, LONGEST)
}

fn hoard_bytes(raw: &mut Raw, tag: u32, length: u32) -> Vec<Pdu> {
    let cdb = builder::write(Extent::new(0, u64::from(length) / 512), Durability::Cached);
    command(raw, (LUN, tag, cdb), |command| command.writing(length, 0), &[])
}

fn small_write(raw: &mut Raw, tag: u32) -> Vec<Pdu> {
    let cdb = builder::write(Extent::new(0, 8), Durability::Cached);
    command(raw, (LUN, tag, cdb), |command| command.writing(4096, 4096), &[7; 4096])
}

fn status(pdus: &[Pdu]) -> Option<u8> {
    let response = pdus.iter().find(|pdu| pdu.opcode() == Opcode::SCSI_RESPONSE)?;
    ScsiResponse::from_bytes(&response.header).status()
}

/// Lets time pass, as the connection wants to be called, answering pings.
fn pass(raw: &mut Raw, time: Duration) -> Vec<Pdu> {
    let end = raw.now + time;
    let mut seen = Vec::new();
    while let Some(due) = raw.half.connection.poll_timeout().filter(|due| *due <= end) {
        raw.now = due.max(raw.now);
        raw.half.connection.handle_timeout(raw.now);
        seen.extend(raw.settle());
        if raw.closed().is_some() {
            return seen;
        }
    }
    raw.now = end;
    seen
}

#[test]
fn writes_without_data_leave_memory_to_others() {
    let pool = Pool::new(LIMIT);
    let mut good = session(&pool);
    for number in 0..10 {
        let mut bad = session(&pool);
        // Ever smaller ones, so that no gap is left.
        for tag in 2..122 {
            let length = [LONGEST, 1 << 20, 64 << 10, 4096, 512][(tag as usize - 2) / 24];
            hoard_bytes(&mut bad, tag, length);
        }
        assert!(pool.used() <= LIMIT, "{} bytes of {LIMIT} are held", pool.used());
        let answers = small_write(&mut good, 10 + number);
        assert_eq!(status(&answers), Some(0), "a small write beside {} hoarders", number + 1);
        std::mem::forget(bad);
    }
}

/// A client's 4K reads go on at once beside sessions whose windows are full of writes without data: one that was there before them, and newcomers. What the sessions'
/// tables take is neither these clients' part, nor much.
#[test]
fn full_windows_of_writes_without_data_leave_everybody_a_block() {
    for sessions in [100, 1000] {
        let pool = Pool::new(LIMIT);
        let mut old = session(&pool);
        // As many commands as its window takes have made its table as large as it becomes.
        for tag in 2..200 {
            assert_eq!(small_read(&mut old, tag), Some(Opcode::DATA_IN));
        }
        let mut crowd = Vec::new();
        for _ in 0..sessions {
            let mut bad = Raw::with_pool(portal(2048), &pool);
            bad.log_in(&[("InitialR2T", "Yes"), ("ImmediateData", "No")]).unwrap();
            command(&mut bad, (LUN, 1, builder::test_unit_ready()), |command| command, &[]);
            // All at once, whatever the window says.
            for tag in 2..2 + u32::from(limits::QUEUE_DEPTH) {
                hoard_bytes(&mut bad, tag, 1 << 20);
            }
            crowd.push(bad);
        }
        let allocated = pool.usage().allocated;
        assert!(allocated <= LIMIT + (32 << 20), "{allocated} bytes beside {sessions} sessions");
        let mut new = session(&pool);
        for tag in 200..300 {
            assert_eq!(small_read(&mut old, tag), Some(Opcode::DATA_IN), "beside {sessions} sessions");
            assert_eq!(
                small_read(&mut new, tag),
                Some(Opcode::DATA_IN),
                "a newcomer's, beside {sessions} sessions"
            );
        }
    }
}

fn small_read(raw: &mut Raw, tag: u32) -> Option<Opcode> {
    let read = builder::read(Extent::new(0, 8));
    command(raw, (LUN, tag, read), |command| command.reading(4096), &[]).first().map(Pdu::opcode)
}

/// A window is as wide as there is memory for tasks: whoever keeps to it is never refused, and it becomes wide where memory is free.
#[test]
fn a_window_grows_with_its_use_where_memory_is_free() {
    for (free, widest) in [(true, limits::QUEUE_DEPTH), (false, limits::FIRST_DEPTH)] {
        let pool = Pool::new(LIMIT);
        let mut others = Account::new(&pool);
        let mut raw = session(&pool);
        others.count(if free { 0 } else { LIMIT - LIMIT / 8 });
        let first = raw.cmd_sn;
        let mut ping = NopOut::ping(1000).to_bytes();
        for tag in 2..500 {
            hoard_bytes(&mut raw, tag, 512 << 10);
        }
        ping[24..28].copy_from_slice(&raw.cmd_sn.to_be_bytes());
        let answer = raw.send(ping, &[]).pop().unwrap().view();
        assert_eq!(answer.max_cmd_sn().wrapping_sub(first) + 1, u32::from(widest), "memory is free: {free}");
        assert_eq!(answer.exp_cmd_sn(), first + u32::from(widest), "what lies beyond is ignored");
        assert_eq!(raw.closed(), None);
    }
}

#[test]
fn a_command_that_cannot_be_done_takes_no_memory() {
    let pool = Pool::new(LIMIT);
    let mut raw = session(&pool);
    let fine = builder::write(Extent::new(0, BLOCKS), Durability::Cached);
    let beyond = builder::write(Extent::new(1, BLOCKS), Durability::Cached);
    let unknown = [0xff; 16];
    // Nothing is left for a buffer: whoever asked for one would wait.
    let hostage: Vec<_> = std::iter::from_fn(|| pool.take(512)).collect();
    for (tag, lun, cdb) in [(2, [0, 9, 0, 0, 0, 0, 0, 0], fine), (3, LUN, beyond), (4, LUN, unknown)] {
        let answers = command(&mut raw, (lun, tag, cdb), |command| command.writing(LONGEST, 0), &[]);
        assert_eq!(status(&answers), Some(2), "CDB {cdb:x?} on LUN {lun:x?}");
        let answers =
            command(&mut raw, (lun, tag, cdb), |command| command.writing(LONGEST, 4096), &[1; 4096]);
        assert_eq!(status(&answers), Some(2), "with immediate data: CDB {cdb:x?} on LUN {lun:x?}");
    }
    drop(hostage);
}

#[test]
fn a_write_without_a_buffer_waits_before_its_r2t_and_the_stream_goes_on() {
    let pool = Pool::new(LIMIT);
    let mut raw = session(&pool);
    let hostage: Vec<_> = std::iter::from_fn(|| pool.take(512)).collect();
    assert!(hoard(&mut raw, 2).is_empty());
    let answers = raw.send(NopOut::ping(3).to_bytes(), b"there?");
    assert_eq!(answers.len(), 1, "a ping behind a write that waits is answered");
    drop(hostage);
    assert_eq!(raw.settle()[0].opcode(), Opcode::R2T);
}

#[test]
fn a_read_begins_when_memory_is_told_of_and_not_when_actions_are_asked_for() {
    let pool = Pool::new(LIMIT);
    let mut raw = session(&pool);
    let hostage: Vec<_> = std::iter::from_fn(|| pool.take(512)).collect();
    assert_eq!(small_read(&mut raw, 2), None);
    drop(hostage);
    let connection = &mut raw.half.connection;
    assert!(connection.poll_action().is_none() && connection.awaits_memory(), "nobody has told it");
    connection.handle_memory(raw.now);
    assert!(!connection.awaits_memory());
    assert!(matches!(connection.poll_action(), Some(Action::Submit { .. })));
}

#[test]
fn data_that_does_not_come_ends_its_command_and_not_the_session() {
    let pool = Pool::new(LIMIT);
    let mut raw = session(&pool);
    let r2t = R2t::from_bytes(&hoard(&mut raw, 2)[0].header);
    let held = pool.used();
    // The stream is alive all the while.
    let mut answers = Vec::new();
    for _ in 0..=limits::DATA_TIME.as_secs() {
        answers.extend(pass(&mut raw, Duration::from_secs(1)));
        raw.send(NopOut::ping(9).to_bytes(), &[]);
    }
    assert_eq!(status(&answers), Some(2));
    let sense = &answers.iter().find(|pdu| pdu.opcode() == Opcode::SCSI_RESPONSE).unwrap().data[2..];
    assert_eq!((sense[2] & 15, sense[12], sense[13]), (0xb, 0x4b, 0x06), "INITIATOR RESPONSE TIMEOUT");
    assert!(pool.used() + LONGEST as usize <= held, "its buffer is free");
    let late = DataOut::new(
        LUN,
        TaskTags { initiator: 2, target: r2t.transfer_tag() },
        0,
        DataRange { offset: 0, length: 4096 },
    );
    assert!(raw.send(late.to_bytes(), &[1; 4096]).is_empty(), "late data is passed over");
    assert_eq!((raw.closed(), status(&small_write(&mut raw, 3))), (None, Some(0)));
}

#[test]
fn data_that_does_not_come_ends_its_command_sooner_while_others_wait() {
    let pool = Pool::new(LIMIT);
    let mut raw = session(&pool);
    hoard(&mut raw, 2);
    let mut other = Account::new(&pool);
    other.count(LIMIT - pool.used());
    let mut waiting = Account::new(&pool);
    assert!(waiting.take(LONGEST as usize).is_none());
    let answers = pass(&mut raw, limits::SCARCE_DATA_TIME + limits::WATCH);
    assert_eq!(status(&answers), Some(2), "others wait for what it holds");
}

#[test]
fn a_pdu_that_stops_half_way_ends_the_connection_while_others_wait() {
    let pool = Pool::new(LIMIT);
    let mut raw = session(&pool);
    let cdb = builder::write(Extent::new(0, 64), Durability::Cached);
    let mut header = ScsiCommand::new(LUN, 2, raw.cmd_sn, cdb).writing(32_768, 32_768).to_bytes().to_vec();
    header.extend([5; 1000]);
    raw.send_bytes(&header);
    let mut other = Account::new(&pool);
    other.count(LIMIT - pool.used());
    let mut waiting = Account::new(&pool);
    assert!(waiting.take(LONGEST as usize).is_none());
    pass(&mut raw, limits::SCARCE_DATA_TIME + limits::WATCH);
    assert!(matches!(raw.closed(), Some(CloseReason::TimedOut(_))), "{:?}", raw.closed());
}

#[test]
fn echoes_that_nobody_reads_count_in_bytes() {
    let pool = Pool::new(LIMIT);
    let mut raw = discovery(&pool);
    let mut ping = NopOut::ping(1).to_bytes().to_vec();
    ping[5..8].copy_from_slice(&[0, 0x20, 0]);
    ping.extend([b'A'; limits::ECHO]);
    for _ in 0..700 {
        raw.half.receive(raw.now, &ping);
    }
    assert!(!raw.half.connection.wants_bytes());
    let held = pool.used();
    let most = limits::OUTBOUND_BYTES + limits::ECHO + (16 << 10);
    assert!((limits::OUTBOUND_BYTES..=most).contains(&held), "{held} bytes are held for echoes");
    // What is being sent still counts; what was sent does not.
    let mut send = Transmit::new(1 << 20, 512);
    raw.half.connection.poll_transmit(raw.now, &mut send);
    assert!(pool.used() >= limits::OUTBOUND_BYTES && !raw.half.connection.wants_bytes());
    raw.half.connection.handle_transmitted(raw.now, send.len());
    assert!(pool.used() < limits::OUTBOUND_BYTES && raw.half.connection.wants_bytes());
}

#[test]
fn text_that_is_collected_counts() {
    let pool = Pool::new(LIMIT);
    let mut raw = discovery(&pool);
    let before = pool.used();
    let mut request = [0; 48];
    request[..2].copy_from_slice(&[0x44, 0x40]);
    request[19] = 7;
    request[20..24].copy_from_slice(&RESERVED_TAG.to_be_bytes());
    let answers = raw.send(request, &[b'a'; 8192]);
    assert_eq!(answers.last().map(Pdu::opcode), Some(Opcode::TEXT_RESPONSE));
    assert!(pool.used() >= before + 8192, "{} bytes more", pool.used() - before);
}

#[test]
fn who_reads_nothing_is_closed() {
    let pool = Pool::new(LIMIT);
    let mut raw = session(&pool);
    raw.half.receive(raw.now, &NopOut::ping(3).to_bytes());
    let mut send = Transmit::new(1 << 20, 512);
    raw.half.connection.poll_transmit(raw.now, &mut send);
    assert!(!send.is_empty());
    let end = raw.now + limits::SEND_TIME + limits::WATCH;
    while let Some(due) = raw.half.connection.poll_timeout().filter(|due| *due <= end) {
        raw.now = due;
        raw.half.connection.handle_timeout(due);
        // It keeps sending, so that it is not silent.
        raw.half.receive(due, &NopOut::ping(4).to_bytes());
    }
    assert!(matches!(raw.closed(), Some(CloseReason::TimedOut(_))), "{:?}", raw.closed());
}

#[test]
fn who_reads_nothing_is_closed_sooner_while_others_wait() {
    let pool = Pool::new(LIMIT);
    let mut raw = session(&pool);
    raw.half.receive(raw.now, &NopOut::ping(3).to_bytes());
    let mut send = Transmit::new(1 << 20, 512);
    raw.half.connection.poll_transmit(raw.now, &mut send);
    let mut other = Account::new(&pool);
    other.count(LIMIT - pool.used());
    let mut waiting = Account::new(&pool);
    assert!(waiting.take(LONGEST as usize).is_none());
    let end = raw.now + limits::SCARCE_SEND_TIME;
    while let Some(due) = raw.half.connection.poll_timeout().filter(|due| *due <= end) {
        assert_eq!(raw.closed(), None, "before its time");
        raw.half.connection.handle_timeout(due);
    }
    assert!(matches!(raw.closed(), Some(CloseReason::TimedOut(_))), "{:?}", raw.closed());
}

#[test]
fn what_is_little_does_not_wait_behind_what_is_long() {
    let pool = Pool::new(LIMIT);
    let mut raw = session(&pool);
    let mut others = Account::new(&pool);
    others.count(LIMIT - LIMIT / 8);
    assert!(hoard(&mut raw, 4).is_empty());
    assert!(others.is_wanted());
    let write = builder::write(Extent::new(0, 8), Durability::Cached);
    let answers = command(&mut raw, (LUN, 5, write), |command| command.writing(4096, 0), &[]);
    assert_eq!(R2t::from_bytes(&answers[0].header).task_tag(), 5);
    assert!(others.is_wanted(), "the long one has kept its place");
    let read = builder::read(Extent::new(0, 8));
    let answers = command(&mut raw, (LUN, 6, read), |command| command.reading(4096), &[]);
    assert_eq!(answers[0].opcode(), Opcode::DATA_IN);
    others.uncount(LIMIT / 2);
    let answers = raw.settle();
    assert_eq!(R2t::from_bytes(&answers[0].header).task_tag(), 4);
}

/// Behind a long write that waits, the floor has room for one small write at a time: whenever one has ended, the oldest of those that it has room for begins.
#[test]
fn what_is_little_and_found_no_room_is_looked_at_again() {
    const LITTLE: u32 = 64 << 10;
    let pool = Pool::new(LIMIT);
    let mut raw = session(&pool);
    let mut others = Account::new(&pool);
    // The floor is the part of one in fifty: 80 KiB.
    let _idle: Vec<_> = (0..48).map(|_| Account::new(&pool)).collect();
    others.count(LIMIT - LIMIT / 8);
    assert!(hoard(&mut raw, 4).is_empty());
    let begun = hoard_bytes(&mut raw, 5, LITTLE);
    for (tag, length) in [(6, 2 * LITTLE), (7, LITTLE), (8, LITTLE)] {
        assert!(hoard_bytes(&mut raw, tag, length).is_empty(), "the floor is taken");
    }
    let begun = end_write(&mut raw, LITTLE, &begun);
    assert_eq!(asked(&begun), [7], "one that the floor has room for, and the oldest");
    let begun = end_write(&mut raw, LITTLE, &begun);
    assert_eq!(asked(&begun), [8]);
    assert!(others.is_wanted(), "the long one has kept its place");
    others.uncount(LIMIT / 2);
    let begun = raw.settle();
    assert_eq!((asked(&begun)[0], asked(&begun).last()), (4, Some(&6)), "in order");
}

/// The tasks whose data is asked for.
fn asked(pdus: &[Pdu]) -> Vec<u32> {
    let asked = pdus.iter().filter(|pdu| pdu.opcode() == Opcode::R2T);
    asked.map(|pdu| R2t::from_bytes(&pdu.header).task_tag()).collect()
}

/// Sends all the data of the write that was asked for last, and gives what comes then.
fn end_write(raw: &mut Raw, length: u32, pdus: &[Pdu]) -> Vec<Pdu> {
    let r2t = R2t::from_bytes(&pdus.iter().rfind(|pdu| pdu.opcode() == Opcode::R2T).unwrap().header);
    let tags = TaskTags { initiator: r2t.task_tag(), target: r2t.transfer_tag() };
    let data = DataOut::new(LUN, tags, 0, DataRange { offset: 0, length }).ending();
    let answers = raw.send(data.to_bytes(), &vec![7; length as usize]);
    assert_eq!(status(&answers), Some(0));
    answers
}

#[test]
fn data_that_comes_unasked_does_not_take_the_place_of_what_waits() {
    let pool = Pool::new(LIMIT);
    let mut raw = session(&pool);
    let (mut others, mut later) = (Account::new(&pool), Account::new(&pool));
    // So many that a long one is more than an equal share, and passes nobody.
    let _idle: Vec<_> = (0..8).map(|_| Account::new(&pool)).collect();
    others.count(LIMIT - LIMIT / 8);
    assert!(hoard(&mut raw, 4).is_empty());
    assert!(later.take(LONGEST as usize).is_none());
    assert_eq!(status(&small_write(&mut raw, 5)), Some(0));
    others.uncount(LONGEST as usize + (1 << 20));
    assert!(later.take(LONGEST as usize).is_none(), "it is the turn of the session, which came first");
    let answers = raw.settle();
    assert_eq!(R2t::from_bytes(&answers[0].header).task_tag(), 4);
}

/// Its stream may stay for seconds until what was sent last has gone.
#[test]
fn who_is_being_closed_no_longer_stands_in_line() {
    let pool = Pool::new(LIMIT);
    let mut raw = session(&pool);
    raw.half.receive(raw.now, &NopOut::ping(3).to_bytes());
    let mut send = Transmit::new(1 << 20, 512);
    raw.half.connection.poll_transmit(raw.now, &mut send);
    let mut others = Account::new(&pool);
    others.count(LIMIT - pool.used());
    hoard(&mut raw, 4);
    assert!(others.is_wanted());
    let end = raw.now + limits::SCARCE_SEND_TIME;
    while let Some(due) = raw.half.connection.poll_timeout().filter(|due| *due <= end) {
        raw.half.connection.handle_timeout(due);
    }
    assert!(raw.closed().is_some());
    assert!(!others.is_wanted(), "what it waited for goes to nobody else");
}

/// Pings are read although no memory comes, so that neither side gives the session up; and silence counts as ever.
#[test]
fn a_session_without_memory_is_kept_alive() {
    let pool = Pool::new(LIMIT);
    let mut raw = session(&pool);
    let hostage: Vec<_> = std::iter::from_fn(|| pool.take(512)).collect();
    small_write(&mut raw, 2);
    assert!(!raw.half.connection.wants_bytes(), "there is a buffer for immediate data");
    raw.half.receive(raw.now, &NopOut::ping(4).to_bytes());
    let answers = pass(&mut raw, limits::MEMORY_WAIT_TIME);
    assert_eq!(answers.len(), 0);
    raw.half.receive(raw.now, &[]);
    let answers = raw.settle();
    assert_eq!(
        (status(&answers), answers.len()),
        (Some(scsi::Status::Busy as u8), 2),
        "BUSY, and the ping's answer"
    );
    drop(hostage);
    assert_eq!(status(&small_write(&mut raw, 3)), Some(0));
    for _ in 0..60 {
        pass(&mut raw, Duration::from_secs(1));
    }
    assert!(matches!(raw.closed(), Some(CloseReason::TimedOut(_))), "{:?}", raw.closed());
}

#[test]
fn a_discovery_session_ends() {
    let pool = Pool::new(LIMIT);
    let mut raw = discovery(&pool);
    let mut seen = Vec::new();
    for _ in 0..=limits::DISCOVERY_SESSION_TIME.as_secs() {
        seen.extend(pass(&mut raw, Duration::from_secs(1)));
        raw.half.receive(raw.now, &NopOut::ping(4).to_bytes());
        raw.settle();
    }
    let asked = |pdu: &Pdu| BasicHeaderSegment::from_bytes(&pdu.header).opcode() == Opcode::ASYNC_MESSAGE;
    assert!(seen.iter().any(asked), "it is asked to log out");
    pass(&mut raw, limits::LOGOUT_TIME);
    assert!(raw.closed().is_some());
}
