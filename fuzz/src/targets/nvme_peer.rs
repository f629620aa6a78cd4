//! NVMe/TCP ends whose peer is mostly well behaved, so that the fuzzer gets past what it cannot guess.
//!
//! A CRC32C over every header keeps a fuzzer out of everything behind it, and a chain of commands keeps it out of the
//! answers' parsers. Here digests are computed for it, and it only says what the answers hold.

use std::sync::Arc;

use buf::Pool;
use nvme::controller;
use nvme::cqe::CompletionQueueEntry;
use nvme::host::{self, Action, Config, Queue, RemoteNamespace};
use nvme::limits::DISCOVERY_ENTRIES;
use nvme::opcode::{FABRICS, fctype};
use nvme::pdu::{C2hData, CapsuleCmd, CapsuleResp, CommonHeader, Digests, IcReq, IcResp, PduType, flags};
use nvme::status::Status;
use protocol::pair::Half;
use protocol::{Connection, Ended, Instant};
use volume::Features;
use wire::{Reader, crc32c};
use zerocopy::{FromBytes, IntoBytes};

use super::nvme::{config, portal, serve_queue};

/// Answers after which a controller has said enough.
const MOST_ANSWERS: usize = 256;
/// Queues that the host asks for.
const QUEUES: u16 = 4;
/// Status codes that a controller may answer with; most answers are good ones.
const STATUSES: [Status; 4] = [Status::SUCCESS, Status::SUCCESS, Status::SUCCESS, Status::INVALID_FIELD];

/// One PDU cut from a stream without digests: its header, and its data.
fn cut<'a>(reader: &mut Reader<'a>) -> Option<(CommonHeader, &'a [u8], &'a [u8])> {
    let (common, _) = CommonHeader::read_from_prefix(reader.rest()).ok()?;
    let hlen = usize::from(common.hlen).clamp(size_of::<CommonHeader>(), 128);
    let length = usize::try_from(common.plen.get()).unwrap_or(usize::MAX).max(hlen);
    let mut whole = reader.sub(length.min(reader.remaining())).ok()?;
    let head = whole.take(hlen).ok()?;
    let _ = whole.skip(usize::from(common.pdo).saturating_sub(hlen));
    Some((common, head, whole.rest()))
}

/// The same PDU with both digests, whose header tells its true lengths.
fn with_digests(head: &[u8], data: &[u8]) -> Vec<u8> {
    let mut pdu = head.to_vec();
    let before = pdu.len() + 4;
    let whole = before + if data.is_empty() { 0 } else { data.len() + 4 };
    let bits = if data.is_empty() { flags::HDGST } else { flags::HDGST | flags::DDGST };
    if let Ok((common, _)) = CommonHeader::mut_from_prefix(&mut pdu) {
        common.flags = common.flags & !(flags::HDGST | flags::DDGST) | bits;
        common.pdo = if data.is_empty() { 0 } else { u8::try_from(before).unwrap_or(0) };
        common.plen.set(u32::try_from(whole).unwrap_or(u32::MAX));
    }
    pdu.extend(crc32c(&pdu).to_le_bytes());
    if !data.is_empty() {
        pdu.extend_from_slice(data);
        pdu.extend(crc32c(data).to_le_bytes());
    }
    pdu
}

fn connecting(kind: PduType) -> bool {
    matches!(kind, PduType::IC_REQ | PduType::IC_RESP)
}

/// A host with digests: PDUs without digests, to which the right ones are added.
pub fn queue_with_digests(bytes: &[u8]) {
    let connection = controller::Connection::new(Arc::new(portal()), Pool::new(8 << 20), Instant::ZERO);
    let mut half = Half::new(connection);
    half.receive(Instant::ZERO, IcReq::new(Digests::BOTH, 0).as_bytes());
    let mut reader = Reader::new(bytes);
    while let Some((common, head, data)) = cut(&mut reader) {
        if !connecting(common.kind) {
            half.receive(Instant::ZERO, &with_digests(head, data));
        }
        serve_queue(&mut half);
        half.transmit(Instant::ZERO);
    }
    half.end(Instant::ZERO, Ended::ByPeer);
    serve_queue(&mut half);
}

/// A controller with digests: PDUs without digests, to which the right ones are added.
pub fn host_with_digests(bytes: &[u8]) {
    let config = Config { header_digest: true, data_digest: true, ..config() };
    let mut half = Half::new(host::Connection::new(config, Instant::ZERO));
    half.transmit(Instant::ZERO);
    half.receive(Instant::ZERO, IcResp::new(Digests::BOTH, 1 << 20).as_bytes());
    let mut reader = Reader::new(bytes);
    while let Some((common, head, data)) = cut(&mut reader) {
        half.transmit(Instant::ZERO);
        if !connecting(common.kind) {
            half.receive(Instant::ZERO, &with_digests(head, data));
        }
        while half.connection.poll_action().is_some() {}
    }
    half.end(Instant::ZERO, Ended::ByPeer);
}

/// A controller whose answers the input holds: behind a byte that chooses between a namespace and a discovery, one after
/// another, each behind eleven bytes: the status, the result, and how long the data is.
///
/// # Panics
/// When a namespace is taken that is no disk: that is what the fuzzer looks for.
pub fn namespace(bytes: &[u8]) {
    let Some((&kind, script)) = bytes.split_first() else { return };
    let admin = Queue::Admin { nsid: 1, queues: QUEUES, kato: 0 };
    let queue = if kind.is_multiple_of(4) { Queue::Discovery } else { admin };
    let mut half = Half::new(host::Connection::new(Config { queue, ..config() }, Instant::ZERO));
    let mut script = Reader::new(script);
    for _ in 0..MOST_ANSWERS {
        let said = half.transmit(Instant::ZERO);
        let answers = answers(&said, &mut script);
        half.receive(Instant::ZERO, &answers);
        while let Some(action) = half.connection.poll_action() {
            check(&action);
        }
        if answers.is_empty() {
            break;
        }
    }
    half.end(Instant::ZERO, Ended::ByPeer);
}

/// Answers to everything that the host said.
fn answers(said: &[u8], script: &mut Reader<'_>) -> Vec<u8> {
    let mut reader = Reader::new(said);
    let mut answers = Vec::new();
    while let Some((common, head, _)) = cut(&mut reader) {
        match common.kind {
            PduType::IC_REQ => answers.extend(IcResp::new(Digests::NONE, 1 << 20).as_bytes()),
            PduType::CAPSULE_CMD => {
                let Ok((capsule, _)) = CapsuleCmd::read_from_prefix(head) else { continue };
                answers.extend(answer(&capsule, script).unwrap_or_default());
            }
            _ => {}
        }
    }
    answers
}

/// The answer to one command: data if it asks for some, then a completion.
fn answer(capsule: &CapsuleCmd, script: &mut Reader<'_>) -> Option<Vec<u8>> {
    let entry = &capsule.entry;
    let cid = entry.cid.get();
    if entry.opcode == FABRICS && entry.fctype() == fctype::CONNECT {
        let done = CompletionQueueEntry::new(cid, 0, Status::SUCCESS).with_result(1);
        return Some(CapsuleResp::new(done).as_bytes().to_vec());
    }
    let status = script.u8().ok()?;
    let result = script.u64_le().ok()?;
    let length = usize::from(script.u16_le().ok()?);
    let given = script.take(length.min(script.remaining())).ok()?;
    let mut pdus = Vec::new();
    let wanted = usize::try_from(entry.dptr.length.get()).unwrap_or(0).min(1 << 16);
    if wanted > 0 && entry.opcode != FABRICS {
        let mut data = given.to_vec();
        data.resize(wanted, 0);
        let mut header = C2hData::new(cid, 0, entry.dptr.length.get().min(1 << 16));
        header.header.flags = flags::LAST;
        header.header.pdo = C2hData::HLEN;
        header.header.plen.set(u32::from(C2hData::HLEN) + header.datal.get());
        pdus.extend(header.as_bytes());
        pdus.extend(data);
    }
    let status = STATUSES.get(usize::from(status) % STATUSES.len()).copied().unwrap_or(Status::SUCCESS);
    let done = CompletionQueueEntry::new(cid, 0, status).with_result(result);
    pdus.extend(CapsuleResp::new(done).as_bytes());
    Some(pdus)
}

fn check(action: &Action) {
    match action {
        Action::Ready(found) | Action::NamespaceChanged(found) => check_namespace(found),
        Action::Discovered(found) => {
            assert!(u64::try_from(found.len()).is_ok_and(|count| count <= DISCOVERY_ENTRIES));
            assert!(found.iter().all(|entry| !entry.subnqn.is_empty()), "{found:?}");
        }
        _ => {}
    }
}

fn check_namespace(found: &RemoteNamespace) {
    let block = found.geometry.block_size;
    assert!(matches!(block, 512 | 4096) && found.geometry.blocks > 0, "{found:?}");
    assert!(found.geometry.physical_block_size.is_multiple_of(block), "{found:?}");
    let most = found.limits.max_transfer;
    assert!(most >= block && most.is_multiple_of(block), "{found:?}");
    assert!(found.limits.depth > 0 && found.entries > 1, "{found:?}");
    assert!(found.limits.discard_granularity > 0 && (1..=QUEUES).contains(&found.queues), "{found:?}");
    let discards = found.features.contains(Features::DISCARD);
    assert!(!discards || found.limits.max_discard > 0, "{found:?}");
}
