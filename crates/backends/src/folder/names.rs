//! What is done with names in a served folder. All of it blocks.

use filesystem::{
    CreateHow, Created, Credentials, ExclusiveVerifier, FileErrorKind, FileHandle, Name, NewObject,
    OpenAccess, Outcome, PreOperation, Removal, SetAttributes,
};
use host::{Named, NewNode, NewTime, NodeKind, NodeTime};

use super::attributes::apply;
use super::convert::{device, must_be_file};
use super::error::kind_of;
use super::handles::Found;
use super::shared::{Data, Node, Shared};
use std::sync::Arc;

type Answer = Result<Outcome, FileErrorKind>;

/// Permission bits of what is made without any.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// A name in a directory.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) directory: &'a FileHandle,
    pub(super) name: &'a Name,
}

fn named<'a>(directory: &'a Node, name: &'a Name) -> Named<'a> {
    Named { directory: &directory.descriptor, name: name.as_bytes() }
}

fn find(shared: &Shared, caller: &Credentials, directory: &Node, name: &Name) -> Result<Node, FileErrorKind> {
    let found = shared.try_as_caller(caller, |tree| tree.find(&directory.descriptor, name.as_bytes()))?;
    shared.node(found, Some(Found { directory: &directory.stat, name: name.as_bytes() }))
}

/// Finds a name.
pub(super) fn lookup(shared: &Shared, caller: &Credentials, place: Place<'_>) -> Answer {
    let directory = shared.directory(place.directory)?;
    let found = find(shared, caller, &directory, place.name)?;
    Ok(Outcome::Found(Box::new(shared.object(&found))))
}

/// Finds a directory's parent.
pub(super) fn lookup_parent(shared: &Shared, caller: &Credentials, directory: &FileHandle) -> Answer {
    let directory = shared.directory(directory)?;
    if shared.is_root(&directory.stat) {
        return Err(FileErrorKind::NoEntry);
    }
    let above = shared.try_as_caller(caller, |tree| tree.above(&directory.descriptor))?;
    let parent = shared.node(above, None)?;
    // It may have been moved out of the folder since it was found in it.
    if !shared.is_beneath(&parent.descriptor, &parent.stat)? {
        return Err(FileErrorKind::Stale);
    }
    Ok(Outcome::Found(Box::new(shared.object(&parent))))
}

/// The times that keep an exclusive creation's verifier: half of it each, as seconds below 2^31, which every file system keeps, and as tenths of a second.
fn times_of(verifier: ExclusiveVerifier) -> [NodeTime; 2] {
    let (first, second) = verifier.0.split_at(4);
    [first, second].map(|half| {
        let number = u32::from_be_bytes(half.try_into().unwrap_or_default());
        NodeTime { seconds: i64::from(number / 2), nanos: number % 2 * 100_000_000 }
    })
}

/// Makes a regular file, or takes one.
pub(super) fn create(
    shared: &Shared,
    caller: &Credentials,
    place: Place<'_>,
    how: &CreateHow,
    open: Option<OpenAccess>,
) -> Answer {
    let directory = shared.directory(place.directory)?;
    let before = shared.before(&directory);
    check_new(shared, caller, attributes_of(how))?;
    let made = shared.as_caller(caller, |tree| tree.create(&directory.descriptor, place.name.as_bytes()))?;
    let refusal = match made {
        Ok(file) => {
            let place = Found { directory: &directory.stat, name: place.name.as_bytes() };
            let file = shared.node(file, Some(place))?;
            let finished = finish(shared, caller, &file, how).and_then(|()| shared.sync(&file));
            if finished.is_err() {
                // Nothing half made stays; what cannot be removed is an empty file of the caller's.
                let _ = shared.tree.remove_file(&directory.descriptor, place.name);
            }
            finished?;
            shared.sync(&directory)?;
            let data = open.map(|access| own_data(shared, &file, access));
            return created(shared, &directory, before, &file, true, data);
        }
        Err(error) => kind_of(error),
    };
    // Whoever may not write the directory may still take what is there.
    if !matches!(refusal, FileErrorKind::Exists | FileErrorKind::Access | FileErrorKind::ReadOnly) {
        return Err(refusal);
    }
    let file = find(shared, caller, &directory, place.name).map_err(|kind| match kind {
        FileErrorKind::NoEntry => refusal,
        other => other,
    })?;
    let data = take(shared, caller, &file, how, open)?;
    created(shared, &directory, before, &file, false, data)
}

const fn attributes_of(how: &CreateHow) -> &SetAttributes {
    match how {
        CreateHow::Unchecked(attributes)
        | CreateHow::Guarded(attributes)
        | CreateHow::Exclusive { attributes, .. } => attributes,
    }
}

/// Says whether the caller may give a new object these attributes, as far as that can be known before it is made.
fn check_new(shared: &Shared, caller: &Credentials, attributes: &SetAttributes) -> Result<(), FileErrorKind> {
    let owner = attributes.owner.is_none_or(|owner| owner == caller.uid());
    let group = attributes.owner_group.is_none_or(|group| caller.is_in(group));
    let free = caller.is_root() || !shared.tree.acts_for_others();
    if free || (owner && group) { Ok(()) } else { Err(FileErrorKind::NotOwner) }
}

/// Gives a new file what it is to have.
fn finish(shared: &Shared, caller: &Credentials, file: &Node, how: &CreateHow) -> Result<(), FileErrorKind> {
    let mut wanted = *attributes_of(how);
    let size = wanted.size.take().filter(|size| *size > 0);
    if let Some(size) = size {
        shared.tree.set_size(&file.descriptor, size).map_err(kind_of)?;
    }
    wanted.mode = Some(wanted.mode.unwrap_or(FILE_MODE));
    apply(shared, caller, file, &wanted)?;
    if let CreateHow::Exclusive { verifier, .. } = how {
        let [access, modify] = times_of(*verifier);
        shared.tree.set_times(&file.descriptor, NewTime::At(access), NewTime::At(modify)).map_err(kind_of)?;
    }
    Ok(())
}

/// A file that the caller has just made is open for anything.
fn own_data(shared: &Shared, file: &Node, access: OpenAccess) -> Data {
    let descriptor = Arc::clone(&file.descriptor);
    let flushes = Some(shared.flushes(file, &descriptor));
    Data { descriptor, access, flushes }
}

/// Takes what is there in place of a new file, if that may be.
fn take(
    shared: &Shared,
    caller: &Credentials,
    file: &Node,
    how: &CreateHow,
    open: Option<OpenAccess>,
) -> Result<Option<Data>, FileErrorKind> {
    let is_file = must_be_file(file.stat.kind).is_ok();
    match how {
        CreateHow::Guarded(_) => return Err(FileErrorKind::Exists),
        CreateHow::Exclusive { verifier, .. } => {
            let same = [file.stat.accessed, file.stat.modified] == times_of(*verifier);
            if !(is_file && same && file.stat.size == 0) {
                return Err(FileErrorKind::Exists);
            }
            let server = Credentials::of(0, 0);
            return open.map(|access| shared.open_data(file, &server, access)).transpose();
        }
        CreateHow::Unchecked(_) if !is_file => return Err(FileErrorKind::Exists),
        CreateHow::Unchecked(_) => {}
    }
    let data = open.map(|access| shared.open_data(file, caller, access)).transpose()?;
    if let CreateHow::Unchecked(SetAttributes { size: Some(0), .. }) = how {
        let before = shared.before(file);
        let writing = shared.open_data(file, caller, OpenAccess::WRITE)?;
        shared.tree.set_size(&writing.descriptor, 0).map_err(kind_of)?;
        shared.sync(file)?;
        shared.changed(file, &before)?;
    }
    Ok(data)
}

fn created(
    shared: &Shared,
    directory: &Node,
    before: PreOperation,
    file: &Node,
    is_new: bool,
    data: Option<Data>,
) -> Answer {
    let directory = if is_new {
        shared.directory_changed(directory, before)?
    } else {
        shared.directory_kept(directory, before)?
    };
    let now = Node { stat: shared.tree.stat(&file.descriptor).map_err(kind_of)?, ..file.clone() };
    // Last, as what fails must leave nothing open.
    let open = data.map(|data| shared.open(file, data)).transpose()?;
    Ok(Outcome::Created(Box::new(Created { object: shared.object(&now), is_new, directory, open })))
}

/// Makes something else than a regular file.
pub(super) fn make(
    shared: &Shared,
    caller: &Credentials,
    place: Place<'_>,
    object: &NewObject,
    attributes: &SetAttributes,
) -> Answer {
    check_new(shared, caller, attributes)?;
    let directory = shared.directory(place.directory)?;
    let before = shared.before(&directory);
    let what = match object {
        NewObject::Directory => NewNode::Directory,
        NewObject::SymbolicLink(target) => NewNode::SymbolicLink(target),
        NewObject::BlockDevice(number) => NewNode::Node(NodeKind::BlockDevice, device(*number)),
        NewObject::CharacterDevice(number) => NewNode::Node(NodeKind::CharacterDevice, device(*number)),
        NewObject::Socket => NewNode::Node(NodeKind::Socket, device(filesystem::SpecData::default())),
        NewObject::Fifo => NewNode::Node(NodeKind::Fifo, device(filesystem::SpecData::default())),
    };
    shared.try_as_caller(caller, |tree| tree.make(&directory.descriptor, place.name.as_bytes(), what))?;
    let made = find(shared, &Credentials::of(0, 0), &directory, place.name)?;
    if made.stat.kind != NodeKind::SymbolicLink {
        let is_directory = made.stat.kind == NodeKind::Directory;
        let usual = if is_directory { DIRECTORY_MODE } else { FILE_MODE };
        // What a directory has inherited from the one above stays.
        let inherited = if is_directory && made.stat.mode >= 0o2000 { 0o2000 } else { 0 };
        let bits = attributes.mode.unwrap_or(usual) | inherited;
        apply(shared, caller, &made, &SetAttributes { mode: Some(bits), ..*attributes })?;
        shared.sync(&made)?;
    }
    shared.sync(&directory)?;
    created(shared, &directory, before, &made, true, None)
}

/// Removes a name.
pub(super) fn remove(shared: &Shared, caller: &Credentials, place: Place<'_>, removal: Removal) -> Answer {
    let directory = shared.directory(place.directory)?;
    let before = shared.before(&directory);
    let name = place.name.as_bytes();
    let found = find(shared, caller, &directory, place.name)?;
    let as_directory = match removal {
        Removal::File => false,
        Removal::Directory => true,
        Removal::Any => found.stat.kind == NodeKind::Directory,
    };
    shared.try_as_caller(caller, |tree| {
        if as_directory {
            tree.remove_directory(&directory.descriptor, name)
        } else {
            tree.remove_file(&directory.descriptor, name)
        }
    })?;
    forget(shared, &found)?;
    shared.judge_anew();
    shared.sync(&directory)?;
    Ok(Outcome::Removed(Box::new(shared.directory_changed(&directory, before)?)))
}

/// An object has lost a name; with its last it is gone.
fn forget(shared: &Shared, node: &Node) -> Result<(), FileErrorKind> {
    shared.close_directory(&node.handle);
    if shared.tree.stat(&node.descriptor).map_err(kind_of)?.links == 0 {
        shared.handles.gone(&node.stat);
    }
    Ok(())
}

/// Gives an object one more name.
pub(super) fn link(shared: &Shared, caller: &Credentials, object: &FileHandle, place: Place<'_>) -> Answer {
    let node = shared.resolve(object)?;
    if node.stat.kind == NodeKind::Directory {
        return Err(FileErrorKind::IsDirectory);
    }
    if node.stat.links == 0 {
        return Err(FileErrorKind::Stale);
    }
    let directory = shared.directory(place.directory)?;
    let (before, object_before) = (shared.before(&directory), shared.before(&node));
    let name = place.name.as_bytes();
    shared.try_as_caller(caller, |tree| tree.link(&node.descriptor, &directory.descriptor, name))?;
    let linked = shared.tree.stat(&node.descriptor).map_err(kind_of)?;
    shared.handles.moved(&linked, Found { directory: &directory.stat, name })?;
    shared.sync(&directory)?;
    let object = Box::new(shared.changed(&node, &object_before)?);
    Ok(Outcome::Linked { object, directory: Box::new(shared.directory_changed(&directory, before)?) })
}

/// Gives an object another name.
pub(super) fn rename(shared: &Shared, caller: &Credentials, from: Place<'_>, to: Place<'_>) -> Answer {
    let (source, target) = (shared.directory(from.directory)?, shared.directory(to.directory)?);
    let (source_before, target_before) = (shared.before(&source), shared.before(&target));
    // Two names of one object: the system does nothing (RFC 1813 §3.3.14).
    let server = Credentials::of(0, 0);
    let ends = [find(shared, &server, &source, from.name), find(shared, &server, &target, to.name)];
    let idle = matches!(&ends, [Ok(from), Ok(to)] if from.handle == to.handle);
    shared.try_as_caller(caller, |tree| tree.rename(named(&source, from.name), named(&target, to.name)))?;
    let [moved, replaced] = ends;
    if let (Ok(replaced), false) = (replaced, idle) {
        forget(shared, &replaced)?;
    }
    if let Ok(moved) = moved {
        let found = Found { directory: &target.stat, name: to.name.as_bytes() };
        shared.handles.moved(&moved.stat, found)?;
    }
    shared.judge_anew();
    shared.sync(&target)?;
    if source.handle != target.handle {
        shared.sync(&source)?;
    }
    let told = |directory, before| {
        if idle {
            shared.directory_kept(directory, before)
        } else {
            shared.directory_changed(directory, before)
        }
    };
    let (from, to) = (told(&source, source_before)?, told(&target, target_before)?);
    Ok(Outcome::Renamed { from: Box::new(from), to: Box::new(to) })
}
