//! How large the things are that the contract speaks of.

/// Bytes of a file handle at most: NFS3_FHSIZE, which version 4 exceeds (RFC 1813 §2.4, RFC 8881 §3.1 has 128).
pub const FILE_HANDLE_BYTES: usize = 64;
/// Bytes of a file handle that a server of NFS 3 can tell: it has five of its own before them, which name the export.
pub const NFS3_HANDLE_BYTES: usize = FILE_HANDLE_BYTES - 5;
/// Bytes of a name at most: NAME_MAX of Linux, whose file systems take no longer ones.
pub const NAME_BYTES: usize = 255;
/// Bytes of a symbolic link's target at most: PATH_MAX of Linux without its terminator.
pub const LINK_BYTES: usize = 4095;
/// Groups of one caller beside its own at most. AUTH_SYS brings 16 (RFC 5531 Appendix A); a server that looks them up itself finds more, and 1,024 take 4 KiB.
pub const GROUPS: usize = 1024;
/// Bytes that an entry of a directory counts for, beside its name: XDR's fileid, cookie, length of the name, and what says that another follows (RFC 1813
/// §3.3.16); an entry of version 4 is no smaller.
pub const ENTRY_BYTES: usize = 24;
/// Bytes that an entry's attributes and handle count for: fattr3 has 84, a handle 4 and 64, and each a word that it follows (RFC 1813 §3.3.17).
pub const ENTRY_OBJECT_BYTES: usize = 160;
/// Requests that a queue of the file system in memory holds at a time, answered and not yet polled.
#[cfg(feature = "std")]
pub(crate) const DEPTH: u32 = 256;
/// Bytes of a page, the unit in which the file system in memory has content, holes and accounts.
#[cfg(feature = "std")]
pub(crate) const PAGE_BYTES: usize = 4096;
/// Bytes that an object in memory counts for beside its content, names in directories included apart: its record and its places in tables.
#[cfg(feature = "std")]
pub(crate) const INODE_BYTES: u64 = 512;
/// Bytes that a name in a directory in memory counts for beside itself: two places in tables.
#[cfg(feature = "std")]
pub(crate) const NAME_ENTRY_BYTES: u64 = 128;
/// Objects of the file system in memory that are open at a time. Whoever has more is told to come back (RFC 8881's NFS4ERR_DELAY).
#[cfg(feature = "std")]
pub(crate) const OPENS: usize = 1 << 16;
/// Links to one object in memory: as ext4 has it.
#[cfg(feature = "std")]
pub(crate) const LINKS: u32 = 65_000;
/// Bytes of the largest file in memory: offsets and their sums stay within a signed 64-bit number.
#[cfg(feature = "std")]
pub(crate) const FILE_SIZE: u64 = 1 << 62;
/// Bytes of one read or write of the file system in memory: what NFS clients ask for at most.
#[cfg(feature = "std")]
pub(crate) const TRANSFER: u32 = 1 << 20;
/// Bytes that one request copies within the memory at most: its requester asks again for the rest (RFC 7862 §15.2.3).
#[cfg(feature = "std")]
pub(crate) const COPY_BYTES: u64 = 4 << 20;
