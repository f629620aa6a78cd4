//! Reservations over SCSI: what each type leaves to its holder, to another registrant and to a stranger (SPC-4 table 67, SBC-4
//! table 10), command by command.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::{BLOCK, Nexus, Shared, additional, cdb, device};
use scsi::{NexusEvent, Status, builder};
use volume::reservation::{Command, ReservationType};
use volume::{Durability, Extent};

/// What a command needs of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    Reading,
    Writing,
}

/// A command's name, what it needs, its CDB, and the data that goes with it.
type Row = (&'static str, Needs, Vec<u8>, Option<Vec<u8>>);

fn rows() -> Vec<Row> {
    use Needs::{Nothing, Reading, Writing};
    let block = Extent::new(0, 1);
    let wide = |cdb: builder::Block| cdb.to_vec();
    let data = || Some(vec![0; BLOCK]);
    vec![
        ("TEST UNIT READY", Nothing, cdb(6, &[]), None),
        ("INQUIRY", Nothing, cdb(6, &[(0, 0x12), (4, 36)]), None),
        ("REPORT LUNS", Nothing, wide(builder::report_luns(16)), None),
        ("READ CAPACITY", Nothing, wide(builder::read_capacity(32)), None),
        ("PERSISTENT RESERVE IN", Nothing, wide(builder::reserve_in(1024)), None),
        ("START STOP UNIT, start", Nothing, cdb(6, &[(0, 0x1b), (4, 1)]), None),
        ("START STOP UNIT, stop", Writing, cdb(6, &[(0, 0x1b)]), None),
        ("PREVENT ALLOW MEDIUM REMOVAL, allow", Nothing, cdb(6, &[(0, 0x1e)]), None),
        ("PREVENT ALLOW MEDIUM REMOVAL, prevent", Writing, cdb(6, &[(0, 0x1e), (4, 1)]), None),
        ("MODE SENSE", Reading, wide(builder::mode_sense_caching(64)), None),
        ("REPORT SUPPORTED OPERATION CODES", Reading, cdb(12, &[(0, 0xa3), (1, 0x0c), (8, 8)]), None),
        ("READ", Reading, wide(builder::read(block)), None),
        ("VERIFY", Reading, wide(builder::verify(block, builder::ByteCheck::Medium)), None),
        ("GET LBA STATUS", Reading, wide(builder::lba_status(0, 24)), None),
        ("WRITE", Writing, wide(builder::write(block, Durability::Cached)), data()),
        ("SYNCHRONIZE CACHE", Writing, wide(builder::synchronize_cache()), None),
        ("UNMAP", Writing, wide(builder::unmap()), Some(builder::unmap_list(block).to_vec())),
        ("WRITE SAME", Writing, wide(builder::write_same(block, builder::Unmap::Never)), data()),
        (
            "COMPARE AND WRITE",
            Writing,
            wide(builder::compare_and_write(block, Durability::Cached)),
            Some(vec![0; 2 * BLOCK]),
        ),
    ]
}

/// Three nexuses: one holds a reservation of `kind`, another is registered, the third is neither.
fn three(kind: ReservationType) -> ([Nexus; 3], Shared) {
    let mut shared = Shared::default();
    let mut all = ["a", "b", "c"].map(|name| Nexus::ready(device(), name));
    let register = |new_key| Command::Register { key: None, new_key, persist: None };
    change(&mut all, 0, &mut shared, &register(1));
    change(&mut all, 1, &mut shared, &register(2));
    change(&mut all, 0, &mut shared, &Command::Reserve { key: 1, kind });
    (all, shared)
}

/// One nexus changes the reservations, and the others hear of it.
fn change(all: &mut [Nexus; 3], who: usize, shared: &mut Shared, command: &Command) {
    let builder::ReserveOut { cdb, list } = builder::reserve_out(command);
    assert_eq!(additional(&all[who].send(shared, &cdb, &list)), (0, 0, 0), "{command:?}");
    let change = shared.change.take().unwrap();
    for (index, nexus) in all.iter_mut().enumerate() {
        if index != who {
            let (view, notices) = (change.view.clone(), change.notices.clone().into());
            nexus.hear(NexusEvent::Reservations { view, notices, aborted: change.aborted.clone().into() });
        }
    }
}

#[test]
fn every_command_of_every_role_under_every_type() {
    for kind in ReservationType::ALL {
        let (mut all, mut shared) = three(kind);
        let exclusive = [ReservationType::WriteExclusive, ReservationType::ExclusiveAccess].contains(&kind);
        let reads_stay = matches!(
            kind,
            ReservationType::WriteExclusive
                | ReservationType::WriteExclusiveRegistrants
                | ReservationType::WriteExclusiveAll
        );
        for (role, nexus) in all.iter_mut().enumerate() {
            let writes = role == 0 || role == 1 && !exclusive;
            for (name, needs, cdb, data) in rows() {
                let reply = match data {
                    Some(data) => nexus.send(&mut shared, &cdb, &data),
                    None => nexus.control(&mut shared, &cdb),
                };
                let allowed = match needs {
                    Needs::Nothing => true,
                    Needs::Reading => writes || reads_stay,
                    Needs::Writing => writes,
                };
                let wanted = if allowed { Status::Good } else { Status::ReservationConflict };
                assert_eq!(reply.status, wanted, "{name} of nexus {role} under {kind:?}");
            }
        }
    }
}
