//! Peers of iSER that say anything, by seed: what they say is right, or nearly so, or nonsense. Neither role panics, and a target holds nothing in the end.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use buf::{Buf, Pool};
use common::BLOCK;
use common::iser_raw::{AgainstInitiator, AgainstTarget, RDMA, list, message};
use iscsi::datamover::iser::{IserHeader, TaggedBase};
use iscsi::pdu::{
    AsyncMessage, Bhs, DataIn, DataRange, Function, FunctionResponse, LogoutReason, LogoutRequest, NopIn,
    NopOut, RESERVED_TAG, Reason, Reject, Residual, ScsiCommand, ScsiResponse, TaskManagementRequest,
    TaskManagementResponse, TextRequest, TextResponse,
};
use protocol::{Connection as _, Ended, Entropy as _, SeededEntropy};
use scsi::builder;
use verbs::{QueuePair as _, RegionMemory, RemoteRegion, STag, WorkId, WorkRequest};
use volume::{Durability, Extent, VolumeId};

/// Peers of each role.
const PEERS: u64 = 400;
/// What each says at most.
const SAID: usize = 24;

struct Chance(SeededEntropy);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0.number() % most
    }

    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Changes some bytes, or cuts, or adds some.
    fn spoil(&mut self, bytes: &mut Vec<u8>) {
        match self.below(8) {
            0 => bytes.truncate(usize::try_from(self.below(90)).unwrap()),
            1 => bytes.resize(bytes.len() + usize::try_from(self.below(40)).unwrap(), 7),
            2 | 3 => {
                for _ in 0..=self.below(3) {
                    let at = usize::try_from(self.below(bytes.len().max(1) as u64)).unwrap();
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << (self.0.number() % 8);
                    }
                }
            }
            _ => {}
        }
    }

    fn region(&mut self, known: &[RemoteRegion]) -> RemoteRegion {
        let any =
            RemoteRegion { stag: STag(u32::try_from(self.below(1 << 20)).unwrap()), offset: 0, length: 4096 };
        if known.is_empty() || self.once_in(60) {
            return any;
        }
        known[usize::try_from(self.below(known.len() as u64)).unwrap()]
    }
}

/// A request as it should be, or nearly.
fn request(chance: &mut Chance, cmd_sn: u32, regions: &[Vec<RemoteRegion>; 2]) -> (IserHeader, Bhs, Vec<u8>) {
    let blocks = 1 + chance.below(40);
    let length = u32::try_from(blocks).unwrap() * 512;
    let extent = Extent::new(chance.below(64), blocks);
    let tag = 100 + u32::try_from(chance.below(40)).unwrap();
    let [to, from]: [TaggedBase; 2] = [0, 1].map(|kind: usize| chance.region(&regions[kind]).into());
    let command = |cdb| ScsiCommand::new([0; 8], tag, cmd_sn, cdb);
    let plain = IserHeader::new();
    match chance.below(12) {
        0..=2 => {
            let command = command(builder::read(extent)).reading(length);
            (plain.reading(to), command.to_bytes(), Vec::new())
        }
        3..=5 => {
            let immediate = usize::try_from(chance.below(u64::from(length.min(8192)) + 1)).unwrap();
            let command = command(builder::write(extent, Durability::Cached)).writing(length, 0);
            (plain.writing(from), command.to_bytes(), vec![5; immediate])
        }
        6 => (plain, command(builder::test_unit_ready()).to_bytes(), Vec::new()),
        7 => (plain, NopOut::ping(tag).to_bytes(), vec![1; usize::try_from(chance.below(300)).unwrap()]),
        8 | 9 => {
            let function = Function(u8::try_from(chance.below(9)).unwrap());
            let referenced = 100 + u32::try_from(chance.below(40)).unwrap();
            let request = TaskManagementRequest::new(function, [0; 8], tag);
            (plain, request.referring(referenced, cmd_sn).to_bytes(), Vec::new())
        }
        10 => (plain, TextRequest::new(tag, RESERVED_TAG).to_bytes(), b"SendTargets=\0".to_vec()),
        _ if chance.once_in(4) => {
            (plain, LogoutRequest::new(LogoutReason::CLOSE_SESSION, 0, tag).to_bytes(), Vec::new())
        }
        _ => (plain, command([0x42; 16]).to_bytes(), Vec::new()),
    }
}

#[test]
fn a_target_bears_any_initiator() {
    let mut ends = 0;
    for seed in 0..PEERS {
        let mut chance = Chance(SeededEntropy::new(seed));
        let pool = Pool::new(16 << 20);
        let mut peer = AgainstTarget::ready(&RDMA, &pool);
        peer.bench.memory.hold = chance.once_in(3);
        let mut regions = [Vec::new(), Vec::new()];
        let is_careful = seed % 3 == 0;
        for _ in 0..SAID {
            for (kind, regions) in regions.iter_mut().enumerate() {
                let memory = match kind {
                    0 => RegionMemory::Sink(Buf::zeroed(40 * BLOCK)),
                    _ => RegionMemory::Source(list(&vec![9; 40 * BLOCK])),
                };
                let near = peer.near();
                if regions.is_empty() || chance.once_in(4) {
                    let _ = near.queue_pair.post(WorkId(0), WorkRequest::Register { memory });
                    near.collect();
                    regions.append(&mut near.registered);
                }
            }
            let (iser, header, data) = request(&mut chance, peer.cmd_sn, &regions);
            let mut bytes = message(iser, header, &data);
            if bytes[28] & 0x7f == 1 {
                peer.cmd_sn += u32::from(is_careful || !chance.once_in(30));
            } else {
                bytes[28 + 24..28 + 28].copy_from_slice(&peer.cmd_sn.to_be_bytes());
            }
            if !is_careful && chance.once_in(5) {
                chance.spoil(&mut bytes);
            }
            let near = peer.near();
            let _ =
                near.queue_pair.post(WorkId(0), WorkRequest::Send { data: list(&bytes), invalidate: None });
            if !is_careful && chance.once_in(20) {
                let stag = chance.region(&regions[0]).stag;
                let _ = peer.near().queue_pair.post(WorkId(0), WorkRequest::Invalidate { stag });
            }
            if chance.once_in(3) {
                peer.answers();
            }
            if peer.close().is_some() {
                ends += 1;
                break;
            }
        }
        peer.bench.release();
        peer.bench.pair.far.end(peer.bench.pair.now, Ended::ByPeer);
        peer.bench.release();
        assert!(!peer.bench.pair.far.connection.uses(VolumeId::new(0, 0)), "seed {seed}");
        drop(peer);
        assert_eq!(pool.used(), 0, "seed {seed}");
    }
    assert!(ends > PEERS / 8 && ends < PEERS, "{ends} of {PEERS} connections ended");
}

/// An answer as it should be, or nearly.
fn answer(chance: &mut Chance, command: &ScsiCommand) -> (Bhs, Vec<u8>) {
    let tag = if chance.once_in(8) { command.task_tag() ^ 0x100 } else { command.task_tag() };
    let residual = [Residual::None, Residual::Underflow(200), Residual::Overflow(1)];
    let residual = residual[usize::try_from(chance.below(3)).unwrap()];
    match chance.below(10) {
        0..=4 => {
            let status = [0, 2, 8, 0x18, 0x28, 0x40][usize::try_from(chance.below(6)).unwrap()];
            (ScsiResponse::new(tag, status, residual, 0).to_bytes(), vec![0, 18, 0x70, 0, 5, 0, 0, 0])
        }
        5 => (NopIn::ping(9).to_bytes(), Vec::new()),
        6 => (TaskManagementResponse::new(tag, FunctionResponse::COMPLETE).to_bytes(), Vec::new()),
        7 => (TextResponse::last(tag).to_bytes(), b"TargetName=iqn.2026-11.a:b\0".to_vec()),
        8 => (Reject::new(Reason::PROTOCOL_ERROR).to_bytes(), vec![0; 48]),
        _ if chance.once_in(2) => (AsyncMessage::logout_requested(3).to_bytes(), Vec::new()),
        _ => (DataIn::new(tag, 0, DataRange { offset: 0, length: 8 }).to_bytes(), vec![0; 8]),
    }
}

#[test]
fn an_initiator_bears_any_target() {
    let mut ends = 0;
    for seed in 0..PEERS {
        let mut chance = Chance(SeededEntropy::new(seed));
        let (mut peer, mut command, region) = AgainstInitiator::asked();
        let mut regions: Vec<RemoteRegion> = region.into_iter().collect();
        for _ in 0..SAID {
            if chance.once_in(3) {
                let (region, bytes) = (chance.region(&regions), chance.below(64));
                let to = RemoteRegion { offset: chance.below(40), length: 64, ..region };
                let data = list(&vec![7; usize::try_from(bytes).unwrap()]);
                let _ = peer.far().queue_pair.post(WorkId(0), WorkRequest::Write { data, to });
            }
            let (header, data) = answer(&mut chance, &command);
            let mut bytes = peer.numbered(header, &data);
            chance.spoil(&mut bytes);
            let invalidate = chance.once_in(3).then(|| chance.region(&regions).stag);
            let send = WorkRequest::Send { data: list(&bytes), invalidate };
            let _ = peer.far().queue_pair.post(WorkId(0), send);
            for request in peer.requests() {
                if request.header[0] & 0x3f == 1 {
                    command = ScsiCommand::from_bytes(&request.header);
                }
                let length = command.expected_length();
                regions.extend(request.iser.read().and_then(|base| base.region(0, length)));
            }
            if peer.bench.pair.near.connection.poll_close().is_some() {
                ends += 1;
                break;
            }
        }
        peer.bench.pair.near.end(peer.bench.pair.now, Ended::ByPeer);
        assert!(peer.failed().is_some(), "seed {seed}");
    }
    assert!(ends > PEERS / 8, "{ends} of {PEERS} connections ended");
}
