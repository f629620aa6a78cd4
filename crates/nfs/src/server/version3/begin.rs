//! The first step of each procedure: arguments are judged, and the file system is asked.

use alloc::boxed::Box;

use buf::{Buf, BufList};
use filesystem::{Access, CreateHow, NewObject, Operation, Removal, SetAttributes, Time};

use super::super::exports::Writes;
use super::env::{Env, Flow, Stage, Tail, name, new_name};
use super::listing;
use crate::limits::PAYLOAD;
use crate::v3::Status;
use crate::v3::procedure::{Handle, Place, Procedure, Write};
use crate::v4::Modes;

/// Begins, or begins again.
pub(super) fn begin(env: &mut Env<'_>, procedure: Procedure) -> Result<Flow, Status> {
    match procedure {
        Procedure::GetAttributes(object) => {
            let object = env.subject(&object)?.handle().into();
            env.ask(Operation::GetAttributes { object }, Stage::GettingAttributes)
        }
        Procedure::SetAttributes { object, attributes, guard } => {
            set_attributes(env, object, attributes, guard)
        }
        Procedure::Lookup(place) => lookup(env, &place),
        Procedure::Access { object, rights } => access(env, &object, rights),
        Procedure::ReadLink(object) => {
            let object = env.subject(&object)?.handle();
            env.ask(Operation::ReadLink { object }, Stage::ReadingLink)
        }
        Procedure::Read { file, offset, count } => read(env, file, offset, count),
        Procedure::Write(arguments) => write(env, arguments),
        Procedure::Create { place, how } => create(env, &place, how),
        Procedure::Make { place, object, attributes } => make(env, &place, object, attributes),
        Procedure::Remove(place) => remove(env, &place, Removal::File),
        Procedure::RemoveDirectory(place) => remove(env, &place, Removal::Directory),
        Procedure::Rename { from, to } => rename(env, &from, &to),
        Procedure::Link { file, to } => link(env, &file, &to),
        Procedure::List(list) => listing::begin(env, list),
        Procedure::Space(root) => {
            env.subject(&root)?;
            env.ask(Operation::GetSpace, Stage::ReadingSpace)
        }
        Procedure::Information(root) => {
            env.subject(&root)?;
            close(env, Tail::Information)
        }
        Procedure::Configuration(object) => {
            env.subject(&object)?;
            close(env, Tail::Configuration)
        }
        Procedure::Commit { file, offset, count } => {
            let file = env.writable(&file)?.handle().into();
            let operation = Operation::Commit { file, offset, count: count.into() };
            env.ask(operation, Stage::Committing)
        }
    }
}

/// The result is known but for the attributes of the first object.
pub(super) fn close(env: &Env<'_>, tail: Tail) -> Result<Flow, Status> {
    let object = env.known_subject()?.handle().into();
    env.ask(Operation::GetAttributes { object }, Stage::Closing(tail))
}

/// SETATTR (RFC 1813 §3.3.2). A size is data: an open of version 4 may deny it.
fn set_attributes(
    env: &mut Env<'_>,
    handle: Handle,
    attributes: SetAttributes,
    guard: Option<Time>,
) -> Result<Flow, Status> {
    let located = env.writable(&handle)?;
    let mut object = located.handle().into();
    if attributes.size.is_some() {
        object = match env.target(located, Modes::WRITE)? {
            Ok(target) => target,
            Err(call) => {
                let again = Procedure::SetAttributes { object: handle, attributes, guard };
                return Ok(Flow::Group { call, then: Stage::Again(again) });
            }
        };
    }
    env.ask(Operation::SetAttributes { object, guard, attributes }, Stage::SettingAttributes)
}

/// LOOKUP (RFC 1813 §3.3.3). An export's root is its own parent: nothing of version 3 leads out of it.
fn lookup(env: &mut Env<'_>, place: &Place) -> Result<Flow, Status> {
    let located = env.subject(&place.directory)?;
    let directory = located.handle();
    let at_top = env.export(located.export)?.root == directory;
    let itself = place.name == b"." || (place.name == b".." && at_top);
    if itself {
        let operation = Operation::GetAttributes { object: directory.into() };
        return env.ask(operation, Stage::LookingAtItself);
    }
    if place.name == b".." {
        return env.ask(Operation::LookupParent { directory }, Stage::LookingUp);
    }
    let name = name(&place.name)?;
    env.ask(Operation::Lookup { directory, name }, Stage::LookingUp)
}

/// ACCESS (RFC 1813 §3.3.4). In an export that cannot be changed nobody may change anything.
fn access(env: &mut Env<'_>, handle: &[u8], rights: u32) -> Result<Flow, Status> {
    let located = env.subject(handle)?;
    let mut access = Access::from_bits_truncate(rights);
    if env.grant(located.export)?.writes == Writes::Refused {
        access -= Access::MODIFY | Access::EXTEND | Access::DELETE;
    }
    let operation = Operation::Access { object: located.handle(), access };
    env.ask(operation, Stage::Access)
}

/// READ (RFC 1813 §3.3.6).
fn read(env: &mut Env<'_>, handle: Handle, offset: u64, count: u32) -> Result<Flow, Status> {
    let located = env.subject(&handle)?;
    let file = match env.target(located, Modes::READ)? {
        Ok(target) => target,
        Err(call) => {
            let then = Stage::Again(Procedure::Read { file: handle, offset, count });
            return Ok(Flow::Group { call, then });
        }
    };
    let most = env.export(located.export)?.limits.max_read.min(PAYLOAD);
    let length = wire::index(count.min(most).into());
    let into = if length == 0 { Some(Buf::zeroed(0)) } else { env.shared.account.take(length) };
    let Some(into) = into else {
        return Ok(Flow::Memory { then: Stage::Again(Procedure::Read { file: handle, offset, count }) });
    };
    env.ask(Operation::Read { file, offset, into }, Stage::Reading)
}

/// WRITE (RFC 1813 §3.3.7).
fn write(env: &mut Env<'_>, arguments: Write) -> Result<Flow, Status> {
    let located = env.writable(&arguments.file)?;
    if wire::index(arguments.count.into()) != arguments.length {
        return Err(Status::INVAL);
    }
    let file = match env.target(located, Modes::WRITE)? {
        Ok(target) => target,
        Err(call) => {
            return Ok(Flow::Group { call, then: Stage::Again(Procedure::Write(arguments)) });
        }
    };
    let mut all = BufList::new();
    for piece in arguments.data {
        all.push(piece.freeze());
    }
    let most = wire::index(env.export(located.export)?.limits.max_write.into());
    let data = all.part(0, arguments.length.min(most));
    let (offset, stability, count) = (arguments.offset, arguments.stability, data.len());
    env.ask(Operation::Write { file, offset, data, stability }, Stage::Writing { count })
}

/// CREATE (RFC 1813 §3.3.8). That a file which is there is cut to nothing is a change of its data, and comes afterwards.
fn create(env: &mut Env<'_>, place: &Place, mut how: CreateHow) -> Result<Flow, Status> {
    let directory = env.writable(&place.directory)?.handle();
    let name = new_name(&place.name)?;
    let mut cut = false;
    if let CreateHow::Unchecked(attributes) = &mut how
        && attributes.size == Some(0)
    {
        attributes.size = None;
        cut = true;
    }
    let operation = Operation::Create { directory, name, how: Box::new(how), open: None };
    env.ask(operation, Stage::Creating { cut })
}

/// MKDIR, SYMLINK, MKNOD (RFC 1813 §3.3.9–§3.3.11).
fn make(
    env: &mut Env<'_>,
    place: &Place,
    object: Option<NewObject>,
    attributes: SetAttributes,
) -> Result<Flow, Status> {
    let directory = env.writable(&place.directory)?.handle();
    let (name, object) = (new_name(&place.name)?, Box::new(object.ok_or(Status::BADTYPE)?));
    // Nothing that is made so has a size that could be set, and some clients send one of zero.
    let attributes = Box::new(SetAttributes { size: None, ..attributes });
    env.ask(Operation::Make { directory, name, object, attributes }, Stage::Making)
}

/// REMOVE, RMDIR (RFC 1813 §3.3.12, §3.3.13).
fn remove(env: &mut Env<'_>, place: &Place, removal: Removal) -> Result<Flow, Status> {
    let directory = env.writable(&place.directory)?.handle();
    if removal == Removal::Directory && place.name == b".." {
        return Err(Status::EXIST);
    }
    let name = name(&place.name)?;
    env.ask(Operation::Remove { directory, name, removal }, Stage::Removing)
}

/// RENAME (RFC 1813 §3.3.14).
fn rename(env: &mut Env<'_>, from: &Place, to: &Place) -> Result<Flow, Status> {
    let source = env.writable(&from.directory)?;
    let target = env.locate(&to.directory)?;
    env.may_write(target)?;
    let (from, to) = (name(&from.name)?, name(&to.name)?);
    if source.key.filesystem != target.key.filesystem {
        return Err(Status::XDEV);
    }
    let (from_directory, to_directory) = (source.handle(), target.handle());
    env.ask(Operation::Rename { from_directory, from, to_directory, to }, Stage::Renaming)
}

/// LINK (RFC 1813 §3.3.15).
fn link(env: &mut Env<'_>, file: &[u8], to: &Place) -> Result<Flow, Status> {
    let object = env.subject(file)?;
    let directory = env.locate(&to.directory)?;
    env.may_write(directory)?;
    let name = new_name(&to.name)?;
    if object.key.filesystem != directory.key.filesystem {
        return Err(Status::XDEV);
    }
    let operation = Operation::Link { object: object.handle(), directory: directory.handle(), name };
    Ok(Flow::File { export: directory.export, operation, then: Stage::Linking })
}
