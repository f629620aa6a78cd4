//! Operations on names: LOOKUP, LOOKUPP, READLINK, CREATE, REMOVE, RENAME, LINK, SECINFO, SECINFO_NO_NAME
//! (RFC 8881 §18.4, §18.9, §18.13, §18.14, §18.24–§18.26, §18.29, §18.45).

use alloc::boxed::Box;
use alloc::vec::Vec;

use buf::SharedBuf;
use filesystem::{DirectoryChange, FileErrorKind, FileType, Name, NewObject, Operation, Outcome, Removal};

use super::context::{Env, Flow, Input};
use super::exports::{FileRef, Place};
use super::stage::{NameStage, Stage};
use crate::v4::attributes::{SETTABLE, Sent};
use crate::v4::failure;
use crate::v4::operation::CreateType;
use crate::v4::{Bitmap, Status};

/// A name as the file system takes it (RFC 8881 §14.5).
pub(crate) fn name(bytes: &[u8]) -> Result<Name, Status> {
    Name::new(bytes).map_err(failure::status)
}

/// `change_info4`.
pub(crate) fn change_info(env: &mut Env<'_>, change: &DirectoryChange) {
    let out = &mut env.context.out;
    out.put(&change.atomic);
    out.u64(change.before.change);
    out.u64(change.after.change);
}

/// LOOKUP.
pub(crate) fn lookup(env: &mut Env<'_>, bytes: &[u8]) -> Result<Flow, Status> {
    let (current, name) = (env.current()?, name(bytes)?);
    match current {
        Place::Pseudo(node) => {
            let found = env.shared.exports.lookup(node, bytes).filter(|place| env.is_visible(*place));
            env.set_current(found.ok_or(Status::NOENT)?);
            Ok(Flow::Done)
        }
        Place::File { export, handle } => {
            let file = env.file(Status::NOTDIR)?;
            let operation = Operation::Lookup { directory: handle, name };
            env.ask(export, operation, Stage::Name(NameStage::LookingUp { file }))
        }
    }
}

/// LOOKUPP.
pub(crate) fn lookup_parent(env: &mut Env<'_>) -> Result<Flow, Status> {
    match env.current()? {
        Place::Pseudo(node) => {
            let parent = env.shared.exports.parent(node).ok_or(Status::NOENT)?;
            env.set_current(parent);
            Ok(Flow::Done)
        }
        Place::File { export, handle } if env.export(export)?.root == handle => {
            let above = env.shared.exports.above(export).ok_or(Status::NOENT)?;
            env.set_current(above);
            Ok(Flow::Done)
        }
        Place::File { export, handle } => {
            let file = env.file(Status::NOTDIR)?;
            let operation = Operation::GetAttributes { object: handle.into() };
            env.ask(export, operation, Stage::Name(NameStage::JudgingParent { file }))
        }
    }
}

/// READLINK.
pub(crate) fn read_link(env: &mut Env<'_>) -> Result<Flow, Status> {
    let file = env.file(Status::WRONG_TYPE)?;
    let operation = Operation::ReadLink { object: file.key.handle };
    env.ask(file.export, operation, Stage::Name(NameStage::ReadingLink))
}

/// CREATE.
pub(crate) fn create(env: &mut Env<'_>, kind: CreateType, bytes: &[u8], sent: &Sent) -> Result<Flow, Status> {
    env.current()?;
    let object = match kind {
        CreateType::Link(target) => NewObject::SymbolicLink(target),
        CreateType::Block(numbers) => NewObject::BlockDevice(numbers),
        CreateType::Character(numbers) => NewObject::CharacterDevice(numbers),
        CreateType::Socket => NewObject::Socket,
        CreateType::Fifo => NewObject::Fifo,
        CreateType::Directory => NewObject::Directory,
        CreateType::Other => return Err(Status::BADTYPE),
    };
    let (name, attributes) = (name(bytes)?, sent.to_set()?);
    let FileRef { export, key } = env.writable()?;
    let link = matches!(object, NewObject::SymbolicLink(_));
    let bitmap = if link { Bitmap::default() } else { sent.bitmap.intersection(&SETTABLE) };
    let (object, attributes) = (Box::new(object), Box::new(attributes));
    let operation = Operation::Make { directory: key.handle, name, object, attributes };
    env.ask(export, operation, Stage::Name(NameStage::Creating { export, bitmap }))
}

/// REMOVE.
pub(crate) fn remove(env: &mut Env<'_>, bytes: &[u8]) -> Result<Flow, Status> {
    env.current()?;
    let name = name(bytes)?;
    let file = env.writable()?;
    let operation = Operation::Remove { directory: file.key.handle, name, removal: Removal::Any };
    env.ask(file.export, operation, Stage::Name(NameStage::Removing))
}

/// RENAME: from the saved directory to the current one.
pub(crate) fn rename(env: &mut Env<'_>, from: &[u8], to: &[u8]) -> Result<Flow, Status> {
    env.current()?;
    let (from, to) = (name(from)?, name(to)?);
    let source = env.saved_file(Status::ROFS)?;
    let target = env.writable()?;
    env.may_write(source)?;
    if source.key.filesystem != target.key.filesystem {
        return Err(Status::XDEV);
    }
    let (from_directory, to_directory) = (source.key.handle, target.key.handle);
    let operation = Operation::Rename { from_directory, from, to_directory, to };
    env.ask(target.export, operation, Stage::Name(NameStage::Renaming))
}

/// LINK: the saved object, in the current directory.
pub(crate) fn link(env: &mut Env<'_>, bytes: &[u8]) -> Result<Flow, Status> {
    env.current()?;
    let name = name(bytes)?;
    let object = env.saved_file(Status::ISDIR)?;
    let directory = env.writable()?;
    if object.key.filesystem != directory.key.filesystem {
        return Err(Status::XDEV);
    }
    let operation = Operation::Link { object: object.key.handle, directory: directory.key.handle, name };
    env.ask(directory.export, operation, Stage::Name(NameStage::Linking))
}

/// SECINFO: the name must be there.
pub(crate) fn security(env: &mut Env<'_>, bytes: &[u8]) -> Result<Flow, Status> {
    let (current, name) = (env.current()?, name(bytes)?);
    match current {
        Place::Pseudo(node) => {
            let found = env.shared.exports.lookup(node, bytes).filter(|place| env.is_visible(*place));
            found.ok_or(Status::NOENT)?;
            tell_security(env);
            Ok(Flow::Done)
        }
        Place::File { export, handle } => {
            let operation = Operation::Lookup { directory: handle, name };
            env.ask(export, operation, Stage::Name(NameStage::LookingForSecurity))
        }
    }
}

/// SECINFO_NO_NAME: of the current object, or of its parent, which has the same.
pub(crate) fn security_without_name(env: &mut Env<'_>, parent: bool) -> Result<Flow, Status> {
    let current = env.current()?;
    if parent && current == env.shared.exports.root() {
        return Err(Status::NOENT);
    }
    tell_security(env);
    Ok(Flow::Done)
}

/// AUTH_SYS everywhere. The current object is consumed (RFC 8881 §18.29.3, §18.45.3).
fn tell_security(env: &mut Env<'_>) {
    env.context.out.array(&[rpc::message::Flavor::SYS.0]);
    env.context.current = None;
    env.context.current_stateid = None;
}

/// The file system has answered.
pub(crate) fn resume(env: &mut Env<'_>, stage: NameStage, input: Input) -> Result<Flow, Status> {
    if let (NameStage::LookingUp { file }, Input::File(Err(FileErrorKind::NotDirectory))) = (&stage, &input) {
        // A symbolic link has a status of its own (RFC 8881 §15.1.2.9).
        let operation = Operation::GetAttributes { object: file.key.handle.into() };
        return env.ask(file.export, operation, Stage::Name(NameStage::JudgingDirectory));
    }
    match (stage, input.outcome()?) {
        (
            NameStage::LookingUp { file: FileRef { export, .. } } | NameStage::LookingUpParent { export },
            Outcome::Found(object),
        ) => {
            let place = Place::File { export, handle: object.handle };
            env.set_current(place);
            env.context.seen = Some((place, Box::new(object.attributes)));
        }
        (NameStage::JudgingDirectory, Outcome::Attributes(attributes)) => {
            let link = attributes.file_type == FileType::SymbolicLink;
            return Err(if link { Status::SYMLINK } else { Status::NOTDIR });
        }
        (NameStage::JudgingParent { file }, Outcome::Attributes(attributes)) => {
            match attributes.file_type {
                FileType::Directory => {}
                FileType::SymbolicLink => return Err(Status::SYMLINK),
                _ => return Err(Status::NOTDIR),
            }
            let operation = Operation::LookupParent { directory: file.key.handle };
            return env.ask(
                file.export,
                operation,
                Stage::Name(NameStage::LookingUpParent { export: file.export }),
            );
        }
        (NameStage::ReadingLink, Outcome::Link(target)) => {
            // A client over RDMA may have named memory for it (RFC 8267).
            env.context.out.payload(SharedBuf::from(target).into());
        }
        (NameStage::Creating { export, bitmap }, Outcome::Created(created)) => {
            change_info(env, &created.directory);
            env.context.out.put(&bitmap);
            let place = Place::File { export, handle: created.object.handle };
            env.set_current(place);
            env.context.seen = Some((place, Box::new(created.object.attributes)));
        }
        (NameStage::Removing, Outcome::Removed(change)) => change_info(env, &change),
        (NameStage::Renaming, Outcome::Renamed { from, to }) => {
            change_info(env, &from);
            change_info(env, &to);
        }
        (NameStage::Linking, Outcome::Linked { directory, .. }) => change_info(env, &directory),
        (NameStage::LookingForSecurity, Outcome::Found(_)) => tell_security(env),
        _ => return Err(Status::SERVERFAULT),
    }
    Ok(Flow::Done)
}

/// A copy of what a handle names, for GETFH and attributes.
pub(crate) fn wire_handle(env: &Env<'_>, place: Place) -> Vec<u8> {
    env.shared.exports.handle(place)
}
