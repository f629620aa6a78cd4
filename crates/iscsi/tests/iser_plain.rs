//! iSER over a provider of queue pairs that is not iWARP: it counts on nothing but the contract.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::sync::Arc;

use buf::{Buf, Pool};
use common::plain_queue_pair::{Joined, PlainQueuePair};
use common::{BLOCK, Bench, blocks, config, portal, resources};
use iscsi::datamover::iser::{self, Invalidation, initiator_needs, private_data, target_needs};
use iscsi::initiator::{self, Config};
use iscsi::target::Portal;
use protocol::pair::aperiodic;
use protocol::{Connection as _, Ended, Instant, SeededEntropy};
use verbs::{QueueLimits, QueuePairLimits};
use volume::{Extent, Operation, Tag, VolumeErrorKind};

type PlainBench = Bench<iser::InitiatorConnection<PlainQueuePair>, iser::TargetConnection<PlainQueuePair>>;

fn limits(needs: QueueLimits, remote_invalidation: bool) -> QueuePairLimits {
    let QueueLimits { sends, receives, regions, longest } = needs;
    QueuePairLimits { sends, receives, reads: 1, regions, longest, remote_invalidation }
}

fn bench(config: Config, portal: Portal, invalidation: bool) -> PlainBench {
    let blocks = blocks(&portal);
    let said = private_data(if invalidation { Invalidation::Used } else { Invalidation::NotUsed });
    let near = PlainQueuePair::initiator(limits(initiator_needs(), invalidation), &said);
    let far = PlainQueuePair::responder(limits(target_needs(portal.queue_depth), invalidation));
    let entropy = Box::new(SeededEntropy::new(2));
    let ours = Pool::new(64 << 20);
    let near = iser::InitiatorConnection::new(Instant::ZERO, config, ours, entropy, near);
    let resources = resources(&Pool::new(64 << 20));
    let far = iser::TargetConnection::new(Instant::ZERO, Arc::new(portal), resources, far);
    Bench::of(near, far, blocks)
}

fn ready(invalidation: bool) -> PlainBench {
    let mut bench = bench(config(), portal(4096), invalidation);
    bench.log_in();
    bench
}

#[test]
fn the_provider_keeps_the_contract() {
    let limits = QueuePairLimits {
        sends: 16,
        receives: 16,
        reads: 1,
        regions: 8,
        longest: 1 << 20,
        remote_invalidation: true,
    };
    let result = verbs::contract::check(&mut || Box::new(Joined::new(limits)));
    assert_eq!(result, Ok(()));
}

#[test]
fn data_of_all_sizes_arrives() {
    for invalidation in [true, false] {
        let mut bench = ready(invalidation);
        bench.check_integrity(&format!("invalidation: {invalidation}"));
        assert_eq!(bench.pair.far.connection.outstanding(), 0);
    }
}

#[test]
fn many_requests_at_once() {
    let mut bench = ready(true);
    for tag in 0..200 {
        let into = Buf::zeroed(24 * BLOCK);
        bench.submit(tag, Operation::Read { extent: Extent::new(0, 24), into });
    }
    bench.run();
    assert_eq!(bench.done.len(), 200);
    assert!(bench.done.iter().all(|done| done.result.is_ok()));
}

#[test]
fn discovery_and_logout() {
    let mut config = config();
    config.target = None;
    let mut bench = bench(config, portal(64), true);
    bench.run();
    bench.target_ends();
    assert_eq!(bench.discovered.map(|found| found.len()), Some(1));
    assert_eq!(bench.failed.as_deref(), Some("logged out"));
}

#[test]
fn what_is_cancelled_or_cut_off_gives_its_memory_back() {
    for cut in [false, true] {
        let mut bench = ready(true);
        bench.memory.hold = true;
        let into = Buf::zeroed(8 * BLOCK);
        let place = into.as_ptr();
        bench.submit(1, Operation::Read { extent: Extent::new(0, 8), into });
        bench.run();
        if cut {
            bench.pair.near.end(bench.pair.now, Ended::ByPeer);
            bench.run();
        } else {
            let cancel = initiator::Input::Cancel(Tag(1));
            bench.pair.near.connection.handle_input(bench.pair.now, cancel);
            bench.run();
            bench.release();
        }
        let failure = bench.done.pop().unwrap().result.unwrap_err();
        let kind = if cut { VolumeErrorKind::Unreachable } else { VolumeErrorKind::Cancelled };
        assert_eq!(failure.kind, kind);
        assert_eq!(failure.memory.map(|memory| memory.as_ptr()), Some(place), "cut: {cut}");
        if !cut {
            bench.write(0, aperiodic(40 * BLOCK, 3)).unwrap();
            assert_eq!(bench.read(0, 40).unwrap(), aperiodic(40 * BLOCK, 3));
        }
    }
}
