//! Content of files.

use buf::{Buf, SharedBuf};
use protocol::Entropy;

use super::bench::Bench;
use super::finding::{Finding, Verdict, see};
use crate::{
    CopyRange, Features, FileErrorKind, FileHandle, Operation, Outcome, SeekWhat, SetAttributes, Stability,
    WriteVerifier,
};

pub(super) fn read_after_write(bench: &mut Bench<'_>) -> Verdict {
    let file = bench.file("file")?;
    bench.write(file, 10, b"hello")?;
    let read = bench.read(file, 0, 100)?;
    see(read == b"\0\0\0\0\0\0\0\0\0\0hello", || format!("a read gives {read:?}"))?;
    let attributes = bench.attributes(file)?;
    see(attributes.size == 15, || format!("the file has {attributes:?}"))?;
    bench.write(file, 12, b"")?;
    see(bench.attributes(file)?.size == 15, || "an empty write changed the size".to_owned())
}

pub(super) fn reads_tell_the_end(bench: &mut Bench<'_>) -> Verdict {
    let file = bench.file("file")?;
    bench.write(file, 0, &[7; 1000])?;
    for (offset, asked, got, end) in [
        (0, 999, 999, false),
        (0, 1000, 1000, true),
        (500, 4096, 500, true),
        (1000, 10, 0, true),
        (1 << 40, 10, 0, true),
    ] {
        match bench.must(Operation::Read { file: file.into(), offset, into: Buf::zeroed(asked) })? {
            Outcome::Data { data, eof, .. } => see(data.len() == got && eof == end, || {
                format!("a read of {asked} bytes at {offset} of 1000 gives {} and eof {eof}", data.len())
            })?,
            other => see(false, || format!("a read answers {other:?}"))?,
        }
    }
    Ok(())
}

pub(super) fn transfers_have_a_longest(bench: &mut Bench<'_>) -> Verdict {
    let (file, limits) = (bench.file("file")?, bench.system.limits());
    let longest = vec![5; limits.max_write as usize];
    bench.write(file, 3, &longest)?;
    let read = bench.read(file, 3, limits.max_read as usize)?;
    see(read.iter().all(|byte| *byte == 5), || "the longest transfer does not come back".to_owned())?;
    let into = Buf::zeroed(limits.max_read as usize + 1);
    bench.must_fail(Operation::Read { file: file.into(), offset: 0, into }, &[FileErrorKind::Invalid])?;
    let write = |len: usize, offset| {
        let data = SharedBuf::from(vec![5; len]).into();
        Operation::Write { file: file.into(), offset, data, stability: Stability::Unstable }
    };
    bench.must_fail(write(limits.max_write as usize + 1, 0), &[FileErrorKind::Invalid])?;
    for offset in [limits.max_file_size, u64::MAX - 1, u64::MAX] {
        bench.must_fail(write(2, offset), &[FileErrorKind::FileTooBig])?;
    }
    let size = SetAttributes::size(limits.max_file_size + 1);
    bench.must_fail(
        Operation::SetAttributes { object: file.into(), guard: None, attributes: size },
        &[FileErrorKind::FileTooBig],
    )
}

fn written(bench: &mut Bench<'_>, file: FileHandle, wanted: Stability) -> Result<WriteVerifier, Finding> {
    let data = SharedBuf::from(vec![1; 100]).into();
    match bench.must(Operation::Write { file: file.into(), offset: 0, data, stability: wanted })? {
        Outcome::Written { stability, verifier, .. } if stability >= wanted => Ok(verifier),
        other => Err(Finding::Answer(format!("a write as {wanted:?} answers {other:?}"))),
    }
}

pub(super) fn writes_are_as_durable_as_asked(bench: &mut Bench<'_>) -> Verdict {
    let file = bench.file("file")?;
    let first = written(bench, file, Stability::Unstable)?;
    for stability in [Stability::Unstable, Stability::DataSync, Stability::FileSync] {
        let verifier = written(bench, file, stability)?;
        see(verifier == first, || "the verifier moved although nothing was lost".to_owned())?;
    }
    for (offset, count) in [(0, 0), (10, 20), (1 << 40, 5)] {
        match bench.must(Operation::Commit { file: file.into(), offset, count })? {
            Outcome::Committed { verifier, .. } => {
                see(verifier == first, || "a commit has another verifier than the writes".to_owned())?;
            }
            other => see(false, || format!("a commit answers {other:?}"))?,
        }
    }
    Ok(())
}

pub(super) fn sizes_are_set(bench: &mut Bench<'_>) -> Verdict {
    let file = bench.file("file")?;
    bench.write(file, 0, &[9; 10_000])?;
    for size in [100, 5_000, 0, 1 << 33, 20_000] {
        bench.set(file, SetAttributes::size(size))?;
        let attributes = bench.attributes(file)?;
        see(attributes.size == size, || format!("a file of {size} bytes has {attributes:?}"))?;
    }
    let read = bench.read(file, 0, 10_000)?;
    see(read.iter().all(|byte| *byte == 0), || "what was cut off came back".to_owned())?;
    let folder = bench.folder;
    let cut =
        Operation::SetAttributes { object: folder.into(), guard: None, attributes: SetAttributes::size(0) };
    bench.must_fail(cut, &[FileErrorKind::IsDirectory, FileErrorKind::Invalid])
}

/// The longest file of the random check, in bytes.
const MODEL: u64 = 200_000;

pub(super) fn random_against_model(bench: &mut Bench<'_>) -> Verdict {
    let file = bench.file("file")?;
    let features = bench.system.features();
    let mut model: Vec<u8> = Vec::new();
    for step in 0..bench.options.steps {
        let offset = bench.entropy.number() % MODEL;
        let len = bench.entropy.number() % 20_000 + 1;
        let byte = u8::try_from(step % 255).unwrap_or(0) + 1;
        let (from, end) = (wire::index(offset), wire::index(offset + len));
        match bench.entropy.number() % 8 {
            0..=2 => {
                bench.write(file, offset, &vec![byte; wire::index(len)])?;
                model.resize(model.len().max(end), 0);
                model[from..end].fill(byte);
            }
            3 => {
                bench.set(file, SetAttributes::size(offset))?;
                model.resize(from, 0);
            }
            4 if features.contains(Features::DEALLOCATE) => {
                bench.must(Operation::Deallocate { file: file.into(), offset, count: len })?;
                let end = end.min(model.len());
                if from < end {
                    model[from..end].fill(0);
                }
            }
            5 if features.contains(Features::ALLOCATE) => {
                bench.must(Operation::Allocate { file: file.into(), offset, count: len })?;
                model.resize(model.len().max(end), 0);
            }
            _ => {
                let read = bench.read(file, offset, wire::index(len))?;
                let (from, end) = (from.min(model.len()), end.min(model.len()));
                see(read == model[from..end], || {
                    let same =
                        read.iter().zip(&model[from..end]).take_while(|(read, model)| read == model).count();
                    format!(
                        "step {step}: {} bytes at {offset} differ at byte {same} from {}",
                        read.len(),
                        end - from
                    )
                })?;
            }
        }
        let size = bench.attributes(file)?.size;
        see(size == model.len() as u64, || {
            format!("step {step}: the size is {size}, and should be {}", model.len())
        })?;
    }
    Ok(())
}

fn sought(
    bench: &mut Bench<'_>,
    file: FileHandle,
    offset: u64,
    what: SeekWhat,
) -> Result<(u64, bool), Finding> {
    match bench.must(Operation::Seek { file: file.into(), offset, what })? {
        Outcome::Sought { offset, eof } => Ok((offset, eof)),
        other => Err(Finding::Answer(format!("a seek answers {other:?}"))),
    }
}

pub(super) fn holes_are_found(bench: &mut Bench<'_>) -> Verdict {
    if !bench.system.features().contains(Features::SEEK) {
        return Ok(());
    }
    let file = bench.file("file")?;
    let (start, len, size) = (1 << 20, 1 << 16, 4 << 20);
    bench.write(file, start, &vec![1; wire::index(len)])?;
    bench.set(file, SetAttributes::size(size))?;
    // A file system may say of a hole that it is data; never of data that it is a hole.
    let (data, _) = sought(bench, file, 0, SeekWhat::Data)?;
    see(data <= start, || format!("data begins at {start}, and was found at {data}"))?;
    let (hole, _) = sought(bench, file, start, SeekWhat::Hole)?;
    see(hole >= start + len, || format!("a hole was found at {hole}, in data up to {}", start + len))?;
    see(hole <= size, || format!("a hole was found at {hole}, beyond the end"))?;
    let (_, eof) = sought(bench, file, start + len, SeekWhat::Data)?;
    see(eof || hole == size, || "data was found where none is".to_owned())?;
    for what in [SeekWhat::Data, SeekWhat::Hole] {
        bench.must_fail(
            Operation::Seek { file: file.into(), offset: size, what },
            &[FileErrorKind::NoDevice],
        )?;
    }
    Ok(())
}

pub(super) fn space_is_reserved_and_released(bench: &mut Bench<'_>) -> Verdict {
    let (file, features) = (bench.file("file")?, bench.system.features());
    bench.write(file, 0, &[3; 100])?;
    if features.contains(Features::ALLOCATE) {
        bench.must(Operation::Allocate { file: file.into(), offset: 50, count: 1 << 20 })?;
        let attributes = bench.attributes(file)?;
        let reserved = attributes.size == 50 + (1 << 20) && attributes.space_used >= 1 << 20;
        see(reserved, || format!("after space was reserved the file has {attributes:?}"))?;
        let read = bench.read(file, 0, 200)?;
        see(read[..100] == [3; 100] && read[100..] == [0; 100], || {
            "reserving changed the content".to_owned()
        })?;
        bench.must_fail(
            Operation::Allocate { file: file.into(), offset: 0, count: 0 },
            &[FileErrorKind::Invalid],
        )?;
    }
    if features.contains(Features::DEALLOCATE) {
        let size = bench.attributes(file)?.size;
        bench.must(Operation::Deallocate { file: file.into(), offset: 10, count: 1 << 30 })?;
        let read = bench.read(file, 0, 100)?;
        see(read[..10] == [3; 10] && read[10..].iter().all(|byte| *byte == 0), || {
            format!("released space reads as {read:?}")
        })?;
        let now = bench.attributes(file)?.size;
        see(now == size, || format!("releasing space took the size from {size} to {now}"))?;
    }
    Ok(())
}

pub(super) fn copies_within(bench: &mut Bench<'_>) -> Verdict {
    if !bench.system.features().contains(Features::COPY) {
        return Ok(());
    }
    let (from, to) = (bench.file("from")?, bench.file("to")?);
    let content: Vec<u8> = (0..100_000_u32).map(|index| index.to_le_bytes()[0]).collect();
    bench.write(from, 0, &content)?;
    let mut copied = 0;
    while copied < 100_000 {
        let range = CopyRange {
            from: from.into(),
            from_offset: copied,
            to: to.into(),
            to_offset: copied + 7,
            count: 0,
        };
        match bench.must(Operation::Copy(Box::new(range)))? {
            Outcome::Copied { count, .. } if count > 0 && copied + count <= 100_000 => copied += count,
            other => return Err(Finding::Answer(format!("a copy from {copied} answers {other:?}"))),
        }
    }
    let read = bench.read(to, 7, 100_000)?;
    see(read == content, || "a copy has other content".to_owned())?;
    let overlapping =
        CopyRange { from: from.into(), from_offset: 0, to: from.into(), to_offset: 10, count: 20 };
    bench.must_fail(Operation::Copy(Box::new(overlapping)), &[FileErrorKind::Invalid])?;
    let beyond = CopyRange { from: from.into(), from_offset: 99_999, to: to.into(), to_offset: 0, count: 2 };
    bench.must_fail(Operation::Copy(Box::new(beyond)), &[FileErrorKind::Invalid])
}
