//! iSER, both roles, over queue pairs of software iWARP: they do everything that they do over TCP.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::sync::Arc;

use buf::{Account, Buf, BufList, Pool, SharedBuf};
use common::iser::{IserBench, OFFER, bench, far, near, ready};
use common::{BLOCK, Bench, blocks, config, portal};
use iscsi::chap::{Algorithm, Credentials, Secret};
use iscsi::connection::State;
use iscsi::datamover::iser::{self, Invalidation, initiator_needs, private_data};
use iscsi::initiator;
use iscsi::keys::{DigestPolicy, Tuning};
use iscsi::target::{Access, Chap, Input, Node, Portal, Rule};
use protocol::pair::aperiodic;
use protocol::{CloseReason, Connection as _, Ended};
use scsi::NexusEvent;
use volume::{Durability, Epoch, Extent, Operation, Tag, VolumeErrorKind, VolumeId};

fn write_of(blocks: usize, seed: u64) -> Operation {
    let data = BufList::from(SharedBuf::from(aperiodic(blocks * BLOCK, seed)));
    Operation::Write { extent: Extent::new(0, blocks as u64), data, durability: Durability::Cached }
}

fn read_of(blocks: usize) -> Operation {
    Operation::Read { extent: Extent::new(0, blocks as u64), into: Buf::zeroed(blocks * BLOCK) }
}

fn ready_with(near: Tuning, far: Tuning) -> IserBench {
    let mut config = config();
    config.tuning = near;
    let mut portal = portal(4096);
    portal.tuning = far;
    ready(config, portal)
}

#[test]
fn login_probe_write_read() {
    let mut bench = ready(config(), portal(2048));
    let unit = bench.unit.clone().unwrap();
    assert_eq!((unit.geometry.blocks, unit.product.as_str()), (2048, "DISK"));
    let bytes = aperiodic(8 * BLOCK, 1);
    bench.write(8, bytes.clone()).unwrap();
    assert_eq!(bench.read(8, 8).unwrap(), bytes);
    assert_eq!(bench.memory.bytes[8 * BLOCK..16 * BLOCK], bytes);
}

#[test]
fn data_of_all_sizes_arrives_with_every_burst_setting() {
    for immediate_data in [false, true] {
        for initial_r2t in [false, true] {
            for (first_burst, max_burst) in [(512, 512), (8192, 65_536), (262_144, 1 << 20)] {
                let near =
                    Tuning { immediate_data, initial_r2t, first_burst, max_burst, ..Tuning::default() };
                let mut bench = ready_with(near, Tuning::default());
                bench.check_integrity(&format!("{near:?}"));
                assert_eq!(bench.pair.far.connection.outstanding(), 0);
            }
        }
    }
}

/// Whatever digests the ends would have over TCP: iSER has none.
#[test]
fn digests_are_left_to_the_transport() {
    for policy in [DigestPolicy::Off, DigestPolicy::Allow, DigestPolicy::Require] {
        let tuning = Tuning { header_digest: policy, data_digest: policy, ..Tuning::default() };
        ready_with(tuning, Tuning::default()).check_integrity("digests");
        ready_with(Tuning::default(), tuning).check_integrity("digests");
    }
}

#[test]
fn every_chunk_size() {
    for chunk in [1, 2, 3, 7, 13, 60, 127, 512, 1000, 1448, 4096, 65_536] {
        let mut bench = bench(config(), portal(256), &Pool::new(64 << 20));
        bench.pair.chunk = chunk;
        bench.log_in();
        let bytes = aperiodic(48 * BLOCK, 3);
        bench.write(0, bytes.clone()).unwrap();
        assert_eq!(bench.read(0, 48).unwrap(), bytes, "chunks of {chunk}");
    }
}

#[test]
fn it_works_without_send_with_invalidate() {
    let portal = portal(4096);
    let blocks = blocks(&portal);
    let far = far(portal, &Pool::new(64 << 20));
    let mut bench = Bench::of(near(config(), Invalidation::NotUsed), far, blocks);
    bench.log_in();
    bench.check_integrity("without invalidation");
}

/// A queue pair that holds next to nothing makes it slower, and no more than that.
#[test]
fn a_short_send_queue_and_few_regions_are_enough() {
    let portal = portal(4096);
    let blocks = blocks(&portal);
    let needs = verbs::QueueLimits { sends: 3, regions: 1, ..initiator_needs() };
    let role = iwarp::Role::Initiator(private_data(Invalidation::Used));
    let queue_pair = common::iser::queue_pair(role, needs, OFFER);
    let entropy = Box::new(protocol::SeededEntropy::new(2));
    let near = iser::InitiatorConnection::new(
        protocol::Instant::ZERO,
        config(),
        Pool::new(64 << 20),
        entropy,
        queue_pair,
    );
    let mut bench = Bench::of(near, far(portal, &Pool::new(64 << 20)), blocks);
    bench.log_in();
    for tag in 0..32 {
        bench.submit(tag, if tag % 2 == 0 { read_of(40) } else { write_of(40, 5) });
    }
    bench.run();
    assert_eq!(bench.done.len(), 32);
    assert!(bench.done.iter().all(|done| done.result.is_ok()), "{:?}", bench.done);
}

#[test]
fn hundreds_of_requests_at_once_widen_the_window() {
    let mut bench = ready(config(), portal(4096));
    for round in 0..4 {
        for tag in 0..200 {
            bench.submit(tag, if tag % 3 == 0 { write_of(64, round) } else { read_of(24) });
        }
        bench.run();
        assert_eq!(bench.done.len(), 200);
        assert!(bench.done.drain(..).all(|done| done.result.is_ok()));
    }
}

fn credentials(user: &str, secret: &str) -> Credentials {
    Credentials { user: user.into(), secret: Secret::new(secret) }
}

#[test]
fn both_sides_prove_themselves() {
    for secret in ["a secret of sixteen", "another one"] {
        let chap = Chap {
            initiator: credentials("alice", "a secret of sixteen"),
            target: Some(credentials("bob", "the target's own one")),
            algorithms: vec![Algorithm::Sha256],
        };
        let mut portal = portal(64);
        let mut node = Node::clone(&portal.nodes[0]);
        node.access = Access::Rules(vec![Rule { chap: Some(chap), ..Rule::default() }]);
        portal.nodes = vec![Arc::new(node)];
        let mut config = config();
        config.chap = Some(credentials("alice", secret));
        config.mutual = Some(credentials("bob", "the target's own one"));
        let mut bench = bench(config, portal, &Pool::new(64 << 20));
        bench.run();
        assert_eq!(bench.unit.is_some(), secret == "a secret of sixteen", "{:?}", bench.failed);
    }
}

#[test]
fn discovery_finds_more_targets_than_fit_into_a_pdu() {
    let mut portal = portal(64);
    let node = Node::clone(&portal.nodes[0]);
    let named = |number: usize| {
        let mut node = node.clone();
        node.name = format!("iqn.2026-11.org.linerate:volume-{number:05}").parse().unwrap();
        Arc::new(node)
    };
    portal.nodes = (0..300).map(named).collect();
    let mut config = config();
    config.target = None;
    let mut bench = bench(config, portal, &Pool::new(64 << 20));
    bench.run();
    assert_eq!(bench.discovered.map(|found| found.len()), Some(300));
}

#[test]
fn a_logout_ends_it_and_a_new_connection_comes_in_its_place() {
    for round in 0..3 {
        let mut bench = ready(config(), portal(256));
        bench.write(0, vec![round; BLOCK]).unwrap();
        bench.pair.near.connection.handle_input(bench.pair.now, initiator::Input::Logout);
        bench.run();
        assert!(bench.pair.far.connection.poll_close().is_some());
        assert!(bench.pair.near.connection.poll_close().is_none(), "the target ends it first");
        bench.target_ends();
        assert_eq!(bench.failed.as_deref(), Some("logged out"));
    }
}

#[test]
fn a_target_that_does_not_end_the_connection_after_a_logout_is_not_waited_for() {
    let mut bench = ready(config(), portal(256));
    bench.pair.near.connection.handle_input(bench.pair.now, initiator::Input::Logout);
    bench.run();
    let due = bench.pair.near.connection.poll_timeout();
    assert_eq!(due, Some(bench.pair.now + iscsi::limits::TARGET_CLOSE_TIME));
    bench.pair.now = due.unwrap();
    bench.pair.near.connection.handle_timeout(bench.pair.now);
    bench.run();
    assert_eq!(bench.failed.as_deref(), Some("logged out"));
    assert_eq!(bench.pair.near.connection.state(), State::Closing);
}

#[test]
fn a_read_that_the_connection_or_the_target_ends_gives_its_memory_back() {
    for fails in [false, true] {
        let mut bench = ready(config(), portal(256));
        bench.memory.hold = !fails;
        bench.memory.fail = fails.then_some(VolumeErrorKind::Media);
        let into = Buf::zeroed(BLOCK);
        let place = into.as_ptr();
        bench.submit(1, Operation::Read { extent: Extent::new(0, 1), into });
        bench.run();
        bench.pair.near.end(bench.pair.now, Ended::ByPeer);
        bench.run();
        let memory = bench.done.pop().unwrap().result.unwrap_err().memory.expect("the memory");
        assert_eq!((memory.as_ptr(), memory.len()), (place, BLOCK));
    }
}

/// A request at the volume is cancelled: its memory is back, untouched by the data that comes too late, and both ends go on.
#[test]
fn a_cancelled_read_gives_its_memory_back_and_nobody_touches_it() {
    let pool = Pool::new(64 << 20);
    let mut bench = bench(config(), portal(4096), &pool);
    bench.log_in();
    bench.write(0, vec![7; 8 * BLOCK]).unwrap();
    let before = pool.used();
    bench.memory.hold = true;
    let into = Buf::zeroed(8 * BLOCK);
    let place = into.as_ptr();
    bench.submit(1, Operation::Read { extent: Extent::new(0, 8), into });
    bench.run();
    bench.pair.near.connection.handle_input(bench.pair.now, initiator::Input::Cancel(Tag(1)));
    bench.run();
    assert_eq!(bench.memory.cancelled.len(), 1, "the volume is told");
    bench.release();
    let failure = bench.done.pop().unwrap().result.unwrap_err();
    assert_eq!(failure.kind, VolumeErrorKind::Cancelled);
    let memory = failure.memory.expect("the memory");
    assert_eq!((memory.as_ptr(), &memory[..]), (place, &[0; 8 * BLOCK][..]));
    assert_eq!(bench.read(0, 8).unwrap(), vec![7; 8 * BLOCK]);
    assert_eq!(pool.used(), before, "the target holds nothing");
}

/// Another nexus resets the unit while a write's data is being read. It ends with TASK ABORTED there, and is sent again.
#[test]
fn a_write_that_another_nexus_aborted_is_sent_again() {
    let mut bench = ready(config(), portal(64));
    bench.write(0, vec![1; BLOCK]).unwrap();
    bench.submit(2, write_of(40, 2));
    for _ in 0..6 {
        // The command, the region's read request, and the data cross one by one.
        bench.step();
        let event = Some(NexusEvent::LogicalUnitReset);
        let fence = Input::Fence { volume: VolumeId::new(0, 0), epoch: Epoch(1), event };
        bench.pair.far.connection.handle_input(bench.pair.now, fence);
    }
    bench.run();
    assert!(bench.done.pop().unwrap().result.is_ok());
    assert_eq!(bench.memory.bytes[..40 * BLOCK], aperiodic(40 * BLOCK, 2));
    assert_eq!(bench.pair.far.connection.outstanding(), 0);
}

#[test]
fn a_target_that_is_gone_is_left() {
    let mut bench = ready(config(), portal(64));
    let gone = Input::PortalChanged(Arc::new(Portal::new(Vec::<Arc<Node>>::new())));
    bench.pair.far.connection.handle_input(bench.pair.now, gone);
    bench.run();
    assert!(bench.pair.far.connection.poll_close().is_some());
    bench.target_ends();
    assert!(bench.failed.is_some(), "it cannot go on");
}

/// Aborts are PDUs that a target does not expect: no more are under way than it has receives for.
#[test]
fn aborts_wait_until_the_target_has_receives_for_them() {
    let mut bench = ready(config(), portal(256));
    bench.memory.hold = true;
    for tag in 0..30 {
        bench.submit(tag, read_of(8));
    }
    bench.run();
    for tag in 0..30 {
        bench.pair.near.connection.handle_input(bench.pair.now, initiator::Input::Cancel(Tag(tag)));
    }
    let aborts = bench.pair.near.transmit(bench.pair.now);
    bench.pair.far.receive(bench.pair.now, &aborts);
    bench.act_far();
    assert_eq!(bench.memory.cancelled.len(), iscsi::limits::UNEXPECTED_PDUS as usize);
    bench.release();
    while !bench.memory.cancelled.is_empty() && bench.done.len() < 30 {
        bench.release();
    }
    assert_eq!(bench.done.len(), 30);
}

/// What the target has for everybody, where memory is scarce.
const LIMIT: usize = 4 << 20;

/// Receives are counted for their connection, and grow with the window.
#[test]
fn receives_count_against_the_account() {
    let pool = Pool::new(64 << 20);
    let mut bench = bench(config(), portal(4096), &pool);
    assert_eq!(pool.used(), 0);
    bench.log_in();
    let receives = |commands: usize| (commands + 16 + iscsi::limits::UNEXPECTED_PDUS as usize) * (76 + 8192);
    let first = pool.used();
    assert!((receives(32)..receives(32) + 64_000).contains(&first), "{first}");
    for tag in 0..200 {
        bench.submit(tag, read_of(8));
    }
    bench.run();
    let most = pool.used();
    assert!((receives(128)..receives(128) + 200_000).contains(&most), "{most}");
    drop(bench);
    assert_eq!(pool.used(), 0);
}

/// Sessions have their receives as long as there is memory for them, and leave half of it to everything else. Whoever finds none is told so, and may come again later.
#[test]
fn a_session_without_memory_for_its_receives_is_turned_away() {
    let pool = Pool::new(LIMIT);
    let mut benches = Vec::new();
    let refused = loop {
        let mut bench = bench(config(), portal(4096), &pool);
        bench.pair.exchange();
        if bench.pair.far.connection.poll_close().is_some() {
            break bench;
        }
        bench.log_in();
        benches.push(bench);
    };
    assert_eq!(benches.len(), 3, "each takes half a MiB, and at most half of what is left");
    assert!(pool.used() < LIMIT / 2, "{}", pool.used());
    let reason = refused.pair.far.connection.poll_close().unwrap();
    assert_eq!(reason, CloseReason::Limit("the target has no room for the session"));
    drop(refused);
    let first = benches.remove(0);
    drop(first);
    let mut later = bench(config(), portal(4096), &pool);
    later.log_in();
    assert!(later.read(0, 8).is_ok());
}

/// Reads, and writes whose data is read, wait for memory and hold nobody up. Data that comes with its command waits in its receive, and after a while its command is
/// answered BUSY; from then on the initiator waits until it is asked.
#[test]
fn what_finds_no_memory_waits() {
    let pool = Pool::new(LIMIT);
    let mut bench = bench(config(), portal(4096), &pool);
    bench.log_in();
    let mut other = Account::new(&pool);
    other.count(LIMIT - pool.used());
    let mut waiting = Account::new(&pool);
    assert!(waiting.take(LIMIT / 2).is_none(), "nothing is left, and others wait");
    let floor: Vec<_> = std::iter::from_fn(|| pool.take(4096)).collect();
    bench.submit(1, write_of(16, 1));
    bench.run();
    assert!(bench.done.is_empty() && bench.pair.far.connection.awaits_memory(), "it stays where it is");
    bench.pair.now = bench.pair.now + iscsi::limits::MEMORY_WAIT_TIME;
    bench.pair.far.connection.handle_timeout(bench.pair.now);
    bench.run();
    assert_eq!(bench.done.pop().unwrap().error(), Some(VolumeErrorKind::Busy));

    bench.submit(2, write_of(16, 2));
    bench.submit(3, read_of(256));
    bench.run();
    assert!(bench.done.is_empty() && bench.pair.far.connection.awaits_memory(), "they wait");
    drop((floor, other, waiting));
    bench.run();
    assert_eq!(bench.done.len(), 2);
    assert!(bench.done.iter().all(|done| done.result.is_ok()), "{:?}", bench.done);
    assert_eq!(bench.memory.bytes[..16 * BLOCK], aperiodic(16 * BLOCK, 2));
}

/// Memory comes back before the time is over: what waited in its receive goes on.
#[test]
fn what_waits_in_its_receive_goes_on_when_memory_comes_back() {
    let pool = Pool::new(LIMIT);
    let mut bench = bench(config(), portal(4096), &pool);
    bench.log_in();
    let mut other = Account::new(&pool);
    other.count(LIMIT - pool.used());
    let floor: Vec<_> = std::iter::from_fn(|| pool.take(4096)).collect();
    bench.submit(1, write_of(16, 1));
    bench.submit(2, write_of(16, 3));
    bench.run();
    assert!(bench.done.is_empty());
    drop((floor, other));
    bench.run();
    assert_eq!(bench.done.len(), 2);
    assert!(bench.done.iter().all(|done| done.result.is_ok()), "{:?}", bench.done);
    assert_eq!(bench.memory.bytes[..16 * BLOCK], aperiodic(16 * BLOCK, 3));
}
