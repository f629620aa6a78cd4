//! Commands for a device server, and answers for an initiator.

use std::sync::Arc;

use buf::SharedBuf;
use scsi::{
    Command, DataDirection, DeviceServer, LogicalUnit, NexusEvent, Reply, Sense, Status, Step, TargetDevice,
    TaskAttribute, UnitIdentity,
};
use volume::reservation::{Registrant, Reservations};
use volume::{Extent, Features, Geometry, Limits, Operation, Request, Tag, VolumeId};

use super::answer;

/// A command that needs more steps than this runs without end.
const MOST_STEPS: usize = 100_000;
/// Blocks of the disk: few, so that many addresses are in range.
const BLOCKS: u64 = 4096;
/// Bytes in one transfer: few, so that commands are carried out in pieces.
const MOST_TRANSFER: u32 = 1 << 16;

/// A target with one disk that does everything.
pub(super) fn device() -> Arc<TargetDevice> {
    let identity = UnitIdentity {
        vendor: "LINERATE".to_owned(),
        product: "VOLUME".to_owned(),
        revision: "0".to_owned(),
        serial: "1".into(),
        naa: [0x30; 8],
        uuid: [7; 16],
        incarnation: Some([0xe1; 16]),
    };
    let unit = LogicalUnit {
        lun: 0,
        volume: VolumeId::new(0, 0),
        geometry: Geometry { blocks: BLOCKS, block_size: 512, physical_block_size: 4096 },
        limits: Limits { max_transfer: MOST_TRANSFER, ..Limits::default() },
        features: Features::all().difference(Features::READ_ONLY),
        identity,
    };
    Arc::new(TargetDevice {
        port_name: "iqn.2026-11.org.linerate:disk,t,0x0001".into(),
        device_name: "iqn.2026-11.org.linerate:disk".into(),
        relative_port: 1,
        port_group: 1,
        units: vec![unit],
    })
}

fn nexus() -> Registrant {
    Registrant::Nexus {
        initiator_port: "iqn.fuzz".into(),
        target_port: "iqn.target".into(),
        relative_port: 1,
    }
}

/// Commands of 24 bytes each: a CDB, which way its data goes, and the data's first byte.
pub fn command(bytes: &[u8]) {
    let mut server = DeviceServer::new(device(), nexus());
    let mut reservations = Reservations::default();
    for record in bytes.chunks(24).take(32) {
        let (cdb, rest) = record.split_at(record.len().min(16));
        let &[way, a, b, c, lun, fill, ..] = rest else { return };
        let length = u32::from_be_bytes([0, a % 4, b, c]);
        let data = match way % 3 {
            0 => DataDirection::None,
            1 => DataDirection::In(length),
            _ => DataDirection::Out(length),
        };
        let lun = [0, lun % 2, 0, 0, 0, 0, 0, 0];
        let command = Command { lun, cdb, data, attribute: TaskAttribute::Simple };
        run(&mut server, &mut reservations, (&command, &[fill]));
    }
}

/// Runs one command whose data is `list`, repeated as often as it takes.
///
/// # Panics
/// When the command does not end, or what it asks of the volume is not within the volume: that is what the fuzzer looks for.
fn run(
    server: &mut DeviceServer,
    reservations: &mut Reservations,
    (command, list): (&Command<'_>, &[u8]),
) -> Option<Reply> {
    let mut task = scsi::Task::default();
    let mut step = server.start(command, &mut task);
    for _ in 0..MOST_STEPS {
        step = match step {
            Step::Complete(reply) => {
                check_reply(&reply);
                return Some(reply);
            }
            Step::ReceiveData { length } => {
                assert!(matches!(command.data, DataDirection::Out(most) if length <= most));
                let length = usize::try_from(length).unwrap_or(0);
                let data: Vec<u8> = list.iter().copied().cycle().take(length).collect();
                server.data_received(&mut task, SharedBuf::from(data))
            }
            Step::Read { extent, length, .. } => {
                check_extent(extent, Some(length.into()));
                let zeros = SharedBuf::from(vec![0; usize::try_from(length).unwrap_or(0)]);
                server.completed(&mut task, Ok(volume::Outcome::Data(zeros.into())))
            }
            Step::Submit { operation, .. } => {
                check_operation(&operation);
                let done = answer(Request { tag: Tag(0), operation });
                server.completed(&mut task, done.result)
            }
            Step::Reserve { registrant, command, .. } => {
                let result = reservations.apply(&registrant, &command);
                let result = result.map(|change| {
                    let (notices, aborted) = (change.notices.into(), change.aborted.into());
                    let event = NexusEvent::Reservations { view: change.view, notices, aborted };
                    server.handle_event(VolumeId::new(0, 0), event);
                });
                server.reserved(&mut task, result)
            }
        };
    }
    assert!(matches!(step, Step::Complete(_)), "a command did not end: {:?}", command.cdb);
    None
}

fn check_extent(extent: Extent, bytes: Option<u64>) {
    let end = extent.end();
    assert!(end.is_some_and(|end| end <= BLOCKS), "{extent:?} is not within the volume");
    if let Some(bytes) = bytes {
        assert_eq!(bytes, extent.blocks * 512, "{extent:?}");
        assert!(bytes <= u64::from(MOST_TRANSFER), "{extent:?} is longer than one transfer");
    }
}

fn check_operation(operation: &Operation) {
    let Some(extent) = operation.extent() else { return };
    let length = match operation {
        Operation::Write { data, .. } | Operation::Compare { data, .. } => Some(data.len()),
        Operation::CompareAndWrite { data, .. } => {
            assert_eq!(data.compare.len(), data.write.len());
            Some(data.write.len())
        }
        _ => None,
    };
    check_extent(extent, length.and_then(|length| u64::try_from(length).ok()));
}

/// Sense data is there exactly when the status says so, and an initiator can read it.
fn check_reply(reply: &Reply) {
    let sense = scsi::builder::sense(reply.sense.bytes());
    assert_eq!(sense.is_some(), reply.status == Status::CheckCondition, "{reply:?}");
    assert!(reply.sense.bytes().len() <= Sense::MAX);
    let moved = u64::try_from(reply.data.len()).unwrap_or(u64::MAX);
    assert!(moved <= reply.full_length, "{moved} bytes are more than the whole of {}", reply.full_length);
}

/// The commands whose parameter lists a device server takes apart: MODE SELECT (6) and (10), PERSISTENT RESERVE OUT, UNMAP,
/// WRITE SAME (16) and COMPARE AND WRITE.
const WITH_LISTS: [u8; 6] = [0x15, 0x55, 0x5f, 0x42, 0x93, 0x89];

/// The CDB of a command with a parameter list of `length` bytes; `choice` fills the fields that choose what it does.
fn with_list(opcode: u8, choice: u8, length: u8) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    match opcode {
        0x15 => (cdb[1], cdb[4]) = (0x10 | choice & 1, length),
        0x55 => (cdb[1], cdb[8]) = (0x10 | choice & 1, length),
        0x5f => (cdb[1], cdb[2], cdb[8]) = (choice & 7, choice >> 4, length),
        0x42 => cdb[8] = length,
        0x93 => (cdb[1], cdb[13]) = (choice & 0x1f, length),
        _ => (cdb[1], cdb[13]) = (choice & 0x08, length & 7),
    }
    cdb
}

/// Parameter lists, each behind three bytes: which command, what it is to do, and how long the list is.
///
/// # Panics
/// When the mode pages that a unit shows are not ones that it takes: that is what the fuzzer looks for.
pub fn parameter_lists(bytes: &[u8]) {
    let mut server = DeviceServer::new(device(), nexus());
    let mut reservations = Reservations::default();
    // A new nexus is told first that the unit was powered on.
    send(&mut server, &mut reservations, ([0; 16], DataDirection::None, &[]));
    let mut rest = bytes;
    for _ in 0..32 {
        let Some((&[which, choice, length], after)) = rest.split_first_chunk() else { break };
        let (list, after) = after.split_at(after.len().min(length.into()));
        rest = after;
        let Some(&opcode) = WITH_LISTS.get(usize::from(which) % WITH_LISTS.len()) else { break };
        let blocks = matches!(opcode, 0x93 | 0x89);
        let expected = if blocks { 512 * (2 * u32::from(length & 7)).max(1) } else { length.into() };
        let list = if list.is_empty() { &[0][..] } else { list };
        let cdb = with_list(opcode, choice, length);
        send(&mut server, &mut reservations, (cdb, DataDirection::Out(expected), list));
        show_and_take(&mut server, &mut reservations);
    }
}

type Sent<'a> = ([u8; 16], DataDirection, &'a [u8]);

fn send(
    server: &mut DeviceServer,
    reservations: &mut Reservations,
    (cdb, data, list): Sent<'_>,
) -> Option<Reply> {
    let command = Command { lun: [0; 8], cdb: &cdb, data, attribute: TaskAttribute::Simple };
    run(server, reservations, (&command, list))
}

/// MODE SENSE (6) of every page, given back by MODE SELECT (6) as it is.
fn show_and_take(server: &mut DeviceServer, reservations: &mut Reservations) {
    let mut cdb = [0; 16];
    cdb[..6].copy_from_slice(&[0x1a, 0, 0x3f, 0, 252, 0]);
    let Some(shown) = send(server, reservations, (cdb, DataDirection::In(252), &[])) else { return };
    if shown.status != Status::Good {
        return;
    }
    let mut list = vec![0; shown.data.len()];
    shown.data.copy_to(&mut list);
    assert_eq!(list.first().map(|length| usize::from(*length) + 1), Some(list.len()));
    if let Some(length) = list.first_mut() {
        *length = 0;
    }
    let length = u8::try_from(list.len()).unwrap_or(0);
    let cdb = with_list(0x15, 0, length);
    let taken = send(server, reservations, (cdb, DataDirection::Out(length.into()), &list));
    assert!(taken.is_none_or(|reply| reply.status == Status::Good), "{list:02x?} is not taken back");
}

/// What an initiator reads of a target's answers.
///
/// # Panics
/// When an answer is taken that no disk gives, or a LUN is not written as it is read: that is what the fuzzer looks for.
pub fn answers(bytes: &[u8]) {
    if let Some(scsi::builder::Capacity { geometry, .. }) = scsi::builder::capacity(bytes) {
        assert!(matches!(geometry.block_size, 512 | 4096), "{geometry:?}");
        assert!(geometry.physical_block_size >= geometry.block_size, "{geometry:?}");
        assert!(geometry.physical_block_size.is_multiple_of(geometry.block_size), "{geometry:?}");
    }
    if let Some(scsi::builder::Sense { key, .. }) = scsi::builder::sense(bytes) {
        assert_eq!(scsi::SenseKey::from_wire(key as u8), Some(key));
    }
    if let Some(lun) = bytes.first_chunk().copied().and_then(scsi::decode_lun) {
        assert_eq!(scsi::decode_lun(scsi::encode_lun(lun)), Some(lun));
    }
    std::hint::black_box((
        scsi::builder::block_limits(bytes),
        scsi::builder::caching(bytes),
        scsi::builder::first_status(bytes),
        scsi::builder::request_error(bytes),
    ));
}
