//! Requests as such: taken or given back, ended exactly once, cancelled, abandoned.

use buf::Buf;
use protocol::Entropy;

use super::bench::Bench;
use super::finding::{Finding, Verdict};
use crate::{Extent, Failure, Operation, Outcome, Tag, VolumeErrorKind};

pub(super) fn reads_own_or_lent_memory(bench: &mut Bench<'_>) -> Verdict {
    let extent = Extent::new(0, 1);
    let into = Buf::zeroed(bench.block_size());
    let place = into.as_ptr();
    let data = match bench.succeed(Operation::Read { extent, into })? {
        Outcome::Data(data) => data,
        other => return Err(Finding::Answer(format!("a read answered {other:?}"))),
    };
    if data.len() != bench.block_size() {
        return Err(Finding::Answer(format!("a read of a block gave {} bytes", data.len())));
    }
    let data = data.into_one();
    if data.as_ptr() == place && data.try_unfreeze().is_err() {
        return Err(Finding::Queue(
            "the request's own buffer came back, but somebody still holds it".to_owned(),
        ));
    }
    Ok(())
}

pub(super) fn queue_full_gives_back(bench: &mut Bench<'_>) -> Verdict {
    let depth = u64::from(bench.limits.depth);
    let mut taken = 0;
    for _ in 0..=depth {
        let into = Buf::zeroed(bench.block_size());
        match bench.offer(Operation::Read { extent: Extent::new(0, 1), into })? {
            Ok(_) => taken += 1,
            Err(_) => break,
        }
    }
    if taken > depth {
        return Err(Finding::Queue(format!("{taken} requests were taken at a depth of {depth}")));
    }
    if taken == 0 {
        return Err(Finding::Unanswered("an idle queue takes no request".to_owned()));
    }
    bench.settle()?;
    bench.read(Extent::new(0, 1)).map(drop)
}

pub(super) fn completes_exactly_once(bench: &mut Bench<'_>) -> Verdict {
    for round in 0..64_u64 {
        for _ in 0..=round % 16 {
            let blocks = 1 + bench.entropy.number() % bench.longest().min(16);
            let start = bench.entropy.number() % (bench.geometry.blocks - blocks + 1);
            let extent = Extent::new(start, blocks);
            let operation = match bench.entropy.number() % 4 {
                0 => Operation::Flush,
                1 => Operation::Verify { extent },
                2 => Operation::QueryAllocation { extent },
                _ => Operation::Read { extent, into: Buf::zeroed(bench.bytes(blocks)) },
            };
            bench.start(operation)?;
        }
        bench.settle()?;
    }
    Ok(())
}

pub(super) fn cancel_ends_in_a_completion(bench: &mut Bench<'_>) -> Verdict {
    bench.cancel(crate::Tag(u64::MAX));
    let mut tags = Vec::new();
    for _ in 0..16 {
        let into = Buf::zeroed(bench.block_size());
        tags.push(bench.start(Operation::Read { extent: Extent::new(0, 1), into })?);
    }
    // Twice: the second finds the request cancelled, or already over.
    for tag in tags.iter().chain(&tags) {
        bench.cancel(*tag);
    }
    for tag in tags {
        match bench.wait(tag)? {
            Ok(Outcome::Data(_)) | Err(Failure { kind: VolumeErrorKind::Cancelled, .. }) => {}
            other => return Err(Finding::Answer(format!("a cancelled read ended with {other:?}"))),
        }
    }
    Ok(())
}

/// A read under way, and where its buffer is.
struct AskedRead {
    tag: Tag,
    address: usize,
    bytes: usize,
}

impl AskedRead {
    fn start(bench: &mut Bench<'_>, extent: Extent, bytes: usize) -> Result<Self, Finding> {
        let into = Buf::zeroed(bytes);
        let address = into.as_ptr().addr();
        Ok(Self { tag: bench.start(Operation::Read { extent, into })?, address, bytes })
    }

    /// Waits for its end; why it failed, if it did. The buffer has come back then.
    fn wait(self, bench: &mut Bench<'_>) -> Result<Option<VolumeErrorKind>, Finding> {
        let Err(Failure { kind, memory }) = bench.wait(self.tag)? else { return Ok(None) };
        match memory {
            Some(memory) if (memory.as_ptr().addr(), memory.len()) == (self.address, self.bytes) => {
                Ok(Some(kind))
            }
            Some(_) => Err(Finding::Queue(format!("a read that failed ({kind}) brought another buffer"))),
            None => Err(Finding::Queue(format!("a read that failed ({kind}) has kept its buffer"))),
        }
    }
}

/// Reads that make no sense, and those that are cancelled: none keeps its memory.
pub(super) fn failed_reads_return_memory(bench: &mut Bench<'_>) -> Verdict {
    let (end, longest) = (bench.geometry.blocks, bench.longest());
    let block = bench.block_size();
    let mut asked = Vec::new();
    for (start, blocks, bytes) in [(end, 1, block), (0, 1, block - 1), (0, longest, block)] {
        asked.push(AskedRead::start(bench, Extent::new(start, blocks), bytes)?);
    }
    for round in 0..64 {
        let read = AskedRead::start(bench, Extent::new(0, 1), block)?;
        if round % 2 == 0 {
            bench.cancel(read.tag);
        }
        asked.push(read);
    }
    asked.into_iter().try_for_each(|read| read.wait(bench).map(drop))
}

/// Reads that touch blocks with a medium error, alone, many at a time and together with their neighbours: each fails with that error, and gives its memory
/// back. Reads beside them succeed.
pub(super) fn medium_errors_return_memory(bench: &mut Bench<'_>, bad: Extent) -> Verdict {
    let longest = bench.longest();
    let first = Extent::new(bad.start, 1);
    let around = bad.start.saturating_sub(1);
    let neighbours = Extent::new(around, (bad.start - around + bad.blocks + 1).min(longest));
    let mut asked = Vec::new();
    for extent in
        std::iter::repeat_n(first, 16).chain([Extent::new(bad.start, bad.blocks.min(longest)), neighbours])
    {
        let bytes = bench.bytes(extent.blocks);
        asked.push(AskedRead::start(bench, extent, bytes)?);
    }
    for read in asked {
        match read.wait(bench)? {
            Some(VolumeErrorKind::Media) => {}
            other => return Err(Finding::Answer(format!("a read of bad blocks ended with {other:?}"))),
        }
    }
    let good = if bad.start > 0 { 0 } else { bad.blocks };
    bench.read(Extent::new(good, 1)).map(drop)
}

pub(super) fn dropping_a_queue(bench: &mut Bench<'_>) -> Verdict {
    let mut other = bench.another()?;
    for _ in 0..8 {
        let into = Buf::zeroed(bench.block_size());
        other.start(Operation::Read { extent: Extent::new(0, 1), into })?;
    }
    drop(other);
    bench.read(Extent::new(0, 1)).map(drop)
}

pub(super) fn flush_and_verify(bench: &mut Bench<'_>) -> Verdict {
    bench.succeed(Operation::Flush)?;
    let blocks = bench.longest().min(64);
    bench.succeed(Operation::Verify { extent: Extent::new(0, blocks) })?;
    Ok(())
}
