//! Both roles over a fabric that is no stream: what the queues do holds without PDUs, and their transport's seam carries remote memory. The fabric and its
//! rules are in `memory_fabric`, which panics when a role breaks one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of tests")]

mod common;
mod memory_fabric;

use std::sync::Arc;
use std::time::Duration;

use buf::Pool;
use common::{Bench, portal, subsystem};
use memory_fabric::{FOREIGN, Memory, Moved, PADDING, STALLED};
use nvme::controller;
use nvme::host;
use nvme::limits::DATA_TIME;
use nvme::sqe::SubmissionQueueEntry;
use protocol::pair::aperiodic;
use protocol::{CloseReason, Connection as _, Instant};
use volume::{Completion, VolumeErrorKind, VolumeId};

const LARGE: usize = 65536;
const ADMIN: usize = 0;
const IO: usize = 1;

/// A bench with a session: an admin queue and one for I/O.
fn session() -> Bench<Memory> {
    let mut bench = Bench::over(Memory::default(), portal());
    bench.session(1, 1, (false, false));
    bench.fabric.regions.take_moved();
    bench
}

/// Ends the I/O queue's test: no key is open any more.
fn done(bench: &mut Bench<Memory>) -> Vec<(u64, Result<Vec<u8>, VolumeErrorKind>)> {
    bench.run();
    assert_eq!(bench.fabric.regions.count(), 0, "keys that nobody has invalidated");
    bench.links[IO].completions()
}

/// The host's memory answers again.
fn resume(bench: &mut Bench<Memory>) {
    bench.fabric.regions.stall(false);
    bench.links[IO].pair.far.connection.pump();
}

/// The identifier of the I/O queue's newest command.
fn newest(bench: &Bench<Memory>) -> u16 {
    bench.links[IO].pair.near.connection.sent.last().unwrap().cid.get()
}

/// Sends an Abort of a command of the I/O queue.
fn abort(bench: &mut Bench<Memory>, cid: u16) {
    let host = &mut bench.links[ADMIN].pair.near.connection;
    let mut entry = SubmissionQueueEntry::new(0x08, 0).with(10, u32::from(cid) << 16 | 1);
    entry.cid.set(FOREIGN + cid);
    host.send_foreign(entry);
    bench.run();
}

/// What the Aborts have said since the last call: which command, and whether it was performed.
fn aborted(bench: &mut Bench<Memory>) -> Vec<(u16, bool)> {
    let foreign_ends = std::mem::take(&mut bench.links[ADMIN].pair.near.connection.foreign_ends);
    foreign_ends.iter().map(|end| (end.cid.get() - FOREIGN, end.result() == 0)).collect()
}

#[test]
fn a_host_finds_the_same_namespace_as_over_tcp() {
    let mut bench = Bench::over(Memory::default(), portal());
    let found = bench.session(1, 2, (false, false));
    assert_eq!(found, Bench::new().session(1, 2, (false, false)));
    let sent = &bench.links[ADMIN].pair.near.connection.sent;
    assert_eq!((sent[0].dptr.identifier, sent[0].dptr.address.get()), (0x01, PADDING as u64));
    let identify = bench.fabric.regions.take_moved().into_iter().find_map(|moved| match moved {
        Moved::Pushed(data) if data.len() == 4096 => Some(data),
        _ => None,
    });
    let sgls = u32::from_le_bytes(identify.unwrap()[536..540].try_into().unwrap());
    assert_eq!(sgls, 1 | 1 << 2 | 1 << 20, "keyed blocks, and none that a stream moves");
    assert_eq!(bench.fabric.regions.count(), 0);
}

#[test]
fn writes_are_pulled_and_reads_are_pushed() {
    for chunk in [usize::MAX, 1, 100] {
        let mut bench = Bench::over(Memory::default(), portal());
        bench.chunk = chunk;
        bench.session(1, 1, (false, false));
        for (tag, length) in [512, 4096, 8192, 16_384, 16_896, LARGE, 1 << 20].into_iter().enumerate() {
            let (tag, data) = (tag as u64, aperiodic(length, tag as u64));
            bench.fabric.regions.take_moved();
            bench.links[IO].write(tag, 8 * tag, data.clone());
            assert_eq!(done(&mut bench), [(tag, Ok(Vec::new()))]);
            let pulled = vec![Moved::Pulled(length), Moved::Invalidated];
            let expected = if length <= 16_384 { Vec::new() } else { pulled };
            assert_eq!(bench.fabric.regions.take_moved(), expected, "{length}");
            bench.links[IO].read(tag, 8 * tag, length);
            assert_eq!(done(&mut bench), [(tag, Ok(data.clone()))]);
            assert_eq!(bench.fabric.regions.take_moved(), [Moved::Pushed(data), Moved::Invalidated]);
        }
        bench.links[IO].read(0, common::BLOCKS, LARGE);
        assert_eq!(done(&mut bench), [(0, Err(VolumeErrorKind::OutOfRange))]);
        assert_eq!(bench.fabric.regions.take_moved(), [Moved::Invalidated], "nothing is pushed");
    }
}

#[test]
fn a_write_is_aborted_before_its_pull_at_once_and_during_it_when_that_ends() {
    let mut bench = session();
    bench.fabric.regions.stall(true);
    let cids = [0, 1, 2].map(|tag| {
        bench.links[IO].write(tag, 128 * tag, aperiodic(LARGE, tag));
        bench.run();
        newest(&bench)
    });
    assert_eq!(bench.links[IO].pair.far.connection.pulls(), (2, 1));
    abort(&mut bench, cids[0]);
    assert_eq!((aborted(&mut bench), bench.links[IO].completions()), (vec![], vec![]));
    abort(&mut bench, cids[2]);
    assert_eq!(aborted(&mut bench), [(cids[2], true)]);
    assert_eq!(bench.links[IO].completions(), [(2, Err(VolumeErrorKind::Cancelled))]);
    assert_eq!(bench.fabric.regions.take_moved(), [Moved::Invalidated]);
    resume(&mut bench);
    assert_eq!(done(&mut bench), [(0, Err(VolumeErrorKind::Cancelled)), (1, Ok(Vec::new()))]);
    assert_eq!(aborted(&mut bench), [(cids[0], true)]);
    let disk = &bench.disks[0];
    assert!(disk[..LARGE].iter().all(|byte| *byte == 0), "the aborted write was carried out");
    assert_eq!(disk[LARGE..2 * LARGE], aperiodic(LARGE, 1));
    abort(&mut bench, cids[0]);
    assert_eq!(aborted(&mut bench), [(cids[0], false)], "it has ended");
}

#[test]
fn a_read_that_is_with_its_volume_is_cancelled_there() {
    let mut bench = session();
    bench.held = Some(Vec::new());
    bench.links[IO].read(7, 0, LARGE);
    bench.run();
    let cid = newest(&bench);
    abort(&mut bench, cid);
    let (link, volume, request) = bench.held.take().unwrap().remove(0);
    assert_eq!(bench.cancelled, [(link, volume, request.tag)]);
    assert_eq!(aborted(&mut bench), []);
    let completion = Completion::failed(request.tag, VolumeErrorKind::Cancelled);
    bench.input(IO, controller::Input::Completion(completion));
    assert_eq!(done(&mut bench), [(7, Err(VolumeErrorKind::Cancelled))]);
    assert_eq!(aborted(&mut bench), [(cid, true)]);
    assert_eq!(bench.fabric.regions.take_moved(), [Moved::Invalidated], "nothing is pushed");
}

#[test]
fn without_memory_a_pull_waits_and_a_capsule_stays_where_it_is() {
    let mut bench = Bench::over(Memory::default(), portal());
    bench.pool = Pool::new(4 << 20);
    bench.session(1, 1, (false, false));
    bench.fabric.regions.take_moved();
    let pool = bench.pool.clone();
    let hostage: Vec<_> = std::iter::from_fn(|| pool.take(512)).collect();
    bench.links[IO].write(1, 0, aperiodic(LARGE, 1));
    bench.links[IO].read(2, 1000, LARGE);
    bench.links[IO].write(3, 200, aperiodic(4096, 3));
    bench.links[IO].write(4, 300, aperiodic(LARGE, 4));
    bench.run();
    let far = &mut bench.links[IO].pair.far;
    assert!(far.connection.awaits_memory() && !far.connection.wants_bytes());
    assert_eq!(far.connection.pulls(), (0, 0), "nothing is asked for before there is memory");
    let capsules = 4 + 64 + PADDING + 4096 + 4 + 64;
    assert_eq!(far.staged(), capsules, "the write in its capsule, and what comes behind it");
    assert_eq!(bench.links[IO].completions(), []);
    drop(hostage);
    assert!(bench.links[IO].pair.far.connection.wants_bytes());
    bench.links[IO].pair.far.receive(Instant::ZERO, &[]);
    let ends = done(&mut bench);
    assert_eq!(ends.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(ends.iter().all(|(_, result)| result.is_ok()), "{ends:?}");
    assert_eq!(bench.disks[0][200 * 512..][..4096], aperiodic(4096, 3));
}

#[test]
fn a_namespace_that_goes_while_its_data_is_pulled_is_not_written() {
    let mut bench = session();
    bench.fabric.regions.stall(true);
    bench.links[IO].write(1, 0, aperiodic(LARGE, 1));
    bench.run();
    let mut changed = portal();
    subsystem(&mut changed).namespaces.retain(|namespace| namespace.nsid != 1);
    bench.portal = Arc::new(changed);
    for link in [ADMIN, IO] {
        bench.input(link, controller::Input::PortalChanged(Arc::clone(&bench.portal)));
    }
    bench.run();
    assert_eq!(bench.links[IO].completions(), [], "its memory is still being written to");
    resume(&mut bench);
    assert_eq!(done(&mut bench), [(1, Err(VolumeErrorKind::Cancelled))]);
    assert!(bench.disks[0].iter().all(|byte| *byte == 0));
    assert!(!bench.links[IO].pair.far.connection.uses(VolumeId::new(0, 0)));
    bench.links[IO].write(2, 0, aperiodic(LARGE, 2));
    assert_eq!(done(&mut bench), [(2, Err(VolumeErrorKind::Unreachable))]);
    let told = bench.links[ADMIN].events.pop();
    assert!(matches!(told, Some(host::Action::Failed(host::Failure::Unusable(_)))), "{told:?}");
}

#[test]
fn a_queue_that_is_disconnected_ends_after_its_last_request() {
    let mut bench = session();
    bench.held = Some(Vec::new());
    bench.links[IO].write(1, 0, aperiodic(LARGE, 1));
    bench.run();
    bench.links[IO].pair.near.connection.handle_input(Instant::ZERO, host::Input::Disconnect);
    bench.run();
    let pair = &bench.links[IO].pair;
    assert_eq!((pair.near.connection.poll_close(), pair.far.connection.poll_close()), (None, None));
    bench.release();
    assert_eq!(done(&mut bench), [(1, Ok(Vec::new()))]);
    let pair = &bench.links[IO].pair;
    let finished = Some(CloseReason::Finished);
    assert_eq!((pair.near.connection.poll_close(), pair.far.connection.poll_close()), (finished, finished));
    bench.end(ADMIN);
    let far = &bench.links[ADMIN].pair.far.connection;
    assert_eq!(far.poll_close(), finished);
}

#[test]
fn a_host_whose_memory_does_not_answer_is_given_up() {
    let mut bench = session();
    bench.fabric.regions.stall(true);
    bench.links[IO].write(1, 0, aperiodic(LARGE, 1));
    bench.run();
    let far = &mut bench.links[IO].pair.far.connection;
    far.handle_timeout(Instant::ZERO + DATA_TIME / 2);
    assert_eq!(far.poll_close(), None);
    far.handle_timeout(Instant::ZERO + DATA_TIME + Duration::from_secs(1));
    assert_eq!(far.poll_close(), Some(CloseReason::TimedOut(STALLED)));
}
