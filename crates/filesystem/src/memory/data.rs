//! What is done with the content of files in memory.

use buf::{Buf, BufList};

use super::state::{Call, State};
use crate::limits::COPY_BYTES;
use crate::{
    CopyRange, FileErrorKind, OpenAccess, Outcome, PreOperation, SeekWhat, Stability, Target, WccData,
};

type Answer = Result<Outcome, FileErrorKind>;

/// A part of a file.
#[derive(Clone, Copy)]
pub(super) struct Range {
    pub(super) offset: u64,
    pub(super) count: u64,
}

/// Reads; a failure gives the buffer back.
pub(super) fn read(
    state: &mut State,
    call: &Call<'_>,
    file: &Target,
    offset: u64,
    mut into: Buf,
) -> Result<Outcome, (FileErrorKind, Buf)> {
    let mut fetch = || {
        let fileid = state.data_of(file, call.caller, OpenAccess::READ)?;
        let content = state.inode(fileid)?.content()?;
        let len = content.read(offset, &mut into);
        let eof = offset.saturating_add(len as u64) >= content.size();
        state.change(fileid, |inode| {
            inode.time_access = call.now;
            Ok(())
        })?;
        state.statistics.bytes_read += len as u64;
        Ok((len, eof, state.attributes(fileid)?))
    };
    match fetch() {
        Ok((len, eof, attributes)) => {
            into.set_len(len);
            Ok(Outcome::Data { data: into.freeze().into(), eof, attributes: Some(attributes) })
        }
        Err(kind) => Err((kind, into)),
    }
}

/// Writes.
pub(super) fn write(
    state: &mut State,
    call: &Call<'_>,
    file: &Target,
    offset: u64,
    data: &BufList,
    stability: Stability,
) -> Answer {
    let fileid = state.data_of(file, call.caller, OpenAccess::WRITE)?;
    let before = PreOperation::from(&state.attributes(fileid)?);
    state.afford(state.inode(fileid)?.content()?.needed(offset, data.len() as u64))?;
    state.change(fileid, |inode| {
        let content = inode.content_mut()?;
        content.write(offset, data);
        if stability > Stability::Unstable {
            content.commit();
        }
        if !data.is_empty() {
            strip_privileges(&mut inode.mode, call);
            inode.modified(call.now);
        }
        Ok(())
    })?;
    state.statistics.bytes_written += data.len() as u64;
    // Attributes are always durable here.
    let stability = if stability == Stability::Unstable { stability } else { Stability::FileSync };
    let file = WccData { before: Some(before), after: Some(state.attributes(fileid)?) };
    Ok(Outcome::Written { stability, verifier: state.verifier, file })
}

/// A file that somebody else than user 0 writes loses its set-user-ID bit, and its set-group-ID bit if its group may execute it.
pub(super) fn strip_privileges(mode: &mut u32, call: &Call<'_>) {
    if !call.caller.is_root() {
        *mode &= !0o4000;
        if *mode & 0o010 != 0 {
            *mode &= !0o2000;
        }
    }
}

/// Makes a file durable.
pub(super) fn commit(state: &mut State, call: &Call<'_>, file: &Target) -> Answer {
    // Whoever could write may commit; a reader may, too.
    let reached = state.data_of(file, call.caller, OpenAccess::WRITE);
    let fileid = reached.or_else(|_| state.data_of(file, call.caller, OpenAccess::READ))?;
    state.change(fileid, |inode| {
        inode.content_mut()?.commit();
        Ok(())
    })?;
    let attributes = state.attributes(fileid)?;
    let file = WccData { before: Some(PreOperation::from(&attributes)), after: Some(attributes) };
    Ok(Outcome::Committed { verifier: state.verifier, file })
}

/// Finds data or a hole.
pub(super) fn seek(state: &State, call: &Call<'_>, file: &Target, offset: u64, what: SeekWhat) -> Answer {
    let fileid = state.data_of(file, call.caller, OpenAccess::READ)?;
    let content = state.inode(fileid)?.content()?;
    if offset >= content.size() {
        return Err(FileErrorKind::NoDevice);
    }
    // The hole at the end of the file is one: only data can be missing (RFC 7862 §15.11.3).
    Ok(match content.seek(offset, what) {
        Some(offset) => Outcome::Sought { offset, eof: false },
        None => Outcome::Sought { offset: content.size(), eof: true },
    })
}

/// What is to be done with the space of a range.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SpaceChange {
    Allocate,
    Deallocate,
}

/// Reserves or releases space.
pub(super) fn change_space(
    state: &mut State,
    call: &Call<'_>,
    file: &Target,
    range: Range,
    how: SpaceChange,
) -> Answer {
    let fileid = state.data_of(file, call.caller, OpenAccess::WRITE)?;
    let before = PreOperation::from(&state.attributes(fileid)?);
    if how == SpaceChange::Allocate {
        state.afford(state.inode(fileid)?.content()?.needed(range.offset, range.count))?;
    }
    state.change(fileid, |inode| {
        let content = inode.content_mut()?;
        match how {
            SpaceChange::Allocate => content.allocate(range.offset, range.count),
            SpaceChange::Deallocate => content.deallocate(range.offset, range.count),
        }
        inode.modified(call.now);
        Ok(())
    })?;
    let after = Some(state.attributes(fileid)?);
    Ok(Outcome::Changed(Box::new(WccData { before: Some(before), after })))
}

/// Copies, not durably.
pub(super) fn copy(state: &mut State, call: &Call<'_>, copy: &CopyRange) -> Answer {
    let from = state.data_of(&copy.from, call.caller, OpenAccess::READ)?;
    let to = state.data_of(&copy.to, call.caller, OpenAccess::WRITE)?;
    let size = state.inode(from)?.content()?.size();
    if copy.from_offset > size || (copy.count > 0 && copy.from_offset.saturating_add(copy.count) > size) {
        // RFC 7862 §15.2.3: the source range must lie within the file.
        return Err(FileErrorKind::Invalid);
    }
    let rest = size - copy.from_offset;
    let wanted = if copy.count == 0 { rest } else { copy.count };
    if from == to
        && copy.from_offset < copy.to_offset.saturating_add(wanted)
        && copy.to_offset < copy.from_offset + wanted
    {
        return Err(FileErrorKind::Invalid);
    }
    let count = wanted.min(COPY_BYTES);
    let mut bytes = vec![0; wire::index(count)];
    state.inode(from)?.content()?.read(copy.from_offset, &mut bytes);
    let data: BufList = buf::SharedBuf::from(bytes).into();
    let written = write(state, call, &copy.to, copy.to_offset, &data, Stability::Unstable)?;
    match written {
        Outcome::Written { stability, verifier, .. } => Ok(Outcome::Copied { count, stability, verifier }),
        _ => Err(FileErrorKind::ServerFault),
    }
}
