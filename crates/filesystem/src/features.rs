//! What a file system is and can do.

use alloc::string::String;
use bitflags::bitflags;

use crate::{Fsid, Time};

bitflags! {
    /// What a file system can do; what is missing ends with [`FileErrorKind::NotSupported`](crate::FileErrorKind::NotSupported).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Features: u32 {
        /// It takes no changes.
        const READ_ONLY = 1 << 0;
        /// An object may have several names.
        const LINKS = 1 << 1;
        /// It has symbolic links.
        const SYMBOLIC_LINKS = 1 << 2;
        /// Nodes of devices can be made, by user 0.
        const DEVICES = 1 << 3;
        /// Space can be reserved (ALLOCATE, RFC 7862 §15.1).
        const ALLOCATE = 1 << 4;
        /// Space can be released (DEALLOCATE, RFC 7862 §15.4).
        const DEALLOCATE = 1 << 5;
        /// Data and holes can be found (SEEK, RFC 7862 §15.11). Without it a file is all data.
        const SEEK = 1 << 6;
        /// Ranges are copied within it (COPY, RFC 7862 §15.2).
        const COPY = 1 << 7;
        /// Requests are carried out, and permissions judged, in the caller's name. Without it everything is done as one user, whoever asks.
        const CALLER_IDENTITY = 1 << 8;
        /// Handles outlive the process.
        const PERSISTENT_HANDLES = 1 << 9;
        /// Objects tell when they were made.
        const TIME_CREATE = 1 << 10;
        /// [`DirectoryChange::atomic`](crate::DirectoryChange::atomic) is true of this file system's answers.
        const ATOMIC_CHANGE = 1 << 11;
    }
}

/// What requests may look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests that a queue holds at a time.
    pub depth: u32,
    /// Bytes of one read.
    pub max_read: u32,
    /// Bytes of one write.
    pub max_write: u32,
    /// Bytes of a name.
    pub max_name: u32,
    /// Bytes of a symbolic link's target.
    pub max_link_text: u32,
    /// Links to one object.
    pub max_links: u32,
    /// Bytes of a file: maxfilesize.
    pub max_file_size: u64,
    /// The finest difference between two times: time_delta.
    pub time_delta: Time,
}

/// What a file system says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Where it is, for people.
    pub place: String,
    /// Its name among file systems, which every object's attributes repeat. It outlives the process as handles do.
    pub fsid: Fsid,
}
