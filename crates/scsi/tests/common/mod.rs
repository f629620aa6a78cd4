//! A transport in a few lines: it does what each step says, against a disk in memory.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each test file uses its part; a test fails by panicking"
)]

use std::sync::Arc;

use buf::{BufList, SharedBuf};
use scsi::{
    Command, DataDirection, DeviceServer, LogicalUnit, NexusEvent, Reply, Status, Step, TargetDevice,
    TaskAttribute, UnitIdentity, encode_lun,
};
use volume::reservation::{Change, Registrant, Reservations};
use volume::{Allocation, Extent, Features, Geometry, Limits, Operation, Outcome, VolumeErrorKind, VolumeId};

/// Bytes in a block.
pub(crate) const BLOCK: usize = 512;
/// Blocks of the disk.
pub(crate) const BLOCKS: u64 = 256;
/// Blocks that one request to the volume may move: few, so that commands are split.
pub(crate) const PIECE: u64 = 8;
/// A command that needs more steps than this runs without end.
const MOST_STEPS: usize = 10_000;

/// A target with one disk, LUN 0, that does everything.
pub(crate) fn device() -> TargetDevice {
    let identity = UnitIdentity {
        vendor: "LINERATE".to_owned(),
        product: "VOLUME".to_owned(),
        revision: "0.1".to_owned(),
        serial: "12345678".into(),
        naa: [0x31, 2, 3, 4, 5, 6, 7, 8],
        uuid: [9; 16],
        incarnation: Some([0xe1; 16]),
    };
    let max_transfer = u32::try_from(PIECE).unwrap() * 512;
    let unit = LogicalUnit {
        lun: 0,
        volume: VolumeId::new(0, 0),
        geometry: Geometry { blocks: BLOCKS, block_size: 512, physical_block_size: 4096 },
        limits: Limits { max_transfer, discard_granularity: 8, max_discard: 16, ..Limits::default() },
        features: Features::all().difference(Features::READ_ONLY),
        identity,
    };
    TargetDevice {
        port_name: "iqn.2026-11.org.linerate:disk,t,0x0001".into(),
        device_name: "iqn.2026-11.org.linerate:disk".into(),
        relative_port: 1,
        port_group: 1,
        units: vec![unit],
    }
}

/// An I_T nexus by its initiator's name.
pub(crate) fn nexus(initiator: &str) -> Registrant {
    Registrant::Nexus { initiator_port: initiator.into(), target_port: "target".into(), relative_port: 1 }
}

/// The disk.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) bytes: Vec<u8>,
    mapped: Vec<bool>,
    /// Every request so far, in a word.
    pub(crate) log: Vec<String>,
    /// After so many more reads somebody else has changed what was read.
    pub(crate) changes_after_reads: usize,
}

impl Default for Disk {
    fn default() -> Self {
        let blocks = usize::try_from(BLOCKS).unwrap();
        Self {
            bytes: vec![0; blocks * BLOCK],
            mapped: vec![false; blocks],
            log: Vec::new(),
            changes_after_reads: 0,
        }
    }
}

fn span(extent: Extent) -> core::ops::Range<usize> {
    let start = usize::try_from(extent.start).unwrap() * BLOCK;
    start..start + usize::try_from(extent.blocks).unwrap() * BLOCK
}

fn flat(list: &BufList) -> Vec<u8> {
    let mut bytes = vec![0; list.len()];
    list.copy_to(&mut bytes);
    bytes
}

impl Disk {
    fn map(&mut self, extent: Extent, mapped: bool) {
        for block in extent.start..extent.start + extent.blocks {
            self.mapped[usize::try_from(block).unwrap()] = mapped;
        }
    }

    fn write(&mut self, extent: Extent, data: &[u8]) {
        self.bytes[span(extent)].copy_from_slice(data);
        self.map(extent, true);
    }

    fn compare(&self, extent: Extent, data: &[u8]) -> Result<Outcome, VolumeErrorKind> {
        assert_eq!(span(extent).len(), data.len(), "a comparison's data has its extent's length");
        match self.bytes[span(extent)].iter().zip(data).position(|(a, b)| a != b) {
            Some(at) => Err(VolumeErrorKind::Miscompare { offset: u32::try_from(at).unwrap() }),
            None => Ok(Outcome::Done),
        }
    }

    /// Somebody else counts in the last byte of what was read.
    fn changed_meanwhile(&mut self, extent: Extent) {
        if self.changes_after_reads > 0 {
            self.changes_after_reads -= 1;
            self.bytes[span(extent).end - 1] += 1;
        }
    }

    fn answer(&mut self, operation: Operation) -> Result<Outcome, VolumeErrorKind> {
        match operation {
            Operation::Write { extent, data, durability } => {
                assert!(extent.blocks <= PIECE, "a write is no longer than the volume allows");
                self.log.push(format!("write {}+{} {durability:?}", extent.start, extent.blocks));
                self.write(extent, &flat(&data));
            }
            Operation::WriteZeroes { extent, may_unmap, .. } => {
                self.log.push(format!("zeroes {}+{} unmap={may_unmap}", extent.start, extent.blocks));
                self.bytes[span(extent)].fill(0);
                self.map(extent, !may_unmap);
            }
            Operation::Discard { extent } => {
                self.log.push(format!("discard {}+{}", extent.start, extent.blocks));
                self.bytes[span(extent)].fill(0);
                self.map(extent, false);
            }
            Operation::Flush => self.log.push("flush".to_owned()),
            Operation::Verify { extent } => {
                self.log.push(format!("verify {}+{}", extent.start, extent.blocks));
            }
            Operation::Compare { extent, data } => return self.compare(extent, &flat(&data)),
            Operation::CompareAndWrite { extent, data, durability } => {
                self.log.push(format!("compare and write {}+{} {durability:?}", extent.start, extent.blocks));
                self.compare(extent, &flat(&data.compare))?;
                self.write(extent, &flat(&data.write));
            }
            Operation::QueryAllocation { extent } => {
                let first = usize::try_from(extent.start).unwrap();
                let mapped = self.mapped[first];
                let run = self.mapped[first..].iter().take_while(|&&other| other == mapped).count();
                let blocks = extent.blocks.min(u64::try_from(run).unwrap());
                let extent = Extent::new(extent.start, blocks);
                return Ok(Outcome::Allocation(Allocation { extent, mapped }));
            }
            _ => return Err(VolumeErrorKind::Unsupported),
        }
        Ok(Outcome::Done)
    }
}

/// What nexuses of one target share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) disk: Disk,
    pub(crate) reservations: Reservations,
    /// The last change of reservations, which other nexuses must be told.
    pub(crate) change: Option<Change>,
}

/// One nexus with what it talks to.
#[derive(Debug)]
pub(crate) struct Nexus {
    pub(crate) server: DeviceServer,
}

impl Nexus {
    /// A nexus that has not yet sent anything.
    pub(crate) fn fresh(device: TargetDevice, initiator: &str) -> Self {
        Self { server: DeviceServer::new(Arc::new(device), nexus(initiator)) }
    }

    /// A nexus whose power-on unit attention is out of the way.
    pub(crate) fn ready(device: TargetDevice, initiator: &str) -> Self {
        let mut nexus = Self::fresh(device, initiator);
        let reply = nexus.control(&mut Shared::default(), &[0; 6]);
        assert_eq!(additional(&reply), (6, 0x29, 0));
        nexus
    }

    /// A command without data from the initiator.
    pub(crate) fn control(&mut self, shared: &mut Shared, cdb: &[u8]) -> Reply {
        self.run(shared, (cdb, DataDirection::In(1 << 20), &[]))
    }

    /// A command with data from the initiator.
    pub(crate) fn send(&mut self, shared: &mut Shared, cdb: &[u8], data: &[u8]) -> Reply {
        self.run(shared, (cdb, DataDirection::Out(u32::try_from(data.len()).unwrap()), data))
    }

    /// A command to LUN 0; `data` is what the initiator sends, as far as it is asked for.
    pub(crate) fn run(
        &mut self,
        shared: &mut Shared,
        (cdb, direction, data): (&[u8], DataDirection, &[u8]),
    ) -> Reply {
        let attribute = TaskAttribute::Simple;
        let command = Command { lun: encode_lun(0), cdb, data: direction, attribute };
        let mut task = scsi::Task::default();
        let mut step = self.server.start(&command, &mut task);
        for _ in 0..MOST_STEPS {
            step = match step {
                Step::Complete(reply) => return reply,
                Step::ReceiveData { length } => {
                    let DataDirection::Out(announced) = direction else { panic!("data without a direction") };
                    assert!(length <= announced && length > 0, "only what was announced is asked for");
                    let mut sent = data.to_vec();
                    sent.resize(usize::try_from(length).unwrap(), 0);
                    self.server.data_received(&mut task, SharedBuf::from(sent))
                }
                Step::Read { extent, length, .. } => {
                    assert!(extent.blocks <= PIECE, "a read is no longer than the volume allows");
                    assert_eq!(span(extent).len(), usize::try_from(length).unwrap());
                    let read = SharedBuf::from(shared.disk.bytes[span(extent)].to_vec());
                    shared.disk.changed_meanwhile(extent);
                    self.server.completed(&mut task, Ok(Outcome::Data(read.into())))
                }
                Step::Submit { operation, .. } => {
                    let result = shared.disk.answer(operation);
                    self.server.completed(&mut task, result.map_err(VolumeErrorKind::into))
                }
                Step::Reserve { registrant, command, .. } => {
                    let result = shared.reservations.apply(&registrant, &command);
                    let result = result.map(|change| {
                        let (view, notices) = (Arc::clone(&change.view), Arc::new([]));
                        self.hear(NexusEvent::Reservations { view, notices, aborted: Arc::new([]) });
                        shared.change = Some(change);
                    });
                    self.server.reserved(&mut task, result)
                }
            };
        }
        panic!("a command did not end: {cdb:02x?}");
    }

    /// Hears of what another nexus did.
    pub(crate) fn hear(&mut self, event: NexusEvent) {
        self.server.handle_event(VolumeId::new(0, 0), event);
    }
}

/// The reply's data in one piece.
pub(crate) fn data(reply: &Reply) -> Vec<u8> {
    flat(&reply.data)
}

/// Sense key, additional sense code and qualifier; zeros unless CHECK CONDITION.
pub(crate) fn additional(reply: &Reply) -> (u8, u8, u8) {
    if reply.status != Status::CheckCondition {
        assert!(reply.sense.bytes().is_empty(), "sense data comes with CHECK CONDITION only");
        return (0, 0, 0);
    }
    let scsi::builder::Sense { key, code, .. } = scsi::builder::sense(reply.sense.bytes()).unwrap();
    (key as u8, code.0, code.1)
}

/// A CDB from its beginning, the rest zero.
pub(crate) fn cdb(length: usize, fields: &[(usize, u8)]) -> Vec<u8> {
    let mut cdb = vec![0; length];
    for (at, value) in fields {
        cdb[*at] = *value;
    }
    cdb
}

/// `count` blocks whose bytes depend on the seed and on their place, and repeat nowhere.
pub(crate) fn pattern(count: usize, seed: u8) -> Vec<u8> {
    let mixed = |at: u64| {
        let word = (at ^ u64::from(seed) << 40).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (word ^ word >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9).to_be_bytes()
    };
    (0..(count * BLOCK) as u64 / 8).flat_map(mixed).collect()
}
