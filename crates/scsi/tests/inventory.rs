//! Logical units that come and go while a nexus is there: what it is told, what it keeps, and that no command finds another unit than its own.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::sync::Arc;

use buf::SharedBuf;
use common::{Nexus, Shared, additional, cdb, data, device, nexus, pattern};
use scsi::{
    Command, DataDirection, DeviceServer, LogicalUnit, ModeState, NexusEvent, Reply, Status, Step,
    TargetDevice, Task, TaskAttribute, builder, decode_lun, encode_lun,
};
use volume::{Durability, Epoch, Extent, Outcome, VolumeId};

const GOOD: (u8, u8, u8) = (0, 0, 0);
const POWER_ON: (u8, u8, u8) = (6, 0x29, 0);
const CAPACITY_CHANGED: (u8, u8, u8) = (6, 0x2a, 9);
const REPORTED_LUNS_CHANGED: (u8, u8, u8) = (6, 0x3f, 0x0e);
const NOT_SUPPORTED: (u8, u8, u8) = (5, 0x25, 0);

/// A target with units of these numbers, each on the volume in that slot.
fn units(shown: &[(u16, u16)]) -> Arc<TargetDevice> {
    let plain = device();
    let unit = |&(lun, slot): &(u16, u16)| LogicalUnit {
        lun,
        volume: VolumeId::new(slot, 0),
        ..plain.units[0].clone()
    };
    Arc::new(TargetDevice { units: shown.iter().map(unit).collect(), ..plain.clone() })
}

/// A nexus whose power-on attentions are out of the way.
fn ready(shown: &[(u16, u16)]) -> DeviceServer {
    let mut server = DeviceServer::new(units(shown), nexus("a"));
    for (lun, _) in shown {
        assert_eq!(check(&mut server, *lun), POWER_ON);
    }
    server
}

fn command(lun: u16, cdb: &[u8], data: DataDirection) -> Command<'_> {
    Command { lun: encode_lun(lun), cdb, data, attribute: TaskAttribute::Simple }
}

/// The answer to a command that ends at once.
fn ask(server: &mut DeviceServer, lun: u16, cdb: &[u8]) -> Reply {
    match server.start(&command(lun, cdb, DataDirection::In(1 << 16)), &mut Task::default()) {
        Step::Complete(reply) => reply,
        step => panic!("{step:?}"),
    }
}

/// What TEST UNIT READY finds.
fn check(server: &mut DeviceServer, lun: u16) -> (u8, u8, u8) {
    additional(&ask(server, lun, &builder::test_unit_ready()))
}

/// What TEST UNIT READY finds until it is GOOD, or the unit is not there.
fn found(server: &mut DeviceServer, lun: u16) -> Vec<(u8, u8, u8)> {
    let mut found = Vec::new();
    loop {
        match check(server, lun) {
            GOOD => return found,
            NOT_SUPPORTED => return [found, vec![NOT_SUPPORTED]].concat(),
            other => found.push(other),
        }
    }
}

fn report_luns(select: u8) -> Vec<u8> {
    cdb(12, &[(0, 0xa0), (2, select), (8, 1)])
}

/// The numbers that REPORT LUNS lists.
fn reported(server: &mut DeviceServer) -> Vec<u16> {
    let bytes = data(&ask(server, 0, &report_luns(0)));
    bytes[8..].chunks_exact(8).map(|lun| decode_lun(lun.try_into().unwrap()).unwrap()).collect()
}

#[test]
fn table_of_changes() {
    /// Units before and after, and what TEST UNIT READY finds at the numbers 0 to 3 then.
    type Row<'a> = (&'a [(u16, u16)], &'a [(u16, u16)], [&'a [(u8, u8, u8)]; 4]);
    const NONE: &[(u8, u8, u8)] = &[NOT_SUPPORTED];
    const KEPT: &[(u8, u8, u8)] = &[REPORTED_LUNS_CHANGED];
    const NEW: &[(u8, u8, u8)] = &[POWER_ON, REPORTED_LUNS_CHANGED];
    let rows: &[Row<'_>] = &[
        // Nothing has changed, although it is another state of the device: nobody is told anything.
        (&[(0, 0), (1, 1)], &[(0, 0), (1, 1)], [&[], &[], NONE, NONE]),
        // One has come.
        (&[(0, 0)], &[(0, 0), (2, 2)], [KEPT, NONE, NEW, NONE]),
        // One has gone, the first, in the middle, the last.
        (&[(0, 0), (1, 1), (2, 2)], &[(1, 1), (2, 2)], [NONE, KEPT, KEPT, NONE]),
        (&[(0, 0), (1, 1), (2, 2)], &[(0, 0), (2, 2)], [KEPT, NONE, KEPT, NONE]),
        (&[(0, 0), (1, 1), (2, 2)], &[(0, 0), (1, 1)], [KEPT, KEPT, NONE, NONE]),
        // Another volume under the same number, and the same volume under another.
        (&[(0, 0), (1, 1)], &[(0, 0), (1, 7)], [KEPT, NEW, NONE, NONE]),
        (&[(0, 0), (1, 1)], &[(0, 0), (3, 1)], [KEPT, NONE, NONE, NEW]),
        (&[(0, 0), (1, 1)], &[(0, 1), (1, 0)], [NEW, NEW, NONE, NONE]),
        // All have gone, and some come where there were none.
        (&[(0, 0), (1, 1)], &[], [NONE; 4]),
        (&[], &[(0, 0), (3, 3)], [NEW, NONE, NONE, NEW]),
    ];
    for (before, after, expected) in rows {
        let mut server = ready(before);
        let removed = server.replace(units(after));
        assert_eq!(
            removed.len(),
            before.iter().filter(|unit| !after.contains(unit)).count(),
            "{before:?} {after:?}"
        );
        for (lun, expected) in (0..).zip(expected) {
            assert_eq!(found(&mut server, lun), *expected, "LUN {lun}: {before:?} {after:?}");
        }
        assert_eq!(reported(&mut server), after.iter().map(|(lun, _)| *lun).collect::<Vec<_>>());
        for slot in 0..8 {
            let uses = after.iter().any(|(_, used)| *used == slot);
            assert_eq!(server.uses(VolumeId::new(slot, 0)), uses, "slot {slot}: {before:?} {after:?}");
        }
    }
}

#[test]
fn whoever_is_told_all_units_needs_no_attention_any_more() {
    for (select, expected) in [(0, GOOD), (2, GOOD), (1, REPORTED_LUNS_CHANGED)] {
        for asked_at in [0, 1, 9] {
            let mut server = ready(&[(0, 0), (1, 1), (2, 2)]);
            server.replace(units(&[(0, 0), (1, 1)]));
            assert_eq!(ask(&mut server, asked_at, &report_luns(select)).status, Status::Good);
            assert_eq!(check(&mut server, 0), expected, "SELECT REPORT {select} at LUN {asked_at}");
            assert_eq!(check(&mut server, 1), expected, "SELECT REPORT {select} at LUN {asked_at}");
        }
    }
    // One that is refused tells nothing.
    let mut server = ready(&[(0, 0), (1, 1)]);
    server.replace(units(&[(0, 0)]));
    assert_eq!(ask(&mut server, 0, &report_luns(3)).status, Status::CheckCondition);
    assert_eq!(check(&mut server, 0), REPORTED_LUNS_CHANGED);
}

#[test]
fn changes_that_nobody_has_asked_about_are_told_once() {
    let mut server = ready(&[(0, 0), (1, 1)]);
    server.replace(units(&[(0, 0)]));
    server.replace(units(&[(0, 0), (1, 1)]));
    server.replace(units(&[(0, 0), (1, 1), (2, 2)]));
    assert_eq!(found(&mut server, 0), [REPORTED_LUNS_CHANGED]);
    assert_eq!(found(&mut server, 1), [POWER_ON, REPORTED_LUNS_CHANGED]);
}

/// Somebody else holds the volume exclusively from now on.
fn reserved() -> NexusEvent {
    let (mut holder, mut shared) = (Nexus::ready(device(), "b"), Shared::default());
    let out = |action, kind| cdb(10, &[(0, 0x5f), (1, action), (2, kind), (8, 24)]);
    let keys = |key: u64, new: u64| [&key.to_be_bytes()[..], &new.to_be_bytes(), &[0; 8]].concat();
    holder.send(&mut shared, &out(0, 0), &keys(0, 1));
    holder.send(&mut shared, &out(1, 3), &keys(1, 0));
    let view = shared.change.take().unwrap().view;
    NexusEvent::Reservations { view, notices: Arc::new([]), aborted: Arc::new([]) }
}

fn read(server: &mut DeviceServer, lun: u16) -> Step {
    let cdb = builder::read(Extent::new(0, 1));
    server.start(&command(lun, &cdb, DataDirection::In(512)), &mut Task::default())
}

#[test]
fn a_unit_that_stays_keeps_what_the_nexus_knows_of_it() {
    let volume = VolumeId::new(1, 0);
    let mut server = ready(&[(0, 9), (1, 1)]);
    server.set_epoch(volume, Epoch(7));
    server.handle_event(
        volume,
        NexusEvent::ModeParametersChanged(ModeState { descriptor_sense: true, ..ModeState::default() }),
    );
    server.replace(units(&[(1, 1), (5, 5)]));
    let bytes = |reply: Reply| reply.sense.bytes()[0];
    assert_eq!(bytes(ask(&mut server, 1, &builder::test_unit_ready())), 0x72, "descriptor format");
    assert_eq!(found(&mut server, 1), [REPORTED_LUNS_CHANGED], "behind what was pending before");
    let Step::Read { volume: at, epoch, .. } = read(&mut server, 1) else { panic!("nothing forbids it") };
    assert_eq!((at, epoch), (volume, Epoch(7)));
    server.handle_event(volume, reserved());
    server.replace(units(&[(1, 1)]));
    assert_eq!(found(&mut server, 1), [REPORTED_LUNS_CHANGED]);
    let Step::Complete(reply) = read(&mut server, 1) else { panic!("it is reserved") };
    assert_eq!(reply.status, Status::ReservationConflict);
}

#[test]
fn a_unit_that_comes_hears_of_its_volume_from_then_on() {
    let volume = VolumeId::new(3, 0);
    let mut server = ready(&[(0, 0)]);
    server.set_epoch(volume, Epoch(4));
    server.replace(units(&[(0, 0), (3, 3)]));
    assert_eq!(found(&mut server, 3), [POWER_ON, REPORTED_LUNS_CHANGED]);
    server.set_epoch(volume, Epoch(5));
    let Step::Read { epoch, .. } = read(&mut server, 3) else { panic!("nothing forbids it") };
    assert_eq!(epoch, Epoch(5));
    server.handle_event(volume, reserved());
    let Step::Complete(reply) = read(&mut server, 3) else { panic!("it is reserved") };
    assert_eq!(reply.status, Status::ReservationConflict);
}

#[test]
fn a_size_that_is_another_is_told_and_taken() {
    let mut server = ready(&[(0, 0), (1, 1)]);
    let mut larger = TargetDevice::clone(&units(&[(0, 0), (1, 1)]));
    larger.units[1].geometry.blocks *= 2;
    let blocks = larger.units[1].geometry.blocks;
    server.replace(Arc::new(larger));
    assert_eq!((found(&mut server, 0), found(&mut server, 1)), (vec![], vec![CAPACITY_CHANGED]));
    let capacity = data(&ask(&mut server, 1, &cdb(16, &[(0, 0x9e), (1, 0x10), (13, 32)])));
    assert_eq!(u64::from_be_bytes(capacity[..8].try_into().unwrap()), blocks - 1);
}

/// A write that waits for its data, one that waits for the volume, and one that a fence gave back, of a unit that goes meanwhile; another volume
/// comes into its number and its place.
#[test]
fn a_task_never_finds_another_unit_than_its_own() {
    for after in [&[(0, 0)][..], &[(0, 0), (1, 7)], &[(0, 0), (2, 7)]] {
        let mut server = ready(&[(0, 0), (1, 1)]);
        let write = builder::write(Extent::new(0, 20), Durability::Cached);
        let direction = DataDirection::Out(20 * 512);
        let begin = |server: &mut DeviceServer| {
            let mut task = Task::default();
            assert!(matches!(
                server.start(&command(1, &write, direction), &mut task),
                Step::ReceiveData { .. }
            ));
            task
        };
        let written = || SharedBuf::from(pattern(20, 1));
        let (mut waits, mut works, mut overtaken) =
            (begin(&mut server), begin(&mut server), begin(&mut server));
        assert!(matches!(server.data_received(&mut works, written()), Step::Submit { .. }));
        let Step::Submit { operation, .. } = server.data_received(&mut overtaken, written()) else {
            panic!("nothing forbids it")
        };
        let removed = server.replace(units(after));
        assert_eq!(removed, [waits.place()]);
        assert_eq!([works.place(), overtaken.place()], [waits.place(); 2]);
        for step in [
            server.data_received(&mut waits, written()),
            server.completed(&mut works, Ok(Outcome::Done)),
            server.refused(&mut overtaken, operation),
        ] {
            let Step::Complete(reply) = step else { panic!("it goes on elsewhere: {step:?}") };
            assert_eq!(additional(&reply), NOT_SUPPORTED, "{after:?}");
        }
        assert_ne!(Task::default().place(), waits.place());
    }
}
