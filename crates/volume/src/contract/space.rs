//! Discard, write zeroes, allocation queries, and the comparing operations.

use buf::{Buf, BufList};

use super::bench::Bench;
use super::finding::{Finding, Verdict};
use super::stamp::{self, Stamp};
use crate::{Allocation, ComparedWrite, Durability, Extent, Features, Operation, Outcome, VolumeErrorKind};

/// Most runs that a walk over a volume looks at.
const MOST_RUNS: usize = 2_000;

/// Blocks that the checks of this file work on.
fn area(bench: &Bench<'_>) -> Extent {
    Extent::new(0, bench.longest().min(256))
}

/// Writes the area full and gives back what it holds.
fn filled(bench: &mut Bench<'_>, area: Extent) -> Result<Vec<u8>, Finding> {
    let mut bytes = vec![0; bench.bytes(area.blocks)];
    stamp::fill_all(
        &mut bytes,
        bench.block_size(),
        area.start,
        Stamp { writer: 7, number: bench.options.seed },
    );
    bench.write(area, Buf::from(bytes.clone()).freeze().into())?;
    Ok(bytes)
}

/// The middle half of an area.
fn middle(area: Extent) -> Extent {
    Extent::new(area.start + area.blocks / 4, (area.blocks / 2).max(1))
}

fn range(bench: &Bench<'_>, area: Extent, part: Extent) -> std::ops::Range<usize> {
    let start = bench.bytes(part.start - area.start);
    start..start + bench.bytes(part.blocks)
}

pub(super) fn discard(bench: &mut Bench<'_>) -> Verdict {
    let area = area(bench);
    for part in [middle(area), Extent::new(1.min(area.blocks - 1), 1), area] {
        let mut expected = filled(bench, area)?;
        bench.succeed(Operation::Discard { extent: part })?;
        let hole = range(bench, area, part);
        if bench.features.contains(Features::DISCARD) {
            expected[hole].fill(0);
            bench.expect(area, &expected)?;
        } else {
            bench.expect(Extent::new(0, part.start), &expected[..hole.start])?;
            let rest = Extent::new(part.start + part.blocks, area.blocks - part.start - part.blocks);
            bench.expect(rest, &expected[hole.end..])?;
        }
    }
    Ok(())
}

pub(super) fn write_zeroes(bench: &mut Bench<'_>) -> Verdict {
    let area = area(bench);
    for may_unmap in [true, false] {
        for durability in [Durability::Cached, Durability::Durable] {
            for part in [middle(area), Extent::new(0, 1), area] {
                let mut expected = filled(bench, area)?;
                bench.succeed(Operation::WriteZeroes { extent: part, durability, may_unmap })?;
                expected[range(bench, area, part)].fill(0);
                bench.expect(area, &expected)?;
            }
        }
    }
    Ok(())
}

/// The first run of an extent, seen to begin there and to lie within.
fn query(bench: &mut Bench<'_>, extent: Extent) -> Result<Allocation, Finding> {
    match bench.succeed(Operation::QueryAllocation { extent })? {
        Outcome::Allocation(run)
            if run.extent.start == extent.start && (1..=extent.blocks).contains(&run.extent.blocks) =>
        {
            Ok(run)
        }
        other => Err(Finding::Answer(format!("a query of {extent:?} answered {other:?}"))),
    }
}

pub(super) fn allocation_covers(bench: &mut Bench<'_>) -> Verdict {
    let mut at = 0;
    for _ in 0..MOST_RUNS {
        if at == bench.geometry.blocks {
            return Ok(());
        }
        let run = query(bench, Extent::new(at, bench.geometry.blocks - at))?;
        if !run.mapped {
            let blocks = run.extent.blocks.min(bench.longest()).min(64);
            let data = bench.read(Extent::new(at, blocks))?;
            if data.iter().any(|byte| *byte != 0) {
                return Err(Finding::Data(format!("{run:?} has nothing behind it, but holds data")));
            }
        }
        at += run.extent.blocks;
    }
    Ok(())
}

pub(super) fn allocation_tells_data(bench: &mut Bench<'_>) -> Verdict {
    let area = area(bench);
    filled(bench, area)?;
    let mut at = area.start;
    while at < area.start + area.blocks {
        let run = query(bench, Extent::new(at, area.start + area.blocks - at))?;
        if !run.mapped {
            return Err(Finding::Answer(format!("{run:?} was written just now")));
        }
        at += run.extent.blocks;
    }
    bench.succeed(Operation::Discard { extent: area })?;
    allocation_covers(bench)
}

pub(super) fn unsupported_compare(bench: &mut Bench<'_>) -> Verdict {
    if bench.features.contains(Features::COMPARE) {
        return Ok(());
    }
    let data = Buf::zeroed(bench.block_size()).freeze().into();
    bench.fail(Operation::Compare { extent: Extent::new(0, 1), data }, VolumeErrorKind::Unsupported)
}

/// A list in two pieces, cut off any border.
fn in_pieces(bytes: &[u8]) -> BufList {
    let mut list = BufList::new();
    let cut = bytes.len() / 3 + 1;
    list.push(bytes[..cut].to_vec().into());
    list.push(bytes[cut..].to_vec().into());
    list
}

/// Places where a comparison must find a difference: first, last, at a border of blocks.
fn places(bench: &Bench<'_>, len: usize) -> [usize; 4] {
    [0, len - 1, bench.block_size().min(len - 1), len / 2]
}

pub(super) fn compare(bench: &mut Bench<'_>) -> Verdict {
    if !bench.features.contains(Features::COMPARE) {
        return Ok(());
    }
    let area = area(bench);
    let bytes = filled(bench, area)?;
    bench.succeed(Operation::Compare { extent: area, data: in_pieces(&bytes) })?;
    for at in places(bench, bytes.len()) {
        let mut other = bytes.clone();
        other[at] ^= 1;
        let expected = VolumeErrorKind::Miscompare { offset: wire::bounded::<u32>(at) };
        bench.fail(Operation::Compare { extent: area, data: in_pieces(&other) }, expected)?;
    }
    Ok(())
}

pub(super) fn compare_and_write(bench: &mut Bench<'_>) -> Verdict {
    if !bench.compares_and_writes() {
        return Ok(());
    }
    let mut area = area(bench);
    area.blocks = area.blocks.min(bench.options.longest_compare_and_write);
    let bytes = filled(bench, area)?;
    let durability = Durability::Durable;
    let mut new = bytes.clone();
    stamp::fill_all(&mut new, bench.block_size(), area.start, Stamp { writer: 8, number: 8 });
    for at in places(bench, bytes.len()) {
        let mut other = bytes.clone();
        other[at] ^= 1;
        let data = Box::new(ComparedWrite { compare: in_pieces(&other), write: in_pieces(&new) });
        let expected = VolumeErrorKind::Miscompare { offset: wire::bounded::<u32>(at) };
        bench.fail(Operation::CompareAndWrite { extent: area, data, durability }, expected)?;
        bench.expect(area, &bytes)?;
    }
    let data = Box::new(ComparedWrite { compare: in_pieces(&bytes), write: in_pieces(&new) });
    bench.succeed(Operation::CompareAndWrite { extent: area, data, durability })?;
    bench.expect(area, &new)
}
