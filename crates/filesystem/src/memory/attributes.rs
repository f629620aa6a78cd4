//! Attributes of objects in memory, listings, and what is told of the whole.

use super::data::strip_privileges;
use super::inode::{Inode, Node};
use super::state::{Call, State};
use crate::{
    Access, Attributes, Cookie, CookieVerifier, ENTRY_OBJECT_BYTES, Entry, EntryObject, FileErrorKind,
    FileHandle, OpenAccess, Outcome, Page, PreOperation, SetAttributes, SetTime, Space, Target, Time,
    WccData, entry_bytes,
};

type Answer = Result<Outcome, FileErrorKind>;

/// What a time that is to be set means.
pub(super) const fn time_of(time: SetTime, call: &Call<'_>) -> Time {
    match time {
        SetTime::ToServer => call.now,
        SetTime::ToClient(time) => time,
    }
}

/// Tells all attributes.
pub(super) fn get(state: &State, object: &Target) -> Answer {
    let fileid = state.resolve(&object.file)?;
    Ok(Outcome::Attributes(Box::new(state.attributes(fileid)?)))
}

/// Tells rights.
pub(super) fn access(state: &State, call: &Call<'_>, object: &FileHandle, asked: Access) -> Answer {
    let fileid = state.resolve(object)?;
    Ok(Outcome::Access(state.rights(fileid, call.caller)? & asked))
}

/// Tells a symbolic link's target.
pub(super) fn read_link(state: &State, object: &FileHandle) -> Answer {
    match &state.inode(state.resolve(object)?)?.node {
        Node::SymbolicLink(target) => Ok(Outcome::Link(target.clone())),
        _ => Err(FileErrorKind::Invalid),
    }
}

/// Says whether the caller may set these attributes of an object that is not opened for writing, or is.
fn check_rights(
    now: &Attributes,
    wanted: &SetAttributes,
    call: &Call<'_>,
    rights: Access,
) -> Result<(), FileErrorKind> {
    let caller = call.caller;
    let is_owner = caller.is_root() || caller.uid() == now.owner;
    let demand = |allowed: bool, kind| if allowed { Ok(()) } else { Err(kind) };
    demand(wanted.mode.is_none() || is_owner, FileErrorKind::NotOwner)?;
    demand(
        wanted.owner.is_none_or(|owner| caller.is_root() || (is_owner && owner == now.owner)),
        FileErrorKind::NotOwner,
    )?;
    let joins = |group| caller.is_root() || (is_owner && (group == now.owner_group || caller.is_in(group)));
    demand(wanted.owner_group.is_none_or(joins), FileErrorKind::NotOwner)?;
    let writes = is_owner || rights.contains(Access::MODIFY);
    for time in [wanted.time_access, wanted.time_modify].into_iter().flatten() {
        match time {
            SetTime::ToServer => demand(writes, FileErrorKind::Access)?,
            SetTime::ToClient(_) => demand(is_owner, FileErrorKind::NotOwner)?,
        }
    }
    Ok(())
}

/// Sets attributes, all or none.
pub(super) fn set(
    state: &mut State,
    call: &Call<'_>,
    object: &Target,
    guard: Option<Time>,
    wanted: &SetAttributes,
) -> Answer {
    let fileid = state.resolve(&object.file)?;
    let now = state.attributes(fileid)?;
    if guard.is_some_and(|guard| guard != now.time_metadata) {
        return Err(FileErrorKind::NotSync);
    }
    check_rights(&now, wanted, call, state.rights(fileid, call.caller)?)?;
    if let Some(size) = wanted.size {
        state.data_of(object, call.caller, OpenAccess::WRITE)?;
        // The page in which the new end lies may be kept once more.
        state.afford(state.inode(fileid)?.content()?.needed(size, 0))?;
    }
    if !wanted.is_empty() {
        state.change(fileid, |inode| apply(inode, wanted, call))?;
    }
    let after = Some(state.attributes(fileid)?);
    Ok(Outcome::Changed(Box::new(WccData { before: Some(PreOperation::from(&now)), after })))
}

fn apply(inode: &mut Inode, wanted: &SetAttributes, call: &Call<'_>) -> Result<(), FileErrorKind> {
    if let Some(size) = wanted.size {
        inode.content_mut()?.resize(size);
        inode.time_modify = call.now;
        strip_privileges(&mut inode.mode, call);
    }
    if wanted.owner.is_some() || wanted.owner_group.is_some() {
        inode.owner = wanted.owner.unwrap_or(inode.owner);
        inode.owner_group = wanted.owner_group.unwrap_or(inode.owner_group);
        if !inode.is_directory() {
            strip_privileges(&mut inode.mode, call);
        }
    }
    if let Some(mode) = wanted.mode {
        // Nobody makes a program run in a group that it is not in.
        let foreign =
            !call.caller.is_root() && !call.caller.is_in(inode.owner_group) && !inode.is_directory();
        inode.mode = if foreign { mode & !0o2000 } else { mode };
    }
    if let Some(time) = wanted.time_access {
        inode.time_access = time_of(time, call);
    }
    if let Some(time) = wanted.time_modify {
        inode.time_modify = time_of(time, call);
    }
    inode.verifier = None;
    inode.altered(call.now);
    Ok(())
}

/// Where a listing begins, and how far it goes.
#[derive(Clone, Copy)]
pub(super) struct Listing {
    pub(super) cookie: Cookie,
    pub(super) verifier: CookieVerifier,
    pub(super) max_bytes: u32,
    pub(super) with_objects: bool,
}

/// What cookies of a directory are valid with: its secret, as cookies are never used again.
fn cookie_verifier(inode: &Inode) -> CookieVerifier {
    CookieVerifier(inode.secret.rotate_left(17).to_be_bytes())
}

/// Lists a part of a directory.
pub(super) fn read_directory(
    state: &State,
    call: &Call<'_>,
    directory: &FileHandle,
    listing: Listing,
) -> Answer {
    let fileid = state.directory(directory, call.caller, Access::READ)?;
    let inode = state.inode(fileid)?;
    let (names, verifier) = (inode.directory()?, cookie_verifier(inode));
    let is_start = listing.cookie == Cookie::START;
    if !is_start
        && (listing.verifier != verifier || !names.knows(listing.cookie) || listing.cookie < Cookie::FIRST)
    {
        return Err(FileErrorKind::BadCookie);
    }
    let mut room = listing.max_bytes as usize;
    let (mut entries, mut eof) = (Vec::new(), true);
    for (name, entry) in names.after(listing.cookie) {
        let bytes = entry_bytes(name) + if listing.with_objects { ENTRY_OBJECT_BYTES } else { 0 };
        if bytes > room {
            eof = false;
            break;
        }
        room -= bytes;
        let object = if listing.with_objects { Some(state.object(entry.fileid)?) } else { None };
        let object = object.map(|found| EntryObject { handle: found.handle, attributes: found.attributes });
        entries.push(Entry {
            cookie: Cookie(entry.cookie),
            fileid: entry.fileid,
            name: name.clone(),
            object,
        });
    }
    if entries.is_empty() && !eof {
        return Err(FileErrorKind::Invalid);
    }
    let directory = Some(state.attributes(fileid)?);
    Ok(Outcome::Page(Box::new(Page { entries, verifier, eof, directory })))
}

/// Tells how much space there is.
pub(super) fn space(state: &State) -> Space {
    let (bytes, inodes) = (state.free(), state.free_inodes());
    Space {
        space_total: state.options().bytes,
        space_free: bytes,
        space_avail: bytes,
        files_total: state.options().inodes,
        files_free: inodes,
        files_avail: inodes,
    }
}
