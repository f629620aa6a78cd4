//! What the disk does with its commands, seen from a transport: data, pieces, durability, refusals, attentions.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;

use buf::SharedBuf;
use common::{BLOCK, Nexus, Shared, additional, cdb, data, device, pattern};
use scsi::{DataDirection, NexusEvent, Status, Step, builder};
use volume::reservation::{Notice, Registrant};
use volume::{Allocation, Durability, Extent, Features, Operation, Outcome};

const GOOD: (u8, u8, u8) = (0, 0, 0);
const INVALID_FIELD: (u8, u8, u8) = (5, 0x24, 0);
const OUT_OF_RANGE: (u8, u8, u8) = (5, 0x21, 0);

fn pair() -> (Nexus, Shared) {
    (Nexus::ready(device(), "a"), Shared::default())
}

#[test]
fn what_is_written_is_read_by_commands_of_every_length() {
    let (mut nexus, mut shared) = pair();
    let whole = pattern(20, 0x5a);
    let reply = nexus.send(&mut shared, &builder::write(Extent::new(3, 20), Durability::Cached), &whole);
    assert_eq!((additional(&reply), reply.full_length), (GOOD, 20 * 512));
    assert_eq!(
        shared.disk.log,
        ["write 3+8 Cached", "write 11+8 Cached", "write 19+4 Cached"],
        "pieces of what the volume takes"
    );
    let reads = [
        cdb(6, &[(0, 0x08), (3, 3), (4, 20)]),
        cdb(10, &[(0, 0x28), (5, 3), (8, 20)]),
        cdb(12, &[(0, 0xa8), (5, 3), (9, 20)]),
        cdb(16, &[(0, 0x88), (9, 3), (13, 20)]),
    ];
    for read in reads {
        let reply = nexus.control(&mut shared, &read);
        assert_eq!(data(&reply), whole, "{read:02x?}");
        assert_eq!(reply.full_length, 20 * 512);
    }
}

#[test]
fn force_unit_access_makes_each_piece_durable_and_synchronize_cache_flushes() {
    let (mut nexus, mut shared) = pair();
    nexus.send(&mut shared, &builder::write(Extent::new(0, 9), Durability::Durable), &pattern(9, 0));
    nexus.control(&mut shared, &builder::synchronize_cache());
    assert_eq!(shared.disk.log, ["write 0+8 Durable", "write 8+1 Durable", "flush"]);
}

#[test]
fn nothing_reaches_the_medium_that_the_command_forbids() {
    let (mut nexus, mut shared) = pair();
    let block = pattern(1, 1);
    let protect = cdb(16, &[(0, 0x8a), (1, 0x20), (13, 1)]);
    assert_eq!(additional(&nexus.send(&mut shared, &protect, &block)), INVALID_FIELD);
    for (start, blocks) in [(256, 1), (255, 2), (257, 0), (u64::MAX, 1)] {
        let write = builder::write(Extent::new(start, blocks), Durability::Cached);
        assert_eq!(additional(&nexus.send(&mut shared, &write, &pattern(2, 1))), OUT_OF_RANGE, "{start}");
    }
    let end = builder::write(Extent::new(256, 0), Durability::Cached);
    assert_eq!(additional(&nexus.send(&mut shared, &end, &[])), GOOD, "no blocks, at the end");
    let write = builder::write(Extent::new(0, 1), Durability::Cached);
    for direction in [DataDirection::None, DataDirection::In(512)] {
        let reply = nexus.run(&mut shared, (&write, direction, &[]));
        assert_eq!((additional(&reply), reply.full_length), (GOOD, 512), "the transport tells the residual");
    }
    assert!(shared.disk.log.is_empty(), "{:?}", shared.disk.log);
}

#[test]
fn a_write_announced_too_short_writes_what_was_announced() {
    let (mut nexus, mut shared) = pair();
    let old = pattern(3, 0x40);
    nexus.send(&mut shared, &builder::write(Extent::new(0, 3), Durability::Cached), &old);
    shared.disk.log.clear();
    let write = builder::write(Extent::new(0, 3), Durability::Durable);
    let new = &pattern(2, 9)[..BLOCK + 100];
    let reply = nexus.send(&mut shared, &write, new);
    assert_eq!((additional(&reply), reply.full_length), (GOOD, 3 * 512));
    assert_eq!(shared.disk.log, ["write 0+1 Durable", "compare and write 1+1 Durable"]);
    assert_eq!(shared.disk.bytes[..new.len()], *new);
    assert_eq!(shared.disk.bytes[new.len()..3 * BLOCK], old[new.len()..]);
}

#[test]
fn part_of_a_block_is_written_over_what_the_block_is_by_then() {
    let (mut nexus, mut shared) = pair();
    let write = builder::write(Extent::new(2, 1), Durability::Cached);
    for (changes, expected) in [(1, Status::Good), (100, Status::Busy)] {
        shared.disk.changes_after_reads = changes;
        let reply = nexus.send(&mut shared, &write, &[0xee; 100]);
        assert_eq!(reply.status, expected);
    }
    assert_eq!(shared.disk.bytes[2 * BLOCK + 511], 1 + 8, "nothing that others wrote is lost");
}

#[test]
fn a_read_only_volume_is_never_written() {
    let mut device = device();
    device.units[0].features |= Features::READ_ONLY;
    let (mut nexus, mut shared) = (Nexus::ready(device, "a"), Shared::default());
    let commands: [(&[u8], usize); 4] = [
        (&builder::write(Extent::new(0, 1), Durability::Cached), 512),
        (&builder::write_same(Extent::new(0, 1), builder::Unmap::Allowed), 512),
        (&builder::compare_and_write(Extent::new(0, 1), Durability::Cached), 1024),
        (&builder::unmap(), 24),
    ];
    for (command, length) in commands {
        let reply = nexus.send(&mut shared, command, &vec![0; length]);
        assert_eq!(additional(&reply), (7, 0x27, 0), "{:#x}", command[0]);
    }
    let sense = nexus.control(&mut shared, &builder::mode_sense_caching(255));
    assert!(builder::caching(&data(&sense)).unwrap().features.contains(Features::READ_ONLY));
    assert!(shared.disk.log.is_empty());
}

#[test]
fn a_miscompare_is_found_where_it_is() {
    let (mut nexus, mut shared) = pair();
    let whole = pattern(20, 3);
    nexus.send(&mut shared, &builder::write(Extent::new(0, 20), Durability::Cached), &whole);
    let verify = builder::verify(Extent::new(0, 20), builder::ByteCheck::Data);
    assert_eq!(additional(&nexus.send(&mut shared, &verify, &whole)), GOOD);
    // In the first piece, at the last's first byte, and at the very end: the last piece is shorter than the others.
    for at in [1, 8 * BLOCK, 16 * BLOCK, 20 * BLOCK - 1] {
        let mut other = whole.clone();
        other[at] ^= 0x80;
        let reply = nexus.send(&mut shared, &verify, &other);
        assert_eq!(additional(&reply), (0xe, 0x1d, 0));
        let builder::Sense { information, .. } = builder::sense(reply.sense.bytes()).unwrap();
        assert_eq!(information, Some(u64::try_from(at).unwrap()));
    }
}

#[test]
fn verify_compares_every_block_with_one() {
    let (mut nexus, mut shared) = pair();
    let block = pattern(1, 7);
    let verify = cdb(16, &[(0, 0x8f), (1, 0x06), (13, 20)]);
    nexus.send(&mut shared, &builder::write_same(Extent::new(0, 20), builder::Unmap::Never), &block);
    assert_eq!(additional(&nexus.send(&mut shared, &verify, &block)), GOOD);
    shared.disk.bytes[17 * BLOCK + 5] ^= 1;
    let reply = nexus.send(&mut shared, &verify, &block);
    let builder::Sense { information, .. } = builder::sense(reply.sense.bytes()).unwrap();
    assert_eq!(information, Some(17 * 512 + 5));
}

#[test]
fn compare_and_write_writes_only_over_what_it_expects() {
    let (mut nexus, mut shared) = pair();
    let (old, new) = (pattern(1, 0), pattern(1, 0x11));
    let command = builder::compare_and_write(Extent::new(4, 1), Durability::Cached);
    nexus.send(&mut shared, &builder::write(Extent::new(4, 1), Durability::Cached), &old);
    assert_eq!(additional(&nexus.send(&mut shared, &command, &[old.clone(), new.clone()].concat())), GOOD);
    let reply = nexus.send(&mut shared, &command, &[old, pattern(1, 0x22)].concat());
    assert_eq!(additional(&reply), (0xe, 0x1d, 0));
    assert_eq!(shared.disk.bytes[4 * BLOCK..5 * BLOCK], new);
}

#[test]
fn unmapped_blocks_read_as_zeros_and_their_status_says_so() {
    let (mut nexus, mut shared) = pair();
    nexus.send(&mut shared, &builder::write(Extent::new(0, 64), Durability::Cached), &pattern(64, 1));
    shared.disk.log.clear();
    nexus.send(&mut shared, &builder::unmap(), &builder::unmap_list(Extent::new(8, 40)));
    assert_eq!(shared.disk.log, ["discard 8+16", "discard 24+16", "discard 40+8"], "as the volume takes it");
    let reply = nexus.control(&mut shared, &builder::read(Extent::new(8, 40)));
    assert!(data(&reply).iter().all(|&byte| byte == 0));
    let status = data(&nexus.control(&mut shared, &builder::lba_status(8, 4096)));
    assert_eq!(
        builder::first_status(&status),
        Some(Allocation { extent: Extent::new(8, 40), mapped: false })
    );
    assert_eq!(status.len(), 8 + 3 * 16, "unmapped, mapped, unmapped to the end");
    let anchored = cdb(10, &[(0, 0x42), (1, 1), (8, 24)]);
    let reply = nexus.send(&mut shared, &anchored, &builder::unmap_list(Extent::new(0, 1)));
    assert_eq!(additional(&reply), INVALID_FIELD, "nothing can be anchored");
}

#[test]
fn an_unmap_list_with_one_bad_extent_unmaps_nothing() {
    let (mut nexus, mut shared) = pair();
    let mut list = builder::unmap_list(Extent::new(0, 8)).to_vec();
    list.extend(&builder::unmap_list(Extent::new(250, 8))[8..]);
    list[..8].copy_from_slice(&[0, 38, 0, 32, 0, 0, 0, 0]);
    let reply = nexus.send(&mut shared, &cdb(10, &[(0, 0x42), (8, 40)]), &list);
    assert_eq!(additional(&reply), OUT_OF_RANGE);
    assert!(shared.disk.log.is_empty());
}

#[test]
fn write_same_of_zeros_unmaps_if_it_may_and_of_anything_else_writes() {
    let (mut nexus, mut shared) = pair();
    nexus.send(&mut shared, &builder::write_same(Extent::new(0, 20), builder::Unmap::Allowed), &[0; BLOCK]);
    nexus.send(&mut shared, &builder::write_same(Extent::new(0, 20), builder::Unmap::Never), &[0; BLOCK]);
    nexus.control(&mut shared, &cdb(16, &[(0, 0x93), (1, 0x09), (13, 4)]));
    nexus.send(&mut shared, &builder::write_same(Extent::new(0, 10), builder::Unmap::Allowed), &[1; BLOCK]);
    let expected = [
        "zeroes 0+16 unmap=true",
        "zeroes 16+4 unmap=true",
        "zeroes 0+16 unmap=false",
        "zeroes 16+4 unmap=false",
        "zeroes 0+4 unmap=true",
        "write 0+8 Cached",
        "write 8+2 Cached",
    ];
    assert_eq!(shared.disk.log, expected);
    assert!(shared.disk.bytes[..10 * BLOCK].iter().all(|&byte| byte == 1));
}

#[test]
fn a_wrong_field_is_pointed_at() {
    let mut device = device();
    device.units[0].geometry.blocks = 1 << 30;
    let mut nexus = Nexus::ready(device, "a");
    let mut shared = Shared::default();
    // A transfer that is too long: the length stands elsewhere in each CDB.
    for (length, opcode, place, field) in [(10, 0x28, 7, 7), (12, 0xa8, 7, 6), (16, 0x88, 11, 10)] {
        let reply = nexus.control(&mut shared, &cdb(length, &[(0, opcode), (place, 0xff)]));
        assert_eq!(additional(&reply), INVALID_FIELD);
        assert_eq!(reply.sense.bytes()[15..18], [0xc0, 0, field], "{opcode:#x}");
    }
}

#[test]
fn the_first_command_hears_of_power_on_but_not_by_inquiry() {
    let (mut nexus, mut shared) = (Nexus::fresh(device(), "a"), Shared::default());
    assert_eq!(additional(&nexus.control(&mut shared, &builder::inquiry(None, 96))), GOOD);
    assert_eq!(additional(&nexus.control(&mut shared, &builder::report_luns(16))), GOOD);
    assert_eq!(additional(&nexus.control(&mut shared, &builder::read(Extent::new(0, 1)))), (6, 0x29, 0));
    assert_eq!(additional(&nexus.control(&mut shared, &builder::test_unit_ready())), GOOD, "told once");
}

#[test]
fn request_sense_takes_a_pending_attention_as_data() {
    let (mut nexus, mut shared) = (Nexus::fresh(device(), "a"), Shared::default());
    let request = cdb(6, &[(0, 0x03), (4, 252)]);
    let reply = nexus.control(&mut shared, &request);
    assert_eq!(reply.status, Status::Good);
    let builder::Sense { key, code, .. } = builder::sense(&data(&reply)).unwrap();
    assert_eq!((key as u8, code.0), (6, 0x29));
    let builder::Sense { key, .. } = builder::sense(&data(&nexus.control(&mut shared, &request))).unwrap();
    assert_eq!(key as u8, 0);
}

/// MODE SELECT (6) of the control page.
fn control_page(flags: u8, protect: u8) -> (Vec<u8>, Vec<u8>) {
    let page = [0x0a, 0x0a, flags, 0x10, protect, 0x40, 0, 0, 0, 0, 0, 0];
    (cdb(6, &[(0, 0x15), (1, 0x10), (4, 16)]), [&[0; 4], &page[..]].concat())
}

#[test]
fn mode_parameters_are_every_nexuss_and_a_reset_restores_them_for_all() {
    let mut shared = Shared::default();
    let (mut first, mut second) = (Nexus::ready(device(), "a"), Nexus::ready(device(), "b"));
    let (select, list) = control_page(0x04, 0x08);
    assert_eq!(additional(&first.send(&mut shared, &select, &list)), GOOD);
    let event = first.server.poll_event().unwrap().event;
    second.hear(event);
    let write = builder::write(Extent::new(0, 1), Durability::Cached);
    assert_eq!(additional(&second.send(&mut shared, &write, &[0; BLOCK])), (6, 0x2a, 1));
    let reply = second.send(&mut shared, &write, &[0; BLOCK]);
    assert_eq!(additional(&reply), (7, 0x27, 0), "write-protected for both");
    assert_eq!(reply.sense.bytes()[0], 0x72, "and the sense data has descriptors");
    assert_eq!(
        first.server.reset_unit([0; 8]),
        Some(volume::VolumeId::new(0, 0)),
        "whose nexuses are to be told"
    );
    second.hear(NexusEvent::LogicalUnitReset);
    for nexus in [&mut first, &mut second] {
        assert_eq!(additional(&nexus.control(&mut shared, &builder::test_unit_ready())), (6, 0x29, 3));
        assert_eq!(additional(&nexus.send(&mut shared, &write, &[0; BLOCK])), GOOD, "as at power-on");
    }
}

#[test]
fn mode_select_changes_nothing_unless_all_of_it_is_right() {
    let (mut nexus, mut shared) = pair();
    let (select, mut list) = control_page(0x04, 0);
    list[3] = 200;
    assert_eq!(
        additional(&nexus.send(&mut shared, &select, &list)),
        (5, 0x1a, 0),
        "descriptors beyond the end"
    );
    let (select, mut list) = control_page(0x04, 0);
    list[7] = 0xf0;
    assert_eq!(additional(&nexus.send(&mut shared, &select, &list)), (5, 0x26, 0), "not changeable");
    assert!(nexus.server.poll_event().is_none());
}

#[test]
fn a_page_and_all_its_subpages_are_that_page() {
    let (mut nexus, mut shared) = pair();
    let page = data(&nexus.control(&mut shared, &cdb(6, &[(0, 0x1a), (2, 0x0a), (4, 255)])));
    let all = nexus.control(&mut shared, &cdb(6, &[(0, 0x1a), (2, 0x0a), (3, 0xff), (4, 255)]));
    assert_eq!(additional(&all), GOOD);
    assert_eq!(data(&all), page);
    let unknown = nexus.control(&mut shared, &cdb(6, &[(0, 0x1a), (2, 0x0a), (3, 0x01), (4, 255)]));
    assert_eq!(additional(&unknown), INVALID_FIELD);
}

fn told(change: volume::reservation::Change) -> NexusEvent {
    let (notices, aborted) = (change.notices.into(), change.aborted.into());
    NexusEvent::Reservations { view: change.view, notices, aborted }
}

#[test]
fn a_reservation_fences_the_other_nexus_and_its_end_is_told() {
    let mut shared = Shared::default();
    let (mut holder, mut other) = (Nexus::ready(device(), "a"), Nexus::ready(device(), "b"));
    let out = |action, kind| cdb(10, &[(0, 0x5f), (1, action), (2, kind), (8, 24)]);
    let keys = |key: u64, new: u64| [&key.to_be_bytes()[..], &new.to_be_bytes(), &[0; 8]].concat();
    for (nexus, key) in [(&mut holder, 1), (&mut other, 2)] {
        assert_eq!(additional(&nexus.send(&mut shared, &out(0, 0), &keys(0, key))), GOOD);
    }
    assert_eq!(additional(&holder.send(&mut shared, &out(1, 1), &keys(1, 0))), GOOD);
    let tell = |shared: &mut Shared, other: &mut Nexus| {
        let change = shared.change.take().unwrap();
        other.hear(told(change));
    };
    tell(&mut shared, &mut other);
    let write = builder::write(Extent::new(0, 1), Durability::Cached);
    assert_eq!(other.send(&mut shared, &write, &[0; BLOCK]).status, Status::ReservationConflict);
    let read = other.control(&mut shared, &builder::read(Extent::new(0, 1)));
    assert_eq!(read.status, Status::Good, "write exclusive lets others read");
    assert_eq!(holder.send(&mut shared, &write, &[0; BLOCK]).status, Status::Good);
    assert_eq!(additional(&holder.send(&mut shared, &out(3, 0), &keys(1, 0))), GOOD);
    tell(&mut shared, &mut other);
    assert_eq!(additional(&other.send(&mut shared, &write, &[0; BLOCK])), (6, 0x2a, 3));
    assert_eq!(other.send(&mut shared, &write, &[0; BLOCK]).status, Status::Good);
}

#[test]
fn a_fenced_nexus_writes_not_one_piece_more() {
    let (mut nexus, mut shared) = pair();
    let command = |cdb| scsi::Command {
        lun: [0; 8],
        cdb,
        data: DataDirection::Out(20 * 512),
        attribute: scsi::TaskAttribute::Simple,
    };
    let write = builder::write(Extent::new(0, 20), Durability::Cached);
    let mut task = scsi::Task::default();
    nexus.server.start(&command(&write), &mut task);
    let step = nexus.server.data_received(&mut task, SharedBuf::from(pattern(20, 1)));
    assert!(matches!(step, Step::Submit { .. }), "the first piece is under way");
    // Somebody else takes an exclusive reservation before it ends.
    let mut holder = Nexus::ready(device(), "b");
    let keys = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    holder.send(&mut shared, &cdb(10, &[(0, 0x5f), (8, 24)]), &keys);
    let key = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    holder.send(&mut shared, &cdb(10, &[(0, 0x5f), (1, 1), (2, 3), (8, 24)]), &key);
    let change = shared.change.take().unwrap();
    nexus.hear(told(change));
    match nexus.server.completed(&mut task, Ok(Outcome::Done)) {
        Step::Complete(reply) => assert_eq!(reply.status, Status::ReservationConflict),
        step => panic!("the write went on: {step:?}"),
    }
}

#[test]
fn what_a_fence_overtook_is_judged_again() {
    let (mut nexus, mut shared) = pair();
    let command =
        |cdb, data| scsi::Command { lun: [0; 8], cdb, data, attribute: scsi::TaskAttribute::Simple };
    let (write, read) =
        (builder::write(Extent::new(0, 1), Durability::Cached), builder::read(Extent::new(0, 1)));
    let begin = |nexus: &mut Nexus, task: &mut scsi::Task| {
        nexus.server.start(&command(&write, DataDirection::Out(512)), task);
        match nexus.server.data_received(task, SharedBuf::from(pattern(1, 1))) {
            Step::Submit { epoch, operation, .. } => (epoch, operation),
            step => panic!("{step:?}"),
        }
    };
    let mut task = scsi::Task::default();
    let (epoch, operation) = begin(&mut nexus, &mut task);
    assert_eq!(epoch, volume::Epoch(0));
    nexus.server.set_epoch(volume::VolumeId::new(0, 0), volume::Epoch(7));
    let Step::Submit { epoch, .. } = nexus.server.refused(&mut task, operation) else { panic!("allowed") };
    assert_eq!(epoch, volume::Epoch(7), "nothing forbids it");
    let (_, operation) = begin(&mut nexus, &mut task);
    let mut reading = scsi::Task::default();
    let step = nexus.server.start(&command(&read, DataDirection::In(512)), &mut reading);
    assert!(matches!(step, Step::Read { epoch: volume::Epoch(7), .. }));
    let mut holder = Nexus::ready(device(), "b");
    let out = |action, kind| cdb(10, &[(0, 0x5f), (1, action), (2, kind), (8, 24)]);
    let keys = |key: u64, new: u64| [&key.to_be_bytes()[..], &new.to_be_bytes(), &[0; 8]].concat();
    holder.send(&mut shared, &out(0, 0), &keys(0, 1));
    holder.send(&mut shared, &out(1, 3), &keys(1, 0));
    nexus.hear(told(shared.change.take().unwrap()));
    let into = Operation::Read { extent: Extent::new(0, 1), into: buf::Buf::zeroed(512) };
    for (mut task, operation) in [(task, operation), (reading, into)] {
        match nexus.server.refused(&mut task, operation) {
            Step::Complete(reply) => assert_eq!(reply.status, Status::ReservationConflict),
            step => panic!("a fenced nexus goes on: {step:?}"),
        }
    }
}

#[test]
fn mode_parameters_that_were_on_their_way_when_the_nexus_was_fenced_change_nothing() {
    let (mut nexus, mut shared) = pair();
    let (select, list) = control_page(0x04, 0x08);
    let data = DataDirection::Out(16);
    let command = scsi::Command { lun: [0; 8], cdb: &select, data, attribute: scsi::TaskAttribute::Simple };
    let mut task = scsi::Task::default();
    assert!(matches!(nexus.server.start(&command, &mut task), Step::ReceiveData { .. }));
    let mut holder = Nexus::ready(device(), "b");
    let out = |action, kind| cdb(10, &[(0, 0x5f), (1, action), (2, kind), (8, 24)]);
    let keys = |key: u64, new: u64| [&key.to_be_bytes()[..], &new.to_be_bytes(), &[0; 8]].concat();
    holder.send(&mut shared, &out(0, 0), &keys(0, 1));
    holder.send(&mut shared, &out(1, 1), &keys(1, 0));
    nexus.hear(told(shared.change.take().unwrap()));
    match nexus.server.data_received(&mut task, SharedBuf::from(list)) {
        Step::Complete(reply) => assert_eq!(reply.status, Status::ReservationConflict, "SPC-4 table 67"),
        step => panic!("{step:?}"),
    }
    assert!(nexus.server.poll_event().is_none());
}

#[test]
fn every_unit_attention_is_told_once_and_none_is_lost() {
    let (mut nexus, mut shared) = pair();
    let registrant = Registrant::Host { identifier: [7; 16], nqn: "nqn.2014-08.org.example:seven".into() };
    nexus.server = scsi::DeviceServer::new(Arc::new(device()), registrant.clone());
    nexus.control(&mut shared, &builder::test_unit_ready());
    let reserved = |notices: &[Notice]| NexusEvent::Reservations {
        view: Arc::default(),
        notices: notices.iter().map(|notice| (registrant.clone(), *notice)).collect(),
        aborted: Arc::new([]),
    };
    // Every kind that there is, and twice over: the second of a kind merges with the first, as nothing has told it yet (SAM-5 §5.14).
    for _ in 0..2 {
        nexus.hear(NexusEvent::TaskSetCleared);
        nexus.hear(reserved(&[Notice::Released, Notice::Preempted, Notice::Cleared]));
        nexus.hear(NexusEvent::CapacityChanged(device().units[0].geometry));
        nexus.hear(NexusEvent::ModeParametersChanged(scsi::ModeState::default()));
        nexus.hear(NexusEvent::LogicalUnitReset);
    }
    let ready = builder::test_unit_ready();
    let told: Vec<_> = (0..7).map(|_| additional(&nexus.control(&mut shared, &ready))).collect();
    let expected = [(0x2a, 4), (0x2a, 5), (0x2a, 3), (0x2a, 9), (0x2a, 1), (0x29, 3)];
    let expected: Vec<_> = expected.iter().map(|(code, qualifier)| (6, *code, *qualifier)).collect();
    assert_eq!(told, [&expected[..], &[GOOD]].concat());
}
