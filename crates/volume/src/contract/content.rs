//! What was written is read: alone, and in random traffic against a model.

use buf::{Buf, BufList};
use protocol::Entropy;

use super::bench::Bench;
use super::finding::{Finding, Verdict};
use super::stamp::{self, Stamp};
use crate::{Durability, Extent, Features, Operation, Outcome, Tag};

fn pattern(bench: &Bench<'_>, extent: Extent, number: u64) -> Vec<u8> {
    let mut bytes = vec![0; bench.bytes(extent.blocks)];
    stamp::fill_all(&mut bytes, bench.block_size(), extent.start, Stamp { writer: 1, number });
    bytes
}

/// Several pieces, none of which ends with a block if that can be helped.
fn in_pieces(bytes: &[u8], piece: usize) -> BufList {
    let mut list = BufList::new();
    bytes.chunks(piece).for_each(|piece| list.push(piece.to_vec().into()));
    list
}

pub(super) fn read_after_write(bench: &mut Bench<'_>) -> Verdict {
    let (end, longest) = (bench.geometry.blocks, bench.longest());
    let extents = [
        Extent::new(0, 1),
        Extent::new(end - 1, 1),
        Extent::new(end / 2, (end - end / 2).min(7)),
        Extent::new(end - longest, longest),
        Extent::new(0, longest),
    ];
    for (number, extent) in (1..).zip(extents) {
        let bytes = pattern(bench, extent, number);
        bench.write(extent, in_pieces(&bytes, bytes.len() / 3 + 1))?;
        bench.expect(extent, &bytes)?;
        bench.another()?.expect(extent, &bytes)?;
    }
    Ok(())
}

pub(super) fn held_reads_never_change(bench: &mut Bench<'_>) -> Verdict {
    let longest = bench.longest();
    let inner = Extent::new(longest / 3, longest - longest / 3);
    for extent in [Extent::new(0, 1), Extent::new(0, longest), inner] {
        let [before, after] = [1, 2].map(|number| pattern(bench, extent, number));
        bench.write(extent, in_pieces(&before, before.len()))?;
        let held = bench.read_held(extent)?;
        bench.write(extent, in_pieces(&after, after.len()))?;
        if bench.features.contains(Features::WRITE_ZEROES) {
            let durability = Durability::Cached;
            bench.succeed(Operation::WriteZeroes { extent, durability, may_unmap: true })?;
        }
        if held.into_one()[..] != before {
            return Err(Finding::Data(format!(
                "what a read of {extent:?} answered changed while it was held"
            )));
        }
    }
    // Where nobody can say whether the far end was away, a later connection would have to suspect that these writes are lost.
    bench.succeed(Operation::Flush).map(drop)
}

pub(super) fn durable_writes(bench: &mut Bench<'_>) -> Verdict {
    let extent = Extent::new(0, bench.longest().min(8));
    let bytes = pattern(bench, extent, 99);
    let data = in_pieces(&bytes, bytes.len());
    bench.succeed(Operation::Write { extent, data, durability: Durability::Durable })?;
    bench.succeed(Operation::Flush)?;
    bench.expect(extent, &bytes)
}

/// Blocks that the random traffic works on, and requests that are under way at a time.
const AREA: u64 = 192;
const BATCH: usize = 6;

/// The volume's blocks as they ought to be.
struct Model {
    start: u64,
    block_size: usize,
    bytes: Vec<u8>,
    /// What a discard of a volume without the feature has left undefined.
    defined: Vec<bool>,
}

impl Model {
    fn range(&self, extent: Extent) -> std::ops::Range<usize> {
        let first = wire::index(extent.start - self.start);
        let blocks = wire::index(extent.blocks);
        first * self.block_size..(first + blocks) * self.block_size
    }

    fn blocks(&self, extent: Extent) -> std::ops::Range<usize> {
        let range = self.range(extent);
        range.start / self.block_size..range.end / self.block_size
    }

    fn set(&mut self, extent: Extent, bytes: &[u8]) {
        let (range, blocks) = (self.range(extent), self.blocks(extent));
        self.bytes[range].copy_from_slice(bytes);
        self.defined[blocks].fill(true);
    }

    /// Compares what was read of `extent` with what ought to be there.
    fn check(&self, extent: Extent, data: &[u8]) -> Verdict {
        let expected = &self.bytes[self.range(extent)];
        let blocks = self.blocks(extent);
        let pairs = data.chunks(self.block_size).zip(expected.chunks(self.block_size));
        for ((index, defined), (have, want)) in blocks.clone().zip(&self.defined[blocks]).zip(pairs) {
            if *defined && have != want {
                return Err(Finding::Data(format!(
                    "block {} differs from the model",
                    self.start + index as u64
                )));
            }
        }
        Ok(())
    }
}

/// A step of the random traffic, and what it means to the model.
enum Step {
    Read(Extent),
    Write(Extent, Vec<u8>),
    Forget(Extent),
}

pub(super) fn random_against_model(bench: &mut Bench<'_>) -> Verdict {
    let blocks = AREA.min(bench.geometry.blocks);
    let start = (bench.geometry.blocks - blocks) / 3;
    let mut model = Model {
        start,
        block_size: bench.block_size(),
        bytes: vec![0; bench.bytes(blocks)],
        defined: vec![false; usize::try_from(blocks).unwrap_or(0)],
    };
    let mut steps = 0;
    while steps < bench.options.steps {
        let batch = batch(bench, Extent::new(start, blocks))?;
        steps += wire::bounded::<u32>(batch.len()).max(1);
        for (tag, step) in batch {
            settle_step(bench, &mut model, tag, step)?;
        }
    }
    for block in 0..blocks {
        let extent = Extent::new(start + block, 1);
        let data = bench.read(extent)?;
        model.check(extent, &data)?;
    }
    Ok(())
}

/// Starts some requests whose extents do not overlap.
fn batch(bench: &mut Bench<'_>, area: Extent) -> Result<Vec<(Tag, Step)>, Finding> {
    let mut started: Vec<(Tag, Step)> = Vec::new();
    let mut used: Vec<Extent> = Vec::new();
    for _ in 0..BATCH {
        let blocks = 1 + bench.entropy.number() % area.blocks.min(bench.longest()).min(40);
        let extent = Extent::new(area.start + bench.entropy.number() % (area.blocks - blocks + 1), blocks);
        if used.iter().any(|other| other.overlaps(extent)) {
            continue;
        }
        used.push(extent);
        let (operation, step) = random_step(bench, extent);
        started.push((bench.start(operation)?, step));
    }
    Ok(started)
}

fn random_step(bench: &mut Bench<'_>, extent: Extent) -> (Operation, Step) {
    let len = bench.bytes(extent.blocks);
    let draw = bench.entropy.number();
    let durability = if draw.is_multiple_of(7) { Durability::Durable } else { Durability::Cached };
    match draw % 10 {
        0..=3 => (Operation::Read { extent, into: Buf::zeroed(len) }, Step::Read(extent)),
        4..=7 => {
            let bytes = pattern(bench, extent, draw);
            let data = in_pieces(&bytes, 1 + usize::try_from(draw % 9_000).unwrap_or(0).max(len / 8));
            (Operation::Write { extent, data, durability }, Step::Write(extent, bytes))
        }
        8 => {
            let zeroed = bench.features.contains(Features::DISCARD);
            let step = if zeroed { Step::Write(extent, vec![0; len]) } else { Step::Forget(extent) };
            (Operation::Discard { extent }, step)
        }
        _ => {
            let may_unmap = draw % 4 < 2;
            let step = Step::Write(extent, vec![0; len]);
            (Operation::WriteZeroes { extent, durability, may_unmap }, step)
        }
    }
}

fn settle_step(bench: &mut Bench<'_>, model: &mut Model, tag: Tag, step: Step) -> Verdict {
    let outcome = bench
        .wait(tag)?
        .map_err(|failure| Finding::failed(format!("{tag:?} of the random traffic"), failure))?;
    match (step, outcome) {
        (Step::Read(extent), Outcome::Data(data)) => model.check(extent, &data.into_one()),
        (Step::Write(extent, bytes), Outcome::Done) => {
            model.set(extent, &bytes);
            Ok(())
        }
        (Step::Forget(extent), Outcome::Done) => {
            let blocks = model.blocks(extent);
            model.defined[blocks].fill(false);
            Ok(())
        }
        (_, outcome) => Err(Finding::Answer(format!("{tag:?} of the random traffic answered {outcome:?}"))),
    }
}
