//! Commands for a device server, and answers for an initiator.

use std::sync::Arc;

use buf::{Buf, SharedBuf};
use scsi::{
    Command, DataDirection, DeviceServer, LogicalUnit, Step, TargetDevice, TaskAttribute, UnitIdentity,
};
use volume::reservation::{Registrant, Reservations};
use volume::{Features, Geometry, Limits, Request, Tag, VolumeId};

use super::answer;

/// A command that needs more steps than this runs without end.
const MOST_STEPS: usize = 100_000;
/// Blocks of the disk: few, so that many addresses are in range.
const BLOCKS: u64 = 4096;

/// A target with one disk that does everything.
pub(super) fn device() -> Arc<TargetDevice> {
    let identity = UnitIdentity {
        vendor: "LINERATE".to_owned(),
        product: "VOLUME".to_owned(),
        revision: "0".to_owned(),
        serial: "1".into(),
        naa: [0x30; 8],
        uuid: [7; 16],
    };
    let unit = LogicalUnit {
        lun: 0,
        volume: VolumeId(0),
        geometry: Geometry { blocks: BLOCKS, block_size: 512, physical_block_size: 4096 },
        limits: Limits { max_transfer: 1 << 16, ..Limits::default() },
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
        run(&mut server, &mut reservations, (&command, fill));
    }
}

fn run(server: &mut DeviceServer, reservations: &mut Reservations, (command, fill): (&Command<'_>, u8)) {
    let (mut task, mut step) = server.start(command);
    for _ in 0..MOST_STEPS {
        step = match step {
            Step::Complete(_) => return,
            Step::ReceiveData { length } => {
                let mut data = Buf::zeroed(usize::try_from(length).unwrap_or(0));
                data.fill(fill);
                server.data_received(&mut task, data.freeze())
            }
            Step::Read { length, .. } => {
                let zeros = SharedBuf::from(vec![0; usize::try_from(length).unwrap_or(0)]);
                server.completed(&mut task, Ok(volume::Outcome::Data(zeros)))
            }
            Step::Submit { operation, .. } => {
                let done = answer(Request { tag: Tag(0), operation });
                server.completed(&mut task, done.result)
            }
            Step::Reserve { registrant, command, .. } => {
                let result = reservations.apply(&registrant, &command).map(|change| change.view);
                server.reserved(&mut task, result)
            }
        };
    }
    assert!(matches!(step, Step::Complete(_)), "a command did not end: {:?}", command.cdb);
}

/// What an initiator reads of a target's answers.
pub fn answers(bytes: &[u8]) {
    std::hint::black_box((
        scsi::builder::capacity(bytes),
        scsi::builder::block_limits(bytes),
        scsi::builder::caching(bytes),
        scsi::builder::first_status(bytes),
        scsi::builder::sense(bytes),
        scsi::builder::request_error(bytes),
    ));
}
