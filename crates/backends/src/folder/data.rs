//! Content of files in a served folder, as far as it blocks: what a core does not yet have open, commits, and space.

use std::sync::atomic::Ordering;

use buf::{Buf, BufList};
use filesystem::{
    CopyRange, Credentials, FileErrorKind, OpenAccess, Outcome, SeekWhat, Stability, Target, WccData,
};
use host::{DataPlace, IoError, RangeChange, WriteSync};

use super::attributes::strip_privileges;
use super::convert::must_be_file;
use super::error::{NO_DATA, kind_of};
use super::limits::COPY;
use super::shared::{Data, Shared};

type Answer = Result<Outcome, FileErrorKind>;

/// What came of a request for data, and what was opened for it.
pub(super) struct Answered {
    pub(super) outcome: Outcome,
    pub(super) data: Data,
}

/// What could not be read, and the buffer for it.
pub(super) struct Unread {
    pub(super) kind: FileErrorKind,
    pub(super) into: Buf,
}

/// Reads.
pub(super) fn read(
    shared: &Shared,
    caller: &Credentials,
    file: &Target,
    offset: u64,
    mut into: Buf,
) -> Result<Answered, Unread> {
    let fetched = shared.data_of(file, caller, OpenAccess::READ).and_then(|(node, data)| {
        let len = shared.tree.read(&data.descriptor, offset, &mut into).map_err(kind_of)?;
        let attributes = shared.attributes(&shared.tree.stat(&node.descriptor).map_err(kind_of)?);
        Ok((data, len, attributes))
    });
    match fetched {
        Ok((data, len, attributes)) => {
            into.set_len(len);
            shared.counters.bytes_read.fetch_add(len as u64, Ordering::Relaxed);
            let eof = offset.saturating_add(len as u64) >= attributes.size;
            let outcome = Outcome::Data { data: into.freeze().into(), eof, attributes: Some(attributes) };
            Ok(Answered { outcome, data })
        }
        Err(kind) => Err(Unread { kind, into }),
    }
}

/// A range of data on its way to a file.
pub(super) struct Writing<'a> {
    pub(super) file: &'a Target,
    pub(super) offset: u64,
    pub(super) data: &'a BufList,
    pub(super) stability: Stability,
}

/// Writes.
pub(super) fn write(
    shared: &Shared,
    caller: &Credentials,
    writing: &Writing<'_>,
) -> Result<Answered, FileErrorKind> {
    let Writing { file, offset, data: bytes, stability } = *writing;
    let (node, data) = shared.data_of(file, caller, OpenAccess::WRITE)?;
    let before = shared.before(&node);
    let sync = match stability {
        Stability::Unstable => WriteSync::None,
        Stability::DataSync => WriteSync::Data,
        Stability::FileSync => WriteSync::All,
    };
    // Privileges go before the data comes: nobody runs what was put there with them.
    strip_privileges(shared, caller, &node)?;
    shared
        .tree
        .write(&data.descriptor, offset, bytes, sync)
        .map_err(|error| write_failed(shared, &data, error, sync))?;
    shared.counters.bytes_written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    let after =
        if bytes.is_empty() { shared.attributes(&node.stat) } else { shared.changed(&node, &before)? };
    let file = WccData { before: Some(before), after: Some(after) };
    Ok(Answered { outcome: Outcome::Written { stability, verifier: shared.verifier(), file }, data })
}

/// What a write that failed means. A durable one may have met what others wrote and could not be written back; flushes hear of that, too, unless they share its
/// description.
pub(super) fn write_failed(shared: &Shared, data: &Data, error: IoError, sync: WriteSync) -> FileErrorKind {
    let kind = kind_of(error);
    if sync != WriteSync::None && (kind == FileErrorKind::Io || data.flushes_share()) {
        shared.lost(error);
    }
    kind
}

/// Makes a file durable. Whoever may read or write it may ask for that.
pub(super) fn commit(shared: &Shared, caller: &Credentials, file: &Target) -> Answer {
    let writes = shared.data_of(file, caller, OpenAccess::WRITE);
    let (node, data) = writes.or_else(|_| shared.data_of(file, caller, OpenAccess::READ))?;
    let before = shared.before(&node);
    let flushes = match data.flushes {
        Some(flushes) => flushes,
        None => shared.flushes(&node, &data.descriptor),
    };
    shared.flush(&flushes)?;
    let after = shared.attributes(&shared.tree.stat(&node.descriptor).map_err(kind_of)?);
    let file = WccData { before: Some(before), after: Some(after) };
    Ok(Outcome::Committed { verifier: shared.verifier(), file })
}

/// Finds data or a hole.
pub(super) fn seek(
    shared: &Shared,
    caller: &Credentials,
    file: &Target,
    offset: u64,
    what: SeekWhat,
) -> Answer {
    let (node, data) = shared.data_of(file, caller, OpenAccess::READ)?;
    let size = node.stat.size;
    if offset >= size {
        return Err(FileErrorKind::NoDevice);
    }
    let found = match what {
        SeekWhat::Data => shared.tree.seek_data(&data.descriptor, offset),
        SeekWhat::Hole => shared.tree.seek_hole(&data.descriptor, offset),
    };
    match found {
        Ok(offset) => Ok(Outcome::Sought { offset, eof: false }),
        Err(IoError(NO_DATA)) => Ok(Outcome::Sought { offset: size, eof: true }),
        Err(error) => Err(kind_of(error)),
    }
}

/// A part of a file.
#[derive(Clone, Copy)]
pub(super) struct Range {
    pub(super) offset: u64,
    pub(super) count: u64,
}

/// Reserves or releases space, durably.
pub(super) fn change_space(
    shared: &Shared,
    caller: &Credentials,
    file: &Target,
    range: Range,
    change: RangeChange,
) -> Answer {
    let (node, data) = shared.data_of(file, caller, OpenAccess::WRITE)?;
    let before = shared.before(&node);
    strip_privileges(shared, caller, &node)?;
    shared.tree.change_range(&data.descriptor, range.offset, range.count, change).map_err(kind_of)?;
    if let Some(flushes) = &data.flushes {
        shared.flush(flushes)?;
    }
    let after = Some(shared.changed(&node, &before)?);
    Ok(Outcome::Changed(Box::new(WccData { before: Some(before), after })))
}

/// Copies, not durably.
pub(super) fn copy(shared: &Shared, caller: &Credentials, copy: &CopyRange) -> Answer {
    let (from, source) = shared.data_of(&copy.from, caller, OpenAccess::READ)?;
    let (to, target) = shared.data_of(&copy.to, caller, OpenAccess::WRITE)?;
    must_be_file(from.stat.kind)?;
    let size = from.stat.size;
    let end = copy.from_offset.saturating_add(copy.count);
    if copy.from_offset > size || (copy.count > 0 && end > size) {
        return Err(FileErrorKind::Invalid);
    }
    let wanted = if copy.count == 0 { size - copy.from_offset } else { copy.count };
    let overlaps = copy.from_offset < copy.to_offset.saturating_add(wanted)
        && copy.to_offset < copy.from_offset + wanted;
    if from.handle == to.handle && overlaps {
        return Err(FileErrorKind::Invalid);
    }
    let before = shared.before(&to);
    strip_privileges(shared, caller, &to)?;
    let source = DataPlace { data: &source.descriptor, offset: copy.from_offset };
    let target = DataPlace { data: &target.descriptor, offset: copy.to_offset };
    let count = shared.tree.copy(source, target, wanted.min(COPY)).map_err(kind_of)?;
    shared.changed(&to, &before)?;
    Ok(Outcome::Copied { count, stability: Stability::Unstable, verifier: shared.verifier() })
}
