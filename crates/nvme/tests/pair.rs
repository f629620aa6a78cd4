//! Host and controller against each other: every size, chunk, digest, and command.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small numbers of tests")]

mod common;

use buf::{BufList, SharedBuf};
use common::{BLOCKS, Bench, admin, config, io};
use nvme::controller::{self, AllowedHost, Hosts};
use nvme::host::{Action, Failure, Input, Queue, RemoteNamespace};
use nvme::log::SubsystemType;
use nvme::status::Status;
use protocol::pair::aperiodic;
use protocol::{CloseReason, Connection as _, Ended, Instant};
use volume::{Completion, Durability, Extent, Features, Operation, VolumeErrorKind};

#[test]
fn an_admin_connection_learns_the_namespace() {
    let mut bench = Bench::new();
    let remote = bench.session(3, 0, (false, false));
    assert_eq!((remote.nsid, remote.cntlid, remote.queues), (3, 1, 4));
    assert_eq!((remote.geometry.blocks, remote.geometry.block_size), (BLOCKS, 4096));
    assert_eq!((remote.limits.max_transfer, remote.in_capsule, remote.entries), (1 << 20, 16 << 10, 128));
    let features =
        Features::VOLATILE_CACHE | Features::DISCARD | Features::WRITE_ZEROES | Features::ALLOCATION;
    assert_eq!(remote.features, features);
    assert_eq!((remote.ids.nguid, remote.ids.uuid), (Some([3; 16]), Some([7; 16])));
}

#[test]
fn data_survives_every_size_chunk_and_digest() {
    for digests in [(false, false), (true, false), (false, true), (true, true)] {
        for chunk in [1, 7, 1000, usize::MAX] {
            let mut bench = Bench::new();
            bench.chunk = chunk;
            bench.session(1, 1, digests);
            let sizes: &[usize] =
                if chunk == 1 { &[512, 16896] } else { &[512, 4096, 16384, 16896, 1 << 20] };
            for (round, &size) in sizes.iter().enumerate() {
                let bytes = aperiodic(size, round as u64);
                bench.links[1].write(1, 3, bytes.clone());
                bench.run();
                assert_eq!(bench.links[1].completions(), [(1, Ok(vec![]))]);
                bench.links[1].read(2, 3, size);
                bench.run();
                assert_eq!(bench.links[1].completions(), [(2, Ok(bytes))], "{digests:?} {chunk} {size}");
            }
        }
    }
}

#[test]
fn a_full_queue_of_mixed_commands_completes() {
    let mut bench = Bench::new();
    bench.session(1, 2, (true, true));
    bench.held = Some(Vec::new());
    for tag in 0..200_u64 {
        let link = &mut bench.links[1 + (tag % 2) as usize];
        match tag % 4 {
            0 | 1 => link.write(tag, tag * 40, aperiodic(if tag % 8 < 4 { 4096 } else { 20480 }, tag)),
            _ => link.read(tag, tag * 40, 4096),
        }
    }
    bench.run();
    while bench.held.as_ref().is_some_and(|held| !held.is_empty()) {
        bench.release();
        bench.held = Some(Vec::new());
        bench.run();
    }
    let mut done = bench.links[1].completions();
    done.extend(bench.links[2].completions());
    assert_eq!(done.len(), 200);
    assert!(done.iter().all(|(_, result)| result.is_ok()));
}

#[test]
fn blocks_are_read_where_there_is_no_verify() {
    let mut bench = Bench::new();
    let remote = bench.session(1, 0, (false, true));
    let link = bench.connect(io(1, &RemoteNamespace { verifies: false, ..remote }));
    bench.held = Some(Vec::new());
    bench.links[link].submit(1, Operation::Verify { extent: Extent::new(3, BLOCKS - 3) });
    let mut next = 3;
    bench.run();
    while let Some((_, _, request)) = bench.held.as_ref().and_then(|held| held.first()) {
        assert!(matches!(request.operation, Operation::Read { .. }), "{request:?}");
        let extent = request.operation.extent().unwrap();
        assert_eq!(extent.start, next, "each block once, in order");
        next += extent.blocks;
        bench.release();
        bench.held = Some(Vec::new());
        bench.run();
    }
    assert_eq!((next, bench.links[link].completions()), (BLOCKS, vec![(1, Ok(vec![]))]));
}

#[test]
fn zeros_are_written_where_write_zeroes_is_refused() {
    let mut bench = Bench::new();
    bench.session(1, 1, (false, false));
    bench.disks[0].fill(0xee);
    let extent = Extent::new(8, BLOCKS - 16);
    for durability in [Durability::Cached, Durability::Durable] {
        bench.held = Some(Vec::new());
        bench.links[1].submit(1, Operation::WriteZeroes { extent, durability, may_unmap: true });
        bench.run();
        let mut held = bench.held.take().unwrap();
        if let Some((index, _, request)) =
            held.pop_if(|(_, _, request)| matches!(request.operation, Operation::WriteZeroes { .. }))
        {
            assert_eq!(durability, Durability::Cached, "asked once, and not again");
            let completion = Completion::failed(request.tag, VolumeErrorKind::Unsupported);
            bench.input(index, controller::Input::Completion(completion));
        }
        bench.held = Some(held);
        bench.release();
        bench.run();
        assert_eq!(bench.links[1].completions(), [(1, Ok(vec![]))]);
        let disk = &bench.disks[0];
        let edge = (8 * 512, (BLOCKS - 8) as usize * 512);
        assert!(disk[edge.0..edge.1].iter().all(|byte| *byte == 0));
        assert_eq!((disk[edge.0 - 1], disk[edge.1]), (0xee, 0xee));
        bench.disks[0].fill(0xee);
    }
}

/// What a request asks of the volume, with the promise that it makes.
fn promise(operation: &Operation) -> (&'static str, Option<Durability>) {
    match operation {
        Operation::Write { durability, .. } => ("write", Some(*durability)),
        Operation::WriteZeroes { durability, .. } => ("zeroes", Some(*durability)),
        Operation::Discard { .. } => ("discard", None),
        Operation::Flush => ("flush", None),
        _ => ("another", None),
    }
}

/// NVM Command Set §3.2.5 and §3.2.8: FUA; also where zeros are written because Write Zeroes is refused, to their last piece.
#[test]
fn every_writing_command_reaches_the_volume_with_the_durability_that_it_promises() {
    for durability in [Durability::Cached, Durability::Durable] {
        let extent = Extent::new(8, 5000);
        let bytes: Vec<u8> =
            (0..3 * 512_usize).map(|at| (at.wrapping_mul(2_654_435_761) >> 16) as u8).collect();
        let data = || BufList::from(SharedBuf::from(bytes.clone()));
        let rows = [
            ("Write", Operation::Write { extent: Extent::new(1, 3), data: data(), durability }, "write"),
            ("Write Zeroes", Operation::WriteZeroes { extent, durability, may_unmap: false }, "zeroes"),
            (
                "Write Zeroes with DEAC",
                Operation::WriteZeroes { extent, durability, may_unmap: true },
                "zeroes",
            ),
            (
                "Write Zeroes, refused",
                Operation::WriteZeroes { extent, durability, may_unmap: true },
                "write",
            ),
        ];
        for (name, operation, expected) in rows {
            let mut bench = Bench::new();
            bench.session(1, 1, (false, false));
            bench.held = Some(Vec::new());
            bench.links[1].submit(1, operation);
            bench.run();
            if name.ends_with("refused") {
                let (index, _, request) = bench.held.as_mut().unwrap().remove(0);
                let completion = Completion::failed(request.tag, VolumeErrorKind::Unsupported);
                bench.input(index, controller::Input::Completion(completion));
                bench.held.as_mut().unwrap().clear();
                bench.run();
            }
            let mut seen = 0;
            while let Some((_, _, request)) = bench.held.as_ref().and_then(|held| held.first()) {
                seen += 1;
                assert_eq!(
                    promise(&request.operation),
                    (expected, Some(durability)),
                    "{name}, request {seen}: FUA reaches the medium before the command completes (NVM Command Set §3.2.5)"
                );
                bench.release();
                bench.held = Some(Vec::new());
                bench.run();
            }
            assert!(seen > 0, "{name}: nothing reached the volume");
            assert_eq!(bench.links[1].completions(), [(1, Ok(vec![]))], "{name}");
        }
    }
}

#[test]
fn a_flush_reaches_the_volume_before_it_completes() {
    let mut bench = Bench::new();
    bench.session(1, 1, (false, false));
    bench.held = Some(Vec::new());
    bench.links[1].submit(1, Operation::Flush);
    bench.run();
    assert_eq!(
        bench.links[1].completions(),
        [],
        "answered before the volume has flushed (NVM Command Set §3.1)"
    );
    let held = bench.held.as_ref().unwrap();
    assert_eq!(
        held.iter().map(|(_, _, request)| promise(&request.operation)).collect::<Vec<_>>(),
        [("flush", None)]
    );
    bench.release();
    bench.run();
    assert_eq!(bench.links[1].completions(), [(1, Ok(vec![]))]);
}

#[test]
fn commands_without_data_do_what_they_say() {
    let mut bench = Bench::new();
    bench.session(1, 1, (false, true));
    bench.disks[0].fill(0xee);
    let link = &mut bench.links[1];
    let everything = Extent::new(0, BLOCKS);
    link.submit(1, Operation::Flush);
    link.submit(2, Operation::Discard { extent: Extent::new(8, 8) });
    let extent = Extent::new(100, 5000);
    link.submit(3, Operation::WriteZeroes { extent, durability: Durability::Cached, may_unmap: true });
    link.submit(4, Operation::Verify { extent: everything });
    let equal = BufList::from(SharedBuf::from(vec![0xee; 512]));
    link.submit(5, Operation::Compare { extent: Extent::new(0, 1), data: equal });
    let other = BufList::from(SharedBuf::from(vec![0xef; 512]));
    link.submit(6, Operation::Compare { extent: Extent::new(0, 1), data: other });
    link.read(7, BLOCKS - 1, 1024);
    link.submit(8, Operation::QueryAllocation { extent: everything });
    bench.run();
    let done = |tag| (tag, Ok(vec![]));
    let miscompare = Err(VolumeErrorKind::Miscompare { offset: 0 });
    let expected = [
        done(1),
        done(2),
        done(3),
        done(4),
        done(5),
        (6, miscompare),
        (7, Err(VolumeErrorKind::OutOfRange)),
        (8, Err(VolumeErrorKind::Unsupported)),
    ];
    assert_eq!(bench.links[1].completions(), expected);
    assert_eq!(bench.flushes, 1);
    let disk = &bench.disks[0];
    assert_eq!((disk[8 * 512 - 1], disk[8 * 512], disk[16 * 512 - 1], disk[16 * 512]), (0xee, 0, 0, 0xee));
    assert_eq!(
        (disk[100 * 512 - 1], disk[100 * 512], disk[5100 * 512 - 1], disk[5100 * 512]),
        (0xee, 0, 0, 0xee)
    );
}

#[test]
fn discovery_names_what_the_host_may_use() {
    let mut portal = common::portal();
    let mut secret = (*portal.subsystems[0]).clone();
    secret.nqn = "nqn.2026-11.org.linerate:secret".into();
    secret.hosts = Hosts::Listed(vec![allowed("nqn.other", None)]);
    portal.subsystems.push(secret.into());
    let mut bench = Bench::with(portal);
    let link = bench.connect(config(Queue::Discovery));
    let Action::Discovered(entries) = bench.links[link].events.remove(0) else {
        panic!("nothing discovered")
    };
    let seen: Vec<_> =
        entries.iter().map(|entry| (entry.kind, &*entry.subnqn, entry.address.to_string())).collect();
    let (itself, disk) = (SubsystemType::CurrentDiscovery, SubsystemType::Nvm);
    let (four, six) = ("127.0.0.1:4420".to_string(), "[::1]:4420".to_string());
    let expected = [
        (itself, nvme::DISCOVERY_NQN, four.clone()),
        (itself, nvme::DISCOVERY_NQN, six.clone()),
        (disk, common::NQN, four),
        (disk, common::NQN, six),
    ];
    assert_eq!(seen, expected);
    assert_eq!(bench.links[link].pair.near.connection.poll_close(), Some(CloseReason::Finished));
}

fn allowed(nqn: &str, namespaces: Option<Vec<u32>>) -> AllowedHost {
    AllowedHost { nqn: nqn.into(), namespaces }
}

fn failure(bench: &mut Bench, link: usize) -> Failure {
    match bench.links[link].events.pop() {
        Some(Action::Failed(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_connect_that_may_not_be_is_refused() {
    let mut portal = common::portal();
    common::subsystem(&mut portal).hosts = Hosts::Listed(vec![allowed("nqn.other", None)]);
    let mut bench = Bench::with(portal);
    let link = bench.connect(admin(1));
    assert_eq!(failure(&mut bench, link), Failure::Refused(Status::CONNECT_HOST.dnr()));
    let mut unknown = admin(1);
    unknown.subnqn = "nqn.2026-11.org.linerate:none".into();
    let link = bench.connect(unknown);
    assert_eq!(failure(&mut bench, link), Failure::Refused(Status::CONNECT_INVALID.dnr()));

    let mut bench = Bench::new();
    let remote = bench.session(1, 1, (false, false));
    let link = bench.connect(io(1, &remote));
    assert_eq!(failure(&mut bench, link), Failure::Refused(Status::COMMAND_SEQUENCE.dnr()));
    let link = bench.connect(io(5, &remote));
    assert_eq!(failure(&mut bench, link), Failure::Refused(Status::CONNECT_INVALID.dnr()));
    let link = bench.connect(admin(2));
    let unusable = Failure::Unusable("the namespace's block format is not supported");
    assert_eq!(failure(&mut bench, link), unusable);
}

#[test]
fn a_read_that_the_connection_or_the_controller_ends_gives_its_memory_back() {
    for fails in [false, true] {
        let mut bench = Bench::new();
        bench.session(1, 1, (false, false));
        bench.held = Some(Vec::new());
        let into = buf::Buf::zeroed(4096);
        let place = into.as_ptr();
        bench.links[1].submit(1, Operation::Read { extent: Extent::new(0, 8), into });
        bench.run();
        if fails {
            let (index, _, request) = bench.held.as_mut().unwrap().pop().unwrap();
            let completion = request.failed(VolumeErrorKind::Media);
            bench.input(index, nvme::controller::Input::Completion(completion));
            bench.run();
        } else {
            bench.end(1);
        }
        let told = bench.links[1].events.drain(..).find_map(|event| match event {
            nvme::host::Action::Complete(completion) => completion.result.err(),
            _ => None,
        });
        let memory = told.unwrap().memory.expect("the memory");
        assert_eq!((memory.as_ptr(), memory.len()), (place, 4096));
    }
}

#[test]
fn a_controller_that_ends_takes_its_queues_with_it_and_answers_everything() {
    let mut bench = Bench::new();
    bench.session(1, 2, (false, false));
    bench.held = Some(Vec::new());
    bench.links[1].read(1, 0, 4096);
    bench.run();
    bench.end(0);
    for link in [1, 2] {
        assert_eq!(bench.links[link].pair.far.connection.poll_close(), Some(CloseReason::Finished));
    }
    bench.end(1);
    assert_eq!(bench.links[1].completions(), [(1, Err(VolumeErrorKind::Unreachable))]);
    bench.release();
    bench.run();
}

#[test]
fn a_disconnect_ends_in_good_order() {
    let mut bench = Bench::new();
    bench.session(1, 1, (false, false));
    for link in [1, 0] {
        bench.links[link].pair.near.connection.handle_input(Instant::ZERO, Input::Disconnect);
        bench.run();
        assert_eq!(bench.links[link].pair.near.connection.poll_close(), Some(CloseReason::Finished));
        assert!(bench.links[link].events.is_empty());
        bench.end(link);
    }
    assert_eq!(bench.group.controllers(), 0);
}

#[test]
fn keep_alive_keeps_alive_and_its_absence_ends_the_controller() {
    let mut bench = Bench::new();
    bench.session(1, 0, (false, false));
    for seconds in (5..60).step_by(5) {
        let pair = &mut bench.links[0].pair;
        pair.now = Instant::from_nanos(seconds * 1_000_000_000);
        pair.near.connection.handle_timeout(pair.now);
        pair.far.connection.handle_timeout(pair.now);
        bench.run();
        assert_eq!(bench.links[0].pair.far.connection.poll_close(), None);
    }
    let pair = &mut bench.links[0].pair;
    let deadline = pair.far.connection.poll_timeout().unwrap();
    pair.far.connection.handle_timeout(deadline);
    let reason = CloseReason::TimedOut("the keep alive timer expired");
    assert_eq!(pair.far.connection.poll_close(), Some(reason));
}

#[test]
fn what_waits_in_the_sockets_of_an_expired_controller_is_not_carried_out() {
    let mut bench = Bench::new();
    bench.session(1, 1, (false, false));
    // The process was stopped for a while; nothing has looked at its timers when it goes on.
    let deadline = bench.links[0].pair.far.connection.poll_timeout().unwrap();
    for length in [512, 64 << 10] {
        bench.links[1].write(1, 0, aperiodic(length, 1));
    }
    bench.links[1].pair.now = deadline;
    bench.run();
    assert!(bench.disks[0][..512].iter().all(|byte| *byte == 0), "an old write took effect");
    let reason = CloseReason::TimedOut("the keep alive timer expired");
    assert_eq!(bench.links[1].pair.far.connection.poll_close(), Some(reason));
}

#[test]
fn a_resize_reaches_the_host() {
    let mut bench = Bench::new();
    bench.session(1, 1, (false, false));
    let mut geometry = bench.portal.subsystems[0].namespaces[0].geometry;
    for blocks in [16, 32] {
        geometry.blocks = blocks;
        for link in [0, 1] {
            let volume = volume::VolumeId::new(0, 0);
            bench.input(link, nvme::controller::Input::NamespaceChanged { volume, geometry });
        }
        bench.run();
        match bench.links[0].events.pop() {
            Some(Action::NamespaceChanged(remote)) => assert_eq!(remote.geometry.blocks, blocks),
            other => panic!("{other:?}"),
        }
    }
    bench.links[1].read(1, 32, 512);
    bench.run();
    assert_eq!(bench.links[1].completions(), [(1, Err(VolumeErrorKind::OutOfRange))]);
}

#[test]
fn a_reservation_of_another_host_fences_this_one() {
    use volume::reservation::{Registrant, Registration, ReservationType, View};
    let mut bench = Bench::new();
    bench.session(1, 1, (false, false));
    let other = Registrant::Host { identifier: [9; 16], nqn: "nqn.other".into() };
    let view = View {
        registrations: vec![Registration { registrant: other.clone(), key: 1 }],
        reservation: Some((ReservationType::WriteExclusive, Some(other))),
        ..View::default()
    };
    let volume = volume::VolumeId::new(0, 0);
    let (notices, aborted) = (std::sync::Arc::new([]), std::sync::Arc::new([]));
    let change = nvme::controller::Reservations { view: view.into(), notices, aborted };
    let (epoch, reservations) = (volume::Epoch(1), Some(change));
    bench.input(1, nvme::controller::Input::Fence { volume, epoch, reservations });
    bench.links[1].write(1, 0, aperiodic(512, 0));
    bench.links[1].write(2, 0, aperiodic(1 << 20, 0));
    bench.links[1].read(3, 0, 512);
    bench.run();
    let conflict = Err(VolumeErrorKind::ReservationConflict);
    let expected = [(1, conflict.clone()), (2, conflict), (3, Ok(vec![0; 512]))];
    assert_eq!(bench.links[1].completions(), expected);
}

#[test]
fn a_starved_pool_delays_and_loses_nothing() {
    let mut bench = Bench::new();
    bench.pool = buf::Pool::new(64 << 10);
    bench.session(1, 1, (true, true));
    bench.held = Some(Vec::new());
    for tag in 0..40 {
        bench.links[1].write(tag, tag * 64, aperiodic(20480, tag));
    }
    let mut rounds = 0;
    loop {
        bench.run();
        if bench.held.as_ref().is_none_or(Vec::is_empty) {
            break;
        }
        rounds += 1;
        bench.release();
        bench.held = Some(Vec::new());
    }
    assert!(rounds > 10, "the pool holds two of these writes at a time");
    let done = bench.links[1].completions();
    assert_eq!(done.len(), 40);
    for tag in 0..40_u8 {
        let at = usize::from(tag) * 64 * 512;
        assert_eq!(bench.disks[0][at..at + 20480], aperiodic(20480, tag.into()));
    }
}

#[test]
fn a_lost_connection_is_reported_once() {
    let mut bench = Bench::new();
    let link = bench.connect(admin(1));
    bench.links[link].events.clear();
    let pair = &mut bench.links[link].pair;
    pair.near.end(pair.now, Ended::Failed(104));
    bench.run();
    let lost = Failure::Lost("the connection to the controller was lost");
    assert_eq!(failure(&mut bench, link), lost);
    assert!(bench.links[link].events.is_empty());
}
