//! A whole session whose streams are cut, or damaged, at each of their bytes in turn, in both directions; and every kind of PDU with a digest, damaged at
//! each of its bytes. Login PDUs have no digests (RFC 7143 §13.1).
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use common::evil::split;
use common::{BLOCK, Bench, config, portal};
use iscsi::initiator::{Config, Input};
use iscsi::keys::{DigestPolicy, Tuning};
use iscsi::pdu::{
    AsyncMessage, Bhs, DataIn, DataOut, DataRange, Function, FunctionResponse, LogoutReason, LogoutRequest,
    LogoutResponse, LogoutTimes, NopIn, NopOut, Opcode, R2t, RESERVED_TAG, Reason, Reject, Residual,
    ScsiCommand, ScsiResponse, TaskManagementRequest, TaskManagementResponse, TaskTags, TextRequest,
    TextResponse,
};
use protocol::pair::{Mishap, aperiodic};
use protocol::{CloseReason, Connection as _};
use scsi::builder;
use volume::{Durability, Extent, Operation, Outcome, Tag, VolumeErrorKind};

const BLOCKS: usize = 4;

/// A short session: with and without immediate data, in several sequences and PDUs.
fn tuned(digests: bool) -> Config {
    let digest = if digests { DigestPolicy::Require } else { DigestPolicy::Off };
    let tuning = Tuning {
        header_digest: digest,
        data_digest: digest,
        segment: 512,
        first_burst: 512,
        max_burst: 1024,
        ..Tuning::default()
    };
    Config { tuning, ..config() }
}

/// What a session came to.
#[derive(PartialEq, Eq)]
struct End {
    results: Vec<(u64, Result<Vec<u8>, VolumeErrorKind>)>,
    stored: Vec<u8>,
    failed: Option<String>,
    refused: Option<CloseReason>,
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ends: Vec<_> =
            self.results.iter().map(|(tag, result)| (tag, result.as_ref().map(Vec::len))).collect();
        write!(f, "requests ended with {ends:?}; {:?}, {:?}", self.failed, self.refused)
    }
}

/// Login, probe, a write, a read, a flush, a read that is aborted, and a logout.
fn run(mut bench: Bench, written: &[u8]) -> (End, Bench) {
    bench.run();
    let extent = Extent::new(1, BLOCKS as u64);
    let data = buf::BufList::from(buf::SharedBuf::from(written.to_vec()));
    bench.submit(1, Operation::Write { extent, data, durability: Durability::Cached });
    bench.run();
    bench.submit(2, Operation::Read { extent, into: buf::Buf::zeroed(written.len()) });
    bench.run();
    bench.submit(3, Operation::Flush);
    bench.run();
    bench.memory.hold = true;
    bench.submit(4, Operation::Read { extent, into: buf::Buf::zeroed(written.len()) });
    bench.run();
    bench.pair.near.connection.handle_input(bench.pair.now, Input::Cancel(Tag(4)));
    bench.run();
    bench.release();
    let failed = bench.failed.take();
    bench.pair.near.connection.handle_input(bench.pair.now, Input::Logout);
    bench.run();
    let results = bench.done.drain(..).map(|done| {
        let tag = done.tag.0;
        let result = done.outcome().map(|outcome| match outcome {
            Outcome::Data(data) => data.into_one().to_vec(),
            _ => Vec::new(),
        });
        (tag, result)
    });
    let results = results.collect();
    let stored = bench.memory.bytes[BLOCK..][..written.len()].to_vec();
    let refused = bench.pair.far.connection.poll_close();
    (End { results, stored, failed, refused }, bench)
}

fn bench(digests: bool, mishaps: [Option<Mishap>; 2]) -> Bench {
    let mut bench = Bench::new(tuned(digests), portal(16));
    [bench.pair.near.mishap, bench.pair.far.mishap] = mishaps;
    bench
}

/// That mishap for what the one or the other end sends.
fn at(end: usize, mishap: Mishap) -> [Option<Mishap>; 2] {
    let mut mishaps = [None; 2];
    mishaps[end] = Some(mishap);
    mishaps
}

#[test]
fn streams_that_are_cut_at_any_byte_carry_the_same_session() {
    let written = aperiodic(BLOCKS * BLOCK, 11);
    for digests in [false, true] {
        let (whole, ended) = run(bench(digests, [None; 2]), &written);
        let expected = [
            (1, Ok(Vec::new())),
            (2, Ok(written.clone())),
            (3, Ok(Vec::new())),
            (4, Err(VolumeErrorKind::Cancelled)),
        ];
        assert!(whole.results == expected && whole.failed.is_none(), "{whole}");
        assert!(whole.stored == written);
        for (end, sent) in [ended.pair.near.sent(), ended.pair.far.sent()].into_iter().enumerate() {
            for byte in 1..sent {
                let (apart, _) = run(bench(digests, at(end, Mishap::Cut(byte))), &written);
                let name = ["initiator", "target"][end];
                assert!(
                    apart == whole,
                    "the {name}'s stream, cut behind byte {byte} of {sent}, digests {digests}: {apart}"
                );
            }
        }
    }
}

/// How much of each stream is a login: the third request is the first command.
fn login(mut bench: Bench) -> [usize; 2] {
    let mut requests = 0;
    loop {
        let before = [bench.pair.near.sent(), bench.pair.far.sent()];
        assert!(bench.step(), "there was no login");
        requests += usize::from(bench.pair.near.sent() > before[0]);
        if requests == 3 {
            return before;
        }
    }
}

#[test]
fn damage_of_any_byte_behind_the_login_is_found() {
    let written = aperiodic(BLOCKS * BLOCK, 12);
    let (_, ended) = run(bench(true, [None; 2]), &written);
    let first = login(bench(true, [None; 2]));
    for (end, sent) in [ended.pair.near.sent(), ended.pair.far.sent()].into_iter().enumerate() {
        assert!(first[end] > 48 && first[end] < sent);
        for byte in first[end]..sent {
            let (damaged, ended) = run(bench(true, at(end, Mishap::Flip(byte))), &written);
            let what = ["initiator", "target"][end];
            let violation = matches!(damaged.refused, Some(CloseReason::Violation(_)));
            // A length that grew makes its receiver wait for what does not come.
            let waits = ended.pair.near.staged() + ended.pair.far.staged() > 0;
            assert!(
                violation || damaged.failed.is_some() || ended.failed.is_some() || waits,
                "RFC 7143 §13.1: byte {byte} of what the {what} sent was damaged, and nobody found it: {damaged}"
            );
            let intact = |part: &[u8], whole: &[u8]| part == whole || part.iter().all(|byte| *byte == 0);
            let blocks = damaged.stored.chunks(BLOCK).zip(written.chunks(BLOCK));
            assert!(
                blocks.into_iter().all(|(part, whole)| intact(part, whole)),
                "byte {byte} of the {what}: damage is stored"
            );
            for (tag, result) in &damaged.results {
                let Ok(data) = result else { continue };
                assert!(*tag != 2 || *data == written, "byte {byte} of the {what}: damage is returned");
                assert!(
                    *tag != 1 || damaged.stored == written,
                    "byte {byte} of the {what}: a write is done that is not"
                );
            }
        }
    }
}

/// A kind of PDU, with whatever data it may have.
type Kind = (&'static str, Bhs, Vec<u8>);

fn to_target() -> Vec<Kind> {
    let lun = [0; 8];
    let write = ScsiCommand::new(lun, 90, 7, builder::write(Extent::new(0, 1), Durability::Cached));
    let mut snack: Bhs = [0; 48];
    snack[..2].copy_from_slice(&[0x10, 0x81]);
    vec![
        ("NOP-Out", NopOut::ping(90).to_bytes(), b"is it there?!".to_vec()),
        ("SCSI Command", write.writing(512, 512).to_bytes(), aperiodic(512, 1)),
        (
            "Task Management Function Request",
            TaskManagementRequest::new(Function::ABORT_TASK, lun, 90).referring(1, 1).to_bytes(),
            Vec::new(),
        ),
        ("Text Request", TextRequest::new(90, RESERVED_TAG).to_bytes(), b"SendTargets=All\0".to_vec()),
        (
            "SCSI Data-Out",
            DataOut::new(lun, TaskTags { initiator: 90, target: 1 }, 0, DataRange { offset: 0, length: 512 })
                .ending()
                .to_bytes(),
            aperiodic(512, 2),
        ),
        ("Logout Request", LogoutRequest::new(LogoutReason::CLOSE_SESSION, 0, 90).to_bytes(), Vec::new()),
        ("SNACK Request", snack, Vec::new()),
    ]
}

fn to_initiator() -> Vec<Kind> {
    let command = ScsiCommand::new([0; 8], 90, 7, [0; 16]).to_bytes();
    let mut sense = vec![0, 18, 0x70, 0, 3];
    sense.resize(20, 0);
    let response = FunctionResponse::COMPLETE;
    let data_in =
        DataIn::new(90, 0, DataRange { offset: 0, length: 512 }).ending().with_status(0, Residual::None);
    vec![
        ("NOP-In", NopIn::ping(7).to_bytes(), b"is it there?!".to_vec()),
        ("SCSI Response", ScsiResponse::new(90, 2, Residual::None, 0).to_bytes(), sense),
        (
            "Task Management Function Response",
            TaskManagementResponse::new(90, response).to_bytes(),
            Vec::new(),
        ),
        ("Text Response", TextResponse::last(90).to_bytes(), b"TargetName=iqn.2026-11.test:x\0".to_vec()),
        ("SCSI Data-In", data_in.to_bytes(), aperiodic(512, 3)),
        (
            "Logout Response",
            LogoutResponse::new(90, 0, LogoutTimes { time2wait: 0, time2retain: 0 }).to_bytes(),
            Vec::new(),
        ),
        (
            "R2T",
            R2t::new([0; 8], TaskTags { initiator: 90, target: 7 }, 0, DataRange { offset: 0, length: 512 })
                .to_bytes(),
            Vec::new(),
        ),
        ("Asynchronous Message", AsyncMessage::logout_requested(3).to_bytes(), vec![0, 4, 1, 2, 3, 4]),
        ("Reject", Reject::new(Reason::PROTOCOL_ERROR).to_bytes(), command.to_vec()),
    ]
}

/// The PDU as it is on the wire, with both digests.
fn sealed(mut header: Bhs, data: &[u8]) -> Vec<u8> {
    header[5..8].copy_from_slice(&u32::try_from(data.len()).unwrap().to_be_bytes()[1..]);
    let mut bytes = header.to_vec();
    bytes.extend(wire::crc32c(&header).to_le_bytes());
    if !data.is_empty() {
        let mut padded = data.to_vec();
        padded.resize(data.len().next_multiple_of(4), 0);
        let digest = wire::crc32c(&padded).to_le_bytes();
        bytes.extend(padded);
        bytes.extend(digest);
    }
    bytes
}

/// Why the end that hears those bytes closes, if it does; and what it sends.
fn heard(target: bool, bytes: &[u8]) -> (String, Vec<Opcode>) {
    let mut bench = Bench::ready(tuned(true), portal(16));
    let now = bench.pair.now;
    if target {
        bench.pair.far.receive(now, bytes);
        bench.act_far();
        let answers = split(&bench.pair.far.transmit(now), (4, 4));
        assert!(bench.memory.bytes.iter().all(|byte| *byte == 0) || !answers.is_empty());
        let kinds = answers.iter().map(common::raw::Pdu::opcode).collect();
        (format!("{:?}", bench.pair.far.connection.poll_close()), kinds)
    } else {
        bench.pair.near.receive(now, bytes);
        bench.act_near();
        let answers = split(&bench.pair.near.transmit(now), (4, 4));
        let kinds = answers.iter().map(common::raw::Pdu::opcode).collect();
        (bench.failed.unwrap_or_default(), kinds)
    }
}

#[test]
fn damage_of_any_byte_of_every_kind_of_pdu_is_found_and_nothing_of_it_is_obeyed() {
    for (target, kinds) in [(true, to_target()), (false, to_initiator())] {
        for (name, header, data) in kinds {
            let bytes = sealed(header, &data);
            let (close, _) = heard(target, &bytes);
            assert!(!close.contains("digest"), "{name}, undamaged: {close}");
            for byte in (0..bytes.len()).filter(|byte| *byte < 64 || byte % 13 == 0 || byte + 8 > bytes.len())
            {
                let mut damaged = bytes.clone();
                damaged[byte] ^= 0x10;
                // What a length that grew takes for more of the header.
                damaged.extend([0; 1024]);
                let (close, answers) = heard(target, &damaged);
                let part = if byte < 52 { "header" } else { "data" };
                assert!(
                    close.contains(&format!("a {part} digest does not match")),
                    "RFC 7143 §13.1: byte {byte} of the {part} of {name} was damaged, and its receiver says {close:?}"
                );
                // RFC 7143 §7.8 lets a target reject what has a wrong data digest; nothing else is said.
                let silent = answers.iter().all(|kind| target && part == "data" && *kind == Opcode::REJECT);
                assert!(silent, "{name}, damaged in byte {byte}, is answered with {answers:?}");
            }
        }
    }
}
