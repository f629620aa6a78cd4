//! Requests as such: taken or given back, ended exactly once, cancelled, abandoned.

use buf::Buf;
use protocol::Entropy;

use super::bench::Bench;
use super::finding::{Finding, Verdict};
use crate::{Extent, Failure, Operation, Outcome, VolumeErrorKind};

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

/// Reads that make no sense, that are cancelled, and, on volumes that fail now and then, others: none keeps its memory.
pub(super) fn failed_reads_return_memory(bench: &mut Bench<'_>) -> Verdict {
    let (end, longest) = (bench.geometry.blocks, bench.longest());
    let block = bench.block_size();
    let mut asked = Vec::new();
    for (start, blocks, bytes) in [(end, 1, block), (0, 1, block - 1), (0, longest, block)] {
        let into = Buf::zeroed(bytes);
        let place = (into.as_ptr().addr(), bytes);
        asked.push((bench.start(Operation::Read { extent: Extent::new(start, blocks), into })?, place));
    }
    for round in 0..64 {
        let into = Buf::zeroed(block);
        let place = (into.as_ptr().addr(), block);
        let tag = bench.start(Operation::Read { extent: Extent::new(0, 1), into })?;
        if round % 2 == 0 {
            bench.cancel(tag);
        }
        asked.push((tag, place));
    }
    for (tag, place) in asked {
        let Err(Failure { kind, memory }) = bench.wait(tag)? else { continue };
        match memory {
            Some(memory) if (memory.as_ptr().addr(), memory.len()) == place => {}
            Some(_) => {
                return Err(Finding::Queue(format!("a read that failed ({kind}) brought another buffer")));
            }
            None => return Err(Finding::Queue(format!("a read that failed ({kind}) has kept its buffer"))),
        }
    }
    Ok(())
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
