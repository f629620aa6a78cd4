//! Peers of iSER that break its rules, of both roles: each violation ends as RFC 7145 or the transport prescribes, and nobody touches what is not his.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use buf::{Buf, Pool};
use common::BLOCK;
use common::iser_raw::{AgainstInitiator, AgainstTarget, RDMA, list, message};
use iscsi::datamover::iser::{IserHeader, TaggedBase};
use iscsi::pdu::{
    DataIn, DataOut, DataRange, Function, NopIn, Opcode, R2t, RESERVED_TAG, Reason, Residual, ScsiCommand,
    ScsiResponse, TaskManagementRequest, TaskTags,
};
use iscsi::target::Input;
use iscsi::violation::Violation;
use protocol::pair::aperiodic;
use protocol::{CloseReason, Connection as _, Ended};
use scsi::{NexusEvent, Status, builder};
use verbs::{RegionMemory, STag, WorkRequest};
use volume::{Durability, Epoch, Extent, VolumeId};

fn read(blocks: u64) -> [u8; 16] {
    builder::read(Extent::new(0, blocks))
}

fn write(blocks: u64) -> [u8; 16] {
    builder::write(Extent::new(0, blocks), Durability::Cached)
}

fn length(blocks: usize) -> u32 {
    u32::try_from(blocks * BLOCK).unwrap()
}

fn sink(blocks: usize) -> RegionMemory {
    RegionMemory::Sink(Buf::zeroed(blocks * BLOCK))
}

fn source(blocks: usize) -> RegionMemory {
    RegionMemory::Source(list(&aperiodic(blocks * BLOCK, 5)))
}

fn ready() -> AgainstTarget {
    AgainstTarget::ready(&RDMA, &Pool::new(64 << 20))
}

fn reason(violation: Violation) -> CloseReason {
    CloseReason::Violation(violation.text())
}

#[test]
fn a_hand_made_initiator_reads_and_writes() {
    let mut peer = ready();
    let region = peer.near().register(source(24));
    let iser = IserHeader::new().writing(region.into());
    let answers = peer.command(write(24), iser, |command| command.writing(length(24), 0), &[]);
    assert_eq!(ScsiResponse::from_bytes(&answers[0].header).status(), Some(0));
    assert_eq!(answers[0].invalidated, Some(region.stag), "the target invalidates what it has read");
    assert_eq!(peer.bench.memory.bytes[..24 * BLOCK], aperiodic(24 * BLOCK, 5));
    let region = peer.near().register(sink(24));
    let iser = IserHeader::new().reading(region.into());
    let answers = peer.command(read(24), iser, |command| command.reading(length(24)), &[]);
    assert_eq!(answers[0].invalidated, Some(region.stag), "the target invalidates what it has written to");
    peer.near().post(WorkRequest::Invalidate { stag: region.stag });
    peer.answers();
    let Some(RegionMemory::Sink(memory)) = peer.near().returned.pop() else { panic!("the memory") };
    assert_eq!(memory[..], aperiodic(24 * BLOCK, 5));
}

/// With data in the command's own PDU, the base is that of the rest, as Linux and libiscsi have it; or of all data, if the initiator says so.
#[test]
fn the_base_of_write_data_is_where_the_initiator_says() {
    for (said, skipped) in [(None, 16), (Some("Yes"), 16), (Some("No"), 0)] {
        let mut keys = RDMA.to_vec();
        keys.extend(said.map(|value| ("TaggedBufferForSolicitedDataOnly", value)));
        let mut peer = AgainstTarget::ready(&keys, &Pool::new(64 << 20));
        let bytes = aperiodic(40 * BLOCK, 5);
        let region = peer.near().register(RegionMemory::Source(list(&bytes)));
        let base = TaggedBase { stag: region.stag, offset: (skipped * BLOCK) as u64 };
        let iser = IserHeader::new().writing(base);
        let immediate = &bytes[..16 * BLOCK];
        let answers =
            peer.command(write(40), iser, |command| command.writing(length(40), length(16)), immediate);
        assert_eq!(ScsiResponse::from_bytes(&answers[0].header).status(), Some(0), "{said:?}");
        assert!(peer.bench.memory.bytes[..40 * BLOCK] == bytes, "{said:?}");
    }
}

#[test]
fn messages_that_are_not_as_long_as_they_say_end_the_connection() {
    let ping = iscsi::pdu::NopOut::ping(7).to_bytes();
    let whole = message(IserHeader::new(), ping, &[1; 8]);
    let hello = [&[0x20][..], &whole[1..]].concat();
    let mut with_ahs = whole.clone();
    with_ahs[28 + 4] = 255;
    let cases = [
        ("empty", Vec::new()),
        ("part of the iSER header", whole[..20].to_vec()),
        ("part of the PDU's header", whole[..60].to_vec()),
        ("part of the data", whole[..80].to_vec()),
        ("no additional header", with_ahs),
        ("more than padding", [&whole[..], &[0; 4]].concat()),
        ("a Hello message", hello),
    ];
    assert_eq!(ready().send(&whole)[0].opcode(), Opcode::NOP_IN, "this is what is as it should be");
    for (what, bytes) in cases {
        let mut peer = ready();
        assert!(peer.send(&bytes).is_empty(), "{what} is not answered");
        assert_eq!(peer.close(), Some(reason(Violation::IserHeader)), "{what}");
    }
}

#[test]
fn a_command_names_memory_for_its_data() {
    let reading: fn(ScsiCommand) -> ScsiCommand = |command| command.reading(length(8));
    let writing: fn(ScsiCommand) -> ScsiCommand = |command| command.writing(length(8), 0);
    let other = TaggedBase { stag: STag(1), offset: 0 };
    for (cdb, shape, iser) in [
        (read(8), reading, IserHeader::new()),
        (read(8), reading, IserHeader::new().writing(other)),
        (write(8), writing, IserHeader::new()),
        (write(8), writing, IserHeader::new().reading(other)),
    ] {
        let mut peer = ready();
        let answers = peer.command(cdb, iser, shape, &[]);
        assert_eq!(AgainstTarget::rejected(&answers), Some(Reason::PROTOCOL_ERROR.0));
        assert_eq!(peer.close(), Some(reason(Violation::MissingStag)));
    }
}

#[test]
fn data_comes_in_no_pdu_of_its_own() {
    let mut peer = ready();
    let tags = TaskTags { initiator: 1, target: RESERVED_TAG };
    let data = DataOut::new([0; 8], tags, 0, DataRange { offset: 0, length: 512 });
    let answers = peer.send(&message(IserHeader::new(), data.to_bytes(), &[0; 512]));
    assert_eq!(AgainstTarget::rejected(&answers), Some(Reason::PROTOCOL_ERROR.0));
    assert_eq!(peer.close(), Some(reason(Violation::UnexpectedData)));
    let keys: Vec<(&str, &str)> = RDMA.into_iter().chain([("InitialR2T", "No")]).collect();
    let mut peer = AgainstTarget::ready(&keys, &Pool::new(64 << 20));
    let region = peer.near().register(source(8));
    let iser = IserHeader::new().writing(region.into());
    let unsolicited = |command: ScsiCommand| command.writing(length(8), 0).with_unsolicited();
    peer.command(write(8), iser, unsolicited, &[]);
    assert_eq!(peer.close(), Some(reason(Violation::UnexpectedData)), "InitialR2T=Yes, whatever was offered");
}

#[test]
fn a_login_without_rdma_is_none() {
    let hello = [("RDMAExtensions", "Yes"), ("iSERHelloRequired", "Yes")];
    for keys in [&[][..], &[("RDMAExtensions", "No")], &hello] {
        let portal = common::portal(64);
        let mut peer = AgainstTarget::new(common::iser::far(portal, &Pool::new(64 << 20)), 64);
        assert_eq!(peer.log_in(keys), 0x0207, "{keys:?}");
        assert_eq!(peer.close(), Some(reason(Violation::RdmaRequired)));
    }
}

#[test]
fn a_target_says_only_what_open_iscsi_knows() {
    let portal = common::portal(64);
    let mut peer = AgainstTarget::new(common::iser::far(portal, &Pool::new(64 << 20)), 64);
    let more = [("HeaderDigest", "CRC32C,None"), ("iSERHelloRequired", "No"), ("MaxAHSLength", "0")];
    let offered: Vec<(&str, &str)> = RDMA.into_iter().chain(more).collect();
    let bytes = peer.login_message(&offered);
    let answers = peer.send(&bytes);
    let text = String::from_utf8(answers[0].data.clone()).unwrap();
    let names: Vec<&str> =
        text.split('\0').filter_map(|pair| pair.split('=').next()).filter(|name| !name.is_empty()).collect();
    let known = [
        "RDMAExtensions",
        "InitiatorRecvDataSegmentLength",
        "TargetRecvDataSegmentLength",
        "HeaderDigest",
        "TargetAlias",
        "TargetPortalGroupTag",
    ];
    assert!(names.iter().all(|name| known.contains(name)), "{names:?}");
    assert!(text.contains("HeaderDigest=None\0"), "{text}");
}

/// While a login is answered only one request may come: a peer that floods this side runs out of receives.
#[test]
fn more_messages_than_receives_end_the_connection() {
    let portal = common::portal(64);
    let mut peer = AgainstTarget::new(common::iser::far(portal, &Pool::new(64 << 20)), 64);
    let bytes = peer.login_message(&RDMA);
    for _ in 0..4 {
        peer.near().send(&bytes, None);
    }
    let (now, pair) = (peer.bench.pair.now, &mut peer.bench.pair);
    for _ in 0..3 {
        // Nobody answers for the group of sessions.
        pair.exchange_once();
    }
    assert!(matches!(pair.far.connection.poll_close(), Some(CloseReason::Violation(_))), "{now:?}");
    assert_eq!(peer.bench.pair.far.connection.outstanding(), 0);
}

#[test]
fn a_bidirectional_command_is_rejected_and_the_connection_goes_on() {
    let mut peer = ready();
    let (to, from) = (peer.near().register(sink(8)), peer.near().register(source(8)));
    let iser = IserHeader::new().reading(to.into()).writing(from.into());
    let both = |command: ScsiCommand| command.reading(length(8)).writing(length(8), 0);
    let answers = peer.command(read(8), iser, both, &[]);
    assert_eq!(AgainstTarget::rejected(&answers), Some(Reason::COMMAND_NOT_SUPPORTED.0));
    assert_eq!(peer.close(), None);
    let answers = peer.command(builder::test_unit_ready(), IserHeader::new(), |command| command, &[]);
    assert_eq!(ScsiResponse::from_bytes(&answers[0].header).status(), Some(0));
}

/// A tag that is in use is refused, and does not lead the data of its task elsewhere.
#[test]
fn a_tag_in_use_changes_nothing_for_its_task() {
    let mut peer = ready();
    peer.bench.memory.hold = true;
    let (own, other) = (peer.near().register(sink(8)), peer.near().register(sink(8)));
    let shape = |command: ScsiCommand| command.reading(length(8));
    let first = peer.command_message(read(8), IserHeader::new().reading(own.into()), shape, &[]);
    assert!(peer.send(&first).is_empty(), "the volume has it");
    let mut second = peer.command_message(read(8), IserHeader::new().reading(other.into()), shape, &[]);
    second[28 + 16..28 + 20].copy_from_slice(&first[28 + 16..28 + 20]);
    assert_eq!(AgainstTarget::rejected(&peer.send(&second)), Some(Reason::TASK_IN_PROGRESS.0));
    peer.bench.memory.bytes[..8 * BLOCK].fill(9);
    peer.bench.release();
    assert_eq!(peer.answers()[0].invalidated, Some(own.stag));
    for (region, byte) in [(own, 9), (other, 0)] {
        peer.near().post(WorkRequest::Invalidate { stag: region.stag });
        peer.answers();
        let Some(RegionMemory::Sink(memory)) = peer.near().returned.pop() else { panic!("the memory") };
        assert_eq!(memory[..], [byte; 8 * BLOCK]);
    }
}

/// The memory that a command names is not there, too small, of the wrong kind, or no longer there: the transport ends the connection, the volume is not written to, and the
/// target holds nothing.
#[test]
fn memory_that_is_not_as_named_ends_the_connection() {
    let pool = Pool::new(64 << 20);
    for case in 0..8 {
        let before = pool.used();
        let mut peer = AgainstTarget::ready(&RDMA, &pool);
        peer.bench.memory.bytes.fill(3);
        let is_read = case < 4;
        let memory = match case {
            1 => sink(7),
            5 => source(7),
            2 | 4 | 7 => source(8),
            _ => sink(8),
        };
        let region = peer.near().register(memory);
        let base = match case {
            0 | 4 => TaggedBase { stag: STag(region.stag.0 ^ 0x700), offset: 0 },
            _ => region.into(),
        };
        if case % 4 == 3 {
            peer.near().post(WorkRequest::Invalidate { stag: region.stag });
        }
        if is_read {
            peer.command(read(8), IserHeader::new().reading(base), |command| command.reading(length(8)), &[]);
        } else {
            let shape = |command: ScsiCommand| command.writing(length(8), 0);
            peer.command(write(8), IserHeader::new().writing(base), shape, &[]);
        }
        assert!(peer.close().is_some(), "case {case}");
        assert!(peer.bench.memory.bytes.iter().all(|byte| *byte == 3), "case {case}: nothing was written");
        peer.bench.pair.far.end(peer.bench.pair.now, Ended::ByPeer);
        peer.bench.run();
        assert_eq!(peer.bench.pair.far.connection.outstanding(), 0, "case {case}");
        drop(peer);
        assert_eq!(pool.used(), before, "case {case}: all memory has come back");
    }
}

/// An abort is answered only when the read of its task is over: the initiator may take its memory back once it hears of it.
#[test]
fn an_abort_is_answered_after_the_read_of_its_task() {
    let mut peer = ready();
    let region = peer.near().register(source(64));
    let iser = IserHeader::new().writing(region.into());
    let command = peer.command_message(write(64), iser, |command| command.writing(length(64), 0), &[]);
    let abort = TaskManagementRequest::new(Function::ABORT_TASK, [0; 8], 9_000);
    let mut abort = abort.referring(100 + peer.cmd_sn - 1, peer.cmd_sn - 1).to_bytes();
    abort[24..28].copy_from_slice(&peer.cmd_sn.to_be_bytes());
    peer.near().send(&command, None);
    let now = peer.bench.pair.now;
    let bytes = peer.bench.pair.near.transmit(now);
    peer.bench.pair.far.receive(now, &bytes);
    let asked = peer.bench.pair.far.transmit(now);
    peer.near().send(&message(IserHeader::new(), abort, &[]), None);
    let bytes = peer.bench.pair.near.transmit(now);
    peer.bench.pair.far.receive(now, &bytes);
    assert!(peer.bench.pair.far.transmit(now).is_empty(), "the read is under way");
    peer.bench.pair.near.receive(now, &asked);
    let answers = peer.answers();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].opcode(), Opcode::TASK_MANAGEMENT_RESPONSE);
    peer.near().post(WorkRequest::Invalidate { stag: region.stag });
    let answers = peer.command(builder::test_unit_ready(), IserHeader::new(), |command| command, &[]);
    assert_eq!(ScsiResponse::from_bytes(&answers[0].header).status(), Some(0), "both go on");
    assert!(peer.bench.memory.bytes.iter().all(|byte| *byte == 0), "nothing was written");
}

/// So is a command that another nexus has aborted: its answer ends the memory.
#[test]
fn a_command_that_another_nexus_has_aborted_is_answered_after_its_read() {
    let mut peer = ready();
    let region = peer.near().register(source(64));
    let iser = IserHeader::new().writing(region.into());
    let command = peer.command_message(write(64), iser, |command| command.writing(length(64), 0), &[]);
    peer.near().send(&command, None);
    let now = peer.bench.pair.now;
    let bytes = peer.bench.pair.near.transmit(now);
    peer.bench.pair.far.receive(now, &bytes);
    let asked = peer.bench.pair.far.transmit(now);
    let event = Some(NexusEvent::LogicalUnitReset);
    let fence = Input::Fence { volume: VolumeId::new(0, 0), epoch: Epoch(1), event };
    peer.bench.pair.far.connection.handle_input(now, fence);
    assert!(peer.bench.pair.far.transmit(now).is_empty(), "the read is under way");
    peer.bench.pair.near.receive(now, &asked);
    let answers = peer.answers();
    assert_eq!(answers.len(), 1);
    let response = ScsiResponse::from_bytes(&answers[0].header);
    assert_eq!(response.status(), Some(Status::TaskAborted as u8));
    assert_eq!(answers[0].invalidated, Some(region.stag));
    assert!(peer.bench.memory.bytes.iter().all(|byte| *byte == 0), "nothing was written");
}

#[test]
fn a_target_that_does_not_agree_to_rdma_is_left() {
    for keys in [&[][..], &[("RDMAExtensions", "No")], &[("RDMAExtensions", "NotUnderstood")]] {
        let mut peer = AgainstInitiator::new();
        peer.log_in(keys);
        let failed = peer.failed().expect("there is no session");
        assert!(failed.contains("RDMAExtensions"), "{failed}");
    }
}

fn fails(peer: &mut AgainstInitiator, violation: Violation) {
    let failed = peer.failed().unwrap();
    assert!(failed.contains(violation.text()), "{failed}");
    assert_eq!(peer.bench.pair.near.connection.poll_close(), Some(CloseReason::Violation(violation.text())));
}

#[test]
fn an_initiator_takes_no_data_in_pdus() {
    let (mut peer, command, _) = AgainstInitiator::asked();
    let range = DataRange { offset: 0, length: 36 };
    peer.send(DataIn::new(command.task_tag(), 0, range).to_bytes(), &[0; 36], None);
    fails(&mut peer, Violation::UnknownOpcode);
    let (mut peer, command, _) = AgainstInitiator::asked();
    let tags = TaskTags { initiator: command.task_tag(), target: 1 };
    peer.send(R2t::new([0; 8], tags, 0, range).to_bytes(), &[], None);
    fails(&mut peer, Violation::UnknownOpcode);
}

#[test]
fn an_initiator_takes_messages_only_as_long_as_they_say() {
    for cut in [10, 50, 80] {
        let (mut peer, command, _) = AgainstInitiator::asked();
        let response = ScsiResponse::new(command.task_tag(), 0, Residual::None, 0);
        let bytes = peer.numbered(response.to_bytes(), &[0; 8]);
        peer.far().send(&bytes[..cut], None);
        fails(&mut peer, Violation::IserHeader);
    }
}

#[test]
fn a_response_invalidates_the_memory_of_its_own_task_alone() {
    // The first question has no data; the next has.
    let (mut peer, command, region) = asked_with_memory();
    let region = region.unwrap();
    peer.send(NopIn::ping(5).to_bytes(), &[], Some(region.stag));
    fails(&mut peer, Violation::WrongInvalidation);
    let (mut peer, ..) = asked_with_memory();
    peer.send(ScsiResponse::new(command.task_tag() ^ 1, 0, Residual::None, 0).to_bytes(), &[], None);
    fails(&mut peer, Violation::UnknownTask);
}

/// The first command of the initiator's that has memory.
fn asked_with_memory() -> (AgainstInitiator, ScsiCommand, Option<verbs::RemoteRegion>) {
    let (mut peer, mut command, mut region) = AgainstInitiator::asked();
    while region.is_none() {
        peer.send(ScsiResponse::new(command.task_tag(), 0, Residual::None, 0).to_bytes(), &[], None);
        let requests = peer.requests();
        command = ScsiCommand::from_bytes(&requests[0].header);
        region = requests[0].iser.read().and_then(|base| base.region(0, command.expected_length()));
    }
    (peer, command, region)
}

/// A target writes outside of the memory that it was given, reads it, or writes to it after it has answered: the transport refuses, and the initiator goes.
#[test]
fn a_target_touches_only_what_it_was_given_and_while_it_was() {
    for case in 0..4 {
        let (mut peer, command, region) = asked_with_memory();
        let region = region.unwrap();
        let bytes = vec![7; region.length as usize];
        let request = match case {
            0 => WorkRequest::Write { data: list(&bytes), to: verbs::RemoteRegion { offset: 1, ..region } },
            1 => WorkRequest::Write {
                data: list(&bytes),
                to: verbs::RemoteRegion { stag: STag(region.stag.0 ^ 0x700), ..region },
            },
            2 => WorkRequest::Read { into: Buf::zeroed(bytes.len()), from: region },
            _ => {
                let response = ScsiResponse::new(command.task_tag(), 0, Residual::None, 0);
                peer.send(response.to_bytes(), &[], None);
                peer.requests();
                WorkRequest::Write { data: list(&bytes), to: region }
            }
        };
        peer.far().post(request);
        peer.requests();
        assert!(
            matches!(peer.bench.pair.near.connection.poll_close(), Some(CloseReason::Violation(_))),
            "case {case}"
        );
        assert!(peer.far().read.is_empty(), "case {case}");
        peer.bench.pair.near.end(peer.bench.pair.now, Ended::ByUs);
        assert!(peer.failed().is_some(), "case {case}");
    }
}

#[test]
fn nothing_is_written_for_a_command_that_expects_nothing() {
    let mut peer = ready();
    let answers = peer.command(read(8), IserHeader::new(), |command| command.reading(0), &[]);
    let response = ScsiResponse::from_bytes(&answers[0].header);
    assert_eq!((response.status(), response.residual()), (Some(0), Residual::Overflow(length(8))));
}
