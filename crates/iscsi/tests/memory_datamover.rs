//! Both roles over a datamover that is no byte stream: they do everything there that they do over TCP, and no PDU crosses that moves data.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::fmt::Write as _;
use std::sync::Arc;

use buf::{Account, Buf, BufList, Pool, SharedBuf};
use common::memory_datamover::{Frames, MemoryBench, bench};
use common::{BLOCK, config, portal};
use iscsi::keys::{DigestPolicy, Tuning};
use iscsi::limits;
use iscsi::target::{Input, Portal};
use protocol::pair::aperiodic;
use protocol::{CloseReason, Connection};
use scsi::NexusEvent;
use volume::{Durability, Epoch, Extent, Operation, Tag, VolumeErrorKind, VolumeId};

/// What the target has for everybody.
const LIMIT: usize = 1 << 20;

fn ready_with(near: Tuning, far: Tuning, pool: &Pool) -> MemoryBench {
    let mut config = config();
    config.tuning = near;
    let mut portal = portal(4096);
    portal.tuning = far;
    let mut bench = bench(config, portal, pool);
    bench.log_in();
    bench
}

fn ready(near: Tuning) -> MemoryBench {
    ready_with(near, Tuning::default(), &Pool::new(64 << 20))
}

/// Nothing goes before it is asked for.
fn asked_only() -> Tuning {
    Tuning { immediate_data: false, initial_r2t: true, ..Tuning::default() }
}

fn write_of(blocks: usize, seed: u64) -> Operation {
    let data = BufList::from(SharedBuf::from(aperiodic(blocks * BLOCK, seed)));
    Operation::Write { extent: Extent::new(0, blocks as u64), data, durability: Durability::Cached }
}

fn read_of(blocks: usize) -> Operation {
    Operation::Read { extent: Extent::new(0, blocks as u64), into: Buf::zeroed(blocks * BLOCK) }
}

fn outstanding(bench: &MemoryBench) -> usize {
    bench.pair.far.connection.upper.outstanding()
}

#[test]
fn login_probe_write_read() {
    let mut bench = ready(Tuning::default());
    let unit = bench.unit.clone().unwrap();
    assert_eq!(
        (unit.geometry.blocks, unit.vendor.as_str(), unit.product.as_str()),
        (4096, "LINERATE", "DISK")
    );
    bench.check_integrity("default");
    bench.memory.fail = Some(VolumeErrorKind::Media);
    assert_eq!(bench.read(0, 8), Err(VolumeErrorKind::Media), "sense data comes with the status");
    assert_eq!(outstanding(&bench), 0);
    bench.pair.near.connection.handle_input(bench.pair.now, iscsi::initiator::Input::Logout);
    bench.run();
    assert_eq!(bench.pair.far.connection.poll_close(), Some(CloseReason::Finished));
    // Login, SCSI command, logout; and their answers.
    assert_eq!(bench.opcodes().into_iter().collect::<Vec<u8>>(), [0x01, 0x03, 0x06, 0x21, 0x23, 0x26]);
}

/// Immediate data or none, bursts, and parts that are asked for at a time: the matrix of the pair over TCP, and frames in chunks.
#[test]
fn every_burst_setting() {
    for immediate_data in [false, true] {
        for initial_r2t in [false, true] {
            for (first_burst, max_burst) in [(512, 512), (8192, 65_536), (65_536, 8192), (262_144, 1 << 20)] {
                for (outstanding_r2t, chunk) in [(1, usize::MAX), (4, 1000)] {
                    let near = Tuning {
                        immediate_data,
                        initial_r2t,
                        first_burst,
                        max_burst,
                        outstanding_r2t,
                        ..Tuning::default()
                    };
                    let mut bench = ready(near);
                    bench.pair.chunk = chunk;
                    bench.check_integrity(&format!("{near:?}"));
                    assert_eq!(outstanding(&bench), 0);
                    bench.opcodes();
                }
            }
        }
    }
}

/// What crosses for an I/O: frames and bytes each way.
fn cost(table: &mut String, title: &str, tuning: Tuning) {
    let mut bench = ready(tuning);
    for (blocks, write) in [(8, false), (8, true), (256, false), (256, true), (2048, true)] {
        let (before, moved) = (bench.frames(), bench.moved);
        bench.submit(1, if write { write_of(blocks, 1) } else { read_of(blocks) });
        bench.run();
        assert!(bench.done.pop().unwrap().result.is_ok());
        let Frames { control, put, get } = bench.frames();
        let (control, put, get) = (control - before.control, put - before.put, get - before.get);
        let kind = if write { "write" } else { "read" };
        let bytes = bench.moved - moved;
        writeln!(
            table,
            "{title}: {kind} {} KiB: CONTROL {control}, PUT {put}, GET {get}, {bytes} bytes",
            blocks / 2
        )
        .unwrap();
    }
}

/// Digests are the byte stream's: here they cost nothing, whatever was agreed.
#[test]
fn costs_are_as_written_down() {
    let [mut table, mut with_digests] = [String::new(), String::new()];
    let plain =
        Tuning { header_digest: DigestPolicy::Off, data_digest: DigestPolicy::Off, ..Tuning::default() };
    let digests = Tuning {
        header_digest: DigestPolicy::Require,
        data_digest: DigestPolicy::Require,
        ..Tuning::default()
    };
    cost(&mut table, "default", plain);
    cost(&mut with_digests, "default", digests);
    assert_eq!(table, with_digests);
    cost(&mut table, "asked only", Tuning { immediate_data: false, initial_r2t: true, ..plain });
    assert_eq!(table, include_str!("memory_cost.golden"), "the new table:\n{table}");
}

/// A request at the volume is cancelled by its initiator, and one whose data was asked for by another nexus: its data comes for nobody.
#[test]
fn aborted_tasks_hold_nothing() {
    let pool = Pool::new(LIMIT);
    let mut bench = ready_with(asked_only(), Tuning::default(), &pool);
    bench.write(0, vec![1; BLOCK]).unwrap();
    let before = pool.used();
    bench.memory.hold = true;
    bench.submit(1, read_of(8));
    bench.run();
    bench.pair.near.connection.handle_input(bench.pair.now, iscsi::initiator::Input::Cancel(Tag(1)));
    bench.run();
    assert_eq!(bench.memory.cancelled.len(), 1, "the volume is told");
    bench.release();
    assert_eq!(bench.done.pop().unwrap().error(), Some(VolumeErrorKind::Cancelled));

    bench.submit(2, write_of(8, 2));
    let command = bench.pair.near.transmit(bench.pair.now);
    bench.pair.far.receive(bench.pair.now, &command);
    let get = bench.pair.far.transmit(bench.pair.now);
    bench.pair.near.receive(bench.pair.now, &get);
    let event = Some(NexusEvent::LogicalUnitReset);
    let fence = Input::Fence { volume: VolumeId::new(0, 0), epoch: Epoch(1), event };
    bench.pair.far.connection.handle_input(bench.pair.now, fence);
    bench.run();
    assert_eq!(bench.pair.far.connection.upper.outstanding(), 0);
    let mover = iscsi::datamover::UpperLayer::mover(&mut bench.pair.far.connection.upper);
    assert_eq!(mover.thrown_away, 8 * BLOCK, "what was asked for came when its task had ended");
    assert!(bench.done.pop().unwrap().result.is_ok(), "it was sent again");
    assert_eq!(bench.memory.bytes[..8 * BLOCK], aperiodic(8 * BLOCK, 2));
    assert_eq!(pool.used(), before, "all memory has come back");
    bench.opcodes();
}

/// Reads, and writes whose data is asked for, wait for memory and hold nobody up; immediate data waits where it came, and after a while its
/// command is answered BUSY. From then on the initiator waits until it is asked.
#[test]
fn what_finds_no_memory_waits() {
    let pool = Pool::new(LIMIT);
    let mut bench = ready_with(Tuning::default(), Tuning::default(), &pool);
    let mut other = Account::new(&pool);
    other.count(LIMIT - pool.used());
    let mut waiting = Account::new(&pool);
    assert!(waiting.take(LIMIT / 2).is_none(), "nothing is left, and others wait");
    let floor: Vec<_> = std::iter::from_fn(|| pool.take(4096)).collect();
    bench.submit(1, write_of(256, 1));
    bench.run();
    assert!(bench.done.is_empty() && !bench.pair.far.connection.wants_bytes(), "it stays where it is");
    bench.pair.now = bench.pair.now + limits::MEMORY_WAIT_TIME;
    bench.pair.far.connection.handle_timeout(bench.pair.now);
    bench.pair.far.receive(bench.pair.now, &[]);
    bench.run();
    assert_eq!(bench.done.pop().unwrap().error(), Some(VolumeErrorKind::Busy));

    let before = bench.frames();
    bench.submit(2, write_of(256, 2));
    bench.submit(3, read_of(256));
    bench.run();
    assert!(
        bench.done.is_empty() && bench.pair.far.connection.wants_bytes(),
        "they wait, and hold nobody up"
    );
    assert_eq!(bench.frames().get, before.get, "nothing is asked for before there is memory for it");
    drop((floor, other, waiting));
    bench.run();
    assert_eq!(bench.done.len(), 2);
    assert!(bench.done.iter().all(|done| done.result.is_ok()), "{:?}", bench.done);
    assert!(bench.frames().get > before.get);

    bench.pair.now = bench.pair.now + limits::ASKED_TIME;
    bench.done.clear();
    let mut gets = Vec::new();
    for tag in [4, 5] {
        let before = bench.frames().get;
        bench.submit(tag, write_of(8, tag));
        bench.run();
        gets.push(bench.frames().get - before);
    }
    assert_eq!(gets, [1, 0], "data goes unasked again once the target has asked for some");
    bench.opcodes();
}

#[test]
fn a_target_that_is_gone_is_left() {
    let mut bench = ready(Tuning::default());
    let own = Arc::clone(&portal(4096).nodes[0]);
    let moved = bench.moved;
    let same = Input::PortalChanged(Arc::new(Portal::new(vec![own])));
    bench.pair.far.connection.handle_input(bench.pair.now, same);
    bench.run();
    assert_eq!(bench.moved, moved, "an unchanged target yields nothing");
    bench.write(0, vec![7; BLOCK]).unwrap();
    let gone = Input::PortalChanged(Arc::new(Portal::new(Vec::<Arc<iscsi::target::Node>>::new())));
    bench.pair.far.connection.handle_input(bench.pair.now, gone);
    bench.run();
    assert_eq!(bench.pair.far.connection.poll_close(), Some(CloseReason::Finished));
    assert!(bench.failed.is_some(), "it cannot go on");
    bench.opcodes();
}
