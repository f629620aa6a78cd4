//! Handles: what they name, how long, and that nobody makes one.

use super::bench::{Bench, name};
use super::finding::{Verdict, see};
use crate::{FileErrorKind, FileHandle, FileType, NewObject, Operation, Outcome, Removal};

/// How a handle is refused that nobody gave.
const REFUSED: [FileErrorKind; 2] = [FileErrorKind::BadHandle, FileErrorKind::Stale];

pub(super) fn root_is_a_directory(bench: &mut Bench<'_>) -> Verdict {
    let root = bench.system.root();
    let attributes = bench.attributes(root)?;
    see(attributes.file_type == FileType::Directory, || format!("the root is {attributes:?}"))?;
    see(attributes.fsid == bench.system.identity().fsid, || "the root is in another file system".to_owned())?;
    see(bench.system.root() == root, || "the root has two handles".to_owned())
}

pub(super) fn handles_name_one_object(bench: &mut Bench<'_>) -> Verdict {
    let (one, two) = (bench.file("one")?, bench.file("two")?);
    see(one != two, || "two files have one handle".to_owned())?;
    bench.must(bench.rename("one", "three"))?;
    let found = bench.find("three")?;
    see(found.handle == one, || "a renamed file has another handle".to_owned())?;
    let (now, other) = (bench.attributes(one)?, bench.attributes(two)?);
    see(now == found.attributes, || format!("{now:?} and {:?} are one file's", found.attributes))?;
    see(now.fileid != other.fileid, || "two files have one number".to_owned())
}

pub(super) fn forged_handles_are_refused(bench: &mut Bench<'_>) -> Verdict {
    let good = bench.file("file")?;
    let bytes = good.as_bytes().to_vec();
    let mut forged = Vec::new();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        forged.push(flipped);
    }
    forged.extend((1..bytes.len()).map(|len| bytes[..len].to_vec()));
    forged.push([&bytes[..], &[0]].concat());
    forged.extend([vec![0; 64], vec![0xff; 64], vec![0; bytes.len()], vec![1]]);
    for handle in forged.iter().filter_map(|bytes| FileHandle::new(bytes)).filter(|handle| *handle != good) {
        bench.must_fail(Operation::GetAttributes { object: handle.into() }, &REFUSED)?;
    }
    bench.must_fail(Operation::Lookup { directory: FileHandle::from([9; 16]), name: name("x") }, &REFUSED)
}

pub(super) fn removed_objects_are_stale(bench: &mut Bench<'_>) -> Verdict {
    for round in 0..10 {
        let file = bench.file("file")?;
        let directory = bench.directory("directory")?;
        bench.must(bench.removal("file", Removal::File))?;
        bench.must(bench.removal("directory", Removal::Directory))?;
        // What comes in their place, and may have their numbers, has other handles.
        let next = bench.file(&format!("next{round}"))?;
        for gone in [file, directory] {
            see(gone != next, || "a new file has the handle of one that is gone".to_owned())?;
            bench.must_fail(Operation::GetAttributes { object: gone.into() }, &[FileErrorKind::Stale])?;
        }
        let lookup = Operation::Lookup { directory, name: name("x") };
        bench.must_fail(lookup, &[FileErrorKind::Stale])?;
        let make = Operation::Make {
            directory,
            name: name("x"),
            object: Box::new(NewObject::Directory),
            attributes: Box::default(),
        };
        bench.must_fail(make, &[FileErrorKind::Stale])?;
    }
    Ok(())
}

pub(super) fn parents_end_at_the_root(bench: &mut Bench<'_>) -> Verdict {
    let (root, folder) = (bench.system.root(), bench.folder);
    let inner = bench.directory("inner")?;
    for (directory, expected) in [(inner, folder), (folder, root)] {
        match bench.must(Operation::LookupParent { directory })? {
            Outcome::Found(parent) => see(parent.handle == expected, || format!("the parent is {parent:?}"))?,
            other => see(false, || format!("the parent is {other:?}"))?,
        }
    }
    bench.must_fail(Operation::LookupParent { directory: root }, &[FileErrorKind::NoEntry])?;
    let file = bench.file("file")?;
    bench.must_fail(Operation::LookupParent { directory: file }, &[FileErrorKind::NotDirectory])?;
    // A directory that moves has another parent.
    let target = bench.directory("target")?;
    let moves = Operation::Rename {
        from_directory: folder,
        from: name("inner"),
        to_directory: target,
        to: name("moved"),
    };
    bench.must(moves)?;
    match bench.must(Operation::LookupParent { directory: inner })? {
        Outcome::Found(parent) => {
            see(parent.handle == target, || format!("the parent afterwards is {parent:?}"))
        }
        other => see(false, || format!("the parent is {other:?}")),
    }
}
