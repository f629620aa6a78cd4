//! The contract suite on the simple volumes and all filters, and on volumes with a planted bug, which must fail.
#![expect(clippy::unwrap_used, clippy::panic, clippy::needless_pass_by_value, reason = "tests")]

mod planted;

use std::sync::Arc;
use std::time::Duration;

use planted::{Bug, Planted};
use volume::contract::{self, FakeWorld, Options, World};
use volume::filter::{Apart, Delay, Fail, FailRate, Limit, OperationSet, ReadOnly, Stats};
use volume::{Extent, Null, Ram, Volume, VolumeErrorKind};

const SIZE: u64 = 24 << 20;

fn fake() -> Box<dyn World> {
    Box::new(FakeWorld::new())
}

fn ram(block_size: u32) -> Arc<dyn Volume> {
    Arc::new(Ram::new(SIZE, block_size).unwrap())
}

fn assert_keeps(volume: Arc<dyn Volume>, options: Options) {
    if let Err(violation) = contract::check(&volume, &options, &fake) {
        panic!("{volume:?} breaks {violation}");
    }
}

#[test]
fn ram_keeps_the_contract() {
    for block_size in [512, 4096] {
        for seed in 1..4 {
            assert_keeps(ram(block_size), Options { seed, ..Options::default() });
        }
    }
}

#[test]
fn a_ram_volume_smaller_than_a_transfer_keeps_the_contract() {
    for blocks in [1, 5, 200] {
        assert_keeps(Arc::new(Ram::new(blocks * 512, 512).unwrap()), Options::default());
    }
}

#[test]
fn null_keeps_the_contract_but_for_the_data() {
    let null: Arc<dyn Volume> = Arc::new(Null::new(SIZE, 512).unwrap());
    assert_keeps(null, Options { keeps_data: false, ..Options::default() });
}

#[test]
fn filters_keep_the_contract() {
    let ms = Duration::from_millis(1);
    assert_keeps(Arc::new(Delay::new(ram(512), ms).with_jitter(5 * ms, 9)), Options::default());
    assert_keeps(Arc::new(Delay::new(ram(4096), ms).on(OperationSet::WRITE)), Options::default());
    let never = FailRate::PartsPerMillion(0);
    assert_keeps(Arc::new(Fail::new(ram(512), never, VolumeErrorKind::Media)), Options::default());
    assert_keeps(Arc::new(Limit::new(ram(512), Some(100_000), Some(1 << 30))), Options::default());
    assert_keeps(Arc::new(Stats::new(ram(512))), Options::default());
    assert_keeps(Arc::new(ReadOnly::new(ram(512))), Options::default());
    assert_keeps(Arc::new(Apart::new(ram(512))), Options::default());
}

/// A volume that mixes requests that overlap keeps the contract once they are kept apart.
#[test]
fn what_is_kept_apart_is_not_torn() {
    let torn: Arc<dyn Volume> = Arc::new(Planted::new(ram(512), Bug::TearsBlocks));
    assert_keeps(Arc::new(Apart::new(torn)), Options { patience: 300, ..Options::default() });
}

#[test]
fn a_stack_of_filters_keeps_the_contract() {
    let stack = Stats::new(Arc::new(Limit::new(
        Arc::new(Delay::new(ram(512), Duration::from_micros(50))),
        Some(1_000_000),
        None,
    )));
    assert_keeps(Arc::new(stack), Options { steps: 1_000, ..Options::default() });
}

#[test]
fn every_planted_bug_is_found() {
    let options = Options { patience: 300, ..Options::default() };
    for (bug, expected) in Bug::ALL {
        let volume: Arc<dyn Volume> = Arc::new(Planted::new(ram(512), *bug));
        let violation = contract::check(&volume, &options, &fake).expect_err(&format!("{bug:?}"));
        assert!(expected.contains(&violation.check), "{bug:?} was found by {violation}");
    }
}

/// The blocks whose reads fail.
const BAD: Extent = Extent::new(40, 3);

/// A volume with a bad medium there.
fn bad() -> Arc<dyn Volume> {
    let fail = Fail::new(ram(512), FailRate::EveryNth(1), VolumeErrorKind::Media);
    Arc::new(fail.on(OperationSet::READ).within(Some(BAD)))
}

#[test]
fn reads_of_a_bad_medium_give_their_memory_back_through_every_filter() {
    let ms = Duration::from_millis(1);
    let providers: [Arc<dyn Volume>; 7] = [
        bad(),
        Arc::new(Delay::new(bad(), ms).with_jitter(5 * ms, 9)),
        Arc::new(Fail::new(bad(), FailRate::PartsPerMillion(0), VolumeErrorKind::Busy)),
        Arc::new(Limit::new(bad(), Some(100_000), Some(1 << 30))),
        Arc::new(Stats::new(bad())),
        Arc::new(ReadOnly::new(bad())),
        Arc::new(Apart::new(bad())),
    ];
    for volume in providers {
        if let Err(violation) = contract::check_medium_errors(&volume, BAD, &Options::default(), &fake) {
            panic!("{volume:?} breaks {violation}");
        }
    }
}

#[test]
fn a_provider_that_keeps_the_memory_of_bad_blocks_is_found() {
    let options = Options::default();
    for bug in [Bug::KeepsMemoryOfBadBlocks, Bug::KeepsReadMemory] {
        let volume: Arc<dyn Volume> = Arc::new(Planted::new(bad(), bug));
        let violation = contract::check_medium_errors(&volume, BAD, &options, &fake).unwrap_err();
        assert_eq!(violation.check, "medium_errors_return_memory", "{violation}");
        assert!(violation.to_string().contains("kept its buffer"), "{violation}");
    }
    // Without a bad block there is nothing to find, so a check that met none would prove nothing.
    let good = contract::check_medium_errors(&ram(512), BAD, &options, &fake).unwrap_err();
    assert!(good.to_string().contains("a read of bad blocks ended with None"), "{good}");
}

#[test]
fn the_document_names_every_check() {
    let text = include_str!("../../../docs/volume-contract.md");
    for name in contract::names() {
        assert!(text.contains(&format!("`{name}`")), "docs/volume-contract.md lacks {name}");
    }
}
