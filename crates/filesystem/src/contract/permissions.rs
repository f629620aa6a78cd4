//! Permissions, where requests are carried out in the caller's name.

use buf::{Buf, SharedBuf};

use super::bench::{Bench, name};
use super::finding::{Finding, Verdict, see};
use crate::{
    Access, CreateHow, Credentials, FileErrorKind, FileHandle, NewObject, OpenAccess, Operation, Outcome,
    Removal, SetAttributes, SetTime, Stability, Target, Time,
};

const DENIED: [FileErrorKind; 1] = [FileErrorKind::Access];
const FORBIDDEN: [FileErrorKind; 2] = [FileErrorKind::NotOwner, FileErrorKind::Access];

fn read(file: FileHandle) -> Operation {
    Operation::Read { file: file.into(), offset: 0, into: Buf::zeroed(10) }
}

fn write(file: Target) -> Operation {
    Operation::Write {
        file,
        offset: 0,
        data: SharedBuf::from(vec![1; 3]).into(),
        stability: Stability::Unstable,
    }
}

fn set(file: FileHandle, attributes: SetAttributes) -> Operation {
    Operation::SetAttributes { object: file.into(), guard: None, attributes }
}

/// Opens the check's directory to everybody.
fn admit(bench: &mut Bench<'_>, mode: u32) -> Result<[Credentials; 2], Finding> {
    let folder = bench.folder;
    bench.set(folder, SetAttributes::mode(mode))?;
    Ok(bench.options.strangers.clone())
}

pub(super) fn new_objects_are_the_callers(bench: &mut Bench<'_>) -> Verdict {
    let [one, two] = admit(bench, 0o777)?;
    let object = bench.as_caller(&one, |bench| {
        bench.create("file", CreateHow::Guarded(SetAttributes::mode(0o644)), None)
    })?;
    let attributes = object.object.attributes;
    let owned = (attributes.owner, attributes.owner_group) == (one.uid(), one.gid());
    see(owned, || format!("a new file of {one:?} has {attributes:?}"))?;
    let directory = bench.as_caller(&two, |bench| bench.make("directory", NewObject::Directory))?;
    let given = directory.map(|created| created.object.attributes.owner);
    see(given == Ok(two.uid()), || format!("a new directory of {two:?} is {given:?}'s"))
}

pub(super) fn permissions_are_judged(bench: &mut Bench<'_>) -> Verdict {
    let [one, two] = admit(bench, 0o777)?;
    let file = bench.as_caller(&one, |bench| bench.file("file"))?;
    let member = Credentials::new(two.uid(), two.gid(), &[one.gid()]).unwrap_or_else(|_| two.clone());
    for (mode, caller, may_read, may_write) in [
        (0o644, &two, true, false),
        (0o600, &two, false, false),
        (0o606, &two, true, true),
        (0o640, &member, true, false),
        (0o604, &member, false, false),
    ] {
        bench.set(file, SetAttributes::mode(mode))?;
        bench.as_caller(caller, |bench| {
            let mut judged = |operation, allowed| match bench.run(operation)? {
                Ok(_) if allowed => Ok(()),
                Err(FileErrorKind::Access) if !allowed => Ok(()),
                other => Err(Finding::Answer(format!("with mode {mode:o} {caller:?} comes to {other:?}"))),
            };
            judged(read(file), may_read)?;
            judged(write(file.into()), may_write)?;
            judged(Operation::Open { file, access: OpenAccess::BOTH }, may_read && may_write)
        })?;
    }
    Ok(())
}

pub(super) fn owners_read_and_write(bench: &mut Bench<'_>) -> Verdict {
    let [one, two] = admit(bench, 0o777)?;
    let file = bench.as_caller(&one, |bench| bench.file("file"))?;
    let open = bench.as_caller(&two, |bench| bench.open_file(file, OpenAccess::READ))?;
    bench.set(file, SetAttributes::mode(0))?;
    // Whoever has it open goes on; whoever owns it may, as it cannot be known what it has open in version 3.
    bench.as_caller(&one, |bench| {
        bench.must(write(file.into()))?;
        bench.must(read(file))
    })?;
    bench.as_caller(&two, |bench| {
        bench.read(Target { file, open: Some(open) }, 0, 3)?;
        bench.must_fail(read(file), &DENIED)?;
        bench.must(Operation::Close { open })
    })?;
    // What may be executed may be read: it is paged in.
    bench.set(file, SetAttributes::mode(0o711))?;
    bench.as_caller(&two, |bench| bench.must(read(file))).map(drop)
}

pub(super) fn directories_are_guarded(bench: &mut Bench<'_>) -> Verdict {
    let [_, two] = admit(bench, 0o755)?;
    bench.file("file")?;
    let folder = bench.folder;
    let how = || Box::new(CreateHow::Unchecked(SetAttributes::default()));
    let create =
        |called: &str| Operation::Create { directory: folder, name: name(called), how: how(), open: None };
    let (removal, rename) = (bench.removal("file", Removal::File), bench.rename("file", "other"));
    bench.as_caller(&two, |bench| {
        bench.must_fail(create("new"), &DENIED)?;
        bench.must_fail(removal, &DENIED)?;
        bench.must_fail(rename, &DENIED)?;
        bench.find("file").map(drop)
    })?;
    bench.set(folder, SetAttributes::mode(0o700))?;
    let lookup = Operation::Lookup { directory: folder, name: name("file") };
    let listing = Operation::ReadDirectory {
        directory: folder,
        cookie: crate::Cookie::START,
        verifier: crate::CookieVerifier::default(),
        max_bytes: 4096,
        with_objects: false,
    };
    bench.as_caller(&two, |bench| {
        bench.must_fail(lookup, &DENIED)?;
        bench.must_fail(listing, &DENIED)
    })
}

pub(super) fn sticky_directories_are_kept(bench: &mut Bench<'_>) -> Verdict {
    let [one, two] = admit(bench, 0o1777)?;
    bench.as_caller(&one, |bench| bench.file("file"))?;
    bench.as_caller(&two, |bench| {
        bench.must_fail(bench.removal("file", Removal::File), &FORBIDDEN)?;
        bench.must_fail(bench.rename("file", "mine"), &FORBIDDEN)
    })?;
    bench.as_caller(&one, |bench| bench.must(bench.removal("file", Removal::File))).map(drop)
}

pub(super) fn attributes_are_the_owners(bench: &mut Bench<'_>) -> Verdict {
    let [one, two] = admit(bench, 0o777)?;
    let file = bench.as_caller(&one, |bench| bench.file("file"))?;
    bench.set(file, SetAttributes::mode(0o666))?;
    let time = Some(SetTime::ToClient(Time { seconds: 5, nanos: 0 }));
    bench.as_caller(&two, |bench| {
        bench.must_fail(set(file, SetAttributes::mode(0o777)), &FORBIDDEN)?;
        bench.must_fail(
            set(file, SetAttributes { time_modify: time, ..SetAttributes::default() }),
            &FORBIDDEN,
        )?;
        bench.must_fail(
            set(file, SetAttributes { owner: Some(two.uid()), ..SetAttributes::default() }),
            &FORBIDDEN,
        )?;
        // Whoever may write may set the times to now, and the size.
        bench.must(set(
            file,
            SetAttributes { time_modify: Some(SetTime::ToServer), ..SetAttributes::default() },
        ))?;
        bench.must(set(file, SetAttributes::size(1)))
    })?;
    bench.as_caller(&one, |bench| {
        bench.must_fail(
            set(file, SetAttributes { owner: Some(two.uid()), ..SetAttributes::default() }),
            &FORBIDDEN,
        )?;
        bench.must(set(file, SetAttributes::mode(0o600)))
    })?;
    let given =
        SetAttributes { owner: Some(two.uid()), owner_group: Some(two.gid()), ..SetAttributes::default() };
    bench.as_caller(&Credentials::of(0, 0), |bench| bench.must(set(file, given)))?;
    let now = bench.attributes(file)?;
    see((now.owner, now.owner_group) == (two.uid(), two.gid()), || {
        format!("a file that was given away has {now:?}")
    })
}

pub(super) fn access_is_judged(bench: &mut Bench<'_>) -> Verdict {
    let [one, two] = admit(bench, 0o777)?;
    let file = bench.as_caller(&one, |bench| bench.file("file"))?;
    bench.set(file, SetAttributes::mode(0o754))?;
    for (caller, expected) in [
        (one.clone(), Access::READ | Access::MODIFY | Access::EXTEND | Access::EXECUTE),
        (Credentials::of(two.uid(), one.gid()), Access::READ | Access::EXECUTE),
        (two.clone(), Access::READ),
    ] {
        let asked = Access::all() - Access::LOOKUP - Access::DELETE;
        match bench
            .as_caller(&caller, |bench| bench.must(Operation::Access { object: file, access: asked }))?
        {
            Outcome::Access(granted) => {
                see(granted == expected, || format!("{caller:?} has {granted:?} of {expected:?}"))?;
            }
            other => see(false, || format!("access answers {other:?}"))?,
        }
    }
    Ok(())
}

pub(super) fn privileges_end_with_writes(bench: &mut Bench<'_>) -> Verdict {
    let [one, two] = admit(bench, 0o777)?;
    let file = bench.as_caller(&one, |bench| bench.file("file"))?;
    bench.set(file, SetAttributes::mode(0o6777))?;
    bench.as_caller(&two, |bench| bench.must(write(file.into())))?;
    let mode = bench.attributes(file)?.mode;
    see(mode & 0o6000 == 0, || format!("after a stranger's write the mode is {mode:o}"))
}
