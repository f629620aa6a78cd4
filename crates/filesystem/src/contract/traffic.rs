//! Every request completes exactly once, whatever happens to it.

use buf::{Buf, SharedBuf};

use super::bench::{Bench, name};
use super::finding::{Finding, Verdict, see};
use crate::{FileErrorKind, FileHandle, Operation, Outcome, Stability, Tag};

/// Requests of one burst.
const BURST: usize = 40;

fn mixed(bench: &Bench<'_>, file: FileHandle, index: usize) -> Operation {
    let (directory, offset) = (bench.folder, index as u64 * 100);
    match index % 5 {
        0 => Operation::Write {
            file: file.into(),
            offset,
            data: SharedBuf::from(vec![1; 100]).into(),
            stability: Stability::Unstable,
        },
        1 => Operation::Read { file: file.into(), offset, into: Buf::zeroed(50) },
        2 => Operation::Lookup { directory, name: name("missing") },
        3 => Operation::GetAttributes { object: file.into() },
        _ => Operation::Commit { file: file.into(), offset: 0, count: 0 },
    }
}

pub(super) fn completes_exactly_once(bench: &mut Bench<'_>) -> Verdict {
    let file = bench.file("file")?;
    for _ in 0..4 {
        let mut tags = Vec::new();
        for index in 0..BURST {
            let mut operation = mixed(bench, file, index);
            loop {
                match bench.submit(operation) {
                    Ok(tag) => break tags.push(tag),
                    Err(given_back) => operation = given_back,
                }
                bench.poll()?;
            }
        }
        for tag in tags {
            drop(bench.wait(tag)?);
        }
    }
    Ok(())
}

pub(super) fn queue_full_gives_back(bench: &mut Bench<'_>) -> Verdict {
    let file = bench.file("file")?;
    let depth = bench.system.limits().depth as usize;
    let mut tags: Vec<Tag> = Vec::new();
    // Completions are not polled, so that the queue has to fill.
    let given_back = loop {
        let mut into = Buf::zeroed(8);
        into.fill(7);
        match bench.submit(Operation::Read { file: file.into(), offset: 3, into }) {
            Ok(tag) => tags.push(tag),
            Err(operation) => break operation,
        }
        if tags.len() > depth {
            return Err(Finding::Queue(format!(
                "the queue has taken {} requests, and is {depth} deep",
                tags.len()
            )));
        }
    };
    see(!tags.is_empty(), || "the queue takes nothing".to_owned())?;
    match given_back {
        Operation::Read { file: given, offset: 3, into } if given.file == file && into[..] == [7; 8] => {}
        other => return Err(Finding::Queue(format!("a full queue gave {other:?} back"))),
    }
    tags.into_iter().try_for_each(|tag| bench.wait(tag).map(drop))
}

pub(super) fn cancel_ends_in_a_completion(bench: &mut Bench<'_>) -> Verdict {
    let file = bench.file("file")?;
    bench.cancel(Tag(1 << 40));
    for index in 0..BURST {
        let operation = mixed(bench, file, index);
        let Ok(tag) = bench.submit(operation) else { continue };
        bench.cancel(tag);
        drop(bench.wait(tag)?);
    }
    Ok(())
}

pub(super) fn failed_reads_return_memory(bench: &mut Bench<'_>) -> Verdict {
    let gone = bench.file("gone")?;
    bench.must(bench.removal("gone", crate::Removal::File))?;
    let folder = bench.folder;
    for file in [gone, folder] {
        let read = Operation::Read { file: file.into(), offset: 0, into: Buf::zeroed(100) };
        let tag = bench.submit(read).map_err(|_| Finding::Queue("an idle queue is full".to_owned()))?;
        match bench.wait(tag)? {
            Err(failure) => {
                let memory = failure.memory.map(|memory| memory.capacity());
                see(memory.is_some_and(|bytes| bytes >= 100), || {
                    "a read that failed kept its buffer".to_owned()
                })?;
            }
            Ok(other) => {
                return Err(Finding::Answer(format!("a read of what cannot be read came to {other:?}")));
            }
        }
    }
    Ok(())
}

pub(super) fn dropping_a_queue(bench: &mut Bench<'_>) -> Verdict {
    // What a queue has under way when it is dropped may still be carried out: its writes go to a file of their own.
    let (file, theirs) = (bench.file("file")?, bench.file("theirs")?);
    let mut other = bench.another()?;
    for index in 0..BURST {
        let operation = mixed(&other, theirs, index);
        drop(other.submit(operation));
    }
    drop(other);
    bench.write(file, 0, b"still here")?;
    let read = bench.read(file, 0, 10)?;
    see(read == b"still here", || format!("after another queue was dropped a read gives {read:?}"))
}

pub(super) fn queues_agree(bench: &mut Bench<'_>) -> Verdict {
    let mut other = bench.another()?;
    for round in 0..20_u8 {
        let called = format!("file{round}");
        let file = bench.file(&called)?;
        bench.write(file, 0, &[round; 300])?;
        let found = other.find(&called)?;
        see(found.handle == file && found.attributes.size == 300, || {
            format!("another queue finds {found:?}")
        })?;
        let read = other.read(file, 0, 400)?;
        see(read == [round; 300], || {
            format!("another queue reads {} bytes of {:?}", read.len(), read.first())
        })?;
        other.must(other.removal(&called, crate::Removal::Any))?;
        let found = bench.lookup(&called)?;
        see(found == Err(FileErrorKind::NoEntry), || format!("what another queue removed is {found:?}"))?;
    }
    other.end()
}

pub(super) fn statistics_count(bench: &mut Bench<'_>) -> Verdict {
    let before = bench.system.statistics();
    let file = bench.file("file")?;
    bench.write(file, 0, &[1; 1000])?;
    bench.read(file, 0, 500)?;
    bench.must_fail(bench.removal("missing", crate::Removal::File), &[FileErrorKind::NoEntry])?;
    let after = bench.system.statistics();
    let counted = after.requests - before.requests >= 4
        && after.failed > before.failed
        && after.bytes_read - before.bytes_read == 500
        && after.bytes_written - before.bytes_written == 1000;
    see(counted, || format!("statistics went from {before:?} to {after:?}"))?;
    match bench.must(Operation::GetSpace)? {
        Outcome::Space(space) => see(
            space.space_free <= space.space_total
                && space.space_avail <= space.space_free
                && space.files_free <= space.files_total,
            || format!("space is {space:?}"),
        ),
        other => Err(Finding::Answer(format!("space is {other:?}"))),
    }
}
