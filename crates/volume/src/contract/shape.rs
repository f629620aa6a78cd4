//! Requests that do not fit: beyond the end, of the wrong length, too long, empty.

use buf::{Buf, BufList};

use super::bench::Bench;
use super::finding::{Finding, Verdict};
use crate::{ComparedWrite, Durability, Extent, Features, Operation, Outcome, VolumeErrorKind};

pub(super) fn geometry_makes_sense(bench: &mut Bench<'_>) -> Verdict {
    let (geometry, limits) = (bench.geometry, bench.limits);
    let sound = [
        (geometry.blocks > 0, "there are blocks"),
        ([512, 4096].contains(&geometry.block_size), "a block has 512 or 4096 bytes"),
        (
            geometry.physical_block_size.is_multiple_of(geometry.block_size),
            "a physical block is a multiple of a block",
        ),
        (limits.max_transfer >= geometry.block_size, "a block can be transferred"),
        (limits.max_transfer.is_multiple_of(geometry.block_size), "the longest transfer is whole blocks"),
        (limits.max_transfer as usize <= buf::LARGEST, "the longest transfer fits a buffer"),
        (limits.memory_alignment.is_power_of_two(), "memory is aligned to a power of two"),
        (limits.depth > 0, "a queue takes a request"),
        (limits.discard_granularity > 0, "the discard granularity is at least 1"),
        (limits.atomic_blocks > 0, "a block is atomic"),
    ];
    match sound.iter().find(|(holds, _)| !holds) {
        None => Ok(()),
        Some((_, what)) => {
            Err(Finding::Shape(format!("it does not hold that {what}: {geometry:?} {limits:?}")))
        }
    }
}

fn zeros(len: usize) -> BufList {
    Buf::zeroed(len).freeze().into()
}

/// One of each operation that has an extent, with memory of the right length.
fn one_of_each(bench: &Bench<'_>, extent: Extent, writes: bool) -> Vec<Operation> {
    let len = bench.bytes(extent.blocks);
    let durability = Durability::Cached;
    let mut list = vec![
        Operation::Read { extent, into: Buf::zeroed(len) },
        Operation::Verify { extent },
        Operation::QueryAllocation { extent },
    ];
    if bench.features.contains(Features::COMPARE) {
        list.push(Operation::Compare { extent, data: zeros(len) });
    }
    if writes {
        list.push(Operation::Write { extent, data: zeros(len), durability });
        list.push(Operation::Discard { extent });
        list.push(Operation::WriteZeroes { extent, durability, may_unmap: true });
    }
    if writes && bench.features.contains(Features::COMPARE) {
        let data = Box::new(ComparedWrite { compare: zeros(len), write: zeros(len) });
        list.push(Operation::CompareAndWrite { extent, data, durability });
    }
    list
}

pub(super) fn out_of_range(bench: &mut Bench<'_>) -> Verdict {
    let end = bench.geometry.blocks;
    for (start, blocks) in [(end, 1), (end - 1, 2), (end + 1, 0), (u64::MAX, 1)] {
        for operation in one_of_each(bench, Extent::new(start, blocks), true) {
            bench.fail(operation, VolumeErrorKind::OutOfRange)?;
        }
    }
    Ok(())
}

pub(super) fn wrong_length(bench: &mut Bench<'_>) -> Verdict {
    let extent = Extent::new(0, 1);
    let writable = !bench.features.contains(Features::READ_ONLY);
    for len in [bench.block_size() - 1, bench.block_size() + 1, 0] {
        let read = Operation::Read { extent, into: Buf::zeroed(len) };
        bench.fail(read, VolumeErrorKind::Misaligned)?;
        if writable {
            let write = Operation::Write { extent, data: zeros(len), durability: Durability::Cached };
            bench.fail(write, VolumeErrorKind::Misaligned)?;
        }
    }
    Ok(())
}

pub(super) fn empty_extents(bench: &mut Bench<'_>) -> Verdict {
    let writable = !bench.features.contains(Features::READ_ONLY);
    for start in [0, bench.geometry.blocks] {
        for operation in one_of_each(bench, Extent::new(start, 0), writable) {
            match bench.succeed(operation)? {
                Outcome::Data(data) if !data.is_empty() => {
                    return Err(Finding::Answer("an empty read has data".to_owned()));
                }
                Outcome::Allocation(run) if run.extent != Extent::new(start, 0) => {
                    return Err(Finding::Answer(format!("an empty query answered {run:?}")));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

pub(super) fn longest_transfer(bench: &mut Bench<'_>) -> Verdict {
    let longest = bench.longest();
    bench.read(Extent::new(bench.geometry.blocks - longest, longest))?;
    if longest == bench.geometry.blocks {
        return Ok(());
    }
    let extent = Extent::new(0, longest + 1);
    let into = Buf::zeroed(bench.bytes(extent.blocks));
    bench.fail(Operation::Read { extent, into }, VolumeErrorKind::Misaligned)
}

pub(super) fn read_only_refuses_writes(bench: &mut Bench<'_>) -> Verdict {
    if !bench.features.contains(Features::READ_ONLY) {
        return Ok(());
    }
    let all = one_of_each(bench, Extent::new(0, 1), true);
    all.into_iter()
        .filter(Operation::writes)
        .try_for_each(|write| bench.fail(write, VolumeErrorKind::ReadOnly))
}
