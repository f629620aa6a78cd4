//! Both roles over software iWARP: what holds over TCP holds over RDMA.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of tests")]

mod common;
mod rdma_fabric;

use std::sync::Arc;
use std::time::Duration;

use buf::{BufList, Pool, SharedBuf};
use common::{BLOCKS, Bench, Fabric, Tcp, admin, config, portal, subsystem};
use nvme::controller;
use nvme::host::{Action, Failure, Input, Queue};
use nvme::log::TransportType;
use protocol::pair::aperiodic;
use protocol::{CloseReason, Connection as _, Ended, Instant};
use rdma_fabric::{Iwarp, Narrow, NarrowController, NarrowHost};
use verbs::{EndReason, QueuePair as _, QueuePairState};
use volume::reservation::{Command, ReservationType};
use volume::{Durability, Extent, Geometry, Operation, VolumeErrorKind, VolumeId};

const IO: usize = 1;

fn session<F: Fabric>(fabric: F) -> Bench<F> {
    let mut bench = Bench::over(fabric, portal());
    bench.session(1, 1, (false, false));
    bench
}

#[test]
fn a_host_finds_the_same_namespace_as_over_tcp() {
    let mut bench = Bench::over(Iwarp::default(), portal());
    let found = bench.session(1, 2, (false, false));
    let mut tcp = Bench::new().session(1, 2, (false, false));
    assert_eq!((found.in_capsule, tcp.in_capsule), (4096, 16 << 10));
    tcp.in_capsule = found.in_capsule;
    assert_eq!(found, tcp);
}

#[test]
fn reads_and_writes_of_every_length_and_in_every_chunk() {
    for (chunk, crc) in [(usize::MAX, false), (1, true), (100, false), (4096, true)] {
        let mut bench = Bench::over(Iwarp { crc, ..Iwarp::default() }, portal());
        bench.chunk = chunk;
        bench.session(1, 1, (false, false));
        for (tag, length) in [512, 4096, 8192, 16_896, 65_536, 1 << 20].into_iter().enumerate() {
            let (tag, data) = (tag as u64, aperiodic(length, tag as u64));
            bench.links[IO].write(tag, 8 * tag, data.clone());
            bench.run();
            assert_eq!(bench.links[IO].completions(), [(tag, Ok(Vec::new()))], "{length} in {chunk}");
            bench.links[IO].read(tag, 8 * tag, length);
            bench.run();
            assert_eq!(bench.links[IO].completions(), [(tag, Ok(data))]);
        }
        bench.links[IO].read(0, common::BLOCKS, 65_536);
        bench.run();
        assert_eq!(bench.links[IO].completions(), [(0, Err(VolumeErrorKind::OutOfRange))]);
    }
}

#[test]
fn many_commands_at_a_time() {
    many_commands(Iwarp { reads: 1, ..Iwarp::default() });
    many_commands(Iwarp::default());
    many_commands(Narrow);
    many_commands(NarrowController);
    many_commands(NarrowHost);
}

fn many_commands<F: Fabric>(fabric: F) {
    let mut bench = session(fabric);
    let length = |tag: u64| [512, 4096, 8192, 16_384][tag as usize % 4];
    for tag in 0..200 {
        bench.links[IO].write(tag, 40 * tag, aperiodic(length(tag), tag));
    }
    bench.run();
    let done = bench.links[IO].completions();
    assert_eq!(done.len(), 200);
    assert!(done.iter().all(|(_, result)| result.is_ok()));
    for tag in 0..200 {
        bench.links[IO].read(tag, 40 * tag, length(tag));
    }
    bench.run();
    let done = bench.links[IO].completions();
    assert_eq!(done.len(), 200);
    for (tag, result) in done {
        assert_eq!(result.unwrap(), aperiodic(length(tag), tag));
    }
}

fn list(bytes: Vec<u8>) -> BufList {
    BufList::from(SharedBuf::from(bytes))
}

/// What a host reports when it does everything once; what is on the disk then.
fn everything<F: Fabric>(fabric: F) -> (Vec<String>, Vec<u8>) {
    let mut bench = Bench::over(fabric, portal());
    bench.session(1, 1, (false, false));
    let mut told = Vec::new();
    let durability = Durability::Durable;
    let extent = Extent::new(100, 40);
    let operations = [
        Operation::Write { extent: Extent::new(0, 400), data: list(aperiodic(400 * 512, 1)), durability },
        Operation::Write { extent: Extent::new(3, 1), data: list(aperiodic(512, 2)), durability },
        Operation::Compare { extent: Extent::new(3, 1), data: list(aperiodic(512, 2)) },
        Operation::Compare { extent: Extent::new(4, 1), data: list(aperiodic(512, 2)) },
        Operation::Compare { extent: Extent::new(0, 64), data: list(aperiodic(64 * 512, 2)) },
        Operation::Flush,
        Operation::Discard { extent: Extent::new(20, 8) },
        Operation::WriteZeroes { extent, durability, may_unmap: true },
        Operation::Verify { extent: Extent::new(0, BLOCKS) },
        Operation::Reserve(Command::Register { key: None, new_key: 7, persist: None }),
        Operation::Reserve(Command::Reserve { key: 7, kind: ReservationType::WriteExclusive }),
        Operation::ReadReservations,
        Operation::Reserve(Command::Release { key: 7, kind: ReservationType::WriteExclusive }),
        Operation::Reserve(Command::Release { key: 8, kind: ReservationType::WriteExclusive }),
        Operation::Write { extent: Extent::new(BLOCKS, 1), data: list(vec![0; 512]), durability },
        Operation::Write { extent: Extent::new(0, 2), data: list(vec![0; 512]), durability },
    ];
    for (tag, operation) in (0..).zip(operations) {
        bench.links[IO].submit(tag, operation);
        bench.run();
        told.extend(bench.links[IO].events.drain(..).map(|event| format!("{event:?}")));
    }
    bench.links[0].submit(90, Operation::QueryAllocation { extent: Extent::new(16, 64) });
    bench.run();
    told.extend(bench.links[0].events.drain(..).map(|event| format!("{event:?}")));
    (told, bench.disks.remove(0))
}

#[test]
fn every_command_does_what_it_does_over_tcp() {
    let tcp = everything(Tcp);
    assert_eq!(tcp.0.len(), 17);
    assert_eq!(everything(Iwarp::default()), tcp);
    assert_eq!(everything(Iwarp { crc: true, reads: 1 }), tcp);
    assert_eq!(everything(Narrow), tcp);
}

/// Discovery, a namespace that grows, a queue that is withdrawn and one that ends: what the host reports.
fn changes<F: Fabric>(fabric: F, transport: TransportType) -> Vec<String> {
    let mut bench = Bench::over(fabric, portal().with_log());
    let link = bench.connect(config(Queue::Discovery));
    let mut told = Vec::new();
    for event in bench.links[link].events.drain(..) {
        if let Action::Discovered(entries) = &event {
            assert!(!entries.is_empty() && entries.iter().all(|entry| entry.transport == transport));
        }
        told.push(format!("{event:?}").replace("transport: Rdma", "transport: Tcp"));
    }
    bench.end(link);
    let mut bench = Bench::over(bench.fabric, portal());
    bench.session(1, 1, (false, false));
    let geometry = Geometry { blocks: 2 * BLOCKS, block_size: 512, physical_block_size: 4096 };
    for link in [0, IO] {
        let volume = VolumeId::new(0, 0);
        bench.input(link, controller::Input::NamespaceChanged { volume, geometry });
    }
    bench.run();
    let mut changed = portal();
    subsystem(&mut changed).namespaces.retain(|namespace| namespace.nsid != 1);
    bench.portal = Arc::new(changed);
    for link in [0, IO] {
        bench.input(link, controller::Input::PortalChanged(Arc::clone(&bench.portal)));
    }
    bench.run();
    bench.links[IO].write(2, 0, aperiodic(65_536, 2));
    bench.run();
    bench.links[IO].pair.near.connection.handle_input(Instant::ZERO, Input::Disconnect);
    bench.run();
    let close = bench.links[IO].pair.far.connection.poll_close();
    assert_eq!(close, Some(CloseReason::Finished));
    bench.end(IO);
    bench.end(0);
    for link in [0, IO] {
        told.extend(bench.links[link].events.drain(..).map(|event| {
            let text = format!("{event:?}");
            // What a capsule carries is the transport's.
            text.replace("in_capsule: 4096", "in_capsule: 16384")
        }));
    }
    told
}

#[test]
fn changes_are_told_as_over_tcp() {
    let tcp = changes(Tcp, TransportType::Tcp);
    assert!(tcp.len() > 3, "{tcp:?}");
    assert_eq!(changes(Iwarp::default(), TransportType::Rdma), tcp);
    assert_eq!(changes(Narrow, TransportType::Rdma), tcp);
}

#[test]
fn a_connect_that_may_not_be_is_refused_as_over_tcp() {
    let mut wrong = admin(1);
    wrong.subnqn = "nqn.2026-11.org.linerate:other".into();
    let mut tcp = Bench::new();
    let mut rdma = Bench::over(Iwarp::default(), portal());
    let (one, two) = (tcp.connect(wrong.clone()), rdma.connect(wrong));
    let failure = |events: Vec<Action>| match events.as_slice() {
        [Action::Failed(failure @ Failure::Refused(_))] => *failure,
        other => panic!("{other:?}"),
    };
    let events = std::mem::take(&mut rdma.links[two].events);
    assert_eq!(failure(events), failure(std::mem::take(&mut tcp.links[one].events)));
    assert!(matches!(rdma.links[two].pair.far.connection.poll_close(), Some(CloseReason::Refused(_))));
}

#[test]
fn without_memory_commands_wait_and_none_is_lost() {
    let mut bench = Bench::over(Iwarp::default(), portal());
    bench.pool = Pool::new(4 << 20);
    bench.session(1, 1, (false, false));
    let pool = bench.pool.clone();
    let hostage: Vec<_> = std::iter::from_fn(|| pool.take(512)).collect();
    bench.links[IO].write(3, 200, aperiodic(4096, 3));
    bench.run();
    assert!(bench.links[IO].pair.far.connection.awaits_memory(), "a capsule waits in its receive");
    bench.links[IO].write(1, 0, aperiodic(65_536, 1));
    bench.links[IO].read(2, 1000, 65_536);
    bench.links[IO].write(4, 300, aperiodic(65_536, 4));
    bench.run();
    assert!(bench.links[IO].pair.far.connection.awaits_memory());
    assert_eq!(bench.links[IO].completions(), []);
    drop(hostage);
    bench.run();
    let ends = bench.links[IO].completions();
    assert_eq!(ends.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(ends.iter().all(|(_, result)| result.is_ok()), "{ends:?}");
    assert_eq!(bench.disks[0][200 * 512..][..4096], aperiodic(4096, 3));
}

#[test]
fn everything_comes_back_when_a_connection_is_lost() {
    let mut bench = session(Iwarp::default());
    let pool = bench.pool.clone();
    bench.held = Some(Vec::new());
    for tag in 0..40 {
        bench.links[IO].read(tag, 0, 65_536);
        bench.links[IO].write(100 + tag, 200, aperiodic(65_536, tag));
    }
    bench.run();
    let link = &mut bench.links[IO];
    link.pair.far.end(Instant::ZERO, Ended::Failed(104));
    link.pair.near.end(Instant::ZERO, Ended::Failed(104));
    bench.run();
    let lost: Vec<_> = bench.links[IO].completions();
    assert_eq!(lost.len(), 80);
    assert!(lost.iter().all(|(_, result)| *result == Err(VolumeErrorKind::Unreachable)));
    bench.release();
    for link in 0..2 {
        bench.end(link);
    }
    bench.links.clear();
    assert_eq!(pool.used(), 0);
}

#[test]
fn nothing_of_an_expired_controller_is_carried_out() {
    let mut bench = session(Iwarp::default());
    bench.held = Some(Vec::new());
    for link in &mut bench.links {
        link.pair.now = Instant::ZERO + Duration::from_mins(1);
    }
    bench.links[IO].write(1, 0, aperiodic(4096, 1));
    bench.links[IO].write(2, 0, aperiodic(65_536, 1));
    bench.run();
    assert!(bench.held.as_ref().unwrap().is_empty());
    let far = &mut bench.links[IO].pair.far.connection;
    assert!(matches!(far.poll_close(), Some(CloseReason::TimedOut(_))), "{:?}", far.poll_close());
    assert_eq!(far.pair().state(), QueuePairState::Ended(EndReason::ByUs));
}
