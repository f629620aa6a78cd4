//! What peers say: PDUs of both protocols, made and read one by one, for trials that need more control than a volume gives.

use iscsi::pdu::{
    BasicHeaderSegment, Bhs, LoginIdentity, LoginRequest, NopOut, Opcode, RESERVED_TAG, ScsiCommand, Stage,
    padding,
};
use iscsi::text::Text;
use nvme::fabrics::{Connect, ConnectData, HostIdentity};
use nvme::pdu::{CapsuleCmd, Digests, H2cData, IcReq, PduType, R2t, flags};
use nvme::sgl::SglDescriptor;
use nvme::sqe::SubmissionQueueEntry;
use zerocopy::IntoBytes;

/// The target of all scenarios, and its subsystem.
pub(crate) const TARGET: &str = "iqn.2026-11.org.linerate:disk";
pub(crate) const SUBSYSTEM: &str = "nqn.2026-11.org.linerate:disk";
/// The logical unit of all scenarios.
pub(crate) const LUN: [u8; 8] = [0; 8];

/// An iSCSI PDU without digests.
#[derive(Debug, Clone)]
pub(crate) struct Pdu {
    pub(crate) header: Bhs,
    pub(crate) data: Vec<u8>,
}

impl Pdu {
    pub(crate) fn view(&self) -> BasicHeaderSegment {
        BasicHeaderSegment::from_bytes(&self.header)
    }

    /// Takes the next whole PDU from the front of what was received.
    pub(crate) fn take(received: &mut Vec<u8>) -> Option<Self> {
        let header: Bhs = *received.first_chunk()?;
        let length = BasicHeaderSegment::from_bytes(&header).data_length() as usize;
        let whole = 48 + length + padding(length);
        if received.len() < whole {
            return None;
        }
        let data = received[48..48 + length].to_vec();
        received.drain(..whole);
        Some(Self { header, data })
    }
}

/// The initiator's numbers of one session.
#[derive(Debug, Clone)]
pub(crate) struct Initiator {
    /// Tells initiators apart.
    pub(crate) number: u8,
    pub(crate) cmd_sn: u32,
    pub(crate) exp_stat_sn: u32,
    /// Of the latest request.
    pub(crate) tag: u32,
    /// The CmdSN that the target takes next, and the last one that it takes.
    pub(crate) exp_cmd_sn: u32,
    pub(crate) most_cmd_sn: u32,
}

impl Initiator {
    pub(crate) fn new(number: u8) -> Self {
        Self { number, cmd_sn: 1, exp_stat_sn: 0, tag: 0, exp_cmd_sn: 0, most_cmd_sn: 0 }
    }

    /// A PDU whose numbers and length are filled in here.
    pub(crate) fn pdu(&self, mut header: Bhs, data: &[u8]) -> Vec<u8> {
        let [_, high, middle, low] = u32::try_from(data.len()).unwrap_or(0).to_be_bytes();
        header[5..8].copy_from_slice(&[high, middle, low]);
        header[28..32].copy_from_slice(&self.exp_stat_sn.to_be_bytes());
        let mut bytes = [&header[..], data].concat();
        bytes.resize(bytes.len() + padding(data.len()), 0);
        bytes
    }

    /// An immediate request, which has the number of the next one and takes none.
    pub(crate) fn immediate(&self, mut header: Bhs, data: &[u8]) -> Vec<u8> {
        header[24..28].copy_from_slice(&self.cmd_sn.to_be_bytes());
        self.pdu(header, data)
    }

    pub(crate) fn next_tag(&mut self) -> u32 {
        self.tag += 1;
        self.tag
    }

    /// A login in one step, to the target.
    pub(crate) fn login(&mut self) -> Vec<u8> {
        self.login_to(Some(TARGET))
    }

    /// A login in one step, to discover.
    pub(crate) fn login_to_discover(&mut self) -> Vec<u8> {
        self.login_to(None)
    }

    /// A login in one step, to a target or to discover.
    pub(crate) fn login_to(&mut self, target: Option<&str>) -> Vec<u8> {
        let mut text = Text::new();
        text.put("InitiatorName", &format!("iqn.2026-11.org.example:peer{}", self.number));
        if let Some(target) = target {
            text.put("TargetName", target);
            text.put("SessionType", "Normal");
        } else {
            text.put("SessionType", "Discovery");
        }
        text.put("MaxRecvDataSegmentLength", "262144");
        let isid = [0x80, 0, 0, 0, 0, self.number];
        let request = LoginRequest::new(Stage::Operational, LoginIdentity::new_session(isid), 0, self.cmd_sn)
            .transit(Stage::FullFeature);
        self.pdu(request.to_bytes(), text.bytes())
    }

    /// A command; `shape` gives it its direction.
    pub(crate) fn command(
        &mut self,
        cdb: [u8; 16],
        data: &[u8],
        shape: impl FnOnce(ScsiCommand) -> ScsiCommand,
    ) -> Vec<u8> {
        let tag = self.next_tag();
        let command = shape(ScsiCommand::new(LUN, tag, self.cmd_sn, cdb));
        self.cmd_sn += 1;
        self.pdu(command.to_bytes(), data)
    }

    /// A write of so many bytes, of which `data` comes with the command.
    pub(crate) fn write(&mut self, start: u64, length: u32, data: &[u8]) -> Vec<u8> {
        let immediate = u32::try_from(data.len()).unwrap_or(0);
        let cdb = transfer(0x8a, start, length);
        self.command(cdb, data, |command| command.writing(length, immediate))
    }

    /// A read of so many bytes.
    pub(crate) fn read(&mut self, start: u64, length: u32) -> Vec<u8> {
        self.command(transfer(0x88, start, length), &[], |command| command.reading(length))
    }

    /// A read of a logical unit's first block.
    pub(crate) fn read_first(&mut self, lun: [u8; 8]) -> Vec<u8> {
        let tag = self.next_tag();
        let command = ScsiCommand::new(lun, tag, self.cmd_sn, transfer(0x88, 0, 512)).reading(512);
        self.cmd_sn += 1;
        self.pdu(command.to_bytes(), &[])
    }

    /// A write of a logical unit's first block, with its data.
    pub(crate) fn write_first(&mut self, lun: [u8; 8], data: &[u8]) -> Vec<u8> {
        let length = u32::try_from(data.len()).unwrap_or(0);
        let tag = self.next_tag();
        let cdb = transfer(0x8a, 0, length);
        let command = ScsiCommand::new(lun, tag, self.cmd_sn, cdb).writing(length, length);
        self.cmd_sn += 1;
        self.pdu(command.to_bytes(), data)
    }

    /// Looks at a response's numbers; the answer to a ping, if it is one.
    pub(crate) fn hear(&mut self, pdu: &Pdu) -> Option<Vec<u8>> {
        let view = pdu.view();
        (self.exp_cmd_sn, self.most_cmd_sn) = (view.exp_cmd_sn(), view.max_cmd_sn());
        let asks = view.opcode() == Opcode::NOP_IN && pdu.header[20..24] != RESERVED_TAG.to_be_bytes();
        let numbered = match view.opcode() {
            Opcode::R2T => false,
            Opcode::DATA_IN => pdu.header[1] & 1 != 0,
            Opcode::NOP_IN => view.task_tag() != RESERVED_TAG,
            _ => true,
        };
        if numbered {
            self.exp_stat_sn = view.stat_sn().wrapping_add(1);
        }
        asks.then(|| {
            let answer = NopOut::answer(&iscsi::pdu::NopIn::from_bytes(&pdu.header));
            self.immediate(answer.to_bytes(), &[])
        })
    }
}

/// READ (16) or WRITE (16) of so many bytes in blocks of 512.
fn transfer(opcode: u8, start: u64, length: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[2..10].copy_from_slice(&start.to_be_bytes());
    cdb[10..14].copy_from_slice(&(length / 512).to_be_bytes());
    cdb
}

/// A host that is the `number`th.
pub(crate) fn host(number: u8) -> HostIdentity {
    HostIdentity { identifier: [number; 16], nqn: format!("nqn.2026-11.org.example:peer{number}").into() }
}

/// A queue, and the controller that it is of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueId {
    pub(crate) qid: u16,
    pub(crate) cntlid: u16,
}

impl QueueId {
    /// The admin queue of a controller that is still to be made.
    pub(crate) const ADMIN: Self = Self { qid: 0, cntlid: 0xffff };
}

/// ICReq, and Connect of a queue.
pub(crate) fn connect(host: &HostIdentity, queue: QueueId, subnqn: &str, kato: u32) -> Vec<u8> {
    let QueueId { qid, cntlid } = queue;
    let data = ConnectData::new(host, cntlid, subnqn);
    let mut bytes = IcReq::new(Digests::NONE, 0).as_bytes().to_vec();
    bytes.extend(capsule(Connect::entry(qid, 127, kato), data.as_bytes()));
    bytes
}

/// A command with data in its capsule.
pub(crate) fn capsule(mut entry: SubmissionQueueEntry, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap_or(0);
    if length != 0 {
        entry.dptr = SglDescriptor::in_capsule(length);
    }
    let mut pdu = CapsuleCmd::new(entry);
    pdu.header.pdo = if length == 0 { 0 } else { 72 };
    pdu.header.plen.set(72 + length);
    [pdu.as_bytes(), data].concat()
}

/// A read or write of so many bytes, whose data moves by itself.
pub(crate) fn io(opcode: u8, cid: u16, start: u64, length: u32) -> SubmissionQueueEntry {
    let mut entry = SubmissionQueueEntry::new(opcode, 1).with_quad(10, start).with(12, length / 512 - 1);
    entry.dptr = SglDescriptor::transport(length);
    entry.cid.set(cid);
    entry
}

/// The data that an R2T asked for, or the part of it at `offset`, as its last.
pub(crate) fn h2c(r2t: &R2t, offset: u32, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap_or(0);
    let mut pdu = H2cData::new(r2t.cccid.get(), r2t.ttag.get(), offset, length);
    (pdu.header.flags, pdu.header.pdo) = (flags::LAST, H2cData::HLEN);
    pdu.header.plen.set(u32::from(H2cData::HLEN) + length);
    [pdu.as_bytes(), data].concat()
}

/// Takes the next whole NVMe/TCP PDU from the front of what was received.
pub(crate) fn take_pdu(received: &mut Vec<u8>) -> Option<(PduType, Vec<u8>)> {
    let length: [u8; 4] = *received.get(4..)?.first_chunk()?;
    let whole = (u32::from_le_bytes(length) as usize).max(8);
    if received.len() < whole {
        return None;
    }
    let pdu: Vec<u8> = received.drain(..whole).collect();
    Some((PduType(pdu[0]), pdu))
}
