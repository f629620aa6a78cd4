//! Objects that are open.

use super::bench::Bench;
use super::finding::{Finding, Verdict, see};
use crate::{
    CreateHow, FileErrorKind, NewObject, OpenAccess, OpenId, Operation, Removal, SetAttributes, Stability,
    Target,
};

fn write(file: Target) -> Operation {
    let data = buf::SharedBuf::from(vec![1; 4]).into();
    Operation::Write { file, offset: 0, data, stability: Stability::Unstable }
}

pub(super) fn open_objects_outlive_their_names(bench: &mut Bench<'_>) -> Verdict {
    let file = bench.file("file")?;
    bench.write(file, 0, b"content")?;
    let (one, two) = (bench.open_file(file, OpenAccess::READ)?, bench.open_file(file, OpenAccess::BOTH)?);
    see(one != two, || "two opens have one name".to_owned())?;
    bench.must(bench.removal("file", Removal::File))?;
    let attributes = bench.attributes(file)?;
    see(attributes.numlinks == 0 && attributes.size == 7, || {
        format!("an open file without a name has {attributes:?}")
    })?;
    let target = |open| Target { file, open: Some(open) };
    bench.write(target(two), 7, b" and more")?;
    // A rename in its place takes nothing from it.
    bench.file("other")?;
    bench.must(bench.rename("other", "file"))?;
    let read = bench.read(target(one), 0, 100)?;
    see(read == b"content and more", || format!("an open file without a name reads as {read:?}"))?;
    bench.must(Operation::Close { open: one })?;
    bench.attributes(file)?;
    bench.must(Operation::Close { open: two })?;
    bench.must_fail(Operation::GetAttributes { object: file.into() }, &[FileErrorKind::Stale])
}

pub(super) fn replaced_open_objects_live_on(bench: &mut Bench<'_>) -> Verdict {
    let how = CreateHow::Guarded(SetAttributes::mode(0o600));
    let created = bench.create("old", how, Some(OpenAccess::BOTH))?;
    let (file, open) = (created.object.handle, created.open);
    let open = open.ok_or_else(|| Finding::Answer("a file that is to be opened is not".to_owned()))?;
    let target = Target { file, open: Some(open) };
    bench.write(target, 0, b"old")?;
    bench.file("new")?;
    bench.must(bench.rename("new", "old"))?;
    let read = bench.read(target, 0, 10)?;
    see(read == b"old", || format!("a replaced file that is open reads as {read:?}"))?;
    bench.must(Operation::Close { open })?;
    bench.must_fail(Operation::GetAttributes { object: file.into() }, &[FileErrorKind::Stale])
}

pub(super) fn opens_are_for_what_was_asked(bench: &mut Bench<'_>) -> Verdict {
    let (file, other) = (bench.file("file")?, bench.file("other")?);
    let open = bench.open_file(file, OpenAccess::READ)?;
    bench.must_fail(write(Target { file, open: Some(open) }), &[FileErrorKind::Access])?;
    bench.must_fail(write(Target { file: other, open: Some(open) }), &[FileErrorKind::Stale])?;
    let read = |file, open| Operation::Read {
        file: Target { file, open: Some(open) },
        offset: 0,
        into: buf::Buf::zeroed(4),
    };
    bench.must_fail(read(other, open), &[FileErrorKind::Stale])?;
    bench.must_fail(read(file, OpenId(u64::MAX)), &[FileErrorKind::Stale])?;
    let mut another = bench.another()?;
    another.must(read(file, open))?;
    another.must(Operation::Close { open })?;
    another.end()?;
    bench.must_fail(read(file, open), &[FileErrorKind::Stale])?;
    bench.must_fail(Operation::Close { open }, &[FileErrorKind::Stale])
}

pub(super) fn only_files_are_opened(bench: &mut Bench<'_>) -> Verdict {
    let directory = bench.directory("directory")?;
    let open = |file| Operation::Open { file, access: OpenAccess::READ };
    bench.must_fail(open(directory), &[FileErrorKind::IsDirectory])?;
    let fifo = bench.make("fifo", NewObject::Fifo)?;
    let fifo = fifo.map_err(|kind| Finding::Failed { request: "making a fifo".to_owned(), kind })?;
    bench.must_fail(open(fifo.object.handle), &[FileErrorKind::WrongType])?;
    let open = bench.system.statistics().open;
    see(open == 0, || format!("{open} objects are open, and none should be"))
}
