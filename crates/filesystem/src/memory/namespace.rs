//! What is done with names of the file system in memory.

use super::content::Content;
use super::inode::{Directory, Node};
use super::state::{Call, ROOT, State};
use crate::limits::LINKS;
use crate::{
    Access, CreateHow, Created, DirectoryChange, FileErrorKind, FileHandle, FileType, Name, NewObject,
    OpenAccess, Outcome, PreOperation, Removal, SetAttributes, may_remove,
};

type Answer = Result<Outcome, FileErrorKind>;

/// What whoever changes a directory needs.
const CHANGE: Access = Access::LOOKUP.union(Access::MODIFY);

/// Permission bits of what is made without any.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// Finds a name.
pub(super) fn lookup(state: &State, call: &Call<'_>, directory: &FileHandle, name: &Name) -> Answer {
    let directory = state.directory(directory, call.caller, Access::LOOKUP)?;
    let fileid = state.inode(directory)?.directory()?.get(name).ok_or(FileErrorKind::NoEntry)?;
    Ok(Outcome::Found(Box::new(state.object(fileid)?)))
}

/// Finds a directory's parent.
pub(super) fn lookup_parent(state: &State, call: &Call<'_>, directory: &FileHandle) -> Answer {
    let directory = state.directory(directory, call.caller, Access::LOOKUP)?;
    let parent = state.inode(directory)?.directory()?.parent;
    if directory == ROOT {
        return Err(FileErrorKind::NoEntry);
    }
    Ok(Outcome::Found(Box::new(state.object(parent)?)))
}

/// A name in a directory.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) directory: &'a FileHandle,
    pub(super) name: &'a Name,
}

/// A directory that is being changed.
struct Changing {
    fileid: u64,
    before: PreOperation,
}

impl Changing {
    fn begin(state: &State, call: &Call<'_>, directory: &FileHandle) -> Result<Self, FileErrorKind> {
        let fileid = state.directory(directory, call.caller, CHANGE)?;
        Ok(Self { fileid, before: PreOperation::from(&state.attributes(fileid)?) })
    }

    fn get(&self, state: &State, name: &Name) -> Result<Option<u64>, FileErrorKind> {
        Ok(state.inode(self.fileid)?.directory()?.get(name))
    }

    /// Adds a name that is not there, and which was afforded.
    fn insert(
        &self,
        state: &mut State,
        call: &Call<'_>,
        name: &Name,
        fileid: u64,
    ) -> Result<(), FileErrorKind> {
        let is_directory = state.change(fileid, |inode| {
            inode.links += 1;
            inode.time_metadata = call.now;
            Ok(inode.is_directory())
        })?;
        let parent = self.fileid;
        if is_directory {
            state.change(fileid, |inode| {
                inode.directory_mut()?.parent = parent;
                Ok(())
            })?;
        }
        state.change(parent, |inode| {
            inode.directory_mut()?.insert(name, fileid, is_directory);
            inode.modified(call.now);
            Ok(())
        })
    }

    /// Takes a name away. Its object lives on.
    fn detach(
        &self,
        state: &mut State,
        call: &Call<'_>,
        name: &Name,
        fileid: u64,
    ) -> Result<(), FileErrorKind> {
        let is_directory = state.change(fileid, |inode| {
            inode.links = inode.links.saturating_sub(1);
            inode.altered(call.now);
            Ok(inode.is_directory())
        })?;
        state.change(self.fileid, |inode| {
            inode.directory_mut()?.remove(name, is_directory);
            inode.modified(call.now);
            Ok(())
        })
    }

    /// What the directory has come to.
    fn end(&self, state: &State) -> Result<DirectoryChange, FileErrorKind> {
        Ok(DirectoryChange { atomic: true, before: self.before, after: state.attributes(self.fileid)? })
    }
}

/// Says whether the caller may give a new object these attributes.
fn check_new(attributes: &SetAttributes, call: &Call<'_>) -> Result<(), FileErrorKind> {
    let owner = attributes.owner.is_none_or(|owner| owner == call.caller.uid());
    let group = attributes.owner_group.is_none_or(|group| call.caller.is_in(group));
    if call.caller.is_root() || (owner && group) { Ok(()) } else { Err(FileErrorKind::NotOwner) }
}

/// Makes an object with a name, which is not there.
fn make_new(
    state: &mut State,
    call: &Call<'_>,
    directory: &Changing,
    name: &Name,
    node: Node,
    attributes: &SetAttributes,
) -> Result<u64, FileErrorKind> {
    check_new(attributes, call)?;
    if state.inode(directory.fileid)?.links == 0 {
        // A directory that was removed while it was open, or is being listed, gets no names.
        return Err(FileErrorKind::Stale);
    }
    state.afford_inode(Directory::cost(name) + link_bytes(&node))?;
    let mut wanted = *attributes;
    let is_directory = matches!(node, Node::Directory(_));
    let usual = if is_directory { DIRECTORY_MODE } else { FILE_MODE };
    let parent = state.attributes(directory.fileid)?;
    let mut mode = wanted.mode.take().unwrap_or(usual);
    if matches!(node, Node::SymbolicLink(_)) {
        (mode, wanted) = (0o777, SetAttributes::default());
    }
    // A directory with the set-group-ID bit hands its group on.
    let inherits = parent.mode & 0o2000 != 0;
    if inherits && is_directory {
        mode |= 0o2000;
    }
    let fileid = state.add(node, mode, call);
    state.change(fileid, |inode| {
        inode.owner = wanted.owner.unwrap_or(inode.owner);
        let group = if inherits { parent.owner_group } else { inode.owner_group };
        inode.owner_group = wanted.owner_group.unwrap_or(group);
        if let Some(time) = wanted.time_access {
            inode.time_access = super::attributes::time_of(time, call);
        }
        if let Some(time) = wanted.time_modify {
            inode.time_modify = super::attributes::time_of(time, call);
        }
        if let (Node::File(content), Some(size)) = (&mut inode.node, wanted.size) {
            content.resize(size);
        }
        Ok(())
    })?;
    directory.insert(state, call, name, fileid)?;
    Ok(fileid)
}

fn link_bytes(node: &Node) -> u64 {
    if let Node::SymbolicLink(target) = node { target.len() as u64 } else { 0 }
}

fn created(
    state: &mut State,
    directory: &Changing,
    fileid: u64,
    is_new: bool,
    open: Option<OpenAccess>,
) -> Answer {
    let open = open.map(|access| state.open(fileid, access)).transpose()?;
    let created = Created { object: state.object(fileid)?, is_new, directory: directory.end(state)?, open };
    Ok(Outcome::Created(Box::new(created)))
}

/// Makes a regular file.
pub(super) fn create(
    state: &mut State,
    call: &Call<'_>,
    place: Place<'_>,
    how: &CreateHow,
    open: Option<OpenAccess>,
) -> Answer {
    let searched = state.directory(place.directory, call.caller, Access::LOOKUP)?;
    if let Some(fileid) = state.inode(searched)?.directory()?.get(place.name) {
        let before = PreOperation::from(&state.attributes(searched)?);
        take(state, call, fileid, how, open)?;
        return created(state, &Changing { fileid: searched, before }, fileid, false, open);
    }
    let directory = Changing::begin(state, call, place.directory)?;
    let (attributes, verifier) = match how {
        CreateHow::Unchecked(attributes) | CreateHow::Guarded(attributes) => (attributes, None),
        CreateHow::Exclusive { verifier, attributes } => (attributes, Some(*verifier)),
    };
    let fileid = make_new(state, call, &directory, place.name, Node::File(Content::default()), attributes)?;
    state.change(fileid, |inode| {
        inode.verifier = verifier;
        Ok(())
    })?;
    created(state, &directory, fileid, true, open)
}

/// Takes what is there in place of a new file, if that may be.
fn take(
    state: &mut State,
    call: &Call<'_>,
    fileid: u64,
    how: &CreateHow,
    open: Option<OpenAccess>,
) -> Result<(), FileErrorKind> {
    let inode = state.inode(fileid)?;
    match how {
        CreateHow::Exclusive { verifier, .. } => {
            let same = inode.file_type() == FileType::Regular && inode.verifier == Some(*verifier);
            if same { Ok(()) } else { Err(FileErrorKind::Exists) }
        }
        CreateHow::Guarded(_) => Err(FileErrorKind::Exists),
        CreateHow::Unchecked(attributes) => {
            if inode.file_type() != FileType::Regular {
                return Err(FileErrorKind::Exists);
            }
            let target = state.handle_of(fileid)?.into();
            if let Some(access) = open {
                state.data_of(&target, call.caller, access)?;
            }
            if attributes.size == Some(0) {
                super::attributes::set(state, call, &target, None, &SetAttributes::size(0))?;
            }
            Ok(())
        }
    }
}

/// Makes something else than a regular file.
pub(super) fn make(
    state: &mut State,
    call: &Call<'_>,
    place: Place<'_>,
    object: NewObject,
    attributes: &SetAttributes,
) -> Answer {
    let directory = Changing::begin(state, call, place.directory)?;
    if directory.get(state, place.name)?.is_some() {
        return Err(FileErrorKind::Exists);
    }
    let node = match object {
        NewObject::Directory => Node::Directory(Directory::new(directory.fileid)),
        NewObject::SymbolicLink(target) => Node::SymbolicLink(target),
        NewObject::BlockDevice(_) | NewObject::CharacterDevice(_) if !call.caller.is_root() => {
            return Err(FileErrorKind::NotOwner);
        }
        NewObject::BlockDevice(device) => Node::Device(FileType::BlockDevice, device),
        NewObject::CharacterDevice(device) => Node::Device(FileType::CharacterDevice, device),
        NewObject::Socket => Node::Socket,
        NewObject::Fifo => Node::Fifo,
    };
    let fileid = make_new(state, call, &directory, place.name, node, attributes)?;
    created(state, &directory, fileid, true, None)
}

/// Says whether the caller may take this object out of that directory.
fn check_removal(state: &State, call: &Call<'_>, directory: u64, fileid: u64) -> Result<(), FileErrorKind> {
    let allowed = may_remove(&state.attributes(directory)?, &state.attributes(fileid)?, call.caller);
    if allowed { Ok(()) } else { Err(FileErrorKind::NotOwner) }
}

/// Removes a name.
pub(super) fn remove(
    state: &mut State,
    call: &Call<'_>,
    directory: &FileHandle,
    name: &Name,
    removal: Removal,
) -> Answer {
    let directory = Changing::begin(state, call, directory)?;
    let fileid = directory.get(state, name)?.ok_or(FileErrorKind::NoEntry)?;
    check_removal(state, call, directory.fileid, fileid)?;
    match (&state.inode(fileid)?.node, removal) {
        (Node::Directory(_), Removal::File) => return Err(FileErrorKind::IsDirectory),
        (Node::Directory(names), _) if !names.is_empty() => return Err(FileErrorKind::NotEmpty),
        (Node::Directory(_), _) | (_, Removal::File | Removal::Any) => {}
        (_, Removal::Directory) => return Err(FileErrorKind::NotDirectory),
    }
    directory.detach(state, call, name, fileid)?;
    state.release(fileid);
    Ok(Outcome::Removed(Box::new(directory.end(state)?)))
}

/// Gives an object one more name.
pub(super) fn link(state: &mut State, call: &Call<'_>, object: &FileHandle, place: Place<'_>) -> Answer {
    let fileid = state.resolve(object)?;
    let directory = Changing::begin(state, call, place.directory)?;
    let inode = state.inode(fileid)?;
    if inode.is_directory() {
        return Err(FileErrorKind::IsDirectory);
    }
    if inode.links == 0 {
        return Err(FileErrorKind::Stale);
    }
    if inode.links >= LINKS {
        return Err(FileErrorKind::TooManyLinks);
    }
    if directory.get(state, place.name)?.is_some() {
        return Err(FileErrorKind::Exists);
    }
    if state.inode(directory.fileid)?.links == 0 {
        return Err(FileErrorKind::Stale);
    }
    state.afford(Directory::cost(place.name))?;
    directory.insert(state, call, place.name, fileid)?;
    state.change(fileid, |inode| {
        inode.altered(call.now);
        Ok(())
    })?;
    let object = Box::new(state.attributes(fileid)?);
    Ok(Outcome::Linked { object, directory: Box::new(directory.end(state)?) })
}

/// Gives an object another name.
pub(super) fn rename(state: &mut State, call: &Call<'_>, from: Place<'_>, to: Place<'_>) -> Answer {
    let source = Changing::begin(state, call, from.directory)?;
    let target = Changing::begin(state, call, to.directory)?;
    let fileid = source.get(state, from.name)?.ok_or(FileErrorKind::NoEntry)?;
    check_removal(state, call, source.fileid, fileid)?;
    let is_directory = state.inode(fileid)?.is_directory();
    if is_directory && is_within(state, target.fileid, fileid)? {
        return Err(FileErrorKind::Invalid);
    }
    if state.inode(target.fileid)?.links == 0 {
        return Err(FileErrorKind::Stale);
    }
    let replaced = target.get(state, to.name)?;
    if replaced == Some(fileid) {
        // Two names of one object: nothing happens (RFC 1813 §3.3.14).
        return renamed(state, &source, &target);
    }
    match replaced {
        Some(old) => {
            check_removal(state, call, target.fileid, old)?;
            match &state.inode(old)?.node {
                Node::Directory(_) if !is_directory => return Err(FileErrorKind::IsDirectory),
                Node::Directory(names) if !names.is_empty() => return Err(FileErrorKind::NotEmpty),
                Node::Directory(_) => {}
                _ if is_directory => return Err(FileErrorKind::NotDirectory),
                _ => {}
            }
            target.detach(state, call, to.name, old)?;
            state.release(old);
        }
        None => state.afford(Directory::cost(to.name))?,
    }
    source.detach(state, call, from.name, fileid)?;
    target.insert(state, call, to.name, fileid)?;
    renamed(state, &source, &target)
}

fn renamed(state: &State, source: &Changing, target: &Changing) -> Answer {
    Ok(Outcome::Renamed { from: Box::new(source.end(state)?), to: Box::new(target.end(state)?) })
}

/// True if a directory is the other or lies beneath it.
fn is_within(state: &State, mut directory: u64, above: u64) -> Result<bool, FileErrorKind> {
    while directory != above {
        if directory == ROOT {
            return Ok(false);
        }
        directory = state.inode(directory)?.directory()?.parent;
    }
    Ok(true)
}
