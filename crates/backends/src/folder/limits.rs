//! How much a served folder takes on.

/// Requests that a queue holds at a time; more are refused with `QueueFull`. Each that may block waits for one of the process' file threads.
pub(super) const DEPTH: u32 = 256;
/// Bytes of one read or write: what NFS clients ask for at most.
pub(super) const TRANSFER: u32 = 1 << 20;
/// Objects that are open for clients at a time, of all cores. Each has a descriptor; more are told to come back (NFS4ERR_DELAY).
pub(super) const OPENS: usize = 16_384;
/// Files that a core keeps open for reads and writes that name no open; with more it forgets all and begins again.
pub(super) const CORE_FILES: usize = 256;
/// Callers whose permission for one file a core remembers.
pub(super) const CORE_CALLERS: usize = 8;
/// How long a core believes that a caller may read or write a file, when local processes change its mode. What clients change counts at once.
pub(super) const PERMISSION_AGE: std::time::Duration = std::time::Duration::from_secs(1);
/// Files whose flushes keep a descriptor of their own, so that no failure to write back goes unnoticed. Of more, those that nobody uses are flushed and closed.
pub(super) const WRITTEN_FILES: usize = 1024;
/// Directories that stay open while they are used; with more all are closed and it begins again.
pub(super) const DIRECTORIES: usize = 256;
/// Objects of whom is remembered that their change attribute is ahead of their time of change.
pub(super) const CHANGES: usize = 4096;
/// Directories from one of the folder's up to its root. A deeper one is taken to lie outside.
pub(super) const DEPTH_OF_DIRECTORIES: usize = 4096;
/// Bytes of the longest kernel handle that fits into ours, with its type and its authentication code, so that NFS 3 can tell it.
pub(super) const KERNEL_HANDLE: usize = filesystem::NFS3_HANDLE_BYTES - HANDLE_HEAD - HANDLE_CODE;
/// Bytes of a handle before the kernel's: the kernel's type.
pub(super) const HANDLE_HEAD: usize = 4;
/// Bytes of a handle's authentication code: a guess succeeds once in 2^128.
pub(super) const HANDLE_CODE: usize = 16;
/// Objects that handles were given for, where the kernel's handles may not be opened: some 100 bytes of memory each. Handles of more are refused.
pub(super) const TABLE_ENTRIES: u32 = 1 << 18;
/// Names of one file that the table keeps: a file that is found by none of them is stale until it is looked up.
pub(super) const PLACES: usize = 8;
/// Entries of one record of that table. The longest name makes them 150 KB, which each new object writes anew.
pub(super) const RECORD_ENTRIES: u32 = 512;
/// Bytes of the key of handles.
pub(super) const KEY: usize = 32;
/// Bytes of one copy: long enough for the file system to share extents, short enough for the thread.
pub(super) const COPY: u64 = 16 << 20;
/// Entries of one look at a directory at most.
pub(super) const ENTRIES: usize = 1024;
