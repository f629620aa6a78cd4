//! What iSCSI's and NVMe/TCP's PDUs are over iSER and NVMe/RDMA, for peers that a trial plays ([`crate::queue_pair_peers`]).

use iscsi::datamover::iser::{Invalidation, IserHeader, private_data};
use iscsi::pdu::Opcode;
use nvme::fabrics::{Connect, ConnectData};
use nvme::opcode::FABRICS;
use nvme::pdu::{CapsuleCmd, CapsuleResp, PduType};
use nvme::rdma::ConnectRequest;
use nvme::sgl::{KeyedBlock, SglDescriptor};
use nvme::sqe::SubmissionQueueEntry;
use verbs::{PrivateData, RemoteRegion};
use zerocopy::{FromBytes, IntoBytes};

use crate::peers::{Pdu, take_pdu};
use crate::queue_pair_peers::{Dialect, Sense};

/// Bytes of data that a SCSI command and an NVMe command of an I/O queue bring along; what is longer is read from memory.
const IMMEDIATE: usize = 1024;
const IN_CAPSULE: usize = 2048;
/// Bytes of an iSER header.
const ISER: usize = size_of::<IserHeader>();

/// iSCSI.
pub(crate) struct Iser;

fn pdu(mut bytes: Vec<u8>) -> Option<Pdu> {
    Pdu::take(&mut bytes)
}

impl Dialect for Iser {
    fn port(&self) -> u16 {
        1
    }

    fn take(&self, out: &mut Vec<u8>) -> Option<Vec<u8>> {
        let before = out.clone();
        Pdu::take(out)?;
        Some(before[..before.len() - out.len()].to_vec())
    }

    fn private_data(&self, _first: &[u8]) -> Option<PrivateData> {
        Some(private_data(Invalidation::Used))
    }

    fn sense(&self, bytes: &[u8]) -> Sense {
        let Some(pdu) = pdu(bytes.to_vec()) else { return Sense::Nothing };
        let view = pdu.view();
        match view.opcode() {
            Opcode::SCSI_COMMAND if pdu.data.len() > IMMEDIATE => Sense::Write(pdu.data),
            _ => Sense::Message,
        }
    }

    fn message(&self, bytes: &[u8], memory: Option<RemoteRegion>) -> Vec<u8> {
        let header = match memory {
            Some(region) => IserHeader::new().writing(region.into()),
            None => IserHeader::new(),
        };
        let Some(Pdu { header: bhs, mut data }) = pdu(bytes.to_vec()) else { return Vec::new() };
        if memory.is_some() {
            data.clear();
        } else if bhs[0] & 0x3f == Opcode::LOGIN_REQUEST.0 {
            data.extend_from_slice(b"RDMAExtensions=Yes\0");
        }
        let mut said = bhs;
        let [_, high, middle, low] = wire::bounded::<u32>(data.len()).to_be_bytes();
        said[5..8].copy_from_slice(&[high, middle, low]);
        let mut message = [&header.to_bytes()[..], &said, &data].concat();
        message.resize(message.len().next_multiple_of(4), 0);
        message
    }

    fn hear(&self, message: &[u8]) -> Vec<u8> {
        message.get(ISER..).unwrap_or_default().to_vec()
    }
}

/// NVMe/TCP.
pub(crate) struct NvmeRdma;

/// Bytes of data that a command may bring along. Capsules of an admin queue have none (NVMe RDMA Transport §3.3.1), and the only data that a host here sends to one is its Connect's.
fn in_capsule(entry: &SubmissionQueueEntry) -> usize {
    let is_admin = entry.opcode == FABRICS && Connect::view(entry).qid.get() == 0;
    if is_admin { 0 } else { IN_CAPSULE }
}

/// The descriptor of a command without data.
fn no_data() -> Option<SglDescriptor> {
    SglDescriptor::keyed(KeyedBlock { address: 0, key: 0, length: 0, invalidate: false })
}

impl Dialect for NvmeRdma {
    fn port(&self) -> u16 {
        2
    }

    fn take(&self, out: &mut Vec<u8>) -> Option<Vec<u8>> {
        take_pdu(out).map(|(_, pdu)| pdu)
    }

    fn private_data(&self, first: &[u8]) -> Option<PrivateData> {
        let (capsule, data) = CapsuleCmd::read_from_prefix(first).ok()?;
        if PduType(first[0]) != PduType::CAPSULE_CMD {
            return None;
        }
        let connect = Connect::view(&capsule.entry);
        let (qid, sqsize) = (connect.qid.get(), connect.sqsize.get());
        let cntlid = if qid == 0 { 0 } else { ConnectData::read_from_prefix(data).ok()?.0.cntlid.get() };
        Some(ConnectRequest::new(qid, cntlid, sqsize + 1).encode())
    }

    fn sense(&self, pdu: &[u8]) -> Sense {
        match CapsuleCmd::read_from_prefix(pdu) {
            Ok((capsule, data)) if PduType(pdu[0]) == PduType::CAPSULE_CMD => {
                if data.len() > in_capsule(&capsule.entry) {
                    Sense::Write(data.to_vec())
                } else {
                    Sense::Message
                }
            }
            _ => Sense::Nothing,
        }
    }

    fn message(&self, pdu: &[u8], memory: Option<RemoteRegion>) -> Vec<u8> {
        let Ok((mut capsule, data)) = CapsuleCmd::read_from_prefix(pdu) else { return Vec::new() };
        let (descriptor, data) = match memory {
            Some(RemoteRegion { stag, offset, length }) => {
                let length = wire::index(length.into());
                let block = KeyedBlock { address: offset, key: stag.0, length, invalidate: true };
                (SglDescriptor::keyed(block), &[][..])
            }
            None if data.is_empty() => (no_data(), data),
            None => (Some(SglDescriptor::in_capsule(wire::bounded(data.len()))), data),
        };
        if let Some(descriptor) = descriptor {
            capsule.entry.dptr = descriptor;
        }
        [capsule.entry.as_bytes(), data].concat()
    }

    fn hear(&self, message: &[u8]) -> Vec<u8> {
        match nvme::cqe::CompletionQueueEntry::read_from_prefix(message) {
            Ok((entry, _)) => CapsuleResp::new(entry).as_bytes().to_vec(),
            Err(_) => Vec::new(),
        }
    }
}
