//! Requests to a file system, and their completions.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use buf::{Buf, BufList};

use crate::{
    Access, Attributes, Cookie, CookieVerifier, Credentials, DirectoryChange, FileErrorKind, FileHandle,
    Name, OpenAccess, Page, SetAttributes, SpecData, Stability, Time, WccData, WriteVerifier,
};

/// Names a request within one queue, until it has completed. The submitter chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(pub u64);

/// Names an object that is open. It is valid on every queue of its file system until it is closed, or the process ends; none is given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpenId(pub u64);

/// The object of an operation on data or attributes, and how it was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Its handle.
    pub file: FileHandle,
    /// It is open: the permission to read or write was judged when it was opened, and is not judged again. An open that is unknown, or is of another
    /// object, ends with [`FileErrorKind::Stale`]; one that is not open for this, with [`FileErrorKind::Access`].
    pub open: Option<OpenId>,
}

impl From<FileHandle> for Target {
    fn from(file: FileHandle) -> Self {
        Self { file, open: None }
    }
}

/// What a client names an exclusive creation by: createverf3, verifier4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExclusiveVerifier(pub [u8; 8]);

/// What happens if the name is there: createhow3 (RFC 1813 §3.3.8), createhow4 (RFC 8881 §18.16).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateHow {
    /// A regular file that is there is taken. Of the attributes, only the size is then set, and only to zero.
    Unchecked(SetAttributes),
    /// It ends with [`FileErrorKind::Exists`].
    Guarded(SetAttributes),
    /// A file that was made with the same verifier is taken, so that the request can be repeated, also after a crash; any other ends with
    /// [`FileErrorKind::Exists`]. The verifier is kept until attributes are set.
    Exclusive {
        /// The verifier.
        verifier: ExclusiveVerifier,
        /// Attributes of the new file (EXCLUSIVE4_1; none in version 3). Its times and size cannot be among them:
        /// [`FileErrorKind::Invalid`].
        attributes: SetAttributes,
    },
}

/// An object that is no regular file, to be made: MKDIR, SYMLINK and MKNOD of version 3, createtype4.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewObject {
    /// A directory.
    Directory,
    /// A symbolic link to this, which nobody looks into.
    SymbolicLink(Vec<u8>),
    /// A block device's node.
    BlockDevice(SpecData),
    /// A character device's node.
    CharacterDevice(SpecData),
    /// A socket's node.
    Socket,
    /// A named pipe.
    Fifo,
}

/// What may be removed: REMOVE and RMDIR of version 3 are two operations, version 4 has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Anything but a directory.
    File,
    /// A directory, which must be empty.
    Directory,
    /// Either.
    Any,
}

/// What is looked for: data_content4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeekWhat {
    /// Data.
    Data,
    /// A hole; the end of the file counts as one.
    Hole,
}

/// The ranges of an [`Operation::Copy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyRange {
    /// The source.
    pub from: Target,
    /// Where in it, in bytes.
    pub from_offset: u64,
    /// The destination.
    pub to: Target,
    /// Where in it, in bytes.
    pub to_offset: u64,
    /// Bytes; zero means up to the source's end (RFC 7862 §15.2.3).
    pub count: u64,
}

/// What a request asks for. Every operation on a `directory` ends with [`FileErrorKind::NotDirectory`] if that is none.
#[derive(Debug)]
pub enum Operation {
    /// Find a name. A symbolic link is found itself.
    Lookup {
        /// Where.
        directory: FileHandle,
        /// What.
        name: Name,
    },
    /// Find the parent of a directory. The root has none: [`FileErrorKind::NoEntry`].
    LookupParent {
        /// Of which.
        directory: FileHandle,
    },
    /// Tell all attributes. Whoever has the handle may ask.
    GetAttributes {
        /// Of what.
        object: Target,
    },
    /// Set attributes, all or none.
    SetAttributes {
        /// Of what.
        object: Target,
        /// Do so only if this is the object's [`Attributes::time_metadata`]; otherwise [`FileErrorKind::NotSync`].
        guard: Option<Time>,
        /// Which.
        attributes: SetAttributes,
    },
    /// Tell which of these rights the caller has.
    Access {
        /// On what.
        object: FileHandle,
        /// Rights that are asked for.
        access: Access,
    },
    /// Tell the target of a symbolic link.
    ReadLink {
        /// Which.
        object: FileHandle,
    },
    /// Fill `into` from `offset`, as far as the file goes.
    Read {
        /// What.
        file: Target,
        /// Where, in bytes.
        offset: u64,
        /// Memory; its length is what is asked for.
        into: Buf,
    },
    /// Write `data`, whole or not at all as far as the answer goes; a write that fails may have written some.
    Write {
        /// What.
        file: Target,
        /// Where, in bytes.
        offset: u64,
        /// The data, read-only until completion.
        data: BufList,
        /// When it counts as done.
        stability: Stability,
    },
    /// Make unstable writes of the range durable, whoever wrote them.
    Commit {
        /// What.
        file: Target,
        /// Where, in bytes.
        offset: u64,
        /// Bytes; zero means up to the end.
        count: u64,
    },
    /// Make a regular file, or take one that is there.
    Create {
        /// Where.
        directory: FileHandle,
        /// Its name.
        name: Name,
        /// What if it is there.
        how: Box<CreateHow>,
        /// Open it, too, in the same step: nobody can remove it in between. Whoever has made it may open it for anything.
        open: Option<OpenAccess>,
    },
    /// Make something else.
    Make {
        /// Where.
        directory: FileHandle,
        /// Its name.
        name: Name,
        /// What.
        object: Box<NewObject>,
        /// Its attributes; a symbolic link's are passed over.
        attributes: Box<SetAttributes>,
    },
    /// Remove a name, and its object with its last name, unless it is open.
    Remove {
        /// Where.
        directory: FileHandle,
        /// What.
        name: Name,
        /// What it may be.
        removal: Removal,
    },
    /// Give an object another name, in the place of whatever has that name.
    Rename {
        /// Where it is.
        from_directory: FileHandle,
        /// What it is called.
        from: Name,
        /// Where it will be.
        to_directory: FileHandle,
        /// What it will be called.
        to: Name,
    },
    /// Give an object one more name.
    Link {
        /// What. A directory ends with [`FileErrorKind::IsDirectory`].
        object: FileHandle,
        /// Where.
        directory: FileHandle,
        /// The name.
        name: Name,
    },
    /// List a directory.
    ReadDirectory {
        /// Which.
        directory: FileHandle,
        /// After which entry to begin.
        cookie: Cookie,
        /// The verifier that came with that cookie.
        verifier: CookieVerifier,
        /// Entries that are told take no more than this, by [`entry_bytes`](crate::entry_bytes), and
        /// [`ENTRY_OBJECT_BYTES`](crate::ENTRY_OBJECT_BYTES) each with what they lead to. If not even one fits that is there:
        /// [`FileErrorKind::Invalid`] (TOOSMALL of the protocols).
        max_bytes: u32,
        /// Tell of each what it leads to.
        with_objects: bool,
    },
    /// Tell how much space there is for the caller.
    GetSpace,
    /// Find data or a hole, from an offset on.
    Seek {
        /// Where in what.
        file: Target,
        /// From where, in bytes; at the end or beyond: [`FileErrorKind::NoDevice`].
        offset: u64,
        /// What to look for.
        what: SeekWhat,
    },
    /// Reserve space, so that writes of the range find some. The file grows if the range reaches beyond its end.
    Allocate {
        /// In what.
        file: Target,
        /// Where, in bytes.
        offset: u64,
        /// Bytes.
        count: u64,
    },
    /// Release the space of a range, which then reads as zeros. The size stays.
    Deallocate {
        /// In what.
        file: Target,
        /// Where, in bytes.
        offset: u64,
        /// Bytes.
        count: u64,
    },
    /// Copy data within the file system. Ranges of one file that overlap end with [`FileErrorKind::Invalid`].
    Copy(Box<CopyRange>),
    /// Open an object, which then lives until it is closed, whatever happens to its names.
    Open {
        /// A regular file; otherwise [`FileErrorKind::IsDirectory`], [`FileErrorKind::SymbolicLink`] or [`FileErrorKind::WrongType`].
        file: FileHandle,
        /// What for, which the caller must be allowed.
        access: OpenAccess,
    },
    /// Close what was opened. Unstable writes stay as they are.
    Close {
        /// Which.
        open: OpenId,
    },
}

/// One request.
#[derive(Debug)]
pub struct Request {
    /// Comes back with the completion.
    pub tag: Tag,
    /// Who asks.
    pub credentials: Arc<Credentials>,
    /// For what.
    pub operation: Operation,
}

impl Request {
    /// Its end, if it failed before it was begun: a read's buffer goes back.
    pub fn failed(self, kind: FileErrorKind) -> Completion {
        Completion { tag: self.tag, result: Err(Failure::of(self.operation, kind)) }
    }
}

/// An object with its attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object {
    /// Its handle.
    pub handle: FileHandle,
    /// Its attributes.
    pub attributes: Attributes,
}

/// What a creation came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Created {
    /// The object.
    pub object: Object,
    /// False if it was there before.
    pub is_new: bool,
    /// The directory.
    pub directory: DirectoryChange,
    /// It is open, if that was asked for.
    pub open: Option<OpenId>,
}

/// Space of a file system: FSSTAT (RFC 1813 §3.3.18), and the attributes space_… and files_… (RFC 8881 §5.8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes in all.
    pub space_total: u64,
    /// Bytes that are free.
    pub space_free: u64,
    /// Bytes that are free for the caller.
    pub space_avail: u64,
    /// Objects that there can be.
    pub files_total: u64,
    /// Objects that there can be beside those that there are.
    pub files_free: u64,
    /// Those of them that the caller can make.
    pub files_avail: u64,
}

/// What a successful request answers.
#[derive(Debug)]
pub enum Outcome {
    /// It is done: a close.
    Done,
    /// What a lookup found.
    Found(Box<Object>),
    /// Attributes.
    Attributes(Box<Attributes>),
    /// The object before and after: attributes that were set, space that was reserved or released.
    Changed(Box<WccData>),
    /// The rights of those asked for that the caller has.
    Access(Access),
    /// The target of a symbolic link.
    Link(Vec<u8>),
    /// Data that was read.
    Data {
        /// As much as there was: less than asked for only at the end of the file. If the file system did not lend memory, it is the request's own buffer,
        /// in one piece.
        data: BufList,
        /// It reaches the end of the file.
        eof: bool,
        /// The file afterwards, where that costs nothing.
        attributes: Option<Attributes>,
    },
    /// All of the data is written.
    Written {
        /// How durable it is: what was asked for, or more.
        stability: Stability,
        /// Moves when unstable writes were lost.
        verifier: WriteVerifier,
        /// The file before and after, where that costs nothing.
        file: WccData,
    },
    /// The range is durable.
    Committed {
        /// Those whose unstable writes got the same are safe.
        verifier: WriteVerifier,
        /// The file before and after, where that costs nothing.
        file: WccData,
    },
    /// Something was made, or taken.
    Created(Box<Created>),
    /// A name was removed.
    Removed(Box<DirectoryChange>),
    /// Two names were changed.
    Renamed {
        /// Where it was.
        from: Box<DirectoryChange>,
        /// Where it is.
        to: Box<DirectoryChange>,
    },
    /// A name was added.
    Linked {
        /// The object, which has one more.
        object: Box<Attributes>,
        /// Where.
        directory: Box<DirectoryChange>,
    },
    /// A part of a directory.
    Page(Box<Page>),
    /// Space.
    Space(Box<Space>),
    /// What was looked for.
    Sought {
        /// Where it begins, in bytes.
        offset: u64,
        /// Nothing of what was looked for is there up to the end; `offset` is then the file's size. (sr_eof)
        eof: bool,
    },
    /// Data was copied.
    Copied {
        /// Bytes: as many as asked for, or fewer. None only at the source's end.
        count: u64,
        /// How durable it is.
        stability: Stability,
        /// As with a write.
        verifier: WriteVerifier,
    },
    /// The object is open.
    Opened {
        /// What it is called from now on.
        open: OpenId,
        /// Its attributes.
        attributes: Box<Attributes>,
    },
}

/// The end of a request that failed.
#[derive(Debug)]
pub struct Failure {
    /// Why.
    pub kind: FileErrorKind,
    /// The buffer that a read was to fill; its content means nothing. `None` for other operations.
    pub memory: Option<Buf>,
}

impl Failure {
    /// The failure of an operation that was not begun.
    pub fn of(operation: Operation, kind: FileErrorKind) -> Self {
        let memory = match operation {
            Operation::Read { into, .. } => Some(into),
            _ => None,
        };
        Self { kind, memory }
    }
}

impl From<FileErrorKind> for Failure {
    fn from(kind: FileErrorKind) -> Self {
        Self { kind, memory: None }
    }
}

/// The end of a request. Every submitted request completes exactly once.
#[derive(Debug)]
pub struct Completion {
    /// The request's tag.
    pub tag: Tag,
    /// Success, or why not.
    pub result: Result<Outcome, Failure>,
}

impl Completion {
    /// What the request came to; memory that a failure brought is released.
    pub fn outcome(self) -> Result<Outcome, FileErrorKind> {
        self.result.map_err(|failure| failure.kind)
    }
}

/// The queue is at its depth; the request comes back untouched.
#[derive(Debug)]
pub struct QueueFull(pub Request);

impl Operation {
    /// True when the operation changes content, names or attributes.
    pub const fn changes(&self) -> bool {
        matches!(
            self,
            Self::SetAttributes { .. }
                | Self::Write { .. }
                | Self::Create { .. }
                | Self::Make { .. }
                | Self::Remove { .. }
                | Self::Rename { .. }
                | Self::Link { .. }
                | Self::Allocate { .. }
                | Self::Deallocate { .. }
                | Self::Copy(_)
        )
    }
}
