//! Files and block devices as the backends see them: opened by path, used through a queue per core.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use buf::{Buf, BufList, SharedBuf};

/// A failed operation of the outside world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoError(
    /// The system's error number (`errno`), positive.
    pub i32,
);

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", std::io::Error::from_raw_os_error(self.0))
    }
}

impl std::error::Error for IoError {}

/// How a file is to be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// Reading only, or writing too.
    pub mode: OpenMode,
    /// Bypass the page cache (`O_DIRECT`).
    pub direct: bool,
    /// Create the file, or grow it, so that it has this many bytes; `None` takes it as it is. A file is never shrunk.
    pub size: Option<u64>,
}

/// Whether writes are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OpenMode {
    /// Reads and writes.
    #[default]
    ReadWrite,
    /// Reads only.
    ReadOnly,
}

/// What kind of thing a path named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    /// A regular file.
    File,
    /// A block device.
    Device,
}

/// What is known of an opened file or device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockInfo {
    /// Kind.
    pub kind: BlockKind,
    /// Bytes.
    pub size: u64,
    /// Offsets, lengths and memory must be multiples of this many bytes; 1 when they need not be.
    pub alignment: u32,
    /// The device's logical sector size in bytes (512 for a file).
    pub logical_block: u32,
    /// The device's physical sector size in bytes (the file system's block for a file).
    pub physical_block: u32,
    /// Space can be released: holes punched, blocks discarded so that they read as zeros.
    pub can_discard: bool,
    /// Ranges can be zeroed without writing data.
    pub can_zero: bool,
    /// Writes lie in the system's page cache: when it cannot write them back, it tells whoever flushes next, once, and forgets
    /// them. Otherwise each write tells of its own failure.
    pub page_cache: bool,
}

/// Opens files and devices by path.
pub trait Storage: Send + Sync {
    /// Opens `path`. May block: it is a control operation.
    fn open(&self, path: &str, options: OpenOptions) -> Result<Arc<dyn BlockFile>, IoError>;
}

/// An opened file or device, shared by all cores.
pub trait BlockFile: Send + Sync + fmt::Debug {
    /// What is known of it, now.
    fn info(&self) -> BlockInfo;
    /// The data side for the calling core's thread. `waker` is woken when a completion may be ready.
    fn open_queue(&self, waker: Waker) -> Result<Box<dyn BlockQueue>, IoError>;
}

/// What to do with a file.
#[derive(Debug)]
pub enum BlockOperation {
    /// Fill `into` from `offset`.
    Read {
        /// Byte offset.
        offset: u64,
        /// Memory; its length is the length of the read.
        into: Buf,
    },
    /// Write `data` at `offset`.
    Write {
        /// Byte offset.
        offset: u64,
        /// Data.
        data: BufList,
        /// Complete only once it is on stable media (`RWF_DSYNC`).
        durable: bool,
    },
    /// Make completed writes durable (`fdatasync`). A queue has one under way at most: the system tells of an error once, to one
    /// of those that ask together. What any flush of the file was told, every later one is told again, on whatever queue.
    Flush,
    /// Release the range; it reads as zeros afterwards.
    Discard {
        /// Byte offset.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Zero the range, keeping its space.
    Zero {
        /// Byte offset.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Find where data or a hole begins and ends (`SEEK_DATA`, `SEEK_HOLE`): see [`BlockDone::run`].
    Seek {
        /// Byte offset to begin at.
        offset: u64,
    },
}

/// One operation with its mark.
#[derive(Debug)]
pub struct BlockRequest {
    /// Comes back with the completion.
    pub tag: u64,
    /// What to do.
    pub operation: BlockOperation,
}

/// The end of an operation.
#[derive(Debug)]
pub struct BlockDone {
    /// The request's mark.
    pub tag: u64,
    /// Success, whole, or the error. A short transfer was continued or is an error; it is never a success.
    pub result: Result<(), IoError>,
    /// A read's memory: what was read, or, if it failed, the buffer that it was to fill, its content meaning nothing.
    pub data: Option<SharedBuf>,
    /// A seek's answer: bytes from the offset to the end of the run, and whether it is data.
    pub run: Option<(u64, bool)>,
}

/// One core's data side of a file.
pub trait BlockQueue {
    /// Takes a request, or gives it back when there is no room.
    fn submit(&mut self, request: BlockRequest) -> Result<(), BlockRequest>;
    /// Adds all completions that are ready.
    fn poll(&mut self, done: &mut Vec<BlockDone>);
}
