//! What a caller may do with an object.

use bitflags::bitflags;

bitflags! {
    /// Rights that are asked for and granted, with the bits of ACCESS (RFC 1813 §3.3.4, RFC 8881 §18.1).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Access: u32 {
        /// Read a file's data, or a directory.
        const READ = 0x01;
        /// Look a name up in a directory.
        const LOOKUP = 0x02;
        /// Rewrite a file's data, or change entries of a directory.
        const MODIFY = 0x04;
        /// Write new data, or add entries to a directory.
        const EXTEND = 0x08;
        /// Delete an entry of a directory.
        const DELETE = 0x10;
        /// Execute a file.
        const EXECUTE = 0x20;
    }
}

bitflags! {
    /// For what an object is opened: share_access of OPEN (RFC 8881 §18.16).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct OpenAccess: u32 {
        /// Reading.
        const READ = 1;
        /// Writing.
        const WRITE = 2;
        /// Both.
        const BOTH = 3;
    }
}
