//! Names: creating, removing, renaming, linking.

use super::bench::{Bench, name};
use super::finding::{Finding, Verdict, see};
use crate::{
    CreateHow, DirectoryChange, ExclusiveVerifier, Features, FileErrorKind, FileType, Name, NewObject,
    OpenAccess, Operation, Outcome, Removal, SetAttributes, SpecData, Time,
};

pub(super) fn create_guarded(bench: &mut Bench<'_>) -> Verdict {
    let created = bench.create("file", CreateHow::Guarded(SetAttributes::mode(0o640)), None)?;
    let attributes = created.object.attributes;
    see(created.is_new && created.open.is_none(), || format!("a new file is {created:?}"))?;
    let plain = attributes.file_type == FileType::Regular && attributes.size == 0 && attributes.numlinks == 1;
    see(plain && attributes.mode == 0o640, || format!("a new file has {attributes:?}"))?;
    let again = |how| Operation::Create {
        directory: bench.folder,
        name: name("file"),
        how: Box::new(how),
        open: None,
    };
    let again = again(CreateHow::Guarded(SetAttributes::default()));
    bench.must_fail(again, &[FileErrorKind::Exists])?;
    let sized = bench.create("sized", CreateHow::Guarded(SetAttributes::size(5000)), None)?;
    see(sized.object.attributes.size == 5000, || "a new file has not the size that it was given".to_owned())
}

pub(super) fn create_unchecked(bench: &mut Bench<'_>) -> Verdict {
    let file = bench.file("file")?;
    bench.write(file, 0, b"content")?;
    let kept = bench.create("file", CreateHow::Unchecked(SetAttributes::mode(0o600)), None)?;
    let same = kept.object.handle == file && !kept.is_new && kept.object.attributes.size == 7;
    see(same && kept.object.attributes.mode == 0o644, || {
        format!("taking a file that is there gives {kept:?}")
    })?;
    let cut = bench.create("file", CreateHow::Unchecked(SetAttributes::size(0)), None)?;
    see(cut.object.handle == file && cut.object.attributes.size == 0, || {
        format!("cutting it gives {cut:?}")
    })?;
    let new =
        bench.create("new", CreateHow::Unchecked(SetAttributes::mode(0o600)), Some(OpenAccess::BOTH))?;
    see(new.is_new && new.object.attributes.mode == 0o600, || format!("a new file is {new:?}"))?;
    let open = new.open.ok_or_else(|| Finding::Answer("a file that is to be opened is not".to_owned()))?;
    bench.must(Operation::Close { open })?;
    bench.directory("directory")?;
    let how = Box::new(CreateHow::Unchecked(SetAttributes::default()));
    let over = Operation::Create { directory: bench.folder, name: name("directory"), how, open: None };
    bench.must_fail(over, &[FileErrorKind::Exists, FileErrorKind::IsDirectory])
}

pub(super) fn create_exclusive_can_be_repeated(bench: &mut Bench<'_>) -> Verdict {
    let (one, two) = (ExclusiveVerifier([0xf1, 2, 3, 4, 0xf5, 6, 7, 8]), ExclusiveVerifier([8; 8]));
    let how = |verifier| CreateHow::Exclusive { verifier, attributes: SetAttributes::mode(0o600) };
    let first = bench.create("file", how(one), None)?;
    let again = bench.create("file", how(one), None)?;
    see(first.is_new && !again.is_new && first.object.handle == again.object.handle, || {
        format!("an exclusive creation and its repetition give {first:?} and {again:?}")
    })?;
    see(first.object.attributes.mode == 0o600, || format!("the file has {:?}", first.object.attributes))?;
    let folder = bench.folder;
    let create = |called, how| Operation::Create {
        directory: folder,
        name: name(called),
        how: Box::new(how),
        open: None,
    };
    bench.must_fail(create("file", how(two)), &[FileErrorKind::Exists])?;
    bench.file("other")?;
    bench.must_fail(create("other", how(one)), &[FileErrorKind::Exists])?;
    let times = SetAttributes {
        time_modify: Some(crate::SetTime::ToClient(Time::default())),
        ..SetAttributes::default()
    };
    let odd = CreateHow::Exclusive { verifier: one, attributes: times };
    bench.must_fail(create("odd", odd), &[FileErrorKind::Invalid])
}

pub(super) fn lookups_find_what_is_there(bench: &mut Bench<'_>) -> Verdict {
    let file = bench.file("file")?;
    see(bench.find("file")?.handle == file, || "a lookup finds another file".to_owned())?;
    for called in ["fil", "file ", "File2", "file2"] {
        see(bench.lookup(called)? == Err(FileErrorKind::NoEntry), || format!("{called} is found"))?;
    }
    bench.must_fail(Operation::Lookup { directory: file, name: name("x") }, &[FileErrorKind::NotDirectory])
}

pub(super) fn names_are_bytes(bench: &mut Bench<'_>) -> Verdict {
    let longest = vec![b'n'; bench.system.limits().max_name as usize];
    let odd: [&[u8]; 6] = [b"...", b" ", b"\xff\xfe\x80", b"new\nline", b"-rf", &longest];
    for bytes in odd {
        let called = Name::new(bytes)
            .map_err(|kind| Finding::Failed { request: format!("naming {bytes:?}"), kind })?;
        let how = Box::new(CreateHow::Guarded(SetAttributes::default()));
        let directory = bench.folder;
        bench.must(Operation::Create { directory, name: called.clone(), how, open: None })?;
        bench.must(Operation::Lookup { directory, name: called })?;
    }
    Ok(())
}

pub(super) fn makes_every_type(bench: &mut Bench<'_>) -> Verdict {
    let features = bench.system.features();
    let number = SpecData { major: 1, minor: 3 };
    let devices = features.contains(Features::DEVICES);
    let mut all = vec![
        (NewObject::Directory, FileType::Directory, SpecData::default()),
        (NewObject::Fifo, FileType::Fifo, SpecData::default()),
        (NewObject::Socket, FileType::Socket, SpecData::default()),
    ];
    if features.contains(Features::SYMBOLIC_LINKS) {
        all.push((NewObject::SymbolicLink(b"x".to_vec()), FileType::SymbolicLink, SpecData::default()));
    }
    if devices {
        all.push((NewObject::CharacterDevice(number), FileType::CharacterDevice, number));
        all.push((NewObject::BlockDevice(number), FileType::BlockDevice, number));
    }
    for (object, file_type, rawdev) in all {
        let called = format!("{file_type:?}");
        let made = bench.make(&called, object.clone())?;
        let made = made.map_err(|kind| Finding::Failed { request: format!("making {object:?}"), kind })?;
        let found = bench.find(&called)?;
        let right = found == made.object
            && found.attributes.file_type == file_type
            && found.attributes.rawdev == rawdev;
        see(right, || format!("{object:?} was made as {made:?} and is found as {found:?}"))?;
        let again = bench.make(&called, object.clone())?.map(|_| ());
        see(again == Err(FileErrorKind::Exists), || format!("making {object:?} again comes to {again:?}"))?;
        if file_type != FileType::Directory {
            let data = buf::SharedBuf::from(vec![1]).into();
            let write = Operation::Write {
                file: made.object.handle.into(),
                offset: 0,
                data,
                stability: crate::Stability::Unstable,
            };
            bench.must_fail(write, &[FileErrorKind::WrongType, FileErrorKind::SymbolicLink])?;
        }
    }
    Ok(())
}

pub(super) fn symbolic_links_are_not_followed(bench: &mut Bench<'_>) -> Verdict {
    if !bench.system.features().contains(Features::SYMBOLIC_LINKS) {
        return Ok(());
    }
    let texts: [&[u8]; 5] = [b"file", b"/etc", b"../../..", b".", b"\xff/\n"];
    bench.file("file")?;
    for (index, text) in texts.iter().enumerate() {
        let called = format!("link{index}");
        let made = bench.make(&called, NewObject::SymbolicLink(text.to_vec()))?;
        let link = made
            .map_err(|kind| Finding::Failed { request: format!("a link to {text:?}"), kind })?
            .object
            .handle;
        match bench.must(Operation::ReadLink { object: link })? {
            Outcome::Link(read) => see(read == *text, || format!("a link to {text:?} reads as {read:?}"))?,
            other => see(false, || format!("a link reads as {other:?}"))?,
        }
        let found = bench.find(&called)?;
        see(found.handle == link && found.attributes.file_type == FileType::SymbolicLink, || {
            format!("a link is {found:?}")
        })?;
        bench.must_fail(
            Operation::Lookup { directory: link, name: name("file") },
            &[FileErrorKind::NotDirectory],
        )?;
        bench.must_fail(Operation::LookupParent { directory: link }, &[FileErrorKind::NotDirectory])?;
        let open = Operation::Open { file: link, access: OpenAccess::READ };
        bench.must_fail(open, &[FileErrorKind::SymbolicLink])?;
        let how = Box::new(CreateHow::Unchecked(SetAttributes::size(0)));
        let create = Operation::Create { directory: bench.folder, name: name(&called), how, open: None };
        bench.must_fail(create, &[FileErrorKind::Exists, FileErrorKind::SymbolicLink])?;
    }
    let file = bench.find("file")?.handle;
    bench.must_fail(Operation::ReadLink { object: file }, &[FileErrorKind::Invalid])
}

pub(super) fn removes_what_was_meant(bench: &mut Bench<'_>) -> Verdict {
    bench.file("file")?;
    let directory = bench.directory("directory")?;
    bench.must_fail(bench.removal("missing", Removal::Any), &[FileErrorKind::NoEntry])?;
    bench.must_fail(bench.removal("directory", Removal::File), &[FileErrorKind::IsDirectory])?;
    bench.must_fail(bench.removal("file", Removal::Directory), &[FileErrorKind::NotDirectory])?;
    let how = Box::new(CreateHow::Guarded(SetAttributes::default()));
    bench.must(Operation::Create { directory, name: name("inside"), how, open: None })?;
    for removal in [Removal::Directory, Removal::Any] {
        bench.must_fail(
            bench.removal("directory", removal),
            &[FileErrorKind::NotEmpty, FileErrorKind::Exists],
        )?;
    }
    bench.must(Operation::Remove { directory, name: name("inside"), removal: Removal::Any })?;
    bench.must(bench.removal("directory", Removal::Any))?;
    bench.must(bench.removal("file", Removal::File))?;
    for called in ["file", "directory"] {
        see(bench.lookup(called)? == Err(FileErrorKind::NoEntry), || {
            format!("{called} was removed and is there")
        })?;
    }
    Ok(())
}

pub(super) fn renames_replace(bench: &mut Bench<'_>) -> Verdict {
    let (one, two) = (bench.file("one")?, bench.file("two")?);
    bench.must_fail(bench.rename("missing", "two"), &[FileErrorKind::NoEntry])?;
    bench.must(bench.rename("one", "two"))?;
    see(bench.find("two")?.handle == one, || "a rename put something else there".to_owned())?;
    see(bench.lookup("one")? == Err(FileErrorKind::NoEntry), || "the old name is still there".to_owned())?;
    bench.must_fail(Operation::GetAttributes { object: two.into() }, &[FileErrorKind::Stale])?;
    bench.must(bench.rename("two", "two"))?;
    bench.find("two")?;
    let (full, _) = (bench.directory("full")?, bench.directory("empty")?);
    bench.directory("third")?;
    let inside = Operation::Rename {
        from_directory: bench.folder,
        from: name("two"),
        to_directory: full,
        to: name("in"),
    };
    bench.must(inside)?;
    bench.must_fail(bench.rename("empty", "full"), &[FileErrorKind::NotEmpty, FileErrorKind::Exists])?;
    bench.must(bench.rename("third", "empty"))?;
    bench.file("file")?;
    bench.must_fail(bench.rename("file", "empty"), &[FileErrorKind::IsDirectory, FileErrorKind::Exists])?;
    bench.must_fail(bench.rename("empty", "file"), &[FileErrorKind::NotDirectory, FileErrorKind::Exists])?;
    let into_itself = Operation::Rename {
        from_directory: bench.folder,
        from: name("full"),
        to_directory: full,
        to: name("self"),
    };
    bench.must_fail(into_itself, &[FileErrorKind::Invalid])
}

pub(super) fn links_are_counted(bench: &mut Bench<'_>) -> Verdict {
    if !bench.system.features().contains(Features::LINKS) {
        return Ok(());
    }
    let (file, folder) = (bench.file("one")?, bench.folder);
    let link = |object, called| Operation::Link { object, directory: folder, name: name(called) };
    match bench.must(link(file, "two"))? {
        Outcome::Linked { object, .. } => {
            see(object.numlinks == 2, || format!("a linked file has {object:?}"))?;
        }
        other => see(false, || format!("a link answers {other:?}"))?,
    }
    see(bench.find("two")?.handle == file, || "the link leads elsewhere".to_owned())?;
    bench.must_fail(link(file, "one"), &[FileErrorKind::Exists])?;
    // Two names of one object: neither goes.
    bench.must(bench.rename("one", "two"))?;
    bench.find("one")?;
    bench.must(bench.removal("one", Removal::File))?;
    let left = bench.attributes(file)?.numlinks;
    see(left == 1, || format!("with one name left the file has {left}"))?;
    let directory = bench.directory("directory")?;
    bench.must_fail(link(directory, "three"), &[FileErrorKind::IsDirectory, FileErrorKind::NotOwner])
}

/// Runs what changes the check's directory, and compares what it tells with what is seen.
fn told(bench: &mut Bench<'_>, operation: Operation) -> Verdict {
    let before = bench.attributes(bench.folder)?;
    let request = format!("{operation:?}");
    let changes: Vec<DirectoryChange> = match bench.must(operation)? {
        Outcome::Created(created) => vec![created.directory],
        Outcome::Removed(change) => vec![*change],
        Outcome::Renamed { from, to } => vec![*from, *to],
        Outcome::Linked { directory, .. } => vec![*directory],
        other => return Err(Finding::Answer(format!("{request} answers {other:?}"))),
    };
    let after = bench.attributes(bench.folder)?;
    see(after.change > before.change, || format!("{request} left the directory's change attribute"))?;
    for change in changes {
        let right = change.before.change == before.change && change.after == after;
        see(right, || {
            format!("{request} tells {change:?}, and the directory went from {before:?} to {after:?}")
        })?;
    }
    Ok(())
}

pub(super) fn directory_changes_are_told(bench: &mut Bench<'_>) -> Verdict {
    let folder = bench.folder;
    let how = Box::new(CreateHow::Guarded(SetAttributes::default()));
    told(bench, Operation::Create { directory: folder, name: name("file"), how, open: None })?;
    let (object, attributes) = (Box::new(NewObject::Directory), Box::default());
    told(bench, Operation::Make { directory: folder, name: name("directory"), object, attributes })?;
    told(bench, bench.rename("file", "other"))?;
    if bench.system.features().contains(Features::LINKS) {
        let object = bench.find("other")?.handle;
        told(bench, Operation::Link { object, directory: folder, name: name("link") })?;
    }
    told(bench, bench.removal("other", Removal::File))
}
