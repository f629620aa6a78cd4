//! Attributes of objects: what fattr3 has, and the mandatory and usual recommended attributes of version 4 (RFC 1813 §2.5.5, RFC 8881 §5.8).

use crate::Time;

/// What an object is: ftype3, and the plain types of nfs_ftype4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileType {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A block device's node.
    BlockDevice,
    /// A character device's node.
    CharacterDevice,
    /// A symbolic link.
    SymbolicLink,
    /// A socket's node.
    Socket,
    /// A named pipe.
    Fifo,
}

/// The numbers of a device: specdata3, specdata4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SpecData {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// Names the file system that an object is in: fsid4. Version 3 takes both numbers mixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Fsid {
    /// The first number.
    pub major: u64,
    /// The second.
    pub minor: u64,
}

/// All attributes of an object, read at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// What it is.
    pub file_type: FileType,
    /// Permission bits with set-user-ID, set-group-ID and sticky bit: the lowest twelve.
    pub mode: u32,
    /// Names that lead to it.
    pub numlinks: u32,
    /// Its user.
    pub owner: u32,
    /// Its group.
    pub owner_group: u32,
    /// Bytes: of a file's content, or of a symbolic link's target.
    pub size: u64,
    /// Bytes that it occupies.
    pub space_used: u64,
    /// Which device it stands for, if it is a node of one.
    pub rawdev: SpecData,
    /// Which file system it is in.
    pub fsid: Fsid,
    /// Its number there, which no other object has while it is there.
    pub fileid: u64,
    /// A number that grows whenever its data, its entries or its attributes change, other than the time of access; also when a crash has lost changes.
    pub change: u64,
    /// When it was last read. It need not move with every read.
    pub time_access: Time,
    /// When its data or entries were last changed.
    pub time_modify: Time,
    /// When its data, entries or attributes were last changed: ctime.
    pub time_metadata: Time,
    /// When it was made, where that is known.
    pub time_create: Option<Time>,
}
