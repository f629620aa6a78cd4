//! Get LBA Status between both roles, and what a controller refuses.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of tests")]

mod common;
mod walker;

use common::{BLOCKS, Bench, portal};
use nvme::allocation::{GetLbaStatus, TRACKED_ALLOCATED};
use nvme::controller;
use nvme::fabrics::HostIdentity;
use nvme::host;
use nvme::identify::{IdentifyController, NvmNamespace, cns};
use nvme::limits::{ALLOCATION_COMMANDS, ALLOCATION_QUERIES};
use nvme::properties::{Configuration, offset};
use nvme::status::Status;
use volume::reservation::{Command, Registrant, ReservationType};
use volume::{Allocation, Completion, Extent, Features, Operation, Outcome, VolumeErrorKind, VolumeId};
use walker::{Host, Walk};
use zerocopy::FromBytes;

fn query(start: u64, blocks: u64) -> Operation {
    Operation::QueryAllocation { extent: Extent::new(start, blocks) }
}

/// So many blocks, and whether there is data.
type Told = Result<(u64, bool), VolumeErrorKind>;

/// What has completed on an admin link, by tag.
fn answers(bench: &mut Bench, link: usize) -> Vec<(u64, Told)> {
    let events = bench.links[link].events.drain(..);
    let completions = events.filter_map(|event| match event {
        host::Action::Complete(Completion { tag, result }) => Some((tag.0, result)),
        _ => None,
    });
    let told = |outcome| match outcome {
        Outcome::Allocation(Allocation { extent, mapped }) => (extent.blocks, mapped),
        other => panic!("{other:?}"),
    };
    completions.map(|(tag, result)| (tag, result.map(told).map_err(VolumeErrorKind::from))).collect()
}

fn ask(bench: &mut Bench, link: usize, operation: Operation) -> Told {
    bench.links[link].submit(1, operation);
    bench.run();
    let [(1, result)] = answers(bench, link)[..] else { panic!("one answer") };
    result
}

#[test]
fn an_admin_queue_tells_data_from_holes() {
    let mut bench = Bench::new();
    let remote = bench.session(1, 1, (false, true));
    assert!(remote.features.contains(Features::ALLOCATION));
    for block in [100_usize, 101, 103, 8191] {
        bench.disks[0][block * 512] = 1;
    }
    for (start, blocks, expected) in [
        (0, BLOCKS, (100, false)),
        (100, BLOCKS - 100, (2, true)),
        (101, 1, (1, true)),
        (102, 2, (1, false)),
        (102, 1, (1, false)),
        (103, BLOCKS - 103, (1, true)),
        (104, 5, (5, false)),
        (104, BLOCKS - 104, (8087, false)),
        (8191, 1, (1, true)),
    ] {
        assert_eq!(ask(&mut bench, 0, query(start, blocks)), Ok(expected), "{start}+{blocks}");
    }
    // An I/O queue does not carry it.
    bench.links[1].submit(1, query(0, 8));
    bench.run();
    assert_eq!(answers(&mut bench, 1), [(1, Err(VolumeErrorKind::Unsupported))]);
}

#[test]
fn a_host_asks_little_at_a_time_and_everything_in_the_end() {
    let mut bench = Bench::new();
    bench.session(1, 1, (false, false));
    bench.held = Some(Vec::new());
    let many = 3 * ALLOCATION_COMMANDS as u64;
    (0..many).for_each(|tag| bench.links[0].submit(tag, query(tag, 8)));
    bench.run();
    assert_eq!(bench.held.as_ref().unwrap().len(), ALLOCATION_COMMANDS);
    bench.release();
    bench.run();
    let mut told = answers(&mut bench, 0);
    told.sort_by_key(|(tag, _)| *tag);
    assert_eq!(told.len(), many as usize);
    assert!(told.iter().zip(0..).all(|((tag, result), own)| *tag == own && *result == Ok((8, false))));
    // Whatever waits when the connection ends is answered.
    bench.held = Some(Vec::new());
    (0..many).for_each(|tag| bench.links[0].submit(tag, query(tag, 8)));
    bench.run();
    bench.end(0);
    let told = answers(&mut bench, 0);
    assert_eq!(told.len(), many as usize);
    assert!(told.iter().all(|(_, result)| *result == Err(VolumeErrorKind::Unreachable)));
}

#[test]
fn errors_and_fences_reach_who_asked() {
    let mut bench = Bench::new();
    bench.session(1, 1, (false, false));
    for kind in [VolumeErrorKind::Media, VolumeErrorKind::Unreachable, VolumeErrorKind::Busy] {
        bench.held = Some(Vec::new());
        bench.links[0].submit(1, query(0, 8));
        bench.run();
        let (_, _, request) = bench.held.take().unwrap().remove(0);
        let completion = Completion::failed(request.tag, kind);
        bench.input(0, controller::Input::Completion(completion));
        bench.run();
        assert_eq!(answers(&mut bench, 0), [(1, Err(kind))]);
    }
    // A request that a fence has overtaken is judged again, and goes on if nothing speaks against it.
    for (fenced, expected) in [(false, Ok((8, false))), (true, Err(VolumeErrorKind::ReservationConflict))] {
        bench.held = Some(Vec::new());
        bench.links[0].submit(1, query(0, 8));
        bench.run();
        let (_, _, request) = bench.held.take().unwrap().remove(0);
        if fenced {
            reserve(&mut bench, ReservationType::ExclusiveAccess);
        }
        bench.input(0, controller::Input::StaleEpoch(Box::new(request)));
        bench.run();
        assert_eq!(answers(&mut bench, 0), [(1, expected)]);
    }
}

/// Another host takes the reservation.
fn reserve(bench: &mut Bench, kind: ReservationType) {
    let HostIdentity { identifier, nqn } = HostIdentity { identifier: [9; 16], nqn: "nqn.other".into() };
    let other = Registrant::Host { identifier, nqn };
    let register = Command::Register { key: Some(0), new_key: 9, persist: None };
    bench.reserve(VolumeId::new(0, 0), &other, &register).unwrap();
    bench.reserve(VolumeId::new(0, 0), &other, &Command::Reserve { key: 9, kind }).unwrap();
}

#[test]
fn who_may_not_read_is_not_told_where_there_is_data() {
    for (kind, expected) in [
        (ReservationType::WriteExclusive, Ok((8, false))),
        (ReservationType::ExclusiveAccess, Err(VolumeErrorKind::ReservationConflict)),
    ] {
        let mut bench = Bench::new();
        bench.session(1, 1, (false, false));
        reserve(&mut bench, kind);
        assert_eq!(ask(&mut bench, 0, query(0, 8)), expected, "{kind:?}");
    }
}

/// A command about the first namespace, with room for as many bytes.
fn status(start: u64, blocks: Option<u16>, length: u64) -> GetLbaStatus {
    GetLbaStatus { start, length, blocks, action: TRACKED_ALLOCATED }
}

#[test]
fn what_cannot_be_answered_is_refused_and_nobody_is_asked() {
    let mut with = portal();
    common::subsystem(&mut with).namespaces[1].features.remove(Features::ALLOCATION);
    let mut walk = Walk::new(with);
    let queue = walk.connect(&Host::linux()).unwrap();
    walk.set(queue, offset::CC, Configuration::ENABLE.0);
    let good = status(0, None, 24);
    let invalid = Status::INVALID_FIELD.dnr();
    for (command, nsid, expected, why) in [
        (GetLbaStatus { action: 0x10, ..good }, 1, invalid, "a scan"),
        (GetLbaStatus { action: 0x11, ..good }, 1, invalid, "blocks that cannot be read"),
        (GetLbaStatus { length: (1 << 20) + 4, ..good }, 1, invalid, "a long answer"),
        (good, 3, invalid, "a namespace that does not tell"),
        (good, 2, Status::INVALID_NAMESPACE.dnr(), "no namespace"),
        (good, u32::MAX, Status::INVALID_NAMESPACE.dnr(), "all namespaces"),
        (status(BLOCKS, None, 24), 1, Status::LBA_OUT_OF_RANGE.dnr(), "behind the end"),
        (status(u64::MAX, Some(1), 24), 1, Status::LBA_OUT_OF_RANGE.dnr(), "far behind the end"),
        (status(BLOCKS - 1, Some(2), 24), 1, Status::LBA_OUT_OF_RANGE.dnr(), "across the end"),
    ] {
        let answer = walk.ask_for(queue, command.encode(nsid), command.length as u32);
        assert_eq!(answer.status, expected, "{why}");
    }
    let answer = walk.ask_for(queue, good.encode(1), 28);
    assert_eq!(
        answer.status,
        Status::DATA_SGL_LENGTH_INVALID.dnr(),
        "memory of another length than MNDW says"
    );
}

#[test]
fn the_command_is_announced_where_a_namespace_tells_its_allocation() {
    for features in [Features::ALLOCATION, Features::empty()] {
        let told = features == Features::ALLOCATION;
        let mut with = portal();
        for namespace in &mut common::subsystem(&mut with).namespaces {
            namespace.features = features;
        }
        let mut walk = Walk::new(with);
        let queue = walk.connect(&Host::linux()).unwrap();
        walk.set(queue, offset::CC, Configuration::ENABLE.0);
        let data = walk.identify(queue, cns::CONTROLLER, (0, 0)).unwrap();
        let controller = IdentifyController::read_from_bytes(&data).unwrap();
        assert_eq!(controller.oacs.get(), u16::from(told) << 9);
        for (nsid, granularity) in [(1, 8), (3, 1)] {
            let data = walk.identify(queue, cns::SET_NAMESPACE, (nsid, 0)).unwrap();
            let namespace = NvmNamespace::read_from_bytes(&data).unwrap();
            assert_eq!(namespace.tlbaag.get(), u32::from(told) * granularity, "namespace {nsid}");
        }
        if !told {
            let answer = walk.ask_for(queue, status(0, None, 24).encode(1), 24);
            assert_eq!(answer.status, Status::INVALID_OPCODE.dnr());
        }
    }
    let mut walk = Walk::new(portal());
    let queue = walk.connect(&Host { subnqn: nvme::DISCOVERY_NQN, ..Host::linux() }).unwrap();
    walk.set(queue, offset::CC, Configuration::ENABLE.0);
    let answer = walk.ask_for(queue, status(0, None, 24).encode(1), 24);
    assert_eq!(answer.status, Status::INVALID_OPCODE.dnr(), "discovery has none");
}

#[test]
fn an_answer_is_as_long_as_was_asked_and_looks_at_a_bounded_number_of_runs() {
    let mut walk = Walk::new(portal());
    let queue = walk.connect(&Host::linux()).unwrap();
    walk.set(queue, offset::CC, Configuration::ENABLE.0);
    // The walker's volume has every other block.
    let bound = u32::try_from(ALLOCATION_QUERIES / 2).unwrap();
    for (command, ranges, condition) in [
        (status(0, Some(6), 56), 3, 2),
        (status(0, Some(7), 56), 3, 2),
        (status(0, Some(8), 56), 3, 1),
        (status(BLOCKS - 5, None, 56), 3, 2),
        (status(0, None, 1 << 20), bound, 1),
        (status(0, None, 8), 0, 1),
        (status(0, None, 4), 0, 0),
    ] {
        let answer = walk.ask_for(queue, command.encode(1), command.length as u32);
        assert_eq!((answer.status, answer.data.len()), (Status::SUCCESS, command.length as usize));
        assert_eq!(answer.data[..4], u32::to_le_bytes(ranges), "{command:?}");
        assert_eq!(answer.data.get(4).copied().unwrap_or(0), condition, "{command:?}");
        let told = (ranges as usize * 16 + 8).min(answer.data.len());
        assert!(answer.data[told..].iter().all(|byte| *byte == 0), "{command:?}");
        for (number, range) in (0_u64..).zip(answer.data.get(8..told).unwrap_or_default().chunks(16)) {
            let first = (command.start | 1) + 2 * number;
            assert_eq!(
                (range[..8].to_vec(), range[8..].to_vec()),
                (first.to_le_bytes().to_vec(), vec![0, 0, 0, 0, 0, 2, 0, 0])
            );
        }
    }
}
