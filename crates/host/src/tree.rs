//! A folder of the system and everything beneath it, as a backend serves it to others: objects as descriptors, operations that block, and threads to do them on.
//!
//! Nothing here follows a symbolic link or leaves the folder: names are single components, looked up in a directory that is open. Numbers of errors are the
//! system's. What blocks is for the threads of [`Tree::start`]; [`TreeQueue`] is for a core.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::Waker;

use buf::{BufList, SharedBuf};

use crate::{BlockRequest, IoError};

/// A point in time of an object: seconds since 1970, and nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct NodeTime {
    /// Seconds, rounded down.
    pub seconds: i64,
    /// Nanoseconds after them.
    pub nanos: u32,
}

/// What kind of thing an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    SymbolicLink,
    /// A block device.
    BlockDevice,
    /// A character device.
    CharacterDevice,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

/// What is known of an object (`statx`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeStat {
    /// What it is.
    pub kind: NodeKind,
    /// The lowest twelve bits of its mode.
    pub mode: u32,
    /// Names.
    pub links: u32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Bytes that it occupies.
    pub occupied: u64,
    /// Its number in its file system.
    pub inode: u64,
    /// The file system's device.
    pub device: DeviceNumber,
    /// The device that it stands for.
    pub stands_for: DeviceNumber,
    /// Last read.
    pub accessed: NodeTime,
    /// Data last changed.
    pub modified: NodeTime,
    /// Attributes last changed.
    pub changed: NodeTime,
    /// Made, where it is known.
    pub made: Option<NodeTime>,
}

/// Numbers of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DeviceNumber {
    /// Major.
    pub major: u32,
    /// Minor.
    pub minor: u32,
}

/// What a file system of the kernel's calls an object (`name_to_handle_at`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KernelHandle {
    /// How the bytes are to be read.
    pub kind: i32,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// What is known of an object that was not opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glance {
    /// What it was by the second look.
    pub stat: NodeStat,
    /// What the kernel called it by the first.
    pub handle: KernelHandle,
}

/// In whose name something is done.
#[derive(Debug, Clone, Copy)]
pub struct Actor<'a> {
    /// The user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its further groups.
    pub groups: &'a [u32],
}

/// How a file is opened for its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataAccess {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Both.
    ReadWrite,
}

/// What is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewNode<'a> {
    /// A directory.
    Directory,
    /// A symbolic link to this.
    SymbolicLink(&'a [u8]),
    /// A node of this kind, and of this device if it stands for one.
    Node(NodeKind, DeviceNumber),
}

/// A name in a directory.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    /// The directory.
    pub directory: &'a OwnedFd,
    /// The name.
    pub name: &'a [u8],
}

/// A place in a file that is open.
#[derive(Debug, Clone, Copy)]
pub struct DataPlace<'a> {
    /// The file.
    pub data: &'a OwnedFd,
    /// Where, in bytes.
    pub offset: u64,
}

/// A right that is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// To read.
    Read,
    /// To write.
    Write,
    /// To execute, or to search.
    Execute,
}

/// A time that is to be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewTime {
    /// Leave it.
    Keep,
    /// The clock's.
    Now,
    /// This.
    At(NodeTime),
}

/// What is durable when a write ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteSync {
    /// Nothing.
    None,
    /// The data (`RWF_DSYNC`).
    Data,
    /// The data and all attributes (`RWF_SYNC`).
    All,
}

/// What a range of a file becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeChange {
    /// Its space is there; the file grows if it has to.
    Reserved,
    /// A hole.
    Hole,
}

/// One entry of a directory, neither `.` nor `..`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEntry {
    /// Its name.
    pub name: Vec<u8>,
    /// The number of what it leads to.
    pub inode: u64,
    /// The position after it, as the file system has it.
    pub next: u64,
}

/// Space of the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeSpace {
    /// Bytes in all.
    pub total: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Bytes that are free for users.
    pub available: u64,
    /// Objects that there can be.
    pub files: u64,
    /// Objects that can still be made.
    pub files_free: u64,
    /// The longest name in bytes.
    pub longest_name: u32,
}

/// The folder. Unless it says otherwise, an operation is done as the calling thread's user.
pub trait Tree: Send + Sync + fmt::Debug {
    /// Where it is, for people.
    fn place(&self) -> String;
    /// The folder itself.
    fn root(&self) -> Arc<OwnedFd>;
    /// True if things can be done in others' names.
    fn acts_for_others(&self) -> bool;
    /// Does something on the calling thread in another's name.
    fn act_as(&self, actor: Actor<'_>, act: &mut dyn FnMut()) -> Result<(), IoError>;
    /// Has something done on a thread that may block. Callers bound how much waits.
    fn start(&self, work: Box<dyn FnOnce() + Send>);
    /// The data side for the calling core's thread; `waker` is woken when a completion may be ready.
    fn open_queue(&self, waker: Waker) -> Box<dyn TreeQueue>;

    /// What `name` leads to in a directory; a symbolic link itself, and nothing on another file system.
    fn find(&self, directory: &OwnedFd, name: &[u8]) -> Result<OwnedFd, IoError>;
    /// What [`Tree::find`], [`Tree::stat`] and [`Tree::kernel_handle`] would say of `name`, without opening it: by two looks, so that both are of one object only if
    /// nobody changed the directory meanwhile, which [`Tree::stamp`] tells.
    fn glance(&self, directory: &OwnedFd, name: &[u8]) -> Result<Glance, IoError>;
    /// A time that whoever changes a directory's names from now on sets as its [`changed`](NodeStat::changed) or exceeds; nothing where the file system is not
    /// known to do so. A time that is a whole microsecond may be cut off, and says nothing.
    fn stamp(&self) -> Option<NodeTime>;
    /// The directory above one, wherever that is.
    fn above(&self, directory: &OwnedFd) -> Result<OwnedFd, IoError>;
    /// What is known of an object.
    fn stat(&self, node: &OwnedFd) -> Result<NodeStat, IoError>;
    /// What the kernel calls an object.
    fn kernel_handle(&self, node: &OwnedFd) -> Result<KernelHandle, IoError>;
    /// The object that the kernel calls so, wherever in the file system it is. Needs `CAP_DAC_READ_SEARCH`.
    fn open_kernel_handle(&self, handle: &KernelHandle) -> Result<OwnedFd, IoError>;
    /// Opens a regular file for its data.
    fn open_data(&self, node: &OwnedFd, access: DataAccess) -> Result<OwnedFd, IoError>;
    /// Opens a directory to list it or to make it durable.
    fn open_directory(&self, node: &OwnedFd) -> Result<OwnedFd, IoError>;
    /// Entries after a position, zero being the beginning: as many as one look gives, and `most` at most; none at the end.
    fn list(&self, directory: &OwnedFd, position: u64, most: usize) -> Result<Vec<NodeEntry>, IoError>;
    /// The target of a symbolic link.
    fn read_link(&self, node: &OwnedFd) -> Result<Vec<u8>, IoError>;
    /// Whether the calling thread's user has a right.
    fn has_right(&self, node: &OwnedFd, right: Right) -> Result<bool, IoError>;

    /// Makes a regular file that is not there, for its owner alone.
    fn create(&self, directory: &OwnedFd, name: &[u8]) -> Result<OwnedFd, IoError>;
    /// Makes something else that is not there, for its owner alone.
    fn make(&self, directory: &OwnedFd, name: &[u8], what: NewNode<'_>) -> Result<(), IoError>;
    /// Removes a name of a file.
    fn remove_file(&self, directory: &OwnedFd, name: &[u8]) -> Result<(), IoError>;
    /// Removes an empty directory.
    fn remove_directory(&self, directory: &OwnedFd, name: &[u8]) -> Result<(), IoError>;
    /// Gives an object another name, in the place of whatever has it.
    fn rename(&self, from: Named<'_>, to: Named<'_>) -> Result<(), IoError>;
    /// Gives an object one more name.
    fn link(&self, node: &OwnedFd, directory: &OwnedFd, name: &[u8]) -> Result<(), IoError>;

    /// Sets the mode of what is no symbolic link.
    fn set_mode(&self, node: &OwnedFd, mode: u32) -> Result<(), IoError>;
    /// Sets user and group.
    fn set_owner(&self, node: &OwnedFd, uid: Option<u32>, gid: Option<u32>) -> Result<(), IoError>;
    /// Sets the times of access and modification.
    fn set_times(&self, node: &OwnedFd, access: NewTime, modify: NewTime) -> Result<(), IoError>;
    /// Sets the size of a file that is open for writing.
    fn set_size(&self, data: &OwnedFd, size: u64) -> Result<(), IoError>;

    /// Reads from a file that is open, up to its end; says how many bytes there were.
    fn read(&self, data: &OwnedFd, offset: u64, into: &mut [u8]) -> Result<usize, IoError>;
    /// Writes everything.
    fn write(&self, data: &OwnedFd, offset: u64, from: &BufList, sync: WriteSync) -> Result<(), IoError>;
    /// Where data or a hole begins at or after an offset; `ENXIO` if there is none, or nothing behind the offset.
    fn seek_data(&self, data: &OwnedFd, offset: u64) -> Result<u64, IoError>;
    /// As [`Tree::seek_data`], for holes.
    fn seek_hole(&self, data: &OwnedFd, offset: u64) -> Result<u64, IoError>;
    /// Reserves or releases space.
    fn change_range(
        &self,
        data: &OwnedFd,
        offset: u64,
        count: u64,
        change: RangeChange,
    ) -> Result<(), IoError>;
    /// Copies within the file system; says how many bytes.
    fn copy(&self, from: DataPlace<'_>, to: DataPlace<'_>, count: u64) -> Result<u64, IoError>;
    /// Makes data durable (`fdatasync`).
    fn sync_data(&self, open: &OwnedFd) -> Result<(), IoError>;
    /// Makes everything of an object durable (`fsync`).
    fn sync(&self, open: &OwnedFd) -> Result<(), IoError>;
    /// Makes everything of the file system durable (`syncfs`), for objects that cannot be opened.
    fn sync_everything(&self) -> Result<(), IoError>;
    /// Space.
    fn space(&self) -> Result<TreeSpace, IoError>;
}

/// The end of an operation of a [`TreeQueue`].
#[derive(Debug)]
pub struct TreeDone {
    /// The request's mark.
    pub tag: u64,
    /// Success, or the error.
    pub result: Result<(), IoError>,
    /// A read's memory, as long as there was data before the end of the file; or, if it failed, the buffer, its content meaning nothing.
    pub data: Option<SharedBuf>,
}

/// One core's reads and writes of files that are open, on the core's ring where it has one.
pub trait TreeQueue {
    /// Takes a read, which may end at the end of the file, or a write; gives it back when there is no room.
    fn submit(&mut self, file: &Arc<OwnedFd>, request: BlockRequest) -> Result<(), BlockRequest>;
    /// Adds all completions that are ready.
    fn poll(&mut self, done: &mut Vec<TreeDone>);
}
