//! Initiator and target against each other: data integrity over every way that data can take.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use buf::{Buf, SharedBuf};
use common::{BLOCK, Bench, burst_settings, config, portal};
use iscsi::keys::{DigestPolicy, Tuning};
use iscsi::target::Input;
use protocol::Connection as _;
use protocol::pair::aperiodic;
use scsi::NexusEvent;
use volume::{Completion, Durability, Epoch, Extent, Operation, Outcome, VolumeErrorKind, VolumeId};

#[test]
fn login_probe_write_read() {
    let mut bench = Bench::ready(config(), portal(2048));
    let unit = bench.unit.clone().unwrap();
    assert_eq!(
        (unit.geometry.blocks, unit.geometry.block_size, unit.geometry.physical_block_size),
        (2048, 512, 4096)
    );
    assert_eq!((unit.vendor.as_str(), unit.product.as_str()), ("LINERATE", "DISK"));
    let bytes = aperiodic(8 * BLOCK, 1);
    bench.write(8, bytes.clone()).unwrap();
    assert_eq!(bench.read(8, 8).unwrap(), bytes);
    assert_eq!(bench.memory.bytes[8 * BLOCK..16 * BLOCK], bytes);
}

#[test]
fn a_read_that_the_connection_or_the_target_ends_gives_its_memory_back() {
    for fails in [false, true] {
        let mut bench = Bench::ready(config(), portal(256));
        bench.memory.hold = !fails;
        bench.memory.fail = fails.then_some(VolumeErrorKind::Media);
        let into = buf::Buf::zeroed(BLOCK);
        let place = into.as_ptr();
        bench.submit(1, Operation::Read { extent: Extent::new(0, 1), into });
        bench.run();
        bench.pair.near.end(bench.pair.now, protocol::Ended::ByPeer);
        bench.run();
        let memory = bench.done.pop().unwrap().result.unwrap_err().memory.expect("the memory");
        assert_eq!((memory.as_ptr(), memory.len()), (place, BLOCK));
    }
}

#[test]
fn every_chunk_size() {
    for chunk in (1..80).chain([127, 512, 1024, 4096, 65_536]) {
        let mut bench = Bench::new(config(), portal(256));
        bench.pair.chunk = chunk;
        bench.run();
        let bytes = aperiodic(48 * BLOCK, 3);
        bench.write(0, bytes.clone()).unwrap();
        assert_eq!(bench.read(0, 48).unwrap(), bytes, "chunks of {chunk}");
    }
}

fn check(near: Tuning, far: Tuning, chunk: usize) {
    let mut config = config();
    config.tuning = near;
    let mut portal = portal(4096);
    portal.tuning = far;
    let mut bench = Bench::new(config, portal);
    bench.pair.chunk = chunk;
    bench.log_in();
    bench.check_integrity(&format!("{near:?}"));
    assert_eq!(bench.pair.far.connection.outstanding(), 0);
}

#[test]
fn a_size_that_changes_while_the_unit_is_probed_is_known_in_the_end() {
    let mut late = 0;
    for moment in 0.. {
        let mut bench = Bench::new(config(), portal(256));
        let going_on = (0..moment).all(|_| bench.step());
        bench.resize(512);
        bench.run();
        bench.read(0, 1).unwrap();
        let told = bench.unit.clone().unwrap().geometry;
        assert_eq!(bench.resized.last().unwrap_or(&told).blocks, 512, "a change at step {moment}");
        late += usize::from(told.blocks != 512);
        if !going_on {
            break;
        }
    }
    assert!(late > 1, "no change came between the answer about the size and the end of the probe");
}

#[test]
fn every_burst_setting() {
    for near in burst_settings() {
        check(near, Tuning { segment: 12_288, ..Tuning::default() }, usize::MAX);
    }
}

#[test]
fn every_digest_setting() {
    for header in [DigestPolicy::Off, DigestPolicy::Require] {
        for data in [DigestPolicy::Off, DigestPolicy::Require] {
            let near = Tuning { header_digest: header, data_digest: data, ..Tuning::default() };
            for chunk in [7, 1000, usize::MAX] {
                check(near, Tuning::default(), chunk);
            }
        }
    }
}

#[test]
fn odd_segments_are_padded() {
    let near = Tuning {
        segment: 513,
        header_digest: DigestPolicy::Require,
        data_digest: DigestPolicy::Require,
        ..Tuning::default()
    };
    let far = Tuning { segment: 9001, max_burst: 10_003, first_burst: 777, ..Tuning::default() };
    check(near, far, usize::MAX);
    check(near, far, 11);
}

/// Another nexus resets the unit while a request of ours is at the volume. It ends with TASK ABORTED there, and is sent again.
#[test]
fn a_command_that_another_nexus_aborted_is_sent_again() {
    let mut bench = Bench::ready(config(), portal(64));
    bench.write(0, vec![1; BLOCK]).unwrap();
    let write = Operation::Write {
        extent: Extent::new(0, 1),
        data: SharedBuf::from(vec![2; BLOCK]).into(),
        durability: Durability::Cached,
    };
    let read = Operation::Read { extent: Extent::new(1, 8), into: Buf::zeroed(8 * BLOCK) };
    for (tag, operation) in [(1, write), (2, read)] {
        bench.memory.hold = true;
        bench.submit(tag, operation);
        bench.run();
        for (epoch, event) in [(1, NexusEvent::LogicalUnitReset), (2, NexusEvent::TaskSetCleared)] {
            let fence = Input::Fence { volume: VolumeId::new(0, 0), epoch: Epoch(epoch), event: Some(event) };
            bench.pair.far.connection.handle_input(bench.pair.now, fence);
            bench.run();
        }
        assert_eq!(bench.done.len(), 0);
        bench.release();
        bench.run();
        let done = bench.done.pop().expect("a completion");
        assert!(done.result.is_ok(), "{:?}", done.result);
        bench.memory.cancelled.clear();
    }
    assert_eq!(bench.read(0, 1).unwrap(), vec![2; BLOCK]);
}

/// WRITE SAME has no FUA bit (SBC-4 §5.48): what is to be durable is durable once the flush that follows it has ended, and not before.
#[test]
fn a_durable_request_ends_with_the_flush_that_makes_it_durable() {
    let zeroes =
        |durability| Operation::WriteZeroes { extent: Extent::new(8, 64), durability, may_unmap: false };
    for sound in [true, false] {
        let mut bench = Bench::ready(config(), portal(2048));
        bench.memory.hold = true;
        let end = |bench: &mut Bench, wanted: &str, result: Result<Outcome, VolumeErrorKind>| {
            bench.run();
            let held = std::mem::take(&mut bench.memory.held);
            let [request] = &held[..] else { panic!("{wanted} is to be done, and {held:?} is") };
            assert!(format!("{:?}", request.operation).starts_with(wanted), "{wanted}: {request:?}");
            assert!(bench.done.is_empty(), "not before {wanted} has ended");
            let completion = Completion { tag: request.tag, result: result.map_err(VolumeErrorKind::into) };
            bench.pair.far.connection.handle_input(bench.pair.now, Input::Completion(completion));
            bench.run();
        };
        bench.submit(1, zeroes(Durability::Durable));
        end(&mut bench, "WriteZeroes", Ok(Outcome::Done));
        let flushed = if sound { Ok(Outcome::Done) } else { Err(VolumeErrorKind::Media) };
        end(&mut bench, "Flush", flushed);
        let done = bench.done.pop().unwrap();
        assert_eq!(done.result.is_ok(), sound, "the flush came to that: {done:?}");
        bench.submit(2, zeroes(Durability::Cached));
        end(&mut bench, "WriteZeroes", Ok(Outcome::Done));
        assert!(bench.done.pop().unwrap().result.is_ok() && bench.memory.held.is_empty());
    }
}
