//! Several cores at once on the same blocks.

use std::sync::Barrier;
use std::thread;

use buf::Buf;
use protocol::{Entropy, SeededEntropy};

use super::bench::{Answer, Bench};
use super::finding::{Finding, Verdict};
use super::stamp::{self, Stamp};
use crate::{ComparedWrite, Durability, Extent, Failure, Operation, Outcome, Tag, VolumeErrorKind};

/// Blocks that all threads write, around a place where a volume's own units are likely to meet.
const AREA: u64 = 24;
/// Rounds of each thread, and requests under way in each round.
const ROUNDS: u64 = 60;
const BATCH: u64 = 8;
/// Successful compare-and-writes of each thread.
const INCREMENTS: u64 = 25;

fn area(bench: &Bench<'_>) -> Extent {
    let blocks = AREA.min(bench.geometry.blocks).min(bench.longest());
    // 64 KiB from the start, less a few blocks.
    let start = (u64::from(65_536 / bench.geometry.block_size)).saturating_sub(blocks / 2);
    Extent::new(start.min(bench.geometry.blocks - blocks), blocks)
}

/// The same, as far as one compare-and-write reaches.
fn area_of_comparisons(bench: &Bench<'_>) -> Extent {
    let area = area(bench);
    Extent::new(area.start, area.blocks.min(bench.options.longest_compare_and_write))
}

/// Runs `work` on a thread for each queue, with the number of the queue, once all of them are there.
fn on_threads(bench: &Bench<'_>, work: impl Fn(&mut Bench<'_>, u64) -> Verdict + Sync) -> Verdict {
    let (volume, options, worlds) = (bench.volume, bench.options, bench.worlds);
    let start = Barrier::new(usize::from(options.threads));
    thread::scope(|scope| {
        let threads: Vec<_> = (1..=u64::from(options.threads))
            .map(|number| {
                let (work, start) = (&work, &start);
                scope.spawn(move || {
                    let bench = Bench::open(volume, options, worlds);
                    start.wait();
                    let mut bench = bench?;
                    bench.entropy = SeededEntropy::new(options.seed.wrapping_add(number));
                    work(&mut bench, number)?;
                    bench.end()
                })
            })
            .collect();
        for thread in threads {
            thread.join().map_err(|_| Finding::Panicked)??;
        }
        Ok(())
    })
}

pub(super) fn blocks_are_never_torn(bench: &mut Bench<'_>) -> Verdict {
    if bench.options.threads < 2 {
        return Ok(());
    }
    let area = area(bench);
    let mut bytes = vec![0; bench.bytes(area.blocks)];
    stamp::fill_all(&mut bytes, bench.block_size(), area.start, Stamp { writer: 0, number: 0 });
    bench.write(area, Buf::from(bytes).freeze().into())?;
    on_threads(bench, |bench, writer| write_and_read(bench, area, writer))?;
    let data = bench.read(area)?;
    check_blocks(bench, area, &data)
}

fn check_blocks(bench: &Bench<'_>, extent: Extent, data: &[u8]) -> Verdict {
    for (place, block) in (extent.start..).zip(data.chunks(bench.block_size())) {
        let Stamp { writer, number } = stamp::read(block, place)?;
        if writer > u64::from(bench.options.threads) || number > ROUNDS * BATCH {
            return Err(Finding::Data(format!("block {place} is stamped by nobody: {writer}, {number}")));
        }
    }
    Ok(())
}

fn write_and_read(bench: &mut Bench<'_>, area: Extent, writer: u64) -> Verdict {
    let mut number = 0;
    for _ in 0..ROUNDS {
        let mut reads: Vec<(Tag, Extent)> = Vec::new();
        for _ in 0..BATCH {
            number += 1;
            let blocks = 1 + bench.entropy.number() % area.blocks;
            let extent =
                Extent::new(area.start + bench.entropy.number() % (area.blocks - blocks + 1), blocks);
            let mut bytes = vec![0; bench.bytes(blocks)];
            if number % 2 == 0 {
                let into = Buf::from(bytes);
                reads.push((bench.start(Operation::Read { extent, into })?, extent));
            } else {
                stamp::fill_all(&mut bytes, bench.block_size(), extent.start, Stamp { writer, number });
                let data = Buf::from(bytes).freeze().into();
                bench.start(Operation::Write { extent, data, durability: Durability::Cached })?;
            }
        }
        for (tag, extent) in reads {
            match bench.wait(tag)? {
                Ok(Outcome::Data(data)) => check_blocks(bench, extent, &data.into_one())?,
                other => return Err(Finding::Answer(format!("a read ended with {other:?}"))),
            }
        }
        bench.settle()?;
    }
    Ok(())
}

/// Every thread counts up a number that spans blocks: no increment may be lost.
pub(super) fn compare_and_write_is_atomic(bench: &mut Bench<'_>) -> Verdict {
    if bench.options.threads < 2 || !bench.compares_and_writes() {
        return Ok(());
    }
    let area = area_of_comparisons(bench);
    let value = |bench: &Bench<'_>, count: u64| {
        let mut bytes = vec![0; bench.bytes(area.blocks)];
        stamp::fill_all(&mut bytes, bench.block_size(), area.start, Stamp { writer: count, number: 0 });
        bytes
    };
    bench.write(area, Buf::from(value(bench, 0)).freeze().into())?;
    on_threads(bench, |bench, _| {
        let mut count = 0;
        let mut won = 0;
        while won < INCREMENTS {
            let (old, new) = (value(bench, count), value(bench, count + 1));
            match increment(bench, area, old, new)? {
                Ok(_) => {
                    (won, count) = (won + 1, count + 1);
                }
                Err(Failure { kind: VolumeErrorKind::Miscompare { .. }, .. }) => {
                    count = current(bench, area)?;
                }
                Err(other) => return Err(Finding::failed("a compare-and-write", other)),
            }
        }
        Ok(())
    })?;
    let (count, expected) = (current(bench, area)?, INCREMENTS * u64::from(bench.options.threads));
    if count != expected {
        return Err(Finding::Data(format!("{expected} increments left the number at {count}")));
    }
    Ok(())
}

fn increment(bench: &mut Bench<'_>, extent: Extent, old: Vec<u8>, new: Vec<u8>) -> Result<Answer, Finding> {
    let (compare, write) = (Buf::from(old).freeze().into(), Buf::from(new).freeze().into());
    let data = Box::new(ComparedWrite { compare, write });
    bench.run(Operation::CompareAndWrite { extent, data, durability: Durability::Cached })
}

/// The number that all blocks hold now; they must agree, as compare-and-write is atomic against reads.
fn current(bench: &mut Bench<'_>, extent: Extent) -> Result<u64, Finding> {
    let data = bench.read(extent)?;
    let mut counts = Vec::new();
    for (place, block) in (extent.start..).zip(data.chunks(bench.block_size())) {
        counts.push(stamp::read(block, place)?.writer);
    }
    if counts.iter().any(|count| Some(count) != counts.first()) {
        return Err(Finding::Data(format!("a read saw half a compare-and-write: {counts:?}")));
    }
    Ok(counts.first().copied().unwrap_or(0))
}

/// Every thread writes a block of its own, and at the same time changes the first block by a compare-and-write over all
/// of them, which puts back what it compared with: if it slips past a write that it did not see, that write is lost.
pub(super) fn compare_and_write_loses_no_write(bench: &mut Bench<'_>) -> Verdict {
    let area = area_of_comparisons(bench);
    let threads = u64::from(bench.options.threads);
    if area.blocks <= threads.max(1) || !bench.compares_and_writes() {
        return Ok(());
    }
    let mut bytes = vec![0; bench.bytes(area.blocks)];
    stamp::fill_all(&mut bytes, bench.block_size(), area.start, Stamp { writer: 0, number: 0 });
    bench.write(area, Buf::from(bytes).freeze().into())?;
    let rounds = |bench: &mut Bench<'_>, writer| {
        (1..=ROUNDS).try_for_each(|number| change_first_while_writing(bench, area, Stamp { writer, number }))
    };
    rounds(bench, 1)?;
    on_threads(bench, rounds)
}

fn change_first_while_writing(bench: &mut Bench<'_>, area: Extent, stamp: Stamp) -> Verdict {
    let old = bench.read(area)?.to_vec();
    let mut new = old.clone();
    let size = bench.block_size();
    stamp::fill_all(&mut new[..size], size, area.start, stamp);
    let own = Extent::new(area.start + stamp.writer, 1);
    let mut bytes = vec![0; size];
    stamp::fill_all(&mut bytes, size, own.start, stamp);
    let (data, durability) = (Buf::from(bytes).freeze().into(), Durability::Cached);
    let write = bench.start(Operation::Write { extent: own, data, durability })?;
    let changed = increment(bench, area, old, new)?;
    bench.wait(write)?.map_err(|failure| Finding::failed("a write", failure))?;
    if let Err(Failure { kind, .. }) = changed
        && !matches!(kind, VolumeErrorKind::Miscompare { .. })
    {
        return Err(Finding::failed("a compare-and-write", kind));
    }
    let found = stamp::read(&bench.read(own)?, own.start)?;
    if found != stamp {
        return Err(Finding::Data(format!(
            "write {stamp:?} of a block was followed by {found:?}, which is older"
        )));
    }
    Ok(())
}
