//! Entries of directories.

use alloc::vec::Vec;

use crate::limits::ENTRY_BYTES;
use crate::{Attributes, FileHandle, Name};

/// A place in a directory, after some entry. It stays valid while the directory changes: whoever reads on from it sees each entry that is there all
/// the while exactly once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cookie(pub u64);

impl Cookie {
    /// The beginning. The next two are free for the server's `.` and `..` (RFC 8881 §18.23.3): no entry has them.
    pub const START: Self = Self(0);
    /// The lowest of an entry.
    pub const FIRST: Self = Self(3);
}

/// Says for which listing of a directory cookies are valid: cookieverf3, verifier4. All zeros belong to [`Cookie::START`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CookieVerifier(pub [u8; 8]);

/// What an entry leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryObject {
    /// Its handle.
    pub handle: FileHandle,
    /// Its attributes.
    pub attributes: Attributes,
}

/// One entry. `.` and `..` are never among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The place after it.
    pub cookie: Cookie,
    /// The number of what it leads to.
    pub fileid: u64,
    /// Its name.
    pub name: Name,
    /// What it leads to, if that was asked for and it was still there.
    pub object: Option<EntryObject>,
}

/// A part of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Entries in the order of the directory.
    pub entries: Vec<Entry>,
    /// For which listing their cookies are.
    pub verifier: CookieVerifier,
    /// Nothing follows.
    pub eof: bool,
    /// The directory itself.
    pub directory: Option<Attributes>,
}

/// Bytes that an entry counts for against the bound of a request: about what it takes on the wire. What it leads to takes
/// [`ENTRY_OBJECT_BYTES`](crate::ENTRY_OBJECT_BYTES) more, if that is asked for.
pub fn entry_bytes(name: &Name) -> usize {
    ENTRY_BYTES + name.as_bytes().len().next_multiple_of(4)
}
