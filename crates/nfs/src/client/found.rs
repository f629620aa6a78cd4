//! What a client learns while it opens a file: its client ID, its session, the file's attributes. And where a listing of a directory is.

use alloc::vec::Vec;

use crate::v4::{Bitmap, ClientId, SessionId};

/// What EXCHANGE_ID answers (RFC 8881 §18.35).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exchanged {
    pub(super) client: ClientId,
    /// Of the next CREATE_SESSION.
    pub(super) sequence: u32,
    pub(super) flags: u32,
}

/// `channel_attrs4` as the server grants them (RFC 8881 §18.36).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Channel {
    /// Bytes of the largest call.
    pub(super) max_request: u32,
    /// Bytes of the largest reply.
    pub(super) max_response: u32,
    /// Bytes of the largest reply that is kept for a retry.
    pub(super) max_cached: u32,
    /// Operations of a COMPOUND.
    pub(super) max_operations: u32,
    /// Slots.
    pub(super) slots: u32,
}

/// What CREATE_SESSION answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SessionMade {
    pub(super) session: SessionId,
    pub(super) channel: Channel,
}

/// Attributes of the file and its file system; what the server does not tell is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct FileFacts {
    /// `nfs_ftype4`.
    pub(super) kind: Option<u32>,
    /// Bytes.
    pub(super) size: Option<u64>,
    pub(super) fsid: Option<[u64; 2]>,
    pub(super) fileid: Option<u64>,
    /// Bytes of the largest READ.
    pub(super) max_read: Option<u64>,
    /// Bytes of the largest WRITE.
    pub(super) max_write: Option<u64>,
    /// Seconds since 1970 of the last change of its data.
    pub(super) modified: Option<i64>,
}

impl FileFacts {
    pub(super) const TYPE: u32 = 1;
    pub(super) const CHANGE: u32 = 3;
    pub(super) const SIZE: u32 = 4;
    pub(super) const FSID: u32 = 8;
    /// Why the other attributes of an entry are missing (RFC 8881 §5.8.1.12).
    pub(super) const RDATTR_ERROR: u32 = 11;
    pub(super) const FILEID: u32 = 20;
    pub(super) const MAXREAD: u32 = 30;
    pub(super) const MAXWRITE: u32 = 31;
    pub(super) const MODE: u32 = 33;
    pub(super) const TIME_MODIFY: u32 = 53;
    /// NF4REG (RFC 8881 §3.2): the type of a regular file.
    pub(super) const REGULAR: u32 = 1;
    /// NF4LNK.
    pub(super) const SYMBOLIC_LINK: u32 = 5;
    /// NF4DIR.
    pub(super) const DIRECTORY: u32 = 2;

    /// What is asked for of a file that is opened (RFC 8881 §5.8.1, §5.8.2).
    pub(super) const OPENING: Bitmap =
        Bitmap::of(&[Self::TYPE, Self::SIZE, Self::FSID, Self::FILEID, Self::MAXREAD, Self::MAXWRITE]);
    /// What is asked for from time to time.
    pub(super) const LOOK: Bitmap = Bitmap::of(&[Self::SIZE]);
}

/// A name in a directory, and what it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Any bytes but `/` and zero, no more than 255 (whoever shows them to people takes care of what a terminal would obey).
    pub name: Vec<u8>,
    /// `nfs_ftype4`: 1 is a file, 2 a directory, 5 a symbolic link. Nothing if the server cannot say.
    pub kind: Option<u32>,
    /// Bytes.
    pub size: Option<u64>,
    /// Seconds since 1970 of the last change of its data.
    pub modified: Option<i64>,
}

/// Where a listing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Listed {
    /// Names in this answer.
    pub entries: u32,
    /// There are no more.
    pub at_end: bool,
    pub(crate) cookie: u64,
    pub(crate) verifier: [u8; 8],
}
