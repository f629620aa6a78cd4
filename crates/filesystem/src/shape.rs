//! The checks that every local file system makes of a request before it does anything.

use crate::{CreateHow, Features, FileErrorKind, Limits, NewObject, Operation, SetAttributes, SetTime};

/// The largest permission bits.
const MODES: u32 = 0o7777;
/// Nanoseconds of a second.
const SECOND: u32 = 1_000_000_000;

/// Says whether `operation` fits a file system of this shape. One that checks this first never sees a request that makes no sense.
pub fn check(operation: &Operation, limits: &Limits, features: Features) -> Result<(), FileErrorKind> {
    if operation.changes() && features.contains(Features::READ_ONLY) {
        return Err(FileErrorKind::ReadOnly);
    }
    supported(operation, features)?;
    match operation {
        Operation::SetAttributes { attributes, .. } => check_attributes(attributes, limits),
        Operation::Create { how, .. } => check_how(how, limits),
        Operation::Make { object, attributes, .. } => check_object(object, attributes, limits),
        Operation::Read { into, offset, .. } => {
            let fits = into.len() <= limits.max_read as usize && end(*offset, into.len() as u64).is_some();
            if fits { Ok(()) } else { Err(FileErrorKind::Invalid) }
        }
        Operation::Write { data, offset, .. } => {
            if data.len() > limits.max_write as usize {
                return Err(FileErrorKind::Invalid);
            }
            within(*offset, data.len() as u64, limits)
        }
        Operation::Allocate { offset, count, .. } => {
            range(*offset, *count).and_then(|()| within(*offset, *count, limits))
        }
        Operation::Deallocate { offset, count, .. } => range(*offset, *count),
        Operation::Copy(copy) => {
            if end(copy.from_offset, copy.count).is_none() {
                return Err(FileErrorKind::Invalid);
            }
            within(copy.to_offset, copy.count, limits)
        }
        _ => Ok(()),
    }
}

fn supported(operation: &Operation, features: Features) -> Result<(), FileErrorKind> {
    let needed = match operation {
        Operation::Link { .. } => Features::LINKS,
        Operation::Allocate { .. } => Features::ALLOCATE,
        Operation::Deallocate { .. } => Features::DEALLOCATE,
        Operation::Seek { .. } => Features::SEEK,
        Operation::Copy(_) => Features::COPY,
        Operation::Make { object, .. } => match **object {
            NewObject::SymbolicLink(_) => Features::SYMBOLIC_LINKS,
            NewObject::BlockDevice(_) | NewObject::CharacterDevice(_) => Features::DEVICES,
            _ => return Ok(()),
        },
        _ => return Ok(()),
    };
    if features.contains(needed) { Ok(()) } else { Err(FileErrorKind::NotSupported) }
}

/// The last byte that may be written, plus one; within what offsets of systems are.
fn end(offset: u64, count: u64) -> Option<u64> {
    offset.checked_add(count).filter(|end| i64::try_from(*end).is_ok())
}

fn range(offset: u64, count: u64) -> Result<(), FileErrorKind> {
    // RFC 7862 §15.1 and §15.4 leave an empty range to the server; Linux refuses it.
    if count > 0 && end(offset, count).is_some() { Ok(()) } else { Err(FileErrorKind::Invalid) }
}

fn within(offset: u64, count: u64, limits: &Limits) -> Result<(), FileErrorKind> {
    let fits = end(offset, count).is_some_and(|end| end <= limits.max_file_size);
    if fits { Ok(()) } else { Err(FileErrorKind::FileTooBig) }
}

fn check_attributes(attributes: &SetAttributes, limits: &Limits) -> Result<(), FileErrorKind> {
    if attributes.mode.is_some_and(|mode| mode > MODES) {
        return Err(FileErrorKind::Invalid);
    }
    let times = [attributes.time_access, attributes.time_modify];
    let odd = |time: &SetTime| matches!(time, SetTime::ToClient(time) if time.nanos >= SECOND);
    if times.iter().flatten().any(odd) {
        return Err(FileErrorKind::Invalid);
    }
    if attributes.owner == Some(u32::MAX) || attributes.owner_group == Some(u32::MAX) {
        // Systems take it for "leave it as it is".
        return Err(FileErrorKind::Invalid);
    }
    within(attributes.size.unwrap_or(0), 0, limits)
}

fn check_how(how: &CreateHow, limits: &Limits) -> Result<(), FileErrorKind> {
    match how {
        CreateHow::Unchecked(attributes) | CreateHow::Guarded(attributes) => {
            check_attributes(attributes, limits)
        }
        CreateHow::Exclusive { attributes, .. } => {
            let kept = attributes.time_access.is_none()
                && attributes.time_modify.is_none()
                && attributes.size.is_none();
            if kept { check_attributes(attributes, limits) } else { Err(FileErrorKind::Invalid) }
        }
    }
}

fn check_object(
    object: &NewObject,
    attributes: &SetAttributes,
    limits: &Limits,
) -> Result<(), FileErrorKind> {
    if let NewObject::SymbolicLink(target) = object {
        if target.is_empty() || target.contains(&0) {
            return Err(FileErrorKind::Invalid);
        }
        if target.len() > limits.max_link_text as usize {
            return Err(FileErrorKind::NameTooLong);
        }
    }
    if attributes.size.is_some() {
        return Err(FileErrorKind::Invalid);
    }
    check_attributes(attributes, limits)
}
