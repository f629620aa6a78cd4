//! Attributes: what is set is told, and changes are noticed.

use super::bench::Bench;
use super::finding::{Verdict, see};
use crate::{
    Access, Attributes, FileErrorKind, FileHandle, NewObject, Operation, Outcome, Removal, SetAttributes,
    SetTime, Time,
};

const EARLIER: Time = Time { seconds: 86_400, nanos: 123_456_000 };
const LATER: Time = Time { seconds: 4_000_000_000, nanos: 999_999_000 };

pub(super) fn attributes_are_set(bench: &mut Bench<'_>) -> Verdict {
    let file = bench.file("file")?;
    for mode in [0o600, 0o4755, 0o1777, 0o000, 0o640] {
        bench.set(file, SetAttributes::mode(mode))?;
        let now = bench.attributes(file)?.mode;
        see(now == mode, || format!("the mode was set to {mode:o} and is {now:o}"))?;
    }
    let times = SetAttributes {
        time_access: Some(SetTime::ToClient(EARLIER)),
        time_modify: Some(SetTime::ToClient(LATER)),
        ..SetAttributes::default()
    };
    bench.set(file, times)?;
    let now = bench.attributes(file)?;
    see((now.time_access, now.time_modify) == (EARLIER, LATER), || {
        format!("times were set, and are {now:?}")
    })?;
    bench.set(file, SetAttributes { time_access: Some(SetTime::ToServer), ..SetAttributes::default() })?;
    let later = bench.attributes(file)?;
    see(later.time_access != EARLIER && later.time_modify == LATER, || {
        format!("one time was set: {later:?}")
    })?;
    bench.set(file, SetAttributes::default())
}

pub(super) fn odd_attributes_are_refused(bench: &mut Bench<'_>) -> Verdict {
    let file = bench.file("file")?;
    let before = bench.attributes(file)?;
    let time = Some(SetTime::ToClient(Time { seconds: 0, nanos: 1_000_000_000 }));
    for odd in [
        SetAttributes::mode(0o10_000),
        SetAttributes { owner: Some(u32::MAX), mode: Some(0o600), ..SetAttributes::default() },
        SetAttributes { time_modify: time, mode: Some(0o600), ..SetAttributes::default() },
    ] {
        let set = Operation::SetAttributes { object: file.into(), guard: None, attributes: odd };
        bench.must_fail(set, &[FileErrorKind::Invalid])?;
    }
    let after = bench.attributes(file)?;
    see(before == after, || "attributes that were refused were set in part".to_owned())
}

pub(super) fn guards_are_compared(bench: &mut Bench<'_>) -> Verdict {
    let file = bench.file("file")?;
    let now = bench.attributes(file)?;
    let set = |guard, mode| Operation::SetAttributes {
        object: file.into(),
        guard: Some(guard),
        attributes: SetAttributes::mode(mode),
    };
    bench.must(set(now.time_metadata, 0o600))?;
    bench.must_fail(set(Time { seconds: 1, nanos: 1 }, 0o666), &[FileErrorKind::NotSync])?;
    let mode = bench.attributes(file)?.mode;
    see(mode == 0o600, || format!("a guard that failed let the mode become {mode:o}"))
}

/// Runs something that must move the change attribute of an object.
fn moves(
    bench: &mut Bench<'_>,
    object: FileHandle,
    operation: Operation,
) -> Result<Attributes, super::Finding> {
    let before = bench.attributes(object)?;
    let request = format!("{operation:?}");
    let outcome = bench.must(operation)?;
    let after = bench.attributes(object)?;
    see(after.change > before.change, || {
        format!("{request} left the change attribute at {}", before.change)
    })?;
    see(after.time_metadata >= before.time_metadata, || format!("{request} took the time of change back"))?;
    if let Outcome::Changed(wcc) = outcome {
        let told = wcc.before.is_none_or(|told| told.change == before.change)
            && wcc.after.is_none_or(|told| told == after);
        see(told, || format!("{request} tells {wcc:?}, and the object went from {before:?} to {after:?}"))?;
    }
    Ok(after)
}

pub(super) fn changes_are_noticed(bench: &mut Bench<'_>) -> Verdict {
    let (file, folder) = (bench.file("file")?, bench.folder);
    for round in 0..50_u8 {
        let data = buf::SharedBuf::from(vec![round; 10]).into();
        let write =
            Operation::Write { file: file.into(), offset: 0, data, stability: crate::Stability::Unstable };
        moves(bench, file, write)?;
        let set = SetAttributes::mode(0o600 + u32::from(round % 8));
        moves(bench, file, Operation::SetAttributes { object: file.into(), guard: None, attributes: set })?;
        let set = SetAttributes::size(u64::from(round));
        moves(bench, file, Operation::SetAttributes { object: file.into(), guard: None, attributes: set })?;
        bench
            .make("directory", NewObject::Directory)?
            .map_err(|kind| super::Finding::Failed { request: "making a directory".to_owned(), kind })?;
        moves(bench, folder, bench.removal("directory", Removal::Any))?;
    }
    let before = bench.attributes(file)?;
    bench.read(file, 0, 10)?;
    let after = bench.attributes(file)?;
    see(before.change == after.change, || "a read moved the change attribute".to_owned())
}

pub(super) fn access_is_told(bench: &mut Bench<'_>) -> Verdict {
    let (file, folder) = (bench.file("file")?, bench.folder);
    let asked = Access::READ | Access::MODIFY | Access::EXTEND;
    for (object, asked) in
        [(file, asked), (folder, asked | Access::LOOKUP | Access::DELETE), (file, Access::READ)]
    {
        match bench.must(Operation::Access { object, access: asked })? {
            Outcome::Access(granted) => {
                see(granted == asked, || format!("of {asked:?} the owner has {granted:?}"))?;
            }
            other => see(false, || format!("access answers {other:?}"))?,
        }
    }
    Ok(())
}
