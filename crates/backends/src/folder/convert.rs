//! Between what the system says of objects and what a file system says.

use filesystem::{Attributes, Credentials, FileErrorKind, FileType, Fsid, SetTime, SpecData, Time};
use host::{Actor, DeviceNumber, NewTime, NodeKind, NodeStat, NodeTime};

fn time(time: NodeTime) -> Time {
    Time { seconds: time.seconds, nanos: time.nanos }
}

/// The system's word for a time.
pub(super) fn node_time(time: Time) -> NodeTime {
    NodeTime { seconds: time.seconds, nanos: time.nanos }
}

/// What is to become of a time.
pub(super) fn new_time(wanted: Option<SetTime>) -> NewTime {
    match wanted {
        None => NewTime::Keep,
        Some(SetTime::ToServer) => NewTime::Now,
        Some(SetTime::ToClient(time)) => NewTime::At(node_time(time)),
    }
}

/// The system's word for a device.
pub(super) fn device(device: SpecData) -> DeviceNumber {
    DeviceNumber { major: device.major, minor: device.minor }
}

fn file_type(kind: NodeKind) -> FileType {
    match kind {
        NodeKind::File => FileType::Regular,
        NodeKind::Directory => FileType::Directory,
        NodeKind::SymbolicLink => FileType::SymbolicLink,
        NodeKind::BlockDevice => FileType::BlockDevice,
        NodeKind::CharacterDevice => FileType::CharacterDevice,
        NodeKind::Fifo => FileType::Fifo,
        NodeKind::Socket => FileType::Socket,
    }
}

/// All attributes.
pub(super) fn attributes(stat: &NodeStat, fsid: Fsid, change: u64) -> Attributes {
    Attributes {
        file_type: file_type(stat.kind),
        mode: stat.mode,
        numlinks: stat.links,
        owner: stat.uid,
        owner_group: stat.gid,
        size: stat.size,
        space_used: stat.occupied,
        rawdev: SpecData { major: stat.stands_for.major, minor: stat.stands_for.minor },
        fsid,
        fileid: stat.inode,
        change,
        time_access: time(stat.accessed),
        time_modify: time(stat.modified),
        time_metadata: time(stat.changed),
        time_create: stat.made.map(time),
    }
}

/// In whose name.
pub(super) fn actor(caller: &Credentials) -> Actor<'_> {
    Actor { uid: caller.uid(), gid: caller.gid(), groups: caller.groups() }
}

/// Why something is no regular file.
pub(super) fn must_be_file(kind: NodeKind) -> Result<(), FileErrorKind> {
    match kind {
        NodeKind::File => Ok(()),
        NodeKind::Directory => Err(FileErrorKind::IsDirectory),
        NodeKind::SymbolicLink => Err(FileErrorKind::SymbolicLink),
        _ => Err(FileErrorKind::WrongType),
    }
}
